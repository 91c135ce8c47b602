package problem

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
)

// ObjectiveTotalTime minimizes the weighted sum of the job completion times.
//
// Sort the jobs by remaining demand d_i, the longest first. In a pool of N nodes, on which k nodes
// train at speed u k^a, job i contributes c_i d_i to the smallest possible sum, where
//
//	c_i = V_i (1 - (V_(i-1)/V_i)^p)^(1/p) / (N^a u_i),   p = 1/(1-a),
//
// V_i is the weight of the jobs up to i and of future jobs (Berg, Vesilo and Harchol-Balter, "heSRPT:
// Parallel scheduling to minimize mean slowdown" (2020)). ranks.go computes V_i for uncertain
// remaining ETAs. So one second of one-node work on job i saves c_i job-seconds, and a decision
// maximizes
//
//	sum_i c_i s_i(k_i) - chi_i(k_i)
//
// over the legal sizes k_i that fit into the pool, which is a knapsack problem. chi_i(k) is the cost of
// the change to k nodes. docs/explanation/completion-time-objective.md derives it.
//
// Nodes up to the fair share of a job, N divided by the number of jobs, have an additional value: its
// speed there times SharePrice times the c_i that it would have as the shortest job.

// totalTime has the parameters of the objective, in seconds, and statistics of all jobs.
type totalTime struct {
	fairness, aging, price, payback, pauseFactor, startBonus, cadence, etaError, sharePrice float64
	// exponent is a of speed(k) = u k^a, power is 1/(1-a).
	exponent, power float64
	// meanWeight is the mean weight of the jobs after aging, wbar.
	meanWeight float64
	// occupied has the free nodes while the running jobs have their current nodes.
	occupied *Headroom
}

// fillTotalTime sets the option values of the jobs of p, the problem of s. The values depend on all
// jobs of the snapshot, admitted or not.
func (p *Problem) fillTotalTime(s *solver.Snapshot, options *solver.Options) {
	o := &options.TotalTime
	p.QuotaPrice = solver.ValueOr(o.QuotaPrice, solver.DefaultQuotaPrice)
	m := totalTime{
		fairness:    solver.ValueOr(o.Fairness, solver.DefaultFairness),
		aging:       solver.ValueOr(o.Aging, solver.DefaultAging).Seconds(),
		price:       solver.ValueOr(o.ResizePrice, solver.DefaultResizePrice).Seconds(),
		payback:     solver.ValueOr(o.Payback, solver.DefaultPayback).Seconds(),
		pauseFactor: solver.ValueOr(o.PausePriceFactor, solver.DefaultPausePriceFactor),
		cadence:     solver.ValueOr(o.Cadence, 0).Seconds(),
		etaError:    solver.ValueOr(o.ETAError, 0),
		sharePrice:  solver.ValueOr(o.SharePrice, solver.DefaultSharePrice),
		occupied:    p.SnapshotHeadroom(s),
	}
	for i := range s.Jobs {
		m.occupied.Allocate(p.Member(s, i), s.Current(i))
	}
	if options.Admission == solver.AdmissionOptimized {
		m.startBonus = solver.ValueOr(o.StartBonus, solver.DefaultStartBonus).Seconds()
	}
	slopes := m.slopes(s, p.Demands)
	gain, block := []float64{0}, []float64(nil)
	for i := range p.Jobs {
		admitted := &p.Jobs[i]
		admitted.Gain = gain
		n := len(admitted.Options)
		admitted.OptionValue, admitted.ChangeCost = carve(&block, n), carve(&block, n)
		m.setOptionValues(s, slopes[admitted.Index], admitted)
	}
}

// slope is the value of the work of a job on its mean node.
type slope struct {
	// perWork is c_i, the job-seconds saved per second of work. share is the additional value per second
	// of work up to the speed fairSpeed, which the job has on its fair share.
	perWork, share, fairSpeed float64
	// meanSpeed is the speed of a mean node, 1 if all nodes are alike.
	meanSpeed float64
}

// slopes returns the slope of every job of the snapshot. demands are the demands of its jobs.
func (m *totalTime) slopes(s *solver.Snapshot, demands []float64) []slope {
	jobs := len(s.Jobs)
	if jobs == 0 {
		return nil
	}
	pool := usableNodes(s)
	scaling := summarizeScaling(s, max(1, pool/float64(jobs)))
	rankWeight, meanLargest := make([]float64, jobs), 0.0
	for i := range scaling {
		rankWeight[i] = m.weight(&s.Jobs[i])
		m.meanWeight += rankWeight[i] / float64(jobs)
		meanLargest += min(scaling[i].largest, pool) / float64(jobs)
	}
	m.setExponent(scaling)
	slopes := make([]slope, jobs)
	for i := range slopes {
		on := scaling[i]
		slopes[i] = slope{perWork: rankWeight[i] * on.meanSpeed / on.fastest, fairSpeed: on.fairSpeed, meanSpeed: on.meanSpeed}
	}
	if pool == 0 {
		return slopes
	}

	futureWeight := m.fairness * pool / meanLargest * m.meanWeight // V_0
	total := futureWeight                                          // V of the shortest job, at least the weight of each
	for _, w := range rankWeight {
		total += w
	}
	ranks := ranking{key: m.sortKeys(s, demands, scaling, rankWeight), weight: rankWeight, sd: etaErrors(s.Jobs, m.etaError)}
	order := ranks.order()
	before := ranks.before(order, futureWeight) // V_(i-1)
	poolSpeed := math.Pow(pool, m.exponent)
	// oneNode is u_i, the speed on one node of the curve u_i k^a through the fair share. shortest is the value of
	// the weight as the shortest job.
	oneNode, shortest, previous := 0.0, 0.0, -1
	for _, i := range order {
		on := scaling[i]
		if previous < 0 || on.fairNodes != scaling[previous].fairNodes || on.fairSpeed != scaling[previous].fairSpeed {
			oneNode = on.fairSpeed / math.Pow(on.fairNodes, m.exponent)
		}
		if m.sharePrice > 0 && (previous < 0 || rankWeight[i] != rankWeight[previous]) {
			shortest = m.value(rankWeight[i], total)
		}
		previous = i
		perWork := m.value(rankWeight[i], before[i]+rankWeight[i]) / (poolSpeed * oneNode)
		slopes[i].perWork = max(slopes[i].perWork, perWork)
		slopes[i].share = m.sharePrice * shortest / (poolSpeed * oneNode)
	}
	return slopes
}

// setExponent sets a, the median exponent of the jobs whose largest size exceeds 1 node, and p.
func (m *totalTime) setExponent(scaling []*scalingSummary) {
	exponents := make([]float64, 0, len(scaling))
	for i := range scaling {
		if scaling[i].largest > 1 {
			exponents = append(exponents, scaling[i].exponent)
		}
	}
	m.exponent = min(max(median(exponents, math.Log2(2*solver.DefaultDoublingEfficiency)), 0.05), 0.97)
	m.power = 1 / (1 - m.exponent)
}

// sortKeys returns the key of every job, the logarithm of d_i / w_i^a. A first start adds its restart at
// the speed of the fair share. The key of a job of weight 0 is 0.
func (m *totalTime) sortKeys(s *solver.Snapshot, demands []float64, scaling []*scalingSummary, rankWeight []float64) []float64 {
	keys := make([]float64, len(demands))
	weight, logWeight := 1.0, 0.0 // of the job before
	for i := range keys {
		if rankWeight[i] == 0 {
			continue
		}
		demand := demands[i] / scaling[i].meanSpeed
		if s.Jobs[i].NeverStarted() {
			demand += s.Jobs[i].RestartTime.Seconds() * scaling[i].fairSpeed
		}
		if rankWeight[i] != weight {
			weight, logWeight = rankWeight[i], math.Log(rankWeight[i])
		}
		keys[i] = math.Log(demand) - m.exponent*logWeight
	}
	return keys
}

// value returns V (1 - ((V - weight)/V)^p)^(1/p) of a job, where V is the weight of the jobs up to it. It
// does not cancel if there are many jobs.
func (m *totalTime) value(weight, upTo float64) float64 {
	left := -math.Expm1(m.power * math.Log1p(-weight/upTo))
	return upTo * math.Exp(math.Log(left)/m.power) // math.Pow takes twice the time.
}

// sameShape reports whether two jobs scale alike. It compares few fields, so it may report false for
// jobs that scale alike. Logarithms and powers are then computed once for most jobs of a snapshot.
func sameShape(s *solver.Snapshot, i, k int) bool {
	a, b := &s.Jobs[i], &s.Jobs[k]
	plain := func(j *solver.Job) bool { return j.AllowedNodes == nil && j.Scaling.Speeds == nil && j.Speeds == nil }
	return plain(a) && plain(b) && a.Scaling.DoublingEfficiency == b.Scaling.DoublingEfficiency &&
		a.MinNodes == b.MinNodes && a.MaxNodes == b.MaxNodes
}

// scalingSummary summarizes the scaling of a job over all of its node types.
type scalingSummary struct {
	meanSpeed         float64 // the mean speed of one node
	smallest, largest float64 // legal sizes
	exponent          float64 // mean exponent of the speed at the largest sizes that exceed 1 node
	fastest           float64 // the highest speed at a largest size
	// fairNodes is the fair share within the legal sizes, and fairSpeed is the mean speed on it,
	// relative to meanSpeed.
	fairNodes, fairSpeed float64
}

// summarizeScaling returns the summary of every job, one for neighbors that scale alike. fairShare is the number of nodes per job.
func summarizeScaling(s *solver.Snapshot, fairShare float64) []*scalingSummary {
	all := make([]*scalingSummary, len(s.Jobs))
	var places []solver.Place
	var sizes []int // a buffer
	for i := range all {
		if i > 0 && sameShape(s, i-1, i) {
			all[i] = all[i-1]
			continue
		}
		on := new(scalingSummary)
		places = s.Places(i, places)
		*on, sizes = newScalingSummary(places, sizes)
		on.setFairShare(places, fairShare)
		all[i] = on
	}
	return all
}

// setFairShare sets the fair share of a job, which need not be a whole number of nodes.
func (on *scalingSummary) setFairShare(places []solver.Place, nodes float64) {
	on.fairNodes = min(max(nodes, on.smallest), on.largest)
	on.fairSpeed = meanSpeed(places, on.fairNodes) / on.meanSpeed
}

// newScalingSummary returns the summary of a job and a buffer for sizes, which it reuses.
func newScalingSummary(places []solver.Place, sizes []int) (on scalingSummary, buffer []int) {
	on.smallest = math.Inf(1)
	total, grows := totalNodes(places), 0.0
	for n := range places {
		l := &places[n]
		sizes = l.AppendSizes(sizes[:0])
		largest, share := float64(sizes[len(sizes)-1]), float64(l.Nodes)/total
		speed := speedOf(l.Job, largest)
		on.meanSpeed += share * l.Factor
		on.smallest, on.largest = min(on.smallest, float64(sizes[0])), max(on.largest, largest)
		on.fastest = max(on.fastest, l.Factor*speed)
		if largest > 1 {
			grows += share
			on.exponent += share * math.Log(speed) / math.Log(largest)
		}
	}
	on.exponent /= cmp.Or(grows, 1)
	return on, sizes
}

// totalNodes returns the number of nodes of all places. If there are none, it sets each to one node.
func totalNodes(places []solver.Place) float64 {
	total := 0
	for n := range places {
		total += places[n].Nodes
	}
	if total == 0 {
		for n := range places {
			places[n].Nodes = 1
		}
		total = len(places)
	}
	return float64(total)
}

// usableNodes returns the number of nodes of the types that at least one job can use. If no job can use
// any type, it returns all nodes.
func usableNodes(s *solver.Snapshot) float64 {
	used := make([]bool, len(s.NodeTypes))
	var places []solver.Place
	for i := range s.Jobs {
		if len(used) == 0 || !slices.Contains(used, false) {
			break
		}
		places = s.Places(i, places)
		for n := range places {
			used[places[n].Type] = used[places[n].Type] || places[n].Fits()
		}
	}
	total := 0
	for g := range used {
		if used[g] {
			total += s.NodeTypes[g].Nodes
		}
	}
	return float64(cmp.Or(total, s.TotalNodes))
}

// meanSpeed returns the mean speed over the nodes of all places. nodes need not be a whole number.
func meanSpeed(places []solver.Place, nodes float64) float64 {
	speed, total := 0.0, totalNodes(places)
	for n := range places {
		speed += float64(places[n].Nodes) / total * places[n].Factor * speedOf(places[n].Job, nodes)
	}
	return speed
}

// totalTimeDemand returns the demand d_i of job i in seconds on one reference node. The estimate of a job
// past its end is no estimate of the rest.
func totalTimeDemand(s *solver.Snapshot, i int) float64 {
	if s.Jobs[i].Overrun < 1 {
		return s.Demand(i)
	}
	return atLeastShareOfWork(s, i)
}

// weight returns the weight of a job after aging, w'_i.
func (m *totalTime) weight(job *solver.Job) float64 {
	weight := job.WeightOrDefault()
	if m.aging > 0 {
		weight *= 1 + job.WaitingTime.Seconds()/max(m.aging, agingRestarts*job.RestartTime.Seconds())
	}
	return weight
}

// agingRestarts and paybackRestarts are the minimums of Aging and Payback in restart times of a job.
// With smaller values, jobs would be paused and resumed faster than they train.
// docs/proofs/sequences.md derives both.
const (
	agingRestarts   = 100
	paybackRestarts = 4
)

// savingRate returns the job-seconds saved per second by a job with the remaining work left at a speed
// above 0.
func (m *totalTime) savingRate(job *solver.Job, c, speed, left float64) float64 {
	if m.cadence == 0 {
		return c * speed
	}
	return (c*min(m.cadence*speed, left) + m.weight(job)*max(0, m.cadence-left/speed)) / m.cadence
}

// minSpeed is the smallest speed of the objective. With smaller speeds, the quotients of the model
// would exceed the range of floating-point numbers.
const minSpeed = 1e-30

// minSpeedup is the smallest ratio of speeds at which a resize makes a job faster. A smaller one may be a
// rounding error of equal speeds.
const minSpeedup = 1 + 1e-9

// speedOf returns the speed of the job on the given nodes, 0 for no nodes.
func speedOf(job *solver.Job, nodes float64) float64 {
	if nodes <= 0 {
		return 0
	}
	return max(job.SpeedAt(nodes), minSpeed)
}

// median returns the median of the values, or fallback if there are none. It sorts the values.
func median(values []float64, fallback float64) float64 {
	if len(values) == 0 {
		return fallback
	}
	slices.Sort(values)
	half := len(values) / 2
	if len(values)%2 == 1 {
		return values[half]
	}
	return (values[half-1] + values[half]) / 2
}

// setOptionValues sets OptionValue and ChangeCost of a job. The value of an option is the saving at its
// speed less the cost of the change.
func (m *totalTime) setOptionValues(s *solver.Snapshot, slope slope, admitted *AdmittedJob) {
	job, demand := &s.Jobs[admitted.Index], admitted.Demand/slope.meanSpeed
	values, costs := admitted.OptionValue, admitted.ChangeCost
	neverStarted, loading, kept := job.NeverStarted(), 0.0, 0.0
	if neverStarted {
		loading = job.RestartTime.Seconds()
	}
	if !job.Queued() {
		kept = job.SinceRestart().Seconds()
	}
	exceeded := m.occupied.Excess(admitted.Member, admitted.Current) > 0
	bonus := m.startBonus * m.meanWeight / m.payback
	stay, move := job.Restart(false).Seconds(), job.Restart(true).Seconds()
	current := s.CurrentPlace(admitted.Index)
	now := current.Factor * speedOf(current.Job, float64(job.CurrentNodes)) / slope.meanSpeed
	for n, option := range admitted.Options {
		speed, saving := 0.0, 0.0
		if !option.IsZero() {
			speed = max(admitted.StepWork[n]/m.payback, minSpeed) / slope.meanSpeed // A step is as long as payback.
			saving = m.savingRate(job, slope.perWork, speed, demand+loading*speed)
			values[n] = saving + slope.share*min(speed, slope.fairSpeed)
		}
		if option == admitted.Current {
			continue
		}
		moves := option.MovesFrom(admitted.Current)
		restart := stay
		if moves {
			restart = move
		}
		payback := max(m.payback, paybackRestarts*restart)
		if speed > now*minSpeedup {
			// A job that has kept its size for long may expect to keep the next one too.
			payback = max(payback, kept)
		}
		switch {
		case neverStarted:
			values[n] += bonus
		case job.Queued():
			// The preceding pause has paid for the restart. The cost is capped so that a paused job
			// resumes in an idle pool.
			costs[n] = min(m.price*m.meanWeight/payback, saving/2)
		default:
			// The cost uses the higher speed, because the job may still be restarting at the speed
			// that it gives up.
			price, lost := m.price, slope.perWork*max(speed, now)
			switch {
			case option.IsZero():
				price *= m.pauseFactor
			case moves:
				lost = slope.perWork * speed
			}
			span := min(max(demand/max(speed, now), 1), payback)
			if exceeded && !moves && option.Nodes < admitted.Current.Nodes {
				// Some job has to release nodes, and it need not be the one with the most time left.
				span = payback
			}
			costs[n] = (price*m.meanWeight + restart*lost) / span
		}
		values[n] -= costs[n]
	}
}
