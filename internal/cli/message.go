package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/internal/apiconv"
)

// ParseMessage parses a message in protojson. Durations may also have the format "3h", and values of enums
// short names, such as "total-time". Unknown fields are errors.
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
	m := messageText{root: message.ProtoReflect().Descriptor(), fields: make(map[string]protoreflect.FieldDescriptor)}
	m.add(message.ProtoReflect().Descriptor())
	m.text = m.plainValues(text)
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
	// text has durations and values of enums in the format of protojson.
	text []byte
}

func (m *messageText) add(message protoreflect.MessageDescriptor) {
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		value := field
		if other, known := m.fields[field.JSONName()]; known {
			if other == nil || other.Kind() == field.Kind() && other.Message() == field.Message() &&
				other.Enum() == field.Enum() && other.IsList() == field.IsList() {
				continue
			}
			value = nil
		}
		m.fields[field.JSONName()], m.fields[field.TextName()] = value, value
		if inner := field.Message(); inner != nil && !isDuration(field) {
			m.add(inner)
		}
	}
}

func isDuration(field protoreflect.FieldDescriptor) bool {
	return field != nil && field.Message() != nil && field.Message().FullName() == "google.protobuf.Duration"
}

// plainValues converts the durations and the values of enums of a text to the format of protojson: "3h" to
// "10800s", and "total-time" to "OBJECTIVE_TOTAL_TIME".
func (m *messageText) plainValues(text []byte) []byte {
	pair := regexp.MustCompile(`"(\w+)"\s*:\s*("[^"\\]*")`)
	return pair.ReplaceAllFunc(text, func(entry []byte) []byte {
		parts := pair.FindSubmatch(entry)
		field := m.fields[string(parts[1])]
		var value string
		if field == nil || json.Unmarshal(parts[2], &value) != nil {
			return entry
		}
		if enum := field.Enum(); enum != nil {
			if name := apiconv.FindValue(enum, value); name != "" {
				return slices.Concat(bytes.TrimSuffix(entry, parts[2]), []byte(strconv.Quote(string(name))))
			}
			return entry
		}
		if !isDuration(field) {
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

// lastKey matches the key of the value that follows a text.
var lastKey = regexp.MustCompile(`"(\w+)"\s*:\s*(\[?)\s*$`)

// place matches the line and the column in an error of protojson.
var place = regexp.MustCompile(`\(line (\d+):(\d+)\)`)

// unknownField matches the name of an unknown field in an error of protojson.
var unknownField = regexp.MustCompile(`unknown field "(\w+)"`)

// places returns a hint if a field belongs into a field of the message, such as total_nodes into snapshot.
func (m *messageText) places(name string) string {
	var places []string
	for i := range m.root.Fields().Len() {
		outer := m.root.Fields().Get(i)
		if outer.Message() == nil || outer.IsList() || isDuration(outer) {
			continue
		}
		fields := outer.Message().Fields()
		if fields.ByJSONName(name) != nil || fields.ByTextName(name) != nil {
			places = append(places, strconv.Quote(outer.TextName()))
		}
	}
	if len(places) == 0 {
		return ""
	}
	return "; put it in " + strings.Join(places, " or ")
}

// explain adds the field and its valid values to an error of protojson. It removes the column, because it refers
// to the text with converted values.
func (m *messageText) explain(err error) error {
	// The library varies the space after its prefix, so that programs do not depend on its texts.
	message := strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
	if unknown := unknownField.FindStringSubmatch(message); unknown != nil {
		message += m.places(unknown[1])
	}
	found := place.FindStringSubmatch(message)
	if found == nil {
		return errors.New(message)
	}
	line, _ := strconv.Atoi(found[1])
	column, _ := strconv.Atoi(found[2])
	message = place.ReplaceAllString(message, "(line $1)")
	before := string([]rune(strings.Split(string(m.text), "\n")[line-1])[:column-1])
	if key := lastKey.FindStringSubmatch(before); key != nil {
		switch field := m.fields[key[1]]; {
		case field == nil:
		case field.IsList() && key[2] == "":
			message += "; " + key[1] + " must be a list, […]"
		case isDuration(field):
			message += "; " + key[1] + ` must be a time with its unit, such as "10800s", "90m" or "3h"`
		case field.Enum() != nil:
			message += "; " + key[1] + " must be one of " + strings.Join(apiconv.APINames(field.Enum()), ", ")
		case field.Message() != nil:
			message += "; " + key[1] + " must be an object, {…}"
		}
	}
	return errors.New(message)
}
