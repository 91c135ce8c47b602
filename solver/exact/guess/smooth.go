package guess

import (
	"math"
	"sort"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// smooth returns the net value at the given price with every edge's max(0, x) replaced
// by temperature * log(1 + exp(x / temperature)), which is never less, the
// expected nodes, and their variance divided by the temperature: the value and,
// but for signs, the first two derivatives by the price.
func smooth(curve *model.StepCurve, price, temperature float64) (net, nodes, curvature float64) {
	// An edge whose gain is further than this from its price is as good as taken,
	// or as not. It holds per node too, since an edge takes at least one node.
	window := sure * temperature
	lo := sort.Search(len(curve.Edges), func(n int) bool { return curve.Scale*curve.Edges[n].Rate-price <= window })
	nodes = curve.BaseNodes + curve.SumNodes[lo]
	net = curve.Scale*(curve.BaseGain+curve.SumGain[lo]) - price*nodes
	// The logarithms are those of products, one for many edges.
	logs, product := 0.0, 1.0
	for _, e := range curve.Edges[lo:] {
		rate := curve.Scale*e.Rate - price
		if rate < -window {
			break
		}
		x := rate * e.Nodes / temperature
		if x < -sure {
			continue
		}
		if x > sure {
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
