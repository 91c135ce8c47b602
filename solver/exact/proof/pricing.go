package proof

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// Pricing: a job's best plan when a node in step t costs lambda_t,
//
//	phi(lambda) = max over plans of  u(plan) - sum_t lambda_t n_t,
//
// for a job that may finish within the horizon. Label setting: a label at the
// start of step t is a share of the demand served so far and the value collected
// on the way. Every legal size extends it; one that finishes the job closes the
// plan, for nothing but holding the smallest size can follow. A label is dropped if another
// has served at least as much at no less value (whatever follows adds at least as much from
// there), or if even the most that can follow does
// not beat the best plan known. See Desrosiers and Luebbecke, "A primer in column
// generation" (2005), on labels as a pricing method.

// label is a partial plan up to the start of a step.
type label struct {
	share, value float64
	parent       int32
	choice       uint8
}

// outlook is what a job can still do from each step on at given prices; bounds on
// partial plans come from it.
type outlook struct {
	// least[t] is the least cost of holding some size from step t on, as a finished job does:
	// from the second step on that of the smallest.
	least []float64
	// reach[t] is the most that the sizes chosen from step t on can add to the
	// value net of their prices if the demand were without end.
	reach []float64
	// reaching are the sizes that attain reach.
	reaching []uint8
}

// fill works out the outlook of a job.
func (o *outlook) fill(j *model.Job, prices []float64, fitting []int) {
	steps := len(prices)
	o.least = slices.Grow(o.least[:0], steps+1)[:steps+1]
	o.reach = slices.Grow(o.reach[:0], steps+1)[:steps+1]
	o.reaching = slices.Grow(o.reaching[:0], steps)[:steps]
	o.least[steps], o.reach[steps] = 0, 0
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
				most, o.reaching[t] = net, uint8(k)
			}
		}
		o.least[t] = o.least[t+1] + smallest
		o.reach[t] = o.reach[t+1] + most
	}
}

// most bounds the value of every plan that continues a label at the start of step
// t: as if the job finished at once, and as if its demand had no end.
func (o *outlook) most(j *model.Job, t int, share, value float64) float64 {
	return value + min(j.Tail[t]-o.least[t], j.Tail[t]*share+o.reach[t])
}

// pricer prices jobs. It owns the memory of the labels and serves one goroutine.
type pricer struct {
	maxLabels int
	outlook   outlook
	layers    [][]label
	chosen    []uint8
	// longer is what one size makes of the labels of a layer, merged the labels of the next
	// layer so far.
	longer, merged []label
}

// price returns phi for a job that may hold the first fitting[t] of its sizes in step t, and
// the plan that attains it. It returns floor and nil if no plan
// has a value above floor. The plan is the pricer's memory, valid until the next
// call. Where time is up phi is +Inf.
func (p *pricer) price(clock *model.Clock, j *model.Job, prices []float64, fitting []int, floor float64) (float64, []uint8) {
	steps := len(prices)
	if clock.Up(2 * steps * len(j.Sizes)) {
		return math.Inf(1), nil
	}
	p.outlook.fill(j, prices, fitting)
	if j.Unfinished(p.outlook.reaching) {
		// The best sizes as if the demand had no end do not come to its end.
		if p.outlook.reach[0] > floor {
			return p.outlook.reach[0], p.outlook.reaching
		}
		return floor, nil
	}
	for len(p.layers) <= steps {
		p.layers = append(p.layers, nil)
	}
	p.layers[0] = append(p.layers[0][:0], label{parent: -1})
	best, end := floor, label{parent: -1}
	endStep, cut := -1, math.Inf(-1)
	for t := range steps {
		shares, gain := j.Shares(t), j.Gain[t]
		closed, after, endless := p.outlook.least[t+1], j.Tail[t+1], p.outlook.reach[t+1]
		finished := after - closed
		layer := p.layers[t]
		if best > cut { // Since its labels were made.
			layer = slices.DeleteFunc(layer, func(l label) bool { return p.outlook.most(j, t, l.share, l.value) <= best })
			cut = best
		}
		if clock.Up(len(p.layers[t]) + 4*len(layer)*len(j.Sizes)) {
			return math.Inf(1), nil
		}
		front := p.layers[t+1][:0]
		for k, nodes := range j.Sizes[:fitting[t]] {
			cost, served := prices[t]*float64(nodes), shares[k]
			if t == 0 {
				cost += j.Cost[k]
			}
			longer := p.longer[:0]
			for n := range layer {
				from := &layer[n]
				share := from.share + served
				if share < model.Finished {
					value := from.value + gain*share - cost
					if value+finished > best && value+(after*share+endless) > best {
						longer = append(longer, label{share: share, value: value, parent: int32(n), choice: uint8(k)})
					}
				} else if value := from.value + j.Tail[t] - cost - closed; value > best {
					best, endStep = value, t
					end = label{parent: int32(n), choice: uint8(k)}
				}
			}
			if p.longer = longer; len(longer) > 0 {
				p.merged = mergeUndominated(p.merged[:0], front, longer)
				front, p.merged = p.merged, front
			}
		}
		p.layers[t+1] = thinned(front, p.maxLabels)
	}
	for n, l := range p.layers[steps] {
		if l.value > best {
			best, endStep, end = l.value, steps, label{parent: int32(n)}
		}
	}
	if endStep < 0 {
		return floor, nil
	}
	return best, p.trace(steps, endStep, end)
}

// trace reads off the plan that closes with the given label in the given step; in
// the steps after it the job holds its smallest size.
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

// mergeUndominated appends to into the labels of a and b, each by falling share,
// that no other of them dominates: by falling share and rising value.
func mergeUndominated(into, a, b []label) []label {
	most := math.Inf(-1)
	for len(a) > 0 || len(b) > 0 {
		var next label
		if len(b) == 0 || len(a) > 0 && (a[0].share > b[0].share || a[0].share == b[0].share && a[0].value >= b[0].value) {
			next, a = a[0], a[1:]
		} else {
			next, b = b[0], b[1:]
		}
		if next.value > most {
			most = next.value
			into = append(into, next)
		}
	}
	return into
}

// thinned merges neighbours, in place, until at most that many are left. A merged
// label serves as much as the better served of two at the value of the other: no
// plan's value exceeds what follows from it.
func thinned(labels []label, most int) []label {
	for len(labels) > most {
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
