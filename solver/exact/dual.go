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
	// The temperatures are shares of a job's average value, from the first to the last.
	// From coarseTemperature on curves are smoothed coarsely.
	firstTemperature  = 0.1
	coarseTemperature = 1e-3
	lastTemperature   = 1e-7
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
	allowed []sizeSet
	// prices and temperature are where the dual search starts.
	prices      []float64
	temperature float64
	// trust, if not 0, is the share by which a price may change in one round.
	trust float64
	// bound is at least the value of every plan in the subproblem, by a lemma; prove alone
	// writes them. solved says that the best of its plans was found, or that none of them
	// is better than the incumbent.
	bound  float64
	by     lemma
	solved bool
	// order tells subproblems of equal bound apart.
	order int
}

// allowedFor returns the restriction of the f-th finishing job.
func (b *subproblem) allowedFor(f, steps int) []sizeSet { return b.allowed[f*steps : (f+1)*steps] }

// columnSet is the plans found so far of a class of equal finishing jobs.
type columnSet struct {
	chosen []uint8   // steps per column
	nodes  []float64 // steps per column
	values []float64
}

// unit is the jobs of a class that a subproblem restricts alike: they have the same
// best plan at any prices.
type unit struct {
	class, job int
	count      float64
	allowed    []sizeSet
	// active are the columns of the class that lie in the subproblem.
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
	classOf []int       // of each finishing job
	columns []columnSet // one per class
	caps    []float64   // prices from which on every job holds its smallest size
	pricer  pricer
	newton  newton
	// units are those of the current subproblem, unitOf that of each finishing job, and
	// unitsOf those of each class.
	units   []unit
	unitOf  []int
	unitsOf [][]int
	// coarse is coarseTemperature of the current subproblem.
	coarse float64
	// net is scratch for a job's columns: value less price, then probability.
	net []float64
}

// newDual prepares the search for prices. Where time is up it is not complete.
func newDual(c *clock, in *instance) *dual {
	classOf, classes := in.classes(c, in.finishing)
	return &dual{
		in:      in,
		curves:  newStepCurves(c, in),
		classOf: classOf,
		columns: make([]columnSet, len(classes)),
		newton:  newNewton(in.steps),
		pricer:  pricer{maxLabels: in.effort.maxLabels},
		caps:    priceCaps(c, in),
		unitOf:  make([]int, len(classOf)),
		unitsOf: make([][]int, len(classes)),
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

// add keeps a plan of a class as a column.
func (d *dual) add(class int, j *job, chosen []uint8) {
	set := &d.columns[class]
	set.chosen = append(set.chosen, chosen...)
	for _, k := range chosen {
		set.nodes = append(set.nodes, float64(j.sizes[k]))
	}
	set.values = append(set.values, j.value(chosen))
	for _, n := range d.unitsOf[class] {
		d.units[n].admit(int32(len(set.values)-1), chosen)
	}
}

// admit makes a column active if it lies in the subproblem.
func (u *unit) admit(column int32, chosen []uint8) {
	for t, k := range chosen {
		if !u.allowed[t].has(int(k)) {
			return
		}
	}
	u.active = append(u.active, column)
}

// enter makes the units of a subproblem and the columns that lie in it active.
func (d *dual) enter(c *clock, b *subproblem) {
	steps := d.in.steps
	if cap(d.units) < len(d.classOf) {
		d.units = make([]unit, 0, len(d.classOf))
	}
	old := d.units
	d.units = d.units[:0]
	for class := range d.unitsOf {
		d.unitsOf[class] = d.unitsOf[class][:0]
	}
	for f, class := range d.classOf {
		c.up(2 * steps)
		allowed := b.allowedFor(f, steps)
		at := slices.IndexFunc(d.unitsOf[class], func(n int) bool { return slices.Equal(d.units[n].allowed, allowed) })
		if at >= 0 {
			d.unitOf[f] = d.unitsOf[class][at]
			d.units[d.unitOf[f]].count++
			continue
		}
		n := len(d.units)
		d.unitOf[f], d.unitsOf[class] = n, append(d.unitsOf[class], n)
		u := unit{class: class, job: d.in.finishing[f], count: 1, allowed: allowed}
		if n < len(old) {
			u.active = old[n].active[:0]
		}
		set := &d.columns[class]
		for column := range set.values {
			u.admit(int32(column), set.chosen[column*steps:(column+1)*steps])
		}
		d.units = append(d.units, u)
	}
}

// bestColumn returns the active column of a unit of the largest net value at the given
// prices, and that value; -1 if there is none.
func (d *dual) bestColumn(u *unit, prices []float64) (column int, net float64) {
	set := &d.columns[u.class]
	column, net = -1, math.Inf(-1)
	for _, c := range u.active {
		if value := set.net(c, prices); value > net {
			column, net = int(c), value
		}
	}
	return column, net
}

// unit returns the unit of the f-th finishing job.
func (d *dual) unit(f int) *unit { return &d.units[d.unitOf[f]] }

// bound returns L(prices) over the subproblem entered last. Every unit is priced; plans that beat
// its columns become columns, and the number of jobs they are for is returned. The bound is
// -Inf if some job has no plan in the subproblem, and +Inf if time was up before it was
// known.
func (d *dual) bound(c *clock, prices []float64) (bound float64, found int) {
	for t, price := range prices {
		net, _ := d.curves[t].at(price)
		bound += float64(d.in.capacity[t])*price + net
	}
	for n := range d.units {
		u := &d.units[n]
		j := &d.in.jobs[u.job]
		_, floor := d.bestColumn(u, prices)
		phi, chosen := d.pricer.price(c, j, prices, u.allowed, floor)
		if c.up(len(u.active) * d.in.steps) {
			return math.Inf(1), found
		}
		// A plan that is better by rounding only would be found again and again.
		if chosen != nil && phi > floor+d.in.precision/8 {
			found += int(u.count)
			d.add(u.class, j, chosen)
		}
		bound += u.count * phi
	}
	return bound, found
}

// minimise lowers L over the subproblem, starting from its prices, and returns the
// best bound with its prices. It stops early when time is up or when the bound falls
// to enough.
func (d *dual) minimise(c *clock, b *subproblem, enough float64) (bound float64, prices []float64) {
	d.enter(c, b)
	average := d.in.scale / float64(max(1, len(d.in.jobs)))
	at := slices.Clone(b.prices)
	for t := range at {
		at[t] = min(max(at[t], 1e-9*d.caps[t]), 0.5*d.caps[t])
	}
	prices = slices.Clone(at)
	bound, _ = d.bound(c, at)
	temperature, last := b.temperature*average, lastTemperature*average
	d.coarse = coarseTemperature * average
	if average == 0 || c.ended {
		return bound, prices
	}
	for rounds := 0; bound > enough && !c.ended && rounds < maxRounds; rounds++ {
		held := d.settle(c, at, temperature, b.trust)
		value, found := d.bound(c, at)
		gain := bound - value
		if gain > 0 {
			bound = value
			copy(prices, at)
		}
		// The minimum moves far as long as many jobs lack columns; only then does
		// sharpening pay off.
		if held || found*foundShare > len(d.in.finishing) {
			continue
		}
		if found == 0 && (temperature <= last || temperature <= fineTemperature*average && gain <= enoughGain*math.Abs(bound)) {
			break
		}
		temperature = max(last, temperature*cooling)
	}
	d.dropIdlePrices(c, &bound, prices)
	return bound, prices
}

// dropIdlePrices sets the prices that only the barrier keeps above 0 to 0 where
// that does not raise the bound.
func (d *dual) dropIdlePrices(c *clock, bound *float64, prices []float64) {
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
	if value, _ := d.bound(c, trial); value <= *bound {
		*bound = value
		copy(prices, trial)
	}
}

// settle moves prices to the minimum of the smoothed master at the temperature, or
// towards it until time is up, no further than they are trusted. It returns true if that
// held them.
func (d *dual) settle(c *clock, prices []float64, temperature, trust float64) (held bool) {
	n := &d.newton
	copy(n.centre, prices)
	average := 0.0
	for _, price := range prices {
		average += price / float64(len(prices)) / 4
	}
	value := d.smooth(c, prices, temperature)
	for range newtonSteps {
		decrement := n.direction()
		// Half the decrement is what the step can gain; below the temperature's own
		// error there is nothing left to gain.
		if decrement < 1e-2*temperature || c.ended {
			return false
		}
		step := 1.0
		for t, move := range n.move {
			if move < 0 {
				step = min(step, -0.9*prices[t]/move)
			} else if move > 0 {
				step = min(step, 0.9*(d.caps[t]-prices[t])/move)
			}
			if trust > 0 {
				region := trust * max(n.centre[t], average)
				step = min(step, (region-math.Abs(prices[t]-n.centre[t]))/math.Abs(move))
			}
		}
		if step <= 1e-6 {
			return true
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
func (d *dual) smooth(c *clock, prices []float64, temperature float64) float64 {
	n := &d.newton
	n.reset()
	total := 0.0
	for t, price := range prices {
		smooth := d.curves[t].smooth
		if temperature >= d.coarse {
			smooth = d.curves[t].smoothCoarsely
		}
		net, nodes, curvature := smooth(price, temperature)
		slack := d.caps[t] - price
		total += float64(d.in.capacity[t])*price + net - temperature*(math.Log(price)+math.Log(slack))
		n.gradient[t] = float64(d.in.capacity[t]) - nodes - temperature/price + temperature/slack
		n.hessian[t*n.steps+t] = curvature + temperature/(price*price) + temperature/(slack*slack)
		if c.up(len(d.curves[t].edges)) {
			return total
		}
	}
	for m := range d.units {
		u := &d.units[m]
		total += d.smoothUnit(u, u.count, prices, temperature)
		if c.up(len(u.active) * 2 * len(prices)) {
			break
		}
	}
	return total
}

// smoothUnit returns the soft maximum of a unit's columns times a count of jobs, and
// adds its derivatives to those in d.newton: less the expected nodes per step, and their
// covariance divided by the temperature.
func (d *dual) smoothUnit(u *unit, count float64, prices []float64, temperature float64) float64 {
	n, set := &d.newton, &d.columns[u.class]
	steps := len(prices)
	d.net = d.net[:0]
	most := math.Inf(-1)
	for _, c := range u.active {
		net := set.net(c, prices)
		d.net = append(d.net, net)
		most = max(most, net)
	}
	sum := 0.0
	clear(n.mean)
	for m, c := range u.active {
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
		n.gradient[t] -= count * n.mean[t]
	}
	for m, c := range u.active {
		if d.net[m] == 0 || d.net[m] == sum {
			continue
		}
		weight := count * d.net[m] / sum / temperature
		nodes := set.nodes[int(c)*steps : (int(c)+1)*steps]
		for t := range nodes {
			scaled := weight * (nodes[t] - n.mean[t])
			for u := 0; u <= t; u++ {
				n.hessian[t*steps+u] += scaled * (nodes[u] - n.mean[u])
			}
		}
	}
	return count * (most + temperature*math.Log(sum))
}
