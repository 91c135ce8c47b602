package horizon

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The tables of groups: the smallest loss of the jobs in a group, by number of nodes.
//
// The table of a leaf is a dynamic program over its jobs, like the knapsack. The table of an inner
// group combines the tables of its children by (min, +) convolution. The loss of the group itself
// is added, and nodes beyond its limit are excluded. If the minimum loss of each child is known and
// the group may lose at most L, a child needs only states that lose less than L minus the minimum
// losses of the other children. Tables are therefore built bottom up for a small L first, and for a
// four times larger one until a solution is found. The smallest loss of the pool is the loss of the
// best plan.

// groupTable contains the known losses in a group.
type groupTable struct {
	// baseNodes is the number of nodes in base. Excess nodes are relative to it.
	baseNodes int
	// If known is set, minLoss is the smallest loss, attained at minLossAt excess nodes.
	minLoss   float64
	minLossAt int
	known     bool
	// best is the smallest loss by excess nodes. It is complete below the loss complete.
	best     series
	complete float64
	// core and layers are the dynamic program over the jobs of a leaf. sums are the partial sums
	// over the children of an inner group.
	core   []coreItem
	layers []series
	sums   []series
	// regrets are the smallest losses of single sizes in the group, in ascending order.
	regrets []float64
}

const (
	// maxGroupCells limits the number of values in all tables of a tree. It trades memory and time
	// for proofs. With a quarter BenchmarkGroups (go test ./solver/exact -run '^$' -bench Groups) loses a
	// proof of 100,000 jobs.
	maxGroupCells = 1_000_000
	// maxRegrets is the number of alternative sizes that the first table includes. With 160
	// BenchmarkGroups takes 1.1 times the work for 1,000 jobs and fewer.
	maxRegrets = 40
)

// minimize finds the smallest loss in a group. It returns false if the deadline has passed or a
// limit is reached.
func (t *groupTree) minimize(clock *model.Clock, g int) bool {
	n := &t.nodes[g]
	if n.table.known {
		return true
	}
	sum, at := 0.0, 0
	for _, child := range n.children {
		if !t.minimize(clock, child) {
			return false
		}
		sum, at = sum+t.nodes[child].table.minLoss, at+t.nodes[child].table.minLossAt
	}
	t.collectRegrets(g)
	if clock.Add(8*len(n.jobs) + maxRegrets*len(n.children)) {
		return false
	}
	// The best solutions of the children are a solution of the group if its limit permits it.
	upperLimit := math.Inf(1)
	if nodes := n.table.baseNodes + at; nodes <= n.limit {
		own := n.loss(nodes, t.in.QuotaPrice)
		if own == 0 {
			n.table.minLoss, n.table.minLossAt, n.table.known = sum, at, true
			return true
		}
		upperLimit = sum + own + t.in.Precision
	}
	step := t.firstStep(n, upperLimit-sum)
	for {
		lossLimit := min(sum+step, upperLimit)
		if !t.fill(clock, g, lossLimit) {
			return false
		}
		for x, loss := range n.table.best.values {
			if loss < lossLimit && (!n.table.known || loss < n.table.minLoss) {
				n.table.minLoss, n.table.minLossAt, n.table.known = loss, n.table.best.low+x, true
			}
		}
		if n.table.known {
			return true
		}
		if lossLimit == upperLimit { // Only rounding excluded the solution.
			upperLimit = math.Inf(1)
		}
		if step *= 4; !(step < math.MaxFloat64) {
			return false // The limit cannot grow any further.
		}
	}
}

// firstStep returns the first limit of the loss in addition to the minimum losses of the children.
func (t *groupTree) firstStep(n *groupNode, maxStep float64) float64 {
	step := t.in.Precision
	if r := n.table.regrets; len(r) > 0 {
		step = max(step, r[len(r)-1])
	}
	if !math.IsInf(maxStep, 1) {
		step = max(step, maxStep/1024)
	}
	return step
}

// collectRegrets collects the smallest positive losses of single sizes in a group.
func (t *groupTree) collectRegrets(g int) {
	n := &t.nodes[g]
	var regrets []float64
	for _, i := range n.jobs {
		for _, loss := range t.losses[t.starts[i]:t.starts[i+1]] {
			if loss > 0 {
				regrets = append(regrets, loss)
			}
		}
	}
	for _, child := range n.children {
		regrets = append(regrets, t.nodes[child].table.regrets...)
	}
	slices.Sort(regrets)
	n.table.regrets = regrets[:min(len(regrets), maxRegrets)]
}

// fill completes the table of a group below a loss. It returns false if the deadline has passed or
// a limit is reached.
func (t *groupTree) fill(clock *model.Clock, g int, lossLimit float64) bool {
	n := &t.nodes[g]
	if n.table.complete >= lossLimit {
		return true
	}
	fill := t.fillInner
	if len(n.children) == 0 {
		fill = t.fillLeaf
	}
	if !fill(clock, n, lossLimit) {
		return false
	}
	n.table.complete = lossLimit
	return true
}

// fillLeaf fills the table of a group of jobs.
func (t *groupTree) fillLeaf(clock *model.Clock, n *groupNode, lossLimit float64) bool {
	table := &n.table
	table.core = table.core[:0]
	for _, i := range n.jobs {
		table.core = appendCore(table.core, i, t.in.Jobs[i].Sizes, t.losses[t.starts[i]:t.starts[i+1]], int(t.base.Of(i)[0]), lossLimit)
	}
	if clock.Add(8 * len(n.jobs)) {
		return false
	}
	sortCore(table.core)
	rise, fall := 0, 0
	for _, item := range table.core {
		low, high := span(item.options)
		rise, fall = rise+high, fall+low
	}
	table.layers = append(table.layers[:0], series{values: []float64{0}})
	for _, item := range table.core {
		last := &table.layers[len(table.layers)-1]
		low, high := span(item.options)
		rise, fall = rise-high, fall-low
		next, ok := t.reachable(clock, n, last.low+low, last.high()+high, rise, fall, lossLimit, len(item.options))
		if !ok {
			return false
		}
		for _, o := range item.options {
			addShiftedBelow(next, last, o.excess, o.loss, lossLimit)
		}
		table.layers = append(table.layers, next.trimmed())
	}
	t.addGroupLoss(n, table.layers[len(table.layers)-1], lossLimit)
	return true
}

// fillInner fills the table of a group of groups.
func (t *groupTree) fillInner(clock *model.Clock, n *groupNode, lossLimit float64) bool {
	table := &n.table
	rest := 0.0 // minimum loss of the remaining children
	for _, child := range n.children {
		rest += t.nodes[child].table.minLoss
	}
	rise, fall := 0, 0
	for _, child := range n.children {
		of := &t.nodes[child].table
		if !t.fill(clock, child, lossLimit-(rest-of.minLoss)) {
			return false
		}
		rise, fall = rise+of.best.high(), fall+of.best.low
	}
	table.sums = append(table.sums[:0], series{values: []float64{0}})
	for _, child := range n.children {
		last, of := &table.sums[len(table.sums)-1], &t.nodes[child].table
		rise, fall, rest = rise-of.best.high(), fall-of.best.low, rest-of.minLoss
		next, ok := t.reachable(clock, n, last.low+of.best.low, last.high()+of.best.high(),
			rise, fall, lossLimit, min(len(last.values), len(of.best.values)))
		if !ok {
			return false
		}
		addBelow(next, last, &of.best, lossLimit-rest)
		table.sums = append(table.sums, next.trimmed())
	}
	t.addGroupLoss(n, table.sums[len(table.sums)-1], lossLimit)
	return true
}

// addBelow lowers sum to the minimum of a(x) + b(y) over x + y, if that is below lossLimit.
func addBelow(sum series, a, b *series, lossLimit float64) {
	if len(b.values) > len(a.values) {
		a, b = b, a
	}
	for y, loss := range b.values {
		if loss < lossLimit {
			addShiftedBelow(sum, a, b.low+y, loss, lossLimit)
		}
	}
}

// reachable returns an empty series from low to high. It excludes states from which the remaining
// items, which change the excess nodes by at most rise and fall, cannot stay within the limit of
// the group and the limit of losses. It returns false if the deadline has passed or a limit is
// reached.
func (t *groupTree) reachable(clock *model.Clock, n *groupNode, low, high, rise, fall int, lossLimit float64, options int) (series, bool) {
	maxExcess, minExcess := n.limit-n.table.baseNodes, math.MinInt
	below := func(price float64, nodes int) {
		if reach := lossLimit / price; price > 0 && reach < 1<<40 {
			minExcess = max(minExcess, nodes-n.table.baseNodes-int(reach)-1)
		}
	}
	below(n.mu, n.limit)
	if n.floor > 0 {
		below(t.in.QuotaPrice-n.nu, n.floor)
		if reach := lossLimit / n.nu; reach < 1<<40 {
			maxExcess = min(maxExcess, n.floor-n.table.baseNodes+int(reach)+1)
		}
	}
	if minExcess != math.MinInt {
		low = max(low, minExcess-rise)
	}
	high = min(high, maxExcess-fall)
	count := max(0, high-low+1)
	if t.cells += count; t.cells > maxGroupCells || clock.Add(count*options) {
		return series{}, false
	}
	return t.memory.infinite(low, low+count-1), true
}

// addGroupLoss sets the table of a group from the losses of its jobs by adding the loss of the
// group itself.
func (t *groupTree) addGroupLoss(n *groupNode, within series, lossLimit float64) {
	best := t.memory.infinite(within.low, within.high())
	for x, loss := range within.values {
		nodes := n.table.baseNodes + within.low + x
		if nodes > n.limit {
			break
		}
		if loss += n.loss(nodes, t.in.QuotaPrice); loss < lossLimit {
			best.values[x] = loss
		}
	}
	n.table.best = best.trimmed()
}

// provenLoss returns a lower bound on the loss in a group.
func (t *groupTree) provenLoss(g int) float64 {
	n := &t.nodes[g]
	if n.table.known {
		return n.table.minLoss
	}
	sum := 0.0
	for _, child := range n.children {
		sum += t.provenLoss(child)
	}
	return sum
}

// plan returns a plan with the smallest loss.
func (t *groupTree) plan() *model.Plan {
	p := t.base.Clone()
	pool := len(t.nodes) - 1
	t.choose(p, pool, t.nodes[pool].table.minLossAt)
	return p
}

// choose sets the best sizes of the jobs in a group for the given number of excess nodes.
func (t *groupTree) choose(p *model.Plan, g, excess int) {
	n := &t.nodes[g]
	table := &n.table
	if table.complete == 0 {
		// No table was needed: the solutions of all children are the best ones.
		for _, child := range n.children {
			t.choose(p, child, t.nodes[child].table.minLossAt)
		}
		return
	}
	for m := len(n.children) - 1; m >= 0; m-- {
		last, of := &table.sums[m], &t.nodes[n.children[m]].table
		least, taken := math.Inf(1), 0
		for x, loss := range of.best.values {
			if loss += last.value(excess - of.best.low - x); loss < least {
				least, taken = loss, of.best.low+x
			}
		}
		t.choose(p, n.children[m], taken)
		excess -= taken
	}
	for m := len(table.core) - 1; m >= 0; m-- {
		best := table.layers[m].best(table.core[m].options, excess)
		p.Of(table.core[m].item)[0] = best.choice
		excess -= best.excess
	}
}
