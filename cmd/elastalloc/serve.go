package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/cmd/internal/wiring"
	"github.com/elastalloc/elastalloc/server"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/subprocess"
)

func newServeCommand() *cobra.Command {
	config := server.DefaultConfig()
	config.Version = version()
	names, budget, level := wiring.DefaultBackends(), wiring.DefaultBudget, slog.LevelInfo
	var programs wiring.Programs

	command := &cobra.Command{
		Use:   "serve",
		Short: "Serve decisions over gRPC",
		Long: `Serve the AllocatorService, health and reflection over gRPC, and /metrics, /healthz
and /readyz over HTTP on the admin address. SIGTERM and SIGINT drain the server:
it says that it is not ready, waits, refuses new calls, lets those in flight end
and exits 0. Logs go to stderr, one JSON object per line.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if budget <= 0 {
				return fmt.Errorf("--default-budget is %v; want more than 0", budget)
			}
			backends, err := wiring.Backends(cmd.Context(), names, programs)
			if err != nil {
				return fmt.Errorf("--backends: %w", err)
			}
			config.Logger = slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
			removeAbandoned(cmd.Context(), config.Logger)
			config.Chain = wiring.Chain(backends, budget)
			config.Backends = backendsUp(cmd.Context(), config.Logger, backends)
			ready, err := config.Complete()
			if errors.As(err, new(*net.OpError)) {
				return failed(err)
			}
			if err != nil {
				return err
			}
			return failed(ready.Run(cmd.Context()))
		},
	}
	flags := command.Flags()
	flags.StringVar(&config.Listen, "listen", config.Listen, "address of gRPC")
	flags.StringVar(&config.AdminListen, "admin-listen", config.AdminListen, "address of metrics, liveness and readiness")
	flags.StringSliceVar(&names, "backends", names, "backends to ask, in this order: exact, cbc, highs; greedy is the last resort anyway")
	addProgramFlags(flags, &programs)
	flags.DurationVar(&budget, "default-budget", budget, "decision budget of a request that names none")
	flags.IntVar(&config.MaxInflight, "max-inflight", config.MaxInflight, "decisions made at once; more requests are shed")
	flags.IntVar(&config.MaxJobs, "max-jobs", config.MaxJobs, "jobs of a snapshot at most")
	flags.StringVar(&config.TLSCert, "tls-cert", "", "PEM file of the server's certificate; plain text without")
	flags.StringVar(&config.TLSKey, "tls-key", "", "PEM file of the server's key")
	flags.StringVar(&config.ClientCA, "client-ca", "", "PEM file of the CA that every client's certificate must come from")
	flags.DurationVar(&config.DrainDelay, "drain-delay", config.DrainDelay, "wait between saying not ready and refusing calls")
	flags.DurationVar(&config.DrainTimeout, "drain-timeout", config.DrainTimeout, "time that calls in flight then have to end")
	flags.TextVar(&level, "log-level", level, "least level logged: debug, info, warn or error")
	return command
}

// removeAbandoned removes what a server that was killed has left on the disk, and
// logs it. To fail is no reason not to serve.
func removeAbandoned(ctx context.Context, logger *slog.Logger) {
	removed, err := subprocess.RemoveAbandoned()
	if removed > 0 {
		logger.InfoContext(ctx, "removed what killed processes have left", "folders", removed)
	}
	if err != nil {
		logger.WarnContext(ctx, "cannot remove what killed processes have left", "error", err)
	}
}

// backendsUp returns whether each backend can be asked, and logs it. One whose
// program is missing does not keep the server from starting: decisions fall back.
func backendsUp(ctx context.Context, logger *slog.Logger, backends []wiring.Backend) map[solver.BackendName]bool {
	up := map[solver.BackendName]bool{solver.BackendGreedy: true}
	for _, backend := range backends {
		name := backend.Name()
		up[name] = backend.Missing == nil
		switch {
		case backend.Missing != nil:
			logger.WarnContext(ctx, "backend is missing", "backend", name, "error", backend.Missing)
		case backend.Version != "":
			logger.InfoContext(ctx, "backend is there", "backend", name, "version", backend.Version)
		}
	}
	return up
}
