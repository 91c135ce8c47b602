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

// usageError is an error in the command line or in a file that it names.
type usageError struct{ error }

// Unwrap returns the wrapped error.
func (e usageError) Unwrap() error { return e.error }

// exitStatus returns 2 for a usageError and 1 for other errors.
func exitStatus(err error) int {
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}

// run runs the program until ctx is done or the lease is lost.
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

	allocator, err := f.allocator()
	if err != nil {
		return usageError{err}
	}
	cluster, err := f.restConfig()
	if err != nil {
		return usageError{err}
	}
	logger := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: level}))
	ctrl.SetLogger(logr.FromSlogHandler(logger.Handler()))
	return f.manage(ctx, pools, allocator, cluster, logger)
}

// writeVersion writes the version that the Go command has recorded in the binary.
func writeVersion(w io.Writer) error {
	version := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	_, err := fmt.Fprintf(w, "elastalloc-controller %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// manage runs the controller until ctx is done or the lease is lost.
func (f *flags) manage(
	ctx context.Context, c *config.Config, allocator controller.Allocator, cluster *rest.Config, logger *slog.Logger,
) error {
	watched := kinds.Named(c.Kinds)
	caches, err := controller.CacheOptions(watched, c.Kueue)
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(cluster, ctrl.Options{
		Cache: caches,
		// Jobs are unstructured, so that the modules of their operators are no dependencies.
		Client:         client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		LeaderElection: f.leaderElect, LeaderElectionID: "elastalloc-controller",
		LeaderElectionNamespace: f.leaderNamespace, LeaderElectionReleaseOnCancel: true,
		Metrics: metricsserver.Options{BindAddress: "0"}, // The admin address serves them.
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
		Allocator: allocator, Querier: querier, Recorder: manager.GetEventRecorder("elastalloc-controller"),
		Metrics: controller.NewMetrics(registry, f.mode), Log: logger, Now: time.Now, Calls: calls,
	})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.adminListen)
	if err != nil {
		return fmt.Errorf("--admin-listen: %w", err)
	}
	// Every replica serves the admin address, not only the leader.
	if err := manager.Add(&ctrlmanager.Server{Name: "admin", Listener: listener, Server: &http.Server{
		Handler:           controller.Admin(prometheus.Gatherers{registry, ctrlmetrics.Registry}, controller.Synced(manager.GetCache()), loops),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
	}}); err != nil {
		return err
	}
	return manager.Start(ctx)
}

// recorder returns the recorder of decisions, nil if they are not recorded, and a function that stops it.
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

// restConfig returns the client configuration of the cluster, without the rate limit of client-go: with
// 5 requests per second, a decision on 300 jobs would take minutes. The loops limit concurrent writes,
// and the API server limits requests.
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

// allocator returns the allocator that the flags select.
func (f *flags) allocator() (controller.Allocator, error) {
	if !f.inProcess {
		return f.client()
	}
	inProcess, err := elastalloc.New(elastalloc.Options{})
	return apiconv.InProcess{Allocator: inProcess}, err
}
