package rows

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// randomProblem describes a random problem of the completion-time objective.
type randomProblem struct {
	types, nodes, jobs int
	warm               bool
	seed               uint64
}

func (d randomProblem) String() string {
	state := "cold"
	if d.warm {
		state = "warm"
	}
	return fmt.Sprintf("types=%d/nodes=%d/jobs=%d/%s", d.types, d.nodes, d.jobs, state)
}

// problem returns the random problem. The speeds of a job on a type are log-normal around the speed of the type.
func (d randomProblem) problem() *Problem {
	r := rand.New(rand.NewPCG(d.seed, uint64(d.types)))
	p := &Problem{Capacity: d.capacity(r), Current: make([]Allocation, d.jobs), Start: make([]int, d.jobs)}
	speed := make([]float64, d.types)
	for g := range speed {
		speed[g] = math.Exp(0.7 * r.NormFloat64())
	}
	weight := d.weights(r)
	free := slices.Clone(p.Capacity)
	for i := range d.jobs {
		restart, options := d.options(r, p.Capacity, speed, weight[i])
		if d.warm && r.Float64() > 0.06 {
			p.Current[i] = randomStart(r, options, free)
		}
		if now := p.Current[i]; now.Nodes > 0 {
			for n := range options {
				if o := &options[n]; o.Allocation != now {
					o.Value -= (75 + restart*o.Value) / 900
				}
			}
		}
		p.Jobs = append(p.Jobs, options)
	}
	return p
}

// capacity divides the nodes among the types.
func (d randomProblem) capacity(r *rand.Rand) []int {
	capacity := make([]int, d.types)
	left := d.nodes
	for g := range capacity {
		share := left / (d.types - g)
		if g < d.types-1 {
			share = share * (6 + r.IntN(9)) / 10
		}
		capacity[g] = share
		left -= share
	}
	return capacity
}

// weights returns what each job is worth by heSRPT: the more, the shorter it is. Demands are log-normal.
func (d randomProblem) weights(r *rand.Rand) []float64 {
	demand := make([]float64, d.jobs)
	order := make([]int, d.jobs)
	for i := range order {
		order[i], demand[i] = i, math.Exp(9+1.5*r.NormFloat64())
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(demand[b], demand[a]) })
	const a, power = 0.68, 1 / (1 - 0.68)
	c := make([]float64, d.jobs)
	before := 0.1 * float64(d.jobs)
	for _, i := range order {
		after := before + 1
		c[i] = after * math.Pow(1-math.Pow(before/after, power), 1/power) / math.Pow(float64(d.nodes), a)
		before = after
	}
	return c
}

// options returns the restart time of a job of a weight, in seconds, and its options before restarts.
func (d randomProblem) options(r *rand.Rand, capacity []int, speed []float64, weight float64) (restart float64, options []Option) {
	options = []Option{{}}
	efficiency := 0.7 + 0.25*r.Float64()
	restart = 25 + 225*r.Float64()
	largest := 1 << (2 + r.IntN(4))
	rho := 0.0
	factor := make([]float64, d.types)
	for g := range factor {
		factor[g] = speed[g] * math.Exp(0.4*r.NormFloat64())
		rho += factor[g] * float64(capacity[g]) / float64(d.nodes)
	}
	for g := range factor {
		bend := 0.3 * r.Float64()
		for k := 1; k <= min(largest, capacity[g]); k *= 2 {
			curve := float64(k) * math.Pow(efficiency, math.Log2(float64(k))) * math.Exp(-bend*float64(k)/float64(largest))
			options = append(options, Option{
				Allocation: Allocation{Type: int16(g), Row: int16(g), Nodes: int32(k)}, Value: weight * factor[g] / rho * curve,
			})
		}
	}
	return restart, options
}

// randomStart takes the nodes of a random small option if they are free. Otherwise, the job has no nodes.
func randomStart(r *rand.Rand, options []Option, free []int) Allocation {
	o := options[r.IntN(min(4, len(options)))]
	if n := r.IntN(len(options)); options[n].Nodes <= 4 {
		o = options[n]
	}
	if int(o.Nodes) > free[o.Type] {
		return Allocation{}
	}
	free[o.Type] -= int(o.Nodes)
	return o.Allocation
}
