package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/audit"
	"github.com/elastalloc/elastalloc/cmd/internal/telemetry"
	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/internal/tracing"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/subprocess"
)

// gcPercent is the growth of the heap between garbage collections, except near the memory limit.
// Because the data of a server is about 1 MB, Go's default of 100 would collect garbage every 30 calls
// and use a quarter of their CPU time.
const gcPercent = 400

func newServeCommand(env cli.LookupEnv) *cobra.Command {
	config := server.DefaultConfig()
	config.Version = cli.Version()
	level := "info"
	options := elastalloc.Options{DefaultBudget: elastalloc.DefaultBudget, MaxJobs: solver.DefaultMaxJobs}
	var names []string
	var programs cli.Programs
	var reflection bool
	record := recording.Config{MaxBytes: recording.DefaultMaxBytes}

	command := &cobra.Command{
		Use:   "serve",
		Short: "Serve decisions over gRPC",
		Long: `Serve the AllocatorService, health and reflection over gRPC. On the admin
address, serve a status page at /, /metrics, /healthz and /readyz over HTTP.
SIGTERM and SIGINT drain the server: it becomes not ready, waits, rejects new
calls, completes the calls in flight and exits with status 0. Logs go to stderr,
one JSON object per line. With --record, every call including its job ids is
recorded for elastalloc-lab replay. The standard variables of OpenTelemetry,
such as OTEL_EXPORTER_OTLP_ENDPOINT, enable traces.`,
		Example: `  elastalloc serve
  elastalloc serve --record recording --backends highs,exact
  elastalloc serve --tls-cert server.crt --tls-key server.key
  elastalloc serve --listen unix:/run/elastalloc/elastalloc.sock`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if options.DefaultBudget <= 0 {
				return fmt.Errorf("--default-budget: is %v; must be greater than 0", options.DefaultBudget)
			}
			if config.MaxBudget > 0 && options.DefaultBudget > config.MaxBudget {
				return fmt.Errorf("--default-budget: is %v; must be at most --max-budget, %v", options.DefaultBudget, config.MaxBudget)
			}
			if options.MaxJobs < 1 {
				return fmt.Errorf("--max-jobs: is %d; must be at least 1", options.MaxJobs)
			}
			var minLevel slog.Level
			if err := minLevel.UnmarshalText([]byte(level)); err != nil {
				return fmt.Errorf("--log-level: %w", err)
			}
			config.Logger = slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: minLevel}))
			config.NoReflection = !reflection
			config.Ready = systemdReadiness(env, config.Logger)
			options.Backends, options.Programs = cli.Named[solver.BackendName](names), programs
			options.Middleware, options.ProverMiddleware = tracing.TraceBackend, tracing.TraceProver
			options.OnBackendChange = logChanges(config.Logger)
			allocator, err := elastalloc.New(options)
			if err != nil {
				return fmt.Errorf("--backends: %w", err)
			}
			if _, set := env("GOMEMLIMIT"); !set {
				debug.SetMemoryLimit(config.MaxMemory + config.BaseMemory()*3/4)
			}
			if _, set := env("GOGC"); !set {
				debug.SetGCPercent(gcPercent)
			}
			logBackends(cmd.Context(), config.Logger, allocator.Backends())
			removeAbandoned(cmd.Context(), config.Logger)
			config.Allocator, config.Backends = allocator, shown(allocator.Backends())
			config.Audit = auditResponse
			traces, err := telemetry.New(cmd.Context(), telemetry.Config{
				Getenv: env.Get, Logger: config.Logger, Version: config.Version,
			})
			if err != nil {
				return err
			}
			// Traces are shut down after the drain, so that they include the last calls.
			defer traces.Shutdown()
			config.TracerProvider, config.Propagator = traces.TracerProvider, traces.Propagator
			stopRecording, err := startRecording(&config, record)
			if err != nil {
				return err
			}
			defer stopRecording() // also after the drain
			ready, err := config.Complete()
			if errors.As(err, new(*net.OpError)) {
				return cli.Failed(err)
			}
			if err != nil {
				return err
			}
			return cli.Failed(ready.Run(cmd.Context()))
		},
	}
	flags := command.Flags()
	flags.StringVar(&config.Listen, "listen", config.Listen, "address of gRPC: host:port, or unix:/path for a Unix socket with mode 0660")
	flags.StringVar(&config.AdminListen, "admin-listen", config.AdminListen, "address of the status page, metrics, liveness and readiness")
	flags.StringSliceVar(&config.AdminHosts, "admin-hosts", nil,
		"host names that --admin-listen accepts, in addition to addresses and names without a dot")
	flags.BoolVar(&config.Plaintext, "plaintext", false, "allow plain text on a --listen address that is not loopback")
	flags.BoolVar(&reflection, "reflection", true, "serve gRPC reflection, for clients such as grpcurl")
	flags.StringVar(&config.TLSCert, "tls-cert", "",
		"PEM file of the server's certificate, read again when it changes; without it the server uses plain text")
	flags.StringVar(&config.TLSKey, "tls-key", "", "PEM file of the server's key")
	flags.StringVar(&config.ClientCA, "client-ca", "", "PEM file of the CA of client certificates; if it is set, every client needs one")
	flags.StringSliceVar(&config.ClientNames, "client-names", nil,
		"subject alternative names of clients that may call (default any certificate of --client-ca)")
	flags.DurationVar(&options.DefaultBudget, "default-budget", options.DefaultBudget, "time budget of a request that has none")
	flags.DurationVar(&config.MaxBudget, "max-budget", config.MaxBudget, "maximum time budget of a request; larger budgets are reduced to it")
	flags.IntVar(&config.MaxInflight, "max-inflight", config.MaxInflight,
		"number of slots: maximum number of concurrent searches, and as many concurrent decisions without a search")
	cli.OnePerCore(flags, "max-inflight")
	flags.IntVar(&config.MaxQueue, "max-queue", config.MaxQueue,
		"maximum number of requests that wait for a slot; a request without a slot within 100ms, or above this number, is decided by greedy")
	flags.Var(cli.NewBytesFlag(&config.MaxMemory), "max-memory",
		fmt.Sprintf("maximum memory of all requests: encoded, decoded, work space, and responses that are not read; the server needs "+
			"up to %dMiB in addition, and %dMiB for each of --max-inflight", server.ProcessMemory>>20, server.InflightMemory()>>20))
	flags.IntVar(&options.MaxJobs, "max-jobs", options.MaxJobs, "maximum number of jobs per snapshot")
	flags.Var(cli.ChoiceFlag{Value: &level, Choices: []string{"debug", "info", "warn", "error"}}, "log-level", "minimum level to log")
	flags.StringSliceVar(&config.MetricsGroups, "metrics-groups", nil,
		"ids of the groups with metrics of their own")
	flags.StringSliceVar(&config.MetricsNodeTypes, "metrics-node-types", nil, "ids of the node types with metrics of their own")
	flags.StringVar(&record.Dir, "record", "", "folder to record every call in, for elastalloc-lab replay; each server needs its own")
	flags.Float64Var(&config.AuditShare, "audit-share", 0,
		"fraction of responses (0 to 1) to verify with the independent checker after they are sent, using idle capacity")
	flags.StringVar(&config.DefectDir, "defect-dir", "",
		"folder for requests that show a bug of this program, including their job ids: at most 100 files and 64MiB")
	flags.Var(cli.NewBytesFlag(&record.MaxBytes), "record-max-bytes", "maximum size of the recordings; above it the oldest are deleted")
	cli.AddProgramFlags(command.Flags(), &programs)
	flags.StringSliceVar(&names, "backends", cli.Named[string](elastalloc.DefaultBackends()),
		"backends to call, in this order, out of "+strings.Join(cli.Named[string](elastalloc.BackendNames()), ", ")+"; greedy is the fallback")
	flags.DurationVar(&config.DrainDelay, "drain-delay", config.DrainDelay, "time between becoming not ready and rejecting calls")
	flags.DurationVar(&config.DrainTimeout, "drain-timeout", config.DrainTimeout,
		"time that calls in flight then have to complete before they are aborted")
	cli.CompleteValues(command, "backends", cli.Named[string](elastalloc.BackendNames())...)
	return command
}

// auditResponse verifies a response like elastalloc audit.
func auditResponse(
	ctx context.Context, request *elastallocv1.AllocateRequest, response *elastallocv1.AllocateResponse,
) (verdict, reason string) {
	// The audit may use the memory of a slot. Growing slices use up to twice their size.
	report := audit.Check(ctx, request, response, audit.Options{Numbers: server.SearchMemory / 16})
	return strings.ToLower(string(report.Verdict)), report.Reason
}

// recordingCloseTimeout is the maximum time to write the last recordings.
const recordingCloseTimeout = 5 * time.Second

// startRecording configures a server to record its calls, if there is a folder for them. stop writes the last
// calls.
func startRecording(config *server.Config, record recording.Config) (stop func(), err error) {
	if record.Dir == "" {
		return func() {}, nil
	}
	logger := config.Logger
	record.Logger = logger
	if record.MaxBytes < recording.MinMaxBytes {
		return nil, fmt.Errorf("--record-max-bytes: is %d; must be at least 1MiB", record.MaxBytes)
	}
	writer, err := recording.New(record)
	if err != nil {
		return nil, fmt.Errorf("--record: %w", err)
	}
	config.Recorder = writer
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), recordingCloseTimeout)
		defer cancel()
		if err := writer.Close(ctx); err != nil {
			logger.Warn("the last recordings are lost", "error", err)
		}
	}, nil
}

// removeAbandoned removes temporary folders of servers that were killed.
func removeAbandoned(ctx context.Context, logger *slog.Logger) {
	removed, err := subprocess.RemoveStaleDirs()
	if removed > 0 {
		logger.InfoContext(ctx, "removed folders of killed processes", "folders", removed)
	}
	if err != nil {
		logger.WarnContext(ctx, "cannot remove folders of killed processes", "error", err)
	}
}

// logBackends logs the backends. The server also starts without a backend, because decisions fall back to
// others.
func logBackends(ctx context.Context, logger *slog.Logger, backends []elastalloc.Backend) {
	for _, backend := range backends {
		switch {
		case backend.Missing != nil:
			logger.WarnContext(ctx, "backend is missing", "backend", backend.Name, "error", backend.Missing)
		case backend.Version != "":
			logger.InfoContext(ctx, "backend found", "backend", backend.Name, "version", backend.Version)
		}
	}
}

// logChanges returns a function that logs changes of the circuit breaker of a backend.
func logChanges(logger *slog.Logger) func(solver.BackendName, chain.BackendState) {
	return func(name solver.BackendName, state chain.BackendState) {
		if state.Up {
			logger.Info("backend circuit is closed", "backend", name)
			return
		}
		logger.Warn("backend circuit is open", "backend", name,
			"until", state.OpenUntil.UTC(), "failures", state.Failures, "cause", state.Cause)
	}
}

// shown converts backends for the status page and the metrics.
func shown(backends []elastalloc.Backend) []server.Backend {
	all := make([]server.Backend, len(backends))
	for i, backend := range backends {
		all[i] = server.Backend{Name: backend.Name, Version: backend.Version, State: backend.State}
	}
	return all
}

// systemdReadiness returns a function that notifies systemd when the server becomes ready or drains,
// like sd_notify(3). It returns nil if NOTIFY_SOCKET is not set. If a message cannot be sent, the
// function only logs the error.
func systemdReadiness(env cli.LookupEnv, logger *slog.Logger) func(ready bool) {
	socket := env.Get("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	return func(ready bool) {
		state := "STOPPING=1"
		if ready {
			state = "READY=1"
		}
		if err := sendDatagram(socket, state); err != nil {
			logger.Warn("cannot notify systemd", "state", state, "error", err)
		}
	}
}

// sendDatagram sends one message to a Unix socket. A name that begins with @ is an abstract socket.
func sendDatagram(socket, message string) error {
	connection, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = connection.Write([]byte(message))
	return err
}
