package guess

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The best prices per size: a proximal bundle.
//
// As for prices per node the master replaces every maximum by the soft maximum over the
// columns found so far, here over the plans of a class and over the
// choices in a step. There are many more prices than nodes have, and between few
// columns nothing holds them, so each round stays near the best prices known, the
// centre: it minimises
//
//	smoothed L(x) + mu/2 |x - centre|^2
//
// by Newton's method, of which a large system is solved by conjugate gradients,
// evaluates L there, which brings the missing columns, and moves the centre if L has fallen
// by a good part of what the master promised. Where it has not, it does so halfway back.
// Temperature and mu fall as the promises shrink. The incumbent's plans and choices are columns
// from the beginning; without them the master is not bounded. (Kiwiel, "Proximity
// control in bundle methods for convex nondifferentiable minimization" (1990).)

const (
	// seeds is the number of columns of a class that the search for node prices hands on.
	seeds = 30
	// bundleRounds and bundleSteps bound the rounds, and Newton's steps of each.
	bundleRounds = 150
	bundleSteps  = 12
	// lost is what rounding takes from a sum of covariances, as a share of the largest.
	lost = 1e-15
	// lastBundleTemperature is the temperature where the search ends, as a share of the objective.
	lastBundleTemperature = 1e-14
	// conjugateSteps limits the steps of a conjugate gradient method.
	conjugateSteps = 30
	// rolloutEvery is the number of moves of the centre from one rollout to the next.
	rolloutEvery = 4
)

// Bundle minimises L over prices per size.
type Bundle struct {
	*model.SizeIndex

	weights []float64             // of the blocks: classes, then steps
	columns [][]model.PriceColumn // per block

	// row[v] is the row of price v in Newton's system, -1 if no column has it.
	row      []int
	used     []int // the price of each row
	gradient []float64
	hessian  []float64
	move     []float64
	mean     []float64
	net      []float64
	// Of a large system: the probability of each column as of the last derivatives, the
	// diagonal, and what the conjugate gradients work with.
	weight                       float64 // mu
	temperature                  float64
	likely                       [][]float64
	diagonal                     []float64
	residual, search, multiplied []float64
}

// NewBundle returns a bundle without columns.
func NewBundle(s *model.SizeIndex) *Bundle {
	b := &Bundle{SizeIndex: s, row: make([]int, s.PriceCount)}
	for v := range b.row {
		b.row[v] = -1
	}
	for _, count := range s.Count {
		b.weights = append(b.weights, float64(count))
	}
	for range s.In.Steps {
		b.weights = append(b.weights, 1)
	}
	b.columns = make([][]model.PriceColumn, len(b.weights))
	return b
}

// add keeps a column of a block and reports whether it is new.
func (b *Bundle) add(block int, column model.PriceColumn) bool {
	for n := range b.columns[block] {
		if b.columns[block][n].Equal(&column) {
			return false
		}
	}
	for _, v := range column.Prices {
		if b.row[v] < 0 {
			b.row[v] = len(b.used)
			b.used = append(b.used, int(v))
		}
	}
	b.columns[block] = append(b.columns[block], column)
	return true
}

// addPlan keeps the columns of a legal plan.
func (b *Bundle) addPlan(p *model.Plan) {
	for f, i := range b.In.Finishing {
		b.add(b.ClassOf[f], b.PlanColumn(b.ClassOf[f], p.Of(i)))
	}
	for t := range b.In.Steps {
		b.add(len(b.Jobs)+t, b.StepColumn(t, func(i, _ int) uint8 { return p.Of(i)[t] }))
	}
}

// AddColumns keeps the columns that the search for node prices likes best.
func (b *Bundle) AddColumns(d *model.JobClasses, prices []float64) {
	for class := range d.All {
		set := &d.All[class]
		best := make([]int, set.Len())
		for n := range best {
			best[n] = n
		}
		slices.SortStableFunc(best, func(m, n int) int { return cmp.Compare(set.Net(n, prices), set.Net(m, prices)) })
		for _, n := range best[:min(seeds, len(best))] {
			b.add(class, b.PlanColumn(class, set.Plan(n)))
		}
	}
}

// SizeEvaluator knows L at prices per size.
type SizeEvaluator interface {
	// Evaluate returns L(x) and how many of its columns are new, as add reports of each;
	// false if time is up.
	Evaluate(clock *model.Clock, x []float64, add func(block int, column model.PriceColumn) bool) (bound float64, found int, ok bool)
	// Keep makes the prices evaluated last the best so far.
	Keep()
}

// Minimise lowers L from the given prices until it exceeds the incumbent by no more than ties
// make, nothing more is gained, the clock's work reaches until, or time is
// up, and keeps the best on the way. At times it offers the prices for a plan; offer
// returns the incumbent and its value, and whether that is enough.
func (b *Bundle) Minimise(clock *model.Clock, l SizeEvaluator, x []float64, until int, offer func(x []float64) (*model.Plan, float64, bool)) {
	incumbent, value, _ := offer(nil)
	b.addPlan(incumbent)
	bound, _, ok := l.Evaluate(clock, x, b.add)
	if !ok {
		return
	}
	l.Keep()
	blocks := 0.0
	for _, weight := range b.weights {
		blocks += weight
	}
	centre := slices.Clone(x)
	gap := max(bound-value, 1e-4*b.In.Scale)
	largest := slices.Max(append(slices.Clone(x), b.In.Scale*1e-9)) // No job may have a size to price.
	mu := 4 * gap / (0.01 * float64(b.In.Steps) * largest * largest)
	temperature := gap / (3 * blocks)
	moves := 0
	for range bundleRounds {
		if bound-value <= max(b.In.Precision, model.TiesOnly*math.Abs(value)) || blocks*temperature < lastBundleTemperature*b.In.Scale {
			break
		}
		start := clock.Work
		x, smooth := b.settle(clock, centre, mu, temperature)
		settled := clock.Work - start
		here, found, ok := l.Evaluate(clock, x, b.add)
		promised := bound - smooth
		enough, far := bound-0.05*max(promised, 0), here
		if ok && found > 0 && here >= enough && 8*(clock.Work-start-settled) < settled {
			// That went too far. Halfway back there are the columns missing in between.
			var more int
			for v := range x {
				x[v] = (x[v] + centre[v]) / 2
			}
			here, more, ok = l.Evaluate(clock, x, b.add)
			found += more
		}
		if !ok || clock.Expired || clock.Past(until) {
			break
		}
		if here < enough {
			if bound-far > promised/2 {
				mu *= 0.3
			}
			bound, centre = here, x
			l.Keep()
			if moves++; moves%rolloutEvery == 0 {
				better, now, over := offer(centre)
				if over {
					return
				}
				if now > value {
					incumbent, value = better, now
					b.addPlan(incumbent)
				}
			}
		} else if found > 0 {
			if far-bound > 4*max(promised, bound-value) {
				mu *= 3
			} else {
				mu *= 1.1
			}
		}
		switch {
		case found == 0 && promised <= 1e-13*b.In.Scale && promised >= -1e-13*b.In.Scale:
			temperature = 0 // the master is exact, and has nothing more to offer
		case found == 0:
			temperature *= 0.16
		case promised < 0.25*blocks*temperature:
			temperature *= 0.4
		}
	}
	offer(centre)
}

// settle returns the prices at which the master near the centre is least, or towards
// them, and the smoothed L there.
func (b *Bundle) settle(clock *model.Clock, centre []float64, mu, temperature float64) ([]float64, float64) {
	x := slices.Clone(centre)
	trial := slices.Clone(centre)
	value, smooth := b.master(x, centre, mu, temperature, true)
	rows := len(b.used)
	for range bundleSteps {
		var decrement float64
		if rows <= b.In.Effort.MaxDenseRows {
			clock.Add(rows*rows*rows/4 + 20*rows*rows)
			b.move = zeros(b.move, rows)
			decrement = solveNewton(b.hessian, b.gradient, b.move)
		} else {
			decrement = b.conjugate(clock)
		}
		if clock.Expired {
			break
		}
		if decrement < 0.1*temperature {
			break
		}
		improved := false
		for step := 1.0; step > 1e-12; step /= 4 {
			for r, v := range b.used {
				trial[v] = x[v] + step*b.move[r]
			}
			now, _ := b.master(trial, centre, mu, temperature, false)
			if now <= value-1e-4*step*decrement {
				improved = true
				break
			}
		}
		if !improved {
			break
		}
		copy(x, trial)
		value, smooth = b.master(x, centre, mu, temperature, true)
	}
	return x, smooth
}

// master returns the smoothed L at x with and without the proximal term, and, if
// derivatives are asked for, leaves gradient and Hessian of the former.
func (b *Bundle) master(x, centre []float64, mu, temperature float64, derivatives bool) (value, smooth float64) {
	rows := len(b.used)
	if derivatives {
		b.gradient = zeros(b.gradient, rows)
		b.mean = zeros(b.mean, rows)
		if rows <= b.In.Effort.MaxDenseRows {
			b.hessian = zeros(b.hessian, rows*rows)
		} else {
			b.diagonal = zeros(b.diagonal, rows)
			b.weight, b.temperature = mu, temperature
			b.likely = slices.Grow(b.likely[:0], len(b.columns))[:len(b.columns)]
		}
	}
	for block, columns := range b.columns {
		b.net = b.net[:0]
		most := math.Inf(-1)
		for n := range columns {
			net := columns[n].ValueAt(x)
			b.net = append(b.net, net)
			most = max(most, net)
		}
		sum := 0.0
		for n, net := range b.net {
			b.net[n] = 0
			if z := (net - most) / temperature; z > -sure {
				b.net[n] = math.Exp(z)
				sum += b.net[n]
			}
		}
		smooth += b.weights[block] * (most + temperature*math.Log(sum))
		if derivatives {
			if rows <= b.In.Effort.MaxDenseRows {
				b.derive(columns, b.weights[block], sum, temperature)
			} else {
				b.deriveLarge(block, sum)
			}
		}
	}
	// What rounding leaves of the Hessian may be negative.
	ridge := lost * float64(len(b.In.Finishing)*len(b.In.Finishing)) / temperature
	value = smooth
	for r, v := range b.used {
		away := x[v] - centre[v]
		value += mu / 2 * away * away
		if derivatives {
			b.gradient[r] += mu * away
			if rows <= b.In.Effort.MaxDenseRows {
				b.hessian[r*rows+r] += mu + ridge
			} else {
				b.diagonal[r] += mu
			}
		}
	}
	return value, smooth
}

// derive adds the derivatives of a block's soft maximum, of which net holds the
// probabilities times sum: the expected factors, and their covariance divided by the
// temperature.
func (b *Bundle) derive(columns []model.PriceColumn, weight, sum, temperature float64) {
	rows := len(b.used)
	var touched []int
	for n := range columns {
		p := b.net[n] / sum
		if p < 1e-13 {
			continue
		}
		column := &columns[n]
		for m, v := range column.Prices {
			r := b.row[v]
			if b.mean[r] == 0 {
				touched = append(touched, r)
			}
			b.mean[r] += p * column.Factors[m]
			scaled := weight / temperature * p * column.Factors[m]
			for l, u := range column.Prices[:m+1] {
				low, high := b.row[u], r
				if low > high {
					low, high = high, low
				}
				b.hessian[high*rows+low] += scaled * column.Factors[l]
			}
		}
	}
	slices.Sort(touched)
	touched = slices.Compact(touched)
	for m, r := range touched {
		b.gradient[r] += weight * b.mean[r]
		scaled := weight / temperature * b.mean[r]
		for _, l := range touched[:m+1] {
			b.hessian[r*rows+l] -= scaled * b.mean[l]
		}
	}
	for _, r := range touched {
		b.mean[r] = 0
	}
}

// deriveLarge adds the gradient of a block's soft maximum and the diagonal of its
// Hessian, and keeps the probabilities.
func (b *Bundle) deriveLarge(block int, sum float64) {
	columns, weight := b.columns[block], b.weights[block]
	likely := zeros(b.likely[block], len(columns))
	b.likely[block] = likely
	for n := range columns {
		p := b.net[n] / sum
		if p < 1e-13 {
			continue
		}
		likely[n] = p
		column := &columns[n]
		for m, v := range column.Prices {
			r, factor := b.row[v], column.Factors[m]
			b.mean[r] += p * factor
			b.gradient[r] += weight * p * factor
			b.diagonal[r] += weight / b.temperature * p * factor * factor
		}
	}
	for n, p := range likely {
		if p == 0 {
			continue
		}
		for _, v := range columns[n].Prices {
			r := b.row[v]
			b.diagonal[r] -= weight / b.temperature * b.mean[r] * b.mean[r]
			b.mean[r] = 0
		}
	}
}

// multiply sets b.multiplied to the Hessian times a vector.
func (b *Bundle) multiply(vector []float64) {
	b.multiplied = zeros(b.multiplied, len(vector))
	for r, v := range vector {
		b.multiplied[r] = b.weight * v
	}
	for block, columns := range b.columns {
		scale := b.weights[block] / b.temperature
		b.net = b.net[:0]
		mean := 0.0
		for n, p := range b.likely[block] {
			along := 0.0
			if p > 0 {
				column := &columns[n]
				for m, v := range column.Prices {
					along += column.Factors[m] * vector[b.row[v]]
				}
			}
			b.net = append(b.net, along)
			mean += p * along
		}
		for n, p := range b.likely[block] {
			if p == 0 {
				continue
			}
			column := &columns[n]
			add := scale * p * (b.net[n] - mean)
			for m, v := range column.Prices {
				b.multiplied[b.row[v]] += add * column.Factors[m]
			}
		}
	}
}

// conjugate solves for Newton's step by conjugate gradients, scaled by the diagonal, and
// returns the decrease that the gradient promises for it.
func (b *Bundle) conjugate(clock *model.Clock) float64 {
	rows := len(b.used)
	work := 0
	for _, columns := range b.columns {
		for n := range columns {
			work += 2 * len(columns[n].Prices)
		}
	}
	b.move = zeros(b.move, rows)
	b.residual, b.search = zeros(b.residual, rows), zeros(b.search, rows)
	product := 0.0
	for r, g := range b.gradient {
		b.residual[r] = -g
		b.search[r] = -g / max(b.diagonal[r], b.weight)
		product += b.residual[r] * b.search[r]
	}
	first := product
	for range conjugateSteps {
		if product <= 0.1*first || clock.Add(work+8*rows) {
			break
		}
		b.multiply(b.search)
		curvature := 0.0
		for r, v := range b.search {
			curvature += v * b.multiplied[r]
		}
		if curvature <= 0 {
			break
		}
		stride, next := product/curvature, 0.0
		for r := range b.move {
			b.move[r] += stride * b.search[r]
			b.residual[r] -= stride * b.multiplied[r]
			next += b.residual[r] * b.residual[r] / max(b.diagonal[r], b.weight)
		}
		for r := range b.search {
			b.search[r] = b.residual[r]/max(b.diagonal[r], b.weight) + next/product*b.search[r]
		}
		product = next
	}
	decrement := 0.0
	for r, g := range b.gradient {
		decrement -= g * b.move[r]
	}
	return decrement
}

// zeros returns n zeros, in the memory given if it suffices.
func zeros(memory []float64, n int) []float64 {
	memory = slices.Grow(memory[:0], n)[:n]
	clear(memory)
	return memory
}
