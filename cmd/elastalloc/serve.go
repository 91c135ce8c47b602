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
	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/cmd/internal/telemetry"
	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/internal/tracing"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/subprocess"
)

// gcPercent is by how much the heap grows before Go collects garbage, but near the memory limit.
// Since a server's own data is some 1 MB, with Go's 100 it would every 30 calls: a quarter of their
// CPU.
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
		Long: `Serve the AllocatorService, health and reflection over gRPC, and over HTTP on
the admin address a status page at /, /metrics, /healthz and /readyz. SIGTERM
and SIGINT drain the server: it turns not ready, waits, refuses new calls, lets
those in flight end and exits 0. Logs go to stderr, one JSON object per line.
With --record every call is kept, job ids and all, for elastalloc-lab replay.
The standard variables of OpenTelemetry, such as OTEL_EXPORTER_OTLP_ENDPOINT,
turn traces on.`,
		Example: `  elastalloc serve
  elastalloc serve --record recording --backends highs,exact
  elastalloc serve --tls-cert server.crt --tls-key server.key
  elastalloc serve --listen unix:/run/elastalloc/elastalloc.sock`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if options.DefaultBudget <= 0 {
				return fmt.Errorf("--default-budget is %v (want more than 0)", options.DefaultBudget)
			}
			if options.DefaultBudget > config.MaxBudget {
				return fmt.Errorf("--default-budget is %v (want at most --max-budget, %v)", options.DefaultBudget, config.MaxBudget)
			}
			if options.MaxJobs < 1 {
				return fmt.Errorf("--max-jobs is %d (want at least 1)", options.MaxJobs)
			}
			var least slog.Level
			if err := least.UnmarshalText([]byte(level)); err != nil {
				return fmt.Errorf("--log-level: %w", err)
			}
			config.Logger = slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: least}))
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
			config.Audit = auditAnswer
			traces, err := telemetry.New(cmd.Context(), telemetry.Config{
				Getenv: env.Get, Logger: config.Logger, Version: config.Version,
			})
			if err != nil {
				return err
			}
			// After the drain, so that the spans of the last calls are among them.
			defer traces.Shutdown()
			config.TracerProvider, config.Propagator = traces.TracerProvider, traces.Propagator
			stopRecording, err := startRecording(&config, record)
			if err != nil {
				return err
			}
			defer stopRecording() // After the drain, as well.
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
	flags.StringVar(&config.Listen, "listen", config.Listen, "address of gRPC: host:port, or unix:/path for a Unix socket of mode 0660")
	flags.StringVar(&config.AdminListen, "admin-listen", config.AdminListen, "address of the status page, metrics, liveness and readiness")
	flags.StringSliceVar(&config.AdminHosts, "admin-hosts", nil,
		"names by which --admin-listen may be asked for, beside addresses and names without a dot")
	flags.BoolVar(&config.Plaintext, "plaintext", false, "allow plain text on a --listen address that is not loopback")
	flags.BoolVar(&reflection, "reflection", true, "serve gRPC reflection, from which clients such as grpcurl learn the API")
	flags.StringVar(&config.TLSCert, "tls-cert", "", "PEM file of the server's certificate, read again when it changes; without it the server speaks plain text")
	flags.StringVar(&config.TLSKey, "tls-key", "", "PEM file of the server's key")
	flags.StringVar(&config.ClientCA, "client-ca", "", "PEM file of the CA that must have signed every client's certificate")
	flags.StringSliceVar(&config.ClientNames, "client-names", nil,
		"names of clients that may call: one of the subject alternative names of their certificates (default any certificate of --client-ca)")
	flags.DurationVar(&options.DefaultBudget, "default-budget", options.DefaultBudget, "time budget of a request that has none")
	flags.DurationVar(&config.MaxBudget, "max-budget", config.MaxBudget, "longest time budget of a request; one that asks for more gets this")
	flags.IntVar(&config.MaxInflight, "max-inflight", config.MaxInflight, "maximum number of searches made at once, and as many short decisions beside")
	cli.OnePerCore(flags, "max-inflight")
	flags.IntVar(&config.MaxQueue, "max-queue", config.MaxQueue, "maximum number of requests that wait for a search; without one within 100ms, or beyond this number, greedy answers")
	flags.Var(cli.NewBytesFlag(&config.MaxMemory), "max-memory", fmt.Sprintf("memory that all requests together may hold: received, decoded, work space, unread answers; the server takes up to %dMiB beside, and %dMiB for each of --max-inflight", server.ProcessMemory>>20, server.InflightMemory()>>20))
	flags.IntVar(&options.MaxJobs, "max-jobs", options.MaxJobs, "maximum number of jobs per snapshot")
	flags.Var(cli.ChoiceFlag{Value: &level, Choices: []string{"debug", "info", "warn", "error"}}, "log-level", "minimum level to log")
	flags.StringSliceVar(&config.MetricsGroups, "metrics-groups", nil,
		"ids of the groups of jobs that have metrics of their own")
	flags.StringSliceVar(&config.MetricsNodeTypes, "metrics-node-types", nil, "ids of the node types that have metrics of their own")
	flags.StringVar(&record.Dir, "record", "", "folder to keep every call in, for elastalloc-lab replay; one of its own for each server")
	flags.Float64Var(&config.AuditShare, "audit-share", 0, "share of the answers, 0 to 1, that the independent check of elastalloc audit looks at after they are sent, in turns that no call wants")
	flags.StringVar(&config.DefectDir, "defect-dir", "", "folder to keep requests in that showed a defect of this program, job ids and all: at most 100 files and 64MiB")
	flags.Var(cli.NewBytesFlag(&record.MaxBytes), "record-max-bytes", "bytes that the recordings may take; the oldest are deleted beyond")
	cli.AddProgramFlags(command.Flags(), &programs)
	flags.StringSliceVar(&names, "backends", cli.Named[string](elastalloc.DefaultBackends()),
		"backends to ask, in this order, out of "+strings.Join(cli.Named[string](elastalloc.BackendNames()), ", ")+"; greedy is the last resort of all")
	flags.DurationVar(&config.DrainDelay, "drain-delay", config.DrainDelay, "time between turning not ready and refusing calls")
	flags.DurationVar(&config.DrainTimeout, "drain-timeout", config.DrainTimeout, "time that calls in flight then have to end before they are cut off")
	cli.CompleteValues(command, "backends", cli.Named[string](elastalloc.BackendNames())...)
	return command
}

// auditAnswer checks an answer as elastalloc audit does.
func auditAnswer(ctx context.Context, request *elastallocv1.AllocateRequest, answer *elastallocv1.AllocateResponse) (verdict, reason string) {
	// It has the turn of a search; slices that grow take twice what they hold.
	report := audit.Check(ctx, request, answer, audit.Options{Numbers: server.SearchMemory / 16})
	return strings.ToLower(string(report.Verdict)), report.Reason
}

// recordingCloseTimeout is how long the disk has to take the last recordings.
const recordingCloseTimeout = 5 * time.Second

// startRecording has a server record its calls, if there is a folder for them; stop writes out
// the last of them.
func startRecording(config *server.Config, record recording.Config) (stop func(), err error) {
	if record.Dir == "" {
		return func() {}, nil
	}
	logger := config.Logger
	record.Logger = logger
	if record.MaxBytes < recording.MinMaxBytes {
		return nil, fmt.Errorf("--record-max-bytes is %d (want at least 1MiB)", record.MaxBytes)
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

// removeAbandoned removes what a server that was killed has left on the disk.
func removeAbandoned(ctx context.Context, logger *slog.Logger) {
	removed, err := subprocess.RemoveAbandoned()
	if removed > 0 {
		logger.InfoContext(ctx, "removed what killed processes have left", "folders", removed)
	}
	if err != nil {
		logger.WarnContext(ctx, "cannot remove what killed processes have left", "error", err)
	}
}

// logBackends logs which backends there are. One that is missing does not keep the server from
// starting: decisions fall back.
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

// logChanges returns what logs that a backend is taken out of use or is back.
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

// shown returns what the server shows of the backends.
func shown(backends []elastalloc.Backend) []server.Backend {
	all := make([]server.Backend, len(backends))
	for i, backend := range backends {
		all[i] = server.Backend{Name: backend.Name, Version: backend.Version, State: backend.State}
	}
	return all
}

// systemdReadiness returns what tells systemd that the server is ready or drains, as
// sd_notify(3) does: nil where NOTIFY_SOCKET names no socket. A message that cannot be sent is
// logged and no reason not to serve.
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
			logger.Warn("cannot tell systemd", "state", state, "error", err)
		}
	}
}

// sendDatagram sends one message to a Unix socket; @ begins a name of Linux' abstract ones.
func sendDatagram(socket, message string) error {
	connection, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = connection.Write([]byte(message))
	return err
}
