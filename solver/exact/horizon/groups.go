package horizon

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact/model"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// Groups: one step whose jobs share the pool in a tree of limits and soft floors.
//
// Let U_q be the number of nodes of the jobs in group q. The best plan of the step maximizes
//
//	sum of values - sum over groups of quotaPrice * max(0, floor_q - U_q),   U_q <= limit_q.
//
// The root of the tree is the pool. The linear relaxation is solved from the leaves to the root.
// The hull edges of the jobs of a leaf, sorted by decreasing rate, are its concave value as a
// function of nodes. The floor raises the rates of the edges below it by the quota price, the limit
// removes the edges beyond it, and the edges of the children of a group together are the edges of
// the group. A second pass from the root to the leaves computes the price of a node inside each
// group: the price outside minus the multiplier nu_q of the floor plus the multiplier mu_q of the
// limit. At these prices
//
//	bound = sum over jobs of max_k ( value_k - price_leaf k ) + sum_q mu_q limit_q - nu_q floor_q
//
// and the difference between the bound and a plan is a sum of losses, all at least 0. A job loses
// the net value of its best size minus the net value of its size. A group loses
//
//	mu_q (limit_q - U_q)  and  (quotaPrice - nu_q) (floor_q - U_q) or nu_q (U_q - floor_q).
//
// The tables of the groups (grouptable.go) find the plan with the smallest loss.

// groupNode is a node of the tree: a group, or the pool.
type groupNode struct {
	parent       int
	children     []int
	jobs         []int // of a leaf
	limit, floor int
	// minNodes is the number of nodes if every job in the group has its smallest size.
	minNodes int
	// edges are the hull edges of the group before its floor and limit, by decreasing rate.
	edges []model.Edge
	// price is the price of a node inside the group. The multipliers mu of the limit and nu of the
	// floor are the difference from the price outside.
	price, mu, nu float64

	table groupTable
}

// groupTree is the tree of groups of an instance, with their tables. The pool is the last node.
type groupTree struct {
	in    *model.Instance
	nodes []groupNode
	// bottomUp lists children before their parents.
	bottomUp []int
	// losses contains the losses of all sizes of all jobs; job i starts at starts[i]. base is the
	// best size of every job.
	starts []int
	losses []float64
	base   *model.Plan
	bound  float64
	// poolCost is the cost of limits, floors and the nodes of the best sizes at the prices.
	poolCost float64

	memory cellMemory
	cells  int
}

// searchGroups solves an instance with groups.
func (s *Search) searchGroups(clock *model.Clock, _ int) {
	tree := newGroupTree(s.in)
	if !tree.relax(clock, false) {
		return
	}
	pool := len(tree.nodes) - 1
	s.Prices = []float64{tree.nodes[pool].price}
	for g := range s.in.Groups {
		s.GroupPrices = append(s.GroupPrices, tree.nodes[g].mu)
	}
	s.Offer(clock, tree.round(clock))
	s.prove(tree.bound, tree.poolCost/4, lemmaGroups) // Rounding multiplies by 4, but poolCost counts everything once.
	if s.closed() || solver.RelativeGap(s.Value, s.upper) <= s.gap {
		return
	}
	complete := tree.minimize(clock, pool)
	if complete {
		s.Offer(clock, tree.plan())
	}
	s.prove(tree.bound-tree.provenLoss(pool), (tree.poolCost+math.Abs(tree.bound))/4, lemmaTables)
	if complete {
		s.markSolved()
	}
}

// newGroupTree returns the tree without prices.
func newGroupTree(in *model.Instance) *groupTree {
	pool := len(in.Groups)
	t := &groupTree{in: in, nodes: make([]groupNode, pool+1), starts: make([]int, len(in.Jobs)+1), base: model.NewPlan(in)}
	t.nodes[pool] = groupNode{parent: -1, limit: in.Capacity[0]}
	for g, group := range in.Groups {
		n := &t.nodes[g]
		n.parent, n.limit, n.floor = group.Parent, group.Limit, group.Floor
		if n.limit >= in.Capacity[0] {
			n.limit = in.Capacity[0] + 1 // The pool itself limits the nodes and has the price.
		}
		if n.parent < 0 {
			n.parent = pool
		}
		t.nodes[n.parent].children = append(t.nodes[n.parent].children, g)
	}
	for i := range in.Jobs {
		j := &in.Jobs[i]
		leaf := &t.nodes[pool]
		if pool > 0 {
			leaf = &t.nodes[j.Group]
		}
		leaf.jobs = append(leaf.jobs, i)
		leaf.minNodes += int(j.Sizes[0])
		t.starts[i+1] = t.starts[i] + len(j.Sizes)
	}
	t.losses = make([]float64, t.starts[len(in.Jobs)])
	t.bottomUp = append(t.bottomUp, pool)
	for n := 0; n < len(t.bottomUp); n++ {
		t.bottomUp = append(t.bottomUp, t.nodes[t.bottomUp[n]].children...)
	}
	slices.Reverse(t.bottomUp)
	for _, g := range t.bottomUp {
		n := &t.nodes[g]
		if g != pool {
			t.nodes[n.parent].minNodes += n.minNodes
		}
	}
	return t
}

// relax solves the linear relaxation: it sets prices, losses, base and bound. For a recount, prices
// are multiples of priceGrain. It returns false if the deadline has passed.
func (t *groupTree) relax(clock *model.Clock, recount bool) bool {
	in := t.in
	values := make([]float64, 0, solver.MaxSizes+1)
	for _, g := range t.bottomUp {
		n := &t.nodes[g]
		for _, i := range n.jobs {
			j := &in.Jobs[i]
			values = values[:0]
			for k := range j.Sizes {
				values = append(values, j.StepValue(0, k))
			}
			n.edges = model.AppendAllEdges(n.edges, j.Sizes, values)
		}
		for _, child := range n.children {
			n.edges = t.nodes[child].appendConstrained(n.edges, in.QuotaPrice)
		}
		if !model.SortDescending(clock, n.edges, make([]model.Edge, len(n.edges)), func(r model.Edge) float64 { return r.Rate }) {
			return false
		}
	}
	grain := 0.0
	if recount {
		grain = t.priceGrain()
	}
	for _, g := range slices.Backward(t.bottomUp) {
		n := &t.nodes[g]
		outside := 0.0
		if n.parent >= 0 {
			outside = t.nodes[n.parent].price
		}
		n.setPrice(outside, in.QuotaPrice)
		if grain > 0 {
			n.roundPrice(outside, grain)
		}
		t.bound += n.mu * float64(n.limit)
		t.poolCost += n.mu * float64(n.limit)
		if n.floor > n.minNodes {
			t.bound -= n.nu * float64(n.floor)
			t.poolCost += n.nu * float64(n.floor)
		} else {
			n.floor = 0 // The floor is always met.
		}
		for _, i := range n.jobs {
			t.bound += t.relaxJob(i, n.price, recount)
		}
		if clock.Add(8 * len(n.edges)) {
			return false
		}
	}
	for g, nodes := range t.groupNodes(t.base) {
		t.nodes[g].table.baseNodes = nodes
	}
	return true
}

// groupNodes returns the number of nodes of each group in a plan.
func (t *groupTree) groupNodes(p *model.Plan) []int {
	held := make([]int, len(t.nodes))
	for _, g := range t.bottomUp {
		for _, i := range t.nodes[g].jobs {
			held[g] += int(t.in.Jobs[i].Sizes[p.Of(i)[0]])
		}
		for _, child := range t.nodes[g].children {
			held[g] += held[child]
		}
	}
	return held
}

// relaxJob sets the losses of a job at a price and its best size. It returns the net value of the
// best size.
func (t *groupTree) relaxJob(i int, price float64, recount bool) float64 {
	j := &t.in.Jobs[i]
	losses := t.losses[t.starts[i]:t.starts[i+1]]
	best := 0
	for k := range losses {
		if lossOf(j, best, k, price) < 0 {
			best = k
		}
	}
	bestNet := j.StepValue(0, best) - price*float64(j.Sizes[best])
	// Of several best sizes, up to rounding, base has the smallest, to leave free nodes within the
	// limits.
	rounding := 4 * model.Noise * (math.Abs(bestNet) + math.Abs(price)*float64(j.Sizes[len(j.Sizes)-1]))
	if recount {
		rounding = 0
	}
	at, largest := -1, 0
	for k := range losses {
		losses[k] = lossOf(j, best, k, price)
		if losses[k] <= rounding {
			if largest = k; at < 0 {
				at = k
			}
		}
	}
	t.poolCost += math.Abs(price) * float64(j.Sizes[largest])
	losses[at] = 0
	t.base.Of(i)[0] = uint8(at)
	return bestNet
}

// lossOf returns the loss of the k-th size of a job compared with the best one at a price. If the
// product of price and nodes is exact, its relative error is a few units in the last place.
func lossOf(j *model.Job, best, k int, price float64) float64 {
	a, b := j.StepValue(0, best), j.StepValue(0, k)
	less := a - b
	back := less - a
	rest := (a - (less - back)) - (b + back) // rounding error of less
	return less - price*float64(j.Sizes[best]-j.Sizes[k]) + rest
}

// appendConstrained appends the edges of a group for its parent: with raised rates below the floor,
// and without edges beyond the limit.
func (n *groupNode) appendConstrained(edges []model.Edge, price float64) []model.Edge {
	held, limit, floor := float64(n.minNodes), float64(n.limit), float64(n.floor)
	for _, e := range n.edges {
		left := min(e.Nodes, limit-held)
		if left <= 0 {
			break
		}
		if below := min(left, floor-held); below > 0 {
			edges = append(edges, model.Edge{Rate: e.Rate + price, Nodes: below})
			held, left = held+below, left-below
		}
		if left > 0 {
			edges = append(edges, model.Edge{Rate: e.Rate, Nodes: left})
			held += left
		}
	}
	return edges
}

// setPrice computes the price inside the group from the price outside and the quota price.
func (n *groupNode) setPrice(outside, quotaPrice float64) {
	n.price = outside
	if n.floor > n.minNodes {
		n.price = outside - quotaPrice
		if n.floor <= n.limit { // otherwise the group stays below its floor
			n.price = min(outside, max(n.price, n.rateAt(n.floor)))
		}
		n.nu = min(quotaPrice, outside-n.price)
	}
	if next := n.rateAt(n.limit); next > n.price {
		n.mu = next - n.price
		n.price = next
	}
}

// roundPrice rounds the multipliers to multiples of grain.
func (n *groupNode) roundPrice(outside, grain float64) {
	n.nu = math.Floor(n.nu/grain) * grain
	n.mu = math.Ceil(n.mu/grain) * grain
	n.price = outside - n.nu + n.mu
}

// rateAt returns the rate of the next node after the given number of nodes, or -Inf if there is
// none.
func (n *groupNode) rateAt(nodes int) float64 {
	left := float64(nodes - n.minNodes)
	for _, e := range n.edges {
		if left < e.Nodes {
			return e.Rate
		}
		left -= e.Nodes
	}
	return math.Inf(-1)
}

// loss returns the loss of a group at its prices if its jobs have the given number of nodes.
func (n *groupNode) loss(nodes int, quotaPrice float64) float64 {
	loss := n.mu * float64(n.limit-nodes)
	if n.floor > nodes {
		loss += max(0, quotaPrice-n.nu) * float64(n.floor-nodes)
	} else {
		loss += n.nu * float64(nodes-n.floor)
	}
	return max(0, loss)
}

// maxGroupRaises limits how many sizes are raised one after the other in each group. It trades time
// for a better first plan. BenchmarkGroups (go test ./solver/exact -run '^$' -bench Groups) shows no
// effect between 1 and 32.
const maxGroupRaises = 8

// round returns a legal plan: base, reduced if rounding exceeds a limit. In each leaf it then
// raises the sizes that gain the largest value in the free nodes.
func (t *groupTree) round(clock *model.Clock) *model.Plan {
	in := t.in
	p := t.base.Clone()
	in.ShrinkGroups(p)
	room := problem.NewHeadroom(in.Capacity[0], nil, in.Groups)
	for i := range in.Jobs {
		room.Allocate(problem.Member{Group: in.Jobs[i].Group}, solver.Option{Nodes: in.Jobs[i].Sizes[p.Of(i)[0]]})
	}
	if room.Idle < 0 {
		return model.NewPlan(in)
	}
	occupied := in.GroupNodes(p)
	for g := range in.Groups {
		member := problem.Member{Group: g}
		for n := 0; n < maxGroupRaises && room.MaxNodes(member, 0) > 0; n++ {
			at, to := t.bestRaise(clock, p, g, room.MaxNodes(member, 0), occupied)
			if clock.Expired {
				return p
			}
			if at < 0 {
				break
			}
			j := &in.Jobs[at]
			more := j.Sizes[to] - j.Sizes[p.Of(at)[0]]
			p.Of(at)[0] = uint8(to)
			room.Allocate(member, solver.Option{Nodes: more})
			for q := g; q >= 0; q = in.Groups[q].Parent {
				occupied[q] += int(more)
			}
		}
	}
	return p
}

// bestRaise returns the job of a leaf and its larger size that gain the largest value with the given number of
// additional nodes, -1 if none gains any. occupied are the nodes of all groups.
func (t *groupTree) bestRaise(clock *model.Clock, p *model.Plan, leaf, nodes int, occupied []int) (at, to int) {
	in, bestGain := t.in, 0.0
	at = -1
	for _, i := range t.nodes[leaf].jobs {
		j := &in.Jobs[i]
		now := int(p.Of(i)[0])
		for k := now + 1; k < len(j.Sizes) && int(j.Sizes[k]-j.Sizes[now]) <= nodes; k++ {
			gain := j.StepValue(0, k) - j.StepValue(0, now)
			for q := leaf; q >= 0; q = in.Groups[q].Parent {
				gain += in.QuotaPrice * float64(max(0, min(int(j.Sizes[k]-j.Sizes[now]), in.Groups[q].Floor-occupied[q])))
			}
			if gain > bestGain {
				bestGain, at, to = gain, i, k
			}
		}
		if clock.Add(4 * len(j.Sizes)) {
			break
		}
	}
	return at, to
}
