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
	// Members with more than 2^bits vertices in a row have the work served rounded up to 2^-bits of
	// all. As many states are kept.
	bits int

	plans []*plans // of all members
	// open are the members of which several plans may be part of a better one, and that are not worth
	// what they are row by row.
	open []*plans
	// layers are, by row, the other members; ends[n] is the most that they are worth with at most n
	// nodes beside their least.
	layers []*layer
	ends   [][]int64
	// behind is, by open member and row, the most that it and those behind it pay for their
	// sizes and the layer is worth, by the most nodes that they hold; it ends with ends.
	behind [][][]int64
}

// prove returns what shows that no legal plan is better than the answer claims.
func (a *answer) prove(e *effort) (reason string, err error) {
	claim, what, optimal, than := a.report.GetBound(), "bound", false, 0.0
	if a.report.GetReason() == elastallocv1.Reason_REASON_OPTIMAL {
		claim, what, optimal = a.report.GetObjective(), "objective", true
	}
	for related := !optimal || a.totalTime == nil; ; related = true {
		better := claim - than + Tolerance*scale(claim)
		plan := a.better(e, better)
		switch {
		case plan == nil && a.plan == nil:
			return "", leaveOpen("answer has no plan (ask include_plan): no plan is worth more than the %s of %v, "+
				"but what this one is worth cannot be added up", what, claim)
		case plan == nil:
			return "the answer is legal and adds up, and no plan is worth more than the " + what, nil
		}
		if bad := a.legal(plan, len(a.capacity), false); bad != nil {
			return "", leaveOpen("the check has made an illegal plan: %w", bad) // A defect of the check.
		}
		if _, least := a.objective(plan); least > better {
			return "", refute("a plan is worth %v, more than the %s of %v: %s", than+least, what, claim, a.describe(plan))
		}
		if related {
			return "", leaveOpen("a plan reaches the %s up to rounding", what)
		}
		// Values of either sign may add up to next to nothing: plans are held against the answer's.
		if a.model, err = newModel(a.snapshot, a.claim, a.report.GetNodePrices(), e); err != nil {
			return "", err
		}
		if a.relate(a.plan); !a.scale() {
			return "", leaveOpen("what plans differ by is beyond what the check can add up")
		}
		than = claim
	}
}

// better returns a plan that may be worth more than a target, nil if none is.
func (a *answer) better(e *effort, target float64) [][]int {
	if a.alone*(1+a.slack)+leastWorth <= target {
		return nil
	}
	return a.look(a.newSearch(e, target))
}

// look returns a plan that a search finds, or one that rounds less and begins at the prices that it came to.
func (a *answer) look(s *search) [][]int {
	for numbers := s.numbers; s.reduce() && s.sweep(mostRounds); {
		plan, decided := s.solve()
		if decided {
			return plan
		}
		before := s
		s = a.newSearch(before.effort, 0)
		s.target, s.bits, s.numbers = before.target, before.bits+2, numbers
		for _, p := range before.open {
			s.sizes[p.position] = p.add
		}
	}
	return nil
}

// newSearch returns a search at the prices that the answer has, or less where they are too high
// to be added up. What else makes no sense in them is left out.
func (a *answer) newSearch(e *effort, target float64) *search {
	s := &search{
		model: a.model, effort: e, target: int64(math.Floor(math.Ldexp(target, a.unit))),
		nodes: make([]int64, len(a.capacity)), sizes: make(map[int][][]int64), width: make([]int, len(a.capacity)),
		own: make([][]int, len(a.groups)+1), inner: make([][]int, len(a.groups)+1), bits: fewestBits,
	}
	members := make(map[int32]int, len(a.members))
	for i := range a.members {
		j := &a.members[i]
		members[int32(j.index)] = i
		s.own[j.group+1] = append(s.own[j.group+1], i)
		for t, usable := range j.usable {
			s.width[t] = min(s.width[t]+j.sizes[slices.Max(append(usable, 0))], a.capacity[t])
		}
	}
	for g := range a.groups {
		s.inner[a.groups[g].parent+1] = append(s.inner[a.groups[g].parent+1], g)
	}
	for t := range min(len(a.report.GetNodePrices()), len(a.capacity)) {
		if price := math.Ldexp(a.report.GetNodePrices()[t], a.unit); price > 0 {
			s.nodes[t] = int64(min(price, mostPrices/float64(len(a.capacity)*(s.width[t]+1))))
		}
	}
	total := 0.0
	for _, of := range a.report.GetCertificate().GetSizePrices() {
		i, known := members[of.GetJob()]
		if !known || s.sizes[i] != nil || len(of.GetPrices()) != len(a.capacity)*len(a.members[i].sizes) {
			continue
		}
		for t, usable := range a.members[i].usable {
			units, most := slices.Repeat([]int64{never}, len(a.members[i].sizes)), 0.0
			for _, n := range append(usable, 0) {
				price := math.Ldexp(of.GetPrices()[t*len(units)+n], a.unit)
				most = max(most, math.Abs(price))
				units[n] = -int64(price)
			}
			total += most
			s.sizes[i] = append(s.sizes[i], units)
		}
	}
	if !(total < mostPrices) {
		clear(s.sizes)
	}
	return s
}

// within stops a search whose numbers are so large that a sum of a few could be never.
func within(numbers []int64) {
	for _, v := range numbers {
		if v != never && (v <= never/4 || v >= -never/4) {
			panic(stopped{"prices have come to more than the check can add up"})
		}
	}
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

// solve returns a plan that may be worth more than the target, nil if none is. It is not decided where one
// is sooner found that rounds less.
func (s *search) solve() (plan [][]int, decided bool) {
	for ; s.bits <= mostBits; s.bits += 2 {
		for _, byRow := range []bool{false, true} {
			if byRow && (len(s.open) == 1 || len(s.open) > mostSteps) { // It is the same, or a stand has no room for them.
				continue
			}
			if plan, complete := s.run(1<<s.bits, byRow); plan != nil || complete {
				return plan, true
			}
		}
		if slices.ContainsFunc(s.open, func(p *plans) bool { return p.paths.rounded }) {
			return nil, false
		}
	}
	panic(stopped{"too many combinations of plans could be part of a better one"})
}

// reduce finds out what the prices leave to decide. It reports whether a plan may be worth more
// than the target.
func (s *search) reduce() bool {
	// At the prices of nodes each member has its best plan, and a better plan than the target
	// falls short of that by less than the slack.
	slack := -s.target
	for t, price := range s.nodes {
		slack += price * int64(s.width[t])
	}
	for g, floor := range s.floors { // At best no group is short of nodes.
		slack -= s.shortCost(g, floor)
	}
	for i := range s.members {
		p := &plans{search: s, member: &s.members[i], position: i}
		for t, price := range s.nodes {
			row := slices.Repeat([]int64{never}, len(p.member.sizes))
			for _, n := range append(p.usable[t], 0) { // It may have its nodes in another row.
				row[n] = -price * int64(p.member.sizes[n])
			}
			p.add = append(p.add, row)
		}
		s.spend(len(p.rows) * len(p.member.sizes))
		p.most = p.best()
		slack += p.most
		s.plans = append(s.plans, p)
	}
	if slack <= 0 {
		return false
	}
	for _, p := range s.plans {
		if p.byStep {
			p.paths = p.above(p.most - slack)
		} else {
			s.open = append(s.open, p)
		}
	}
	if len(s.sizes) > 0 {
		if slack = s.priceSizes(slack); slack <= 0 {
			return false
		}
	}
	for _, p := range s.open {
		p.paths = p.above(p.most - slack)
	}
	s.open = slices.DeleteFunc(s.open, func(p *plans) bool { return p.paths.single() })
	return s.merge()
}

// merge makes layers of the members that are not open, and reports whether they fit.
func (s *search) merge() bool {
	s.layers, s.ends = nil, nil
	for t := range s.capacity {
		y := s.table(t, -1)
		width := max(0, s.width[t]-y.from+1)
		s.keep(width)
		row := slices.Repeat([]int64{never}, width)
		most := int64(never)
		for n := range row {
			most = max(most, y.at(y.from+n))
			row[n] = most
		}
		if most == never {
			return false
		}
		s.layers, s.ends = append(s.layers, y), append(s.ends, row)
	}
	return true
}

// priceSizes has the open members pay the prices of sizes that were given, if a better plan than the
// target falls short of their bound by less than the slack. It returns what it falls short by at most.
func (s *search) priceSizes(slack int64) int64 {
	numbers := s.numbers
	if !s.merge() {
		return 0
	}
	s.numbers = numbers // The tables do not stay.
	atSizes, tables, paying := -s.target, s.ends, make([]plans, len(s.open))
	for m, p := range s.open {
		paying[m] = *p
		if given := s.sizes[p.position]; given != nil {
			paying[m].add = given
		}
		tables = s.extend(tables, &paying[m])
		paying[m].most = paying[m].best()
		atSizes += paying[m].most
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
	for m, p := range s.open {
		*p = paying[m]
	}
	return atSizes
}
