package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// StandardInput is the file name that means standard input.
const StandardInput = "-"

// OpenInput opens a file, or standard input for StandardInput.
func OpenInput(cmd *cobra.Command, name string) (io.ReadCloser, error) {
	if name == StandardInput {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	return os.Open(name)
}

// ReadRequest reads an AllocateRequest in protojson. A field that the API does not
// know is an error, for it is one that the caller believes in.
func ReadRequest(cmd *cobra.Command, name string) (*elastallocv1.AllocateRequest, error) {
	input, err := OpenInput(cmd, name)
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
		return nil, fmt.Errorf("parse AllocateRequest in %s: %s", name, message)
	}
	return request, nil
}
