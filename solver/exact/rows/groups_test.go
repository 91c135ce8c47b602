package rows

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
)

// grouped returns a random problem with rows and with groups: two leaf groups in a department, and one without parent.
func grouped(r *rand.Rand) *Problem {
	p := limited(r)
	p.QuotaPrice = 2 * r.Float64()
	for _, parent := range []int{1, -1, 1, -1} {
		g := Group{Parent: parent, Limit: NoLimit, Floor: r.IntN(9)}
		if r.IntN(2) == 0 {
			g.Limit = r.IntN(10)
		}
		if r.IntN(2) == 0 {
			g.TypeLimits = make([]int, p.types())
			for on := range g.TypeLimits {
				g.TypeLimits[on] = r.IntN(6)
			}
		}
		p.Groups = append(p.Groups, g)
	}
	for range p.Jobs {
		p.GroupOf = append(p.GroupOf, []int{0, 2, 3}[r.IntN(3)])
	}
	return p
}

// eachLegal calls visit for each choice within all rows and limits of groups, with its exact value.
func eachLegal(p *Problem, visit func(choice []int, value *big.Rat)) {
	choice := make([]int, len(p.Jobs))
	var next func(i int)
	next = func(i int) {
		if i < len(choice) {
			for n := range p.Jobs[i] {
				choice[i] = n
				next(i + 1)
			}
			return
		}
		for _, left := range p.free(choice) {
			if left < 0 {
				return
			}
		}
		value := new(big.Rat)
		nodes, onType := make([]int, len(p.Groups)), make([][8]int, len(p.Groups))
		for i, n := range choice {
			o := &p.Jobs[i][n]
			value.Add(value, rat(o.Value))
			for g := p.GroupOf[i]; g >= 0; g = p.Groups[g].Parent {
				nodes[g] += int(o.Nodes)
				onType[g][o.Type] += int(o.Nodes)
			}
		}
		for g := range p.Groups {
			of := &p.Groups[g]
			for on, limit := range of.TypeLimits {
				if onType[g][on] > limit {
					return
				}
			}
			if nodes[g] > of.Limit {
				return
			}
			short := new(big.Rat).SetInt64(int64(max(0, of.Floor-nodes[g])))
			value.Sub(value, short.Mul(short, rat(p.QuotaPrice)))
		}
		visit(choice, value)
	}
	next(0)
}

// TestGroupPrices checks the lemma "node prices" with groups and the losses of the lemma "tree" with rational numbers: at
// random prices, no choice is worth more than the bound, and the bound minus the losses of a choice, which are rounded
// down, is at least its value and exceeds it by rounding errors only.
func TestGroupPrices(t *testing.T) {
	checked := 0
	for seed := range uint64(testtier.Conformance.Examples(60, 1000)) {
		r := rand.New(rand.NewPCG(seed, 35))
		p := grouped(r)
		s := newSearch(clock(t), p, GroupEffort())
		for range 5 {
			prices := make([]float64, s.rowCount())
			for row := range prices {
				low, high := s.priceRange(row)
				prices[row] = min(high, max(low, 3*r.Float64()*math.Pow(10, float64(-r.IntN(12)))*float64(r.IntN(3)-1)))
			}
			relaxed := s.relax(prices)
			bound := rat(relaxed.bound.up())
			eachLegal(p, func(choice []int, value *big.Rat) {
				if checked++; value.Cmp(bound) > 0 {
					t.Fatalf("seed %d: choice %v is worth %v; the bound is %v", seed, choice, value, relaxed.bound.up())
				}
				lost, net := new(big.Rat), nets{}
				for i, n := range choice {
					net.compute(s.Jobs[i], s.unitOf(relaxed.units, i), s.choice[i])
					lost.Add(lost, rat(net.loss(n)))
				}
				free := s.free(choice)
				for row, left := range free {
					if row < len(s.Capacity) {
						lost.Add(lost, rat(relaxed.prices[row]*float64(left)))
						continue
					}
					w := &s.windows.windows[row-len(s.Capacity)]
					lost.Add(lost, rat(w.loss(relaxed.prices[row], s.QuotaPrice, w.limit-left)))
				}
				more, _ := new(big.Rat).Sub(new(big.Rat).Sub(bound, lost), value).Float64()
				if scale := relaxed.bound.magnitude + 1; more < -1e-14*scale || more > 1e-12*scale {
					t.Fatalf("seed %d: the bound minus the losses of choice %v exceeds its value by %v", seed, choice, more)
				}
			})
		}
	}
	t.Logf("%d choices", checked)
}

// magnitude returns 1 plus the sum of the largest values of all jobs and of the largest costs of all quotas.
func magnitude(p *Problem) float64 {
	sum := 1.0
	for _, options := range p.Jobs {
		largest := 0.0
		for _, option := range options {
			largest = max(largest, math.Abs(option.Value))
		}
		sum += largest
	}
	for _, group := range p.Groups {
		sum += p.QuotaPrice * float64(group.Floor)
	}
	return sum
}

// TestGroupsExactly compares searches with an enumeration with rational numbers. The bound may exceed the optimum by the
// rounding error of the tables, which is a fraction of all values and of the costs of quotas.
func TestGroupsExactly(t *testing.T) {
	solved := 0
	for seed := range uint64(testtier.Conformance.Examples(150, 5000)) {
		p := grouped(rand.New(rand.NewPCG(seed, 37)))
		var best *big.Rat
		legal := false // the start, in which no job has nodes
		eachLegal(p, func(choice []int, value *big.Rat) {
			if best == nil || value.Cmp(best) > 0 {
				best = value
			}
			legal = true
		})
		if !legal {
			continue
		}
		solved++
		got := Solve(clock(t), p, GroupEffort())
		value := new(big.Rat)
		eachLegal(p, func(choice []int, v *big.Rat) {
			same := true
			for i := range choice {
				same = same && choice[i] == got.Choice[i]
			}
			if same {
				value = v
			}
		})
		if !got.Complete || value.Cmp(best) != 0 || rat(got.Bound).Cmp(best) < 0 || got.Bound-got.Value > 1e-12*magnitude(p) {
			want, _ := best.Float64()
			t.Errorf("seed %d: %+v; the optimum is %v", seed, got, want)
		}
	}
	t.Logf("%d solved", solved)
}
