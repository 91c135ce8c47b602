package nodetypes

import (
	"fmt"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// MaxTypes is the most types of a problem.
const MaxTypes = 8

// Holding is nodes of one type. Type is a position in Problem.Capacity, 0 where Nodes is 0.
type Holding struct{ Type, Nodes int32 }

// Option is what a job may hold, and what that is worth.
type Option struct {
	Holding
	Value float64
}

// Problem is one step.
type Problem struct {
	// Capacity is the number of nodes of each type.
	Capacity []int
	// Jobs are the options of each job, at least one, each of which fits its type by itself.
	// Values are finite, and their magnitudes add up to a number that is.
	Jobs [][]Option
	// Now is what each job holds, for ties.
	Now []Holding
	// Start is a legal choice, as positions in the options.
	Start []int
	// Gap is the relative gap that is good enough; 0 asks for the best choice.
	Gap float64
}

// Effort bounds the search, by counts. Tests make it small.
type Effort struct {
	// FirstWidth and LastWidth bound the states of a beam.
	FirstWidth, LastWidth int
	// Options, Cells and Links bound the options of a core, the numbers in its tails and the
	// choices on the way to its states.
	Options, Cells, Links int
}

// Usual returns the effort of a backend.
func Usual() Effort {
	return Effort{FirstWidth: 1000, LastWidth: 36_000, Options: 4000, Cells: 500_000, Links: 1_000_000}
}

// Result is a choice and what is proven about it.
type Result struct {
	// Choice is a position in the options of every job, legal whatever ended the search.
	Choice []int
	// Value is that of the choice, rounded down, and Bound at least that of every choice,
	// +Inf if time was up before one was proven or if there is a contradiction.
	Value, Bound float64
	// Prices are what one more node of each type is worth. At these the lemma "node prices"
	// bounds all choices. Nil if time was up before they were found.
	Prices []float64
	// Complete says that the search ran to its end, not to that of Gap, time or effort.
	Complete bool
	// States is how many the beams held.
	States int
	// Contradiction, where it is not empty, says which lemma a legal choice refutes.
	Contradiction string
}

// The lemmas; the package comment states each.
const (
	lemmaPrices = "node prices"
	lemmaCore   = "core"
	lemmaKinds  = "kinds"
)

// closed is the gap that is left to rounding.
const closed = 1e-9

// search is one Solve.
type search struct {
	*Problem
	clock  *model.Clock
	effort Effort
	// bound is the best one proven, by a lemma.
	bound  float64
	by     string
	choice []int
	value  sum
	// position is where the options of each job stood before reduce, nil if they still do.
	position      [][]int
	states        int
	contradiction string
}

// Solve returns the best choice with a proof, unless time, Gap or the effort ends the search
// before.
func Solve(clock *model.Clock, p *Problem, effort Effort) Result {
	s := &search{Problem: p, clock: clock, effort: effort, bound: math.Inf(1), choice: slices.Clone(p.Start)}
	s.value = p.valueOf(s.choice)
	prices, complete := s.run()
	for again := complete; again && !s.within(closed) && s.reduce(); {
		_, again = s.run()
	}
	for i, position := range s.position {
		s.choice[i] = position[s.choice[i]]
	}
	return s.result(prices, complete)
}

// result returns what was found, and nothing as proven by a search that contradicted itself.
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

// free returns the nodes of each type that a choice leaves.
func (p *Problem) free(choice []int) []int {
	free := slices.Clone(p.Capacity)
	for i, n := range choice {
		o := &p.Jobs[i][n]
		free[o.Type] -= int(o.Nodes)
	}
	return free
}

// run searches. It returns the prices and whether it came to its end.
func (s *search) run() (prices []float64, complete bool) {
	s.improve(s.choice, nil)
	prices, choice := s.cheapest()
	if s.clock.Ended {
		return nil, false
	}
	r := s.relax(prices)
	s.improve(choice, r)
	if s.clock.Ended {
		return nil, false
	}
	s.prove(r.bound, 0, lemmaPrices)
	if s.goodEnough() {
		return prices, false
	}
	if c := s.newKindSearch(r); c != nil {
		if complete := c.searchKinds(); complete || s.goodEnough() {
			return prices, complete
		}
	}
	return prices, s.searchCore(r)
}

// improve offers a choice made legal and better: by options that lose little at prices, if
// there are any, those that lose least first, and job by job by what options are worth.
func (s *search) improve(choice []int, r *relaxation) {
	choice = slices.Clone(choice)
	free := s.free(choice)
	change := func(i, n int) {
		from, to := &s.Jobs[i][choice[i]], &s.Jobs[i][n]
		free[from.Type] += int(from.Nodes)
		free[to.Type] -= int(to.Nodes)
		choice[i] = n
	}
	fits := func(i int, o *Option) bool {
		left := free[o.Type]
		if now := &s.Jobs[i][choice[i]]; now.Type == o.Type {
			left += int(now.Nodes)
		}
		return int(o.Nodes) <= left
	}
	if r != nil {
		for _, o := range r.others {
			i := int(o.job)
			if now, to := &s.Jobs[i][choice[i]], &s.Jobs[i][o.option]; free[now.Type] < 0 && fits(i, to) {
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
		if s.clock.Up(4 * len(options)) {
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

// same is the difference of values up to which choices are as good as each other.
func (s *search) same() float64 { return 0x1p-52 * math.Abs(s.value.high) }

// offer makes a choice the best if it is legal and better, or as good and preferred.
func (s *search) offer(choice []int) {
	value := s.valueOf(choice)
	more, same := value.minus(s.value), s.same()
	if more < -same || more <= same && s.tieOf(choice).compare(s.tieOf(s.choice)) >= 0 || slices.Min(s.free(choice)) < 0 {
		return
	}
	s.choice, s.value = slices.Clone(choice), value
	s.check()
}

// prove lowers the bound to what a lemma proves, a sum less a loss. No bound is written
// anywhere else.
func (s *search) prove(bound sum, loss float64, by string) {
	bound.add(-loss, 0)
	if least := bound.up(); least < s.bound {
		s.bound, s.by = least, by
		s.check()
	}
}

// check notes a bound below the value of the choice: of these two the choice is true.
func (s *search) check() {
	if value := s.value.down(); value > s.bound && s.contradiction == "" {
		s.contradiction = fmt.Sprintf("lemma %q bounds a choice of value %.17g by %.17g", s.by, value, s.bound)
	}
}

// goodEnough reports whether the gap asked for is reached.
func (s *search) goodEnough() bool { return s.Gap > 0 && s.within(s.Gap) }

// within reports whether the value of the choice and the bound differ by at most a share.
func (s *search) within(gap float64) bool {
	value := s.value.down()
	return s.bound-value <= gap*max(math.Abs(s.bound), math.Abs(value))
}
