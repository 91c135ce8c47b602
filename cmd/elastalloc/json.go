package main

import (
	"bytes"
	"encoding/json"
	"io"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// writeJSON writes a message in protojson, indented, the same bytes every time.
func writeJSON(w io.Writer, message proto.Message, o protojson.MarshalOptions) error {
	text, err := o.Marshal(message)
	if err != nil {
		return err
	}
	// The library varies its white space at random; this settles it.
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		return err
	}
	indented.WriteByte('\n')
	_, err = w.Write(indented.Bytes())
	return err
}
