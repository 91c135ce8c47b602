package rows

import (
	"fmt"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// Allocation is a number of nodes of one type. They count in the rows of the type up to Row, an index
// of Problem.Capacity, but Remainder of them only up to RemainderRow. All are 0 if Nodes is 0.
type Allocation struct {
	Type, Row, RemainderRow int16
	Nodes, Remainder        int32
}

// Option is a possible allocation of a job and its value.
type Option struct {
	Allocation
	Value float64
}

// Problem is one step of a pool with node types.
type Problem struct {
	// Capacity is the number of nodes of each row. The rows of a type are consecutive: the capacity of
	// the type, and then its size limits, by size.
	Capacity []int
	// First is the first row of each type. Nil means that there are no size limits: each type has one
	// row.
	First []int
	// Jobs are the options of each job: at least one, each within the capacity of its rows. Values
	// must be finite, and so must be the sum of their magnitudes.
	Jobs [][]Option
	// Current is the current allocation of each job. It decides ties.
	Current []Allocation
	// Groups are a forest, and GroupOf is the leaf group of each job. Nil means that there are none.
	Groups  []Group
	GroupOf []int
	// QuotaPrice is the cost of each node that a group has below its floor.
	QuotaPrice float64
	// Start is a legal choice, as indices of options.
	Start []int
	// Gap is the relative gap at which the search may stop; 0 requests an optimal choice.
	Gap float64
}

// Effort limits the work of the search. All limits are counts.
type Effort struct {
	// FirstWidth and LastWidth are the first and the last width of the beam.
	FirstWidth, LastWidth int
	// Options limits the alternative options of a core problem, Cells the values in its tails, and
	// Links the recorded choices that lead to its states.
	Options, Cells, Links int
	// Vertices limits the linear programs of the search over counts of identical jobs, and Cuts the cuts,
	// because each makes all pivots slower.
	Vertices, Cuts int
	// Joint limits the values in the joint tables of a problem with groups.
	Joint int
}

// DefaultEffort returns the work limits of the backend. They trade time and memory for proofs.
// With a quarter of Options or Links, random snapshots on node types lose proofs. With a quarter of FirstWidth
// or 4 times LastWidth, one more of 84 is proven. A quarter of Cells, or 4 times as many, has no effect.
// Vertices and Cuts are measured on 850 sweeps like those of BenchmarkSizeLimits and BenchmarkNodeTypes, which are
// all proven. With a quarter of Vertices one is not proven, with a quarter of Cuts 6, and without cuts 13. With 4
// times as many cuts, running sweeps take 1.5 times the CPU time.
func DefaultEffort() Effort {
	return Effort{FirstWidth: 1000, LastWidth: 36_000, Options: 4000, Cells: 500_000, Links: 1_000_000, Vertices: 2000, Cuts: 24}
}

// GroupEffort returns the work limits of the backend for problems with groups.
func GroupEffort() Effort {
	return Effort{FirstWidth: 1000, LastWidth: 36_000, Options: 40_000, Cells: 4_000_000, Links: 6_000_000, Joint: 8_000_000}
}

// Result is a choice and what is proven about it.
type Result struct {
	// Choice is an index of the options of every job. It is always legal.
	Choice []int
	// Value is the value of the choice, rounded down. Bound is an upper bound on the value of every
	// choice. It is +Inf if the deadline passed before the first bound or if there is a
	// contradiction.
	Value, Bound float64
	// Prices are the shadow prices of a node of each row, with which the lemma "node prices" gives
	// a bound. They are nil if the deadline passed before they were computed.
	Prices []float64
	// GroupPrices are the shadow prices of a node in the limit of each group. They are nil with Prices.
	GroupPrices []float64
	// GroupTypePrices are the same for the limits per type, by group and type. The prices of a group without
	// such limits are nil.
	GroupTypePrices [][]float64
	// Complete reports whether the search completed without reaching Gap, the deadline or a work
	// limit.
	Complete bool
	// States is the number of states that the search kept.
	States int
	// Contradiction names the lemma that a legal choice contradicts; it is empty if there is none.
	Contradiction string
}

// The lemmas; the package comment states each.
const (
	lemmaPrices = "node prices"
	lemmaCounts = "counts"
	lemmaCore   = "core"
	lemmaTree   = "tree"
)

// roundingGap is the relative gap that is attributed to rounding. TestDecades (go test
// ./solver/exact/rows -run Decades) covers values of very different magnitude.
const roundingGap = 1e-9

// search is the state of one call of Solve.
type search struct {
	*Problem
	clock  *model.Clock
	effort Effort
	// bound is the smallest proven upper bound, and by the lemma that proves it.
	bound  float64
	by     string
	choice []int
	value  sum
	// position contains the original indices of the options of each job after reduce; nil before.
	position      [][]int
	states        int
	contradiction string
	// windows are nil without groups.
	windows *windows
	// tables has the row of the window with the table of each leaf group, -1 for none.
	tables []int
}

// newSearch returns a search that starts with Problem.Start.
func newSearch(clock *model.Clock, p *Problem, effort Effort) *search {
	rounded := *p
	rounded.Capacity = p.usableNodes()
	s := &search{
		Problem: &rounded, clock: clock, effort: effort, bound: math.Inf(1), choice: slices.Clone(p.Start), windows: p.newWindows(),
	}
	s.value = s.valueOf(p.Start)
	return s
}

// usableNodes returns the capacity of each row, rounded down to a multiple of the greatest common
// divisor of the nodes of all options that count in the row: every choice leaves the remainder idle.
// Without it, 12 of 40 pools of 12,000 GPUs with size limits are not proven (BenchmarkLargePools: go
// test ./solver/exact -run '^$' -bench LargePools -benchtime 1x).
func (p *Problem) usableNodes() []int {
	divisors := make([]int, len(p.Capacity))
	for _, options := range p.Jobs {
		for n := range options {
			o := &options[n].Allocation
			for row := p.first(o); row <= int(o.Row); row++ {
				for rest := o.upTo(row); rest != 0; { // Euclid
					divisors[row], rest = rest, divisors[row]%rest
				}
			}
		}
	}
	usable := slices.Clone(p.Capacity)
	for row, nodes := range usable {
		usable[row] -= nodes % max(1, divisors[row])
	}
	return usable
}

// Solve returns an optimal choice and its proof, unless the deadline, Gap or a work limit stops the
// search first.
func Solve(clock *model.Clock, p *Problem, effort Effort) Result {
	s := newSearch(clock, p, effort)
	if s.windows != nil {
		s.improve(s.choice, nil)
		s.reduce() // Options beyond the limits of groups may have values of another magnitude.
	}
	prices, complete := s.run()
	windows := s.windows // of the prices
	for again := complete; again && !s.within(roundingGap) && s.reduce(); {
		_, again = s.run()
	}
	for i, position := range s.position {
		s.choice[i] = position[s.choice[i]]
	}
	r := s.result(prices, complete)
	if windows != nil && prices != nil {
		r.setGroupPrices(s, windows.windows)
	}
	return r
}

// result returns the result without the prices of groups. After a contradiction it claims no bound.
func (s *search) result(prices []float64, complete bool) Result {
	r := Result{
		Choice: s.choice, Value: s.value.down(), Bound: s.bound, Prices: prices,
		Complete: complete, States: s.states, Contradiction: s.contradiction,
	}
	if r.Contradiction != "" {
		r.Bound, r.Complete = math.Inf(1), false
	}
	return r
}

// setGroupPrices moves the prices of windows from Prices to the prices of groups.
func (r *Result) setGroupPrices(s *search, windows []window) {
	prices := r.Prices
	r.Prices, r.GroupPrices, r.GroupTypePrices = prices[:len(s.Capacity)], make([]float64, len(s.Groups)), make([][]float64, len(s.Groups))
	for g := range s.Groups {
		if s.Groups[g].TypeLimits != nil {
			r.GroupTypePrices[g] = make([]float64, s.types())
		}
	}
	for n, price := range prices[len(s.Capacity):] {
		if w := &windows[n]; w.nodeType == allTypes {
			r.GroupPrices[w.group] = max(0, price)
		} else {
			r.GroupTypePrices[w.group][w.nodeType] = price
		}
	}
}

// types returns the number of node types.
func (p *Problem) types() int {
	if p.First == nil {
		return len(p.Capacity)
	}
	return len(p.First)
}

// first returns the first row in which an allocation counts.
func (p *Problem) first(o *Allocation) int {
	if p.First == nil {
		return int(o.Type)
	}
	return p.First[o.Type]
}

// upTo returns the number of nodes that count in a row of the type up to Row.
func (o *Allocation) upTo(row int) int {
	if row > int(o.RemainderRow) {
		return int(o.Nodes - o.Remainder)
	}
	return int(o.Nodes)
}

// nodesIn returns the number of nodes of an allocation that count in a row.
func (p *Problem) nodesIn(o *Allocation, row int) int {
	if row < p.first(o) || row > int(o.Row) {
		return 0
	}
	return o.upTo(row)
}

// fits reports whether an allocation fits into the free nodes of each row.
func (p *Problem) fits(free []int, o *Allocation) bool {
	for row := p.first(o); row <= int(o.Row); row++ {
		if o.upTo(row) > free[row] {
			return false
		}
	}
	return true
}

// spend subtracts a multiple of an allocation from the free nodes of each row.
func (p *Problem) spend(free []int, o *Allocation, times int) {
	for row := p.first(o); row <= int(o.Row); row++ {
		free[row] -= times * o.upTo(row)
	}
}

// free returns the number of free nodes of each row in a choice.
func (p *Problem) free(choice []int) []int {
	free := slices.Clone(p.Capacity)
	for i, n := range choice {
		p.spend(free, &p.Jobs[i][n].Allocation, 1)
	}
	return free
}

// run searches. It returns the prices and whether the search completed.
func (s *search) run() (prices []float64, complete bool) {
	s.improve(s.choice, nil)
	choice := s.choice
	if c := s.newCountSearch(); c != nil {
		prices, complete = c.searchCounts()
		if complete || s.clock.Expired || s.goodEnough() {
			return prices, complete
		}
		choice = s.choice
	}
	if prices == nil {
		prices, choice = s.minimizeBound()
	}
	if s.clock.Expired {
		return nil, false
	}
	r := s.relax(prices)
	s.improve(choice, r)
	if s.clock.Expired {
		return nil, false
	}
	s.prove(r.bound, 0, lemmaPrices)
	if s.goodEnough() {
		return r.prices, false
	}
	if s.Groups != nil {
		return r.prices, s.searchTree(r)
	}
	return prices, s.searchCore(r)
}

// improve makes a choice legal, improves it greedily, and offers the result. If r is not nil it
// first tries options by increasing loss. Then it raises the value job by job.
func (s *search) improve(choice []int, r *relaxation) {
	if s.Groups != nil {
		s.improveGroups(choice, r)
		return
	}
	choice = slices.Clone(choice)
	free := s.free(choice)
	change := func(i, n int) {
		s.spend(free, i, &s.Jobs[i][choice[i]].Allocation, -1)
		s.spend(free, i, &s.Jobs[i][n].Allocation, 1)
		choice[i] = n
	}
	fits := func(i int, o *Option) bool {
		now := &s.Jobs[i][choice[i]].Allocation
		for row := s.first(&o.Allocation); row <= int(o.Row); row++ {
			if o.upTo(row) > free[row]+s.nodesIn(now, row) {
				return false
			}
		}
		return true
	}
	exceeds := func(i int) bool {
		now := &s.Jobs[i][choice[i]].Allocation
		return slices.Min(free[s.first(now):now.Row+1]) < 0
	}
	if r != nil {
		for _, o := range r.others {
			i := int(o.job)
			if exceeds(i) && fits(i, &s.Jobs[i][o.option]) {
				change(i, int(o.option))
			}
		}
		changed := make([]bool, len(choice))
		for _, o := range r.others {
			i, options := int(o.job), s.Jobs[o.job]
			if to := &options[o.option]; !changed[i] && to.Value > options[choice[i]].Value && fits(i, to) {
				change(i, int(o.option))
				changed[i] = true
			}
		}
	}
	for i, options := range s.Jobs {
		if s.clock.Add(4 * len(options)) {
			return
		}
		best := choice[i]
		for n := range options {
			if o := &options[n]; o.Value > options[best].Value && fits(i, o) {
				best = n
			}
		}
		change(i, best)
	}
	s.offer(choice)
}

// tolerance returns the difference of values up to which choices count as equal.
func (s *search) tolerance() float64 { return 0x1p-52 * math.Abs(s.value.high) }

// offer makes a legal choice the incumbent if its value is larger, or equal and the choice is
// preferred.
func (s *search) offer(choice []int) {
	value := s.valueOf(choice)
	more, tolerance := value.minus(s.value), s.tolerance()
	if more < -tolerance || more <= tolerance && s.tieOf(choice).compare(s.tieOf(s.choice)) >= 0 || slices.Min(s.free(choice)) < 0 {
		return
	}
	s.choice, s.value = slices.Clone(choice), value
	s.check()
}

// prove lowers the bound to a sum minus a loss that the lemma proves. Every bound passes through
// this method.
func (s *search) prove(bound sum, loss float64, by string) {
	bound.add(-loss, 0)
	if least := bound.up(); least < s.bound {
		s.bound, s.by = least, by
		s.check()
	}
}

// check records a contradiction if the value of the incumbent exceeds the bound.
func (s *search) check() {
	if value := s.value.down(); value > s.bound && s.contradiction == "" {
		s.contradiction = fmt.Sprintf("lemma %q bounds a choice of value %.17g by %.17g", s.by, value, s.bound)
	}
}

// goodEnough reports whether the requested gap is reached.
func (s *search) goodEnough() bool { return s.Gap > 0 && s.within(s.Gap) }

// within reports whether the relative gap is at most the given one.
func (s *search) within(gap float64) bool {
	value := s.value.down()
	return s.bound-value <= gap*max(math.Abs(s.bound), math.Abs(value))
}
