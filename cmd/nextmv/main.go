// Command nextmv is elastalloc as a Nextmv decision app: an AllocateRequest in
// protojson in, Nextmv's standard output out, with the AllocateResponse as its one
// solution.
//
//	go run ./cmd/nextmv -runner.input.path request.json -runner.output.path output.json
//
// ELASTALLOC_CBC and ELASTALLOC_HIGHS name the programs of the external solvers, as
// they do for elastalloc.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/nextmv-io/sdk/run"
	"github.com/nextmv-io/sdk/run/schema"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/cli"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	programs := make(cli.Programs)
	for name := range elastalloc.DefaultPrograms() {
		programs[name] = os.Getenv("ELASTALLOC_" + strings.ToUpper(string(name)))
	}

	err := run.CLI(
		app{programs}.solve,
		run.InputDecode[run.CLIRunnerConfig, *elastallocv1.AllocateRequest, options, schema.Output](decodeRequest),
		// The sdk's own validation would take a Go struct for the input's schema; that
		// of a request is its proto, and the allocator names every bad field.
		run.InputValidate[run.CLIRunnerConfig, *elastallocv1.AllocateRequest, options, schema.Output](nil),
	).Run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "elastalloc:", err)
		os.Exit(1)
	}
}
