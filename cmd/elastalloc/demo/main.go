// Command demo shows a decision end to end: it starts an elastalloc server, has it
// decide a snapshot through the client, and stops it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/elastalloc/elastalloc/cmd/elastalloc/internal/process"
)

// timeout ends a demo that hangs.
const timeout = time.Minute

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: demo BINARY REQUEST")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	err := demo(ctx, os.Args[1], os.Args[2])
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo has the request in a file decided by a server of its own and shows the
// decision.
func demo(ctx context.Context, binary, request string) (err error) {
	server, err := process.Start(ctx, binary, "--drain-delay=0s")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()

	arguments := []string{"allocate", "--server", server.Addr, "--file", request}
	fmt.Fprintf(os.Stdout, "$ elastalloc serve --listen %s &\n$ elastalloc %s\n\n",
		server.Addr, strings.Join(arguments, " "))
	allocate := exec.CommandContext(ctx, binary, arguments...)
	allocate.Stdout, allocate.Stderr = os.Stdout, os.Stderr
	return allocate.Run()
}
