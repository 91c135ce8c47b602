package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// RestoreFrozen returns the decision on the other jobs extended by the frozen jobs. Frozen jobs keep
// their nodes for the given steps, and their progress is not set.
func RestoreFrozen(h solver.FrozenJobs, d solver.Decision, steps int) solver.Decision {
	if !h.Any() {
		return d
	}
	s := h.Snapshot()
	tree := s.GroupTree()
	restoreWarnings(h, &d)
	others := d.Allocations
	var positions []int // of the other jobs in the snapshot
	d.Allocations = make([]solver.Allocation, len(s.Jobs))
	for i := range s.Jobs {
		job := &s.Jobs[i]
		if !h.Contains(i) {
			d.Allocations[i], others = others[0], others[1:]
			positions = append(positions, i)
			if a := &d.Allocations[i]; a.WaitReason == solver.WaitNeverFits && s.Fits(i) {
				a.WaitReason = solver.WaitNoRoom
			}
			continue
		}
		nodes, nodeType := max(0, job.CurrentNodes), ""
		if g := s.TypeIndex(job.CurrentNodeType); nodes > 0 && g >= 0 {
			nodeType = job.CurrentNodeType
		}
		if len(d.Report.Groups) > 0 {
			for g := range tree.Ancestors(job.GroupID) {
				d.Report.Groups[g].Nodes += nodes
				countInTypes(&d.Report.Groups[g], nodeType, nodes)
			}
		}
		d.Allocations[i] = solver.Allocation{
			JobID: job.ID, Current: nodes, Nodes: nodes, NodeType: nodeType, Change: solver.ChangeOf(nodes, nodes),
			PlannedNodes: slices.Repeat([]int{nodes}, steps),
		}
		countInLimits(&d.Report, s, i, &d.Allocations[i])
		if bad := h.Violations(i); len(bad) > 0 {
			d.Report.Warnings = append(d.Report.Warnings, solver.Warning{
				Code: solver.WarningBadJobHeld, JobID: job.ID,
				Message: fmt.Sprintf("job %q keeps its %d nodes: %s", job.ID, nodes, describe(bad)),
			})
		}
	}
	for g := range d.Report.Groups {
		for n, limit := range s.Groups[g].TypeLimits {
			d.Report.Groups[g].Types[n].Limit = limit.Limit
		}
	}
	for g := range d.Report.NodeTypes {
		d.Report.NodeTypes[g].Nodes = s.NodeTypes[g].Nodes
	}
	for n := range d.Report.SizeLimits {
		d.Report.SizeLimits[n].Nodes = s.SizeLimits[n].Nodes
	}
	d.Report.Certificate = d.Report.Certificate.RemapJobs(func(job int) int { return positions[job] })
	return d
}

// RestoreFrozenForecast returns the forecast of the other jobs extended by the frozen jobs, which keep
// their nodes and do not complete.
func RestoreFrozenForecast(h solver.FrozenJobs, f solver.Forecast) solver.Forecast {
	if !h.Any() {
		return f
	}
	s := h.Snapshot()
	others := f.Jobs
	f.Jobs = make([]solver.JobForecast, len(s.Jobs))
	for i := range f.Jobs {
		job := &s.Jobs[i]
		if !h.Contains(i) {
			f.Jobs[i], others = others[0], others[1:]
			continue
		}
		f.Jobs[i] = solver.JobForecast{JobID: job.ID}
		if now := time.Duration(0); job.CurrentNodes > 0 {
			f.Jobs[i].Start, f.Jobs[i].StartLow, f.Jobs[i].StartHigh = &now, &now, &now
		}
	}
	return f
}

// restoreWarnings corrects the warnings about a pool without the nodes of frozen jobs. It removes the
// warnings that the pool is empty and that jobs never fit if they do not apply to the whole pool.
func restoreWarnings(h solver.FrozenJobs, d *solver.Decision) {
	s, warnings := h.Snapshot(), d.Report.Warnings
	d.Report.Warnings = nil
	jobs := make(map[string]int)
	for i := range s.Jobs {
		if !h.Contains(i) {
			jobs[s.Jobs[i].ID] = i
		}
	}
	for _, w := range warnings {
		if w.Code == solver.WarningEmptyPool && s.TotalNodes > 0 {
			continue
		}
		if w.Code == solver.WarningNeverFits {
			if s.FitsRows(jobs[w.JobID], s.Rows()) {
				continue
			}
			w = neverFits(s, jobs[w.JobID])
		}
		d.Report.Warnings = append(d.Report.Warnings, w)
	}
}

func describe(bad []solver.Violation) string {
	const limit = 3
	var parts []string
	for _, v := range solver.WithPrefix("snapshot", bad[:min(limit, len(bad))]) {
		parts = append(parts, v.Path+": "+v.Description)
	}
	if more := len(bad) - limit; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}
