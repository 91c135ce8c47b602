package explain

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/decision"
)

// everyPool is how many pool sizes are tried one by one to find the smallest that gives a
// job more, in snapshots of at most as many jobs. Beyond that bisection looks for it and
// assumes that a larger pool gives a job no less. Sizes are lumpy, so this does not always
// hold, and a smaller pool may do.
const everyPool = 256

// remedy finds the smallest changes that give a job its next larger size or more.
func (e *explainer) remedy(ctx context.Context, r *reason) error {
	if r.job < 0 {
		return nil
	}
	job := &e.snapshot.Jobs[r.job]
	sizes := job.LegalSizes()
	if !e.snapshot.Typed() && r.allocation.Nodes >= sizes[len(sizes)-1] {
		return nil
	}
	kinds := []func(context.Context, *reason, *solver.Job) (solver.Remedy, error){e.remedyWeight}
	for g := range max(1, len(e.snapshot.NodeTypes)) {
		kinds = append(kinds, func(ctx context.Context, r *reason, _ *solver.Job) (solver.Remedy, error) {
			return e.remedyPool(ctx, r, g)
		})
	}
	for _, find := range append(kinds, e.remedyMinimum) {
		found, err := find(ctx, r, job)
		if err != nil {
			return err
		}
		if found.Nodes > 0 && ctx.Err() == nil { // Else a smaller one may not have been tried.
			r.remedies = append(r.remedies, found)
		}
	}
	return nil
}

// changed returns the snapshot with a change of a job.
func (e *explainer) changed(job int, apply func(*solver.Snapshot, *solver.Job)) *solver.Snapshot {
	s := *e.snapshot
	s.Jobs = slices.Clone(s.Jobs)
	apply(&s, &s.Jobs[job])
	return &s
}

// decide returns the option of every job of a changed snapshot, nil where time is up.
func (e *explainer) decide(ctx context.Context, s *solver.Snapshot) ([]solver.Option, error) {
	d, err := e.decider.Allocate(ctx, s, e.options)
	if err != nil || d.Report.Limit == solver.LimitTime {
		return nil, unlessOver(ctx, err)
	}
	options := make([]solver.Option, len(s.Jobs))
	for i := range options {
		options[i] = s.Option(d.Allocations[i].NodeType, d.Allocations[i].Nodes)
	}
	return options, nil
}

// moreWith returns the option that a change gives a job, no nodes if that is not more or time
// is up.
func (e *explainer) moreWith(ctx context.Context, r *reason, apply func(*solver.Snapshot, *solver.Job)) (none solver.Option, err error) {
	changed := e.changed(r.job, apply)
	if !changed.Valid(r.job) {
		return none, nil
	}
	options, err := e.decide(ctx, changed)
	if r.job < len(options) && e.more(r.job, r.option, options[r.job]) {
		return options[r.job], err
	}
	return none, err
}

// remedyWeight finds the smallest weight of 2 significant digits. A job that the admission
// leaves out has no such weight.
func (e *explainer) remedyWeight(ctx context.Context, r *reason, job *solver.Job) (remedy solver.Remedy, err error) {
	if _, larger := r.next(); r.admitted < 0 || !larger {
		return remedy, nil
	}
	now := job.WeightOrDefault()
	weights := twoDigitNumbers(now, min(now*decision.MaxRemedyWeight, solver.MaxWeight))
	// About where a larger size brings the job more than it now costs the others.
	guess := math.Inf(1)
	for _, size := range r.sizes {
		if size.faster && size.gain > 0 {
			guess = min(guess, now*(1+size.Loss/size.gain))
		}
	}
	err = firstFrom(sort.SearchFloat64s(weights, guess), len(weights), func(n int) (bool, error) {
		option, err := e.moreWith(ctx, r, func(_ *solver.Snapshot, j *solver.Job) { j.Weight = &weights[n] })
		if !option.IsZero() { // The last that works is the smallest.
			remedy = solver.Remedy{Weight: weights[n], Nodes: int(option.Nodes), NodesType: e.snapshot.TypeOf(option)}
		}
		return !option.IsZero(), err
	})
	return remedy, err
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

// firstFrom finds the first of n numbers for which works holds, where it holds for all after
// one for which it does: that is the last for which it held when asked. It begins with a
// guess, and asks few times if that is near.
func firstFrom(guess, n int, works func(int) (bool, error)) error {
	if n == 0 {
		return nil
	}
	guess = min(max(guess, 0), n-1)
	low, high := -1, n // It does not work at low and works at high.
	for step := 1; high-low > 1; step *= 2 {
		ok, err := works(guess)
		if err != nil {
			return err
		}
		if ok {
			high = guess
		} else {
			low = guess
		}
		switch {
		case low >= 0 && high < n:
			guess = (low + high) / 2
		case ok:
			guess = max(0, guess-step)
		default:
			guess = min(n-1, guess+step)
		}
	}
	return nil
}

// pool is a number of nodes, of a type where there are some.
type pool struct{ nodeType, nodes int }

// remedyPool finds the smallest pool, or the fewest nodes of a type.
func (e *explainer) remedyPool(ctx context.Context, r *reason, nodeType int) (remedy solver.Remedy, err error) {
	now, all, id := e.snapshot.TotalNodes, e.all.TotalNodes, ""
	if len(e.snapshot.NodeTypes) > 0 {
		now, all, id = e.snapshot.NodeTypes[nodeType].Nodes, e.all.NodeTypes[nodeType].Nodes, e.all.NodeTypes[nodeType].ID
	}
	kept := e.kept[id]
	most := min(all*decision.MaxRemedyPool, solver.MaxNodes) - kept - now
	works := func(n int) (bool, error) {
		total := now + 1 + n
		at := pool{nodeType, total}
		options, known := e.pools[at]
		if !known {
			var err error
			resize := func(s *solver.Snapshot, _ *solver.Job) {
				if s.TotalNodes += total - now; len(s.NodeTypes) > 0 {
					s.NodeTypes = slices.Clone(s.NodeTypes)
					s.NodeTypes[nodeType].Nodes = total
				}
			}
			if options, err = e.decide(ctx, e.changed(r.job, resize)); options == nil {
				return false, err
			}
			e.pools[at] = options
		}
		if !e.more(r.job, r.option, options[r.job]) {
			return false, nil
		}
		remedy = solver.Remedy{
			TotalNodes: total + kept, NodeType: id, Nodes: int(options[r.job].Nodes), NodesType: e.snapshot.TypeOf(options[r.job]),
		}
		return true, nil
	}
	each := 0
	if len(e.snapshot.Jobs) <= everyPool {
		each = min(most, everyPool)
	}
	for n := 0; n < each && remedy.Nodes == 0 && err == nil && ctx.Err() == nil; n++ {
		_, err = works(n)
	}
	if remedy.Nodes == 0 && err == nil && ctx.Err() == nil {
		err = firstFrom(0, most-each, func(n int) (bool, error) { return works(each + n) })
	}
	return remedy, err
}

// remedyMinimum finds the smallest min_nodes above the nodes that the job gets or, for a job
// that waits, the largest below its own, or else the smallest above: a job that may only train
// on many nodes is one on which they do more.
func (e *explainer) remedyMinimum(ctx context.Context, r *reason, job *solver.Job) (solver.Remedy, error) {
	for _, least := range e.minimums(job, r.allocation.Nodes) {
		if ctx.Err() != nil {
			continue
		}
		option, err := e.moreWith(ctx, r, func(_ *solver.Snapshot, j *solver.Job) { j.MinNodes = least })
		if !option.IsZero() || err != nil {
			return solver.Remedy{MinNodes: least, Nodes: int(option.Nodes), NodesType: e.snapshot.TypeOf(option)}, err
		}
	}
	return solver.Remedy{}, nil
}

// sizesFromOne returns the legal sizes, on any type, that a job with a min_nodes of 1 has.
func (e *explainer) sizesFromOne(job *solver.Job) []int {
	all := *job
	if all.MinNodes = 1; len(e.snapshot.NodeTypes) == 0 {
		return all.LegalSizes()
	}
	var sizes []int
	for g := range e.snapshot.NodeTypes {
		if there, _, runs := all.ForType(&e.snapshot.NodeTypes[g]); runs {
			sizes = append(sizes, there.LegalSizes()...)
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// minimums returns the values of min_nodes that leave a job other sizes, the smallest change
// first: above the nodes that it gets; if it gets none, below what it asks for and then
// above.
func (e *explainer) minimums(job *solver.Job, nodes int) []int {
	if job.AllowedNodes == nil && job.MinNodes == job.MaxNodes && nodes > 0 && !e.snapshot.Typed() {
		return nil // One size alone, whatever the least.
	}
	var list []int
	sizes := e.sizesFromOne(job)
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
