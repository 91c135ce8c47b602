package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// standardInput is the file name that means standard input.
const standardInput = "-"

// openInput opens a file, or standard input for "-".
func openInput(cmd *cobra.Command, name string) (io.ReadCloser, error) {
	if name == standardInput {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	return os.Open(name)
}

// readRequest reads an AllocateRequest in protojson. A field that the API does not
// know is an error, for it is one that the caller believes in.
func readRequest(cmd *cobra.Command, name string) (*elastallocv1.AllocateRequest, error) {
	input, err := openInput(cmd, name)
	if err != nil {
		return nil, err
	}
	defer input.Close()
	text, err := io.ReadAll(input)
	if err != nil {
		return nil, err
	}
	request := new(elastallocv1.AllocateRequest)
	if err := protojson.Unmarshal(text, request); err != nil {
		// The library varies the space after its prefix to keep its texts from
		// being relied on; what follows names the line and the column.
		message := strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
		return nil, fmt.Errorf("%s is no AllocateRequest: %s", name, message)
	}
	return request, nil
}

// Whether writeJSON writes fields that hold their default.
const (
	omitDefaults = false
	emitDefaults = true
)

// writeJSON writes a message in protojson, indented, the same bytes every time.
func writeJSON(w io.Writer, message proto.Message, defaults bool) error {
	text, err := protojson.MarshalOptions{EmitDefaultValues: defaults}.Marshal(message)
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
