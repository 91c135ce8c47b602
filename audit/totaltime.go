package audit

import (
	"cmp"
	"math"
	"slices"
)

// totalTime is OBJECTIVE_TOTAL_TIME: its options, and what it takes from all jobs, in the
// terms of docs/total-time.md.
type totalTime struct {
	fairness, aging, price, payback, pause, bonus, cadence float64
	quotaPrice, etaError                                   float64
	meanWeight                                             float64
	gradient                                               []float64 // c of every job
	doubt                                                  []float64 // how far c may be off, relatively
}

const (
	// nearTie is how near the keys of two jobs may be without being equal, relatively. As far off
	// may a key be, and V_(i-1) of more than fewJobs jobs with ETA errors, of all weights and V_0.
	nearTie = 1e-12
	fewJobs = 64
	// mostPairs is how many pairs with an ETA error are summed.
	mostPairs = 1 << 26
)

// aged returns the weight of a job with its aging, w'.
func (o *totalTime) aged(j *job) float64 {
	if o.aging == 0 {
		return j.weight
	}
	return j.weight * (1 + j.waiting/o.aging)
}

// told returns a speed as the objective tells it from others.
func told(j *job, nodes float64) float64 {
	if nodes <= 0 {
		return 0
	}
	return max(j.speedAt(nodes), 1e-30)
}

// prepare works out what the objective takes from all jobs that are not held.
func (o *totalTime) prepare(s *snapshot) error {
	var order []int
	for i := range s.jobs {
		if !s.jobs[i].held {
			order = append(order, i)
		}
	}
	n, pool := float64(len(order)), float64(s.pool)
	meanMost, exponents := 0.0, []float64(nil)
	for _, i := range order {
		j := &s.jobs[i]
		most := float64(slices.Max(j.sizes))
		o.meanWeight += o.aged(j) / n
		meanMost += min(most, pool) / n
		if most > 1 {
			exponents = append(exponents, math.Log(told(j, most))/math.Log(most))
		}
	}
	a := math.Log2(1.6)
	slices.Sort(exponents)
	if m := len(exponents); m > 0 {
		a = (exponents[m/2] + exponents[(m-1)/2]) / 2
	}
	a = min(max(a, 0.05), 0.97)
	power := 1 / (1 - a)

	sd := o.etaErrors(s, order)
	order = slices.DeleteFunc(order, func(i int) bool { return s.jobs[i].weight == 0 })
	key, total := make([]float64, len(s.jobs)), 0.0
	for _, i := range order {
		key[i] = math.Log(s.jobs[i].demand) - a*math.Log(o.aged(&s.jobs[i]))
		total += o.aged(&s.jobs[i])
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(key[y], key[x]) })
	exact := slices.DeleteFunc(slices.Clone(order), func(i int) bool { return sd[i] > 0 })
	inexact := slices.DeleteFunc(slices.Clone(order), func(i int) bool { return sd[i] == 0 })
	if len(order)*len(inexact) > mostPairs {
		return leaveOpen("%d of %d jobs have an ETA error, which is too many pairs to sum", len(inexact), len(order))
	}
	for at := 1; at < len(exact); at++ {
		x, y := exact[at-1], exact[at]
		same := s.jobs[x].demand == s.jobs[y].demand && o.aged(&s.jobs[x]) == o.aged(&s.jobs[y])
		if gap := key[x] - key[y]; !same && gap < nearTie*max(1, math.Abs(key[x])) {
			return leaveOpen("two jobs stand at the same place of the order up to rounding")
		}
	}
	start, longer := 0.0, 0.0 // V_0, and the weight of exact jobs so far
	if pool > 0 && n > 0 {
		start = o.fairness * pool / meanMost * o.meanWeight
	}
	o.gradient, o.doubt = make([]float64, len(s.jobs)), make([]float64, len(s.jobs))
	for _, i := range order {
		j, w, c := &s.jobs[i], o.aged(&s.jobs[i]), 0.0
		v, others, off := start+w, order, 0.0
		if len(order) > fewJobs && len(inexact) > 0 {
			off = start + total
		}
		if sd[i] == 0 {
			v, others, longer = v+longer, inexact, longer+w
		}
		for _, other := range others {
			if other != i {
				// The other one outlasts this one with probability Phi(-x), whose slope is less
				// than half of exp(-x^2/2).
				weight, width := o.aged(&s.jobs[other]), math.Hypot(sd[i], sd[other])
				x := (key[i] - key[other]) / width
				v += weight * math.Erfc(x/math.Sqrt2) / 2
				off += weight / width * math.Exp(-x*x/2)
			}
		}
		o.doubt[i] = nearTie * off / v // c grows no faster than V, relatively.
		most := float64(slices.Max(j.sizes))
		if pool > 0 {
			share := min(max(pool/n, 1, float64(j.sizes[0])), most)
			u := told(j, share) / math.Pow(share, a)
			// 1 - (V before / V)^p without cancellation.
			left := -math.Expm1(power * math.Log1p(-w/v))
			c = v * math.Pow(left, 1/power) / (math.Pow(pool, a) * u)
		}
		o.gradient[i] = max(c, w/told(j, most))
	}
	return nil
}

// etaErrors returns the ETA errors of some jobs. What is below 1e-4 is 0, and of more than
// 1,000 jobs with more than 24 different errors each is rounded to quarters.
func (o *totalTime) etaErrors(s *snapshot, jobs []int) []float64 {
	sd, different := make([]float64, len(s.jobs)), make(map[float64]bool)
	for _, i := range jobs {
		if sd[i] = s.jobs[i].etaError; sd[i] < 0 {
			sd[i] = o.etaError
		}
		if sd[i] < 1e-4 {
			sd[i] = 0
		}
		different[sd[i]] = true
	}
	if len(jobs) > 1000 && len(different) > 24 {
		for i := range sd {
			sd[i] = math.Round(4*sd[i]) / 4
		}
	}
	return sd
}

// value returns what k nodes are worth to a job with gradient c, and the magnitudes that it
// is the sum of.
func (o *totalTime) value(j *job, c float64, k int) (value, magnitude float64) {
	speed, saved, bonus, cost := told(j, float64(k)), 0.0, 0.0, 0.0
	if k > 0 {
		saved = c * speed
		if o.cadence > 0 {
			saved = (c*min(o.cadence*speed, j.demand) + o.aged(j)*max(0, o.cadence-j.demand/speed)) / o.cadence
		}
	}
	change := o.price*o.meanWeight + j.restart*c*speed
	switch {
	case k == j.current:
	case !j.trained:
		bonus = o.bonus * o.meanWeight / o.payback
	case j.current == 0:
		cost = min(change/o.payback, saved/2)
	default:
		if k == 0 {
			change = o.pause * o.price * o.meanWeight
		}
		left := j.demand / max(speed, told(j, float64(j.current)))
		cost = change / min(max(left, 1), o.payback)
	}
	return saved + bonus - cost, saved + bonus + cost
}
