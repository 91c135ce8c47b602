package problem

import (
	"fmt"
	"math"
	"strconv"

	"github.com/elastalloc/elastalloc/solver"
)

// Plan has the option of every admitted job in every step: plan[i][t] is the option of job i of
// Problem.Jobs in step t, counted from 0. Only the first step is executed. The next decision starts
// from a new snapshot, which is the rolling horizon of the paper.
type Plan [][]solver.Option

// NewPlan returns a plan in which no job occupies nodes. It allocates one block of memory.
func NewPlan(jobs, steps int) Plan {
	block := make([]solver.Option, jobs*steps)
	plan := make(Plan, jobs)
	for i := range plan {
		plan[i], block = block[:steps:steps], block[steps:]
	}
	return plan
}

// Clone returns a deep copy of the plan.
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

// Check returns nil if the plan is legal for p. A legal plan has one row per admitted job and one
// legal option per step. In no step does it exceed the nodes of the pool, of a row or of the limit of a
// group. The plans of all backends are checked.
func (p *Problem) Check(plan Plan) error { return p.check(plan, false) }

// CheckWaiting returns nil if the plan is legal for p.WithWaiting().
func (p *Problem) CheckWaiting(plan Plan) error { return p.check(plan, true) }

// check returns nil if the plan is legal. If waiting is set, queued jobs may get no nodes.
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
		headroom := NewHeadroom(p.Capacity[t], p.Rows, p.Groups)
		for i := range plan {
			headroom.Allocate(p.Jobs[i].Member, plan[i][t])
		}
		if err := p.checkHeadroom(headroom, t); err != nil {
			return err
		}
	}
	return nil
}

// checkHeadroom returns an error if the nodes of a plan in step t exceed the pool, a row or the limit of a group,
// so that they leave negative headroom.
func (p *Problem) checkHeadroom(left *Headroom, t int) error {
	if pool := p.Capacity[t]; left.Idle < 0 {
		return fmt.Errorf("plan uses %d nodes in step %d; the pool has %d", pool-left.Idle, t+1, pool)
	}
	for n, of := range left.rows {
		if of.Nodes >= 0 {
			continue
		}
		row := p.Rows[n] // Not nil, because the pool is not exceeded.
		return fmt.Errorf("plan uses %d nodes of type %d in pieces of at least %d; at most %d may be used",
			row.Nodes-of.Nodes, row.Type, row.Size, row.Nodes)
	}
	for g, free := range left.groupFree {
		if limit := p.Groups[g].Limit; free < 0 {
			return fmt.Errorf("plan gives group %d %d nodes in step %d; its limit is %d", g, limit-free, t+1, limit)
		}
		for on, free := range left.typeFree[g] {
			if limit := p.Groups[g].TypeLimits[on]; free < 0 {
				return fmt.Errorf("plan gives group %d %d nodes of type %d; its limit is %d", g, limit-free, on, limit)
			}
		}
	}
	return nil
}

// formatOptions formats options for people, with the position of their type if there are types.
func (p *Problem) formatOptions(options ...solver.Option) string {
	parts := make([]string, len(options))
	for n, option := range options {
		if parts[n] = strconv.Itoa(int(option.Nodes)); p.Rows != nil {
			parts[n] = fmt.Sprintf("%d@%d", option.Nodes, option.Type)
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return fmt.Sprint(parts)
}

// Objective returns the objective of a legal plan: the sum of the values of its jobs less the cost of
// the nodes that groups are below their floors.
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

// RoundingError returns an upper bound on the rounding error of the objective of a legal plan: three
// of the 53 bits of the sum of the magnitudes of all terms.
func (p *Problem) RoundingError(plan Plan) float64 {
	magnitude := 0.0
	for i := range p.Jobs {
		j := &p.Jobs[i]
		magnitude += math.Abs(j.Value(plan[i]))
		if n := j.position(plan[i][0], 0); n >= 0 && j.ChangeCost != nil {
			magnitude += 2 * j.ChangeCost[n] // OptionValue is the difference of a larger value and this cost.
		}
	}
	if len(p.Groups) > 0 {
		magnitude += p.shortfall(plan)
	}
	return magnitude * 0x1p-50
}

// Value returns the contribution of the job to the objective with the given options, one per step.
func (j *AdmittedJob) Value(options []solver.Option) float64 {
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

// AppendProgress appends the cumulative share (0 to 1) of the job's remaining work that is done by the
// end of each step with the given options, one per step.
func (j *AdmittedJob) AppendProgress(progress []float64, options []solver.Option) []float64 {
	served, n := 0.0, 0
	for t, k := range options {
		n = j.position(k, n)
		served = j.serve(served, t, n)
		progress = append(progress, served/j.Demand)
	}
	return progress
}

// position returns the position of an option in Options, -1 if it is not legal. It tries near first,
// the position in the previous step, which is usually the same. A near of -1 means none.
func (j *AdmittedJob) position(k solver.Option, near int) int {
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

// serve returns the demand served by the end of step t, counted from 0. served is the demand served
// before the step, and n is the position of the option in Options, -1 for an option that is not legal.
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

// ReleaseFinished sets the job's option to its first legal option in every step after the job has
// finished, as in the simplified model of the paper. The plan stays legal and its objective does not
// change.
func (j *AdmittedJob) ReleaseFinished(options []solver.Option) {
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
