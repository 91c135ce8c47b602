// Package recording keeps the calls of a server in files and reads them again: a history
// of snapshots and decisions that can be replayed. See docs/schedulers/record-and-replay.md.
//
// A file holds one JSON object a line, compressed by zstd. A new one is begun by size and
// by age, and the oldest are deleted beyond a total.
package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// Entry is a call.
type Entry struct {
	// Time is when the call came.
	Time time.Time
	// Method is the name of the method, without its service.
	Method string
	// Caller is the name in the caller's certificate, or else its address.
	Caller string
	// RequestID is the id under which the server's log and its status page have the call,
	// "" where no server is asked.
	RequestID string
	// Request is nil where it did not arrive or was no request, or where an entry was read
	// whose method is not known here.
	Request proto.Message
	// Response is nil where the call failed; Status then says why, and is nil otherwise.
	Response proto.Message
	Status   *spb.Status
}

// line is an entry as it is written.
type line struct {
	Time      time.Time       `json:"time"`
	Method    string          `json:"method"`
	Caller    string          `json:"caller"`
	RequestID string          `json:"request_id,omitempty"`
	Request   json.RawMessage `json:"request,omitempty"`
	Response  json.RawMessage `json:"response,omitempty"`
	Status    json.RawMessage `json:"status,omitempty"`
}

// JSON returns the entry as one JSON object, as a recording has it.
func (e *Entry) JSON() ([]byte, error) { return e.line() }

// line returns the entry as a line. It leaves out a message that is not there, and one that JSON
// cannot express, such as one with a duration beyond its range that was refused for it.
func (e *Entry) line() ([]byte, error) {
	text, err := json.Marshal(line{Time: e.Time.UTC(), Method: e.Method, Caller: e.Caller, RequestID: e.RequestID})
	if err != nil {
		return nil, err
	}
	// The messages go before the end of the object.
	text = text[:len(text)-1]
	if textLength(e.Request)+textLength(e.Response) > maxLine { // What is behind it could not be read.
		return nil, errLineTooLong
	}
	for _, part := range []struct {
		name    string
		message proto.Message
	}{{"request", e.Request}, {"response", e.Response}, {"status", e.Status}} {
		if part.message == nil || !part.message.ProtoReflect().IsValid() {
			continue
		}
		longer, err := protojson.MarshalOptions{}.MarshalAppend(fmt.Appendf(text, ",%q:", part.name), part.message)
		if err == nil {
			text = longer
		}
	}
	if text = append(text, "}\n"...); len(text) > maxLine {
		return nil, errLineTooLong
	}
	return text, nil
}

// mostEscaped is how many bytes of JSON one of a string may take.
const mostEscaped = 6

// textLength returns how many bytes of JSON the strings of a message take where they might exceed
// half a line, else 0: control characters are short in a request, and take all memory as JSON.
func textLength(message proto.Message) (bytes int) {
	if proto.Size(message) <= maxLine/2/mostEscaped {
		return 0
	}
	_ = protorange.Range(message.ProtoReflect(), func(p protopath.Values) error {
		text, _ := p.Index(-1).Value.Interface().(string)
		bytes += len(text)
		for i := range len(text) {
			if text[i] < ' ' {
				bytes += mostEscaped - 1
			}
		}
		return nil
	})
	return bytes
}

func parse(text []byte) (Entry, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return Entry{}, err
	}
	if l.Time.IsZero() || l.Method == "" {
		return Entry{}, errors.New("no time or no method")
	}
	e := Entry{Time: l.Time, Method: l.Method, Caller: l.Caller, RequestID: l.RequestID}
	input, output := messagesOf(l.Method)
	var err error
	if e.Request, err = parseMessage(l.Request, input); err != nil {
		return Entry{}, fmt.Errorf("request: %w", err)
	}
	if e.Response, err = parseMessage(l.Response, output); err != nil {
		return Entry{}, fmt.Errorf("response: %w", err)
	}
	if l.Status != nil {
		e.Status = new(spb.Status)
		// Details of kinds that are not known here do not matter, code and message do.
		if err := json.Unmarshal(l.Status, e.Status); err != nil {
			return Entry{}, fmt.Errorf("status: %w", err)
		}
	}
	return e, nil
}

// messagesOf returns the types of the request and the response of a method of the
// AllocatorService; nil for one that is not known.
func messagesOf(method string) (request, response protoreflect.MessageType) {
	service := elastallocv1.File_elastalloc_v1_allocator_proto.Services().ByName("AllocatorService")
	descriptor := service.Methods().ByName(protoreflect.Name(method))
	if descriptor == nil {
		return nil, nil
	}
	find := func(message protoreflect.MessageDescriptor) protoreflect.MessageType {
		found, err := protoregistry.GlobalTypes.FindMessageByName(message.FullName())
		if err != nil {
			return nil
		}
		return found
	}
	return find(descriptor.Input()), find(descriptor.Output())
}

// parseMessage reads a message. It returns nil without a text, or if its type is not known.
// Fields that a newer version has written are ignored.
func parseMessage(text json.RawMessage, kind protoreflect.MessageType) (proto.Message, error) {
	if text == nil || kind == nil {
		return nil, nil //nolint:nilnil // Nothing there is a normal answer.
	}
	message := kind.New().Interface()
	return message, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, message)
}
