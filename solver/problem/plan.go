package problem

import (
	"fmt"
	"math"
	"strconv"

	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// Plan is the option of every admitted job in every step: plan[i][t] for job i of
// Problem.Jobs and step t counted from 0. Only its first step is carried out; the next decision
// starts from a new snapshot (the paper's rolling horizon).
type Plan [][]snapshot.Option

// NewPlan returns a plan in which no job holds nodes, in one block of memory.
func NewPlan(jobs, steps int) Plan {
	block := make([]snapshot.Option, jobs*steps)
	plan := make(Plan, jobs)
	for i := range plan {
		plan[i], block = block[:steps:steps], block[steps:]
	}
	return plan
}

// Clone returns a copy that shares nothing with the plan.
func (plan Plan) Clone() Plan {
	if len(plan) == 0 {
		return Plan{}
	}
	copied := NewPlan(len(plan), len(plan[0]))
	for i := range plan {
		copy(copied[i], plan[i])
	}
	return copied
}

// Check returns nil if the plan is legal for p: one row per admitted job, one
// legal size per step, and in no step more nodes than the pool has or than the limit of a
// group allows. It is what every plan of every backend must pass, and it trusts nothing.
func (p *Problem) Check(plan Plan) error { return p.check(plan, false) }

// CheckWaiting returns nil if the plan is legal for WithWaiting.
func (p *Problem) CheckWaiting(plan Plan) error { return p.check(plan, true) }

// check returns nil if the plan is legal; waiting says that queued jobs may hold 0 nodes.
func (p *Problem) check(plan Plan, waiting bool) error {
	if len(plan) != len(p.Jobs) {
		return fmt.Errorf("plan has %d jobs; the problem has %d", len(plan), len(p.Jobs))
	}
	for i, row := range plan {
		if len(row) != p.Steps {
			return fmt.Errorf("plan of job %d has %d steps; the horizon has %d", i, len(row), p.Steps)
		}
		for t, k := range row {
			if p.Jobs[i].position(k, -1) < 0 && (!waiting || !k.IsZero() || !p.Jobs[i].Queued()) {
				return fmt.Errorf("plan gives job %d %s nodes in step %d; its legal sizes are %v",
					i, p.formatOptions(k), t+1, p.formatOptions(p.Jobs[i].Options...))
			}
		}
	}
	for t := range p.Steps {
		pool := p.Capacity[t]
		room := NewHeadroom(pool, p.TypeNodes, p.Groups)
		for i := range plan {
			room.Allocate(p.Jobs[i].Group, plan[i][t])
		}
		if room.Idle < 0 {
			return fmt.Errorf("plan uses %d nodes in step %d; the pool has %d", pool-room.Idle, t+1, pool)
		}
		for g, left := range room.typeFree {
			if nodes := p.TypeNodes[g]; left < 0 {
				return fmt.Errorf("plan uses %d nodes of type %d; the pool has %d", nodes-left, g, nodes)
			}
		}
		for g, left := range room.groupFree {
			if limit := p.Groups[g].Limit; left < 0 {
				return fmt.Errorf("plan gives group %d %d nodes in step %d; its limit is %d", g, limit-left, t+1, limit)
			}
		}
	}
	return nil
}

// formatOptions writes options for people, with the position of their type if there are types.
func (p *Problem) formatOptions(options ...snapshot.Option) string {
	parts := make([]string, len(options))
	for n, option := range options {
		if parts[n] = strconv.Itoa(int(option.Nodes)); p.TypeNodes != nil {
			parts[n] = fmt.Sprintf("%d@%d", option.Nodes, option.Type)
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return fmt.Sprint(parts)
}

// Objective returns the objective of a legal plan: the sum of the values of its
// jobs, less what the nodes that groups are short of their floors cost.
func (p *Problem) Objective(plan Plan) float64 {
	total := 0.0
	for i := range p.Jobs {
		total += p.Jobs[i].Value(plan[i])
	}
	if len(p.Groups) > 0 {
		total -= p.shortfall(plan)
	}
	return total
}

// RoundingError returns how far the objective of a legal plan may be off: by the last bits, three of
// 53, of all that it was added up from.
func (p *Problem) RoundingError(plan Plan) float64 {
	magnitude := 0.0
	for i := range p.Jobs {
		j := &p.Jobs[i]
		magnitude += math.Abs(j.Value(plan[i]))
		if n := j.position(plan[i][0], 0); n >= 0 && j.ChangeCost != nil {
			magnitude += 2 * j.ChangeCost[n] // It was taken off as much more.
		}
	}
	if len(p.Groups) > 0 {
		magnitude += p.shortfall(plan)
	}
	return magnitude * 0x1p-50
}

// Value returns the job's part of the objective with the given options, one per step.
func (j *AdmittedJob) Value(options []snapshot.Option) float64 {
	served, value, n, first := 0.0, 0.0, 0, 0
	for t, k := range options {
		n = j.position(k, n)
		if t == 0 {
			first = n
		}
		served = j.serve(served, t, n)
		value += j.Gain[t] * served / j.Demand
	}
	if first >= 0 && j.OptionValue != nil {
		value += j.OptionValue[first]
	}
	return value
}

// Progress returns the cumulative share of the job's remaining work done at the
// end of each step, 0 to 1, with the given options, one per step.
func (j *AdmittedJob) Progress(options []snapshot.Option) []float64 {
	served, n := 0.0, 0
	progress := make([]float64, len(options))
	for t, k := range options {
		n = j.position(k, n)
		served = j.serve(served, t, n)
		progress[t] = served / j.Demand
	}
	return progress
}

// position returns the position of an option in Sizes, -1 if it is not among them. near is
// where to look first: the position in the step before, which is most often that; -1 is none.
func (j *AdmittedJob) position(k snapshot.Option, near int) int {
	if near >= 0 && j.Options[near] == k {
		return near
	}
	// slices.BinarySearchFunc would take a tenth of the CPU time of BenchmarkDecision, 40 jobs.
	low, high := 0, len(j.Options)
	for low < high {
		if middle := (low + high) / 2; j.Options[middle].Less(k) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low < len(j.Options) && j.Options[low] == k {
		return low
	}
	return -1
}

// serve returns the demand served by the end of step t, counted from 0, if served
// were before it and the job holds the n-th of its sizes in it, none of them if n is -1.
func (j *AdmittedJob) serve(served float64, t, n int) float64 {
	if served >= j.Demand || n < 0 {
		return served
	}
	return min(j.Demand, served+j.Work(t)[n])
}

// ReleaseFinished applies AdmittedJob.ReleaseFinished to every job of a plan.
func (p *Problem) ReleaseFinished(plan Plan) {
	for i := range p.Jobs {
		p.Jobs[i].ReleaseFinished(plan[i])
	}
}

// ReleaseFinished sets the job's option to its smallest size in every step that begins with
// the job finished: the convention of the paper's simplified model. A plan stays legal and
// its objective the same.
func (j *AdmittedJob) ReleaseFinished(options []snapshot.Option) {
	served, n := 0.0, 0
	for t, k := range options {
		if served >= j.Demand {
			options[t] = j.Options[0]
			continue
		}
		n = j.position(k, n)
		served = j.serve(served, t, n)
	}
}
