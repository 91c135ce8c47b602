package horizon

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The multiple-choice knapsack of one step.
//
// Every item, a job, chooses one of its sizes. The chosen sizes have to fit the capacity, and the
// sum of their values is maximized. At a price lambda per node an upper bound is
//
//	lambda * capacity + sum over items of max_k ( value_k - lambda nodes_k ).
//
// It is smallest at the rate (value per node) of the hull edge at which the capacity is used up
// when edges are taken by decreasing rate. The losses (reduced costs) of most sizes at that price
// are much larger than the loss of the best solution. The core problem therefore has few sizes of
// few items, and a table of the smallest loss by excess nodes is small. The table is exact if it
// contains a solution that loses less than the limit of the table. States are left out of the table
// if the remaining items cannot bring them back to the capacity below the limit. (Balas and Zemel,
// "An algorithm for large zero-one knapsack problems" (1980); Pisinger, "A minimal algorithm for
// the multiple-choice knapsack problem" (1995).)

// knapsack is a multiple-choice knapsack with its scratch memory, which the next one reuses.
type knapsack struct {
	// The options of item n are starts[n] to starts[n+1], by increasing nodes.
	starts []int
	nodes  []int32
	values []float64

	edges   []model.Edge
	losses  []float64 // of every option relative to the best one of its item at the price
	base    []uint8   // best option of every item at the price
	choices []uint8
	scratch []float64
	core    []coreItem
	rests   []rest // of the core from each item on
	layers  []series
	minLoss float64 // loss of the last solution, or the limit if there was none
	memory  cellMemory
}

// coreItem is an item of the core problem, with its options.
type coreItem struct {
	item    int
	options []option
}

// solution is a solution of a knapsack, with a bound.
type solution struct {
	// choices are the chosen options by item, in memory of the knapsack.
	choices []uint8
	// value is the value of the choices. bound is an upper bound on the value of every solution.
	value, bound float64
	// relaxed is the bound before the smallest loss was subtracted.
	relaxed float64
	// complete reports whether no solution is better by more than the precision.
	complete bool
	// price is the shadow price of a node.
	price float64
}

const (
	// maxStepCells limits the number of values in the tables of a step that is solved alone. They
	// take 24 MB of the 32 MiB of a search. With 100,000, BenchmarkLargePools (go test ./solver/exact
	// -run '^$' -bench LargePools -benchtime 1x) loses 65 proofs of pools of 120,000 GPUs.
	maxStepCells = 3_000_000
	// maxCallCells limits the tables if another method solves many knapsacks and needs memory of its
	// own. With 100, BenchmarkSolve/jobs=200 is not proven.
	maxCallCells = 100_000
	// limitGrowth is the factor from one limit of the loss to the next. With 3, BenchmarkLargePools
	// loses 2 proofs of pools of 120,000 GPUs, and with 4 it loses 5.
	limitGrowth = 2
	// cheapFraction is the loss, as a fraction of the limit of the loss, up to which options count as
	// free in rests. With 1, BenchmarkLargePools loses 23 proofs of pools of 120,000 GPUs.
	cheapFraction = 1.0 / 16
	// firstRegrets is the number of alternative options that the first table includes.
	// With 10 or 160 BenchmarkDecision (go test . -run '^$' -bench Decision) takes 1.2 times the work
	// for many jobs.
	firstRegrets = 40
	// maxRaises limits how many options are raised one after the other to use free nodes.
	// Without raises BenchmarkTotalTime takes 1.3 times the CPU time; 2 and 32 take the same as 8.
	maxRaises = 8
)

// Reset empties the knapsack.
func (k *knapsack) Reset() {
	k.starts = append(k.starts[:0], 0)
	k.nodes, k.values = k.nodes[:0], k.values[:0]
}

// Option adds an option to the item that is being added.
func (k *knapsack) Option(nodes int32, value float64) {
	k.nodes, k.values = append(k.nodes, nodes), append(k.values, value)
}

// Item completes the item that is being added.
func (k *knapsack) Item() { k.starts = append(k.starts, len(k.nodes)) }

// solve returns the best solution within precision, for a capacity that the smallest options fit.
// If the tables exceed maxCells values, it returns the best solution found, with a bound. It returns
// false if the deadline has passed.
func (k *knapsack) solve(clock *model.Clock, capacity int, precision float64, maxCells int) (solution, bool) {
	price, ok := k.price(clock, capacity)
	if !ok {
		return solution{}, false
	}
	bound, free, ok := k.relax(clock, price, capacity)
	if !ok {
		return solution{}, false
	}
	k.fill(free)
	s := solution{choices: k.choices, value: k.value(), bound: bound, relaxed: bound, price: price}
	gap := bound - s.value
	if !(gap > precision) { // also if the gap is not a number
		s.complete = true
		return s, true
	}
	for lossLimit := k.firstLimit(gap); ; lossLimit *= limitGrowth {
		whole := !(lossLimit < gap)
		found, ok := k.search(clock, free, price, min(lossLimit, gap), maxCells)
		switch {
		case clock.Expired:
			return s, true
		case !ok:
			return s, true // the tables are too large
		case found || whole:
			// Every solution loses at least k.minLoss: the smallest loss, or the gap if no solution
			// was found.
			s.value, s.bound, s.complete = k.value(), bound-k.minLoss, true
			return s, true
		}
	}
}

// Choose returns the options of a good solution, in reused memory. It returns false if the deadline
// has passed.
func (k *knapsack) Choose(clock *model.Clock, capacity int, precision float64) ([]uint8, bool) {
	s, ok := k.solve(clock, capacity, precision, maxCallCells)
	return s.choices, ok
}

// price returns the price with the smallest bound: the rate of the hull edge at which the capacity
// is used up, or 0 if it is not used up. It returns false if the deadline has passed.
func (k *knapsack) price(clock *model.Clock, capacity int) (float64, bool) {
	k.edges = k.edges[:0]
	need := float64(capacity)
	for n := range len(k.starts) - 1 {
		from, to := k.starts[n], k.starts[n+1]
		need -= float64(k.nodes[from])
		k.edges = model.AppendEdges(k.edges, k.nodes[from:to], k.values[from:to])
		if clock.Add(2 * (to - from)) {
			return 0, false
		}
	}
	return model.BreakRate(clock, k.edges, need)
}

// relax sets base and losses at a price. It returns the bound and the number of nodes that base
// leaves free. It returns false if the deadline has passed.
func (k *knapsack) relax(clock *model.Clock, price float64, capacity int) (bound float64, free int, ok bool) {
	bound, free = price*float64(capacity), capacity
	k.base = k.base[:0]
	k.losses = slices.Grow(k.losses[:0], len(k.nodes))[:len(k.nodes)]
	for n := range len(k.starts) - 1 {
		from, to := k.starts[n], k.starts[n+1]
		bestNet := math.Inf(-1)
		for m := from; m < to; m++ {
			k.losses[m] = k.values[m] - price*float64(k.nodes[m])
			bestNet = max(bestNet, k.losses[m])
		}
		// Of several best options, up to rounding, base has the smallest. An edge whose rate is
		// exactly the price is not taken, so that base fits.
		rounding := 4 * model.Noise * (math.Abs(bestNet) + price*float64(k.nodes[to-1]))
		at := from
		for k.losses[at] < bestNet-rounding {
			at++
		}
		for m := from; m < to; m++ {
			k.losses[m] = bestNet - k.losses[m]
		}
		bound += bestNet
		free -= int(k.nodes[at])
		k.base = append(k.base, uint8(at-from))
		if clock.Add(4 * (to - from)) {
			return 0, 0, false
		}
	}
	for n := 0; free < 0; n++ {
		from := k.starts[n]
		free += int(k.nodes[from+int(k.base[n])] - k.nodes[from])
		k.base[n] = 0
	}
	return bound, free, true
}

// fill sets the choices to base and raises the options that gain the largest value in the free
// nodes.
func (k *knapsack) fill(free int) {
	k.choices = append(k.choices[:0], k.base...)
	for n := 0; n < maxRaises && free > 0; n++ {
		most, at, to := 0.0, -1, 0
		for n, chosen := range k.choices {
			from := k.starts[n]
			now := from + int(chosen)
			for m := now + 1; m < k.starts[n+1] && int(k.nodes[m]-k.nodes[now]) <= free; m++ {
				if gain := k.values[m] - k.values[now]; gain > most {
					most, at, to = gain, n, m-from
				}
			}
		}
		if at < 0 {
			return
		}
		from := k.starts[at]
		free -= int(k.nodes[from+to] - k.nodes[from+int(k.choices[at])])
		k.choices[at] = uint8(to)
	}
}

// value returns the value of the choices.
func (k *knapsack) value() float64 {
	total := 0.0
	for n, chosen := range k.choices {
		total += k.values[k.starts[n]+int(chosen)]
	}
	return total
}

// firstLimit returns the limit of the loss for the first table.
func (k *knapsack) firstLimit(gap float64) float64 {
	k.scratch = k.scratch[:0]
	for _, loss := range k.losses {
		if loss > 0 && loss < gap {
			k.scratch = append(k.scratch, loss)
		}
	}
	if len(k.scratch) <= firstRegrets {
		return gap
	}
	slices.Sort(k.scratch)
	return max(k.scratch[firstRegrets], gap/1024)
}

// search looks for the best solution that loses less than lossLimit, and sets the choices if it
// finds one. It returns false for ok if the tables exceed maxCells values or the deadline has passed.
func (k *knapsack) search(clock *model.Clock, free int, price, lossLimit float64, maxCells int) (found, ok bool) {
	k.collect(lossLimit)
	k.memory.Reset()
	k.collectRests(lossLimit)
	k.layers = append(k.layers[:0], series{values: []float64{0}})
	cells := 0
	for n, item := range k.core {
		last, after := k.layers[n], &k.rests[n+1]
		lo, hi := span(item.options)
		// Exclude states that the remaining items cannot bring back into the capacity, and states
		// that leave so many nodes idle that their price reaches the limit.
		low, high := last.low+lo, min(last.high()+hi, free+after.fall.below(lossLimit))
		if least := math.Ceil(float64(free-after.rise.below(lossLimit)) - lossLimit/price); price > 0 && least > float64(low) {
			low = int(least)
		}
		if high < low {
			k.minLoss = lossLimit
			return false, true
		}
		if cells += high - low + 1; cells > maxCells || clock.Add((high-low+1)*len(item.options)) {
			return false, false
		}
		next := k.memory.infinite(low, high)
		for _, o := range item.options {
			addShiftedBelow(next, &last, o.excess, o.loss, lossLimit)
		}
		k.layers = append(k.layers, next.trimmed())
	}
	last := k.layers[len(k.layers)-1]
	taken, least := 0, lossLimit
	for x := last.low; x <= min(free, last.high()); x++ {
		if loss := last.value(x) + price*float64(free-x); loss < least {
			taken, least = x, loss
		}
	}
	k.minLoss = least
	if least == lossLimit {
		return false, true
	}
	copy(k.choices, k.base)
	for n := len(k.core) - 1; n >= 0; n-- {
		best := k.layers[n].best(k.core[n].options, taken)
		k.choices[k.core[n].item] = best.choice
		taken -= best.excess
	}
	return true, true
}

// collect lists the items of the core problem: items with several options that lose less than
// lossLimit, in the order of decreasing range of excess nodes.
func (k *knapsack) collect(lossLimit float64) {
	k.core = k.core[:0]
	for n, chosen := range k.base {
		from, to := k.starts[n], k.starts[n+1]
		k.core = appendCore(k.core, n, k.nodes[from:to], k.losses[from:to], int(chosen), lossLimit)
	}
	sortCore(k.core)
}

// rest bounds by how many nodes the items from one of the core on can raise and lower the excess
// nodes.
type rest struct{ rise, fall reach }

// reach bounds a change of the excess nodes: by all nodes, and by those of cheap options plus the
// largest number of nodes per loss of the other options.
type reach struct {
	all, cheap   int
	nodesPerLoss float64
}

// below returns an upper bound on the change for a loss below lossLimit.
func (r *reach) below(lossLimit float64) int {
	if nodes := float64(r.cheap) + r.nodesPerLoss*lossLimit; nodes < float64(r.all) {
		return int(nodes) + 1 // The product is rounded.
	}
	return r.all
}

// add adds an item. The sign is 1 for options with more nodes, and -1 for options with fewer nodes.
// Options that lose at most cheap count as free.
func (r *reach) add(options []option, sign int, cheap float64) {
	all, free := 0, 0
	for _, o := range options {
		nodes := sign * o.excess
		all = max(all, nodes)
		if o.loss <= cheap {
			free = max(free, nodes)
		} else {
			r.nodesPerLoss = max(r.nodesPerLoss, float64(nodes)/o.loss)
		}
	}
	r.all, r.cheap = r.all+all, r.cheap+free
}

// collectRests bounds the changes of the excess nodes by the items of the core from each one on.
func (k *knapsack) collectRests(lossLimit float64) {
	k.rests = slices.Grow(k.rests[:0], len(k.core)+1)[:len(k.core)+1]
	k.rests[len(k.core)] = rest{}
	for n, item := range slices.Backward(k.core) {
		r := k.rests[n+1]
		r.rise.add(item.options, 1, cheapFraction*lossLimit)
		r.fall.add(item.options, -1, cheapFraction*lossLimit)
		k.rests[n] = r
	}
}

// appendCore appends an item if an option in addition to the base loses less than lossLimit.
func appendCore(core []coreItem, item int, nodes []int32, losses []float64, base int, lossLimit float64) []coreItem {
	count := 0
	for k, loss := range losses {
		if loss < lossLimit && k != base {
			count++
		}
	}
	if count == 0 && losses[base] == 0 {
		return core
	}
	options := make([]option, 0, count+1)
	for k, loss := range losses {
		if loss < lossLimit || k == base {
			options = append(options, option{loss: loss, excess: int(nodes[k] - nodes[base]), choice: uint8(k)})
		}
	}
	return append(core, coreItem{item: item, options: options})
}

// sortCore sorts the items by decreasing range of excess nodes.
func sortCore(core []coreItem) {
	slices.SortStableFunc(core, func(a, b coreItem) int {
		aLow, aHigh := span(a.options)
		bLow, bHigh := span(b.options)
		return cmp.Compare(bHigh-bLow, aHigh-aLow)
	})
}

// addShiftedBelow lowers sum(x) to from(x - shift) + plus if that is smaller and below lossLimit.
func addShiftedBelow(sum series, from *series, shift int, plus, lossLimit float64) {
	if math.IsInf(plus, 1) {
		return
	}
	offset := from.low + shift - sum.low
	start := max(0, -offset)
	end := min(len(from.values), len(sum.values)-offset)
	if start >= end {
		return
	}
	into := sum.values[start+offset : end+offset]
	for x, value := range from.values[start:end] {
		if value += plus; value < into[x] && value < lossLimit {
			into[x] = value
		}
	}
}
