package controller

import (
	"cmp"
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

	"github.com/elastalloc/elastalloc/kube/world"
)

// Report is what the admin page shows of a pool.
type Report struct {
	Pool     string           `json:"pool"`
	Mode     string           `json:"mode"`
	Seen     time.Time        `json:"seen"`
	Nodes    world.NodeCounts `json:"nodes"`
	Free     int              `json:"free"`
	Wanted   int              `json:"wanted,omitempty"` // nodes worth their price, in a pool that scales
	Decision *DecisionReport  `json:"decision,omitempty"`
	Jobs     []JobReport      `json:"jobs"`
}

// DecisionReport is the last moment of a pool.
type DecisionReport struct {
	ID        string    `json:"id"`
	Time      time.Time `json:"time"`
	Trigger   string    `json:"trigger"`
	Result    string    `json:"result"`
	Detail    string    `json:"detail,omitempty"`
	Jobs      int       `json:"jobs"` // asked about
	Left      int       `json:"left"` // out
	Objective float64   `json:"objective,omitempty"`
	Greedy    float64   `json:"greedy_objective,omitempty"`
	Gap       float64   `json:"gap,omitempty"`
}

// JobReport is a job of a pool.
type JobReport struct {
	Job       string       `json:"job"`
	Nodes     int          `json:"nodes"`
	Held      int          `json:"held"`
	Target    *int         `json:"target,omitempty"`
	Remaining string       `json:"remaining,omitempty"`
	Source    world.Source `json:"source,omitempty"`
	Age       string       `json:"age,omitempty"`
	Pinned    world.Reason `json:"pinned,omitempty"`
	Why       string       `json:"why,omitempty"`
	Cooling   bool         `json:"cooling,omitempty"`
}

// Report returns what was seen last.
func (l *Loop) Report() Report {
	l.status.Lock()
	defer l.status.Unlock()
	return l.report
}

// show tells metrics and the admin page what the world looks like.
func (l *Loop) show(w *world.World) {
	pool, m := l.pool.Name, l.Metrics
	jobs := map[string]int{"running": 0, "queued": 0, "pinned": 0, "cooling": 0, "capped": 0, "finished": 0}
	pinned := make(map[world.Reason]int)
	ages := make(map[world.Source]time.Duration)
	reports := make([]JobReport, 0, len(w.Jobs))
	held, terminating, overdue := 0, 0, 0
	for _, j := range w.Jobs {
		held, terminating, overdue = held+j.Held(), terminating+j.Pods.Terminating, overdue+j.Pods.Overdue
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
		r := JobReport{Job: j.ID, Nodes: j.Nodes(), Held: j.Held(), Pinned: j.Pinned, Why: cmp.Or(j.Why, j.Guessed), Cooling: j.Cooling}
		if j.Cooling {
			jobs["cooling"]++
		}
		if j.Capped() {
			jobs["capped"]++
		}
		if j.HasTarget {
			r.Target = &j.Target
		}
		if e := j.Estimate; e.Source != "" {
			ages[e.Source] = max(ages[e.Source], e.Age)
			r.Remaining, r.Source, r.Age = e.Remaining.Round(time.Second).String(), e.Source, e.Age.Round(time.Second).String()
		}
		reports = append(reports, r)
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
	for state, n := range map[string]int{
		"usable": w.Nodes.Usable, "not_ready": w.Nodes.NotReady, "cordoned": w.Nodes.Cordoned, "tainted": w.Nodes.Tainted,
		"foreign": w.Nodes.Foreign, "odd": w.Nodes.Odd, "leaving": w.Nodes.Leaving, "wanted": l.wanted, "held": held, "terminating": terminating, "overdue": overdue, "free": max(0, w.Free()),
	} {
		m.nodes.WithLabelValues(pool, state).Set(float64(n))
	}
	l.status.Lock()
	defer l.status.Unlock()
	l.report.Seen, l.report.Nodes, l.report.Free, l.report.Wanted, l.report.Jobs = w.Now, w.Nodes, w.Free(), l.wanted, reports
}

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
