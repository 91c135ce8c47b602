package audit

import (
	"context"
	"math"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// What a check holds at most: plans of jobs, and numbers in tables.
const (
	mostPlans   = 1 << 20
	mostNumbers = 1 << 24
)

// search looks for a plan that is worth more than a target.
type search struct {
	*model
	ctx    context.Context
	work   int   // left
	polled int   // work at the last look at ctx
	target int64 // in units
	// Plans that are listed, and numbers in the tables that are kept, of the leaf.
	plans, numbers int
}

// stopped ends a search that could not decide, by a panic that prove recovers.
type stopped struct{ why string }

// spend counts work.
func (c *search) spend(work int) {
	if c.work -= work; c.work < 0 {
		panic(stopped{"the count of work is used up"})
	}
	if c.polled-c.work > 1<<20 {
		c.polled = c.work
		if c.ctx.Err() != nil {
			panic(stopped{"the check was cancelled"})
		}
	}
}

// keep counts numbers in tables that are kept.
func (c *search) keep(numbers int) {
	if c.numbers += numbers; c.numbers > mostNumbers {
		panic(stopped{"its tables would be too large"})
	}
}

// leaf is a part of all plans and the prices to bound them at: of nodes, and of sizes for
// the jobs that have any.
type leaf struct {
	allowed [][][]int // by job and step: positions of its sizes, ascending
	prices  []int64
	free    bool // no prices were given
	sizes   map[int][][]int64
}

// prove returns what shows that no legal plan is better than the answer claims.
func (a *answer) prove(ctx context.Context, o Options) (reason string, err error) {
	claim, what := a.report.GetBound(), "bound"
	if a.report.GetReason() == elastallocv1.Reason_REASON_OPTIMAL {
		claim, what = a.report.GetObjective(), "objective"
	}
	c := &search{model: a.model, ctx: ctx, work: o.Work}
	if c.work <= 0 {
		c.work = DefaultWork
	}
	c.polled = c.work + 1<<21 // Look at once.
	c.target = int64(math.Floor(math.Ldexp(claim+Tolerance*math.Abs(claim), a.unit)))
	if limit := math.Ldexp(1, 60); !(math.Abs(math.Ldexp(claim, a.unit)) < limit) {
		if claim > 0 {
			c.target = int64(limit)
		} else {
			return "", refute("the %s is %v; the values of all jobs together are far above", what, claim)
		}
	}
	defer func() {
		switch end := recover().(type) {
		case nil:
		case stopped:
			err = leaveOpen("no plan better than the %s was found, but %s", what, end.why)
		default:
			panic(end)
		}
	}()
	leaves, err := a.leaves(c)
	if err != nil {
		return "", err
	}
	reached := false
	for _, l := range leaves {
		better := c.solve(l)
		if better == nil {
			continue
		}
		if bad := c.legal(better, false); bad != nil {
			return "", leaveOpen("the check has made an illegal plan: %w", bad) // A defect of the check.
		}
		if low := c.atLeast(better); low > c.target {
			return "", refute("a plan is worth %v, more than the %s of %v: %s", c.real(low), what, claim, a.describe(better))
		}
		reached = true
	}
	if reached {
		return "", leaveOpen("a plan reaches the %s up to rounding", what)
	}
	if a.plan == nil {
		return "", leaveOpen("answer has no plan (ask include_plan): no plan is worth more than the %s of %v, but what this one is worth cannot be added up", what, claim)
	}
	return "the answer is legal and adds up, and no plan is worth more than the " + what, nil
}

// solve returns a plan of a leaf that may be worth more than the target, nil if none is.
func (c *search) solve(l *leaf) [][]int {
	for i := range l.allowed {
		for _, sizes := range l.allowed[i] {
			if len(sizes) == 0 {
				return nil
			}
		}
	}
	c.plans, c.numbers = 0, 0
	if c.steps == 1 {
		return c.oneStep(l)
	}
	return c.manySteps(l)
}

// losses returns what the sizes that are left to a job in a step lose against the best of
// them at a price per node, and what that is worth.
func (c *search) losses(l *leaf, i, t int, price int64) (best int64, losses []option) {
	j := &c.jobs[i]
	best = -infinite
	for _, n := range l.allowed[i][t] {
		o := option{j.sizes[n], c.sizeValue(j, t, n) - price*int64(j.sizes[n])}
		best, losses = max(best, o.loss), append(losses, o)
	}
	for n := range losses {
		losses[n].loss = best - losses[n].loss
	}
	return best, losses
}

// below returns the options that lose less than a limit.
func below(options []option, limit int64) []option {
	kept := options[:0]
	for _, o := range options {
		if o.loss < limit {
			kept = append(kept, o)
		}
	}
	return kept
}
