package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Admin returns a handler of /metrics, /healthz, /readyz, /decisions as JSON, and the same as text
// at /. Ready returns why the controller is not ready, nil when it is. Jobs are shown to callers on
// this machine only, as kubectl port-forward is one.
func Admin(metrics prometheus.Gatherer, ready func(context.Context) error, loops []*Loop) http.Handler {
	reports := func(r *http.Request) []Report {
		reports := make([]Report, 0, len(loops))
		for _, loop := range loops {
			report := loop.Report()
			if !local(r) {
				report.Jobs = nil
				if d := report.Decision; d != nil {
					report.Decision = new(*d)
					report.Decision.Detail = ""
				}
			}
			reports = append(reports, report)
		}
		return reports
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /decisions", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"pools": reports(r)})
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, report := range reports(r) {
			writeReport(w, report)
		}
	})
	return mux
}

// local reports whether a request is from this machine, and to it by its address or as localhost: a
// page in a browser can let a name of its own resolve to our address (DNS rebinding).
func local(r *http.Request) bool {
	caller, _, err := net.SplitHostPort(r.RemoteAddr)
	host, _, noPort := net.SplitHostPort(r.Host)
	if noPort != nil {
		host = r.Host
	}
	return err == nil && net.ParseIP(caller).IsLoopback() && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

// writeReport writes a pool as text.
func writeReport(w http.ResponseWriter, r Report) {
	_, _ = fmt.Fprintf(w, "pool %s, mode %s\n", r.Pool, r.Mode)
	if r.Seen.IsZero() {
		_, _ = fmt.Fprintf(w, "not seen yet: another replica holds the lease, or this one just started\n\n")
		return
	}
	n := r.Nodes
	_, _ = fmt.Fprintf(w, "at %s: %d nodes, %d free; out of the count: %d not ready, %d cordoned, %d tainted, %d with foreign pods, %d odd, %d leaving\n",
		r.Seen.UTC().Format(time.RFC3339), n.Usable, r.Free, n.NotReady, n.Cordoned, n.Tainted, n.Foreign, n.Odd, n.Leaving)
	if r.Wanted > 0 {
		_, _ = fmt.Fprintf(w, "%d nodes are worth their price\n", r.Wanted)
	}
	if d := r.Decision; d != nil {
		result := d.Result
		if d.Detail != "" {
			result += ", " + d.Detail
		}
		_, _ = fmt.Fprintf(w, "last moment %s (%s): %s; %d jobs asked about, %d left out; objective %.6g, greedy %.6g, gap %.3g\n",
			d.ID, d.Trigger, result, d.Jobs, d.Left, d.Objective, d.Greedy, d.Gap)
	}
	if r.Jobs == nil {
		_, _ = fmt.Fprintf(w, "jobs are shown to callers on this machine only; forward the port\n\n")
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "\nJOB\tNODES\tTARGET\tREMAINING ON ONE NODE\tSOURCE\tAGE\tPINNED")
	for _, j := range r.Jobs {
		target, pinned := "-", string(j.Pinned)
		if j.Target != nil {
			target = fmt.Sprint(*j.Target)
		}
		if j.Why != "" {
			pinned = strings.TrimPrefix(pinned+": "+j.Why, ": ")
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", j.Job, j.Nodes, target, j.Remaining, j.Source, j.Age, pinned)
	}
	_ = table.Flush()
	_, _ = fmt.Fprintln(w)
}
