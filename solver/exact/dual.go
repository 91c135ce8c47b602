package exact

import (
	"math"
	"slices"
)

// The dual: the best prices.
//
// For every lambda >= 0 the Lagrangian bound
//
//	L(lambda) = sum_t N_t lambda_t + sum_i phi_i(lambda)
//
// is at least the optimum, because only the pool's T capacity rows couple the
// jobs. L is convex and piecewise linear in only T dimensions. It is minimised by
// column generation with a smoothed master: over the plans found so far
// ("columns"), the maximum in phi_i is replaced by the soft maximum
//
//	temperature * log sum_plans exp((u - lambda n) / temperature),
//
// and 0 <= lambda <= cap, beyond which no job takes a node it need not, by
// logarithmic barriers of the same temperature. What results
// is smooth and strictly convex, so that Newton's method needs a handful of T by
// T systems; the temperature then falls, and at every temperature the jobs are
// priced once to find the columns that are missing. See Nesterov, "Smooth
// minimization of non-smooth functions" (2005), and Fisher, "The Lagrangian
// relaxation method for solving integer programming problems" (1981).

const (
	// firstTemperature and lastTemperature are shares of a job's average value.
	firstTemperature = 0.1
	lastTemperature  = 1e-7
	// cooling is the factor from one temperature to the next.
	cooling = 0.2
	// foundShare is such that the temperature stays while more than one in this many
	// jobs lacks columns.
	foundShare = 10
	// Below fineTemperature, a share of a job's average value, a fall must gain
	// enoughGain of the bound for another to follow.
	fineTemperature = 1e-5
	enoughGain      = 1e-9
	// maxRounds bounds the rounds of settling and pricing.
	maxRounds = 200
	// newtonSteps bounds the Newton steps at one temperature.
	newtonSteps = 30
)

// subproblem restricts the sizes of the finishing jobs, step by step: a part of the
// search space.
type subproblem struct {
	// allowed holds, per finishing job and step, a bit per size.
	allowed []uint64
	// prices and temperature are where the dual search starts.
	prices      []float64
	temperature float64
	// bound is at least the objective of every plan in the subproblem.
	bound float64
	// order tells subproblems of equal bound apart.
	order int
}

// allowedFor returns the restriction of the f-th finishing job.
func (b *subproblem) allowedFor(f, steps int) []uint64 { return b.allowed[f*steps : (f+1)*steps] }

// columnSet is the plans of one finishing job found so far.
type columnSet struct {
	chosen []uint8   // steps per column
	nodes  []float64 // steps per column
	values []float64
	// active are the columns that lie in the current subproblem.
	active []int32
}

// net returns the value of a column less the price of its nodes.
func (set *columnSet) net(column int32, prices []float64) float64 {
	net, steps := set.values[column], len(prices)
	for t, nodes := range set.nodes[int(column)*steps : (int(column)+1)*steps] {
		net -= prices[t] * nodes
	}
	return net
}

// dual minimises the Lagrangian bound. It keeps its columns from subproblem to subproblem.
type dual struct {
	in      *instance
	curves  []stepCurve
	columns []columnSet // one per finishing job
	caps    []float64   // prices from which on every job holds its smallest size
	pricer  pricer
	newton  newton
	// net is scratch for a job's columns: value less price, then probability.
	net []float64
}

// newDual prepares the search for prices. Where time is up it is not complete.
func newDual(c *clock, in *instance) *dual {
	return &dual{
		in:      in,
		curves:  newStepCurves(c, in),
		columns: make([]columnSet, len(in.finishing)),
		newton:  newNewton(in.steps),
		caps:    priceCaps(c, in),
	}
}

// priceCaps returns, per step, twice a price at which every job holds its smallest
// size: k nodes in step t bring at most what serving min(1, share(k)) from step t on
// gains, and in the first step what the value of the size exceeds that of the
// smallest.
// Without a cap the prices of a step whose nodes are all spoken for would run away.
func priceCaps(c *clock, in *instance) []float64 {
	caps := make([]float64, in.steps)
	for t := range caps {
		caps[t] = 1e-9*in.scale/float64(max(1, in.capacity[t])) + in.tieTotal
	}
	for i := range in.jobs {
		j := &in.jobs[i]
		first, later := 0.0, 0.0 // the most gained per node
		for k := 1; k < len(j.sizes); k++ {
			nodes := float64(j.sizes[k] - j.sizes[0])
			first = max(first, (j.tail[0]*min(1, j.first[k])+max(0, j.cost[0]-j.cost[k]))/nodes)
			later = max(later, min(1, j.later[k])/nodes)
		}
		caps[0] = max(caps[0], 2*first+2*in.tieTotal)
		for t := 1; t < in.steps; t++ {
			caps[t] = max(caps[t], 2*j.tail[t]*later+2*in.tieTotal)
		}
		if c.up(4*len(j.sizes) + in.steps) {
			break
		}
	}
	return caps
}

// add keeps a plan of the f-th finishing job as a column.
func (d *dual) add(f int, chosen []uint8) {
	j := &d.in.jobs[d.in.finishing[f]]
	set := &d.columns[f]
	set.chosen = append(set.chosen, chosen...)
	for _, k := range chosen {
		set.nodes = append(set.nodes, float64(j.sizes[k]))
	}
	set.active = append(set.active, int32(len(set.values)))
	set.values = append(set.values, j.value(chosen))
}

// enter makes active the columns that lie in the subproblem.
func (d *dual) enter(b *subproblem) {
	steps := d.in.steps
	for f := range d.columns {
		set := &d.columns[f]
		allowed := b.allowedFor(f, steps)
		set.active = set.active[:0]
		for c := range set.values {
			inside := true
			for t, k := range set.chosen[c*steps : (c+1)*steps] {
				inside = inside && allowed[t]&(1<<k) != 0
			}
			if inside {
				set.active = append(set.active, int32(c))
			}
		}
	}
}

// bestColumn returns the active column of the f-th finishing job of the
// largest net value at the given prices, and that value; -1 if there is none.
func (d *dual) bestColumn(f int, prices []float64) (column int, net float64) {
	set := &d.columns[f]
	column, net = -1, math.Inf(-1)
	for _, c := range set.active {
		if value := set.net(c, prices); value > net {
			column, net = int(c), value
		}
	}
	return column, net
}

// bound returns L(prices) over the subproblem. Every finishing job is priced; plans that
// beat its columns become columns, and their number is returned. The bound is
// -Inf if some job has no plan in the subproblem, and +Inf if time was up before it was
// known.
func (d *dual) bound(c *clock, b *subproblem, prices []float64) (bound float64, found int) {
	for t, price := range prices {
		net, _ := d.curves[t].at(price)
		bound += float64(d.in.capacity[t])*price + net
	}
	for f, i := range d.in.finishing {
		_, floor := d.bestColumn(f, prices)
		phi, chosen := d.pricer.price(c, &d.in.jobs[i], prices, b.allowedFor(f, d.in.steps), floor)
		if c.up(len(d.columns[f].active) * d.in.steps) {
			return math.Inf(1), found
		}
		if chosen != nil {
			// A plan that is better by rounding only would be found again and again.
			if phi > floor+d.in.precision/8 {
				found++
				d.add(f, chosen)
			}
		}
		bound += phi
	}
	return bound, found
}

// minimise lowers L over the subproblem, starting from its prices, and returns the
// best bound with its prices. It stops early when time is up or when the bound falls
// to enough.
func (d *dual) minimise(c *clock, b *subproblem, enough float64) (bound float64, prices []float64) {
	d.enter(b)
	average := d.in.scale / float64(max(1, len(d.in.jobs)))
	at := slices.Clone(b.prices)
	for t := range at {
		at[t] = min(max(at[t], 1e-9*d.caps[t]), 0.5*d.caps[t])
	}
	prices = slices.Clone(at)
	bound, _ = d.bound(c, b, at)
	temperature, last := b.temperature*average, lastTemperature*average
	if average == 0 || c.ended {
		return bound, prices
	}
	for rounds := 0; bound > enough && !c.ended && rounds < maxRounds; rounds++ {
		d.settle(c, at, temperature)
		value, found := d.bound(c, b, at)
		gain := bound - value
		if gain > 0 {
			bound = value
			copy(prices, at)
		}
		// The minimum moves far as long as many jobs lack columns; only then does
		// sharpening pay off.
		if found*foundShare > len(d.in.finishing) {
			continue
		}
		if found == 0 && (temperature <= last || temperature <= fineTemperature*average && gain <= enoughGain*math.Abs(bound)) {
			break
		}
		temperature = max(last, temperature*cooling)
	}
	d.dropIdlePrices(c, b, &bound, prices)
	return bound, prices
}

// dropIdlePrices sets the prices that only the barrier keeps above 0 to 0 where
// that does not raise the bound.
func (d *dual) dropIdlePrices(c *clock, b *subproblem, bound *float64, prices []float64) {
	largest := 0.0
	for _, price := range prices {
		largest = max(largest, price)
	}
	trial := slices.Clone(prices)
	changed := false
	for t, price := range trial {
		if price > 0 && price < 1e-5*largest {
			trial[t], changed = 0, true
		}
	}
	if !changed {
		return
	}
	if value, _ := d.bound(c, b, trial); value <= *bound {
		*bound = value
		copy(prices, trial)
	}
}

// settle moves prices to the minimum of the smoothed master at the temperature, or
// towards it until time is up.
func (d *dual) settle(c *clock, prices []float64, temperature float64) {
	n := &d.newton
	value := d.smooth(c, prices, temperature)
	for range newtonSteps {
		decrement := n.direction()
		// Half the decrement is what the step can gain; below the temperature's own
		// error there is nothing left to gain.
		if decrement < 1e-2*temperature || c.ended {
			return
		}
		step := 1.0
		for t, move := range n.move {
			if move < 0 {
				step = min(step, -0.9*prices[t]/move)
			} else if move > 0 {
				step = min(step, 0.9*(d.caps[t]-prices[t])/move)
			}
		}
		copy(n.origin, prices)
		improved := false
		for range 30 {
			for t := range prices {
				prices[t] = n.origin[t] + step*n.move[t]
			}
			trial := d.smooth(c, prices, temperature)
			if c.ended {
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
			return
		}
	}
}

// smooth returns the smoothed master at the prices, and leaves its gradient and
// Hessian in d.newton. Where time is up they are not what they should be.
func (d *dual) smooth(c *clock, prices []float64, temperature float64) float64 {
	n := &d.newton
	n.reset()
	total := 0.0
	for t, price := range prices {
		net, nodes, curvature := d.curves[t].smooth(price, temperature)
		slack := d.caps[t] - price
		total += float64(d.in.capacity[t])*price + net - temperature*(math.Log(price)+math.Log(slack))
		n.gradient[t] = float64(d.in.capacity[t]) - nodes - temperature/price + temperature/slack
		n.hessian[t*n.steps+t] = curvature + temperature/(price*price) + temperature/(slack*slack)
	}
	for f := range d.columns {
		total += d.smoothJob(f, prices, temperature, n)
		if c.up(len(d.columns[f].active) * 2 * len(prices)) {
			break
		}
	}
	return total
}

// smoothJob returns the soft maximum of a finishing job's columns and adds its
// derivatives: less the expected nodes per step, and their covariance divided by
// the temperature.
func (d *dual) smoothJob(f int, prices []float64, temperature float64, n *newton) float64 {
	set := &d.columns[f]
	steps := len(prices)
	d.net = d.net[:0]
	most := math.Inf(-1)
	for _, c := range set.active {
		net := set.net(c, prices)
		d.net = append(d.net, net)
		most = max(most, net)
	}
	sum := 0.0
	clear(n.mean)
	for m, c := range set.active {
		x := (d.net[m] - most) / temperature
		if x < -36 {
			d.net[m] = 0
			continue
		}
		weight := math.Exp(x)
		d.net[m] = weight
		sum += weight
		for t, nodes := range set.nodes[int(c)*steps : (int(c)+1)*steps] {
			n.mean[t] += weight * nodes
		}
	}
	for t := range n.mean {
		n.mean[t] /= sum
		n.gradient[t] -= n.mean[t]
	}
	for m, c := range set.active {
		if d.net[m] == 0 || d.net[m] == sum {
			continue
		}
		weight := d.net[m] / sum / temperature
		nodes := set.nodes[int(c)*steps : (int(c)+1)*steps]
		for t := range nodes {
			scaled := weight * (nodes[t] - n.mean[t])
			for u := 0; u <= t; u++ {
				n.hessian[t*steps+u] += scaled * (nodes[u] - n.mean[u])
			}
		}
	}
	return most + temperature*math.Log(sum)
}
