package proof

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The tables of groups: the least loss of those within a group, by nodes.
//
// A leaf's table has its jobs one after the other, as a knapsack's; that of a group above
// has its children's, added by trying all pairs of nodes. What the group itself loses is
// added, and nodes beyond its limit are left out. Where the least loss of each child is
// known, a group within which L is lost at most needs of a child only what loses less than L
// and the least losses of the others leave: so tables are made for a small L first, and
// for one four times as large while nothing is found, from the leaves up. The least loss of
// the pool is that of the best plan.

// groupTable is what is known about the losses within a group.
type groupTable struct {
	// held is the number of nodes at base; excess nodes are counted from it.
	held int
	// least is the least loss, once it is known, and at a number of excess nodes that has it.
	least float64
	at    int
	known bool
	// best is the least loss by excess nodes, complete below a loss.
	best     series
	complete float64
	// core and layers are the jobs of a leaf, sums the children of others, added one by one.
	core   []coreItem
	layers []series
	sums   []series
	// regrets are the least losses of single sizes within, ascending.
	regrets []float64
}

const (
	// maxGroupCells limits the numbers in all tables of a tree.
	maxGroupCells = 1_000_000
	// maxRegrets is how many sizes the first table takes on besides the best ones.
	maxRegrets = 40
)

// minimise finds the least loss within a group. It returns false if time or memory is up.
func (t *groupTree) minimise(clock *model.Clock, g int) bool {
	n := &t.nodes[g]
	if n.table.known {
		return true
	}
	sum, at := 0.0, 0
	for _, child := range n.children {
		if !t.minimise(clock, child) {
			return false
		}
		sum, at = sum+t.nodes[child].table.least, at+t.nodes[child].table.at
	}
	t.collectRegrets(g)
	if clock.Up(8*len(n.jobs) + maxRegrets*len(n.children)) {
		return false
	}
	// The children at their best are a solution, if the limit allows it.
	worst := math.Inf(1)
	if nodes := n.table.held + at; nodes <= n.limit {
		own := n.loss(nodes, t.in.QuotaPrice)
		if own == 0 {
			n.table.least, n.table.at, n.table.known = sum, at, true
			return true
		}
		worst = sum + own + t.in.Precision
	}
	step := t.firstStep(n, worst-sum)
	for {
		lossLimit := min(sum+step, worst)
		if !t.fill(clock, g, lossLimit) {
			return false
		}
		for x, loss := range n.table.best.at {
			if loss < lossLimit && (!n.table.known || loss < n.table.least) {
				n.table.least, n.table.at, n.table.known = loss, n.table.best.low+x, true
			}
		}
		if n.table.known {
			return true
		}
		if lossLimit == worst { // Rounding alone kept it out.
			worst = math.Inf(1)
		}
		if step *= 4; !(step < math.MaxFloat64) {
			return false // The limit cannot grow any further.
		}
	}
}

// firstStep returns the loss, beyond what its children lose at least, that a group's first
// table is made for.
func (t *groupTree) firstStep(n *groupNode, most float64) float64 {
	step := t.in.Precision
	if r := n.table.regrets; len(r) > 0 {
		step = max(step, r[len(r)-1])
	}
	if !math.IsInf(most, 1) {
		step = max(step, most/1024)
	}
	return step
}

// collectRegrets collects the least losses above 0 of single sizes within a group.
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

// fill makes the table of a group complete below a loss. It returns false if time or memory
// is up.
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

// fillLeaf makes the table of a group of jobs.
func (t *groupTree) fillLeaf(clock *model.Clock, n *groupNode, lossLimit float64) bool {
	table := &n.table
	table.core = table.core[:0]
	for _, i := range n.jobs {
		table.core = appendCore(table.core, i, t.in.Jobs[i].Sizes, t.losses[t.starts[i]:t.starts[i+1]], int(t.base.Of(i)[0]), lossLimit)
	}
	if clock.Up(8 * len(n.jobs)) {
		return false
	}
	sortCore(table.core)
	rise, fall := 0, 0
	for _, item := range table.core {
		low, high := span(item.options)
		rise, fall = rise+high, fall+low
	}
	table.layers = append(table.layers[:0], series{at: []float64{0}})
	for _, item := range table.core {
		last := &table.layers[len(table.layers)-1]
		low, high := span(item.options)
		rise, fall = rise-high, fall-low
		next, ok := t.between(clock, n, last.low+low, last.high()+high, rise, fall, lossLimit, len(item.options))
		if !ok {
			return false
		}
		for _, o := range item.options {
			addShiftedBelow(next, last, o.excess, o.loss, lossLimit)
		}
		table.layers = append(table.layers, next.trimmed())
	}
	t.close(n, table.layers[len(table.layers)-1], lossLimit)
	return true
}

// fillInner makes the table of a group of groups.
func (t *groupTree) fillInner(clock *model.Clock, n *groupNode, lossLimit float64) bool {
	table := &n.table
	rest := 0.0 // what the children from the next on lose at least
	for _, child := range n.children {
		rest += t.nodes[child].table.least
	}
	rise, fall := 0, 0
	for _, child := range n.children {
		of := &t.nodes[child].table
		if !t.fill(clock, child, lossLimit-(rest-of.least)) {
			return false
		}
		rise, fall = rise+of.best.high(), fall+of.best.low
	}
	table.sums = append(table.sums[:0], series{at: []float64{0}})
	for _, child := range n.children {
		last, of := &table.sums[len(table.sums)-1], &t.nodes[child].table
		rise, fall, rest = rise-of.best.high(), fall-of.best.low, rest-of.least
		next, ok := t.between(clock, n, last.low+of.best.low, last.high()+of.best.high(), rise, fall, lossLimit, min(len(last.at), len(of.best.at)))
		if !ok {
			return false
		}
		addBelow(next, last, &of.best, lossLimit-rest)
		table.sums = append(table.sums, next.trimmed())
	}
	t.close(n, table.sums[len(table.sums)-1], lossLimit)
	return true
}

// addBelow lowers sum to the least of a(x) + b(y) at each x + y, where that is below lossLimit.
func addBelow(sum series, a, b *series, lossLimit float64) {
	if len(b.at) > len(a.at) {
		a, b = b, a
	}
	for y, loss := range b.at {
		if loss < lossLimit {
			addShiftedBelow(sum, a, b.low+y, loss, lossLimit)
		}
	}
}

// between returns an empty series from low to high, less what those of the group that are
// still to come, which can raise and lower the excess nodes by at most rise and fall, cannot
// bring below the limit of the group or of losses. It returns false if time or memory is up.
func (t *groupTree) between(clock *model.Clock, n *groupNode, low, high, rise, fall int, lossLimit float64, options int) (series, bool) {
	most, least := n.limit-n.table.held, math.MinInt
	below := func(price float64, nodes int) {
		if reach := lossLimit / price; price > 0 && reach < 1<<40 {
			least = max(least, nodes-n.table.held-int(reach)-1)
		}
	}
	below(n.mu, n.limit)
	if n.floor > 0 {
		below(t.in.QuotaPrice-n.nu, n.floor)
		if reach := lossLimit / n.nu; reach < 1<<40 {
			most = min(most, n.floor-n.table.held+int(reach)+1)
		}
	}
	if least != math.MinInt {
		low = max(low, least-rise)
	}
	high = min(high, most-fall)
	count := max(0, high-low+1)
	if t.cells += count; t.cells > maxGroupCells || clock.Up(count*options) {
		return series{}, false
	}
	return t.memory.infinite(low, low+count-1), true
}

// close makes the table of a group of the losses of those within.
func (t *groupTree) close(n *groupNode, within series, lossLimit float64) {
	best := t.memory.infinite(within.low, within.high())
	for x, loss := range within.at {
		nodes := n.table.held + within.low + x
		if nodes > n.limit {
			break
		}
		if loss += n.loss(nodes, t.in.QuotaPrice); loss < lossLimit {
			best.at[x] = loss
		}
	}
	n.table.best = best.trimmed()
}

// proven returns what is known to be lost within a group at least.
func (t *groupTree) proven(g int) float64 {
	n := &t.nodes[g]
	if n.table.known {
		return n.table.least
	}
	sum := 0.0
	for _, child := range n.children {
		sum += t.proven(child)
	}
	return sum
}

// plan returns a plan of the least loss.
func (t *groupTree) plan() *model.Plan {
	p := t.base.Clone()
	pool := len(t.nodes) - 1
	t.choose(p, pool, t.nodes[pool].table.at)
	return p
}

// choose gives those within a group their best sizes where they hold the given excess nodes.
func (t *groupTree) choose(p *model.Plan, g, excess int) {
	n := &t.nodes[g]
	table := &n.table
	if table.complete == 0 {
		// No table was needed: everything within is at its best.
		for _, child := range n.children {
			t.choose(p, child, t.nodes[child].table.at)
		}
		return
	}
	for m := len(n.children) - 1; m >= 0; m-- {
		last, of := &table.sums[m], &t.nodes[n.children[m]].table
		least, taken := math.Inf(1), 0
		for x, loss := range of.best.at {
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
