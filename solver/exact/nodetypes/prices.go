package nodetypes

import (
	"math"
	"slices"
)

// The prices: the least of the bound D, by Newton's method.
//
// D has corners wherever a job's best option changes. So phi_i is replaced by
// T log sum exp((v - lambda k) / T), which is smooth and above it by little where the
// temperature T is low, and T falls step by step. What is left of a pool where nothing more
// can be gained, or where no choice leaves any, makes many prices the best: moreNodes, added
// to each capacity, makes it the smallest of them, which is what one more node is worth.

const (
	moreNodes = 0x1p-10
	// cooling is the factor by which the temperature falls; near is the decrease in D, in
	// temperatures, below which it does.
	cooling = 4.0
	near    = 2e-3
	// patience is how many steps at a temperature are short: each further one may be twice as
	// long, where the bound is straight for millions of temperatures.
	patience = 16
	// coldest is the last temperature, as a share of what a job has on average.
	coldest = 1e-7
	// reach is the number of temperatures beyond which an option has no share.
	reach = 36
	// leastShared is the same for options that jobs may be rounded to.
	leastShared = 6
	// firstSample and moreJobs are the number of jobs that prices are sought for first, and
	// how many times as many it is next.
	firstSample = 256
	moreJobs    = 16
)

// cheapest returns prices of about the least bound, or where the search was when time was up,
// and a choice that loses little there and holds about the capacities.
func (s *search) cheapest() (prices []float64, choice []int) {
	prices = make([]float64, len(s.Capacity))
	most, short := s.bests()
	temperature := 0.0
	for i, options := range s.Jobs {
		least := math.Inf(1)
		for n := range options {
			least = min(least, options[n].Value)
		}
		// What loses more than short is in no choice that is better than the one known.
		temperature += min(most[i]-least, short) / float64(len(s.Jobs))
	}
	last := coldest * temperature
	if last < 0x1p-900 {
		return prices, s.choice // nothing that prices could tell apart
	}
	for sample := firstSample; 2*sample < len(s.Jobs); sample *= moreJobs {
		jobs, capacity := s.sample(sample)
		// Prices of a sample are off by about this much.
		until := temperature * 0.8 / math.Sqrt(moreJobs)
		if sample == firstSample {
			until = temperature * 0.8 / math.Sqrt(firstSample)
		}
		s.descend(jobs, capacity, prices, temperature, until)
		temperature = until
	}
	all, capacity := s.sample(len(s.Jobs))
	reached := s.descend(all, capacity, prices, temperature, last)
	return prices, s.newSmooth(all, capacity).round(prices, reached)
}

// sample returns some of the jobs and their share of the capacities, which is at least what the
// choice gives them: prices of what does not fit rise for ever.
func (s *search) sample(size int) (jobs [][]Option, capacity []float64) {
	jobs, capacity = make([][]Option, size), make([]float64, len(s.Capacity))
	for n := range jobs {
		i := n * len(s.Jobs) / size
		jobs[n] = s.Jobs[i]
		o := &jobs[n][s.choice[i]]
		capacity[o.Type] += float64(o.Nodes)
	}
	for g, nodes := range s.Capacity {
		capacity[g] = max(capacity[g], float64(nodes)*float64(size)/float64(len(s.Jobs))) + moreNodes
	}
	return jobs, capacity
}

// descend lowers the bound of some of the jobs on their capacities from one temperature to about
// another, which it returns.
func (s *search) descend(jobs [][]Option, capacity, prices []float64, temperature, last float64) (reached float64) {
	now, next := s.newSmooth(jobs, capacity), s.newSmooth(jobs, capacity)
	trial := make([]float64, len(prices))
	for ; temperature >= last; temperature /= cooling {
		reached = temperature
		now.at(prices, temperature)
		longest := 4 * temperature
		for n := 0; !s.clock.Ended; n++ {
			if n > patience {
				longest *= 2
			}
			step := now.step(prices, longest)
			decrease := 0.0
			for g := range step {
				decrease -= now.gradient[g] * step[g]
			}
			if !(decrease > near*temperature) {
				break
			}
			share := 1.0
			for ; share > 1e-6; share /= 2 {
				for g := range trial {
					trial[g] = max(0, prices[g]+share*step[g])
				}
				if next.at(trial, temperature); next.value <= now.value-0.1*share*decrease {
					break
				}
			}
			if !(next.value < now.value) {
				break
			}
			copy(prices, trial)
			now, next = next, now
		}
	}
	return reached
}

// smooth is the smooth bound at prices, with its derivatives.
type smooth struct {
	*search
	jobs         [][]Option
	capacity     []float64
	net          []float64 // scratch: of a job's options net of prices, and its nodes' means
	mean, square []float64

	value    float64
	gradient []float64
	hessian  [][]float64 // lower triangle
}

func (s *search) newSmooth(jobs [][]Option, capacity []float64) *smooth {
	f := &smooth{search: s, jobs: jobs, capacity: capacity, gradient: make([]float64, len(s.Capacity)), mean: make([]float64, len(s.Capacity)), square: make([]float64, len(s.Capacity))}
	for g := range s.Capacity {
		f.hessian = append(f.hessian, make([]float64, g+1))
	}
	return f
}

// at works out the bound and its derivatives, unless time is up.
func (f *smooth) at(prices []float64, temperature float64) {
	copy(f.gradient, f.capacity)
	f.value = 0
	for g, price := range prices {
		f.value += price * f.capacity[g]
		clear(f.hessian[g])
	}
	for _, options := range f.jobs {
		best, second, at := f.nets(options, prices)
		if best-second > reach*temperature {
			f.value += best
			f.gradient[options[at].Type] -= float64(options[at].Nodes)
		} else {
			f.share(options, best, temperature)
		}
		if f.clock.Up(2 * len(options)) {
			return
		}
	}
}

// nets works out what options are worth net of prices, and returns the best and the second
// best of that, and the best's position.
func (f *smooth) nets(options []Option, prices []float64) (best, second float64, at int) {
	f.net = f.net[:0]
	best, second = math.Inf(-1), math.Inf(-1)
	for n := range options {
		o := &options[n]
		net := o.Value - prices[o.Type]*float64(o.Nodes)
		f.net = append(f.net, net)
		if net > best {
			best, second, at = net, best, n
		} else if net > second {
			second = net
		}
	}
	return best, second, at
}

// round returns a choice of options that have shares at the temperature, each the one that
// brings what the jobs up to it hold nearest to what their shares do, or the best that fits.
func (f *smooth) round(prices []float64, temperature float64) []int {
	choice, ahead := make([]int, len(f.jobs)), make([]float64, len(prices)) // of the shares
	free := slices.Clone(f.Capacity)
	for i, options := range f.jobs {
		if f.clock.Up(4 * len(options)) {
			break
		}
		best, second, at := f.nets(options, prices)
		if best-second > reach*temperature {
			clear(f.mean)
			f.mean[options[at].Type] = float64(options[at].Nodes)
		} else {
			f.share(options, best, temperature)
		}
		for g, mean := range f.mean {
			ahead[g] -= mean
		}
		nearest, most := math.Inf(1), math.Inf(-1)
		for n, net := range f.net {
			o, off := &options[n], math.Inf(1)
			if int(o.Nodes) > free[o.Type] {
				continue
			}
			if net >= best-leastShared*temperature {
				off = 0
				for g, by := range ahead {
					if g == int(o.Type) {
						by += float64(o.Nodes)
					}
					off += prices[g] * prices[g] * by * by
				}
			}
			if off < nearest || math.IsInf(nearest, 1) && net > most {
				nearest, most, choice[i] = off, net, n
			}
		}
		o := &options[choice[i]]
		ahead[o.Type] += float64(o.Nodes)
		free[o.Type] -= int(o.Nodes)
	}
	return choice
}

// share adds a job more than one option of which has a share at the temperature.
func (f *smooth) share(options []Option, best, temperature float64) {
	clear(f.mean)
	clear(f.square)
	sum := 0.0
	for n, net := range f.net {
		if x := (net - best) / temperature; x > -reach {
			share, nodes := math.Exp(x), float64(options[n].Nodes)
			sum += share
			f.mean[options[n].Type] += share * nodes
			f.square[options[n].Type] += share * nodes * nodes
		}
	}
	f.value += best + temperature*math.Log(sum)
	for g := range f.gradient {
		f.mean[g] /= sum
		f.gradient[g] -= f.mean[g]
		f.hessian[g][g] += f.square[g] / sum / temperature
		for h, mean := range f.mean[:g+1] {
			f.hessian[g][h] -= f.mean[g] * mean / temperature
		}
	}
}

// step returns Newton's step from prices, none of it longer than longest. Where the Hessian is
// too flat for that, its diagonal is raised. Prices that are 0 and would fall stay.
func (f *smooth) step(prices []float64, longest float64) []float64 {
	types := len(prices)
	step, factor := make([]float64, types), make([][]float64, types)
	// The factor L of the Hessian L L', row by row; L y = -gradient; then L' step = y.
	for g, price := range prices {
		row := slices.Clone(f.hessian[g])
		factor[g] = row
		if price == 0 && f.gradient[g] >= 0 {
			factor[g] = nil
			continue
		}
		step[g] = -f.gradient[g]
		for h, above := range factor[:g] {
			if above == nil {
				row[h] = 0
				continue
			}
			for k, v := range above[:h] {
				row[h] -= row[k] * v
			}
			row[h] /= above[h]
			row[g] -= row[h] * row[h]
			step[g] -= row[h] * step[h]
		}
		raised := row[g] + math.Abs(f.gradient[g])/longest/4
		row[g] = math.Sqrt(max(raised, 1e-12*f.hessian[g][g], math.SmallestNonzeroFloat64))
		step[g] /= row[g]
	}
	for g, row := range slices.Backward(factor) {
		if row == nil {
			continue
		}
		step[g] /= row[g]
		for h, v := range row[:g] {
			step[h] -= v * step[g]
		}
	}
	most := longest
	for _, by := range step {
		most = max(most, math.Abs(by))
	}
	for g, price := range prices {
		step[g] = max(step[g]*longest/most, -price)
	}
	return step
}
