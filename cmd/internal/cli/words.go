package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/internal/apiconv"
)

// errCut says that a text ends within its JSON.
var errCut = errors.New("the input ends before its JSON does")

// plainDurations returns a text in protojson with its durations as protojson wants them,
// "10800s" for "3h". Its error names every field of the text that the message does not
// have and every duration and enum that is none, by its path as the text has it, and where
// values are asked for, every value of another kind. What else may be wrong is left to
// protojson.
func plainDurations(text []byte, message protoreflect.MessageDescriptor, values bool) ([]byte, error) {
	w := wordsOf{text: text, root: message, values: values, decoder: json.NewDecoder(bytes.NewReader(text))}
	w.decoder.UseNumber()
	if err := w.message(message, ""); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return nil, errCut
		}
		return text, nil // Broken JSON; protojson says where.
	}
	switch len(w.wrong) {
	case 0:
	case 1:
		return nil, errors.New(w.wrong[0])
	default:
		return nil, errors.New("\n  " + strings.Join(w.wrong, "\n  "))
	}
	return append(w.changed, text[w.copied:]...), nil
}

// wordsOf is a walk along a text and the message that it describes.
type wordsOf struct {
	text    []byte
	root    protoreflect.MessageDescriptor
	decoder *json.Decoder
	// values says that every value is to be checked, which takes time.
	values bool
	// changed is the text with other durations as far as the offset copied.
	changed []byte
	copied  int64
	wrong   []string
}

// message walks over an object that describes a message.
func (w *wordsOf) message(message protoreflect.MessageDescriptor, path string) error {
	within := path
	if path != "" {
		within += "."
	}
	return w.object(path, func(key string, start int64) error {
		fields := message.Fields()
		field := fields.ByJSONName(key)
		if field == nil {
			field = fields.ByTextName(key)
		}
		if field == nil {
			w.refuse(start, within+key, "unknown field%s", w.hint(message, key))
			return w.decoder.Decode(new(json.RawMessage))
		}
		return w.field(field, within+key)
	})
}

// field walks over the value of a field.
func (w *wordsOf) field(field protoreflect.FieldDescriptor, path string) error {
	switch {
	case field.IsMap():
		return w.object(path, func(key string, _ int64) error {
			return w.value(field.MapValue(), fmt.Sprintf("%s[%q]", path, key))
		})
	case field.IsList():
		if w.next() != '[' {
			return w.instead(path, "a list, […]")
		}
		if _, err := w.decoder.Token(); err != nil {
			return err
		}
		for i := 0; w.decoder.More(); i++ {
			if err := w.value(field, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		_, err := w.decoder.Token()
		return err
	default:
		return w.value(field, path)
	}
}

// value walks over one value of a field.
func (w *wordsOf) value(field protoreflect.FieldDescriptor, path string) error {
	if message := field.Message(); message != nil && message.ParentFile().Package() != "google.protobuf" {
		return w.message(message, path)
	}
	start := w.start()
	var raw json.RawMessage
	if err := w.decoder.Decode(&raw); err != nil {
		return err
	}
	switch {
	case string(raw) == "null":
	case field.Message() != nil && field.Message().FullName() == "google.protobuf.Duration":
		if protojson.Unmarshal(raw, new(durationpb.Duration)) == nil {
			return nil
		}
		duration, isDuration := durationOf(raw)
		if !isDuration {
			w.refuse(start, path, `is %s; want a time with its unit, such as "10800s", "90m" or "3h"`, raw)
			return nil
		}
		seconds, err := protojson.Marshal(durationpb.New(duration))
		if err != nil {
			return err
		}
		w.changed = append(append(w.changed, w.text[w.copied:start]...), seconds...)
		w.copied = w.decoder.InputOffset()
	case field.Enum() != nil && raw[0] == '"':
		var name protoreflect.Name
		if json.Unmarshal(raw, &name) == nil && field.Enum().Values().ByName(name) == nil {
			w.refuse(start, path, "is %s; want %s", raw, wanted(field))
		}
	case w.values && !accepts(field, raw):
		w.refuse(start, path, "is %s; want %s", raw, wanted(field))
	}
	return nil
}

// accepts reports whether protojson takes a value of a field.
func accepts(field protoreflect.FieldDescriptor, raw []byte) bool {
	layout := "{%q: %s}"
	if field.IsList() {
		layout = "{%q: [%s]}"
	}
	message := dynamicpb.NewMessage(field.ContainingMessage())
	return protojson.Unmarshal(fmt.Appendf(nil, layout, field.JSONName(), raw), message) == nil
}

// wanted says what a value of a field is.
func wanted(field protoreflect.FieldDescriptor) string {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.StringKind:
		return "a text in quotes"
	case protoreflect.EnumKind:
		return "one of " + strings.Join(apiconv.APINames(field.Enum()), ", ")
	case protoreflect.DoubleKind:
		return "a number"
	case protoreflect.Int32Kind:
		return fmt.Sprintf("a whole number up to %d", math.MaxInt32)
	default:
		return "a whole number"
	}
}

// durationOf returns the duration that a string in JSON is, and whether it is one.
func durationOf(raw []byte) (time.Duration, bool) {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return 0, false
	}
	duration, err := parseDuration(text)
	return duration, err == nil
}

// instead walks over what stands in the place of an object or a list.
func (w *wordsOf) instead(path, want string) error {
	start := w.start()
	var raw json.RawMessage
	if err := w.decoder.Decode(&raw); err != nil {
		return err
	}
	if string(raw) != "null" {
		w.refuse(start, path, "is %s; want %s", raw, want)
	}
	return nil
}

// object walks over an object, or over what stands in its place. It calls entry after each
// key, which starts at an offset, to walk over the value.
func (w *wordsOf) object(path string, entry func(key string, start int64) error) error {
	if w.next() != '{' {
		return w.instead(path, "an object, {…}")
	}
	if _, err := w.decoder.Token(); err != nil {
		return err
	}
	for w.decoder.More() {
		start := w.start()
		key, err := w.decoder.Token()
		if err != nil {
			return err
		}
		if err := entry(fmt.Sprint(key), start); err != nil {
			return err
		}
	}
	_, err := w.decoder.Token()
	return err
}

// start returns the offset at which the next value or key starts.
func (w *wordsOf) start() int64 {
	offset := w.decoder.InputOffset()
	for offset < int64(len(w.text)) && strings.IndexByte(" \t\r\n:,", w.text[offset]) >= 0 {
		offset++
	}
	return offset
}

// next returns the first byte of the next value or key, 0 at the end.
func (w *wordsOf) next() byte {
	if start := w.start(); start < int64(len(w.text)) {
		return w.text[start]
	}
	return 0
}

// refuse notes what is wrong with a field, which stands at an offset.
func (w *wordsOf) refuse(offset int64, path, layout string, args ...any) {
	for i, arg := range args {
		if raw, isRaw := arg.(json.RawMessage); isRaw {
			args[i] = Screen{}.Clip(strings.Join(strings.Fields(string(raw)), " "), 60)
		}
	}
	before := w.text[:offset]
	line, column := bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n')
	w.wrong = append(w.wrong, fmt.Sprintf("%s (line %d:%d): %s", path, line, column, fmt.Sprintf(layout, args...)))
}

// hint says of a field that a message does not have where it belongs, or which ones there
// are.
func (w *wordsOf) hint(message protoreflect.MessageDescriptor, name string) string {
	var near, names []string
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i).JSONName()
		names = append(names, field)
		if strings.Contains(strings.ToLower(field), strings.ToLower(name)) || field == otherName(name) {
			near = append(near, field)
		}
	}
	if len(near) > 0 {
		return "; did you mean " + strings.Join(near, " or ") + "?"
	}
	if place := placeOf(w.root, name, nil); place != "" {
		return "; it belongs in " + place
	}
	return "; want one of " + strings.Join(names, ", ")
}

// otherName returns what the API calls a field that others call by the name, "" where that
// is not known.
func otherName(name string) string {
	switch name {
	case "priority":
		return "weight"
	case "name":
		return "id"
	case "gpus", "nodes":
		return "currentNodes"
	case "duration", "runtime":
		return "remainingEta"
	case "timeout":
		return "timeBudget"
	default:
		return ""
	}
}

// placeOf returns the path of the first message within one that has a field, "" where
// none has. It has been in the messages seen.
func placeOf(message protoreflect.MessageDescriptor, name string, seen []protoreflect.FullName) string {
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		inner := field.Message()
		if inner == nil || field.IsMap() || slices.Contains(seen, inner.FullName()) {
			continue
		}
		path := field.JSONName()
		if field.IsList() {
			path += "[]"
		}
		if inner.Fields().ByJSONName(name) != nil || inner.Fields().ByTextName(name) != nil {
			return path
		}
		if place := placeOf(inner, name, append(seen, message.FullName())); place != "" {
			return path + "." + place
		}
	}
	return ""
}
