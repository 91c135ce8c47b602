package explain

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"

	"github.com/elastalloc/elastalloc/solver"
)

// maxLinearPools is the number of pool sizes that are tried one by one, in snapshots of at most as many
// jobs. Larger pools are found by bisection, which assumes that a larger pool never gives a job fewer
// nodes. Because sizes are discrete, this is not always true, so that a smaller pool may suffice.
const maxLinearPools = 256

// findRemedies finds the smallest changes that give a job its next larger size or more.
func (e *explainer) findRemedies(ctx context.Context, r *reason) error {
	if r.job < 0 {
		return nil
	}
	job := &e.snapshot.Jobs[r.job]
	sizes := job.LegalSizes()
	if !e.snapshot.Typed() && r.allocation.Nodes >= sizes[len(sizes)-1] {
		return nil
	}
	searches := []func(context.Context, *reason, *solver.Job) (solver.Remedy, error){e.remedyWeight}
	for g := range max(1, len(e.snapshot.NodeTypes)) {
		searches = append(searches, func(ctx context.Context, r *reason, _ *solver.Job) (solver.Remedy, error) {
			return e.remedyPool(ctx, r, g)
		})
	}
	for _, find := range append(searches, e.remedyMinimum) {
		found, err := find(ctx, r, job)
		if err != nil {
			return err
		}
		if found.Nodes > 0 && ctx.Err() == nil { // If ctx is done, a smaller change may not have been tried.
			r.remedies = append(r.remedies, found)
		}
	}
	return nil
}

// changed returns a copy of the snapshot to which apply was applied.
func (e *explainer) changed(job int, apply func(*solver.Snapshot, *solver.Job)) *solver.Snapshot {
	s := *e.snapshot
	s.Jobs = slices.Clone(s.Jobs)
	apply(&s, &s.Jobs[job])
	return &s
}

// decide returns the options of all jobs of a changed snapshot, or nil if the time limit stopped the
// decision.
func (e *explainer) decide(ctx context.Context, s *solver.Snapshot) ([]solver.Option, error) {
	d, err := e.decider.Allocate(ctx, s, e.options)
	if err != nil || d.Report.Limit == solver.LimitTime {
		return nil, ignoreIfDone(ctx, err)
	}
	options := make([]solver.Option, len(s.Jobs))
	for i := range options {
		options[i] = s.Option(d.Allocations[i].NodeType, d.Allocations[i].Nodes)
	}
	return options, nil
}

// optionAfter returns the option of a job in a changed snapshot, or the zero option if it is not more
// than the decided one or if the time limit stopped the decision.
func (e *explainer) optionAfter(ctx context.Context, r *reason, apply func(*solver.Snapshot, *solver.Job)) (none solver.Option, err error) {
	changed := e.changed(r.job, apply)
	if !changed.Valid(r.job) {
		return none, nil
	}
	options, err := e.decide(ctx, changed)
	if r.job < len(options) && e.isMore(r.job, r.option, options[r.job]) {
		return options[r.job], err
	}
	return none, err
}

// remedyWeight finds the smallest weight with 2 significant digits. There is none for a job that is not
// admitted.
func (e *explainer) remedyWeight(ctx context.Context, r *reason, job *solver.Job) (remedy solver.Remedy, err error) {
	if _, larger := r.next(); r.admitted < 0 || !larger {
		return remedy, nil
	}
	now := job.WeightOrDefault()
	weights := twoDigitNumbers(now, min(now*solver.MaxRemedyWeight, solver.MaxWeight))
	// At about this weight, the gain of a larger size exceeds its loss.
	guess := math.Inf(1)
	for _, size := range r.sizes {
		if size.faster && size.gain > 0 {
			guess = min(guess, now*(1+size.Loss/size.gain))
		}
	}
	err = searchFirst(sort.SearchFloat64s(weights, guess), len(weights), func(n int) (bool, error) {
		option, err := e.optionAfter(ctx, r, func(_ *solver.Snapshot, j *solver.Job) { j.Weight = &weights[n] })
		if !option.IsZero() { // The last weight that works is the smallest.
			remedy = solver.Remedy{Weight: weights[n], Nodes: int(option.Nodes), NodesType: e.snapshot.TypeOf(option)}
		}
		return !option.IsZero(), err
	})
	return remedy, err
}

// twoDigitNumbers returns the numbers with at most 2 significant digits that are larger than above and
// at most largest.
func twoDigitNumbers(above, largest float64) []float64 {
	if !(above > 0) {
		return nil
	}
	var numbers []float64
	exponent := int(math.Floor(math.Log10(above))) - 2 // Rounding may make the logarithm one too large.
	for {
		for digits := 10; digits < 100; digits++ {
			// Parsing returns the float64 nearest to the decimal number.
			x, err := strconv.ParseFloat(fmt.Sprintf("%de%d", digits, exponent), 64)
			if err != nil || x > largest {
				return numbers
			}
			if x > above {
				numbers = append(numbers, x)
			}
		}
		exponent++
	}
}

// searchFirst finds the first of n numbers for which works returns true, if it also does so for all
// larger numbers. The result is the last number for which works has returned true. The search starts at
// a guess and takes few calls if the guess is close.
func searchFirst(guess, n int, works func(int) (bool, error)) error {
	if n == 0 {
		return nil
	}
	guess = min(max(guess, 0), n-1)
	low, high := -1, n // works(low) is false and works(high) is true.
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

// pool is a number of nodes, with the index of their type, which is 0 without node types.
type pool struct{ nodeType, nodes int }

// machine returns the size of the machines that remedyPool adds to a node type: the largest size of its size
// limits, or 0 if it has none. A machine of this size is added to each of the limits.
func (e *explainer) machine(id string) int {
	size := 0
	for _, limit := range e.snapshot.SizeLimits {
		if limit.NodeType == "" || limit.NodeType == id {
			size = max(size, limit.Size)
		}
	}
	return size
}

// remedyPool finds the smallest pool or, with node types, the smallest number of nodes of a type. With size
// limits, whole machines are added.
func (e *explainer) remedyPool(ctx context.Context, r *reason, nodeType int) (remedy solver.Remedy, err error) {
	now, all, id := e.snapshot.TotalNodes, e.all.TotalNodes, ""
	if len(e.snapshot.NodeTypes) > 0 {
		now, all, id = e.snapshot.NodeTypes[nodeType].Nodes, e.all.NodeTypes[nodeType].Nodes, e.all.NodeTypes[nodeType].ID
	}
	frozen, machine := e.frozenNodes[id], e.machine(id)
	step := max(1, machine)
	maxMore := (min(all*solver.MaxRemedyPool, solver.MaxNodes) - frozen - now) / step
	works := func(n int) (bool, error) {
		total := now + (1+n)*step
		at := pool{nodeType, total}
		options, known := e.pools[at]
		if !known {
			var err error
			resize := func(s *solver.Snapshot, _ *solver.Job) {
				if s.TotalNodes += total - now; len(s.NodeTypes) > 0 {
					s.NodeTypes = slices.Clone(s.NodeTypes)
					s.NodeTypes[nodeType].Nodes = total
				}
				s.SizeLimits = slices.Clone(s.SizeLimits)
				for n := range s.SizeLimits {
					if l := &s.SizeLimits[n]; l.NodeType == "" || l.NodeType == id {
						l.Nodes += total - now
					}
				}
			}
			if options, err = e.decide(ctx, e.changed(r.job, resize)); options == nil {
				return false, err
			}
			e.pools[at] = options
		}
		if !e.isMore(r.job, r.option, options[r.job]) {
			return false, nil
		}
		remedy = solver.Remedy{
			TotalNodes: total + frozen, MachineNodes: machine, NodeType: id,
			Nodes: int(options[r.job].Nodes), NodesType: e.snapshot.TypeOf(options[r.job]),
		}
		return true, nil
	}
	linear := 0
	if len(e.snapshot.Jobs) <= maxLinearPools {
		linear = min(maxMore, maxLinearPools)
	}
	for n := 0; n < linear && remedy.Nodes == 0 && err == nil && ctx.Err() == nil; n++ {
		_, err = works(n)
	}
	if remedy.Nodes == 0 && err == nil && ctx.Err() == nil {
		err = searchFirst(0, maxMore-linear, func(n int) (bool, error) { return works(linear + n) })
	}
	return remedy, err
}

// remedyMinimum finds the smallest min_nodes above the nodes of the job. For a waiting job, it finds
// the largest value below the current min_nodes or, if there is none, the smallest above it: a larger
// minimum can help, because the job is then worth more per decision.
func (e *explainer) remedyMinimum(ctx context.Context, r *reason, job *solver.Job) (solver.Remedy, error) {
	for _, minNodes := range e.minimums(job, r.allocation.Nodes) {
		if ctx.Err() != nil {
			continue
		}
		option, err := e.optionAfter(ctx, r, func(_ *solver.Snapshot, j *solver.Job) { j.MinNodes = minNodes })
		if !option.IsZero() || err != nil {
			return solver.Remedy{MinNodes: minNodes, Nodes: int(option.Nodes), NodesType: e.snapshot.TypeOf(option)}, err
		}
	}
	return solver.Remedy{}, nil
}

// sizesFromOne returns the legal sizes, on any type, that the job would have with a min_nodes of 1.
func (e *explainer) sizesFromOne(job *solver.Job) []int {
	all := *job
	if all.MinNodes = 1; len(e.snapshot.NodeTypes) == 0 {
		return all.LegalSizes()
	}
	var sizes []int
	for g := range e.snapshot.NodeTypes {
		if typed, _, runs := all.ForType(&e.snapshot.NodeTypes[g]); runs {
			sizes = append(sizes, typed.LegalSizes()...)
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// minimums returns the values of min_nodes that change the legal sizes of a job, the smallest change
// first: values above its nodes or, if it has none, values below its min_nodes and then values above.
func (e *explainer) minimums(job *solver.Job, nodes int) []int {
	if job.AllowedNodes == nil && job.MinNodes == job.MaxNodes && nodes > 0 && !e.snapshot.Typed() {
		return nil // The job has one size, which does not depend on min_nodes.
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
	// Each value excludes one more size.
	for n, k := range sizes {
		if k > nodes {
			minNodes := nodes + 1
			if n > 0 {
				minNodes = max(minNodes, sizes[n-1]+1)
			}
			list = append(list, minNodes)
		}
	}
	return list
}
