package rows

import (
	"math"
	"slices"
)

// The prices: the minimum of the bound D, by Newton's method.
//
// D is piecewise linear. To smooth it, phi_i is replaced by the soft maximum T log sum exp((v -
// lambda k) / T), which is an upper bound and close to phi_i at a low temperature T. T is lowered
// step by step. If nodes remain that no job can use, or if every choice uses all nodes, the minimum
// is not unique. Adding extraNodes to each capacity selects the smallest prices, which are the
// value of one more node.
//
// The constants of this file trade time for closer prices. On 84 random snapshots on node types, 4 times
// cooling, lastTemperature or firstSample changes no proof and the time by at most a tenth. A quarter of any
// other, or 4 times the value, changes no proof in BenchmarkNodeTypes (go test ./solver/exact -run '^$'
// -bench NodeTypes -benchtime 1x -timeout 30m) and its time by at most 5%.

const (
	extraNodes = 0x1p-10
	// cooling is the factor by which the temperature falls. It falls if a step promises to lower D
	// by less than near temperatures.
	cooling = 4.0
	near    = 2e-3
	// patience is the number of steps of limited length at a temperature. Each further one may be
	// twice as long, because D may be linear over millions of temperatures.
	patience = 16
	// lastTemperature is the last temperature, as a fraction of the average range of values of a
	// job.
	lastTemperature = 1e-7
	// reach is the difference in temperatures beyond which an option has no probability: exp(-36) is
	// below the rounding error of 1.
	reach = 36
	// roundingReach is the same difference for the options that round may choose.
	roundingReach = 6
	// firstSample is the size of the first sample of jobs, and sampleGrowth the factor from one
	// sample to the next.
	firstSample  = 256
	sampleGrowth = 16
)

// minimizeBound returns prices with approximately the smallest bound, and a choice with small
// losses at these prices that uses approximately the capacities. If the deadline passes, it returns
// the prices found so far.
func (s *search) minimizeBound() (prices []float64, choice []int) {
	prices = make([]float64, s.rowCount())
	most, shortfall := s.maxValues()
	temperature := 0.0
	for i, options := range s.Jobs {
		least := math.Inf(1)
		for n := range options {
			least = min(least, options[n].Value)
		}
		// No option that loses more than shortfall is in a better choice.
		temperature += min(most[i]-least, shortfall) / float64(len(s.Jobs))
	}
	last := lastTemperature * temperature
	if last < 0x1p-900 {
		return prices, s.choice // all values are equal
	}
	for sample := firstSample; s.Groups == nil && 2*sample < len(s.Jobs); sample *= sampleGrowth {
		jobs, capacity := s.sample(sample)
		// The expected error of the prices of a sample.
		until := temperature * 0.8 / math.Sqrt(sampleGrowth)
		if sample == firstSample {
			until = temperature * 0.8 / math.Sqrt(firstSample)
		}
		s.descend(jobs, capacity, prices, temperature, until)
		temperature = until
	}
	all, capacity := s.sample(len(s.Jobs))
	reached := s.descend(all, capacity, prices[:s.pricedCount()], temperature, last)
	return prices, s.newSmooth(all, capacity).round(prices, reached)
}

// sample returns a sample of the jobs and its part of the capacities. The part is at least the
// allocation of the sample in the incumbent, because prices of an infeasible sample diverge.
func (s *search) sample(size int) (jobs [][]Option, capacity []float64) {
	jobs, capacity = make([][]Option, size), make([]float64, len(s.Capacity))
	for n := range jobs {
		i := n * len(s.Jobs) / size
		jobs[n] = s.Jobs[i]
		o := &jobs[n][s.choice[i]].Allocation
		for row := s.first(o); row <= int(o.Row); row++ {
			capacity[row] += float64(o.upTo(row))
		}
	}
	for g, nodes := range s.Capacity {
		capacity[g] = max(capacity[g], float64(nodes)*float64(size)/float64(len(s.Jobs))) + extraNodes
	}
	return jobs, capacity
}

// descend minimizes the smoothed bound of some jobs from one temperature down to another, and
// returns the last temperature.
func (s *search) descend(jobs [][]Option, capacity, prices []float64, temperature, last float64) (reached float64) {
	now, next := s.newSmooth(jobs, capacity), s.newSmooth(jobs, capacity)
	trial := make([]float64, len(prices))
	for ; temperature >= last; temperature /= cooling {
		reached = temperature
		now.at(prices, temperature)
		longest := 4 * temperature
		for n := 0; !s.clock.Expired; n++ {
			if n > patience {
				longest *= 2
			}
			step := now.step(prices, longest)
			decrease := 0.0
			for g := range step {
				decrease -= now.gradient[g] * step[g]
			}
			if !(decrease > near*temperature) {
				break
			}
			share := 1.0
			for ; share > 1e-6; share /= 2 {
				for g := range trial {
					low, high := s.priceRange(g)
					trial[g] = min(high, max(low, prices[g]+share*step[g]))
				}
				next.at(trial, temperature)
				if next.value <= now.value-0.1*share*decrease {
					break
				}
			}
			if !(next.value < now.value) {
				break
			}
			copy(prices, trial)
			now, next = next, now
		}
	}
	return reached
}

// smooth is the smoothed bound at prices, with its derivatives.
type smooth struct {
	*search
	jobs     [][]Option
	capacity []float64
	// own is the capacity of each row less that of the next row of its type: the derivative of the
	// bound by the unit price of the row, without jobs.
	own          []float64
	net          []float64 // scratch: net values of the options of a job
	mean, square []float64
	counted      []averages // scratch: nodes of a job by window

	value    float64
	gradient []float64
	hessian  [][]float64 // lower triangle
}

func (s *search) newSmooth(jobs [][]Option, capacity []float64) *smooth {
	f := &smooth{
		search: s, jobs: jobs, capacity: capacity, own: slices.Clone(capacity), gradient: make([]float64, s.pricedCount()),
		mean: make([]float64, len(s.Capacity)), square: make([]float64, len(s.Capacity)),
	}
	for g := range f.gradient {
		f.hessian = append(f.hessian, make([]float64, g+1))
		if g < len(s.Capacity) && s.outer(g) {
			f.own[g-1] -= capacity[g]
		}
	}
	return f
}

// at computes the smoothed bound and its derivatives. They are incomplete if the deadline has
// passed.
func (f *smooth) at(prices []float64, temperature float64) {
	// The derivatives by unit prices come first, because an option has one.
	rows := len(f.Capacity)
	copy(f.gradient, f.own)
	clear(f.gradient[rows:])
	f.value = 0
	units := f.unitsAt(prices)
	for g := range prices {
		clear(f.hessian[g])
	}
	for g, price := range prices[:rows] {
		f.value += price * f.capacity[g]
	}
	f.addWindowCosts(prices[rows:], temperature)
	for i, options := range f.jobs {
		best, second, at := f.nets(options, f.unitOf(units, i))
		if best-second > reach*temperature {
			f.value += best
			o := &options[at]
			f.gradient[o.Row] -= float64(o.Nodes - o.Remainder)
			f.gradient[o.RemainderRow] -= float64(o.Remainder)
			for _, w := range f.pricedWindowsOf(i) {
				f.gradient[rows+w] -= float64(f.windows.windows[w].nodesOf(&o.Allocation))
			}
		} else {
			f.share(options, best, temperature)
			f.shareWindows(i, temperature)
		}
		if f.clock.Add(2 * len(options)) {
			return
		}
	}
	f.sumInner(f.gradient)
	for g := rows - 1; g > 0; g-- {
		if f.outer(g) {
			f.sumInnerHessian(g)
		}
	}
}

// addWindowCosts adds the parts of the bound of the windows at their prices. If a window has a limit and a
// floor, its part has a kink at price 0, which is smoothed as the values of jobs are.
func (f *smooth) addWindowCosts(prices []float64, temperature float64) {
	rows := len(f.Capacity)
	for n, price := range prices {
		w := &f.windows.windows[n]
		switch {
		case w.floor == 0:
			limit := float64(w.limit) + extraNodes
			f.value += price * limit
			f.gradient[rows+n] = limit
		case w.limit == NoLimit:
			f.value += price * float64(w.floor)
			f.gradient[rows+n] = float64(w.floor)
		default:
			width := float64(w.limit-w.floor) + extraNodes
			x := width * price / temperature
			share := 1 / (1 + math.Exp(-x))
			f.value += price*float64(w.floor) + temperature*(max(x, 0)+math.Log1p(math.Exp(-math.Abs(x))))
			f.gradient[rows+n] = float64(w.floor) + width*share
			f.hessian[rows+n][rows+n] = width * width * share * (1 - share) / temperature
		}
	}
}

// pricedWindowsOf returns the positions of the windows with prices that count job i.
func (f *smooth) pricedWindowsOf(i int) []int {
	if len(f.gradient) == len(f.Capacity) {
		return nil
	}
	return f.windowsOfJob(i)
}

// averages are the expected number of nodes of a job that count in a window, and that of its square.
type averages struct {
	window       int
	mean, square float64
}

// shareWindows adds the derivatives by the prices of windows of a job that share has added.
func (f *smooth) shareWindows(i int, temperature float64) {
	rows := len(f.Capacity)
	f.counted = f.counted[:0]
	for _, n := range f.pricedWindowsOf(i) {
		w, m, at := &f.windows.windows[n], averages{window: n}, f.hessian[rows+n]
		for row, nodeType := range f.windows.typeOf {
			if w.counts(nodeType) {
				m.mean, m.square = m.mean+f.mean[row], m.square+f.square[row]
			}
		}
		f.gradient[rows+n] -= m.mean
		for row, nodeType := range f.windows.typeOf {
			both := 0.0
			if w.counts(nodeType) {
				both = f.square[row]
			}
			at[row] += (both - m.mean*f.mean[row]) / temperature
		}
		f.counted = append(f.counted, m)
		for _, other := range f.counted {
			both, v := 0.0, &f.windows.windows[other.window]
			switch {
			case w.nodeType == v.nodeType, v.nodeType == allTypes:
				both = m.square
			case w.nodeType == allTypes:
				both = other.square
			}
			at[rows+other.window] += (both - m.mean*other.mean) / temperature
		}
	}
}

// sumInner converts derivatives by unit prices to derivatives by prices, or nodes by last row to nodes
// by row: the price of a row is a part of the unit prices of the row and the rows within it.
func (p *Problem) sumInner(by []float64) {
	for g := len(p.Capacity) - 1; g > 0; g-- {
		if p.outer(g) {
			by[g-1] += by[g]
		}
	}
}

// sumInnerHessian adds a row and the same column of the Hessian to those before.
func (f *smooth) sumInnerHessian(g int) {
	at := func(a, b int) *float64 { return &f.hessian[max(a, b)][min(a, b)] }
	*at(g-1, g-1) += 2**at(g, g-1) + *at(g, g)
	for h := range f.hessian {
		if h != g-1 {
			*at(g-1, h) += *at(g, h)
		}
	}
}

// nets computes the net values of options. It returns the largest and the second largest, and the
// index of the largest.
func (f *smooth) nets(options []Option, unit []float64) (best, second float64, at int) {
	f.net = f.net[:0]
	best, second = math.Inf(-1), math.Inf(-1)
	for n := range options {
		o := &options[n]
		net := o.Value - o.cost(unit)
		f.net = append(f.net, net)
		if net > best {
			best, second, at = net, best, n
		} else if net > second {
			second = net
		}
	}
	return best, second, at
}

// round returns a choice of options with a positive probability at the temperature. For each job it
// chooses the option that brings the total allocation of the jobs so far closest to its expected
// value, or the best option that fits.
func (f *smooth) round(prices []float64, temperature float64) []int {
	if f.windows != nil {
		return f.choice // searchTree finds choices by itself.
	}
	choice, ahead := make([]int, len(f.jobs)), make([]float64, len(prices)) // ahead: allocation minus expected allocation
	free, unit := slices.Clone(f.Capacity), f.unitPrices(prices)
	for i, options := range f.jobs {
		if f.clock.Add(4 * len(options)) {
			break
		}
		best, second, at := f.nets(options, unit)
		if best-second > reach*temperature {
			clear(f.mean)
			f.mean[options[at].Row] = float64(options[at].Nodes - options[at].Remainder)
			f.mean[options[at].RemainderRow] += float64(options[at].Remainder)
		} else {
			f.share(options, best, temperature)
		}
		f.sumInner(f.mean)
		for g, mean := range f.mean {
			ahead[g] -= mean
		}
		nearest, most := math.Inf(1), math.Inf(-1)
		for n, net := range f.net {
			o, off := &options[n].Allocation, math.Inf(1)
			if !f.fits(free, o) {
				continue
			}
			if net >= best-roundingReach*temperature {
				off = 0
				for g, by := range ahead {
					by += float64(f.nodesIn(o, g))
					off += prices[g] * prices[g] * by * by
				}
			}
			if off < nearest || math.IsInf(nearest, 1) && net > most {
				nearest, most, choice[i] = off, net, n
			}
		}
		o := &options[choice[i]].Allocation
		f.spend(free, i, o, 1)
		for row := f.first(o); row <= int(o.Row); row++ {
			ahead[row] += float64(o.upTo(row))
		}
	}
	return choice
}

// share adds a job with several options of positive probability. The mean is the expected number of
// nodes by last row, and square that of the product with all nodes of the option.
func (f *smooth) share(options []Option, best, temperature float64) {
	clear(f.mean)
	clear(f.square)
	sum, remainders := 0.0, false
	for n, net := range f.net {
		x := (net - best) / temperature
		if x <= -reach {
			continue
		}
		o, share := &options[n], math.Exp(x)
		nodes := float64(o.Nodes)
		counted := nodes
		sum += share
		if o.Remainder > 0 {
			remainder := float64(o.Remainder)
			counted -= remainder
			f.mean[o.RemainderRow] += share * remainder
			f.square[o.RemainderRow] += share * remainder * nodes
			remainders = true
		}
		f.mean[o.Row] += share * counted
		f.square[o.Row] += share * counted * nodes
	}
	if remainders {
		f.shareRemainders(options, best, temperature, sum)
	}
	f.value += best + temperature*math.Log(sum)
	for g := range f.mean {
		if f.mean[g] == 0 {
			continue
		}
		f.mean[g] /= sum
		f.square[g] /= sum
		f.gradient[g] -= f.mean[g]
		f.hessian[g][g] += f.square[g] / temperature
		for h, mean := range f.mean[:g+1] {
			f.hessian[g][h] -= f.mean[g] * mean / temperature
		}
	}
}

// shareRemainders adds to the Hessian that the remainder of an option and its other nodes depend on each other.
func (f *smooth) shareRemainders(options []Option, best, temperature, sum float64) {
	for n, net := range f.net {
		o := &options[n]
		if x := (net - best) / temperature; o.Remainder > 0 && x > -reach {
			both := math.Exp(x) / sum * float64(o.Remainder) * float64(o.Nodes-o.Remainder) / temperature
			f.hessian[o.Row][o.Row] -= both
			f.hessian[o.RemainderRow][o.RemainderRow] -= both
			f.hessian[o.Row][o.RemainderRow] += both
		}
	}
}

// step returns Newton's step, limited to the given length. If the Hessian is too flat for this
// length, its diagonal is increased. A price remains within its range.
func (f *smooth) step(prices []float64, longest float64) []float64 {
	types := len(prices)
	step, factor := make([]float64, types), make([][]float64, types)
	// Cholesky factor L of the Hessian L L', row by row; L y = -gradient; then L' step = y.
	for g, price := range prices {
		row := slices.Clone(f.hessian[g])
		factor[g] = row
		if low, high := f.priceRange(g); price <= low && f.gradient[g] >= 0 || price >= high && f.gradient[g] <= 0 {
			factor[g] = nil
			continue
		}
		step[g] = -f.gradient[g]
		for h, above := range factor[:g] {
			if above == nil {
				row[h] = 0
				continue
			}
			for k, v := range above[:h] {
				row[h] -= row[k] * v
			}
			row[h] /= above[h]
			row[g] -= row[h] * row[h]
			step[g] -= row[h] * step[h]
		}
		raised := row[g] + math.Abs(f.gradient[g])/longest/4
		row[g] = math.Sqrt(max(raised, 1e-12*f.hessian[g][g], math.SmallestNonzeroFloat64))
		step[g] /= row[g]
	}
	for g, row := range slices.Backward(factor) {
		if row == nil {
			continue
		}
		step[g] /= row[g]
		for h, v := range row[:g] {
			step[h] -= v * step[g]
		}
	}
	most := longest
	for _, by := range step {
		most = max(most, math.Abs(by))
	}
	for g, price := range prices {
		low, high := f.priceRange(g)
		step[g] = min(max(step[g]*longest/most, low-price), high-price)
	}
	return step
}
