package nodetypes

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// sweeps returns random problems of a few classes of identical jobs with different current nodes.
func sweeps(classes, options, jobs int) *rapid.Generator[*Problem] {
	return rapid.Custom(func(t *rapid.T) *Problem {
		p := problems(classes, options).Draw(t, "classes")
		free := p.free(p.Start)
		for i := range len(p.Jobs) {
			for range rapid.IntRange(0, jobs/len(p.Jobs)-1).Draw(t, "more") {
				fits := slices.IndexFunc(p.Jobs[i], func(o Option) bool { return fits(p, free, o) })
				if fits < 0 {
					break
				}
				o := &p.Jobs[i][fits]
				for _, row := range rowsOf(p, *o) {
					free[row] -= int(o.Nodes)
				}
				now := p.Current[i]
				if rapid.IntRange(0, 4).Draw(t, "other") == 0 {
					now = o.Allocation
				}
				p.Jobs, p.Current, p.Start = append(p.Jobs, p.Jobs[i]), append(p.Current, now), append(p.Start, fits)
			}
		}
		return p
	})
}

// TestJobClasses checks the lemma of this name at any prices and limits: no choice loses less than is
// proven, and the best choice that loses less than the limit is found.
func TestJobClasses(t *testing.T) {
	searched := 0
	rapid.Check(t, func(t *rapid.T) {
		p := sweeps(3, 5, 6).Draw(t, "problem")
		prices := drawPrices(t, p)
		s := &search{Problem: p, clock: clock(t), effort: DefaultEffort(), choice: p.Start}
		s.value = p.valueOf(s.choice)
		r := s.relax(prices)
		c := s.newClassSearch(r)
		limit := r.bound.minus(s.value) * rapid.Float64Range(0, 1.5).Draw(t, "limit")
		if c == nil || !(limit > 0) {
			return
		}
		if !c.run(limit) {
			t.Fatal("not complete")
		}
		searched++
		best, _ := exhaustive(p)
		least := new(big.Rat).Sub(exactBound(p, exactPrices(p, r)), best)
		loss, _ := least.Float64()
		if proven := c.proven(); rat(proven).Cmp(least) > 0 {
			t.Fatalf("every choice is said to lose %g; the best loses %g", proven, loss)
		}
		if found := c.best.loss < limit; !found {
			if loss < limit*(1-1e-12)-1e-12*r.bound.magnitude {
				t.Fatalf("nothing found below %g; a choice loses %g", limit, loss)
			}
			return
		}
		choice := c.choice()
		if slices.Min(p.free(choice)) < 0 {
			t.Fatalf("choice %v exceeds the capacities", choice)
		}
		loses, _ := new(big.Rat).Sub(exactBound(p, exactPrices(p, r)), exactValue(p, choice)).Float64()
		if off := math.Abs(loses - c.best.loss); off > 1e-12*loses+1e-25*r.bound.magnitude {
			t.Errorf("choice loses %g; %g was found", loses, c.best.loss)
		}
	})
	if t.Logf("%d searched", searched); searched == 0 && !t.Failed() {
		t.Error("nothing was searched")
	}
}

// TestSweeps compares Solve with an integer dynamic program over the numbers of jobs per class and
// the nodes in use of a type.
func TestSweeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		classes := rapid.IntRange(1, 3).Draw(t, "classes")
		p := &Problem{Capacity: rapid.SliceOfN(rapid.IntRange(0, 20), 1, 8).Draw(t, "capacity")}
		var of [][]Option
		var jobs []int
		for range classes {
			options := []Option{option(0, 0, 0)}
			for g, nodes := range p.Capacity {
				for k := range min(nodes, rapid.IntRange(0, 6).Draw(t, "sizes")) {
					options = append(options, option(g, k+1, float64(rapid.IntRange(-5, 1<<20).Draw(t, "value"))))
				}
			}
			of, jobs = append(of, options), append(jobs, rapid.IntRange(1, 20).Draw(t, "jobs"))
		}
		for n, options := range of {
			for range jobs[n] {
				p.Jobs = append(p.Jobs, options)
			}
		}
		p.Current, p.Start = make([]Allocation, len(p.Jobs)), make([]int, len(p.Jobs))
		r := Solve(clock(t), p, DefaultEffort())
		if r.Contradiction != "" {
			t.Fatal(r.Contradiction)
		}
		best := float64(byCounts(p.Capacity, of, jobs))
		value, _ := exactValue(p, r.Choice).Float64()
		switch {
		case slices.Min(append(p.free(r.Choice), 0)) < 0 || value > best || r.Bound < best:
			t.Fatalf("choice %v of value %g, bound %.17g; the best is worth %g", r.Choice, value, r.Bound, best)
		case r.Complete && (value < best || r.Bound > best*(1+1e-9)+1e-12):
			t.Fatalf("value %g, bound %g; want %g", value, r.Bound, best)
		case !r.Complete && classes == 1:
			t.Fatal("one kind was not searched to its end")
		}
	})
}

// byCounts returns the largest value of jobs of a few classes, each with an option without nodes of
// value 0.
func byCounts(capacity []int, options [][]Option, jobs []int) int {
	size := 1
	for _, n := range jobs {
		size *= n + 1
	}
	most := make([]int, size) // by jobs that hold nodes at most
	for g, nodes := range capacity {
		held := [][]int{most}
		for k := 1; k <= nodes; k++ {
			row := slices.Clone(held[k-1])
			for n, stride := 0, 1; n < len(jobs); n, stride = n+1, stride*(jobs[n]+1) {
				for _, o := range options[n] {
					if o.Nodes == 0 || int(o.Type) != g || int(o.Nodes) > k {
						continue
					}
					for at := range row {
						if at/stride%(jobs[n]+1) > 0 {
							row[at] = max(row[at], held[k-int(o.Nodes)][at-stride]+int(o.Value))
						}
					}
				}
			}
			held = append(held, row)
		}
		most = held[nodes]
	}
	return slices.Max(most)
}
