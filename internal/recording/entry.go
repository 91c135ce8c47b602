// Package recording writes the calls of a server to files and reads them again, so that snapshots and
// decisions can be replayed. See docs/schedulers/record-and-replay.md.
//
// A file has one JSON object per line, compressed with zstd. Files are rotated by size and age, and the
// oldest are deleted if all files together are too large.
package recording

import (
	"bytes"
	"cmp"
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

// Entry is a recorded call.
type Entry struct {
	// Time is the time when the call arrived.
	Time time.Time
	// Method is the name of the method, without its service.
	Method string
	// Caller is the name in the certificate of the caller, or its address if there is no certificate.
	Caller string
	// RequestID is the id of the call in the log and on the status page of the server, "" if the decision was
	// made in process.
	RequestID string
	// Request is nil if it did not arrive or could not be decoded, or if the entry was read and the method is
	// unknown.
	Request proto.Message
	// Response is nil if the call failed. Status is the error of a failed call, and nil otherwise.
	Response proto.Message
	Status   *spb.Status
}

// format is the version of the lines. Before version 2, requests without an objective had the
// objective of the paper, requests without an admission had ADMISSION_FIFO, and fields with resize in
// their names had rescale instead.
const format = 2

// line is the JSON object of an entry.
type line struct {
	Format    int             `json:"format,omitempty"` // 0 before version 2
	Time      time.Time       `json:"time"`
	Method    string          `json:"method"`
	Caller    string          `json:"caller"`
	RequestID string          `json:"request_id,omitempty"`
	Request   json.RawMessage `json:"request,omitempty"`
	Response  json.RawMessage `json:"response,omitempty"`
	Status    json.RawMessage `json:"status,omitempty"`
}

// JSON returns the entry as one line of a recording.
func (e *Entry) JSON() ([]byte, error) { return e.line() }

// line returns the entry as a line. It omits messages that are nil or that JSON cannot represent, for
// example a rejected request with a duration out of range.
func (e *Entry) line() ([]byte, error) {
	text, err := json.Marshal(line{Format: format, Time: e.Time.UTC(), Method: e.Method, Caller: e.Caller, RequestID: e.RequestID})
	if err != nil {
		return nil, err
	}
	// The messages are inserted before the closing brace.
	text = text[:len(text)-1]
	if textLength(e.Request)+textLength(e.Response) > maxLine { // The reader could not read further than this line.
		return nil, errLineTooLong
	}
	for _, part := range []struct {
		name    string
		message proto.Message
	}{{"request", e.Request}, {"response", e.Response}, {"status", e.Status}} {
		if part.message == nil || !part.message.ProtoReflect().IsValid() {
			continue
		}
		extended, err := protojson.MarshalOptions{}.MarshalAppend(fmt.Appendf(text, ",%q:", part.name), part.message)
		if err == nil {
			text = extended
		}
	}
	if text = append(text, "}\n"...); len(text) > maxLine {
		return nil, errLineTooLong
	}
	return text, nil
}

// maxEscapedBytes is the maximum number of bytes of an escaped character in JSON.
const maxEscapedBytes = 6

// textLength returns the number of bytes that the strings of a message take as JSON, or 0 if they
// cannot exceed half a line. A control character is one byte in a request and several bytes in JSON.
func textLength(message proto.Message) (length int) {
	if proto.Size(message) <= maxLine/2/maxEscapedBytes {
		return 0
	}
	_ = protorange.Range(message.ProtoReflect(), func(p protopath.Values) error {
		text, _ := p.Index(-1).Value.Interface().(string)
		length += len(text)
		for i := range len(text) {
			if text[i] < ' ' {
				length += maxEscapedBytes - 1
			}
		}
		return nil
	})
	return length
}

func parse(text []byte) (Entry, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return Entry{}, err
	}
	if l.Time.IsZero() || l.Method == "" {
		return Entry{}, errors.New("the time or the method is missing")
	}
	e := Entry{Time: l.Time, Method: l.Method, Caller: l.Caller, RequestID: l.RequestID}
	input, output := messageTypes(l.Method)
	if l.Format < format {
		l.Request, l.Response = renameFields(l.Request), renameFields(l.Response)
	}
	var err error
	if e.Request, err = parseMessage(l.Request, input); err != nil {
		return Entry{}, fmt.Errorf("request: %w", err)
	}
	if e.Response, err = parseMessage(l.Response, output); err != nil {
		return Entry{}, fmt.Errorf("response: %w", err)
	}
	if l.Format < format {
		nameOptions(e.Request)
	}
	if l.Status != nil {
		e.Status = new(spb.Status)
		// Details of unknown types are ignored.
		if err := json.Unmarshal(l.Status, e.Status); err != nil {
			return Entry{}, fmt.Errorf("status: %w", err)
		}
	}
	return e, nil
}

// renameFields replaces the names of fields that an earlier version wrote. A quote in a string is
// escaped, so a match is a name.
func renameFields(text json.RawMessage) json.RawMessage {
	for _, name := range []string{"Delay", "Price", "s"} {
		text = bytes.ReplaceAll(text, []byte(`"rescale`+name+`":`), []byte(`"resize`+name+`":`))
	}
	return text
}

// nameOptions sets the options of a request that an earlier version recorded to what was decided.
func nameOptions(request proto.Message) {
	complete := func(o *elastallocv1.AllocateOptions) *elastallocv1.AllocateOptions {
		if o == nil {
			o = new(elastallocv1.AllocateOptions)
		}
		o.Objective = cmp.Or(o.Objective, elastallocv1.Objective_OBJECTIVE_PROGRESS)
		o.Admission = cmp.Or(o.Admission, elastallocv1.Admission_ADMISSION_FIFO)
		return o
	}
	switch r := request.(type) {
	case *elastallocv1.AllocateRequest:
		r.Options = complete(r.Options)
	case *elastallocv1.ExplainRequest:
		r.Options = complete(r.Options)
	case *elastallocv1.ForecastRequest:
		r.Options = complete(r.Options)
	case *elastallocv1.WhatIfRequest:
		r.Options = complete(r.Options)
		for _, scenario := range r.Scenarios {
			if scenario.Options != nil { // Otherwise it has the options of the request.
				scenario.Options = complete(scenario.Options)
			}
		}
	}
}

// messageTypes returns the types of the request and the response of a method of AllocatorService, or
// nil for an unknown method.
func messageTypes(method string) (request, response protoreflect.MessageType) {
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

// parseMessage parses a message. It returns nil if the text is missing or the type is unknown. It
// ignores unknown fields, which a newer version may have written.
func parseMessage(text json.RawMessage, messageType protoreflect.MessageType) (proto.Message, error) {
	if text == nil || messageType == nil {
		return nil, nil //nolint:nilnil // A missing message is not an error.
	}
	message := messageType.New().Interface()
	return message, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, message)
}
