package rows

import (
	"cmp"
	"math"
	"slices"
)

// The Lagrangian bound, and the losses (reduced costs) of options.

// sum is a sum with twice the digits of a float64, as the unevaluated sum high + low.
type sum struct {
	high, low float64
	// magnitude is the sum of the magnitudes of the terms.
	magnitude float64
	terms     int
}

// twoSum returns a + b and its rounding error (Knuth).
func twoSum(a, b float64) (both, lost float64) {
	both = a + b
	part := both - a
	return both, (a - (both - part)) + (b - part)
}

// add adds high + low, where low is the rounding error of high.
func (t *sum) add(high, low float64) {
	both, lost := twoSum(t.high, high)
	t.high, t.low = twoSum(both, lost+(t.low+low))
	t.magnitude += math.Abs(high)
	t.terms++
}

// slack returns an upper bound on the error of the sum. An addition loses at most 2^-103 of the
// magnitudes, and a product near the smallest float64 may lose digits.
func (t *sum) slack() float64 { return float64(t.terms) * (0x1p-102*t.magnitude + 0x1p-1060) }

// up returns an upper bound on the sum, down a lower bound.
func (t *sum) up() float64   { return math.Nextafter(t.high+(t.low+t.slack()), math.Inf(1)) }
func (t *sum) down() float64 { return math.Nextafter(t.high+(t.low-t.slack()), math.Inf(-1)) }

func (t *sum) minus(other sum) float64 { return (t.high - other.high) + (t.low - other.low) }

// product returns a * b and its rounding error.
func product(a, b float64) (high, lost float64) {
	high = a * b
	return high, math.FMA(a, b, -high)
}

// net returns the value of an option minus the cost of its nodes at unit prices, as high + low, and this cost.
func (o *Option) net(unit []float64) (high, low, cost float64) {
	cost, lost := product(unit[o.Row], float64(o.Nodes-o.Remainder))
	high, low = twoSum(o.Value, -cost)
	high, low = twoSum(high, low-lost)
	if o.Remainder > 0 {
		more, lost := product(unit[o.RemainderRow], float64(o.Remainder))
		both, rounded := twoSum(high, -more)
		high, low = twoSum(both, rounded+(low-lost))
		cost += more
	}
	return high, low, cost
}

// cost returns the approximate cost of the nodes at unit prices.
func (o *Option) cost(unit []float64) float64 {
	if o.Remainder == 0 {
		return unit[o.Row] * float64(o.Nodes)
	}
	return unit[o.Row]*float64(o.Nodes-o.Remainder) + unit[o.RemainderRow]*float64(o.Remainder)
}

// valueOf returns the value of a choice.
func (p *Problem) valueOf(choice []int) (value sum) {
	for i, n := range choice {
		value.add(p.Jobs[i][n].Value, 0)
	}
	return value
}

// unitPrices returns the price of a node that counts in each row: the sum of the prices of the rows of
// its type up to the row.
func (p *Problem) unitPrices(prices []float64) []float64 {
	if p.First == nil {
		return prices
	}
	unit := slices.Clone(prices)
	for row := range unit {
		if p.outer(row) {
			unit[row] += unit[row-1]
		}
	}
	return unit
}

// outer reports whether all allocations that count in a row also count in the row before.
func (p *Problem) outer(row int) bool { return p.First != nil && !slices.Contains(p.First, row) }

// relaxation is the Lagrangian relaxation at prices.
type relaxation struct {
	// prices are those of the rows and windows, and units those of a node that counts in each row, see
	// unitsAt.
	prices []float64
	units  [][]float64
	bound  sum
	// best is the best option of every job, whose loss is 0.
	best []int32
	// others are the alternative options by increasing loss. All alternatives that lose less than
	// below are listed.
	others []losing
	below  float64
}

// losing is an alternative option and its loss.
type losing struct {
	job, option int32
	loss        float64
}

// nets contains the net values of the options of a job, as highs + lows.
type nets struct {
	highs, lows []float64
	best        int     // index of the best option
	maxCost     float64 // largest cost of an option
}

// compare compares the net values of two options.
func (t *nets) compare(m, n int) int {
	return cmp.Compare((t.highs[m]-t.highs[n])+(t.lows[m]-t.lows[n]), 0)
}

// compute sets the net values. Of several best options it selects the preferred one.
func (t *nets) compute(options []Option, unit []float64, preferred int) {
	t.highs, t.lows = t.highs[:0], t.lows[:0]
	t.best, t.maxCost = 0, 0
	for n := range options {
		high, low, cost := options[n].net(unit)
		t.highs, t.lows, t.maxCost = append(t.highs, high), append(t.lows, low), max(t.maxCost, cost)
		if more := t.compare(n, t.best); more > 0 || more == 0 && n == preferred {
			t.best = n
		}
	}
}

// loss returns the loss of an option compared with the best one, rounded down.
func (t *nets) loss(n int) float64 {
	return t.less(t.best, n)
}

// less returns by how much option n is worth less than option m, rounded down, and at least 0.
func (t *nets) less(m, n int) float64 {
	loss := (t.highs[m] - t.highs[n]) + (t.lows[m] - t.lows[n])
	off := 0x1p-103 * (math.Abs(t.highs[m]) + t.maxCost)
	return max(0, loss*(1-0x1p-50)-off)
}

// relax returns the relaxation at prices. The result is incomplete if the deadline has passed.
func (s *search) relax(prices []float64) *relaxation {
	prices = s.exactPrices(prices)
	r := &relaxation{prices: slices.Clone(prices), units: s.unitsAt(prices), best: make([]int32, len(s.Jobs)), below: math.Inf(1)}
	// The sum of price times capacity, written with the unit prices, because they are rounded.
	unit := s.unitPrices(prices[:len(s.Capacity)])
	for row, price := range unit {
		nodes := s.Capacity[row]
		if next := row + 1; next < len(unit) && s.outer(next) {
			nodes -= s.Capacity[next]
		}
		r.bound.add(product(price, float64(nodes)))
		if s.outer(row) {
			r.prices[row] = price - unit[row-1]
		}
	}
	s.addWindows(r)
	least := leastLosses{relaxation: r, limit: s.effort.Options, top: len(leastLosses{}.counts)}
	var net nets
	for i, options := range s.Jobs {
		if s.clock.Add(8 * len(options)) {
			return r
		}
		net.compute(options, s.unitOf(r.units, i), s.choice[i])
		r.best[i] = int32(net.best)
		r.bound.add(net.highs[net.best], net.lows[net.best])
		r.bound.magnitude += net.maxCost // covers the rounding errors of all options
		for n := range options {
			if n != net.best {
				least.add(losing{job: int32(i), option: int32(n), loss: net.loss(n)})
			}
		}
	}
	least.drop()
	slices.SortFunc(r.others, func(a, b losing) int {
		switch {
		case a.loss != b.loss:
			return cmp.Compare(a.loss, b.loss)
		case a.job != b.job:
			return int(a.job - b.job)
		default:
			return int(a.option - b.option)
		}
	})
	return r
}

// addWindows adds the parts of the bound of the windows.
func (s *search) addWindows(r *relaxation) {
	if s.windows == nil {
		return
	}
	for n := range s.windows.windows {
		price := r.prices[len(s.Capacity)+n]
		r.bound.add(product(price, float64(s.windows.windows[n].boundNodes(price))))
	}
	r.bound.add(product(-s.QuotaPrice, float64(s.windows.alwaysShort)))
}

// leastLosses lists approximately the limit options with the smallest losses. It counts them by the
// binary exponent of their loss, to drop the options with the largest exponents.
type leastLosses struct {
	*relaxation
	limit  int // limit of listed options
	listed int // without the options to be dropped
	counts [1 << 11]int
	top    int // options with this exponent or a larger one are dropped
}

func exponent(loss float64) int { return int(math.Float64bits(loss) >> 52) }

func (l *leastLosses) add(o losing) {
	e := exponent(o.loss)
	if e >= l.top {
		return
	}
	l.others = append(l.others, o)
	l.counts[e]++
	for l.listed++; l.listed > l.limit; {
		l.top--
		l.listed -= l.counts[l.top]
		l.below = math.Float64frombits(uint64(l.top) << 52)
	}
	if len(l.others) > 4*l.limit {
		l.drop()
	}
}

func (l *leastLosses) drop() {
	kept := l.others[:0]
	for _, o := range l.others {
		if exponent(o.loss) < l.top {
			kept = append(kept, o)
		}
	}
	l.others = kept
}
