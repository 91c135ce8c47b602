//go:build linux

// Command kube-sandbox runs a Kubernetes on this machine until it is interrupted, to try
// the controller without GPUs: nodes and pods are played, all else is real. `make sandbox`
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

	"github.com/elastalloc/elastalloc/kube/internal/cluster"
)

func main() {
	programs := flag.String("programs", ".tools/kube", "the folder that make kube fills")
	directory := flag.String("directory", "", "where state and logs go; a temporary folder by default, removed at the end")
	nodes := flag.Int("nodes", 16, "number of nodes, each of one server of 8 GPUs, labelled pool=training")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *programs, *directory, *nodes); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called.
	}
}

func run(ctx context.Context, stdout io.Writer, programs, directory string, nodes int) (err error) {
	if programs, err = filepath.Abs(programs); err != nil {
		return err
	}
	if directory == "" {
		if directory, err = os.MkdirTemp("", "kube-sandbox-"); err != nil {
			return err
		}
		defer os.RemoveAll(directory)
	} else if directory, err = filepath.Abs(directory); err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Options{Programs: programs, Directory: directory})
	if err != nil {
		return err
	}
	defer c.Stop()
	if err := c.AddNodes(ctx, "training", nodes); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "export KUBECONFIG=%s PATH=%s:$PATH\n", c.Kubeconfig, filepath.Dir(c.Program("kubectl")))
	<-ctx.Done()
	return nil
}
