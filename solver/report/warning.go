package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// warn adds the warnings about the allocations, which have their wait reasons. p has the groups of the
// snapshot.
func warn(d *solver.Decision, s *solver.Snapshot, p *problem.Problem) {
	add := func(code solver.WarningCode, id, format string, args ...any) {
		d.Report.Warnings = append(d.Report.Warnings, solver.Warning{Code: code, JobID: id, Message: fmt.Sprintf(format, args...)})
	}
	if s.TotalNodes == 0 {
		if len(s.Jobs) > 0 {
			add(solver.WarningEmptyPool, "", "total_nodes is 0: the pool has no nodes for %s", count(len(s.Jobs), "job"))
		}
		return
	}
	if quotas := quotas(s, p); quotas > s.TotalNodes {
		add(solver.WarningQuotasExceedPool, "", "the groups have quotas of %d nodes together; the pool has %d", quotas, s.TotalNodes)
	}
	if text := notNested(s); text != "" {
		add(solver.WarningSizesNotNested, "", "%s", text)
	}
	waiting, first, limited, rows := 0, -1, make(map[string]bool), s.Rows()
	for i := range s.Jobs {
		job := &s.Jobs[i]
		if !s.FitsRows(i, rows) {
			d.Report.Warnings = append(d.Report.Warnings, neverFits(s, i))
			continue
		}
		a := &d.Allocations[i]
		if a.WaitReason == solver.WaitGroupLimit || a.WaitReason == solver.WaitSizeLimit {
			limited[job.ID] = true // It would fit into the pool without the limit.
		}
		if a.Nodes > 0 || limited[job.ID] || limited[a.BehindJobID] {
			continue
		}
		waiting++
		if first < 0 || d.Allocations[first].WaitReason != solver.WaitNoRoom && d.Allocations[i].WaitReason == solver.WaitNoRoom {
			first = i
		}
	}
	if waiting > 0 && d.Report.IdleNodes > 0 {
		job := &s.Jobs[first]
		add(solver.WarningIdleWithQueue, job.ID, "%s idle, %s waiting; job %q needs at least %d",
			count(d.Report.IdleNodes, "node"), count(waiting, "job"), job.ID, s.SmallestSize(first))
	}
}

// Warnings returns the warnings about a decision that are not in its report yet. The options are valid
// and have their defaults. The snapshot has no frozen jobs.
func Warnings(s *solver.Snapshot, o *solver.Options, d *solver.Decision) []solver.Warning {
	var warnings []solver.Warning
	for i := range s.Jobs {
		if text := etaRanOut(s, i, problem.Demand(s, o, i)); text != "" {
			warnings = append(warnings, solver.Warning{
				Code: solver.WarningETARanOut, JobID: s.Jobs[i].ID, Message: fmt.Sprintf("job %q %s", s.Jobs[i].ID, text),
			})
		}
	}
	warnings = append(warnings, longWaits(s, o, d)...)
	running, pauses := 0, 0
	for i := range d.Allocations {
		if d.Allocations[i].Current > 0 {
			running++
		}
		if d.Allocations[i].Change == solver.ChangePreempt {
			pauses++
		}
	}
	if 4*pauses > running {
		warnings = append(warnings, solver.Warning{
			Code: solver.WarningManyPauses, Message: count(pauses, "pause") + " at once among " + count(running, "running job"),
		})
	}
	if o.TotalTime != (solver.TotalTimeOptions{}) && o.Objective != solver.ObjectiveTotalTime {
		warnings = append(warnings, solver.Warning{
			Code:    solver.WarningOptionsIgnored,
			Message: fmt.Sprintf("options.total_time is set and has no effect: options.objective is %s", solver.APIName("OBJECTIVE", o.Objective)),
		})
	}
	if o.IgnoresFormulation() {
		warnings = append(warnings, solver.Warning{
			Code: solver.WarningOptionsIgnored,
			Message: fmt.Sprintf("options.formulation is %s and has no effect: options.backend is %s and options.objective is %s",
				solver.APIName("FORMULATION", o.Formulation), solver.APIName("BACKEND", o.Backend), solver.APIName("OBJECTIVE", o.Objective)),
		})
	}
	return warnings
}

// longWaits returns the warnings about jobs that may wait for ever. The allocations are in the order of the
// snapshot, with frozen jobs among them.
func longWaits(s *solver.Snapshot, o *solver.Options, d *solver.Decision) (warnings []solver.Warning) {
	if o.Admission == solver.AdmissionFIFO {
		return nil
	}
	waiting := make(map[string]bool)
	for i := range d.Allocations {
		if a := &d.Allocations[i]; a.Nodes == 0 && a.WaitReason != solver.WaitNeverFits {
			waiting[a.JobID] = true
		}
	}
	for i := range s.Jobs {
		if job := &s.Jobs[i]; job.WaitingTime >= solver.LongWait && waiting[job.ID] {
			warnings = append(warnings, solver.Warning{
				Code: solver.WarningLongWait, JobID: job.ID,
				Message: fmt.Sprintf("job %q has waited %v without nodes; %s starts jobs in order, and a higher weight starts this job earlier",
					job.ID, job.WaitingTime.Round(time.Minute), solver.APIName("ADMISSION", solver.AdmissionFIFO)),
			})
		}
	}
	return warnings
}

// hangOverrun is the Overrun from which on a job is suspected to hang.
const hangOverrun = 2

// etaRanOut describes that the demand of a job in the objective, in seconds, exceeds its remaining ETA, or
// that the job has done much more work than estimated. It returns "" if neither is the case.
func etaRanOut(s *solver.Snapshot, i int, demand float64) string {
	job, span := &s.Jobs[i], func(seconds float64) time.Duration {
		return time.Duration(seconds * float64(time.Second)).Round(time.Second)
	}
	var parts []string
	if left := s.Demand(i); demand > left && s.Fits(i) {
		parts = append(parts, fmt.Sprintf("has %v left on one node after %v of work; counted with a quarter of that, %v",
			span(left), job.WorkDone.Round(time.Second), span(demand)))
	}
	if job.Overrun >= hangOverrun {
		parts = append(parts, fmt.Sprintf("has done %.3g times its estimated work; pause or cap it if it hangs", job.Overrun))
	}
	return strings.Join(parts, "; ")
}

// quotas returns the number of nodes that the groups of a snapshot are entitled to. A group counts with
// its quota or with the sum of its children, whichever is larger. p has the groups.
func quotas(s *solver.Snapshot, p *problem.Problem) (total int) {
	claims := make([]int, len(p.Groups)) // each iteration adds one level, from the leaves to the roots
	for range solver.MaxGroupDepth {
		within := make([]int, len(p.Groups))
		total = 0
		for g := range p.Groups {
			if parent := p.Groups[g].Parent; parent >= 0 {
				within[parent] += max(claims[g], s.Groups[g].Quota)
			} else {
				total += max(claims[g], s.Groups[g].Quota)
			}
		}
		claims = within
	}
	return total
}

// neverFits returns the warning for a job whose smallest size exceeds the pool or a size limit.
func neverFits(s *solver.Snapshot, i int) solver.Warning {
	id, has := s.Jobs[i].ID, strconv.Itoa(s.TotalNodes)
	if s.Typed() {
		has = "no type with as many that it runs on"
	}
	if s.Fits(i) {
		piece, _ := s.Jobs[i].Pieces(s.SmallestSize(i))
		return solver.Warning{
			Code: solver.WarningNeverFits, JobID: id,
			Message: fmt.Sprintf("job %q needs at least %d nodes in pieces of %d; the size limits allow fewer", id, s.SmallestSize(i), piece),
		}
	}
	return solver.Warning{
		Code: solver.WarningNeverFits, JobID: id,
		Message: fmt.Sprintf("job %q needs at least %d nodes; the pool has %s", id, s.SmallestSize(i), has),
	}
}

// notNested describes pieces of jobs on a node type with size limits of which one does not divide the
// other. It returns "" if there are none.
func notNested(s *solver.Snapshot) string {
	if len(s.SizeLimits) == 0 {
		return ""
	}
	pieces := make([][]int, max(1, len(s.NodeTypes)))
	var places []solver.Place
	for i := range s.Jobs {
		places = s.Places(i, places)
		for n := range places {
			for _, k := range places[n].AppendSizes(nil) {
				largest, remainder := s.Jobs[i].Pieces(k)
				pieces[places[n].Type] = append(pieces[places[n].Type], largest, max(1, remainder)) // 1 divides all.
			}
		}
	}
	for _, row := range s.Rows() {
		if row.Limit < 0 {
			continue
		}
		of := pieces[row.Type]
		slices.Sort(of)
		for n := 1; n < len(of); n++ {
			if of[n]%of[n-1] != 0 {
				return fmt.Sprintf("jobs have pieces of %d and of %d nodes, which do not divide "+
					"each other; the size limits do not guarantee a placement", of[n-1], of[n])
			}
		}
	}
	return ""
}

// count formats a number of items with a plural s.
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
