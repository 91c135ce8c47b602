package heuristics

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The best prices per size, by a proximal bundle method.
//
// As for node prices, the master problem replaces each maximum by the soft maximum over the columns
// found so far: the plans of a class, and the choices in a step. There are many more prices per
// size than node prices, and few columns do not determine them. Each round therefore stays close to
// the best prices known, the stability center. It minimizes
//
//	smoothed L(x) + mu/2 |x - center|^2
//
// by Newton's method, with conjugate gradients for large systems. The evaluation of L at the
// minimum gives new columns. The center moves if L decreases by a sufficient part of the predicted
// decrease. If it does not, the evaluation is repeated halfway to the center. The temperature and
// mu are lowered as the predicted decrease shrinks. The plans and choices of the incumbent are
// columns from the beginning; without them the master problem is unbounded. (Kiwiel, "Proximity
// control in bundle methods for convex nondifferentiable minimization" (1990).)
//
// The constants of this file trade time for better bounds. Each names a benchmark that shows its
// effect, run by go test ./solver/exact -run '^$' -bench NAME -benchtime 1x.

const (
	// initialColumns is the number of columns of a class that the search for node prices provides.
	// With 7 the sweeps of BenchmarkSizePrices take 1.05 times the work.
	initialColumns = 30
	// bundleRounds limits the number of rounds, and bundleSteps Newton's steps per round. With 38
	// rounds BenchmarkAgainstHiGHS loses a proof, and with 48 steps it takes 1.05 times the work.
	bundleRounds = 150
	bundleSteps  = 12
	// covarianceError is the rounding error of a sum of covariances, as a fraction of the largest
	// one.
	covarianceError = 1e-15
	// lastBundleTemperature is the temperature at which the search stops, as a fraction of the
	// objective: rounding errors dominate below it.
	lastBundleTemperature = 1e-14
	// conjugateSteps limits the steps of the conjugate gradient method. With 8 BenchmarkHardEnd takes
	// 1.5 times the work.
	conjugateSteps = 30
	// rolloutEvery is the number of moves of the center between two rollouts. With 1 the sweeps
	// of BenchmarkSizePrices take 1.2 times the work.
	rolloutEvery = 4
)

// Bundle minimizes L over prices per size.
type Bundle struct {
	*model.SizeIndex

	weights []float64             // of the blocks: the number of jobs per class, and 1 per step
	columns [][]model.PriceColumn // per block

	// row[v] is the row of price v in Newton's system, or -1 if no column contains it.
	row      []int
	used     []int // price of each row
	gradient []float64
	hessian  []float64
	move     []float64
	mean     []float64
	net      []float64
	// For large systems: mu, the temperature, the probability of each column at the last
	// derivatives, the diagonal of the Hessian, and the vectors of the conjugate gradient method.
	weight                       float64 // mu, the weight of the proximal term
	temperature                  float64
	probability                  [][]float64
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

// add adds a column to a block and reports whether it is new.
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

// addPlan adds the columns of a legal plan.
func (b *Bundle) addPlan(p *model.Plan) {
	for f, i := range b.In.Finishing {
		b.add(b.ClassOf[f], b.PlanColumn(b.ClassOf[f], p.Of(i)))
	}
	for t := range b.In.Steps {
		b.add(len(b.Jobs)+t, b.StepColumn(t, func(i, _ int) uint8 { return p.Of(i)[t] }))
	}
}

// AddColumns adds the columns with the largest net values at node prices.
func (b *Bundle) AddColumns(d *model.JobClasses, prices []float64) {
	for class := range d.All {
		set := &d.All[class]
		best := make([]int, set.Len())
		for n := range best {
			best[n] = n
		}
		slices.SortStableFunc(best, func(m, n int) int { return cmp.Compare(set.Net(n, prices), set.Net(m, prices)) })
		for _, n := range best[:min(initialColumns, len(best))] {
			b.add(class, b.PlanColumn(class, set.Plan(n)))
		}
	}
}

// SizeEvaluator evaluates L at prices per size.
type SizeEvaluator interface {
	// Evaluate returns L(x) and the number of new columns, as reported by add. It returns false if
	// the deadline has passed.
	Evaluate(clock *model.Clock, x []float64, add func(block int, column model.PriceColumn) bool) (bound float64, found int, ok bool)
	// Keep records the last evaluation as the best one.
	Keep()
}

// Minimize lowers L, starting from the given prices, and records the best evaluation. It stops if L
// exceeds the value of the incumbent by at most the tie costs, if there is no further improvement,
// if the count of work reaches until, or if the deadline has passed. It regularly calls offer with
// the current prices. The function offer returns the incumbent and its value, and whether to stop.
func (b *Bundle) Minimize(
	clock *model.Clock, l SizeEvaluator, x []float64, until int, offer func(x []float64) (*model.Plan, float64, bool),
) {
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
	center := slices.Clone(x)
	gap := max(bound-value, 1e-4*b.In.Scale)
	largest := slices.Max(append(slices.Clone(x), b.In.Scale*1e-9)) // Possibly no job has a size with a price.
	mu := 4 * gap / (0.01 * float64(b.In.Steps) * largest * largest)
	temperature := gap / (3 * blocks)
	moves := 0
	for range bundleRounds {
		if bound-value <= max(b.In.Precision, model.TiesOnly*math.Abs(value)) || blocks*temperature < lastBundleTemperature*b.In.Scale {
			break
		}
		start := clock.Work
		x, smooth := b.minimizeMaster(clock, center, mu, temperature)
		settled := clock.Work - start
		here, found, ok := l.Evaluate(clock, x, b.add)
		step := bundleStep{bound: bound, value: value, promised: bound - smooth, far: here}
		target := bound - 0.05*max(step.promised, 0)
		if ok && found > 0 && here >= target && 8*(clock.Work-start-settled) < settled {
			// The step was too long. Halfway to the center there are missing columns.
			var more int
			for v := range x {
				x[v] = (x[v] + center[v]) / 2
			}
			here, more, ok = l.Evaluate(clock, x, b.add)
			found += more
		}
		if !ok || clock.Expired || clock.Past(until) {
			break
		}
		step.found, step.moved = found, here < target
		mu, temperature = step.nextProximity(mu), step.nextTemperature(temperature, blocks, b.In.Scale)
		if step.moved {
			bound, center = here, x
			l.Keep()
			moves++
			if moves%rolloutEvery == 0 {
				better, now, over := offer(center)
				if over {
					return
				}
				if now > value {
					incumbent, value = better, now
					b.addPlan(incumbent)
				}
			}
		}
	}
	offer(center)
}

// bundleStep is one step of Minimize.
type bundleStep struct {
	bound, value float64 // L at the center before the step, and the value of the incumbent
	promised     float64 // the decrease of L that the master problem predicts
	far          float64 // L at the minimum of the master problem
	found        int     // new columns
	moved        bool    // the center moves
}

// nextProximity returns the weight of the distance to the center for the next step.
func (s *bundleStep) nextProximity(mu float64) float64 {
	switch {
	case s.moved && s.bound-s.far > s.promised/2:
		return mu * 0.3
	case s.moved || s.found == 0:
		return mu
	case s.far-s.bound > 4*max(s.promised, s.bound-s.value):
		return mu * 3
	default:
		return mu * 1.1
	}
}

// nextTemperature returns the temperature of the next step.
func (s *bundleStep) nextTemperature(temperature, blocks, scale float64) float64 {
	switch {
	case s.found == 0 && math.Abs(s.promised) <= 1e-13*scale:
		return 0 // The master problem is exact and predicts no further decrease.
	case s.found == 0:
		return temperature * 0.16
	case s.promised < 0.25*blocks*temperature:
		return temperature * 0.4
	default:
		return temperature
	}
}

// minimizeMaster returns the minimum of the master problem near the center, or the point reached
// when the deadline passes, and the smoothed L there.
func (b *Bundle) minimizeMaster(clock *model.Clock, center []float64, mu, temperature float64) ([]float64, float64) {
	x := slices.Clone(center)
	trial := slices.Clone(center)
	value, smooth := b.master(x, center, mu, temperature, true)
	rows := len(b.used)
	for range bundleSteps {
		var decrement float64
		if rows <= b.In.Effort.MaxDenseRows {
			clock.Add(rows*rows*rows/4 + 20*rows*rows)
			b.move = zeros(b.move, rows)
			decrement = solveNewton(b.hessian, b.gradient, b.move)
		} else {
			decrement = b.conjugateGradient(clock)
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
			now, _ := b.master(trial, center, mu, temperature, false)
			if now <= value-1e-4*step*decrement {
				improved = true
				break
			}
		}
		if !improved {
			break
		}
		copy(x, trial)
		value, smooth = b.master(x, center, mu, temperature, true)
	}
	return x, smooth
}

// master returns the smoothed L at x with and without the proximal term. If derivatives is set, it
// also computes the gradient and the Hessian of the value with the proximal term.
func (b *Bundle) master(x, center []float64, mu, temperature float64, derivatives bool) (value, smooth float64) {
	rows := len(b.used)
	if derivatives {
		b.gradient = zeros(b.gradient, rows)
		b.mean = zeros(b.mean, rows)
		if rows <= b.In.Effort.MaxDenseRows {
			b.hessian = zeros(b.hessian, rows*rows)
		} else {
			b.diagonal = zeros(b.diagonal, rows)
			b.weight, b.temperature = mu, temperature
			b.probability = slices.Grow(b.probability[:0], len(b.columns))[:len(b.columns)]
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
			if z := (net - most) / temperature; z > -maxExponent {
				b.net[n] = math.Exp(z)
				sum += b.net[n]
			}
		}
		smooth += b.weights[block] * (most + temperature*math.Log(sum))
		if derivatives {
			if rows <= b.In.Effort.MaxDenseRows {
				b.addDerivatives(columns, b.weights[block], sum, temperature)
			} else {
				b.addDiagonal(block, sum)
			}
		}
	}
	// Rounding could make the Hessian indefinite.
	ridge := covarianceError * float64(len(b.In.Finishing)*len(b.In.Finishing)) / temperature
	value = smooth
	for r, v := range b.used {
		away := x[v] - center[v]
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

// addDerivatives adds the derivatives of the soft maximum of a block: the expected factors, and
// their covariance divided by the temperature. The slice net contains the probabilities times sum.
func (b *Bundle) addDerivatives(columns []model.PriceColumn, weight, sum, temperature float64) {
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

// addDiagonal adds the gradient of the soft maximum of a block and the diagonal of its Hessian, and
// stores the probabilities.
func (b *Bundle) addDiagonal(block int, sum float64) {
	columns, weight := b.columns[block], b.weights[block]
	likely := zeros(b.probability[block], len(columns))
	b.probability[block] = likely
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

// multiply sets b.multiplied to the product of the Hessian and a vector.
func (b *Bundle) multiply(vector []float64) {
	b.multiplied = zeros(b.multiplied, len(vector))
	for r, v := range vector {
		b.multiplied[r] = b.weight * v
	}
	for block, columns := range b.columns {
		scale := b.weights[block] / b.temperature
		b.net = b.net[:0]
		mean := 0.0
		for n, p := range b.probability[block] {
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
		for n, p := range b.probability[block] {
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

// conjugateGradient computes Newton's step by the conjugate gradient method with diagonal
// preconditioning. It returns the decrease that the gradient predicts for the step.
func (b *Bundle) conjugateGradient(clock *model.Clock) float64 {
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

// zeros returns n zeros, and reuses the given memory if it suffices.
func zeros(memory []float64, n int) []float64 {
	memory = slices.Grow(memory[:0], n)[:n]
	clear(memory)
	return memory
}
