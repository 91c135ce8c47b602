package rows

import (
	"context"
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
				take(p, free, *o)
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

// inRow returns the nodes of a choice in a row of counts.
func inRow(c *countSearch, r countRow, choice []int) (nodes int64) {
	for _, k := range c.classes {
		for _, i := range k.jobs {
			nodes += r.weights[k.first+choice[i]]
		}
	}
	return nodes
}

// jobsPerOption returns the counts of a choice.
func jobsPerOption(c *countSearch, choice []int) []float64 {
	x := make([]float64, c.counts)
	for _, k := range c.classes {
		for _, i := range k.jobs {
			x[k.first+choice[i]]++
		}
	}
	return x
}

// countsOf prepares a search of a random problem. It returns nil if too few of its jobs are identical.
func countsOf(t interface{ Context() context.Context }, p *Problem) *countSearch {
	s := &search{Problem: p, clock: clock(t), effort: DefaultEffort(), choice: p.Start, bound: math.Inf(1)}
	s.value = p.valueOf(s.choice)
	return s.newCountSearch()
}

// countedSweeps returns random problems that the search over counts accepts.
func countedSweeps(t *testing.T) *rapid.Generator[*Problem] {
	t.Helper()
	return sweeps(3, 5, 6).Filter(func(p *Problem) bool { return countsOf(t, p) != nil })
}

// drawParts returns bounds of counts that contain at least one choice in half of the cases.
func drawParts(t *rapid.T, c *countSearch, v *vertex) {
	x := jobsPerOption(c, c.choice)
	for j := range x {
		switch rapid.IntRange(0, 5).Draw(t, "bounds") {
		case 0:
			v.low[j] = min(x[j], float64(rapid.IntRange(0, 3).Draw(t, "low")))
		case 1:
			v.high[j] = max(x[j], float64(rapid.IntRange(0, 3).Draw(t, "high")))
		case 2:
			v.high[j] = max(v.low[j], float64(rapid.IntRange(0, 3).Draw(t, "any")))
		}
	}
}

// TestCounts checks the lemma of this name at any prices of rows and cuts, and within any bounds of counts: no
// choice is better than the bound, and none with an option is better than the bound minus the loss of the
// option.
func TestCounts(t *testing.T) {
	searched, tight := 0, 0
	counted := countedSweeps(t)
	rapid.Check(t, func(t *rapid.T) {
		p := counted.Draw(t, "problem")
		c := countsOf(t, p)
		v := c.root()
		if _, ok := c.optimize(v); !ok {
			t.Fatal("not optimal")
		}
		c.addCuts(v)
		prices := drawPrices(t, &Problem{Capacity: make([]int, len(c.rows))})
		if rapid.Bool().Draw(t, "prices of the vertex") {
			prices = c.prices(v)
		}
		drawParts(t, c, v)
		lower := c.lower(v, prices)
		bound, slack := new(big.Rat).Add(rat(lower.high), rat(lower.low)), rat(lower.slack())
		eachChoice(p, func(choice []int) {
			x := jobsPerOption(c, choice)
			for j := range x {
				if x[j] < v.low[j] || x[j] > v.high[j] {
					return
				}
			}
			value := new(big.Rat).Sub(exactValue(p, choice), slack)
			if searched++; value.Cmp(bound) > 0 {
				t.Fatalf("choice %v is worth %v; the bound is %v", choice, value, bound)
			}
			if value.Cmp(new(big.Rat).Sub(bound, new(big.Rat).Mul(rat(1e-3), new(big.Rat).Abs(bound)))) >= 0 {
				tight++
			}
			for j, loss := range c.losses {
				if v.low[j] == 0 && x[j] > 0 && new(big.Rat).Add(value, rat(loss)).Cmp(bound) > 0 {
					t.Fatalf("choice %v with count %d is worth %v; the bound is %v and the loss %v", choice, j, value, bound, loss)
				}
			}
		})
	})
	if t.Logf("%d choices, %d within 0.1%% of their bound", searched, tight); tight == 0 && !t.Failed() {
		t.Error("the bounds are too weak for a test")
	}
}

// TestCuts checks that all legal choices satisfy the cuts of the first vertices, and of any equation.
func TestCuts(t *testing.T) {
	added := 0
	counted := countedSweeps(t)
	rapid.Check(t, func(t *rapid.T) {
		p := counted.Draw(t, "problem")
		c := countsOf(t, p)
		v := c.root()
		for {
			if _, ok := c.optimize(v); !ok || !c.addCuts(v) {
				break
			}
		}
		equation := rapid.SliceOfN(rapid.Float64Range(-2, 2), len(v.low), len(v.low)).Draw(t, "equation")
		cut, _ := c.cut(equation, v.solution())
		cuts := append(c.rows[len(p.Capacity):], cut)
		added += len(cuts) - 1
		eachChoice(p, func(choice []int) {
			for _, cut := range cuts {
				if nodes := inRow(c, cut, choice); nodes > cut.nodes {
					t.Fatalf("choice %v has %d in the cut %v", choice, nodes, cut)
				}
			}
		})
	})
	t.Logf("%d cuts of vertices", added)
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
		effort := DefaultEffort()
		if classes > 1 {
			effort.Cuts = rapid.IntRange(0, 2).Draw(t, "cuts") // Few cuts require branching.
			effort.Vertices = rapid.SampledFrom([]int{0, 3, effort.Vertices}).Draw(t, "vertices")
		}
		r := Solve(clock(t), p, effort)
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
	most := make([]int, size) // by largest number of jobs with nodes
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

// TestTiesOfIdenticalJobs checks that running jobs keep their nodes if identical jobs wait.
func TestTiesOfIdenticalJobs(t *testing.T) {
	options := []Option{option(0, 0, -1), option(0, 1, 1)}
	p := &Problem{Capacity: []int{2}, Jobs: slices.Repeat([][]Option{options}, 5), Current: make([]Allocation, 5), Start: make([]int, 5)}
	p.Current[0], p.Current[4] = options[1].Allocation, options[1].Allocation
	if r := Solve(clock(t), p, DefaultEffort()); !slices.Equal(r.Choice, []int{1, 0, 0, 0, 1}) {
		t.Errorf("jobs have options %v; must be those with the nodes in use", r.Choice)
	}
}
