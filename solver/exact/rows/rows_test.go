package rows

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// values returns random values of options: few numbers, so that choices tie, ordinary ones, and
// those of 18 decades and both signs.
func values(t *rapid.T) *rapid.Generator[float64] {
	return rapid.SampledFrom([]*rapid.Generator[float64]{
		rapid.Map(rapid.IntRange(-3, 6), func(n int) float64 { return float64(n) }),
		rapid.Float64Range(-1, 10),
		rapid.Custom(func(t *rapid.T) float64 {
			return rapid.SampledFrom([]float64{-1, 1, 1, 1}).Draw(t, "sign") * math.Pow(10, rapid.Float64Range(-9, 9).Draw(t, "decade"))
		}),
	}).Draw(t, "values")
}

// problems returns small random problems: all types may be without nodes, jobs may be equal, and need
// not have an option of 0 nodes.
func problems(jobs, options int) *rapid.Generator[*Problem] {
	return rapid.Custom(func(t *rapid.T) *Problem {
		p := &Problem{Capacity: rapid.SliceOfN(rapid.IntRange(0, 9), 1, 4).Draw(t, "capacity")}
		if rapid.IntRange(0, 9).Draw(t, "all types") == 0 {
			p.Capacity = rapid.SliceOfN(rapid.IntRange(0, 3), 8, 8).Draw(t, "capacity of all")
		}
		if rapid.Bool().Draw(t, "size limits") {
			drawLimits(t, p)
		}
		value := values(t)
		free := slices.Clone(p.Capacity)
		for i := range rapid.IntRange(0, jobs).Draw(t, "jobs") {
			var of []Option
			if i > 0 && rapid.IntRange(0, 3).Draw(t, "equal") == 0 {
				of = slices.Clone(p.Jobs[i-1])
			}
			for range rapid.IntRange(1, options).Draw(t, "options") {
				if len(of) < options {
					of = append(of, drawOption(t, p, value))
				}
			}
			var fitting []int
			for n, o := range of {
				if fits(p, free, o) {
					fitting = append(fitting, n)
				}
			}
			if fitting == nil {
				of, fitting = append(of, option(0, 0, value.Draw(t, "nothing"))), []int{len(of)}
			}
			start := rapid.SampledFrom(fitting).Draw(t, "start")
			take(p, free, of[start])
			p.Jobs, p.Start = append(p.Jobs, of), append(p.Start, start)
			p.Current = append(p.Current, rapid.SampledFrom(of).Draw(t, "now").Allocation)
		}
		return p
	})
}

func option(g, nodes int, value float64) Option {
	if nodes == 0 {
		g = 0
	}
	return Option{Allocation: Allocation{Type: int16(g), Row: int16(g), Nodes: int32(nodes)}, Value: value}
}

// drawLimits adds 0 to 3 size limits to each type, of any capacities.
func drawLimits(t *rapid.T, p *Problem) {
	types := p.Capacity
	p.Capacity = nil
	for _, nodes := range types {
		p.First, p.Capacity = append(p.First, len(p.Capacity)), append(p.Capacity, nodes)
		p.Capacity = append(p.Capacity, rapid.SliceOfN(rapid.IntRange(0, nodes+2), 0, 3).Draw(t, "limits")...)
	}
}

// drawOption returns a random option within the capacity of its rows.
func drawOption(t *rapid.T, p *Problem, value *rapid.Generator[float64]) Option {
	row := rapid.IntRange(0, len(p.Capacity)-1).Draw(t, "last row")
	o := option(row, 1, 0)
	if p.First != nil {
		o.Type = int16(slices.IndexFunc(append(slices.Clone(p.First[1:]), len(p.Capacity)), func(next int) bool { return row < next }))
	}
	rows := p.Capacity[firstRow(p, o) : row+1]
	if o.Nodes = int32(rapid.IntRange(0, slices.Min(rows)).Draw(t, "nodes")); o.Nodes == 0 {
		o.Allocation = Allocation{}
	} else if outer := rapid.IntRange(0, len(rows)-1).Draw(t, "rows of the remainder"); outer > 0 {
		o.RemainderRow = int16(firstRow(p, o) + outer - 1)
		o.Remainder = int32(rapid.IntRange(0, slices.Min(rows[:outer])-int(o.Nodes)).Draw(t, "remainder"))
		o.Nodes += o.Remainder
	}
	o.Value = value.Draw(t, "value")
	return o
}

// firstRow returns the first row of the type of an option.
func firstRow(p *Problem, o Option) int {
	if p.First == nil {
		return int(o.Type)
	}
	return p.First[o.Type]
}

// usage returns how many nodes of an option count in each row.
func usage(p *Problem, o Option) []int {
	nodes := make([]int, len(p.Capacity))
	for row := firstRow(p, o); row <= int(o.Row); row++ {
		nodes[row] = int(o.Nodes - o.Remainder)
	}
	for row := firstRow(p, o); row <= int(o.RemainderRow); row++ {
		nodes[row] += int(o.Remainder)
	}
	return nodes
}

// take subtracts an option from the free nodes of its rows.
func take(p *Problem, free []int, o Option) {
	for row, nodes := range usage(p, o) {
		free[row] -= nodes
	}
}

// fits reports whether an option fits into the free nodes of its rows.
func fits(p *Problem, free []int, o Option) bool {
	for row, nodes := range usage(p, o) {
		if nodes > 0 && nodes > free[row] {
			return false
		}
	}
	return true
}

// costOf returns the cost of the nodes of an option at the prices of all of its rows.
func costOf(p *Problem, o Option, prices []*big.Rat) *big.Rat {
	cost := new(big.Rat)
	for row, nodes := range usage(p, o) {
		cost.Add(cost, new(big.Rat).Mul(prices[row], rat(float64(nodes))))
	}
	return cost
}

// rats returns prices without rounding.
func rats(prices []float64) (exact []*big.Rat) {
	for _, price := range prices {
		exact = append(exact, rat(price))
	}
	return exact
}

// exactPrices returns the prices of the rows without rounding: what the price of a node in each row is
// above that in the row before of the same type.
func exactPrices(p *Problem, r *relaxation) []*big.Rat {
	exact := rats(r.units[0])
	for row := range exact {
		if row > 0 && p.First != nil && !slices.Contains(p.First, row) {
			exact[row] = new(big.Rat).Sub(rat(r.units[0][row]), rat(r.units[0][row-1]))
		}
	}
	return exact
}

func rat(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }

// eachChoice calls visit for every legal choice, which is only lent.
func eachChoice(p *Problem, visit func(choice []int)) {
	at := make([]int, len(p.Jobs))
	var try func(i int, free []int)
	try = func(i int, free []int) {
		if i == len(p.Jobs) {
			visit(at)
			return
		}
		for n, o := range p.Jobs[i] {
			if fits(p, free, o) {
				rest := slices.Clone(free)
				take(p, rest, o)
				at[i] = n
				try(i+1, rest)
			}
		}
	}
	try(0, p.Capacity)
}

// exhaustive returns the largest value of all legal choices, and of those that have it the one
// with the fewest changes, moves, nodes, and positions of types.
func exhaustive(p *Problem) (best *big.Rat, choice []int) {
	var tie []int
	eachChoice(p, func(at []int) {
		value := exactValue(p, at)
		order := -1
		if best != nil {
			order = value.Cmp(best)
		}
		if ties := tieOf(p, at); best == nil || order > 0 || order == 0 && slices.Compare(ties, tie) < 0 {
			best, tie, choice = value, ties, slices.Clone(at)
		}
	})
	return best, choice
}

func exactValue(p *Problem, choice []int) *big.Rat {
	value := new(big.Rat)
	for i, n := range choice {
		value.Add(value, rat(p.Jobs[i][n].Value))
	}
	return value
}

func tieOf(p *Problem, choice []int) []int {
	ties := make([]int, 4)
	for i, n := range choice {
		o, now := p.Jobs[i][n], p.Current[i]
		if o.Allocation != now {
			ties[0]++
		}
		if o.Nodes > 0 && now.Nodes > 0 && o.Type != now.Type {
			ties[1]++
		}
		ties[2] += int(o.Nodes)
		ties[3] += int(o.Type)
	}
	return ties
}

// exactBound is the bound at prices as the lemma has it.
func exactBound(p *Problem, prices []*big.Rat) *big.Rat {
	bound := new(big.Rat)
	for g, price := range prices {
		bound.Add(bound, new(big.Rat).Mul(price, rat(float64(p.Capacity[g]))))
	}
	for _, options := range p.Jobs {
		var most *big.Rat
		for _, o := range options {
			if net := new(big.Rat).Sub(rat(o.Value), costOf(p, o, prices)); most == nil || net.Cmp(most) > 0 {
				most = net
			}
		}
		bound.Add(bound, most)
	}
	return bound
}

func clock(t interface{ Context() context.Context }) *model.Clock {
	return model.NewClock(t.Context(), 100_000)
}

// efforts returns random limits of work, also small ones.
func efforts(t *rapid.T) Effort {
	if rapid.Bool().Draw(t, "usual") {
		return DefaultEffort()
	}
	first := rapid.IntRange(1, 3).Draw(t, "first width")
	return Effort{
		FirstWidth: first, LastWidth: first * rapid.IntRange(1, 8).Draw(t, "widening"),
		Options: rapid.IntRange(1, 40).Draw(t, "options"), Cells: rapid.IntRange(1, 2000).Draw(t, "cells"),
		Links:    rapid.IntRange(1, 300).Draw(t, "links"),
		Vertices: rapid.IntRange(0, 10).Draw(t, "vertices"), Cuts: rapid.IntRange(0, 2).Draw(t, "cuts"),
	}
}

// TestExhaustive compares with all choices.
func TestExhaustive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, effort := rapid.OneOf(problems(5, 7), sweeps(2, 4, 6)).Draw(t, "problem"), efforts(t)
		r := Solve(clock(t), p, effort)
		if r.Contradiction != "" {
			t.Fatal(r.Contradiction)
		}
		best, choice := exhaustive(p)
		got := exactValue(p, r.Choice)
		if slices.Min(append(p.free(r.Choice), 0)) < 0 {
			t.Fatalf("choice %v exceeds the capacities", r.Choice)
		}
		if rat(r.Value).Cmp(got) > 0 || rat(r.Bound).Cmp(best) < 0 {
			t.Fatalf("value %v of at most %g, bound %g of at least %v", got, r.Value, r.Bound, best)
		}
		if effort == DefaultEffort() && !r.Complete {
			t.Fatal("not complete")
		}
		if !r.Complete {
			return
		}
		optimum, _ := best.Float64()
		start, _ := exactValue(p, p.Start).Float64()
		dual, _ := exactBound(p, rats(r.Prices)).Float64()
		if gap := r.Bound - optimum; gap > 1e-12*(math.Abs(optimum)+math.Abs(start)+dual-optimum)+1e-20 {
			t.Fatalf("bound %g above the optimum %g by %g", r.Bound, optimum, gap)
		}
		if short, _ := best.Sub(best, got).Float64(); short > 1e-14*math.Abs(optimum) {
			t.Fatalf("choice %v short of %v by %g", r.Choice, choice, short)
		} else if effort == DefaultEffort() && short == 0 && slices.Compare(tieOf(p, r.Choice), tieOf(p, choice)) > 0 {
			t.Fatalf("choice %v has ties %v; want %v of %v", r.Choice, tieOf(p, r.Choice), tieOf(p, choice), choice)
		}
	})
}

// TestLargestNodes compares with all choices where options have up to the largest permitted number of nodes.
func TestLargestNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problems(5, 6).Draw(t, "problem")
		scale := rapid.SampledFrom([]int{1000, 1e5, 1e7, math.MaxInt32 / 9}).Draw(t, "scale")
		for g := range p.Capacity {
			p.Capacity[g] *= scale
		}
		for i, options := range p.Jobs {
			for n := range options {
				options[n].Nodes, options[n].Remainder = options[n].Nodes*int32(scale), options[n].Remainder*int32(scale)
				if k := options[n].Nodes; k > 0 && n != p.Start[i] && int(k) < p.Capacity[options[n].Type] && rapid.Bool().Draw(t, "one more") {
					options[n].Nodes++
				}
			}
			p.Current[i] = options[0].Allocation
		}
		effort := DefaultEffort()
		effort.Cells = 100_000
		r := Solve(clock(t), p, effort)
		if r.Contradiction != "" {
			t.Fatal(r.Contradiction)
		}
		best, _ := exhaustive(p)
		got := exactValue(p, r.Choice)
		if slices.Min(append(p.free(r.Choice), 0)) < 0 || rat(r.Value).Cmp(got) > 0 || rat(r.Bound).Cmp(best) < 0 {
			t.Fatalf("choice %v of value %v, at least %g; bound %g of at least %v", r.Choice, got, r.Value, r.Bound, best)
		}
		optimum, _ := best.Float64()
		start, _ := exactValue(p, p.Start).Float64()
		if short, _ := best.Sub(best, got).Float64(); r.Complete && short > 1e-12*(math.Abs(optimum)+math.Abs(start)) {
			t.Fatalf("choice %v is short of %g by %g", r.Choice, optimum, short)
		}
	})
}

// TestMostOptions compares with all choices of two jobs that run on all types, on 32 sizes of each.
func TestMostOptions(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		p := &Problem{Capacity: slices.Repeat([]int{32}, 8), Start: []int{0, 0}, Current: make([]Allocation, 2)}
		for range 2 {
			options := []Option{option(0, 0, 0)}
			for g := range p.Capacity {
				for k := range 32 {
					options = append(options, option(g, k+1, math.Exp(4*random.NormFloat64())))
				}
			}
			p.Jobs = append(p.Jobs, options)
		}
		r := Solve(clock(t), p, DefaultEffort())
		best, choice := 0.0, []int(nil)
		for n, a := range p.Jobs[0] {
			for m, b := range p.Jobs[1] {
				if value := a.Value + b.Value; value > best && (a.Type != b.Type || a.Nodes+b.Nodes <= 32) {
					best, choice = value, []int{n, m}
				}
			}
		}
		if !r.Complete || !slices.Equal(r.Choice, choice) || r.Bound < best || r.Bound > best*(1+1e-12) {
			t.Errorf("seed %d: choice %v, bound %.17g, complete: %t; want %v of %.17g", seed, r.Choice, r.Bound, r.Complete, choice, best)
		}
	}
}

// TestDecades has one job whose other options lose 24 decades more than those of others differ
// by, and one that does not fit together with the only option of another.
func TestDecades(t *testing.T) {
	nothing := option(0, 0, 0)
	for name, p := range map[string]*Problem{
		"one job decides": {Capacity: []int{7, 8}, Jobs: [][]Option{
			{option(1, 1, -7e23), option(1, 2, -3e17), option(1, 4, -7e11), option(1, 8, -15e5)},
			{nothing, option(0, 1, 0.26), option(1, 1, 1.12)}, {nothing, option(0, 1, 0.18), option(0, 2, 0.3), option(1, 8, 3.45)},
		}, Start: []int{0, 0, 0}},
		"one job fits nowhere else": {Capacity: []int{7, 3}, Jobs: [][]Option{
			{nothing, option(0, 3, 1843.22492834), option(1, 3, 3663012356.63)}, {nothing, option(1, 1, 15.4292717196)},
			{option(0, 0, -21093750044.5), option(0, 1, -21093757076.4), option(1, 2, 8.8543372853)},
		}, Start: []int{0, 0, 2}},
		"the only choice of the other jobs is the best": {Capacity: []int{5}, Jobs: [][]Option{
			{option(0, 4, 0)}, {nothing, option(0, 3, 29.35427)}, {nothing, option(0, 2, 13.778939)}, {nothing, option(0, 1, -772.021883)},
		}, Start: []int{0, 0, 0, 0}},
	} {
		p.Current = make([]Allocation, len(p.Jobs))
		best, choice := exhaustive(p)
		optimum, _ := best.Float64()
		r := Solve(clock(t), p, DefaultEffort())
		if !r.Complete || !slices.Equal(r.Choice, choice) || r.Bound < optimum || r.Bound-optimum > 1e-9*math.Abs(optimum)+1e-21 {
			t.Errorf("%s: choice %v, bound %.17g, complete %t; want %v of %.17g", name, r.Choice, r.Bound, r.Complete, choice, optimum)
		}
	}
}

// TestEqualJobs has few classes of many identical jobs. With little effort the choice is near the bound.
func TestEqualJobs(t *testing.T) {
	for classes := range 6 {
		for _, jobs := range []int{50, 200, 1000} {
			p, count := randomProblem{types: 3, nodes: 3 * jobs, jobs: jobs, seed: uint64(classes)}.problem(), classes+1
			for i := count; i < jobs; i++ {
				p.Jobs[i] = p.Jobs[i%count]
			}
			effort := DefaultEffort()
			effort.LastWidth, effort.Links = effort.FirstWidth, 20_000
			r := Solve(clock(t), p, effort)
			if r.Contradiction != "" || !(r.Bound-r.Value <= r.Bound/float64(jobs)) {
				t.Errorf("%d jobs of %d classes: %s: value %g, bound %g", jobs, count, r.Contradiction, r.Value, r.Bound)
			}
		}
	}
}

// counted is a context that expires after a number of calls of Err.
type counted struct {
	context.Context
	left int
}

func (c *counted) Err() error {
	if c.left--; c.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestSampleThatDoesNotFit has jobs that must have nodes, as many as there are, where prices are
// sought on a sample first: all of them are in it.
func TestSampleThatDoesNotFit(t *testing.T) {
	const jobs = 3 * firstSample
	p := &Problem{Capacity: []int{firstSample / 2, firstSample / 2}, Start: make([]int, jobs), Current: make([]Allocation, jobs)}
	for i := range jobs {
		of := []Option{option(0, 0, 0), option(1, 2, 1)}
		if i%3 == 0 {
			g := i / 3 % 2
			of = []Option{option(g, 1, 1), option(1-g, 1, 1.5+1/float64(i+1)), option(g, 2, 2)}
		}
		p.Jobs = append(p.Jobs, of)
	}
	r := Solve(model.NewClock(&counted{t.Context(), 1000}, 100_000), p, DefaultEffort())
	if !r.Complete || r.Value < 1.5*firstSample {
		t.Errorf("value %g, bound %g, complete: %t; want all on the other type", r.Value, r.Bound, r.Complete)
	}
}

// TestStraight lowers prices along a line of very many temperatures.
func TestStraight(t *testing.T) {
	s := &search{clock: model.NewClock(&counted{t.Context(), 10}, 10_000), Problem: &Problem{
		Capacity: []int{1, 1}, Start: []int{1, 1}, Jobs: [][]Option{{option(0, 0, 0), option(0, 1, 1e8)}, {option(0, 0, 0), option(1, 1, 1e8)}},
	}}
	s.choice = s.Start
	all, capacity := s.sample(len(s.Jobs))
	prices := []float64{7e7, 8e7}
	if s.descend(all, capacity, prices, 1, 1); s.clock.Expired || prices[0] != 0 || prices[1] != 0 {
		t.Errorf("prices %v, time is up: %t; want 0", prices, s.clock.Expired)
	}
}

// drawPrices returns random prices that no search would arrive at, some that are exactly what an option
// is worth per node.
func drawPrices(t *rapid.T, p *Problem) []float64 {
	prices := make([]float64, len(p.Capacity))
	for g := range prices {
		switch rapid.IntRange(0, 3).Draw(t, "price") {
		case 0:
		case 1:
			prices[g] = rapid.Float64Range(0, 5).Draw(t, "ordinary")
		case 2:
			prices[g] = math.Pow(10, rapid.Float64Range(-20, 20).Draw(t, "decade"))
		case 3:
			if len(p.Jobs) > 0 {
				o := rapid.SampledFrom(rapid.SampledFrom(p.Jobs).Draw(t, "job")).Draw(t, "option")
				prices[g] = math.Abs(o.Value) / float64(max(1, o.Nodes))
			}
		}
	}
	return prices
}

// TestNodePrices checks the lemma of this name at any prices, and that no digit is lost.
func TestNodePrices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problems(4, 6).Draw(t, "problem")
		prices := drawPrices(t, p)
		s := &search{Problem: p, clock: clock(t), effort: DefaultEffort(), choice: p.Start}
		r := s.relax(prices)
		best, _ := exhaustive(p)
		bound := exactBound(p, exactPrices(p, r))
		if up := rat(r.bound.up()); up.Cmp(best) < 0 || up.Cmp(bound) < 0 {
			t.Fatalf("bound %g of %v, at prices %v %v", r.bound.up(), best, prices, bound)
		}
		exact, _ := bound.Float64()
		if off := r.bound.up() - exact; off > 5e-16*math.Abs(exact)+1e-28*r.bound.magnitude+1e-300 {
			t.Errorf("bound %g above %g by %g", r.bound.up(), exact, off)
		}
	})
}

// TestLosses checks that the computed loss of an option is at most its exact loss, and hardly less.
func TestLosses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problems(4, 6).Draw(t, "problem")
		prices := drawPrices(t, p)
		effort := efforts(t)
		s := &search{Problem: p, clock: clock(t), effort: effort, choice: p.Start}
		r := s.relax(prices)
		listed := make(map[[2]int32]float64)
		for _, o := range r.others {
			listed[[2]int32{o.job, o.option}] = o.loss
		}
		if len(listed) > effort.Options {
			t.Fatalf("%d listed of at most %d", len(listed), effort.Options)
		}
		net := func(i int, n int32) *big.Rat {
			o := p.Jobs[i][n]
			return new(big.Rat).Sub(rat(o.Value), costOf(p, o, exactPrices(p, r)))
		}
		for i := range p.Jobs {
			for n := range p.Jobs[i] {
				if n := int32(n); n != r.best[i] {
					exact := new(big.Rat).Sub(net(i, r.best[i]), net(i, n))
					loss, ok := listed[[2]int32{int32(i), n}]
					if !ok {
						loss = r.below // It loses that at least.
					}
					if rat(loss).Cmp(exact) > 0 && loss > 0 {
						t.Errorf("option %d of job %d loses %v; computed: %g (listed: %v)", n, i, exact, loss, ok)
					}
				}
			}
		}
	})
}

// TestCore checks the lemma of this name at any prices, limits and widths: no choice loses less
// than is proven.
func TestCore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problems(4, 6).Draw(t, "problem")
		prices := drawPrices(t, p)
		s := newSearch(clock(t), p, efforts(t))
		r := s.relax(prices)
		gap := r.bound.minus(s.value)
		limit := min(r.below, gap*rapid.Float64Range(0, 1.5).Draw(t, "limit"))
		c := s.newCore(r, limit)
		if c == nil || !(limit > 0) {
			return
		}
		c.run(rapid.IntRange(1, 4).Draw(t, "width"))
		best, _ := exhaustive(p)
		least := new(big.Rat).Sub(exactBound(s.Problem, exactPrices(p, r)), best)
		if proven := c.proven(); rat(proven).Cmp(least) > 0 {
			exact, _ := least.Float64()
			t.Fatalf("the proven loss is %g; the best choice loses %g", proven, exact)
		}
		if math.IsInf(c.minLoss, 1) {
			return
		}
		choice := c.choice()
		if slices.Min(p.free(choice)) < 0 {
			t.Fatalf("choice %v exceeds the capacities", choice)
		}
		loss, _ := least.Sub(exactBound(s.Problem, exactPrices(p, r)), exactValue(p, choice)).Float64()
		if off := math.Abs(loss - c.minLoss); off > 1e-12*loss+1e-25*r.bound.magnitude {
			t.Errorf("choice loses %g; %g was found", loss, c.minLoss)
		}
	})
}

// TestReduce checks that reduce leaves every choice that is as good as the known one, together with
// values of other jobs that cancel out and whose digits no sum contains completely.
func TestReduce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problems(4, 5).Draw(t, "problem")
		for range rapid.IntRange(0, 3).Draw(t, "pairs") {
			value := rapid.Float64Range(1, 2).Draw(t, "digits") * math.Pow(10, rapid.Float64Range(0, 40).Draw(t, "decade"))
			p.Jobs = append([][]Option{{option(0, 0, value)}}, append(p.Jobs, []Option{option(0, 0, -value)})...)
			p.Start = append([]int{0}, append(p.Start, 0)...)
			p.Current = append([]Allocation{{}}, append(p.Current, Allocation{})...)
		}
		s := &search{Problem: p, clock: clock(t), effort: DefaultEffort(), choice: slices.Clone(p.Start)}
		s.value = p.valueOf(s.choice)
		for range 3 {
			if !s.reduce() {
				break
			}
		}
		if s.position == nil {
			return
		}
		least := exactValue(p, p.Start)
		eachChoice(p, func(choice []int) {
			if exactValue(p, choice).Cmp(least) < 0 {
				return
			}
			for i, n := range choice {
				if !slices.Contains(s.position[i], n) {
					t.Fatalf("option %d of job %d is left out; choice %v is as good as %v", n, i, choice, p.Start)
				}
			}
		})
		for i, n := range s.choice {
			if at := s.position[i][n]; at != p.Start[i] {
				t.Fatalf("job %d had option %d; now %d", i, p.Start[i], at)
			}
		}
	})
}

// TestPrices checks prices that are known: what one more node is worth.
func TestPrices(t *testing.T) {
	nothing := option(0, 0, 0)
	for name, test := range map[string]struct {
		problem Problem
		want    []float64
	}{
		"nodes are left": {Problem{
			Capacity: []int{5, 2}, Jobs: [][]Option{{nothing, option(0, 4, 9)}, {nothing, option(1, 1, 3)}}, Start: []int{0, 0},
		}, []float64{0, 0}},
		"no more can be used": {Problem{
			Capacity: []int{4, 2}, Jobs: [][]Option{{nothing, option(0, 4, 9)}, {option(1, 2, 3)}}, Start: []int{0, 0},
		}, []float64{0, 0}},
		"minimums fill the type": {Problem{
			Capacity: []int{3, 9}, Jobs: [][]Option{{option(0, 1, 5), option(0, 2, 7)}, {option(0, 2, 1), option(0, 3, 4)}}, Start: []int{0, 0},
		}, []float64{3, 0}},
		"one choice only, and one who waits": {Problem{
			Capacity: []int{2}, Jobs: [][]Option{{option(0, 2, 5)}, {nothing, option(0, 1, 4)}}, Start: []int{0, 0},
		}, []float64{4}},
		"alike types": {Problem{
			Capacity: []int{1, 1}, Start: []int{0, 0, 0},
			Jobs: [][]Option{
				{nothing, option(0, 1, 3), option(1, 1, 3)}, {nothing, option(0, 1, 2), option(1, 1, 2)}, {nothing, option(0, 1, 1), option(1, 1, 1)},
			},
		}, []float64{1, 1}},
		"no nodes": {Problem{Capacity: []int{0, 0}, Jobs: [][]Option{{nothing}}, Start: []int{0}}, []float64{0, 0}},
		"no jobs":  {Problem{Capacity: []int{3}}, []float64{0}},
	} {
		t.Run(name, func(t *testing.T) {
			test.problem.Current = make([]Allocation, len(test.problem.Jobs))
			r := Solve(clock(t), &test.problem, DefaultEffort())
			if !r.Complete {
				t.Fatal(r)
			}
			for g, want := range test.want {
				if off := math.Abs(r.Prices[g] - want); off > 1e-4 || want == 0 && off > 0 {
					t.Errorf("prices %v; want %v", r.Prices, test.want)
				}
			}
		})
	}
}

// TestContradiction checks that a bound below a legal choice is reported as a contradiction and not returned.
func TestContradiction(t *testing.T) {
	p := &Problem{Capacity: []int{1}, Jobs: [][]Option{{option(0, 0, 0), option(0, 1, 2)}}, Start: []int{0}, Current: make([]Allocation, 1)}
	s := &search{Problem: p, clock: clock(t), effort: DefaultEffort(), bound: math.Inf(1), choice: []int{0}}
	s.prove(p.valueOf([]int{1}), 0.5, lemmaCore) // one that is false
	s.offer([]int{1})
	if want := `lemma "core" bounds a choice of value 2`; !strings.HasPrefix(s.contradiction, want[:len(want)-1]) {
		t.Errorf("contradiction %q; want %q", s.contradiction, want)
	}
	if r := s.result(nil, true); r.Contradiction != s.contradiction || !math.IsInf(r.Bound, 1) || r.Complete {
		t.Errorf("result %+v; want the contradiction and nothing proven", r)
	}
}

// TestIllegalChoice checks that a choice counts only if it is within the capacities.
func TestIllegalChoice(t *testing.T) {
	p := &Problem{Capacity: []int{1}, Jobs: [][]Option{{option(0, 0, 0), option(0, 2, 2)}}, Start: []int{0}, Current: make([]Allocation, 1)}
	s := &search{Problem: p, clock: clock(t), effort: DefaultEffort(), bound: math.Inf(1), choice: []int{0}}
	if s.offer([]int{1}); s.choice[0] != 0 {
		t.Error("2 of 1 nodes are in use")
	}
}

// TestTime ends searches early: what is there is legal, and what is proven is true.
func TestTime(t *testing.T) {
	for _, d := range []randomProblem{{types: 3, nodes: 2048, jobs: 1000}, {types: 8, nodes: 200, jobs: 100, warm: true},
		{types: 4, nodes: 40_000, jobs: 10_000}}[:testtier.Conformance.Examples(2, 3)] {
		p := d.problem()
		whole := Solve(clock(t), p, DefaultEffort())
		if !whole.Complete {
			t.Fatal(whole.Complete)
		}
		for _, budget := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), budget)
			r := Solve(model.NewClock(ctx, 100_000), p, DefaultEffort())
			cancel()
			if r.Bound < whole.Value || r.Value > whole.Bound || slices.Min(p.free(r.Choice)) < 0 || r.Contradiction != "" {
				t.Errorf("%v: %v: value %g, bound %g; the optimum is %g", d, budget, r.Value, r.Bound, whole.Value)
			}
		}
	}
}

// TestGap sets a gap, so that less than the best choice is sufficient.
func TestGap(t *testing.T) {
	p := randomProblem{types: 5, nodes: 384, jobs: 160}.problem()
	for _, gap := range []float64{0.5, 1e-2, 1e-5} {
		p.Gap = gap
		if r := Solve(clock(t), p, DefaultEffort()); r.Bound-r.Value > gap*r.Bound {
			t.Errorf("gap %g of %g", r.Bound-r.Value, gap*r.Bound)
		}
	}
}

// TestDeterministic has one problem solved twice.
func TestDeterministic(t *testing.T) {
	p := randomProblem{types: 5, nodes: 384, jobs: 160, warm: true}.problem()
	a := Solve(clock(t), p, DefaultEffort())
	b := Solve(model.NewClock(t.Context(), 100), p, DefaultEffort())
	if !slices.Equal(a.Choice, b.Choice) || a.Bound != b.Bound || !slices.Equal(a.Prices, b.Prices) || a.States != b.States {
		t.Errorf("%v and %v", a, b)
	}
}
