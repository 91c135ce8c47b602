package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// decideFlags are the flags of every command that asks for decisions: what to decide,
// who decides and how to print it.
type decideFlags struct {
	file, output string
	// drawn are the output formats beside table and json.
	drawn  []string
	remote remoteFlags
}

// add adds the flags to a command.
func (f *decideFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.VarP(cli.FileFlag{Name: &f.file}, "file", "f", "request in protojson, - for standard input")
	flags.StringVarP(&f.output, "output", "o", cli.OutputTable, "output format, "+listed(f.formats()))
	cli.CompleteValues(command, "output", f.formats()...)
	cli.CompleteFiles(command, "json", "file")
	cli.Group(flags, "Asking a server", f.remote.add)
	cli.MarkRequired(command, "file")
}

// addIDs adds a flag for ids of jobs of the request, which the shell completes.
func (f *decideFlags) addIDs(command *cobra.Command, ids *[]string, name, usage string) {
	command.Flags().StringArrayVar(ids, name, nil, usage)
	// Fails only for a flag that is not there or has values already.
	_ = command.RegisterFlagCompletionFunc(name, func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if f.file == "" || f.file == cli.StandardInput {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		request, err := cli.ReadRequest(cmd, f.file)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return idsOf(request), cobra.ShellCompDirectiveNoFileComp
	})
}

// idsOf returns the ids of the jobs of a request.
func idsOf(request *elastallocv1.AllocateRequest) []string {
	var ids []string
	for _, job := range request.GetSnapshot().GetJobs() {
		ids = append(ids, job.GetId())
	}
	return ids
}

// checkIDs returns an error for a flag's ids that no job of the request has.
func checkIDs(request *elastallocv1.AllocateRequest, name string, ids []string) error {
	known := idsOf(request)
	for _, id := range ids {
		if slices.Contains(known, id) {
			continue
		}
		hint := ""
		if i := slices.IndexFunc(known, func(other string) bool { return strings.Contains(other, id) }); id != "" && i >= 0 {
			hint = fmt.Sprintf("; did you mean %s?", format.Printable(known[i]))
		}
		return fmt.Errorf("--%s is %q; want the id of a job of the snapshot%s", name, id, hint)
	}
	return nil
}

// formats returns the output formats.
func (f *decideFlags) formats() []string {
	return append([]string{cli.OutputTable, cli.OutputJSON}, f.drawn...)
}

// listed lists at least two names as alternatives.
func listed(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// read checks the flags and reads the request.
func (f *decideFlags) read(cmd *cobra.Command) (*elastallocv1.AllocateRequest, error) {
	if !slices.Contains(f.formats(), f.output) {
		return nil, fmt.Errorf("--output is %q; want %s", f.output, listed(f.formats()))
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
	Explain(context.Context, *elastallocv1.ExplainRequest) (*elastallocv1.ExplainResponse, error)
	WhatIf(context.Context, *elastallocv1.WhatIfRequest) (*elastallocv1.WhatIfResponse, error)
	Forecast(context.Context, *elastallocv1.ForecastRequest) (*elastallocv1.ForecastResponse, error)
}

// newAllocator returns what answers requests with the given options: the server asked
// for, or an allocator with the given programs in this process, and what to call when done with it.
func (f *decideFlags) newAllocator(o *elastallocv1.AllocateOptions, programs cli.Programs) (allocator, func(), error) {
	if f.remote.address != "" {
		remote, err := f.remote.client()
		if err != nil {
			return nil, nil, err
		}
		return remote, func() { remote.Close() }, nil
	}
	local, err := cli.NewInProcess(o, programs)
	return local, func() {}, err
}

// prepare reads the request, lets the flags win over the options in it, and returns it with
// what answers it and what to call when done with that.
func (f *decideFlags) prepare(
	cmd *cobra.Command, o *optionFlags,
) (*elastallocv1.AllocateRequest, allocator, func(), error) {
	request, err := f.read(cmd)
	if err != nil {
		return nil, nil, nil, err
	}
	o.apply(cmd, request)
	allocator, closeAllocator, err := f.newAllocator(request.GetOptions(), o.programs)
	return request, allocator, closeAllocator, err
}
