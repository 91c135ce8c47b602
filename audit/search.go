package audit

import (
	"fmt"
	"math"
	"slices"
	"strings"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

const (
	// infeasible is below the value of every plan. The sum of three of them fits in 64 bits.
	infeasible = -1 << 60
	// maxPrices bounds the sum of all prices of nodes, and of all prices of sizes.
	maxPrices = 1 << 57
)

// search looks for a plan whose value exceeds a target.
type search struct {
	*model
	*budget
	target int64
	// nodePrices are the prices of nodes by row, at least 0. sizePrices are the prices of sizes of
	// some members, by row, with the opposite sign. Any prices yield a valid bound.
	nodePrices []int64
	sizePrices map[int][][]int64
	width      []int // nodes that all members together can use, by row
	// groupMembers and subgroups are the members and the children of each group, at its position
	// plus 1. Position 0 is the pool.
	groupMembers, subgroups [][]int
	// precision limits the number of vertices of a member in a step to 2^precision. If there are more,
	// the work done is rounded up to 2^-precision of all work. It also limits the number of states.
	precision int

	candidates []*candidates // of all members
	// open are the members with several candidate plans that are not separable.
	open []*candidates
	// layers are the knapsack tables of the other members, by row. layerBest[t][n] is their largest
	// value with at most n nodes in addition to their smallest sizes.
	layers    []*layer
	layerBest [][]int64
	// suffix is, by open member and row, the largest sum of the prices that this member and those after
	// it pay and of the value of the layer, by the maximum number of nodes. The last entry is layerBest.
	suffix [][][]int64
}

// prove returns the reason why no legal plan exceeds the claim, or a verdictError.
func (d *decision) prove(b *budget) (reason string, err error) {
	claim, what, optimal, base := d.report.GetBound(), "bound", false, 0.0
	if d.report.GetReason() == elastallocv1.Reason_REASON_OPTIMAL {
		claim, what, optimal = d.report.GetObjective(), "objective", true
	}
	for rebased := !optimal || d.totalTime == nil; ; rebased = true {
		target := claim - base + Tolerance*toleranceScale(claim)
		plan := d.findBetter(b, target)
		switch {
		case plan == nil && d.plan == nil:
			return "", leaveOpen("the response has no plan (set include_plan): no plan is worth more than the %s of %v, "+
				"but the value of this one is unknown", what, claim)
		case plan == nil:
			return "the decision is legal, its numbers are correct, and no plan is worth more than the " + what, nil
		}
		if err := d.checkLegal(plan, len(d.capacity), false); err != nil {
			return "", leaveOpen("the check found an illegal plan: %w", err) // A bug of the check.
		}
		if _, lower := d.objective(plan); lower > target {
			return "", refute("a plan is worth %v, more than the %s of %v: %s", base+lower, what, claim, d.describe(plan))
		}
		if rebased {
			return "", leaveOpen("a plan reaches the %s up to rounding", what)
		}
		// Values of opposite signs may cancel, so compare plans with the plan of the response.
		if d.model, err = newModel(d.snapshot, d.claim, d.report, b); err != nil {
			return "", err
		}
		d.rebase(d.plan)
		if !d.setUnit() {
			return "", leaveOpen("the differences between plans are too large for the check")
		}
		base = claim
	}
}

// findBetter returns a plan whose value may exceed the target, or nil if no plan exceeds it.
func (d *decision) findBetter(b *budget, target float64) [][]int {
	if d.independent*(1+d.relativeError)+underflow <= target {
		return nil
	}
	return d.refine(d.newSearch(b, target))
}

// refine runs a search. If rounding of work leaves it undecided, it repeats the search from the
// prices that were found, with a higher precision.
func (d *decision) refine(s *search) [][]int {
	for numbers := s.numbers; s.reduce() && s.sweep(maxRounds); {
		plan, decided := s.solve()
		if decided {
			return plan
		}
		before := s
		s = d.newSearch(before.budget, 0)
		s.target, s.precision, s.numbers = before.target, before.precision+2, numbers
		for _, c := range before.open {
			s.sizePrices[c.position] = c.adjust
		}
	}
	return nil
}

// newSearch returns a search at the prices of the report. Prices that are too high to add up are
// reduced, and invalid prices are ignored.
func (d *decision) newSearch(b *budget, target float64) *search {
	s := &search{
		model: d.model, budget: b, target: int64(math.Floor(math.Ldexp(target, d.valueExp))),
		nodePrices: make([]int64, len(d.capacity)), sizePrices: make(map[int][][]int64), width: make([]int, len(d.capacity)),
		groupMembers: make([][]int, len(d.groups)+1), subgroups: make([][]int, len(d.groups)+1), precision: minPrecision,
	}
	members := make(map[int32]int, len(d.members))
	for i := range d.members {
		j := &d.members[i]
		members[int32(j.index)] = i
		if d.coupled() {
			s.groupMembers[0] = append(s.groupMembers[0], i) // Groups are rows.
		} else {
			s.groupMembers[j.group+1] = append(s.groupMembers[j.group+1], i)
		}
		for t, usable := range j.usable {
			s.width[t] = min(s.width[t]+j.sizes[slices.Max(append(usable, 0))], d.capacity[t])
		}
	}
	for g := range d.groups {
		if d.coupled() {
			break
		}
		s.subgroups[d.groups[g].parent+1] = append(s.subgroups[d.groups[g].parent+1], g)
	}
	for t, price := range d.rowPrices(d.report) {
		if price = math.Ldexp(price, d.valueExp); price > 0 {
			s.nodePrices[t] = int64(min(price, maxPrices/float64(len(d.capacity)*(s.width[t]+1))))
		}
	}
	total := 0.0
	for _, of := range d.report.GetCertificate().GetSizePrices() {
		i, isMember := members[of.GetJob()]
		if !isMember || s.sizePrices[i] != nil || len(of.GetPrices()) != len(d.capacity)*len(d.members[i].sizes) {
			continue
		}
		for t, usable := range d.members[i].usable {
			units, largest := slices.Repeat([]int64{infeasible}, len(d.members[i].sizes)), 0.0
			for _, n := range append(usable, 0) {
				price := math.Ldexp(of.GetPrices()[t*len(units)+n], d.valueExp)
				largest = max(largest, math.Abs(price))
				units[n] = -int64(price)
			}
			total += largest
			s.sizePrices[i] = append(s.sizePrices[i], units)
		}
	}
	if !(total < maxPrices) {
		clear(s.sizePrices)
	}
	return s
}

// checkRange aborts the check if numbers are so large that a sum of a few could be infeasible.
func checkRange(numbers []int64) {
	for _, v := range numbers {
		if v != infeasible && (v <= infeasible/4 || v >= -infeasible/4) {
			panic(aborted{"the prices are too large for the check"})
		}
	}
}

// describe lists the jobs whose nodes differ from those in the plan of the response.
func (d *decision) describe(plan [][]int) string {
	var parts []string
	for i := range plan {
		if i >= len(d.plan) || !slices.Equal(d.plan[i], plan[i]) {
			parts = append(parts, fmt.Sprintf("%q %v", d.members[i].id, plan[i][:len(d.members[i].rows)]))
		}
	}
	if len(parts) > 20 {
		parts = append(parts[:20], "and others")
	}
	return strings.Join(parts, ", ")
}

// solve returns a plan whose value may exceed the target, or nil if no plan exceeds it. It returns
// decided false if a search with a higher precision is likely to be faster.
func (s *search) solve() (plan [][]int, decided bool) {
	for ; s.precision <= maxPrecision; s.precision += 2 {
		for _, byRow := range []bool{false, true} {
			rows, members := len(s.layerBest) <= maxSteps, len(s.open) <= maxSteps  // what fits a stateKey
			if byRow && (len(s.open) == 1 && rows || !members) || !byRow && !rows { // With one member, both are the same.
				continue
			}
			if plan, complete := s.run(1<<s.precision, byRow); plan != nil || complete {
				return plan, true
			}
		}
		if slices.ContainsFunc(s.open, func(c *candidates) bool { return c.paths.rounded }) {
			return nil, false
		}
	}
	panic(aborted{"too many combinations of plans could be part of a better one"})
}

// reduce determines the candidate plans of each member at the prices. It reports whether a plan may
// exceed the target.
func (s *search) reduce() bool {
	// At the prices of nodes, the best plans of all members yield a bound. A plan that exceeds the
	// target loses less than the slack compared with this bound.
	slack := -s.target
	for t, price := range s.nodePrices {
		slack += price * int64(s.width[t])
	}
	for g, floor := range s.floors { // At best, no group has a shortage.
		slack -= s.shortageCost(g, floor)
	}
	for i := range s.members {
		c := &candidates{search: s, member: &s.members[i], position: i}
		for t, price := range s.nodePrices {
			row := slices.Repeat([]int64{infeasible}, len(c.sizes))
			for _, n := range append(c.usable[t], 0) { // It may have its nodes in another row.
				row[n] = -price * int64(s.consumption(c.member, t, n))
			}
			c.adjust = append(c.adjust, row)
		}
		s.spend(len(c.adjust) * len(c.sizes))
		c.bound = c.bestValue()
		slack += c.bound
		s.candidates = append(s.candidates, c)
	}
	if slack <= 0 {
		return false
	}
	for _, c := range s.candidates {
		if c.separable {
			c.paths = c.pathsAbove(c.bound - slack)
		} else {
			s.open = append(s.open, c)
		}
	}
	if len(s.sizePrices) > 0 {
		if slack = s.applySizePrices(slack); slack <= 0 {
			return false
		}
	}
	for _, c := range s.open {
		c.paths = c.pathsAbove(c.bound - slack)
	}
	s.open = slices.DeleteFunc(s.open, func(c *candidates) bool { return c.paths.single() })
	return s.buildLayers()
}

// buildLayers builds the layers of the members that are not open, and reports whether these members fit.
func (s *search) buildLayers() bool {
	s.layers, s.layerBest = nil, nil
	for t := range s.capacity {
		y := s.groupLayer(t, -1)
		width := max(0, s.width[t]-y.from+1)
		s.store(width)
		row := slices.Repeat([]int64{infeasible}, width)
		best := int64(infeasible)
		for n := range row {
			best = max(best, y.at(y.from+n))
			row[n] = best
		}
		if row = s.withFloor(t, y, row); best == infeasible || row[len(row)-1] == infeasible {
			return false
		}
		s.layers, s.layerBest = append(s.layers, y), append(s.layerBest, row)
	}
	return true
}

// applySizePrices has the open members pay the prices of sizes, if their bound is below the bound of
// the prices of nodes, which exceeds the target by slack. It returns by how much the lower bound exceeds
// the target.
func (s *search) applySizePrices(slack int64) int64 {
	numbers := s.numbers
	if !s.buildLayers() {
		return 0
	}
	s.numbers = numbers // These tables are temporary.
	excess, tables, priced := -s.target, s.layerBest, make([]candidates, len(s.open))
	for m, c := range s.open {
		priced[m] = *c
		if prices := s.sizePrices[c.position]; prices != nil {
			priced[m].adjust = prices
		}
		tables = s.extend(tables, &priced[m])
		priced[m].bound = priced[m].bestValue()
		excess += priced[m].bound
	}
	for _, table := range tables {
		best := table[len(table)-1]
		if best == infeasible {
			return 0
		}
		excess += best
	}
	if excess >= slack {
		return slack
	}
	for m, c := range s.open {
		*c = priced[m]
	}
	return excess
}
