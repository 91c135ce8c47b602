package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// decideFlags are the flags of every command that asks for decisions: what to decide,
// who decides and how to print it.
type decideFlags struct {
	file, output string
	remote       remoteFlags
	programs     cli.Programs
}

// add adds the flags to a command.
func (f *decideFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "request in protojson, - for standard input")
	flags.StringVarP(&f.output, "output", "o", cli.OutputTable, "output format, table or json")
	f.remote.add(flags)
	cli.MarkRequired(command, "file")
}

// read checks the flags and reads the request.
func (f *decideFlags) read(cmd *cobra.Command) (*elastallocv1.AllocateRequest, error) {
	if f.output != cli.OutputTable && f.output != cli.OutputJSON {
		return nil, fmt.Errorf("--output is %q; want %s or %s", f.output, cli.OutputTable, cli.OutputJSON)
	}
	if err := f.remote.check(); err != nil {
		return nil, err
	}
	return cli.ReadRequest(cmd, f.file)
}

// allocator answers the API's requests, in this process or at a server.
type allocator interface {
	Allocate(context.Context, *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error)
	FillIdle(context.Context, *elastallocv1.FillIdleRequest) (*elastallocv1.FillIdleResponse, error)
}

// newAllocator returns what answers requests with the given options: the server asked
// for, or an allocator in this process, and what to call when done with it.
func (f *decideFlags) newAllocator(o *elastallocv1.AllocateOptions) (allocator, func(), error) {
	if f.remote.address != "" {
		remote, err := f.remote.client()
		if err != nil {
			return nil, nil, err
		}
		return remote, func() { remote.Close() }, nil
	}
	local, err := cli.NewInProcess(o, f.programs)
	return local, func() {}, err
}
