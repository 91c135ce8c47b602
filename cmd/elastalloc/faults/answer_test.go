//go:build unix

package faults

import (
	"errors"
	"fmt"
	"math"
	"slices"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// checkAnswer returns everything that is wrong with the answer to a valid request,
// judged by the comments of the API alone. It shares no code with the program, so
// that a mistake of the one is not a mistake of the other.
func checkAnswer(request *elastallocv1.AllocateRequest, response *elastallocv1.AllocateResponse) error {
	a := &answer{request: request, response: response}
	for _, job := range request.GetSnapshot().GetJobs() {
		a.jobs = append(a.jobs, newAskedJob(job))
	}
	a.step, a.steps = 300, 5
	if horizon := request.GetSnapshot().GetHorizon(); horizon != nil {
		if horizon.GetStep() != nil {
			a.step = horizon.GetStep().AsDuration().Seconds()
		}
		if horizon.Steps != nil {
			a.steps = int(horizon.GetSteps())
		}
	}
	if response.GetSnapshotId() != request.GetSnapshot().GetId() {
		a.addf("snapshot id is %q", response.GetSnapshotId())
	}
	if len(response.GetAllocations()) != len(a.jobs) {
		a.addf("%d allocations for %d jobs", len(response.GetAllocations()), len(a.jobs))
		return errors.Join(a.wrong...)
	}
	a.checkNodes()
	a.checkWhoHasNodes()
	a.checkPlan()
	a.checkReport()
	return errors.Join(a.wrong...)
}

// answer is an answer under examination.
type answer struct {
	request  *elastallocv1.AllocateRequest
	response *elastallocv1.AllocateResponse
	jobs     []askedJob
	step     float64 // seconds
	steps    int
	wrong    []error
}

func (a *answer) addf(format string, args ...any) {
	if len(a.wrong) < 10 { // More say no more.
		a.wrong = append(a.wrong, fmt.Errorf(format, args...))
	}
}

// checkNodes checks the sum, the number of idle nodes and what is called a change.
func (a *answer) checkNodes() {
	pool, sum := int(a.request.GetSnapshot().GetTotalNodes()), 0
	for i, allocation := range a.response.GetAllocations() {
		job, nodes := a.request.GetSnapshot().GetJobs()[i], allocation.GetNodes()
		sum += int(nodes)
		if nodes < 0 {
			a.addf("job %d has %d nodes", i, nodes)
		}
		if allocation.GetJobId() != job.GetId() {
			a.addf("allocation %d is that of %q", i, allocation.GetJobId())
		}
		if want := changeOf(job.GetCurrentNodes(), nodes); allocation.GetChange() != want {
			a.addf("job %d: from %d to %d nodes is called %v", i, job.GetCurrentNodes(), nodes, allocation.GetChange())
		}
	}
	if sum > pool {
		a.addf("%d nodes are given of a pool of %d", sum, pool)
	}
	if idle := int(a.response.GetReport().GetIdleNodes()); idle != pool-sum {
		a.addf("%d idle nodes; %d of %d are given", idle, sum, pool)
	}
}

func changeOf(before, after int32) elastallocv1.Change {
	switch {
	case before == 0 && after == 0:
		return elastallocv1.Change_CHANGE_WAIT
	case before == 0:
		return elastallocv1.Change_CHANGE_START
	case after == 0:
		return elastallocv1.Change_CHANGE_PREEMPT
	case after > before:
		return elastallocv1.Change_CHANGE_SCALE_UP
	case after < before:
		return elastallocv1.Change_CHANGE_SCALE_DOWN
	default:
		return elastallocv1.Change_CHANGE_KEEP
	}
}

// checkWhoHasNodes checks every job's nodes against the admission.
func (a *answer) checkWhoHasNodes() {
	admitted := a.admitted()
	for i, allocation := range a.response.GetAllocations() {
		planned := allocation.GetPlannedNodes()
		for _, nodes := range append([]int32{allocation.GetNodes()}, planned...) {
			if !a.mayHold(i, int(nodes), admitted[i]) {
				a.addf("job %d holds %d nodes; its sizes are %v, it holds %d now, admitted: %v",
					i, nodes, a.jobs[i].sizes, a.jobs[i].current, admitted[i])
			}
		}
	}
}

// mayHold reports whether a job may hold this many nodes in a step of a plan.
func (a *answer) mayHold(i, nodes int, admitted bool) bool {
	job := &a.jobs[i]
	if nodes > 0 {
		optional := a.admission() == elastallocv1.Admission_ADMISSION_PREEMPTIVE ||
			a.admission() == elastallocv1.Admission_ADMISSION_START_FIRST ||
			a.admission() == elastallocv1.Admission_ADMISSION_OPTIMIZED && job.current == 0
		return (admitted || optional) && slices.Contains(job.sizes, nodes)
	}
	switch {
	case !admitted, a.admission() == elastallocv1.Admission_ADMISSION_PREEMPTIVE:
		return true
	case job.current > 0:
		return false
	default:
		// Greedy may leave a queued job waiting.
		return a.admission() == elastallocv1.Admission_ADMISSION_OPTIMIZED ||
			a.response.GetReport().GetReason() == elastallocv1.Reason_REASON_HEURISTIC
	}
}

func (a *answer) admission() elastallocv1.Admission {
	if admission := a.request.GetOptions().GetAdmission(); admission != elastallocv1.Admission_ADMISSION_UNSPECIFIED {
		return admission
	}
	return elastallocv1.Admission_ADMISSION_FIFO
}

// admitted returns which jobs the first come, first served rule admits: the running
// ones, then the queue in order, up to the first whose smallest size does not fit. One
// that the whole pool would not hold is passed over. Under START_FIRST it returns which
// jobs must hold nodes: by the same rule those that never started.
func (a *answer) admitted() []bool {
	pool := int(a.request.GetSnapshot().GetTotalNodes())
	admitted, free := make([]bool, len(a.jobs)), pool
	startFirst := a.admission() == elastallocv1.Admission_ADMISSION_START_FIRST
	for _, running := range []bool{true, false} {
		for i := range a.jobs {
			if (a.jobs[i].current > 0) != running || a.jobs[i].sizes[0] > pool || startFirst && a.jobs[i].started {
				continue
			}
			if a.jobs[i].sizes[0] > free {
				return admitted
			}
			free -= a.jobs[i].sizes[0]
			admitted[i] = true
		}
	}
	return admitted
}

// checkPlan checks the plan over the horizon where it was asked for: that it fits
// the pool, and that progress and objective are what the speeds make of it.
func (a *answer) checkPlan() {
	if !a.request.GetOptions().GetIncludePlan() {
		for i, allocation := range a.response.GetAllocations() {
			if allocation.GetPlannedNodes() != nil || allocation.GetPlannedProgress() != nil {
				a.addf("job %d has a plan that was not requested", i)
			}
		}
		return
	}
	used, objective := make([]int, a.steps), 0.0
	for i, allocation := range a.response.GetAllocations() {
		planned, progress := allocation.GetPlannedNodes(), allocation.GetPlannedProgress()
		if len(planned) != a.steps || len(progress) != a.steps || planned[0] != allocation.GetNodes() {
			a.addf("job %d has %d nodes now and the plan %v, %v over %d steps", i, allocation.GetNodes(), planned, progress, a.steps)
			return
		}
		served := 0.0
		for t, nodes := range planned {
			used[t] += int(nodes)
			served = min(served+a.jobs[i].work(a.step, t, int(nodes)), a.jobs[i].demand)
			share := served / a.jobs[i].demand
			if !near(share, progress[t]) {
				a.addf("job %d has made progress %v by step %d; want %v", i, progress[t], t, share)
			}
			objective += a.jobs[i].weight * share
		}
	}
	for t, nodes := range used {
		if pool := int(a.request.GetSnapshot().GetTotalNodes()); nodes > pool {
			a.addf("%d nodes are planned in step %d of a pool of %d", nodes, t, pool)
		}
	}
	if got := a.response.GetReport().GetObjective(); !near(got, objective) {
		a.addf("objective is %v; the plan is worth %v", got, objective)
	}
}

// near reports whether two numbers are the same but for rounding.
func near(a, b float64) bool {
	return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a), math.Abs(b))
}

// checkReport checks that the report agrees with itself.
func (a *answer) checkReport() {
	r, options := a.response.GetReport(), a.request.GetOptions()
	for name, value := range map[string]float64{
		"objective": r.GetObjective(), "bound": r.GetBound(),
		"gap": r.GetRelativeGap(), "greedy objective": r.GetGreedyObjective(),
	} {
		if !(value >= 0) || math.IsInf(value, 0) {
			a.addf("%s is %v", name, value)
		}
	}
	gap := (r.GetBound() - r.GetObjective()) / max(r.GetBound(), 1e-12)
	if r.GetBound() < r.GetObjective() || math.Abs(gap-r.GetRelativeGap()) > 1e-9 {
		a.addf("objective %v, bound %v and gap %v", r.GetObjective(), r.GetBound(), r.GetRelativeGap())
	}
	heuristic := r.GetBackend() == elastallocv1.Backend_BACKEND_GREEDY
	if known := r.GetBackend() >= 1 && r.GetBackend() <= 4; !known || r.GetLimit() < 1 || r.GetLimit() > 4 {
		a.addf("backend %v, limit %v", r.GetBackend(), r.GetLimit())
	}
	switch reason := r.GetReason(); {
	case (reason == elastallocv1.Reason_REASON_HEURISTIC) != heuristic,
		reason == elastallocv1.Reason_REASON_OPTIMAL && r.GetRelativeGap() > 1e-9,
		reason == elastallocv1.Reason_REASON_FEASIBLE && r.GetLimit() == elastallocv1.Limit_LIMIT_GAP &&
			r.GetRelativeGap() > options.GetRelativeGap(),
		reason < 1 || reason > 3:
		a.addf("reason %v of %v with gap %v and limit %v", reason, r.GetBackend(), r.GetRelativeGap(), r.GetLimit())
	}
	answered := 0
	for _, attempt := range r.GetAttempts() {
		if attempt.GetOutcome() == elastallocv1.Outcome_OUTCOME_ANSWERED && attempt.GetBackend() == r.GetBackend() {
			answered++
		}
	}
	if answered != 1 {
		a.addf("%v answered and the attempts are %v", r.GetBackend(), r.GetAttempts())
	}
	if options.GetBackend() == elastallocv1.Backend_BACKEND_GREEDY && !heuristic {
		a.addf("%v answered in place of greedy", r.GetBackend())
	}
	if r.GetSolveTime().AsDuration() < 0 {
		a.addf("solve time is %v", r.GetSolveTime().AsDuration())
	}
}

// askedJob is a job of a request with every default applied.
type askedJob struct {
	current               int
	started               bool // holds nodes, or has trained
	sizes                 []int
	demand, weight, delay float64 // demand and delay in seconds
	speed                 func(nodes int) float64
}

func newAskedJob(job *elastallocv1.Job) askedJob {
	smallest, largest := 1, 16
	if job.MinNodes != nil {
		smallest = int(job.GetMinNodes())
	}
	if job.MaxNodes != nil {
		largest = int(job.GetMaxNodes())
	} else if sizes := job.GetAllowedNodes(); len(sizes) > 0 {
		largest = int(slices.Max(sizes))
	}
	candidates := job.GetAllowedNodes()
	if len(candidates) == 0 && smallest == largest {
		candidates = []int32{int32(smallest)}
	}
	if len(candidates) == 0 {
		for exponent := range 31 {
			candidates = append(candidates, 1<<exponent)
		}
	}
	asked := askedJob{
		current: int(job.GetCurrentNodes()),
		started: job.GetCurrentNodes() > 0 || job.GetTrainingTime().AsDuration() > 0,
		demand:  job.GetRemainingEta().AsDuration().Seconds(),
		weight:  1,
		delay:   job.GetRescaleDelay().AsDuration().Seconds(),
	}
	for _, size := range candidates {
		if int(size) >= smallest && int(size) <= largest {
			asked.sizes = append(asked.sizes, int(size))
		}
	}
	if job.Weight != nil {
		asked.weight = job.GetWeight()
	}
	asked.speed = speedOf(job, asked.sizes)
	return asked
}

// speedOf returns a job's speed against its nodes.
func speedOf(job *elastallocv1.Job, sizes []int) func(int) float64 {
	efficiency := 0.8
	switch curve := job.GetScaling().GetCurve().(type) {
	case *elastallocv1.Scaling_DoublingEfficiency:
		efficiency = curve.DoublingEfficiency
	case *elastallocv1.Scaling_Table:
		speeds, tabled := curve.Table.GetSpeeds(), sizes
		if len(job.GetAllowedNodes()) == len(speeds) {
			tabled = nil
			for _, size := range job.GetAllowedNodes() {
				tabled = append(tabled, int(size))
			}
		}
		return func(nodes int) float64 {
			speed := 0.0
			for i, size := range tabled {
				if size <= nodes { // Nodes beyond a measured size are not used.
					speed = speeds[i]
				}
			}
			return speed
		}
	}
	return func(nodes int) float64 {
		if nodes == 0 {
			return 0
		}
		return float64(nodes) * math.Pow(efficiency, math.Log2(float64(nodes)))
	}
}

// work returns the demand that nodes serve in a step, counted from 0.
func (j *askedJob) work(step float64, t, nodes int) float64 {
	if t > 0 || nodes <= j.current {
		return step * j.speed(nodes)
	}
	delay := min(j.delay, step)
	return delay*j.speed(j.current) + (step-delay)*j.speed(nodes)
}
