package exact

import (
	"cmp"
	"math"
	"sort"
)

// Jobs that cannot finish within the horizon.
//
// For such a job no step caps the demand served, so that its part of the
// objective is a sum over steps: k nodes in step t (counted from 0) add
//
//	v_t(k) = (gain_t + gain_(t+1) + ...) share_t(k),
//
// since demand served in step t counts in step t and in every later one, and in the
// first step the value of the size. The same holds for every job where there is only
// one step, share being capped at 1 there. At a
// price lambda per node the job's best is the maximum over k of v_t(k) - lambda k,
// which depends only on the upper concave hull of the points (k, v_t(k)): starting
// from the smallest size, the job takes every hull edge whose gain per node
// exceeds lambda. With the edges of all jobs sorted by gain per node and their
// sums kept, one binary search prices all these jobs in a step.

// edge is one edge of a job's upper concave hull.
type edge struct {
	gain  float64 // value gained
	nodes float64 // nodes it takes
}

// perNode is the gain per node of the edge.
func (e edge) perNode() float64 { return e.gain / e.nodes }

// stepCurve is the net value of all separable jobs together in one step as a
// function of the price of a node.
type stepCurve struct {
	baseGain, baseNodes float64 // every job at its smallest size
	edges               []edge  // by gain per node, largest first
	sumGain, sumNodes   []float64
	// scale multiplies every gain: later steps share one sorted list of edges where
	// their values differ only by a factor.
	scale float64
}

// newStepCurves builds the curve of every step.
func newStepCurves(c *clock, in *instance) []stepCurve {
	curves := make([]stepCurve, in.steps)
	for t := range curves {
		curves[t].scale = 0
		if t > 1 {
			curves[t] = curves[1]
			curves[t].scale = in.factor(t)
		}
		if curves[t].scale == 0 {
			curves[t] = newStepCurve(c, in, t)
		}
	}
	return curves
}

// factor returns the number by which the values of all separable jobs in step t are
// those in step 1, 0 if there is none.
func (in *instance) factor(t int) float64 {
	if len(in.separable) == 0 || in.free[t] != in.free[1] {
		return 0
	}
	first := in.jobs[in.separable[0]].tail
	factor := first[t] / first[1]
	for _, i := range in.separable {
		tail := in.jobs[i].tail
		if !(math.Abs(tail[t]-factor*tail[1]) <= float64(in.steps)*noise*tail[1]) {
			return 0
		}
	}
	return factor
}

func newStepCurve(c *clock, in *instance, t int) stepCurve {
	curve := stepCurve{scale: 1, edges: make([]edge, 0, in.size()/in.steps)}
	for _, i := range in.separable {
		j := &in.jobs[i]
		curve.baseGain += j.stepValue(t, 0)
		curve.baseNodes += float64(j.sizes[0])
		curve.edges = appendHull(curve.edges, j.sizes[:in.fitting(j, t)], func(k int) float64 { return j.stepValue(t, k) })
		if c.up(8 * len(j.sizes)) {
			return curve
		}
	}
	if !stableSort(c, curve.edges, fallingGain) {
		return curve
	}
	curve.sumGain, curve.sumNodes = make([]float64, len(curve.edges)+1), make([]float64, len(curve.edges)+1)
	for n, e := range curve.edges {
		curve.sumGain[n+1] = curve.sumGain[n] + e.gain
		curve.sumNodes[n+1] = curve.sumNodes[n] + e.nodes
	}
	return curve
}

// fallingGain orders edges by falling gain per node.
func fallingGain(a, b edge) int { return cmp.Compare(b.perNode(), a.perNode()) }

// appendHull appends the rising edges of the upper concave hull of the points
// (sizes[k], value(k)) that begins at the smallest size.
func appendHull(edges []edge, sizes []int32, value func(k int) float64) []edge {
	from := 0
	for from < len(sizes)-1 {
		best, next := 0.0, -1
		for k := from + 1; k < len(sizes); k++ {
			if slope := (value(k) - value(from)) / float64(sizes[k]-sizes[from]); slope > best {
				best, next = slope, k
			}
		}
		if next < 0 {
			break
		}
		edges = append(edges, edge{gain: value(next) - value(from), nodes: float64(sizes[next] - sizes[from])})
		from = next
	}
	return edges
}

// taken returns how many edges gain more than their nodes cost at the given price.
func (c *stepCurve) taken(price float64) int {
	return sort.Search(len(c.edges), func(n int) bool { return c.scale*c.edges[n].perNode() <= price })
}

// Knapsack takes the options of a multiple-choice knapsack, item after item.
type Knapsack interface {
	Reset()
	Option(nodes int32, value float64)
	Item()
}

// separableItems empties a knapsack and adds the separable jobs as the items of step t.
func (in *instance) separableItems(k Knapsack, t int) {
	k.Reset()
	for _, i := range in.separable {
		j := &in.jobs[i]
		for n, nodes := range j.sizes[:in.fitting(j, t)] {
			k.Option(nodes, j.stepValue(t, n))
		}
		k.Item()
	}
}
