//go:build linux

// Command kube-sandbox runs a local Kubernetes until it is interrupted, so that the controller can be
// tried without GPUs. Nodes and pods are simulated, and all other components are real. `make sandbox`
// starts it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
)

func main() {
	programs := flag.String("programs", ".tools/kube", "directory with the programs that make kube builds")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *programs); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1) //nolint:gocritic // The deferred stop is called above.
	}
}

func run(ctx context.Context, stdout io.Writer, programs string) (err error) {
	if programs, err = filepath.Abs(programs); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "kube-sandbox-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, err := cluster.Start(ctx, programs, dir)
	if err != nil {
		return err
	}
	defer c.Stop()
	if err := c.AddNodes(ctx, "training", 16); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "export KUBECONFIG=%s PATH=%s:$PATH\n", c.Kubeconfig, filepath.Dir(c.Program("kubectl")))
	<-ctx.Done()
	return nil
}
