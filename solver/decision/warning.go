package decision

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// WarningCode names what an operator should know of a decision.
type WarningCode string

// The warnings.
const (
	// WarningNeverFits means that a job's smallest size exceeds the pool.
	WarningNeverFits WarningCode = "never-fits"
	// WarningIdleWithQueue means that nodes stay idle though a job waits that the pool
	// could hold.
	WarningIdleWithQueue WarningCode = "idle-with-queue"
	// WarningEmptyPool means that there are jobs and no nodes.
	WarningEmptyPool WarningCode = "empty-pool"
	// WarningBadJobHeld means that a job with bad fields keeps its nodes.
	WarningBadJobHeld WarningCode = "bad-job-held"
	// WarningLoadShedToGreedy means that no search was made because of load.
	WarningLoadShedToGreedy WarningCode = "load-shed-to-greedy"
	// WarningQuotasExceedPool means that the quotas of all groups together exceed the pool.
	WarningQuotasExceedPool WarningCode = "quotas-exceed-pool"
	// WarningOptionsIgnored means that options are set which another one leaves without
	// effect.
	WarningOptionsIgnored WarningCode = "options-ignored"
	// WarningETARanOut means that a job's remaining ETA is less than a quarter of the work
	// done, which counted instead, or that the job has done twice the work that it was told
	// to have in all.
	WarningETARanOut WarningCode = "eta-ran-out"
	// WarningManyPauses means that more than a quarter of the running jobs pause at once.
	WarningManyPauses WarningCode = "many-pauses"
	// WarningSizesNotNested means that there are size limits and the pieces of the jobs do not
	// divide each other, so the limits are necessary, not sufficient, for a placement.
	WarningSizesNotNested WarningCode = "sizes-not-nested"
)

// Warning is something that an operator should know of a decision.
type Warning struct {
	Code WarningCode
	// JobID is the job it is about; "" where it is about none.
	JobID string
	// Message says it in a sentence.
	Message string
}

// warn adds the warnings about the allocations of a snapshot, which have their wait
// reasons; p has its groups.
func (d *Decision) warn(s *snapshot.Snapshot, p *problem.Problem) {
	add := func(code WarningCode, id, format string, args ...any) {
		d.Report.Warnings = append(d.Report.Warnings, Warning{Code: code, JobID: id, Message: fmt.Sprintf(format, args...)})
	}
	if s.TotalNodes == 0 {
		if len(s.Jobs) > 0 {
			add(WarningEmptyPool, "", "total_nodes is 0: the pool has no nodes for %s", count(len(s.Jobs), "job"))
		}
		return
	}
	if quotas := quotas(s, p); quotas > s.TotalNodes {
		add(WarningQuotasExceedPool, "", "the groups have quotas of %d nodes together; the pool has %d", quotas, s.TotalNodes)
	}
	waiting, first, limited := 0, -1, make(map[string]bool)
	for i := range s.Jobs {
		job := &s.Jobs[i]
		if !s.Fits(i) {
			d.Report.Warnings = append(d.Report.Warnings, neverFits(s, i))
			continue
		}
		a := &d.Allocations[i]
		if a.WaitReason == WaitGroupLimit {
			limited[job.ID] = true // The pool could hold it, but may not.
		}
		if a.Nodes > 0 || limited[job.ID] || limited[a.BehindJobID] {
			continue
		}
		waiting++
		if first < 0 || d.Allocations[first].WaitReason != WaitNoRoom && d.Allocations[i].WaitReason == WaitNoRoom {
			first = i
		}
	}
	if waiting > 0 && d.Report.IdleNodes > 0 {
		job := &s.Jobs[first]
		add(WarningIdleWithQueue, job.ID, "%s idle, %s waiting; job %q needs at least %d",
			count(d.Report.IdleNodes, "node"), count(waiting, "job"), job.ID, s.SmallestSize(first))
	}
}

// Warnings returns the warnings about a decision that are not in its report yet. The options
// are valid and have their defaults; the snapshot has no held jobs.
func Warnings(s *snapshot.Snapshot, o *problem.Options, d *Decision) []Warning {
	var warnings []Warning
	spec := o.Spec()
	for i := range s.Jobs {
		if says := etaRanOut(s, i, spec.DemandOf(s, i)); says != "" {
			warnings = append(warnings, Warning{Code: WarningETARanOut, JobID: s.Jobs[i].ID, Message: fmt.Sprintf("job %q %s", s.Jobs[i].ID, says)})
		}
	}
	running, pauses := 0, 0
	for i := range d.Allocations {
		if d.Allocations[i].Current > 0 {
			running++
		}
		if d.Allocations[i].Change == ChangePreempt {
			pauses++
		}
	}
	if 4*pauses > running {
		warnings = append(warnings, Warning{
			Code: WarningManyPauses, Message: count(pauses, "pause") + " at once among " + count(running, "running job"),
		})
	}
	for _, spec := range problem.Objectives() {
		if field := spec.ParameterField(o); field != "" && o.Objective != spec.Name {
			warnings = append(warnings, Warning{
				Code:    WarningOptionsIgnored,
				Message: fmt.Sprintf("options.%s is set and has no effect: options.objective is %s", field, problem.APIName("OBJECTIVE", o.Objective)),
			})
		}
	}
	return warnings
}

// hangOverrun is the Overrun from which on a job may well hang.
const hangOverrun = 2

// etaRanOut describes that an objective counts a larger demand, in seconds, than what is left of
// a job, or that the job has done much more work than estimated; "" if neither is so.
func etaRanOut(s *snapshot.Snapshot, i int, demand float64) string {
	job, span := &s.Jobs[i], func(seconds float64) time.Duration {
		return time.Duration(seconds * float64(time.Second)).Round(time.Second)
	}
	var says []string
	if left := s.Demand(i); demand > left && s.Fits(i) {
		says = append(says, fmt.Sprintf("has %v left on one node after %v of work; counted with a quarter of that, %v",
			span(left), job.WorkDone.Round(time.Second), span(demand)))
	}
	if job.Overrun >= hangOverrun {
		says = append(says, fmt.Sprintf("has done %.3g times the work that was told of it; hold or cap it if it hangs", job.Overrun))
	}
	return strings.Join(says, "; ")
}

// quotas returns the number of nodes that the groups of a snapshot, which p has, claim together:
// of a group and those within it the larger of its quota and theirs.
func quotas(s *snapshot.Snapshot, p *problem.Problem) (total int) {
	claims := make([]int, len(p.Groups)) // known of one more level from the bottom in each turn
	for range snapshot.MaxGroupDepth {
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

// neverFits warns of a job whose smallest size exceeds the pool.
func neverFits(s *snapshot.Snapshot, i int) Warning {
	id, has := s.Jobs[i].ID, strconv.Itoa(s.TotalNodes)
	if s.Typed() {
		has = "no type with as many that it runs on"
	}
	return Warning{
		Code: WarningNeverFits, JobID: id,
		Message: fmt.Sprintf("job %q needs at least %d nodes; the pool has %s", id, s.SmallestSize(i), has),
	}
}

// count says how many there are of something.
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
