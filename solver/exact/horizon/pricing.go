package horizon

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// Pricing: the best plan of a job if a node in step t costs lambda_t,
//
//	phi(lambda) = max over plans of  u(plan) - sum_t lambda_t n_t,
//
// for a job that may finish within the horizon. The method is label setting. A label at the start
// of a step is a share of the demand served so far and the value collected so far. Every legal size
// extends the label. A size that finishes the job completes the plan, because the job has its
// smallest size afterwards. A label is dominated if another one has served at least as much with at
// least the same value, because the same remaining sizes then add at least as much. A label is also
// dropped if an upper bound on its value does not exceed the best known plan. (Desrosiers and
// Luebbecke, "A primer in column generation" (2005).)

// label is a partial plan up to the start of a step.
type label struct {
	share, value float64
	parent       int32
	choice       uint8
}

// outlook bounds the remaining value of a job from each step on at given prices.
type outlook struct {
	// minCost[t] is the minimum cost from step t on, as for a finished job. From the second step on
	// it is the cost of the smallest size.
	minCost []float64
	// uncapped[t] is the maximum value net of prices from step t on if the demand were unlimited.
	uncapped []float64
	// uncappedSizes are the sizes that attain uncapped.
	uncappedSizes []uint8
}

// fill computes the outlook of a job.
func (o *outlook) fill(j *model.Job, prices []float64, fitting []int) {
	steps := len(prices)
	o.minCost = slices.Grow(o.minCost[:0], steps+1)[:steps+1]
	o.uncapped = slices.Grow(o.uncapped[:0], steps+1)[:steps+1]
	o.uncappedSizes = slices.Grow(o.uncappedSizes[:0], steps)[:steps]
	o.minCost[steps], o.uncapped[steps] = 0, 0
	for t := steps - 1; t >= 0; t-- {
		shares, tail, price := j.Shares(t), j.Tail[t], prices[t]
		smallest, most := math.Inf(1), math.Inf(-1)
		for k, nodes := range j.Sizes[:fitting[t]] {
			cost := price * float64(nodes)
			if t == 0 {
				cost += j.Cost[k]
			}
			smallest = min(smallest, cost)
			if net := tail*shares[k] - cost; net > most {
				most, o.uncappedSizes[t] = net, uint8(k)
			}
		}
		o.minCost[t] = o.minCost[t+1] + smallest
		o.uncapped[t] = o.uncapped[t+1] + most
	}
}

// upperBound returns an upper bound on the value of every plan that extends a label at the start of
// step t. It is the minimum of two bounds: the job finishes at once, or its demand is unlimited.
func (o *outlook) upperBound(j *model.Job, t int, share, value float64) float64 {
	return value + min(j.Tail[t]-o.minCost[t], j.Tail[t]*share+o.uncapped[t])
}

// pricer prices jobs. It owns the memory of the labels and must not be used concurrently.
type pricer struct {
	maxLabels int
	outlook   outlook
	layers    [][]label
	chosen    []uint8
	// extended contains the extensions of the labels of a layer by one size. merged contains the
	// labels of the next layer so far.
	extended, merged []label
}

// price returns phi and a plan that attains it, for a job that may have the first fitting[t] of its
// sizes in step t. It returns floor and nil if no plan has a value above floor. The plan is memory
// of the pricer and valid until the next call. If the deadline has passed, phi is +Inf.
func (p *pricer) price(clock *model.Clock, j *model.Job, prices []float64, fitting []int, floor float64) (float64, []uint8) {
	steps := len(prices)
	if clock.Add(2 * steps * len(j.Sizes)) {
		return math.Inf(1), nil
	}
	p.outlook.fill(j, prices, fitting)
	if j.Unfinished(p.outlook.uncappedSizes) {
		// The best sizes for an unlimited demand do not finish the job.
		if p.outlook.uncapped[0] > floor {
			return p.outlook.uncapped[0], p.outlook.uncappedSizes
		}
		return floor, nil
	}
	for len(p.layers) <= steps {
		p.layers = append(p.layers, nil)
	}
	p.layers[0] = append(p.layers[0][:0], label{parent: -1})
	best := ending{value: floor, step: -1}
	for t := range steps {
		if clock.Add(len(p.layers[t]) + 4*len(p.layers[t])*len(j.Sizes)) {
			return math.Inf(1), nil
		}
		front := p.layers[t+1][:0]
		for k, nodes := range j.Sizes[:fitting[t]] {
			cost := prices[t] * float64(nodes)
			if t == 0 {
				cost += j.Cost[k]
			}
			p.extend(j, t, k, cost, &best)
			if len(p.extended) > 0 {
				p.merged = mergeUndominated(p.merged[:0], front, p.extended)
				front, p.merged = p.merged, front
			}
		}
		p.layers[t+1] = thin(front, p.maxLabels)
	}
	for n, l := range p.layers[steps] {
		if l.value > best.value {
			best = ending{value: l.value, step: steps, last: label{parent: int32(n)}}
		}
	}
	if best.step < 0 {
		return floor, nil
	}
	return best.value, p.trace(steps, best.step, best.last)
}

// ending is the best known plan of a job: its value, and its last label with the step at which the job
// finishes. The step is -1 if no plan is known.
type ending struct {
	value float64
	step  int
	last  label
}

// extend extends the labels of step t by a size at a cost. It replaces best if the job finishes with a higher
// value.
func (p *pricer) extend(j *model.Job, t, k int, cost float64, best *ending) {
	served, gain := j.Shares(t)[k], j.Gain[t]
	closed, after, endless := p.outlook.minCost[t+1], j.Tail[t+1], p.outlook.uncapped[t+1]
	finished, bestValue := after-closed, best.value
	extended, layer := p.extended[:0], p.layers[t]
	for n := range layer {
		from := &layer[n]
		share := from.share + served
		if share < model.Finished {
			value := from.value + gain*share - cost
			if value+finished > bestValue && value+(after*share+endless) > bestValue {
				extended = append(extended, label{share: share, value: value, parent: int32(n), choice: uint8(k)})
			}
		} else if value := from.value + j.Tail[t] - cost - closed; value > bestValue {
			bestValue = value
			*best = ending{value: value, step: t, last: label{parent: int32(n), choice: uint8(k)}}
		}
	}
	p.extended = extended
}

// trace returns the plan that ends with the given label in the given step. In later steps the job
// has its smallest size.
func (p *pricer) trace(steps, step int, end label) []uint8 {
	p.chosen = slices.Grow(p.chosen[:0], steps)[:steps]
	clear(p.chosen)
	if step < len(p.chosen) {
		p.chosen[step] = end.choice
	}
	at := end.parent
	for t := step; t > 0; t-- {
		l := p.layers[t][at]
		p.chosen[t-1] = l.choice
		at = l.parent
	}
	return p.chosen
}

// mergeUndominated appends the labels of a and b that no other label dominates. The inputs are
// sorted by decreasing share. The result is sorted by decreasing share and increasing value.
func mergeUndominated(into, a, b []label) []label {
	maxValue := math.Inf(-1)
	for len(a) > 0 || len(b) > 0 {
		var next label
		if len(b) == 0 || len(a) > 0 && (a[0].share > b[0].share || a[0].share == b[0].share && a[0].value >= b[0].value) {
			next, a = a[0], a[1:]
		} else {
			next, b = b[0], b[1:]
		}
		if next.value > maxValue {
			maxValue = next.value
			into = append(into, next)
		}
	}
	return into
}

// thin merges neighboring labels in place until their number is at most limit. A merged label
// combines the larger share and the larger value of two labels. The value of no plan is
// underestimated.
func thin(labels []label, limit int) []label {
	for len(labels) > limit {
		half := labels[:0]
		for n := 0; n+1 < len(labels); n += 2 {
			merged := labels[n+1]
			merged.share = labels[n].share
			half = append(half, merged)
		}
		if len(labels)%2 == 1 {
			half = append(half, labels[len(labels)-1])
		}
		labels = half
	}
	return labels
}
