package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// StandardInput is the file name that means standard input.
const StandardInput = "-"

// NoArgs returns an error for arguments, and says how to name a file to a command that
// reads one.
func NoArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.Flags().ShorthandLookup("f") != nil:
		return fmt.Errorf("unexpected argument %q; did you mean -f %s?", args[0], args[0])
	default:
		return fmt.Errorf("unexpected argument %q", args[0])
	}
}

// OpenInput opens a file, or standard input for StandardInput.
func OpenInput(cmd *cobra.Command, name string) (io.ReadCloser, error) {
	if name == StandardInput {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	return os.Open(name)
}

// ReadRequest reads an AllocateRequest in protojson.
func ReadRequest(cmd *cobra.Command, name string) (*elastallocv1.AllocateRequest, error) {
	request := new(elastallocv1.AllocateRequest)
	return request, ReadMessage(cmd, name, request)
}

// ReadMessage reads a message in protojson, whose durations may also be such as "3h". A
// field that the API does not know is an error, for it is one that the caller believes in.
func ReadMessage(cmd *cobra.Command, name string, message proto.Message) error {
	input, err := OpenInput(cmd, name)
	if err != nil {
		return err
	}
	defer input.Close()
	text, err := io.ReadAll(input)
	if err != nil {
		return err
	}
	if err := ParseMessage(text, message); err != nil {
		return fmt.Errorf("parse %s in %s: %w", message.ProtoReflect().Descriptor().Name(), name, err)
	}
	return nil
}

// ParseMessage parses a message as ReadMessage does.
func ParseMessage(text []byte, message proto.Message) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return errors.New("the input is empty")
	}
	text, err := plainDurations(text, message.ProtoReflect().Descriptor())
	if err != nil {
		return err
	}
	if err := protojson.Unmarshal(text, message); err != nil {
		// The library varies the space after its prefix to keep its texts from
		// being relied on; what follows names the line and the column.
		return errors.New(strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0"))
	}
	return nil
}
