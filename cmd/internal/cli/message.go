package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/internal/apiconv"
)

// ParseMessage parses a message in protojson, whose durations may also be such as "3h". A
// field that the API does not know is an error, and is not silently ignored.
func ParseMessage(text []byte, message proto.Message) error {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // Some editors put a byte order mark first.
	switch start := bytes.TrimSpace(text); {
	case len(start) == 0:
		return errors.New("the input is empty")
	case bytes.IndexByte(start, 0) >= 0:
		return errors.New("the input has NUL bytes; must be text in UTF-8, or in UTF-16 with a byte order mark")
	case start[0] != '{':
		return errors.New("the input is not an object in JSON, {…}")
	}
	m := messageText{
		root:   message.ProtoReflect().Descriptor(),
		fields: make(map[string]protoreflect.FieldDescriptor), messages: make(map[string]protoreflect.MessageDescriptor),
	}
	m.add(m.root)
	m.text = m.plainDurations(text)
	if err := protojson.Unmarshal(m.text, message); err != nil {
		return m.explain(err)
	}
	return nil
}

// messageText is the text of a message.
type messageText struct {
	root protoreflect.MessageDescriptor
	// fields are those of the message and of all within it, by the two names that each has in
	// protojson; nil where two of one name differ in their type.
	fields map[string]protoreflect.FieldDescriptor
	// messages are the types of those that are messages.
	messages map[string]protoreflect.MessageDescriptor
	// text has durations as protojson wants them.
	text []byte
}

func (m *messageText) add(message protoreflect.MessageDescriptor) {
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		value := field
		if other, known := m.fields[field.JSONName()]; known {
			if other == nil || other.Kind() == field.Kind() && other.Message() == field.Message() && other.IsList() == field.IsList() {
				continue
			}
			value = nil
		}
		m.fields[field.JSONName()], m.fields[field.TextName()] = value, value
		if inner := field.Message(); inner != nil && !isDuration(field) {
			m.messages[field.JSONName()], m.messages[field.TextName()] = inner, inner
			m.add(inner)
		}
	}
}

func isDuration(field protoreflect.FieldDescriptor) bool {
	return field != nil && field.Message() != nil && field.Message().FullName() == "google.protobuf.Duration"
}

// plainDurations returns a text with its durations as protojson wants them, "10800s" for
// "3h".
func (m *messageText) plainDurations(text []byte) []byte {
	pair := regexp.MustCompile(`"(\w+)"\s*:\s*("[^"\\]*")`)
	return pair.ReplaceAllFunc(text, func(entry []byte) []byte {
		parts := pair.FindSubmatch(entry)
		var value string
		if !isDuration(m.fields[string(parts[1])]) || json.Unmarshal(parts[2], &value) != nil {
			return entry
		}
		duration, err := parseDuration(value)
		if err != nil || protojson.Unmarshal(parts[2], new(durationpb.Duration)) == nil {
			return entry
		}
		seconds, err := protojson.Marshal(durationpb.New(duration))
		if err != nil {
			return entry
		}
		return slices.Concat(bytes.TrimSuffix(entry, parts[2]), seconds)
	})
}

// explain adds to an error of protojson what is wanted where it stands. Its columns are left
// out: they are those of the text with plain durations.
func (m *messageText) explain(err error) error {
	// The library varies the space after its prefix to keep its texts from being relied on.
	said := strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
	place := regexp.MustCompile(`\(line (\d+):\d+\)`)
	line, column := 0, 0
	if n, _ := fmt.Sscanf(place.FindString(said), "(line %d:%d)", &line, &column); n < 2 {
		return errors.New(said)
	}
	lines := strings.SplitAfter(string(m.text), "\n")
	before := strings.Join(lines[:line-1], "") + string([]rune(lines[line-1])[:column-1])
	said = place.ReplaceAllString(said, "(line $1)")
	if strings.Contains(said, "unknown field") {
		said += "; want one of " + m.siblings(before)
	} else if key := regexp.MustCompile(`"(\w+)"\s*:\s*(\[?)\s*$`).FindStringSubmatch(before); key != nil {
		if want := wanted(m.fields[key[1]], key[2] != ""); want != "" {
			said += "; " + key[1] + " wants " + want
		}
	}
	return errors.New(said)
}

// siblings lists the fields of the message in which a text ends.
func (m *messageText) siblings(before string) string {
	message, closed := m.root, 0
	for i := len(before) - 1; i > 0; i-- {
		switch before[i] {
		case '}', ']':
			closed++
		case '{', '[':
			key := regexp.MustCompile(`"(\w+)"\s*:\s*$`).FindStringSubmatch(before[:i])
			if inner := m.messages[strings.Join(key[min(1, len(key)):], "")]; closed == 0 && inner != nil {
				message, i = inner, 0
			}
			closed = max(0, closed-1)
		}
	}
	var names []string
	for i := range message.Fields().Len() {
		names = append(names, message.Fields().Get(i).JSONName())
	}
	return strings.Join(names, ", ")
}

// wanted says what a value of a field is, or an element where it is a list; "" where
// protojson says it.
func wanted(field protoreflect.FieldDescriptor, element bool) string {
	switch {
	case field == nil:
		return ""
	case field.IsList() && !element:
		return "a list, […]"
	case isDuration(field):
		return `a time with its unit, such as "10800s", "90m" or "3h"`
	case field.Enum() != nil:
		return "one of " + strings.Join(apiconv.APINames(field.Enum()), ", ")
	case field.Message() != nil:
		return "an object, {…}"
	default:
		return ""
	}
}
