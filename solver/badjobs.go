package solver

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// BadJobs is what becomes of a request in which a job has bad fields.
type BadJobs string

// The ways to treat bad jobs.
const (
	// BadJobsRefuse refuses the request.
	BadJobsRefuse BadJobs = "refuse"
	// BadJobsHold lets a job with bad fields keep its current nodes, which leave the
	// pool, and decides on all others; a warning names it.
	BadJobsHold BadJobs = "hold"
)

// Held are the jobs of a snapshot that keep their nodes because they have bad fields.
type Held struct {
	snapshot *Snapshot
	groups   groupTree
	// bad are the bad fields by the job's position in the snapshot.
	bad map[int][]Violation
}

// Hold takes the jobs with bad fields, and the nodes they hold, out of a snapshot that
// has its defaults. It returns s itself where all jobs are good, and where an id is too long
// to be named in an answer, so that Validate refuses it.
func (s *Snapshot) Hold() (*Snapshot, Held) {
	tree := s.groupTree()
	held := Held{snapshot: s, groups: tree, bad: make(map[int][]Violation)}
	if s.validateIDs(new(violations)) {
		return s, held
	}
	first := make(map[string]int, len(s.Jobs))
	for i := range s.Jobs {
		var bad violations
		if s.validateJob(i, first, tree, &bad); len(bad) > 0 {
			held.bad[i] = bad
		}
	}
	if len(held.bad) == 0 {
		return s, held
	}
	rest := *s
	rest.Groups, rest.NodeTypes = slices.Clone(s.Groups), slices.Clone(s.NodeTypes)
	rest.Jobs = make([]Job, 0, len(s.Jobs)-len(held.bad))
	for i := range s.Jobs {
		if held.bad[i] == nil {
			rest.Jobs = append(rest.Jobs, s.Jobs[i])
			continue
		}
		nodes := max(0, s.Jobs[i].CurrentNodes)
		rest.take(nodes, s.Jobs[i].CurrentNodeType)
		for g := range tree.above(s.Jobs[i].GroupID) {
			rest.Groups[g].take(nodes)
		}
	}
	return &rest, held
}

// take takes the nodes that a held job keeps out of the pool, and those of a known type out of
// that. What is not valid stays so.
func (s *Snapshot) take(nodes int, nodeType string) {
	if g := s.typeIndex(nodeType); g >= 0 {
		nodes = min(nodes, max(0, s.NodeTypes[g].Nodes))
		s.NodeTypes[g].Nodes -= nodes
	} else if len(s.NodeTypes) > 0 {
		return
	}
	if s.TotalNodes > 0 {
		s.TotalNodes = max(0, s.TotalNodes-nodes)
	}
}

// take takes the nodes that a held job keeps out of the limit and the quota of a group.
// What is not valid stays so.
func (g *Group) take(nodes int) {
	if g.Limit != nil && *g.Limit > 0 {
		g.Limit = new(max(0, *g.Limit-nodes))
	}
	if g.Quota > 0 {
		g.Quota = max(0, g.Quota-nodes)
	}
}

// Has reports whether job i of the snapshot is held.
func (h Held) Has(i int) bool { return h.bad[i] != nil }

// Restore puts the held jobs back into the decision on the others, with a plan over as
// many steps that keeps their nodes, and no word on their progress.
func (h Held) Restore(d Decision, steps int) Decision {
	if len(h.bad) == 0 {
		return d
	}
	h.restoreWarnings(&d)
	others := d.Allocations
	var rest []int // the positions of those others
	d.Allocations = make([]Allocation, len(h.snapshot.Jobs))
	for i := range h.snapshot.Jobs {
		job, bad := &h.snapshot.Jobs[i], h.bad[i]
		if bad == nil {
			d.Allocations[i], others = others[0], others[1:]
			rest = append(rest, i)
			if a := &d.Allocations[i]; a.WaitReason == WaitNeverFits && h.snapshot.Fits(i) {
				a.WaitReason = WaitNoRoom
			}
			continue
		}
		nodes, nodeType := max(0, job.CurrentNodes), ""
		if g := h.snapshot.typeIndex(job.CurrentNodeType); nodes > 0 && g >= 0 {
			nodeType = job.CurrentNodeType
		}
		if len(d.Report.Groups) > 0 {
			for g := range h.groups.above(job.GroupID) {
				d.Report.Groups[g].Nodes += nodes
			}
		}
		d.Allocations[i] = Allocation{
			JobID: job.ID, Current: nodes, Nodes: nodes, NodeType: nodeType, Change: ChangeOf(nodes, nodes),
			PlannedNodes: slices.Repeat([]int{nodes}, steps),
		}
		d.Report.Warnings = append(d.Report.Warnings, Warning{
			Code: WarningBadJobHeld, JobID: job.ID,
			Message: fmt.Sprintf("job %q keeps its %d nodes: %s", job.ID, nodes, describe(bad)),
		})
	}
	for g := range d.Report.NodeTypes {
		d.Report.NodeTypes[g].Nodes = h.snapshot.NodeTypes[g].Nodes
	}
	d.Report.Certificate = d.Report.Certificate.renamed(func(job int) int { return rest[job] })
	return d
}

// RestoreForecast puts the held jobs back into the forecast of the others: they keep their
// nodes and do not end.
func (h Held) RestoreForecast(f Forecast) Forecast {
	if len(h.bad) == 0 {
		return f
	}
	others := f.Jobs
	f.Jobs = make([]JobForecast, len(h.snapshot.Jobs))
	for i := range f.Jobs {
		job := &h.snapshot.Jobs[i]
		if h.bad[i] == nil {
			f.Jobs[i], others = others[0], others[1:]
			continue
		}
		f.Jobs[i] = JobForecast{JobID: job.ID}
		if now := time.Duration(0); job.CurrentNodes > 0 {
			f.Jobs[i].Start, f.Jobs[i].StartLow, f.Jobs[i].StartHigh = &now, &now, &now
		}
	}
	return f
}

// restoreWarnings corrects what was said of a pool without the nodes that bad jobs keep:
// it is not empty, and jobs that would fit but for those nodes have no room now.
func (h Held) restoreWarnings(d *Decision) {
	warnings := d.Report.Warnings
	d.Report.Warnings = nil
	jobs := make(map[string]int)
	for i := range h.snapshot.Jobs {
		if h.bad[i] == nil {
			jobs[h.snapshot.Jobs[i].ID] = i
		}
	}
	for _, w := range warnings {
		if w.Code == WarningEmptyPool && h.snapshot.TotalNodes > 0 {
			continue
		}
		if w.Code == WarningNeverFits {
			if h.snapshot.Fits(jobs[w.JobID]) {
				continue
			}
			w = h.snapshot.neverFits(jobs[w.JobID])
		}
		d.Report.Warnings = append(d.Report.Warnings, w)
	}
}

func describe(bad []Violation) string {
	const most = 3
	var parts []string
	for _, v := range under("snapshot", bad[:min(most, len(bad))]) {
		parts = append(parts, v.Path+": "+v.Description)
	}
	if more := len(bad) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}
