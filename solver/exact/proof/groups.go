package proof

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// Groups: one step whose jobs share the pool in a tree of limits and soft floors.
//
// With U_q the nodes of the jobs within group q, the step's best plan maximises
//
//	sum of values - sum over groups of price * max(0, floor_q - U_q),   U_q <= limit_q,
//
// the pool being the group of all groups. Without the wholeness of sizes it is solved from
// the leaves up: the hull edges of a leaf's jobs by falling rate are its concave value by
// nodes; the floor raises the rates of the edges below it by the price, the limit cuts those
// beyond it off, and the edges of a group's children together are its own. From the pool
// down follows what a node is worth inside each group: outside it, less what its floor
// pays, nu_q, and more by what its limit denies, mu_q. At those prices
//
//	bound = sum over jobs of max_k ( value_k - price_leaf k ) + sum_q mu_q limit_q - nu_q floor_q
//
// and what a plan falls short of the bound is a sum of losses, none below 0: of each job's
// size against its best one at the price, and of each group's nodes,
//
//	mu_q (limit_q - U_q)  and  (price - nu_q) (floor_q - U_q) or nu_q (U_q - floor_q).
//
// The groups' tables of the least loss by nodes (grouptable.go) find the plan of the least.

// groupNode is a group, or the pool, in the tree.
type groupNode struct {
	parent       int
	children     []int
	jobs         []int // of a leaf
	limit, floor int
	// smallest is the number of nodes when every job within holds its smallest size.
	smallest int
	// edges are those of the hull before floor and limit, by falling rate.
	edges []model.Rate
	// price is that of a node to those within, mu and nu what limit and floor make of the
	// price outside.
	price, mu, nu float64

	table groupTable
}

// groupTree is the groups of an instance, the pool last, and their tables.
type groupTree struct {
	in    *model.Instance
	nodes []groupNode
	// upwards has children before their parents.
	upwards []int
	// losses are those of every size of every job at its price, from starts[job] on; base
	// is the best size of every job.
	starts []int
	losses []float64
	base   *model.Plan
	bound  float64
	// priced is what limits, floors and the nodes of the best sizes cost at the prices.
	priced float64

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
	s.prove(tree.bound, tree.priced/4, lemmaGroups) // It has all there is, once.
	if s.closed() || problem.RelativeGap(s.Value, s.upper) <= s.gap {
		return
	}
	complete := tree.minimise(clock, pool)
	if complete {
		s.Offer(clock, tree.plan())
	}
	s.prove(tree.bound-tree.proven(pool), (tree.priced+math.Abs(tree.bound))/4, lemmaTables)
	if complete {
		s.solve()
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
			n.limit = in.Capacity[0] + 1 // The pool denies the next node, and has its price.
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
		leaf.smallest += int(j.Sizes[0])
		t.starts[i+1] = t.starts[i] + len(j.Sizes)
	}
	t.losses = make([]float64, t.starts[len(in.Jobs)])
	t.upwards = append(t.upwards, pool)
	for n := 0; n < len(t.upwards); n++ {
		t.upwards = append(t.upwards, t.nodes[t.upwards[n]].children...)
	}
	slices.Reverse(t.upwards)
	for _, g := range t.upwards {
		n := &t.nodes[g]
		if g != pool {
			t.nodes[n.parent].smallest += n.smallest
		}
	}
	return t
}

// relax sets prices, losses, base and bound. For a recount prices are multiples of priceGrain. It
// returns false if time is up.
func (t *groupTree) relax(clock *model.Clock, recount bool) bool {
	in := t.in
	values := make([]float64, 0, snapshot.MaxSizes+1)
	for _, g := range t.upwards {
		n := &t.nodes[g]
		for _, i := range n.jobs {
			j := &in.Jobs[i]
			values = values[:0]
			for k := range j.Sizes {
				values = append(values, j.StepValue(0, k))
			}
			n.edges = model.AppendAllRates(n.edges, j.Sizes, values)
		}
		for _, child := range n.children {
			n.edges = t.nodes[child].appendClosed(n.edges, in.QuotaPrice)
		}
		if !model.SortFalling(clock, n.edges, make([]model.Rate, len(n.edges)), func(r model.Rate) float64 { return r.PerNode }) {
			return false
		}
	}
	grain := 0.0
	if recount {
		grain = t.priceGrain()
	}
	for _, g := range slices.Backward(t.upwards) {
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
		t.priced += n.mu * float64(n.limit)
		if n.floor > n.smallest {
			t.bound -= n.nu * float64(n.floor)
			t.priced += n.nu * float64(n.floor)
		} else {
			n.floor = 0 // There is nothing to be short of.
		}
		for _, i := range n.jobs {
			t.bound += t.relaxJob(i, n.price, recount)
		}
		if clock.Up(8 * len(n.edges)) {
			return false
		}
	}
	for g, nodes := range t.heldBy(t.base) {
		t.nodes[g].table.held = nodes
	}
	return true
}

// heldBy returns the nodes that those within each group hold under a plan.
func (t *groupTree) heldBy(p *model.Plan) []int {
	held := make([]int, len(t.nodes))
	for _, g := range t.upwards {
		for _, i := range t.nodes[g].jobs {
			held[g] += int(t.in.Jobs[i].Sizes[p.Of(i)[0]])
		}
		for _, child := range t.nodes[g].children {
			held[g] += held[child]
		}
	}
	return held
}

// relaxJob sets a job's losses at a price and its best size, and returns what that brings.
func (t *groupTree) relaxJob(i int, price float64, recount bool) float64 {
	j := &t.in.Jobs[i]
	losses := t.losses[t.starts[i]:t.starts[i+1]]
	best := 0
	for k := range losses {
		if loses(j, best, k, price) < 0 {
			best = k
		}
	}
	most := j.StepValue(0, best) - price*float64(j.Sizes[best])
	// Among the best but for rounding the smallest, so that limits leave room for base.
	rounding := 4 * model.Noise * (math.Abs(most) + math.Abs(price)*float64(j.Sizes[len(j.Sizes)-1]))
	if recount {
		rounding = 0
	}
	at, largest := -1, 0
	for k := range losses {
		losses[k] = loses(j, best, k, price)
		if losses[k] <= rounding {
			if largest = k; at < 0 {
				at = k
			}
		}
	}
	t.priced += math.Abs(price) * float64(j.Sizes[largest])
	losses[at] = 0
	t.base.Of(i)[0] = uint8(at)
	return most
}

// loses returns what the k-th size of a job loses at a price against the best one. Where the
// product of price and nodes is exact, it is right to a few of its own last digits.
func loses(j *model.Job, best, k int, price float64) float64 {
	a, b := j.StepValue(0, best), j.StepValue(0, k)
	less := a - b
	back := less - a
	rest := (a - (less - back)) - (b + back) // What rounding has taken from less.
	return less - price*float64(j.Sizes[best]-j.Sizes[k]) + rest
}

// appendClosed appends the edges of a group as they are to its parent: raised below the
// floor and cut off at the limit.
func (n *groupNode) appendClosed(edges []model.Rate, price float64) []model.Rate {
	held, limit, floor := float64(n.smallest), float64(n.limit), float64(n.floor)
	for _, e := range n.edges {
		left := min(e.Nodes, limit-held)
		if left <= 0 {
			break
		}
		if below := min(left, floor-held); below > 0 {
			edges = append(edges, model.Rate{PerNode: e.PerNode + price, Nodes: below})
			held, left = held+below, left-below
		}
		if left > 0 {
			edges = append(edges, model.Rate{PerNode: e.PerNode, Nodes: left})
			held += left
		}
	}
	return edges
}

// setPrice sets the price within the group from that outside and the price of its quota.
func (n *groupNode) setPrice(outside, quotaPrice float64) {
	n.price = outside
	if n.floor > n.smallest {
		n.price = outside - quotaPrice
		if n.floor <= n.limit { // else it is short by the next node, too
			n.price = min(outside, max(n.price, n.rateAt(n.floor)))
		}
		n.nu = min(quotaPrice, outside-n.price)
	}
	if next := n.rateAt(n.limit); next > n.price {
		n.mu = next - n.price
		n.price = next
	}
}

// roundPrice makes the prices within and outside the group differ by whole units.
func (n *groupNode) roundPrice(outside, grain float64) {
	n.nu = math.Floor(n.nu/grain) * grain
	n.mu = math.Ceil(n.mu/grain) * grain
	n.price = outside - n.nu + n.mu
}

// rateAt returns the rate of the node after the given number of nodes, -Inf where there is
// none.
func (n *groupNode) rateAt(nodes int) float64 {
	left := float64(nodes - n.smallest)
	for _, e := range n.edges {
		if left < e.Nodes {
			return e.PerNode
		}
		left -= e.Nodes
	}
	return math.Inf(-1)
}

// loss returns what a group loses at its prices when those within hold the given nodes.
func (n *groupNode) loss(nodes int, quotaPrice float64) float64 {
	loss := n.mu * float64(n.limit-nodes)
	if n.floor > nodes {
		loss += max(0, quotaPrice-n.nu) * float64(n.floor-nodes)
	} else {
		loss += n.nu * float64(nodes-n.floor)
	}
	return max(0, loss)
}

// groupFillings limits the sizes raised one after the other in each group to fill what is left.
const groupFillings = 8

// round returns a legal plan: base, less what rounding takes of limits, and then in each leaf
// the sizes raised that gain most of what is left.
func (t *groupTree) round(clock *model.Clock) *model.Plan {
	in := t.in
	p := t.base.Clone()
	in.ShrinkGroups(p)
	room := problem.NewHeadroom(in.Capacity[0], nil, in.Groups)
	for i := range in.Jobs {
		room.Allocate(in.Jobs[i].Group, snapshot.Option{Nodes: in.Jobs[i].Sizes[p.Of(i)[0]]})
	}
	if room.Idle < 0 {
		return model.NewPlan(in)
	}
	held := in.GroupNodes(p)
	for g := range in.Groups {
		for n := 0; n < groupFillings && room.MaxNodes(g, 0) > 0; n++ {
			most, at, to := 0.0, -1, 0
			for _, i := range t.nodes[g].jobs {
				j := &in.Jobs[i]
				now := int(p.Of(i)[0])
				for k := now + 1; k < len(j.Sizes) && int(j.Sizes[k]-j.Sizes[now]) <= room.MaxNodes(g, 0); k++ {
					gain := j.StepValue(0, k) - j.StepValue(0, now)
					for q := g; q >= 0; q = in.Groups[q].Parent {
						gain += in.QuotaPrice * float64(max(0, min(int(j.Sizes[k]-j.Sizes[now]), in.Groups[q].Floor-held[q])))
					}
					if gain > most {
						most, at, to = gain, i, k
					}
				}
				if clock.Up(4 * len(j.Sizes)) {
					return p
				}
			}
			if at < 0 {
				break
			}
			j := &in.Jobs[at]
			more := j.Sizes[to] - j.Sizes[p.Of(at)[0]]
			p.Of(at)[0] = uint8(to)
			room.Allocate(g, snapshot.Option{Nodes: more})
			for q := g; q >= 0; q = in.Groups[q].Parent {
				held[q] += int(more)
			}
		}
	}
	return p
}
