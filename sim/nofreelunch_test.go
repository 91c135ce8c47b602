package sim

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestNoFreeLunch checks the theorem of docs/explanation/completion-time-objective.md on random schedules of
// divisible nodes: a schedule that completes some jobs earlier than max-min fair share completes others later. It
// shares no code with the simulator.
func TestNoFreeLunch(t *testing.T) {
	t.Parallel()
	earlier, later := 0, 0
	for seed := range uint64(600) {
		random := rand.New(rand.NewPCG(seed, 0))
		p := randomIdealPool(random)
		fair, presence := p.run(p.maxMin)
		other, _ := p.run(randomSchedule(random, p))
		sum, all := 0.0, 0.0
		for i := range p.jobs {
			sum += p.value(presence, other[i]) - p.value(presence, fair[i])
			all += p.value(presence, fair[i])
			if other[i] < fair[i] {
				earlier++
			} else if other[i] > fair[i] {
				later++
			}
		}
		if sum < -1e-9*all {
			t.Errorf("seed %d: the jobs complete earlier by a value of %v in total; want at most 0", seed, -sum)
		}
	}
	if t.Logf("%d jobs complete earlier, %d later", earlier, later); earlier < 1000 {
		t.Errorf("%d jobs complete earlier; want at least 1000", earlier)
	}
}

// idealPool is a pool of divisible nodes whose jobs have the same speed curve.
type idealPool struct {
	nodes   float64
	speed   func(nodes float64) float64
	slope   func(nodes float64) float64 // derivative of speed
	largest float64                     // more nodes do not make a job faster
	jobs    []divisibleJob              // by time of arrival
}

// divisibleJob has its work in seconds on one node.
type divisibleJob struct{ arrival, work float64 }

func randomIdealPool(random *rand.Rand) *idealPool {
	p := &idealPool{nodes: float64(1 + random.IntN(32))}
	p.largest = min(p.nodes, float64(1+random.IntN(16)))
	switch a := 0.1 + 0.85*random.Float64(); random.IntN(3) {
	case 0:
		p.speed, p.slope = func(k float64) float64 { return math.Pow(k, a) }, func(k float64) float64 { return a * math.Pow(k, a-1) }
	case 1: // Amdahl's law
		p.speed, p.slope = func(k float64) float64 { return k / (1 - a + a*k) },
			func(k float64) float64 { return (1 - a) / ((1 - a + a*k) * (1 - a + a*k)) }
	default:
		p.speed, p.slope = math.Log1p, func(k float64) float64 { return 1 / (1 + k) }
	}
	arrival := 0.0
	for range 2 + random.IntN(20) {
		p.jobs = append(p.jobs, divisibleJob{arrival, 10 + 1000*math.Pow(random.Float64(), 3)})
		arrival += 100 * random.ExpFloat64() * float64(random.IntN(2))
	}
	return p
}

// idealSchedule sets the nodes of the present jobs until the next event, which is at the latest after the returned
// time. loading are the jobs that make no progress until then.
type idealSchedule func(left []float64, present []int) (nodes map[int]float64, loading map[int]bool, until float64)

// presence is a number of present jobs from a time on.
type presence struct {
	from float64
	jobs int
}

// run returns the completion time of each job and how many jobs are present when.
func (p *idealPool) run(schedule idealSchedule) (completions []float64, present []presence) {
	now, arrived := 0.0, 0
	left := make([]float64, len(p.jobs))
	completions = make([]float64, len(p.jobs))
	for {
		var active []int
		for ; arrived < len(p.jobs) && p.jobs[arrived].arrival <= now; arrived++ {
			left[arrived] = p.jobs[arrived].work
		}
		for i := range arrived {
			if left[i] > 0 {
				active = append(active, i)
			}
		}
		present = append(present, presence{now, len(active)})
		next := math.Inf(1)
		if arrived < len(p.jobs) {
			next = p.jobs[arrived].arrival
		} else if len(active) == 0 {
			return completions, present
		}
		nodes, loading, until := schedule(left, active)
		next = min(next, now+until)
		speed := make(map[int]float64)
		for i, k := range nodes {
			if !loading[i] {
				speed[i] = p.speed(min(k, p.largest))
				next = min(next, now+left[i]/speed[i])
			}
		}
		for i, s := range speed {
			if done := s * (next - now); left[i]-done < 1e-12*p.jobs[i].work {
				left[i], completions[i] = 0, next
			} else {
				left[i] -= done
			}
		}
		now = next
	}
}

// maxMin is max-min fair share.
func (p *idealPool) maxMin(_ []float64, present []int) (nodes map[int]float64, loading map[int]bool, until float64) {
	nodes = make(map[int]float64)
	for _, i := range present {
		nodes[i] = p.nodes / float64(len(present))
	}
	return nodes, nil, math.Inf(1)
}

// randomSchedule returns a schedule that favors short jobs to a random degree and divides nodes at random
// otherwise. In some of the schedules, nodes are whole, and jobs make no progress in a part of the time, as in restarts.
func randomSchedule(random *rand.Rand, p *idealPool) idealSchedule {
	favor, spread := 4*random.Float64(), random.Float64()
	whole, restarts := random.IntN(2) == 0, random.IntN(3) == 0
	return func(left []float64, present []int) (nodes map[int]float64, loading map[int]bool, until float64) {
		order := slices.SortedFunc(slices.Values(present), func(i, j int) int { return cmp.Compare(left[i], left[j]) })
		share, sum := make(map[int]float64), 0.0
		for rank, i := range order {
			share[i] = math.Pow(float64(len(order)-rank), favor) * math.Exp(spread*random.NormFloat64())
			sum += share[i]
		}
		nodes, loading = make(map[int]float64), make(map[int]bool)
		idle := p.nodes
		for _, i := range order {
			k := min(p.largest, idle, p.nodes*share[i]/sum)
			if whole {
				k = min(math.Ceil(k), math.Floor(idle))
			}
			if k > 0 {
				nodes[i], idle = k, idle-k
				loading[i] = restarts && random.IntN(3) == 0
			}
		}
		return nodes, loading, 20 * random.ExpFloat64()
	}
}

// value returns the integral of g up to a time, where g(x) = s(x) - x s'(x) on the fair share x of the jobs that are present.
func (p *idealPool) value(present []presence, until float64) (sum float64) {
	for n, from := range present {
		end := until
		if n+1 < len(present) {
			end = min(until, present[n+1].from)
		}
		if end > from.from {
			sum += (end - from.from) * p.g(from.jobs)
		}
	}
	return sum
}

// g returns g(x) if the given number of jobs is present. More than largest nodes do not make a job faster.
func (p *idealPool) g(jobs int) float64 {
	if x := p.nodes / float64(jobs); x < p.largest {
		return p.speed(x) - x*p.slope(x)
	}
	return p.speed(p.largest)
}
