package controller

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/elastalloc/elastalloc/kube/world"
)

// Report is the state of a pool on the admin page.
type Report struct {
	Pool, Mode string
	State      *world.ClusterState // last observed state, nil before the first one; not modified
	Wanted     int                 // nodes worth their price, in a pool that an autoscaler scales
	Decision   *DecisionReport
}

// DecisionReport describes the last decision of a pool.
type DecisionReport struct {
	ID, Trigger, Result, Detail string
	Jobs, Left                  int // included in and omitted from the request
	Objective, Greedy, Gap      float64
}

// Report returns the last observed state and the last decision.
func (l *Loop) Report() Report {
	l.report.mu.Lock()
	defer l.report.mu.Unlock()
	return l.report.report
}

// sharedReport is the report of a loop. The admin page reads it while the loop runs.
type sharedReport struct {
	mu     sync.Mutex
	report Report
}

// observed replaces the observed state.
func (s *sharedReport) observed(w *world.ClusterState, wanted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.State, s.report.Wanted = w, wanted
}

// decided replaces the last decision.
func (s *sharedReport) decided(d *DecisionReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Decision = d
}

// publish updates the metrics and the admin page with the state of the pool.
func (l *Loop) publish(w *world.ClusterState) {
	pool, m := l.pool.Name, l.Metrics
	jobs := map[string]int{"running": 0, "queued": 0, "pinned": 0, "cooling": 0, "capped": 0, "finished": 0}
	pinned := make(map[world.Reason]int)
	ages := make(map[world.Source]time.Duration)
	occupied, terminating, overdue := 0, 0, 0
	for _, j := range w.Jobs {
		occupied, terminating, overdue = occupied+j.OccupiedNodes(), terminating+j.Pods.Terminating, overdue+j.Pods.Overdue
		switch {
		case j.Shape.Finished:
			jobs["finished"]++
			continue
		case j.Pinned != "":
			jobs["pinned"]++
			pinned[j.Pinned]++
		case j.Nodes() > 0:
			jobs["running"]++
		default:
			jobs["queued"]++
		}
		if j.Cooling {
			jobs["cooling"]++
		}
		if j.Capped() {
			jobs["capped"]++
		}
		if e := j.Estimate; e.Source != "" {
			ages[e.Source] = max(ages[e.Source], e.Age)
		}
	}
	for state, n := range jobs {
		m.jobs.WithLabelValues(pool, state).Set(float64(n))
	}
	for _, reason := range world.Reasons() {
		m.pinned.WithLabelValues(pool, string(reason)).Set(float64(pinned[reason]))
	}
	m.etaAge.DeletePartialMatch(map[string]string{"pool": pool})
	for source, age := range ages {
		m.etaAge.WithLabelValues(pool, string(source)).Set(age.Seconds())
	}
	for state, n := range map[world.NodeState]int{
		world.Accepting: w.Nodes.Accepting, world.Retaining: w.Nodes.Retaining, world.Gone: w.Nodes.Gone,
	} {
		m.nodes.WithLabelValues(pool, string(state)).Set(float64(n))
	}
	for nodeType, n := range w.TypeNodes {
		for state, nodes := range map[string]int{
			string(world.Accepting): n.Accepting, string(world.Retaining): n.Retaining, string(world.Gone): n.Gone, "idle": w.IdleOf(nodeType),
		} {
			m.typeNodes.WithLabelValues(pool, nodeType, state).Set(float64(nodes))
		}
	}
	for _, reason := range world.NodeReasons() {
		m.poolNodes.WithLabelValues(pool, string(reason)).Set(float64(w.NodesBy(reason)))
	}
	for state, n := range map[string]int{
		"expected": w.Nodes.Expected, "wanted": l.decision.worthwhile, "held": occupied,
		"terminating": terminating, "overdue": overdue, "free": max(0, w.Free()),
	} {
		m.poolNodes.WithLabelValues(pool, state).Set(float64(n))
	}
	l.report.observed(w, l.decision.worthwhile)
}

// Admin returns a handler for /metrics, /healthz, /readyz, and the admin page at /. ready returns an error
// while the controller is not ready. The admin page shows jobs only to callers on this machine, such as
// kubectl port-forward.
func Admin(metrics prometheus.Gatherer, ready func(context.Context) error, loops []*Loop) http.Handler {
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
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, loop := range loops {
			writeReport(w, loop.Report(), local(r))
		}
	})
	return mux
}

// local reports whether a request is from a loopback address and addressed to localhost or a loopback address.
// The check of the host prevents DNS rebinding by pages in a browser.
func local(r *http.Request) bool {
	caller, _, err := net.SplitHostPort(r.RemoteAddr)
	host, _, noPort := net.SplitHostPort(r.Host)
	if noPort != nil {
		host = r.Host
	}
	return err == nil && net.ParseIP(caller).IsLoopback() && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

// writeReport writes the report of a pool as text, with or without its jobs.
func writeReport(w http.ResponseWriter, r Report, withJobs bool) {
	_, _ = fmt.Fprintf(w, "pool %s, mode %s\n", r.Pool, r.Mode)
	if r.State == nil {
		_, _ = fmt.Fprintf(w, "not observed yet: another replica is the leader, or this replica has just started\n\n")
		return
	}
	n, pool := r.State.Nodes, &r.State.Pool
	_, _ = fmt.Fprintf(w, "at %s: %ss: %d accepting (%d free), %d retaining, %d gone; %d expected to accept pods again\n",
		r.State.Now.UTC().Format(time.RFC3339), pool.UnitName(), n.Accepting, r.State.Free(), n.Retaining, n.Gone, n.Expected)
	for i := range pool.NodeTypes {
		name := pool.NodeTypes[i].Name
		n := r.State.NodesOf(name)
		_, _ = fmt.Fprintf(w, "type %s: %d accepting (%d idle), %d retaining, %d gone; %d expected to accept pods again\n",
			name, n.Accepting, r.State.IdleOf(name), n.Retaining, n.Gone, n.Expected)
	}
	if r.Wanted > 0 {
		_, _ = fmt.Fprintf(w, "%d %ss are worth their price\n", r.Wanted, pool.UnitName())
	}
	if d := r.Decision; d != nil {
		result := d.Result
		if d.Detail != "" && withJobs {
			result += ", " + d.Detail
		}
		_, _ = fmt.Fprintf(w, "last decision %s (%s): %s; %d jobs included, %d omitted; objective %.6g, greedy %.6g, gap %.3g\n",
			d.ID, d.Trigger, result, d.Jobs, d.Left, d.Objective, d.Greedy, d.Gap)
	}
	if !withJobs {
		_, _ = fmt.Fprintf(w, "jobs are shown only to callers on this machine; use kubectl port-forward\n\n")
		return
	}
	for i := range r.State.NodeStatuses {
		if s := &r.State.NodeStatuses[i]; s.State != world.Accepting || s.Message != "" {
			_, _ = fmt.Fprintln(w, s)
		}
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "\nJOB\t%sS\tTARGET\tREMAINING ON ONE %s\tSOURCE\tAGE\tPINNED\n",
		strings.ToUpper(pool.UnitName()), strings.ToUpper(pool.BaseName()))
	for _, j := range r.State.Jobs {
		if j.Shape.Finished {
			continue
		}
		target, remaining, age := "-", "", ""
		if j.HasTarget {
			target = strings.TrimSpace(fmt.Sprint(j.Target, " ", j.TargetType))
		}
		if e := j.Estimate; e.Source != "" {
			remaining, age = e.Remaining.Round(time.Second).String(), e.Age.Round(time.Second).String()
		}
		nodes := fmt.Sprint(j.Nodes())
		if j.Nodes() > 0 && j.Type != "" {
			nodes += " " + j.Type
		}
		pinned := string(j.Pinned)
		if why := cmp.Or(j.Message, j.FallbackReason); why != "" {
			pinned = strings.TrimPrefix(pinned+": "+why, ": ")
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", j.ID, nodes, target, remaining, j.Estimate.Source, age, pinned)
	}
	_ = table.Flush()
	_, _ = fmt.Fprintln(w)
}
