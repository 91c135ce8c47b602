// Command elastalloc decides how many nodes each elastic training job of a pool
// gets: as a server, or one decision at a time.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
)

func main() {
	// Else the runtime's record of where memory was allocated grows to several MiB under load.
	// This one still finds whatever leaks.
	runtime.MemProfileRate = 4 << 20
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	status := run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.LookupEnv)
	stop()
	os.Exit(status)
}
