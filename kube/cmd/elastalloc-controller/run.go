package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/kinds"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// usageError is a mistake of whoever called the program.
type usageError struct{ error }

// Unwrap returns what is wrong.
func (e usageError) Unwrap() error { return e.error }

// exitStatus returns 2 for bad usage or input, else 1.
func exitStatus(err error) int {
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}

// run is the program: it returns when ctx ends or the lease is lost.
func run(ctx context.Context, args []string, env func(string) (string, bool), stdout, stderr io.Writer) error {
	var f flags
	set := f.set()
	set.SetOutput(stdout)
	level, err := f.parse(set, args, env)
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	if err != nil {
		return usageError{err}
	}
	data, err := os.ReadFile(f.config)
	if err != nil {
		return usageError{err}
	}
	pools, err := config.Parse(data, kinds.Names())
	if err != nil {
		return usageError{fmt.Errorf("%s: %w", f.config, err)}
	}

	if _, err := f.allocator(); err != nil {
		return usageError{err}
	}

	logger := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: level}))
	ctrl.SetLogger(logr.FromSlogHandler(logger.Handler()))
	cluster, err := f.restConfig()
	if err != nil {
		return usageError{err}
	}
	manager, err := ctrl.NewManager(cluster, ctrl.Options{
		LeaderElection: f.leaderElect, LeaderElectionID: "elastalloc-controller",
		LeaderElectionNamespace: f.leaderNamespace, LeaderElectionReleaseOnCancel: true,
		Metrics: metricsserver.Options{BindAddress: f.adminListen},
	})
	if err != nil {
		return err
	}
	_ = pools
	return manager.Start(ctx)
}

// restConfig returns how to reach the cluster.
func (f *flags) restConfig() (*rest.Config, error) {
	if f.kubeconfig != "" {
		return clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	}
	return ctrlconfig.GetConfig()
}

// allocator makes decisions: a client of a server, or an allocator in this process.
type allocator interface {
	Allocate(context.Context, *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error)
	FillIdle(context.Context, *elastallocv1.FillIdleRequest) (*elastallocv1.FillIdleResponse, error)
}

// allocator returns what the flags say shall decide.
func (f *flags) allocator() (allocator, error) {
	if !f.inProcess {
		return f.client()
	}
	inProcess, err := elastalloc.New(elastalloc.Options{})
	return apiconv.InProcess{Allocator: inProcess}, err
}
