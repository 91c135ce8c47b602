package controller

import (
	"cmp"
	"time"

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
