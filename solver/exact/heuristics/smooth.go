package heuristics

import (
	"math"
	"sort"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// smooth returns the smoothed net value at the given price, the expected nodes, and their variance
// divided by the temperature. These are the value and, apart from signs, the first two derivatives.
// The max(0, x) of every edge is replaced by the upper bound temperature * log(1 + exp(x /
// temperature)).
func smooth(curve *model.StepCurve, price, temperature float64) (net, nodes, curvature float64) {
	// An edge whose rate differs from the price by more than the window is taken or not with
	// certainty. This is sufficient because an edge has at least one node.
	window := maxExponent * temperature
	lo := sort.Search(len(curve.Edges), func(n int) bool { return curve.Scale*curve.Edges[n].Rate-price <= window })
	nodes = curve.BaseNodes + curve.SumNodes[lo]
	net = curve.Scale*(curve.BaseGain+curve.SumGain[lo]) - price*nodes
	// One logarithm of a product replaces the logarithms of many edges.
	logs, product := 0.0, 1.0
	for _, e := range curve.Edges[lo:] {
		rate := curve.Scale*e.Rate - price
		if rate < -window {
			break
		}
		x := rate * e.Nodes / temperature
		if x < -maxExponent {
			continue
		}
		if x > maxExponent {
			net += x * temperature
			nodes += e.Nodes
			continue
		}
		z := math.Exp(-math.Abs(x))
		if product *= 1 + z; product > 1e300 {
			logs, product = logs+math.Log(product), 1
		}
		q := 1 / (1 + z)
		p := q
		if x < 0 {
			p = z * q
		} else {
			net += x * temperature
		}
		nodes += p * e.Nodes
		curvature += z * q * q * e.Nodes * e.Nodes
	}
	return net + temperature*(logs+math.Log(product)), nodes, curvature / temperature
}
