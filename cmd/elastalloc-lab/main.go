// Command elastalloc-lab does the offline work around elastalloc: it simulates
// traces under allocation policies, repeats the experiments of the paper and compares
// backends. It alone links what draws figures.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	status := run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.LookupEnv)
	stop()
	os.Exit(status)
}
