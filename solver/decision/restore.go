package decision

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// RestoreFrozen puts the held jobs back into the decision on the others, with a plan over as
// many steps that keeps their nodes, and no word on their progress.
func RestoreFrozen(h snapshot.FrozenJobs, d Decision, steps int) Decision {
	if !h.Any() {
		return d
	}
	s := h.Snapshot()
	restoreWarnings(h, &d)
	others := d.Allocations
	var rest []int // the positions of those others
	d.Allocations = make([]Allocation, len(s.Jobs))
	for i := range s.Jobs {
		job, bad := &s.Jobs[i], h.Violations(i)
		if bad == nil {
			d.Allocations[i], others = others[0], others[1:]
			rest = append(rest, i)
			if a := &d.Allocations[i]; a.WaitReason == WaitNeverFits && s.Fits(i) {
				a.WaitReason = WaitNoRoom
			}
			continue
		}
		nodes, nodeType := max(0, job.CurrentNodes), ""
		if g := s.TypeIndex(job.CurrentNodeType); nodes > 0 && g >= 0 {
			nodeType = job.CurrentNodeType
		}
		if len(d.Report.Groups) > 0 {
			for g := range h.GroupAncestors(job.GroupID) {
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
		d.Report.NodeTypes[g].Nodes = s.NodeTypes[g].Nodes
	}
	d.Report.Certificate = d.Report.Certificate.RemapJobs(func(job int) int { return rest[job] })
	return d
}

// RestoreFrozenForecast puts the held jobs back into the forecast of the others: they keep their
// nodes and do not end.
func RestoreFrozenForecast(h snapshot.FrozenJobs, f Forecast) Forecast {
	if !h.Any() {
		return f
	}
	s := h.Snapshot()
	others := f.Jobs
	f.Jobs = make([]JobForecast, len(s.Jobs))
	for i := range f.Jobs {
		job := &s.Jobs[i]
		if !h.Contains(i) {
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
func restoreWarnings(h snapshot.FrozenJobs, d *Decision) {
	s, warnings := h.Snapshot(), d.Report.Warnings
	d.Report.Warnings = nil
	jobs := make(map[string]int)
	for i := range s.Jobs {
		if !h.Contains(i) {
			jobs[s.Jobs[i].ID] = i
		}
	}
	for _, w := range warnings {
		if w.Code == WarningEmptyPool && s.TotalNodes > 0 {
			continue
		}
		if w.Code == WarningNeverFits {
			if s.Fits(jobs[w.JobID]) {
				continue
			}
			w = neverFits(s, jobs[w.JobID])
		}
		d.Report.Warnings = append(d.Report.Warnings, w)
	}
}

func describe(bad []snapshot.Violation) string {
	const most = 3
	var parts []string
	for _, v := range snapshot.WithPrefix("snapshot", bad[:min(most, len(bad))]) {
		parts = append(parts, v.Path+": "+v.Description)
	}
	if more := len(bad) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}
