package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/controller"
	"github.com/elastalloc/elastalloc/kube/kinds"
)

// usageError is a mistake of the caller.
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
	if slices.Equal(args, []string{"flags"}) {
		return writeFlags(stdout, set)
	}
	if slices.Contains([]string{"version", "--version"}, strings.Join(args, " ")) {
		return writeVersion(stdout)
	}
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

	decides, err := f.allocator()
	if err != nil {
		return usageError{err}
	}
	cluster, err := f.restConfig()
	if err != nil {
		return usageError{err}
	}
	logger := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: level}))
	ctrl.SetLogger(logr.FromSlogHandler(logger.Handler()))
	return f.manage(ctx, pools, decides, cluster, logger)
}

// writeVersion writes the version that the Go command stamped the binary with, as the other
// programs do.
func writeVersion(w io.Writer) error {
	version := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	_, err := fmt.Fprintf(w, "elastalloc-controller %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// manage runs the controller until ctx ends or the lease is lost.
func (f *flags) manage(ctx context.Context, c *config.Config, decides controller.Allocator, cluster *rest.Config, logger *slog.Logger) error {
	watched := kinds.Named(c.Kinds)
	caches, err := controller.CacheOptions(watched, c.Kueue)
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(cluster, ctrl.Options{
		Cache: caches,
		// Jobs are unstructured: one adapter a kind, and no dependency on their modules.
		Client:         client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		LeaderElection: f.leaderElect, LeaderElectionID: "elastalloc-controller",
		LeaderElectionNamespace: f.leaderNamespace, LeaderElectionReleaseOnCancel: true,
		Metrics: metricsserver.Options{BindAddress: "0"}, // The admin address has them.
	})
	if err != nil {
		return err
	}
	var querier controller.Querier
	if c.Prometheus != "" {
		if querier, err = controller.NewPrometheus(c.Prometheus, c.PrometheusClient); err != nil {
			return err
		}
	}
	registry := prometheus.NewRegistry()
	calls, stopRecording, err := f.recorder(registry, logger)
	if err != nil {
		return err
	}
	defer stopRecording()
	loops, err := controller.Add(manager, c.Pools, controller.Options{
		Mode: f.mode, Kinds: watched, Kueue: c.Kueue, Client: manager.GetClient(), Live: manager.GetAPIReader(),
		Allocator: decides, Querier: querier, Recorder: manager.GetEventRecorder("elastalloc-controller"),
		Metrics: controller.NewMetrics(registry, f.mode), Log: logger, Now: time.Now, Calls: calls,
	})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.adminListen)
	if err != nil {
		return fmt.Errorf("--admin-listen: %w", err)
	}
	// Every replica serves it, leader or not.
	if err := manager.Add(&ctrlmanager.Server{Name: "admin", Listener: listener, Server: &http.Server{
		Handler:           controller.Admin(prometheus.Gatherers{registry, ctrlmetrics.Registry}, controller.Synced(manager.GetCache()), loops),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
	}}); err != nil {
		return err
	}
	return manager.Start(ctx)
}

// recorder returns what keeps the decisions, nil where none are to be kept. The function
// writes out the last of them.
func (f *flags) recorder(registry prometheus.Registerer, logger *slog.Logger) (controller.CallRecorder, func(), error) {
	if f.record == "" {
		return nil, func() {}, nil
	}
	writer, err := recording.New(recording.Config{Dir: f.record, MaxBytes: f.recordMaxBytes, Logger: logger})
	if err != nil {
		return nil, nil, err
	}
	if err := recording.Register(registry, writer.Stats); err != nil {
		return nil, nil, err
	}
	return writer, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := writer.Close(ctx); err != nil {
			logger.Warn("the last recordings are lost", "error", err)
		}
	}, nil
}

// restConfig returns how to reach the cluster. How many writes are under way at once is
// limited by the loops, and what the API server takes by itself: client-go's own limit of 5 a
// second would have a decision on 300 jobs take minutes.
func (f *flags) restConfig() (*rest.Config, error) {
	load := ctrlconfig.GetConfig
	if f.kubeconfig != "" {
		load = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", f.kubeconfig) }
	}
	cluster, err := load()
	if err != nil {
		return nil, err
	}
	cluster.QPS, cluster.Burst = -1, 0
	return cluster, nil
}

// allocator returns what the flags say shall decide.
func (f *flags) allocator() (controller.Allocator, error) {
	if !f.inProcess {
		return f.client()
	}
	inProcess, err := elastalloc.New(elastalloc.Options{})
	return apiconv.InProcess{Allocator: inProcess}, err
}
