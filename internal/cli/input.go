package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
	"google.golang.org/protobuf/proto"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/sim"
)

// StandardInput is the file name of standard input.
const StandardInput = "-"

// FileFlag is a flag for the name of one file.
type FileFlag struct{ Name *string }

// String returns the name.
func (f FileFlag) String() string {
	if f.Name == nil {
		return ""
	}
	return *f.Name
}

// Type returns what the help shows for a value.
func (FileFlag) Type() string { return "string" }

// Set sets the name. A second name is an error, because it would replace the first. Completion sets all flags
// twice.
func (f FileFlag) Set(name string) error {
	if *f.Name != "" && *f.Name != name {
		return fmt.Errorf("must be one file; %s is already set", *f.Name)
	}
	*f.Name = name
	return nil
}

// OpenText opens a text file, or standard input for StandardInput. Reading of standard input stops when the
// command is interrupted. OpenText converts UTF-16 with a byte order mark, as written by PowerShell, to UTF-8 without
// the mark.
func OpenText(cmd *cobra.Command, name string) (io.ReadCloser, error) {
	var file io.ReadCloser
	if name == StandardInput {
		input, w := io.Pipe()
		go func() {
			_, err := io.Copy(w, cmd.InOrStdin())
			w.CloseWithError(err)
		}()
		context.AfterFunc(cmd.Context(), func() { w.CloseWithError(ErrInterrupted) })
		file = input
	} else {
		var err error
		if file, err = os.Open(name); err != nil {
			return nil, err
		}
	}
	return struct {
		io.Reader
		io.Closer
	}{transform.NewReader(file, unicode.BOMOverride(transform.Nop)), file}, nil
}

// ReadFile reads a file with a function. It adds the name of the file to errors.
func ReadFile[T any](cmd *cobra.Command, name string, read func(io.Reader) (T, error)) (value T, err error) {
	input, err := OpenText(cmd, name)
	if err != nil {
		return value, err
	}
	defer input.Close()
	if value, err = read(input); err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return value, err
}

// ReadTrace reads a trace with at least one job.
func ReadTrace(cmd *cobra.Command, name string) (sim.Trace, error) {
	return ReadFile(cmd, name, func(input io.Reader) (sim.Trace, error) {
		trace, err := sim.ReadTrace(input)
		if err == nil && len(trace) == 0 {
			err = errors.New("the trace has no jobs")
		}
		return trace, err
	})
}

// ReadRequest reads an AllocateRequest in protojson.
func ReadRequest(cmd *cobra.Command, name string) (*elastallocv1.AllocateRequest, error) {
	request := new(elastallocv1.AllocateRequest)
	return request, ReadMessage(cmd, name, request)
}

// ReadMessage reads a message from a file, like ParseMessage.
func ReadMessage(cmd *cobra.Command, name string, message proto.Message) error {
	text, err := ReadFile(cmd, name, io.ReadAll)
	if err != nil {
		return err
	}
	if err := ParseMessage(text, message); err != nil {
		return fmt.Errorf("parse %s in %s: %w", message.ProtoReflect().Descriptor().Name(), name, err)
	}
	return nil
}
