package audit

import (
	"fmt"
	"math"
	"slices"
	"strings"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

const (
	// never is less than any plan is worth. Three of it fit in 64 bits.
	never = -1 << 60
	// mostPrices is more than all prices of nodes, or all of sizes, come to.
	mostPrices = 1 << 57
)

// search looks for a plan that is worth more than a target.
type search struct {
	*model
	*effort
	target int64
	// nodes are prices of nodes by row, sizes what the sizes of some members add by row: minus
	// their prices. Any numbers do, if those of nodes are at least 0.
	nodes []int64
	sizes map[int][][]int64
	width []int // of each row, as far as all members together can use it
	// own are the members of each group, inner the groups in it, by one more than its position;
	// 0 is the pool.
	own, inner [][]int
}

// prove returns what shows that no legal plan is better than the answer claims.
func (a *answer) prove(e *effort) (reason string, err error) {
	claim, what := a.report.GetBound(), "bound"
	if a.report.GetReason() == elastallocv1.Reason_REASON_OPTIMAL {
		claim, what = a.report.GetObjective(), "objective"
	}
	better := claim + Tolerance*scale(claim)
	plan := a.better(e, better)
	switch {
	case plan == nil && a.plan == nil:
		return "", leaveOpen("answer has no plan (ask include_plan): no plan is worth more than the %s of %v, "+
			"but what this one is worth cannot be added up", what, claim)
	case plan == nil && !a.exact():
		return "", leaveOpen("no plan is worth more than the %s of %v, but what this one is worth is known only up to rounding", what, claim)
	case plan == nil:
		return "the answer is legal and adds up, and no plan is worth more than the " + what, nil
	}
	if bad := a.legal(plan, len(a.capacity), false); bad != nil {
		return "", leaveOpen("the check has made an illegal plan: %w", bad) // A defect of the check.
	}
	if _, least := a.objective(plan); least > better {
		return "", refute("a plan is worth %v, more than the %s of %v: %s", least, what, claim, a.describe(plan))
	}
	return "", leaveOpen("a plan reaches the %s up to rounding", what)
}

// exact reports whether what the plan is worth is known to the tolerance.
func (a *answer) exact() bool {
	most, least := a.objective(a.plan)
	return (most-least)/2 <= Tolerance*scale((most+least)/2)
}

// better returns a plan that may be worth more than a target, nil if none is.
func (a *answer) better(e *effort, target float64) [][]int {
	for {
		if s, plan := a.newSearch(e, target).solve(); plan == nil || !s.refine() {
			return plan
		}
	}
}

// newSearch returns a search at the prices that the answer has, or less where they are too high
// to be added up. What else makes no sense in them is left out.
func (a *answer) newSearch(e *effort, target float64) *search {
	c := &search{
		model: a.model, effort: e, target: int64(math.Floor(math.Ldexp(target, a.unit))),
		nodes: make([]int64, len(a.capacity)), sizes: make(map[int][][]int64), width: make([]int, len(a.capacity)),
		own: make([][]int, len(a.groups)+1), inner: make([][]int, len(a.groups)+1),
	}
	members := make(map[int32]int, len(a.members))
	for i := range a.members {
		j := &a.members[i]
		members[int32(j.index)] = i
		c.own[j.group+1] = append(c.own[j.group+1], i)
		for t, usable := range j.usable {
			c.width[t] = min(c.width[t]+j.sizes[slices.Max(append(usable, 0))], a.capacity[t])
		}
	}
	for g := range a.groups {
		c.inner[a.groups[g].parent+1] = append(c.inner[a.groups[g].parent+1], g)
	}
	for t := range min(len(a.report.GetNodePrices()), len(a.capacity)) {
		if price := math.Ldexp(a.report.GetNodePrices()[t], a.unit); price > 0 {
			c.nodes[t] = int64(min(price, mostPrices/float64(len(a.capacity)*(c.width[t]+1))))
		}
	}
	total := 0.0
	for _, of := range a.report.GetCertificate().GetSizePrices() {
		i, known := members[of.GetJob()]
		if !known || c.sizes[i] != nil || len(of.GetPrices()) != len(a.capacity)*len(a.members[i].sizes) {
			continue
		}
		for t, usable := range a.members[i].usable {
			units, most := make([]int64, len(a.members[i].sizes)), 0.0
			for _, n := range usable {
				price := math.Ldexp(of.GetPrices()[t*len(units)+n], a.unit)
				most = max(most, math.Abs(price))
				units[n] = -int64(price)
			}
			total += most
			c.sizes[i] = append(c.sizes[i], units)
		}
	}
	if !(total < mostPrices) {
		clear(c.sizes)
	}
	return c
}

// describe returns what a plan gives jobs that the answer's plan does not.
func (a *answer) describe(plan [][]int) string {
	var parts []string
	for i := range plan {
		if i >= len(a.plan) || !slices.Equal(a.plan[i], plan[i]) {
			parts = append(parts, fmt.Sprintf("%q %v", a.members[i].id, plan[i]))
		}
	}
	if len(parts) > 20 {
		parts = append(parts[:20], "and others")
	}
	return strings.Join(parts, ", ")
}

// solve returns what was left to decide, and a plan that may be worth more than the target, nil
// if none is.
func (c *search) solve() (s *trial, plan [][]int) {
	if s = c.reduce(); s == nil || !s.sweep(mostRounds) {
		return s, nil
	}
	for width := fewestStates; width <= mostStates; width *= 4 {
		if plan, complete := s.run(width); plan != nil || complete {
			return s, plan
		}
	}
	panic(stopped{"too many combinations of plans could be part of a better one"})
}

// reduce returns what the prices leave to decide, nil if no plan is worth more than the target.
func (c *search) reduce() *trial {
	// At the prices of nodes each member has its best plan, and a better plan than the target
	// falls short of that by less than the slack.
	slack := -c.target
	for t, price := range c.nodes {
		slack += price * int64(c.width[t])
	}
	var all []*plans
	for i := range c.members {
		p := &plans{search: c, member: &c.members[i], position: i}
		for _, price := range c.nodes {
			row := make([]int64, len(p.member.sizes))
			for n, k := range p.member.sizes {
				row[n] = -price * int64(k)
			}
			p.add = append(p.add, row)
		}
		c.spend(len(p.rows) * len(p.member.sizes))
		p.most = p.best()
		slack += p.most
		all = append(all, p)
	}
	if slack <= 0 {
		return nil
	}
	options := make([][][]option, len(c.capacity))
	s := &trial{search: c, options: options}
	var others []*plans
	for t := range options {
		options[t] = make([][]option, len(all))
	}
	for i, p := range all {
		if !p.byStep {
			others = append(others, p)
			continue
		}
		for t := range options {
			_, options[t][i] = p.options(t, slack)
		}
	}
	if len(c.sizes) > 0 {
		if slack = c.priceSizes(others, options, slack); slack <= 0 {
			return nil
		}
	}
	for _, p := range others {
		o := &open{plans: p, paths: p.above(p.most - slack)}
		if !o.paths.single() {
			s.open = append(s.open, o)
			continue
		}
		for t, arcs := range o.paths.arcs {
			options[t][p.position] = []option{{p.member.sizes[arcs[0].size], arcs[0].gain}}
		}
	}
	if s.layers, s.ends = c.merge(options); s.layers == nil {
		return nil
	}
	s.price()
	return s
}

// merge returns layers of the members that have options, by row, and the most that they are worth with
// at most n nodes beside their least; nil where they do not fit.
func (c *search) merge(options [][][]option) (layers []*layer, ends [][]int64) {
	for t := range options {
		y := c.table(t, -1, options[t])
		width := max(0, c.width[t]-y.from+1)
		c.keep(width)
		row := slices.Repeat([]int64{never}, width)
		most := int64(never)
		for n := range row {
			most = max(most, y.at(y.from+n))
			row[n] = most
		}
		if most == never {
			return nil, nil
		}
		layers, ends = append(layers, y), append(ends, row)
	}
	return layers, ends
}

// priceSizes has members pay the prices of sizes that were given, if a better plan than the target
// falls short of their bound by less than the slack. It returns what it falls short by at most.
func (c *search) priceSizes(members []*plans, options [][][]option, slack int64) int64 {
	numbers := c.numbers
	_, tables := c.merge(options)
	c.numbers = numbers // The tables do not stay.
	atSizes, paying := -c.target, make([]*open, len(members))
	for m, p := range members {
		priced := *p
		if given := c.sizes[p.position]; given != nil {
			priced.add = given
		}
		o := &open{plans: &priced}
		for t, row := range priced.add {
			o.price = append(o.price, slices.Repeat([]int64{never}, len(row)))
			for _, n := range p.usable[t] {
				o.price[t][n] = -row[n]
			}
		}
		tables = c.extend(tables, o)
		priced.most = priced.best()
		atSizes += priced.most
		paying[m] = o
	}
	for _, table := range tables {
		most := table[len(table)-1]
		if most == never {
			return 0
		}
		atSizes += most
	}
	if atSizes >= slack {
		return slack
	}
	for m, p := range members {
		*p = *paying[m].plans
	}
	return atSizes
}
