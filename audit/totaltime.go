package audit

import (
	"cmp"
	"math"
	"slices"
)

// totalTime is OBJECTIVE_TOTAL_TIME: its options, and what it takes from all jobs, in the
// terms of docs/explanation/completion-time-objective.md and docs/schedulers/node-types.md.
type totalTime struct {
	fairness, aging, price, payback, pause, bonus, cadence float64
	quotaPrice, etaError                                   float64
	meanWeight                                             float64
	terms                                                  []terms // of every job
}

// terms are what the objective makes of a job.
type terms struct {
	job      *job
	kinds    []*kind // those that have room for it, all if none has
	weight   float64 // w', with its aging
	rho      float64 // speed of a mean node for it
	demand   float64 // on that, delta
	most     float64 // its largest size, K
	fastest  float64 // the highest speed at the largest size of a type
	etaError float64
	key      float64
	gradient float64 // c
	doubt    float64 // how far c may be off, relatively
}

const (
	// nearTie is how near the keys of two jobs may be without being equal, relatively. As far off
	// may a key be, and V_(i-1) of more than fewJobs jobs with ETA errors, of all weights and V_0.
	nearTie = 1e-12
	fewJobs = 64
)

// ties reports whether the keys of two jobs are the same however they are rounded.
func (of *terms) ties(other *terms) bool {
	return of.demand == other.demand && of.weight == other.weight
}

// before reports whether a job whose key is not below another's stands before it however both are
// rounded, or ties.
func (of *terms) before(other *terms) bool {
	if of.demand == other.demand {
		return of.weight == other.weight || of.weight < other.weight*(1-0x1p-50)
	}
	return of.key-other.key >= nearTie*max(1, math.Abs(of.key))
}

// told returns a speed as the objective tells it from others.
func told(speed float64) float64 { return max(speed, 1e-30) }

// told returns the speed on some nodes, the curve of which is told from others.
func (k *kind) told(nodes float64) float64 { return k.factor * told(k.at(nodes)) }

// mean returns the mean of a number over the nodes of some kinds; where there are none, each kind
// counts alike.
func (s *snapshot) mean(kinds []*kind, number func(k *kind) float64) float64 {
	sum, nodes, alike := 0.0, 0.0, 0.0
	for _, k := range kinds {
		of := float64(s.nodes[k.on])
		sum, nodes, alike = sum+of*number(k), nodes+of, alike+number(k)
	}
	if nodes == 0 {
		return alike / float64(len(kinds))
	}
	return sum / nodes
}

// roomy returns the kinds of a job that have room for it.
func (s *snapshot) roomy(j *job) []*kind {
	return slices.DeleteFunc(slices.Clone(j.kinds), func(k *kind) bool { return k.sizes[0] > s.nodes[k.on] })
}

// rho returns the speed of a mean node of some kinds.
func (s *snapshot) rho(kinds []*kind) float64 {
	return s.mean(kinds, func(k *kind) float64 { return k.factor })
}

// prepare works out what the objective takes from all jobs that are not held.
func (o *totalTime) prepare(s *snapshot, e *effort) error {
	o.terms = make([]terms, len(s.jobs))
	var order []*terms
	for i := range s.jobs {
		if j := &s.jobs[i]; !j.held {
			o.terms[i].job = j
			order = append(order, &o.terms[i])
		}
	}
	n, used, exponents := float64(len(order)), make([]bool, len(s.nodes)), []float64(nil)
	o.meanWeight = 0
	for _, of := range order {
		o.setTerms(s, of)
		for _, k := range of.kinds {
			used[k.on] = used[k.on] || k.sizes[0] <= s.nodes[k.on]
		}
		scaling := slices.DeleteFunc(slices.Clone(of.kinds), func(k *kind) bool { return k.most() == 1 })
		if len(scaling) > 0 {
			exponents = append(exponents, s.mean(scaling, func(k *kind) float64 { return math.Log(told(k.at(k.most()))) / math.Log(k.most()) }))
		}
		o.meanWeight += of.weight / n
	}
	pool, all, meanMost := 0.0, 0.0, 0.0
	for on, nodes := range s.nodes {
		if all += float64(nodes); used[on] {
			pool += float64(nodes)
		}
	}
	if pool = cmp.Or(pool, all); pool == 0 {
		return nil
	}
	for _, of := range order {
		meanMost += min(of.most, pool) / n
	}
	a := math.Log2(1.6)
	slices.Sort(exponents)
	if m := len(exponents); m > 0 {
		a = (exponents[m/2] + exponents[(m-1)/2]) / 2
	}
	a = min(max(a, 0.05), 0.97)

	roundErrors(order)
	order = slices.DeleteFunc(order, func(of *terms) bool { return of.weight == 0 })
	total := 0.0
	for _, of := range order {
		of.key = math.Log(of.demand) - a*math.Log(of.weight)
		total += of.weight
	}
	slices.SortStableFunc(order, func(x, y *terms) int { return cmp.Compare(y.key, x.key) })
	exact := slices.DeleteFunc(slices.Clone(order), func(of *terms) bool { return of.etaError > 0 })
	inexact := slices.DeleteFunc(slices.Clone(order), func(of *terms) bool { return of.etaError == 0 })
	for at := 1; at < len(exact); at++ {
		if !exact[at-1].before(exact[at]) {
			return leaveOpen("two jobs stand at the same place of the order up to rounding")
		}
	}
	start, longer := o.fairness*pool/meanMost*o.meanWeight, 0.0 // V_0, and the weight of exact jobs so far
	for _, of := range order {
		v, others, off := start+of.weight, order, 0.0
		if len(order) > fewJobs && len(inexact) > 0 {
			off = start + total
		}
		if of.etaError == 0 {
			v, others, longer = v+longer, inexact, longer+of.weight
		}
		e.spend(30 * len(others))
		for _, other := range others {
			if other != of {
				// The other one outlasts this one with probability Phi(-x), whose slope is less
				// than half of exp(-x^2/2).
				width := math.Hypot(of.etaError, other.etaError)
				x := (of.key - other.key) / width
				v += other.weight * math.Erfc(x/math.Sqrt2) / 2
				if !of.ties(other) {
					off += other.weight / width * math.Exp(-x*x/2)
				}
			}
		}
		of.doubt = nearTie * off / v // c grows no faster than V, relatively.
		least := slices.MinFunc(of.kinds, func(a, b *kind) int { return cmp.Compare(a.sizes[0], b.sizes[0]) }).sizes[0]
		share := min(max(pool/n, 1, float64(least)), of.most)
		u := s.mean(of.kinds, func(k *kind) float64 { return k.told(share) }) / of.rho / math.Pow(share, a)
		// 1 - (V before / V)^p without cancellation.
		power := 1 / (1 - a)
		left := -math.Expm1(power * math.Log1p(-of.weight/v))
		of.gradient = max(of.gradient, v*math.Pow(left, 1/power)/(math.Pow(pool, a)*u))
	}
	return nil
}

// setTerms sets what the objective makes of a job by itself. An ETA error below 1e-4 is none.
func (o *totalTime) setTerms(s *snapshot, of *terms) {
	j := of.job
	if of.kinds = s.roomy(j); len(of.kinds) == 0 {
		of.kinds = j.kinds
	}
	if of.weight = j.weight; o.aging > 0 {
		of.weight *= 1 + j.waiting/max(o.aging, 100*j.restart)
	}
	of.rho = s.rho(of.kinds)
	of.demand = j.demand / of.rho
	for _, k := range of.kinds {
		of.most, of.fastest = max(of.most, k.most()), max(of.fastest, k.told(k.most()))
	}
	of.gradient = of.weight * of.rho / of.fastest // at least
	if of.etaError = j.etaError; of.etaError < 0 {
		of.etaError = o.etaError
	}
	if of.etaError < 1e-4 {
		of.etaError = 0
	}
	of.etaError = max(of.etaError, j.leastError())
}

// leastError is the ETA error that counts at least: where changes cost something, no rank is sharp.
func (j *job) leastError() float64 {
	if j.restart > 0 {
		return 0.1
	}
	return 0
}

// roundErrors rounds ETA errors to quarters, but for the least, of more than 1,000 jobs with more than 24
// different ones.
func roundErrors(jobs []*terms) {
	different := make(map[float64]bool)
	for _, of := range jobs {
		different[of.etaError] = true
	}
	for _, of := range jobs {
		if len(jobs) > 1000 && len(different) > 24 {
			of.etaError = max(math.Round(4*of.etaError)/4, of.job.leastError())
		}
	}
}

// value returns what some nodes of a kind are worth to job i, and the magnitudes that it is
// the sum of. The restart of a job that is paused and goes on counts with the pause: a queued
// job has no type that it could move from.
func (o *totalTime) value(i int, j *job, k *kind, nodes int) (value, magnitude float64) {
	of, speed, now := &o.terms[i], 0.0, 0.0
	saved, bonus, cost, moves, restart := 0.0, 0.0, 0.0, false, j.restart
	if nodes > 0 {
		moves, restart = j.moveTo(k.on)
		speed = told(k.speed(float64(nodes))) / of.rho
		saved = of.gradient * speed
		if o.cadence > 0 {
			saved = (of.gradient*min(o.cadence*speed, of.demand) + of.weight*max(0, o.cadence-of.demand/speed)) / o.cadence
		}
	}
	if j.current > 0 {
		now = j.here.told(float64(j.current)) / of.rho
	}
	price, payback, faster := o.price*o.meanWeight, max(o.payback, 4*restart), max(speed, now)
	switch {
	case nodes == j.current && !moves:
	case !j.trained:
		bonus = o.bonus * o.meanWeight / o.payback
	case j.current == 0:
		cost = min(price/payback, saved/2)
	default:
		lost := faster // by the second of a restart
		if moves {
			lost = speed
		}
		if nodes == 0 {
			price *= o.pause
		}
		cost = (price + restart*of.gradient*lost) / min(max(of.demand/faster, 1), payback)
	}
	return saved + bonus - cost, saved + bonus + cost
}
