package problem

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// The objective of total time.
//
// What is to be small is the sum over jobs of weight times the time from submission to
// end. A job of remaining demand d_i, the longest first, in a pool of N nodes on which k
// nodes train at u k^a, contributes c_i d_i to the least such sum, where
//
//	c_i = V_i (1 - (V_(i-1)/V_i)^p)^(1/p) / (N^a u_i),   p = 1/(1-a),
//
// V_i being the weight of the jobs up to i and of those still to come (Berg, Vesilo and
// Harchol-Balter, "heSRPT: Parallel scheduling to minimize mean slowdown" (2020)); ranks.go
// has V_i where remaining ETAs are uncertain. So c_i is what a second of one-node work on
// the job saves, and a decision maximises
//
//	sum_i c_i s_i(k_i) - chi_i(k_i)
//
// over legal sizes k_i within the pool: a knapsack, where chi_i(k) is what it costs to
// change to k nodes. docs/explanation/completion-time-objective.md derives it.

// Defaults of TotalTimeOptions.
const (
	DefaultFairness         = 1.0
	DefaultAging            = 8 * time.Hour
	DefaultRescalePrice     = 75 * time.Second
	DefaultPayback          = 900 * time.Second
	DefaultPausePriceFactor = 1.0
	DefaultStartBonus       = 500 * time.Second
	DefaultQuotaPrice       = 0.3
)

// TotalTimeOptions are the parameters of ObjectiveTotalTime. Nil means the default of
// each.
type TotalTimeOptions struct {
	// Fairness scales the weight of the jobs still to come, F: the larger, the nearer to
	// equal shares; 0 expects none, as heSRPT does. 0 to MaxFactor.
	Fairness *float64
	// Aging is the time without nodes after which a job counts twice, A; 0 is off. At least
	// 100 restart times of the job count.
	Aging *time.Duration
	// RescalePrice is how many job-seconds of an average job a change of a job's nodes
	// must save, beta. At least 0.
	RescalePrice *time.Duration
	// Payback is the time that a change is paid back over, L. More than 0. At least 4 restart
	// times of the job count.
	Payback *time.Duration
	// PausePriceFactor is what taking all nodes from a running job costs, in rescale
	// prices. 0 to MaxFactor.
	PausePriceFactor *float64
	// StartBonus is what starting a job that never had nodes is worth beyond its share,
	// in job-seconds of an average job, under AdmissionOptimized. At least 0.
	StartBonus *time.Duration
	// Cadence is the time to the next decision of callers that decide at fixed times only:
	// no job is then worth more work than it has left, and one that ends earlier saves its
	// weight for the rest. At least 0; nil or 0 means that the next decision is at the next
	// submission or end.
	Cadence *time.Duration
	// QuotaPrice is what each node that a group is short of its quota costs, in
	// job-seconds per second. 0 to MaxFactor.
	QuotaPrice *float64
	// ETAError is that of jobs without their own. 0 to MaxETAError; nil means 0. At least 0.1
	// counts for a job with a restart time.
	ETAError *float64
}

// totalTimeParameters returns what TotalTimeOptions are to the table of objectives.
func totalTimeParameters() parameters {
	return parameters{
		field:    "total_time",
		isSet:    func(o *Options) bool { return o.TotalTime != (TotalTimeOptions{}) },
		validate: func(o *Options, bad *snapshot.Violations) { o.TotalTime.validate(bad) },
		setCadence: func(o *Options, cadence time.Duration) {
			if o.TotalTime.Cadence == nil {
				o.TotalTime.Cadence = &cadence
			}
		},
	}
}

// totalTimeStep returns the time that a change is paid back over, which is the one step.
func totalTimeStep(o *Options) time.Duration { return valueOr(o.TotalTime.Payback, DefaultPayback) }

// totalTime is the objective's parameters, in seconds, and what it takes from all jobs.
type totalTime struct {
	fairness, aging, price, payback, pauseFactor, startBonus, cadence, etaError float64
	// exponent is a of speed(k) = u k^a, power is 1/(1-a).
	exponent, power float64
	// meanWeight is that of the jobs with their aging, wbar.
	meanWeight float64
}

// valueOr returns what a points to, or the default.
func valueOr[T any](a *T, fallback T) T {
	if a == nil {
		return fallback
	}
	return *a
}

// fillTotalTime fills in the values of the sizes of the jobs of p, which are jobs of s.
// All jobs of the snapshot count, admitted or not.
func (p *Problem) fillTotalTime(s *snapshot.Snapshot, options *Options) {
	o := &options.TotalTime
	p.QuotaPrice = valueOr(o.QuotaPrice, DefaultQuotaPrice)
	m := totalTime{
		fairness:    valueOr(o.Fairness, DefaultFairness),
		aging:       valueOr(o.Aging, DefaultAging).Seconds(),
		price:       valueOr(o.RescalePrice, DefaultRescalePrice).Seconds(),
		payback:     valueOr(o.Payback, DefaultPayback).Seconds(),
		pauseFactor: valueOr(o.PausePriceFactor, DefaultPausePriceFactor),
		cadence:     valueOr(o.Cadence, 0).Seconds(),
		etaError:    valueOr(o.ETAError, 0),
	}
	if options.Admission == AdmissionOptimized {
		m.startBonus = valueOr(o.StartBonus, DefaultStartBonus).Seconds()
	}
	slopes := m.gradient(s, p.Demands)
	gain, block := []float64{0}, []float64(nil)
	for n := range p.Jobs {
		admitted := &p.Jobs[n]
		admitted.Gain = gain
		sizes := len(admitted.Options)
		admitted.OptionValue, admitted.ChangeCost = carve(&block, sizes), carve(&block, sizes)
		m.setOptionValues(s, slopes[admitted.Index], admitted)
	}
}

// slope is c_i of a job: the job-seconds that a second of work on it saves, in units of work
// of its mean node, which trains at rho_i; where the nodes are alike that is 1.
type slope struct{ c, rho float64 }

// gradient returns the slope of every job of the snapshot, whose demands are given.
func (m *totalTime) gradient(s *snapshot.Snapshot, demands []float64) []slope {
	jobs := len(s.Jobs)
	if jobs == 0 {
		return nil
	}
	pool := usableNodes(s)
	on := make([]scalingSummary, jobs)
	weight := make([]float64, jobs)
	meanLargest := 0.0
	var exponents []float64
	var places []snapshot.Place
	var sizes []int // a buffer
	for i := range s.Jobs {
		if i > 0 && sameShape(s, i-1, i) {
			on[i] = on[i-1]
		} else {
			places = s.Places(i, places)
			on[i], sizes = newScalingSummary(places, sizes)
		}
		weight[i] = m.weight(&s.Jobs[i])
		m.meanWeight += weight[i] / float64(jobs)
		meanLargest += min(on[i].largest, pool) / float64(jobs)
		if on[i].largest > 1 {
			exponents = append(exponents, on[i].exponent)
		}
	}
	m.exponent = min(max(median(exponents, math.Log2(2*snapshot.DefaultDoublingEfficiency)), 0.05), 0.97)
	m.power = 1 / (1 - m.exponent)

	// The key of the order is the logarithm of d_i / w'_i^a. A job of weight 0 has no part in it.
	key := make([]float64, jobs)
	order := make([]int, 0, jobs)
	slopes := make([]slope, jobs)
	for i := range key {
		slopes[i].rho = on[i].rho
		if weight[i] > 0 {
			order = append(order, i)
			key[i] = math.Log(demands[i]/on[i].rho) - m.exponent*math.Log(weight[i])
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(key[b], key[a]), cmp.Compare(a, b)) })

	comers := 0.0 // V_0
	if pool > 0 {
		comers = m.fairness * pool / meanLargest * m.meanWeight
	}
	share, poolSpeed := max(1, pool/float64(jobs)), math.Pow(pool, m.exponent)
	ranks := ranking{key: key, weight: weight, sd: etaErrors(s.Jobs, m.etaError)}
	before := ranks.before(order, comers)
	u, last := 0.0, -1
	for _, i := range order {
		upTo := before[i] + weight[i]
		if pool > 0 {
			if last < 0 || !sameShape(s, last, i) {
				nodes := min(max(share, on[i].smallest), on[i].largest)
				places = s.Places(i, places)
				u = meanSpeed(places, nodes) / (on[i].rho * math.Pow(nodes, m.exponent))
			}
			last = i
			// 1 - (before/upTo)^p, without cancellation where there are many jobs.
			left := -math.Expm1(m.power * math.Log1p(-weight[i]/upTo))
			slopes[i].c = upTo * math.Pow(left, 1/m.power) / (poolSpeed * u)
		}
		slopes[i].c = max(slopes[i].c, weight[i]*on[i].rho/on[i].fastest)
	}
	return slopes
}

// sameShape reports whether two jobs scale alike, as far as few fields show it: most jobs of a
// snapshot do, and their logarithms and powers are then worked out once.
func sameShape(s *snapshot.Snapshot, i, k int) bool {
	a, b := &s.Jobs[i], &s.Jobs[k]
	plain := func(j *snapshot.Job) bool { return j.AllowedNodes == nil && j.Scaling.Speeds == nil && j.Speeds == nil }
	return plain(a) && plain(b) && a.Scaling.DoublingEfficiency == b.Scaling.DoublingEfficiency &&
		a.MinNodes == b.MinNodes && a.MaxNodes == b.MaxNodes
}

// scalingSummary is a job on all of its places: means over their nodes and extremes over them.
type scalingSummary struct {
	rho               float64 // the mean speed of one node
	smallest, largest float64 // legal sizes
	exponent          float64 // of the speed at the largest size of each place, where that is more than 1
	fastest           float64 // the highest of those speeds
}

// newScalingSummary works it out, with a buffer for sizes that it returns.
func newScalingSummary(places []snapshot.Place, sizes []int) (on scalingSummary, buffer []int) {
	on.smallest = math.Inf(1)
	total, grows := totalNodes(places), 0.0
	for n := range places {
		l := &places[n]
		sizes = l.AppendSizes(sizes[:0])
		largest, share := float64(sizes[len(sizes)-1]), float64(l.Nodes)/total
		speed := speedOf(l.Job, largest)
		on.rho += share * l.Factor
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

// totalNodes returns the nodes of all places; where they have none, each counts as one.
func totalNodes(places []snapshot.Place) float64 {
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

// usableNodes returns the nodes of the types that some job has a use for, or all if there are
// none.
func usableNodes(s *snapshot.Snapshot) float64 {
	used := make([]bool, len(s.NodeTypes))
	var places []snapshot.Place
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

// meanSpeed returns the speed on nodes, not necessarily a whole number, as the mean over the
// nodes of all places.
func meanSpeed(places []snapshot.Place, nodes float64) float64 {
	speed, total := 0.0, totalNodes(places)
	for n := range places {
		speed += float64(places[n].Nodes) / total * places[n].Factor * speedOf(places[n].Job, nodes)
	}
	return speed
}

// weight returns the weight of a job with its aging, w'_i.
func (m *totalTime) weight(job *snapshot.Job) float64 {
	weight := job.WeightOrDefault()
	if m.aging > 0 {
		weight *= 1 + job.WaitingTime.Seconds()/max(m.aging, agingRestarts*job.RestartTime.Seconds())
	}
	return weight
}

// How many restarts of a job Aging and Payback span at least. With fewer, jobs would be
// paused and resumed faster than they train; docs/explanation/sequences.md derives both.
const (
	agingRestarts   = 100
	paybackRestarts = 4
)

// savingRate returns the job-seconds that a job with this demand left saves per second at a speed
// above 0.
func (m *totalTime) savingRate(job *snapshot.Job, c, speed, left float64) float64 {
	if m.cadence == 0 {
		return c * speed
	}
	return (c*min(m.cadence*speed, left) + m.weight(job)*max(0, m.cadence-left/speed)) / m.cadence
}

// minSpeed is the lowest speed that the objective tells from others: below it the
// quotients of the model leave the range of floating-point numbers.
const minSpeed = 1e-30

// speedOf returns the job's speed on the given nodes, 0 on none.
func speedOf(job *snapshot.Job, nodes float64) float64 {
	if nodes <= 0 {
		return 0
	}
	return max(job.SpeedAt(nodes), minSpeed)
}

// median returns the middle of the values, the mean of the two in the middle of an even
// number, fallback of none. It sorts them.
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

// setOptionValues works out what each of a job's sizes is worth: what its speed saves, less what the
// change costs, and those costs.
func (m *totalTime) setOptionValues(s *snapshot.Snapshot, by slope, admitted *AdmittedJob) {
	job, c, demand := &s.Jobs[admitted.Index], by.c, admitted.Demand/by.rho
	values, costs := admitted.OptionValue, admitted.ChangeCost
	neverStarted := job.NeverStarted()
	bonus := m.startBonus * m.meanWeight / m.payback
	stay, move := job.Restart(false).Seconds(), job.Restart(true).Seconds()
	held := s.CurrentPlace(admitted.Index)
	now := held.Factor * speedOf(held.Job, float64(job.CurrentNodes)) / by.rho
	for n, option := range admitted.Options {
		speed := 0.0
		if !option.IsZero() {
			speed = max(admitted.StepWork[n]/m.payback, minSpeed) / by.rho // A step is as long as payback.
			values[n] = m.savingRate(job, c, speed, demand)
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
		switch {
		case neverStarted:
			values[n] += bonus
		case job.Queued():
			// The pause has paid for the restart. Capped, so that a paused job resumes in an
			// idle pool.
			costs[n] = min(m.price*m.meanWeight/payback, values[n]/2)
		default:
			// At the higher speed, since the job may still restart at the one that it gives up.
			price, lost := m.price, c*max(speed, now)
			switch {
			case option.IsZero():
				price *= m.pauseFactor
			case moves:
				lost = c * speed
			}
			left := demand / max(speed, now)
			costs[n] = (price*m.meanWeight + restart*lost) / min(max(left, 1), payback)
		}
		values[n] -= costs[n]
	}
}

// Limits of TotalTimeOptions, beyond which sums of values would lose their digits.
const (
	MaxFactor        = 1e6                  // fairness, price of a pause, price of a quota
	MaxTotalTimeSpan = 365 * 24 * time.Hour // every duration
	MinTotalTimeSpan = time.Second          // payback, and aging that is not off
)

func (o *TotalTimeOptions) validate(bad *snapshot.Violations) {
	factor := func(name string, v *float64) { bad.CheckFactor("total_time."+name, v, MaxFactor) }
	span := func(name string, v *time.Duration, least time.Duration) {
		if v != nil && (*v < least || *v > MaxTotalTimeSpan) {
			bad.Addf("total_time."+name, "is %v; want %v to %v", *v, least, MaxTotalTimeSpan)
		}
	}
	factor("fairness", o.Fairness)
	factor("pause_price_factor", o.PausePriceFactor)
	factor("quota_price", o.QuotaPrice)
	bad.CheckFactor("total_time.eta_error", o.ETAError, snapshot.MaxETAError)
	if v := o.Aging; v != nil && *v != 0 {
		span("aging", v, MinTotalTimeSpan)
	}
	span("rescale_price", o.RescalePrice, 0)
	span("payback", o.Payback, MinTotalTimeSpan)
	span("start_bonus", o.StartBonus, 0)
	span("cadence", o.Cadence, 0)
}
