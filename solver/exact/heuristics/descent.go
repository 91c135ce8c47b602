package heuristics

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The Lagrangian dual: the best node prices.
//
// The Lagrangian bound L(lambda) is convex and piecewise linear, with one price per step. It is
// minimized by column generation with a smoothed master problem. The maximum in phi_i is replaced
// by the soft maximum over the plans found so far (columns),
//
//	temperature * log sum_plans exp((u - lambda n) / temperature).
//
// Logarithmic barriers of the same temperature enforce 0 <= lambda <= cap; above the cap every job
// has its smallest size. The result is smooth and strictly convex, and Newton's method needs a few
// systems of size T by T. The temperature is then lowered. At every temperature the jobs are priced
// once to find missing columns. (Nesterov, "Smooth minimization of non-smooth functions" (2005);
// Fisher, "The Lagrangian relaxation method for solving integer programming problems" (1981).)
//
// The constants of this file trade time for tighter bounds. Each names a benchmark that shows its
// effect: BenchmarkDecision is run by go test . -run '^$' -bench Decision, and the others by go test
// ./solver/exact -run '^$' -bench NAME -benchtime 1x.

const (
	// FirstTemperature and lastTemperature are the first and the last temperature, as fractions of
	// the average value of a job. With a tenth of FirstTemperature BenchmarkDecision takes 1.5 times the
	// CPU time at 40 jobs, and with 100 times lastTemperature BenchmarkAgainstHiGHS takes 1.3 times the
	// work. A rough search stops at roughTemperature. If it stops at lastTemperature instead,
	// BenchmarkDecision takes 1.06 times the CPU time at 700 jobs.
	FirstTemperature = 0.02
	roughTemperature = 1e-3
	lastTemperature  = 1e-7
	// cooling is the ratio of two consecutive temperatures. With 0.05 BenchmarkInstances takes 1.2
	// times the work, and with 0.8 BenchmarkDecision takes 1.5 times for many jobs.
	cooling = 0.2
	// The temperature is not lowered while more than 1/foundShare of the jobs get new columns.
	// With 40 BenchmarkHardEnd takes 2.8 times the work.
	foundShare = 10
	// The temperature is lowered anyway if the bound has changed by less than settledShare of the
	// error of smoothing in settledRounds consecutive rounds. Without this rule BenchmarkSizePrices
	// loses a proof of a hyperparameter sweep.
	settledShare  = 0.1
	settledRounds = 3
	// Below fineTemperature, as a fraction of the average value of a job, the search continues only
	// if the last round lowered the bound, with many jobs by more than enoughOfMany of the value of a
	// job. Without either rule BenchmarkDecision takes 1.2 times the work for many jobs.
	fineTemperature = 1e-5
	enoughOfMany    = 1e-5
	// The search also stops if the last round lowered the bound by less than gapShare of the gap to
	// a plan that is close to the optimum, because the core search closes larger gaps. Without this
	// rule BenchmarkSizePrices loses a proof of a hyperparameter sweep.
	gapShare = 3e-3
	// maxRounds limits the number of rounds. With 50 BenchmarkAgainstHiGHS takes 1.2 times the work.
	maxRounds = 200
	// maxExponent is the difference in temperatures beyond which a column or an edge has no
	// probability: exp(-36) is below the rounding error of 1.
	maxExponent = 36
	// newtonSteps limits Newton's steps per temperature, in case they do not converge. With 4,
	// BenchmarkDecision takes 1.1 to 1.2 times the CPU time under PROGRESS.
	newtonSteps = 30
)

// Evaluator evaluates L.
type Evaluator interface {
	// Evaluate returns L(prices) and the number of jobs with new columns. The bound is +Inf if the
	// deadline has passed.
	Evaluate(clock *model.Clock, prices []float64) (bound float64, found int)
	// Keep records the last evaluation as the best one.
	Keep()
}

// Start contains the initial prices of a search and its parameters.
type Start struct {
	Prices      []float64
	Temperature float64
	// Trust is the maximum relative change of a price in one round; 0 means no limit.
	Trust float64
	// Rough stops the search at roughTemperature.
	Rough bool
	// Close declares that the target is close to the optimum, as in instances with few jobs.
	Close bool
}

// Descent minimizes the Lagrangian bound.
type Descent struct {
	in      *model.Instance
	classes *model.JobClasses
	curves  []model.StepCurve
	caps    []float64 // prices from which on every job has its smallest size
	newton  newton
	// net is scratch memory: net values of the columns of a class, then probabilities.
	net []float64
}

// NewDescent prepares the search for prices. It is incomplete if the deadline has passed.
func NewDescent(clock *model.Clock, in *model.Instance, d *model.JobClasses, curves []model.StepCurve) *Descent {
	return &Descent{in: in, classes: d, curves: curves, caps: priceCaps(clock, in), newton: newNewton(in.Steps)}
}

// priceCaps returns, per step, twice a price at which every job has its smallest size. In step t, k
// nodes add at most the value of serving min(1, share(k)) from step t on. In the first step the
// difference of the values of the sizes is added. Without a cap, the price of a step without free
// nodes would grow without limit.
func priceCaps(clock *model.Clock, in *model.Instance) []float64 {
	caps := make([]float64, in.Steps)
	for t := range caps {
		caps[t] = 1e-9*in.Scale/float64(max(1, in.Capacity[t])) + in.TieTotal
	}
	for i := range in.Jobs {
		j := &in.Jobs[i]
		first, later := 0.0, 0.0 // largest value per node
		for k := 1; k < len(j.Sizes); k++ {
			nodes := float64(j.Sizes[k] - j.Sizes[0])
			first = max(first, (j.Tail[0]*min(1, j.First[k])+max(0, j.Cost[0]-j.Cost[k]))/nodes)
			later = max(later, min(1, j.Later[k])/nodes)
		}
		caps[0] = max(caps[0], 2*first+2*in.TieTotal)
		for t := 1; t < in.Steps; t++ {
			caps[t] = max(caps[t], 2*j.Tail[t]*later+2*in.TieTotal)
		}
		if clock.Add(4*len(j.Sizes) + in.Steps) {
			break
		}
	}
	return caps
}

// Minimize lowers L, starting from the given prices, and records the best evaluation. It stops
// early if L falls to target or the deadline has passed.
func (d *Descent) Minimize(clock *model.Clock, l Evaluator, from Start, target float64) {
	average := d.in.Scale / float64(max(1, len(d.in.Jobs)))
	at := slices.Clone(from.Prices)
	for t := range at {
		at[t] = min(max(at[t], 1e-9*d.caps[t]), 0.5*d.caps[t])
	}
	prices := slices.Clone(at)
	bound, _ := l.Evaluate(clock, at)
	l.Keep()
	temperature, rough, last := from.Temperature*average, roughTemperature*average, lastTemperature*average
	if average == 0 || clock.Expired {
		return
	}
	settled, little, tolerance := 0, 0.0, 1e-2
	if !from.Close {
		little, tolerance = enoughOfMany*average, 0.1
	}
	for rounds := 0; bound > target && !clock.Expired && rounds < maxRounds; rounds++ {
		held := d.minimizeMaster(clock, at, temperature, tolerance, from.Trust)
		value, found := l.Evaluate(clock, at)
		gain := bound - value
		if gain > 0 {
			bound = value
			copy(prices, at)
			l.Keep()
		}
		// The minimum moves far while many jobs lack columns. A lower temperature is useful only
		// afterwards.
		settled++
		if math.Abs(gain) > settledShare*temperature*float64(len(d.in.Jobs)) {
			settled = 0
		}
		if held || found*foundShare > len(d.in.Finishing) && settled < settledRounds {
			continue
		}
		settled = 0
		sharp := temperature <= last || temperature <= fineTemperature*average && gain <= little ||
			from.Close && temperature <= rough && math.Abs(gain) <= gapShare*(bound-target)
		if found == 0 && sharp || from.Rough && temperature <= rough {
			break
		}
		temperature = max(last, temperature*cooling)
	}
	dropIdlePrices(clock, l, bound, prices)
}

// dropIdlePrices sets prices to 0 that are positive only because of the barrier, if this does not
// raise the bound.
func dropIdlePrices(clock *model.Clock, l Evaluator, bound float64, prices []float64) {
	trial := slices.Clone(prices)
	for t, price := range trial {
		if price < 1e-5*slices.Max(prices) {
			trial[t] = 0
		}
	}
	if slices.Equal(trial, prices) {
		return
	}
	if value, _ := l.Evaluate(clock, trial); value <= bound {
		l.Keep()
	}
}

// minimizeMaster moves prices to the minimum of the smoothed master problem at the temperature,
// within the trust region. It stops if Newton's decrement is within the tolerance, as a fraction of
// the temperature. It reports whether the trust region limited the move.
func (d *Descent) minimizeMaster(clock *model.Clock, prices []float64, temperature, tolerance, trust float64) (limited bool) {
	n := &d.newton
	copy(n.center, prices)
	average := 0.0
	for _, price := range prices {
		average += price / float64(len(prices)) / 4
	}
	value := d.smooth(clock, prices, temperature)
	for range newtonSteps {
		decrement := solveNewton(n.hessian, n.gradient, n.move)
		// A step gains about half the decrement. A gain below the error of smoothing is useless.
		if decrement < tolerance*temperature || clock.Expired {
			return false
		}
		step := 1.0
		limited = false
		for t, move := range n.move {
			if move < 0 {
				step = min(step, -0.9*prices[t]/move)
			} else if move > 0 {
				step = min(step, 0.9*(d.caps[t]-prices[t])/move)
			}
			if trust > 0 {
				region := trust * max(n.center[t], average)
				room := region - math.Abs(prices[t]-n.center[t])
				limited = limited || room <= 1e-6*region
				step = min(step, room/math.Abs(move))
			}
		}
		if limited {
			return true
		}
		copy(n.origin, prices)
		improved := false
		for range 30 {
			for t := range prices {
				prices[t] = n.origin[t] + step*n.move[t]
			}
			trial := d.smooth(clock, prices, temperature)
			if clock.Expired {
				break
			}
			if trial <= value-1e-4*step*decrement {
				value, improved = trial, true
				break
			}
			step /= 2
		}
		if !improved {
			copy(prices, n.origin)
			return false
		}
	}
	return false
}

// smooth returns the smoothed master problem at the prices, and sets its gradient and Hessian in
// d.newton. They are incomplete if the deadline has passed.
func (d *Descent) smooth(clock *model.Clock, prices []float64, temperature float64) float64 {
	n := &d.newton
	n.reset()
	total := 0.0
	for t, price := range prices {
		net, nodes, curvature := smooth(&d.curves[t], price, temperature)
		slack := d.caps[t] - price
		total += float64(d.in.Capacity[t])*price + net - temperature*(math.Log(price)+math.Log(slack))
		n.gradient[t] = float64(d.in.Capacity[t]) - nodes - temperature/price + temperature/slack
		n.hessian[t*n.steps+t] = curvature + temperature/(price*price) + temperature/(slack*slack)
		if clock.Add(len(d.curves[t].Edges)) {
			return total
		}
	}
	for m := range d.classes.All {
		class := &d.classes.All[m]
		total += d.smoothClass(class, prices, temperature)
		if clock.Add(class.Len() * 2 * len(prices)) {
			break
		}
	}
	return total
}

// smoothClass returns the soft maximum of the columns of a class times the number of its jobs. It
// adds its derivatives to d.newton: minus the expected nodes per step, and their covariance divided
// by the temperature.
func (d *Descent) smoothClass(class *model.JobClass, prices []float64, temperature float64) float64 {
	n, count := &d.newton, class.Count
	d.net = d.net[:0]
	best, most := 0, math.Inf(-1)
	for m := range class.Len() {
		net := class.Net(m, prices)
		if d.net = append(d.net, net); net > most {
			best, most = m, net
		}
	}
	sum := 1.0
	for m, net := range d.net {
		d.net[m] = 0
		if x := (net - most) / temperature; x >= -maxExponent && m != best {
			d.net[m] = math.Exp(x)
			sum += d.net[m]
		}
	}
	held := class.Nodes(best)
	for t, nodes := range held {
		n.gradient[t] -= count * nodes
	}
	if sum == 1 {
		return count * most
	}
	// The mean and the covariance are computed relative to the nodes of the best column, which has
	// the largest probability. This limits cancellation.
	clear(n.mean)
	for m, likely := range d.net {
		if likely == 0 {
			continue
		}
		share := likely / sum
		for t, nodes := range class.Nodes(m) {
			beyond := nodes - held[t]
			n.away[t] = beyond
			if beyond != 0 {
				n.mean[t] += share * beyond
				n.addProduct(t, count*share*beyond/temperature, n.away)
			}
		}
	}
	for t, mean := range n.mean {
		n.gradient[t] -= count * mean
		n.addProduct(t, -count*mean/temperature, n.mean)
	}
	return count * (most + temperature*math.Log(sum))
}
