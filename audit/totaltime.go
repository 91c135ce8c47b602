package audit

import (
	"cmp"
	"math"
	"slices"
)

// totalTime is OBJECTIVE_TOTAL_TIME: its options, and the terms that it computes from all jobs. The
// formulas are in docs/explanation/completion-time-objective.md and docs/schedulers/node-types.md.
type totalTime struct {
	fairness, aging, resizePrice, payback float64
	pausePriceFactor, startBonus, cadence float64
	quotaPrice, etaError, sharePrice      float64
	meanWeight                            float64
	terms                                 []terms // of every job
}

// terms are the terms of the objective for one job.
type terms struct {
	job      *job
	profiles []*profile // on the types that have enough nodes for the job, on all types if none has
	// rankWeight is w, the weight with aging. meanSpeed is rho, the speed on a mean node.
	rankWeight, meanSpeed float64
	work                  float64 // d, the remaining work on a mean node
	needed                float64 // work, and what the loading of a first start would do
	exceeds               bool    // a bound that counts its current nodes has fewer than all current nodes together
	maxSize, maxSpeed     float64 // the largest size, and the highest speed at the largest size of a type
	// etaError is the standard deviation of key, the logarithm of needed / rankWeight^a.
	etaError, key float64
	// weightUpTo is V, the expected rank weight of the job, of those that outlast it and of future jobs.
	weightUpTo float64
	gradient   float64 // c, the value of work
	doubt      float64 // bound of the relative error of c
	// The fair share kbar, the speed on it, and chat with the factor share_price.
	fairNodes, fairSpeed, fairGradient float64
}

const (
	// nearTie is the relative difference below which the order of two keys is undecided. It is also
	// the relative error of a key, and of V_(i-1) as a share of all weights and V_0 if more than
	// exactJobs jobs have ETA errors.
	nearTie   = 1e-12
	exactJobs = 64
)

// ties reports whether two jobs have equal keys however they are rounded.
func (of *terms) ties(other *terms) bool {
	return of.needed == other.needed && of.rankWeight == other.rankWeight
}

// precedes reports whether a job whose key is not below the key of another precedes it, or ties,
// however both keys are rounded.
func (of *terms) precedes(other *terms) bool {
	if of.needed == other.needed {
		return of.rankWeight == other.rankWeight || of.rankWeight < other.rankWeight*(1-0x1p-50)
	}
	return of.key-other.key >= nearTie*max(1, math.Abs(of.key))
}

// floorSpeed returns a speed, or the smallest speed that the objective distinguishes from 0.
func floorSpeed(speed float64) float64 { return max(speed, 1e-30) }

// flooredSpeed returns the speed on some nodes. The floor applies to the curve.
func (p *profile) flooredSpeed(nodes float64) float64 {
	return p.factor * floorSpeed(p.relativeSpeed(nodes))
}

// mean returns the mean of a number over the nodes of the profiles' types, or over the profiles if
// the types have no nodes.
func (s *snapshot) mean(profiles []*profile, number func(p *profile) float64) float64 {
	weighted, nodes, sum := 0.0, 0.0, 0.0
	for _, p := range profiles {
		n := float64(s.nodes[p.nodeType])
		weighted, nodes, sum = weighted+n*number(p), nodes+n, sum+number(p)
	}
	if nodes == 0 {
		return sum / float64(len(profiles))
	}
	return weighted / nodes
}

// fittingProfiles returns the profiles of a job on types that have enough nodes for it.
func (s *snapshot) fittingProfiles(j *job) []*profile {
	return slices.DeleteFunc(slices.Clone(j.profiles), func(p *profile) bool { return p.sizes[0] > s.nodes[p.nodeType] })
}

// usableProfiles returns the profiles of a job on types that have enough nodes for it, or all profiles if
// no type has.
func (s *snapshot) usableProfiles(j *job) []*profile {
	if fitting := s.fittingProfiles(j); len(fitting) > 0 {
		return fitting
	}
	return j.profiles
}

// meanSpeed returns the speed of a job on a mean node of the given types.
func (s *snapshot) meanSpeed(profiles []*profile) float64 {
	return s.mean(profiles, func(p *profile) float64 { return p.factor })
}

// prepare computes the terms of all jobs that are not frozen.
func (o *totalTime) prepare(s *snapshot, b *budget) error {
	o.terms = make([]terms, len(s.jobs))
	var jobs []*terms
	for i := range s.jobs {
		if j := &s.jobs[i]; !j.frozen {
			o.terms[i].job = j
			jobs = append(jobs, &o.terms[i])
		}
	}
	o.setExceeds(s)
	count := float64(len(jobs))
	o.meanWeight = 0
	for _, of := range jobs {
		o.setTerms(s, of)
		o.meanWeight += of.rankWeight / count
	}
	pool := s.poolOf(jobs)
	if pool == 0 {
		return nil
	}
	meanMaxSize := 0.0
	for _, of := range jobs {
		meanMaxSize += min(of.maxSize, pool) / count
		of.setShare(s, pool/count)
	}
	roundErrors(jobs)
	exponent := s.exponentOf(jobs)
	r, err := rank(jobs, exponent)
	if err != nil {
		return err
	}
	r.futureWeight = o.fairness * pool / meanMaxSize * o.meanWeight
	r.setWeights(b)
	poolSpeed := math.Pow(pool, exponent)
	for _, of := range r.order {
		speedPerWork := poolSpeed * (of.fairSpeed / math.Pow(of.fairNodes, exponent)) // N^a u
		of.gradient = max(of.gradient, valueOfWork(of.rankWeight, of.weightUpTo, exponent)/speedPerWork)
		of.fairGradient = o.sharePrice * (valueOfWork(of.rankWeight, r.futureWeight+r.weight, exponent) / speedPerWork)
	}
	return nil
}

// poolOf returns N, the nodes of all types that some job can use, or of all types if no job can use any.
func (s *snapshot) poolOf(jobs []*terms) (pool float64) {
	used := make([]bool, len(s.nodes))
	for _, of := range jobs {
		for _, p := range of.profiles {
			used[p.nodeType] = used[p.nodeType] || p.sizes[0] <= s.nodes[p.nodeType]
		}
	}
	all := 0.0
	for n, nodes := range s.nodes {
		if all += float64(nodes); used[n] {
			pool += float64(nodes)
		}
	}
	return cmp.Or(pool, all)
}

// exponentOf returns a, the median exponent of the jobs whose largest size exceeds 1 node.
func (s *snapshot) exponentOf(jobs []*terms) float64 {
	var exponents []float64
	for _, of := range jobs {
		scaling := slices.DeleteFunc(slices.Clone(of.profiles), func(p *profile) bool { return p.maxSize() == 1 })
		if len(scaling) > 0 {
			exponents = append(exponents, s.mean(scaling, func(p *profile) float64 {
				return math.Log(floorSpeed(p.relativeSpeed(p.maxSize()))) / math.Log(p.maxSize())
			}))
		}
	}
	exponent := math.Log2(1.6) // for a doubling efficiency of 0.8
	slices.Sort(exponents)
	if m := len(exponents); m > 0 {
		exponent = (exponents[m/2] + exponents[(m-1)/2]) / 2
	}
	return min(max(exponent, 0.05), 0.97)
}

// valueOfWork returns V (1 - ((V - w) / V)^p)^(1/p), where p = 1/(1-a), w is the rank weight of a job and V the
// weight of the jobs up to it. There is no cancellation.
func valueOfWork(rankWeight, weightUpTo, exponent float64) float64 {
	power := 1 / (1 - exponent)
	left := -math.Expm1(power * math.Log1p(-rankWeight/weightUpTo))
	return weightUpTo * math.Pow(left, 1/power)
}

// ranking is the order of the jobs by remaining work, the most first.
type ranking struct {
	order          []*terms // all jobs with a rank weight
	exact, inexact []*terms // the jobs of order without and with ETA errors
	weight         float64  // sum of the rank weights
	futureWeight   float64  // V_0, the weight of future jobs
}

// rank sets the sort keys of the jobs that have a rank weight, and returns their order. It fails if rounding
// decides the order of two jobs without ETA errors.
func rank(jobs []*terms, exponent float64) (*ranking, error) {
	r := new(ranking)
	for _, of := range jobs {
		if of.rankWeight > 0 {
			of.key = math.Log(of.needed) - exponent*math.Log(of.rankWeight)
			r.weight += of.rankWeight
			r.order = append(r.order, of)
		}
	}
	slices.SortStableFunc(r.order, func(x, y *terms) int { return cmp.Compare(y.key, x.key) })
	for _, of := range r.order {
		if of.etaError > 0 {
			r.inexact = append(r.inexact, of)
		} else {
			r.exact = append(r.exact, of)
		}
	}
	for at := 1; at < len(r.exact); at++ {
		if !r.exact[at-1].precedes(r.exact[at]) {
			return nil, leaveOpen("rounding decides the order of two jobs")
		}
	}
	return r, nil
}

// setWeights sets the weight up to each job, and the doubt that follows from its error.
func (r *ranking) setWeights(b *budget) {
	preceding := 0.0 // rank weight of the preceding jobs without ETA errors
	for _, of := range r.order {
		base, uncertain := r.futureWeight+of.rankWeight, r.order
		if of.etaError == 0 {
			base, uncertain, preceding = base+preceding, r.inexact, preceding+of.rankWeight
		}
		b.spend(30 * len(uncertain))
		weightError := 0.0 // before nearTie
		if len(r.order) > exactJobs && len(r.inexact) > 0 {
			weightError = r.futureWeight + r.weight
		}
		of.weightUpTo, weightError = of.addUncertain(base, weightError, uncertain)
		of.doubt = nearTie * weightError / of.weightUpTo // The relative error of c is at most the relative error of V.
	}
}

// addUncertain adds to a weight the rank weight of the other jobs that is expected to outlast a job, and to its
// error the error of this weight.
func (of *terms) addUncertain(weight, weightError float64, others []*terms) (sum, sumError float64) {
	for _, other := range others {
		if other == of {
			continue
		}
		// The other job has more remaining work with probability Phi(-x), whose slope is less than half of exp(-x^2/2).
		width := math.Hypot(of.etaError, other.etaError)
		x := (of.key - other.key) / width
		weight += other.rankWeight * math.Erfc(x/math.Sqrt2) / 2
		if !of.ties(other) {
			weightError += other.rankWeight / width * math.Exp(-x*x/2)
		}
	}
	return weight, weightError
}

// setShare sets the terms that depend on the fair share of a job.
func (of *terms) setShare(s *snapshot, share float64) {
	minSize := slices.MinFunc(of.profiles, func(x, y *profile) int { return cmp.Compare(x.sizes[0], y.sizes[0]) }).sizes[0]
	of.fairNodes = min(max(share, 1, float64(minSize)), of.maxSize)
	of.fairSpeed = s.mean(of.profiles, func(p *profile) float64 { return p.flooredSpeed(of.fairNodes) }) / of.meanSpeed
	if of.needed = of.work; !of.job.trained {
		of.needed += of.job.restartTime * of.fairSpeed
	}
}

// setExceeds sets exceeds of all jobs. Frozen jobs are not included in the bounds.
func (o *totalTime) setExceeds(s *snapshot) {
	left := s.available() // what the current nodes leave of each bound, followed by the groups
	for _, g := range s.groups {
		left = append(left, g.limit)
	}
	groups := len(left) - len(s.groups)
	typeLimits := make([]int, len(s.groups)) // position of the first one of each group
	for g, of := range s.groups {
		typeLimits[g] = len(left)
		for _, l := range of.typeLimits {
			left = append(left, l.available)
		}
	}
	bounds := make([][]count, len(s.jobs)) // that count the current nodes of each job
	for i := range s.jobs {
		j := &s.jobs[i]
		if j.currentNodes == 0 || j.frozen {
			continue
		}
		bounds[i] = s.countedIn(j, j.nodeType, j.currentNodes)
		for g := range s.withAncestors(j.group) {
			bounds[i] = append(bounds[i], count{groups + g, j.currentNodes})
			for n, l := range s.groups[g].typeLimits {
				if l.nodeType == j.nodeType {
					bounds[i] = append(bounds[i], count{typeLimits[g] + n, j.currentNodes})
				}
			}
		}
		for _, c := range bounds[i] {
			left[c.at] -= c.nodes
		}
	}
	for i := range o.terms {
		o.terms[i].exceeds = slices.ContainsFunc(bounds[i], func(c count) bool { return left[c.at] < 0 })
	}
}

// setTerms sets the terms that depend on one job only, and the lower bound of its gradient. An ETA
// error below 1e-4 counts as none.
func (o *totalTime) setTerms(s *snapshot, of *terms) {
	j := of.job
	of.profiles = s.usableProfiles(j)
	if of.rankWeight = j.weight; o.aging > 0 {
		of.rankWeight *= 1 + j.waitingTime/max(o.aging, 100*j.restartTime)
	}
	of.meanSpeed = s.meanSpeed(of.profiles)
	of.work = j.remainingWork / of.meanSpeed
	for _, p := range of.profiles {
		of.maxSize, of.maxSpeed = max(of.maxSize, p.maxSize()), max(of.maxSpeed, p.flooredSpeed(p.maxSize()))
	}
	of.gradient = of.rankWeight * of.meanSpeed / of.maxSpeed
	if of.etaError = j.etaError; of.etaError < 0 {
		of.etaError = o.etaError
	}
	if of.etaError < 1e-4 {
		of.etaError = 0
	}
	of.etaError = max(of.etaError, j.minETAError())
}

// minETAError returns the smallest ETA error that counts. It is above 0 unless changes are known to be
// free, so that ranks are continuous.
func (j *job) minETAError() float64 {
	if j.free {
		return 0
	}
	return 0.1
}

// roundErrors rounds ETA errors to quarters, except the smallest that count, if more than 1,000 jobs
// have more than 24 different errors.
func roundErrors(jobs []*terms) {
	different := make(map[float64]bool)
	for _, of := range jobs {
		different[of.etaError] = true
	}
	for _, of := range jobs {
		if len(jobs) > 1000 && len(different) > 24 {
			of.etaError = max(math.Round(4*of.etaError)/4, of.job.minETAError())
		}
	}
}

// value returns the value of some nodes on a profile for job i, and the sum of the magnitudes of its
// terms. The pause of a job is charged with the restart, so a resume is not. A queued job has no
// type that it could move from.
func (o *totalTime) value(i int, j *job, p *profile, nodes int) (value, magnitude float64) {
	of, speed, now := &o.terms[i], 0.0, 0.0
	saved, share, bonus, cost, moves, restart := 0.0, 0.0, 0.0, 0.0, false, j.restartTime
	if nodes > 0 {
		moves, restart = j.restartOn(p.nodeType)
		speed = floorSpeed(p.speed(float64(nodes))) / of.meanSpeed
		saved, share = of.gradient*speed, of.fairGradient*min(speed, of.fairSpeed)
		if o.cadence > 0 {
			work := of.work
			if !j.trained {
				work += j.restartTime * speed
			}
			saved = (of.gradient*min(o.cadence*speed, work) + of.rankWeight*max(0, o.cadence-work/speed)) / o.cadence
		}
	}
	if j.currentNodes > 0 {
		now = j.current.flooredSpeed(float64(j.currentNodes)) / of.meanSpeed
	}
	price, payback, faster := o.resizePrice*o.meanWeight, max(o.payback, 4*restart), max(speed, now)
	if j.currentNodes > 0 && speed > now*(1+1e-9) { // Otherwise rounding could decide.
		payback = max(payback, j.sinceChange)
	}
	switch {
	case nodes == j.currentNodes && !moves:
	case !j.trained:
		bonus = o.startBonus * o.meanWeight / o.payback
	case j.currentNodes == 0:
		cost = min(price/payback, saved/2)
	default:
		lost := faster // work lost per second of restart
		if moves {
			lost = speed
		}
		if nodes == 0 {
			price *= o.pausePriceFactor
		}
		span := min(max(of.work/faster, 1), payback)
		if of.exceeds && !moves && nodes < j.currentNodes {
			span = payback
		}
		cost = (price + restart*of.gradient*lost) / span
	}
	return saved + share + bonus - cost, saved + share + bonus + cost
}
