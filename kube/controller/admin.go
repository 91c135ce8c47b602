package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Admin serves admin HTTP on every replica, leader or not.
type Admin struct {
	Address string
	Metrics prometheus.Gatherer
	// Ready returns why the controller is not ready, nil when it is.
	Ready func(context.Context) error
	Loops []*Loop
}

// NeedLeaderElection says that it is served without the lease as well.
func (a *Admin) NeedLeaderElection() bool { return false }

// Start serves until ctx ends.
func (a *Admin) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.Address)
	if err != nil {
		return fmt.Errorf("admin HTTP: %w", err)
	}
	server := &http.Server{Handler: a.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	stopped := context.AfterFunc(ctx, func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(closing)
	})
	defer stopped()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin HTTP: %w", err)
	}
	return nil
}

// Handler returns /metrics, /healthz, /readyz, /decisions as JSON, and the same as text
// at /.
func (a *Admin) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.Metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := a.Ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /decisions", func(w http.ResponseWriter, _ *http.Request) {
		reports := make([]Report, 0, len(a.Loops))
		for _, loop := range a.Loops {
			reports = append(reports, loop.Report())
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"pools": reports})
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, loop := range a.Loops {
			writeReport(w, loop.Report())
		}
	})
	return mux
}

// writeReport writes a pool as a person reads it.
func writeReport(w http.ResponseWriter, r Report) {
	_, _ = fmt.Fprintf(w, "pool %s, mode %s\n", r.Pool, r.Mode)
	if r.Seen.IsZero() {
		_, _ = fmt.Fprintf(w, "not seen yet: another replica holds the lease, or this one just started\n\n")
		return
	}
	n := r.Nodes
	_, _ = fmt.Fprintf(w, "at %s: %d nodes, %d free; out of the count: %d not ready, %d cordoned, %d tainted, %d with foreign pods, %d odd\n",
		r.Seen.UTC().Format(time.RFC3339), n.Usable, r.Free, n.NotReady, n.Cordoned, n.Tainted, n.Foreign, n.Odd)
	if d := r.Decision; d != nil {
		result := d.Result
		if d.Detail != "" {
			result += ", " + d.Detail
		}
		_, _ = fmt.Fprintf(w, "last moment %s (%s): %s; %d jobs asked about, %d left out; objective %.6g, greedy %.6g, gap %.3g\n",
			d.ID, d.Trigger, result, d.Jobs, d.Left, d.Objective, d.Greedy, d.Gap)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "\nJOB\tNODES\tTARGET\tREMAINING ON ONE NODE\tSOURCE\tAGE\tPINNED")
	for _, j := range r.Jobs {
		target, pinned := "-", string(j.Pinned)
		if j.Target != nil {
			target = fmt.Sprint(*j.Target)
		}
		if j.Why != "" {
			pinned += ": " + j.Why
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", j.Job, j.Nodes, target, j.Remaining, j.Source, j.Age, pinned)
	}
	_ = table.Flush()
	_, _ = fmt.Fprintln(w)
}
