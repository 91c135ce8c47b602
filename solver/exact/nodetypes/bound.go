package nodetypes

import (
	"cmp"
	"math"
	"slices"
)

// The bound at prices, and losses against it.

// sum is a sum of numbers to twice their digits: high + low, which is not carried out.
type sum struct {
	high, low float64
	// magnitude is that of all that was added up, terms how many were.
	magnitude float64
	terms     int
}

// twoSum returns a + b and what rounding it lost (Knuth).
func twoSum(a, b float64) (both, lost float64) {
	both = a + b
	part := both - a
	return both, (a - (both - part)) + (b - part)
}

// add adds high + low, where low is what rounding lost of high.
func (t *sum) add(high, low float64) {
	both, lost := twoSum(t.high, high)
	t.high, t.low = twoSum(both, lost+(t.low+low))
	t.magnitude += math.Abs(high)
	t.terms++
}

// slack is the most that the sum is off: an addition loses at most 2^-103 of the magnitudes, a
// product that is next to nothing some of its digits.
func (t *sum) slack() float64 { return float64(t.terms) * (0x1p-102*t.magnitude + 0x1p-1060) }

// up returns a number that is at least the sum, down one that is at most.
func (t *sum) up() float64   { return math.Nextafter(t.high+(t.low+t.slack()), math.Inf(1)) }
func (t *sum) down() float64 { return math.Nextafter(t.high+(t.low-t.slack()), math.Inf(-1)) }

func (t *sum) minus(other sum) float64 { return (t.high - other.high) + (t.low - other.low) }

// product returns a * b and what rounding it lost.
func product(a, b float64) (high, lost float64) {
	high = a * b
	return high, math.FMA(a, b, -high)
}

// net returns the value of an option less what its nodes cost, to twice the digits, and that cost.
func (o *Option) net(price float64) (high, low, cost float64) {
	cost, lost := product(price, float64(o.Nodes))
	high, low = twoSum(o.Value, -cost)
	high, low = twoSum(high, low-lost)
	return high, low, cost
}

// valueOf returns the value of a choice.
func (p *Problem) valueOf(choice []int) (value sum) {
	for i, n := range choice {
		value.add(p.Jobs[i][n].Value, 0)
	}
	return value
}

// relaxation is the problem at prices.
type relaxation struct {
	prices []float64
	bound  sum
	// best is the best option of every job; loss of these is 0.
	best []int32
	// others are the other options that lose least, by rising loss: all of those that lose less
	// than below.
	others []losing
	below  float64
}

// losing is an option and what it loses.
type losing struct {
	job, option int32
	loss        float64
}

// nets are what the options of a job are worth less what their nodes cost, highs + lows.
type nets struct {
	highs, lows []float64
	best        int     // of the options
	dearest     float64 // nodes of an option
}

// of works them out. Of several best ones, the preferred one is the best.
func (t *nets) of(options []Option, prices []float64, preferred int) {
	t.highs, t.lows = t.highs[:0], t.lows[:0]
	t.best, t.dearest = 0, 0
	for n := range options {
		high, low, cost := options[n].net(prices[options[n].Type])
		t.highs, t.lows, t.dearest = append(t.highs, high), append(t.lows, low), max(t.dearest, cost)
		if more := (high - t.highs[t.best]) + (low - t.lows[t.best]); more > 0 || more == 0 && n == preferred {
			t.best = n
		}
	}
}

// loss returns what an option loses against the best one, rounded down.
func (t *nets) loss(n int) float64 {
	loss := (t.highs[t.best] - t.highs[n]) + (t.lows[t.best] - t.lows[n])
	off := 0x1p-103 * (math.Abs(t.highs[t.best]) + t.dearest)
	return max(0, loss*(1-0x1p-50)-off)
}

// relax returns the problem at prices. Where time is up it is not complete.
func (s *search) relax(prices []float64) *relaxation {
	r := &relaxation{prices: prices, best: make([]int32, len(s.Jobs)), below: math.Inf(1)}
	for g, price := range prices {
		r.bound.add(product(price, float64(s.Capacity[g])))
	}
	least := leastLosses{relaxation: r, most: s.effort.Options, top: len(leastLosses{}.counts)}
	var net nets
	for i, options := range s.Jobs {
		if s.clock.Up(8 * len(options)) {
			return r
		}
		net.of(options, prices, s.choice[i])
		r.best[i] = int32(net.best)
		r.bound.add(net.highs[net.best], net.lows[net.best])
		r.bound.magnitude += net.dearest // The other options' digits end there.
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

// leastLosses lists the options that lose least, about as many as there is room for. They
// are counted by the exponent of their loss, so that those of the largest can be dropped.
type leastLosses struct {
	*relaxation
	most   int // there is room for
	listed int // less those to be dropped
	counts [1 << 11]int
	top    int // the exponent from which on options are dropped
}

func exponent(loss float64) int { return int(math.Float64bits(loss) >> 52) }

func (l *leastLosses) add(o losing) {
	e := exponent(o.loss)
	if e >= l.top {
		return
	}
	l.others = append(l.others, o)
	l.counts[e]++
	for l.listed++; l.listed > l.most; {
		l.top--
		l.listed -= l.counts[l.top]
		l.below = math.Float64frombits(uint64(l.top) << 52)
	}
	if len(l.others) > 4*l.most {
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
