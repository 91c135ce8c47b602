package elastalloc

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"

	"github.com/elastalloc/elastalloc/solver"
)

// everyPool is the number of pools up to which each is decided to find the smallest that
// gives a job more. Beyond it the smallest is found by halving, which takes for granted that
// what a pool gives a larger one gives too.
const everyPool = 256

// remedy finds the smallest changes that give a job its next larger size or more.
func (e *explainer) remedy(ctx context.Context, r *reason) error {
	if r.job < 0 {
		return nil
	}
	job := &e.snapshot.Jobs[r.job]
	sizes := job.LegalSizes()
	if r.allocation.Nodes >= sizes[len(sizes)-1] {
		return nil
	}
	for _, find := range []func(context.Context, *reason, *solver.Job) (change, error){e.remedyWeight, e.remedyPool, e.remedyMinimum} {
		found, err := find(ctx, r, job)
		if err != nil {
			return err
		}
		if found.apply == nil || ctx.Err() != nil {
			continue
		}
		// Whatever found it: it counts only if Allocate, asked alone, agrees.
		s := e.changed(r.job, found.apply)
		decision, err := e.allocator.Allocate(ctx, s, e.options)
		if err != nil {
			return unlessOver(ctx, err)
		}
		if nodes := decision.Allocations[r.job].Nodes; nodes > r.allocation.Nodes {
			found.Nodes = nodes
			r.remedies = append(r.remedies, found.Remedy)
		}
	}
	return nil
}

// change is a remedy and how to apply it to the snapshot and one of its jobs.
type change struct {
	solver.Remedy
	apply func(*solver.Snapshot, *solver.Job)
}

// changed returns the snapshot with a change of a job.
func (e *explainer) changed(job int, apply func(*solver.Snapshot, *solver.Job)) *solver.Snapshot {
	s := *e.snapshot
	s.Jobs = slices.Clone(s.Jobs)
	apply(&s, &s.Jobs[job])
	return &s
}

// decide returns the nodes of every job of a changed snapshot, nil where time is up or the
// snapshot is not valid.
func (e *explainer) decide(ctx context.Context, s *solver.Snapshot) ([]int, error) {
	nodes := make([]int, len(s.Jobs))
	o := e.options
	if o.Backend != solver.BackendExact || o.RelativeGap > 0 {
		o.PriceHint = e.prices
		decision, err := e.allocator.Allocate(ctx, s, o)
		if err != nil {
			return nil, unlessOver(ctx, err)
		}
		for i := range nodes {
			nodes[i] = decision.Allocations[i].Nodes
		}
		return nodes, nil
	}
	// The same, without what a report needs.
	p := solver.NewProblemFor(s, o)
	options := solver.SolveOptions{PriceHint: e.prices}
	// Among equal plans the one to start from decides.
	if start, err := e.greedy.Solve(ctx, p, options); err == nil {
		options.Incumbent = start.Plan
	}
	result, err := e.exact.Solve(ctx, p, options)
	if err != nil || result.Limit == solver.LimitTime {
		return nil, err
	}
	for n := range p.Jobs {
		nodes[p.Jobs[n].Index] = result.Plan[n][0]
	}
	return nodes, nil
}

// works reports whether a change gives a job more nodes.
func (e *explainer) works(ctx context.Context, r *reason, apply func(*solver.Snapshot, *solver.Job)) (bool, error) {
	nodes, err := e.decide(ctx, e.changed(r.job, apply))
	return r.job < len(nodes) && nodes[r.job] > r.allocation.Nodes, err
}

// remedyWeight finds the smallest weight of 2 significant digits. A job that the admission
// leaves out has none, for no weight changes that.
func (e *explainer) remedyWeight(ctx context.Context, r *reason, job *solver.Job) (change, error) {
	if r.admitted < 0 || len(r.sizes) == 0 || r.sizes[len(r.sizes)-1].Nodes <= r.allocation.Nodes {
		return change{}, nil
	}
	now := job.WeightOrDefault()
	weights := twoDigitNumbers(now, min(now*solver.MostRemedyWeight, solver.MaxWeight))
	weigh := func(weight float64) func(*solver.Snapshot, *solver.Job) {
		return func(_ *solver.Snapshot, j *solver.Job) { j.Weight = &weight }
	}
	// Where the plan with a larger size and more of its own gain beats the present one.
	guess := math.Inf(1)
	for _, size := range r.sizes {
		if size.Nodes > r.allocation.Nodes && size.gain > 0 {
			guess = min(guess, now*(1+size.Loss/size.gain))
		}
	}
	n, err := firstFrom(sort.SearchFloat64s(weights, guess), len(weights), func(n int) (bool, error) {
		return e.works(ctx, r, weigh(weights[n]))
	})
	if err != nil || n == len(weights) {
		return change{}, err
	}
	return change{solver.Remedy{Weight: weights[n]}, weigh(weights[n])}, nil
}

// twoDigitNumbers returns the numbers of at most 2 significant digits above one and up to
// another.
func twoDigitNumbers(above, most float64) []float64 {
	if !(above > 0) {
		return nil
	}
	var numbers []float64
	exponent := int(math.Floor(math.Log10(above))) - 2 // Rounding may have it one too high.
	for {
		for digits := 10; digits < 100; digits++ {
			// Parsed, for the number nearest to what is written.
			x, err := strconv.ParseFloat(fmt.Sprintf("%de%d", digits, exponent), 64)
			if err != nil || x > most {
				return numbers
			}
			if x > above {
				numbers = append(numbers, x)
			}
		}
		exponent++
	}
}

// firstFrom returns the first of n numbers for which works holds, n if there is none, where
// it holds for all after one for which it does. It begins with a guess, and asks few times
// if that is near.
func firstFrom(guess, n int, works func(int) (bool, error)) (int, error) {
	if n == 0 {
		return 0, nil
	}
	guess = min(max(guess, 0), n-1)
	low, high := -1, n // It does not work at low and works at high.
	ok, err := works(guess)
	for step := 1; err == nil; step *= 2 {
		if ok {
			high = guess
		} else {
			low = guess
		}
		if low >= 0 && high < n || high == 0 || low == n-1 {
			break
		}
		if ok {
			guess = max(0, guess-step)
		} else {
			guess = min(n-1, guess+step)
		}
		ok, err = works(guess)
	}
	for err == nil && high-low > 1 {
		middle := (low + high) / 2
		if ok, err = works(middle); ok {
			high = middle
		} else {
			low = middle
		}
	}
	return high, err
}

// remedyPool finds the smallest pool.
func (e *explainer) remedyPool(ctx context.Context, r *reason, _ *solver.Job) (change, error) {
	now := e.snapshot.TotalNodes
	most := min(now*solver.MostRemedyPool, solver.MaxNodes) - now
	resize := func(nodes int) func(*solver.Snapshot, *solver.Job) {
		return func(s *solver.Snapshot, _ *solver.Job) { s.TotalNodes = nodes }
	}
	works := func(n int) (bool, error) {
		total := now + 1 + n
		nodes, known := e.pools[total]
		if !known {
			var err error
			if nodes, err = e.decide(ctx, e.changed(r.job, resize(total))); nodes == nil {
				return false, err
			}
			e.pools[total] = nodes
		}
		return nodes[r.job] > r.allocation.Nodes, nil
	}
	n := 0
	if most > everyPool {
		var err error
		if n, err = firstFrom(0, most, works); err != nil {
			return change{}, err
		}
	} else {
		for ; n < most && ctx.Err() == nil; n++ {
			if ok, err := works(n); ok || err != nil {
				if err != nil {
					return change{}, err
				}
				break
			}
		}
	}
	if n >= most {
		return change{}, nil
	}
	return change{solver.Remedy{TotalNodes: now + 1 + n}, resize(now + 1 + n)}, nil
}

// remedyMinimum finds the smallest min_nodes above the nodes that the job gets or, for a job
// that waits, the largest below its own, or else the smallest above: a job that may only train
// on many nodes is one on which they do more.
func (e *explainer) remedyMinimum(ctx context.Context, r *reason, job *solver.Job) (change, error) {
	floor := func(nodes int) func(*solver.Snapshot, *solver.Job) {
		return func(_ *solver.Snapshot, j *solver.Job) { j.MinNodes = nodes }
	}
	for _, nodes := range minimums(job, r.allocation.Nodes) {
		if s := e.changed(r.job, floor(nodes)); !s.Jobs[r.job].Valid() {
			continue
		}
		if ok, err := e.works(ctx, r, floor(nodes)); ok || err != nil || ctx.Err() != nil {
			if !ok {
				return change{}, err
			}
			return change{solver.Remedy{MinNodes: nodes}, floor(nodes)}, nil
		}
	}
	return change{}, nil
}

// minimums returns the values of min_nodes that leave a job other sizes, the smallest change
// first: above the nodes that it gets; if it gets none, below what it asks for and then
// above.
func minimums(job *solver.Job, nodes int) []int {
	all := *job
	all.MinNodes = 1
	if all.AllowedNodes == nil && job.MinNodes == job.MaxNodes && nodes > 0 {
		return nil // One size alone, whatever the least.
	}
	var list []int
	sizes := all.LegalSizes()
	if nodes == 0 {
		for _, k := range slices.Backward(sizes) {
			if k < job.MinNodes {
				list = append(list, k)
			}
		}
		nodes = job.MinNodes
	}
	// Each leaves out one more size.
	for n, k := range sizes {
		if k > nodes {
			least := nodes + 1
			if n > 0 {
				least = max(least, sizes[n-1]+1)
			}
			list = append(list, least)
		}
	}
	return list
}
