package guess

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The dual: the best prices.
//
// The Lagrangian bound L(lambda) is convex and piecewise linear in only T dimensions,
// one price per step. It is minimised by column generation with a smoothed master: over
// the plans found so far ("columns"), the maximum in phi_i is replaced by the soft maximum
//
//	temperature * log sum_plans exp((u - lambda n) / temperature),
//
// and 0 <= lambda <= cap, beyond which no job takes a node it need not, by
// logarithmic barriers of the same temperature. What results is smooth and strictly
// convex, so that Newton's method needs a handful of T by T systems; the temperature then falls, and
// at every temperature the jobs are priced once to find the missing columns. See Nesterov, "Smooth
// minimization of non-smooth functions" (2005), and Fisher, "The Lagrangian
// relaxation method for solving integer programming problems" (1981).

const (
	// FirstTemperature is where the temperature starts and lastTemperature where it ends,
	// as shares of a job's average value. Rough prices are those at roughTemperature.
	FirstTemperature = 0.02
	roughTemperature = 1e-3
	lastTemperature  = 1e-7
	// cooling is the factor from one temperature to the next.
	cooling = 0.2
	// The temperature stays while more than one in foundShare jobs lacks columns, of many jobs,
	// whose prices depend little on the single one, while more than one in foundOfMany.
	foundShare, foundOfMany = 10, 2
	// Nor does it stay where the bound has changed by less than settledShare of what smoothing
	// adds to it in that many rounds in a row.
	settledShare  = 0.1
	settledRounds = 3
	// Below fineTemperature, a share of a job's average value, a fall must gain
	// enoughGain of the bound for another to follow, of many jobs enoughOfMany of a job's value.
	fineTemperature = 1e-5
	enoughGain      = 1e-9
	enoughOfMany    = 1e-5
	// Nor does another follow one that gains less than gapShare of what the bound is above a
	// plan close to the best: the core search loses more.
	gapShare = 3e-3
	// maxRounds limits the rounds of settling and pricing.
	maxRounds = 200
	// sure is how many temperatures a column, or an edge, is ahead of those that do not count.
	sure = 36
	// newtonSteps limits the Newton steps at one temperature.
	newtonSteps = 30
)

// Evaluator knows L.
type Evaluator interface {
	// Evaluate returns L(prices), +Inf if time is up, and the number of jobs that it found
	// columns for.
	Evaluate(clock *model.Clock, prices []float64) (bound float64, found int)
	// Keep makes the prices evaluated last the best so far.
	Keep()
}

// Start is where the search for prices starts.
type Start struct {
	Prices      []float64
	Temperature float64
	// Trust, if not 0, is the share by which a price may change in one round.
	Trust float64
	// Rough prices are good enough: the search ends at roughTemperature.
	Rough bool
	// Close says that what is enough is close to the optimum, as it is where jobs are few.
	Close bool
}

// Descent minimises the Lagrangian bound.
type Descent struct {
	in      *model.Instance
	classes *model.JobClasses
	curves  []model.StepCurve
	caps    []float64 // prices from which on every job holds its smallest size
	newton  newton
	// net is scratch for a job's columns: value less price, then probability.
	net []float64
}

// NewDescent prepares the search for prices. Where time is up it is not complete.
func NewDescent(clock *model.Clock, in *model.Instance, d *model.JobClasses, curves []model.StepCurve) *Descent {
	return &Descent{in: in, classes: d, curves: curves, caps: priceCaps(clock, in), newton: newNewton(in.Steps)}
}

// priceCaps returns, per step, twice a price at which every job holds its smallest
// size: k nodes in step t bring at most what serving min(1, share(k)) from step t on
// gains, and in the first step what the value of the size exceeds that of the
// smallest.
// Without a cap the prices of a step whose nodes are all spoken for would run away.
func priceCaps(clock *model.Clock, in *model.Instance) []float64 {
	caps := make([]float64, in.Steps)
	for t := range caps {
		caps[t] = 1e-9*in.Scale/float64(max(1, in.Capacity[t])) + in.TieTotal
	}
	for i := range in.Jobs {
		j := &in.Jobs[i]
		first, later := 0.0, 0.0 // the most gained per node
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

// Minimise lowers L, starting from prices, and keeps the best on the way. It stops early
// when time is up or when L falls to enough.
func (d *Descent) Minimise(clock *model.Clock, l Evaluator, from Start, enough float64) {
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
	settled, share, little, tolerance := 0, foundShare, 0.0, 1e-2
	if !from.Close {
		share, little, tolerance = foundOfMany, enoughOfMany*average, 0.1
	}
	for rounds := 0; bound > enough && !clock.Expired && rounds < maxRounds; rounds++ {
		held := d.settle(clock, at, temperature, tolerance, from.Trust)
		value, found := l.Evaluate(clock, at)
		gain := bound - value
		if gain > 0 {
			bound = value
			copy(prices, at)
			l.Keep()
		}
		// The minimum moves far as long as many jobs lack columns; only then does
		// sharpening pay off.
		if settled++; math.Abs(gain) > settledShare*temperature*float64(len(d.in.Jobs)) {
			settled = 0
		}
		if held || found*share > len(d.in.Finishing) && settled < settledRounds {
			continue
		}
		settled = 0
		sharp := temperature <= last || temperature <= fineTemperature*average && gain <= max(little, enoughGain*math.Abs(bound)) ||
			from.Close && temperature <= rough && math.Abs(gain) <= gapShare*(bound-enough)
		if found == 0 && sharp || from.Rough && temperature <= rough {
			break
		}
		temperature = max(last, temperature*cooling)
	}
	dropIdlePrices(clock, l, bound, prices)
}

// dropIdlePrices sets prices that only the barrier keeps above 0 to 0 where
// that does not raise the bound.
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

// settle moves prices to the minimum of the smoothed master at the temperature, or
// towards it until time is up, no further than they are trusted. It returns true if that
// held them. They are there where the decrement is within the tolerance, as a share of the
// temperature.
func (d *Descent) settle(clock *model.Clock, prices []float64, temperature, tolerance, trust float64) (held bool) {
	n := &d.newton
	copy(n.centre, prices)
	average := 0.0
	for _, price := range prices {
		average += price / float64(len(prices)) / 4
	}
	value := d.smooth(clock, prices, temperature)
	for range newtonSteps {
		decrement := solveNewton(n.hessian, n.gradient, n.move)
		// Half the decrement is what the step can gain; below the temperature's own
		// error there is nothing left to gain.
		if decrement < tolerance*temperature || clock.Expired {
			return false
		}
		step := 1.0
		held = false
		for t, move := range n.move {
			if move < 0 {
				step = min(step, -0.9*prices[t]/move)
			} else if move > 0 {
				step = min(step, 0.9*(d.caps[t]-prices[t])/move)
			}
			if trust > 0 {
				region := trust * max(n.centre[t], average)
				room := region - math.Abs(prices[t]-n.centre[t])
				held = held || room <= 1e-6*region
				step = min(step, room/math.Abs(move))
			}
		}
		if held {
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
			step *= n.shorter(decrement)
		}
		if !improved {
			copy(prices, n.origin)
			return false
		}
	}
	return false
}

// smooth returns the smoothed master at the prices, and leaves its gradient and
// Hessian in d.newton. Where time is up they are not what they should be.
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

// smoothClass returns the soft maximum of a class's columns times the number of its jobs, and
// adds its derivatives to those in d.newton: less the expected nodes per step, and their
// covariance divided by the temperature.
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
		if x := (net - most) / temperature; x >= -sure && m != best {
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
	// The mean and the covariance are those of the nodes beyond the best column's, which most
	// jobs are sure of. Its weight is the largest, so that little cancels out.
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
