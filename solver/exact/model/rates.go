package model

import (
	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// Rate is a hull edge: what it gains per node and how many nodes it takes.
type Rate struct{ PerNode, Nodes float64 }

// AppendRates appends the rising edges of the upper concave hull of the points
// (nodes, values), by falling rate.
func AppendRates(rates []Rate, nodes []int32, values []float64) []Rate {
	first := len(rates)
	rates = AppendAllRates(rates, nodes, values)
	for len(rates) > first && rates[len(rates)-1].PerNode <= 0 {
		rates = rates[:len(rates)-1]
	}
	return rates
}

// AppendAllRates appends the edges of the hull, falling ones as well.
func AppendAllRates(rates []Rate, nodes []int32, values []float64) []Rate {
	first := len(rates)
	var starts [snapshot.MaxSizes + 1]int // of the edges
	for at := 1; at < len(nodes); at++ {
		from := at - 1
		gain, width := values[at]-values[from], float64(nodes[at]-nodes[from])
		// An edge before that gains less per node lies below the hull with this one, and is
		// no part of its gain: a value that is huge beside the others would take their digits.
		for len(rates) > first && gain >= rates[len(rates)-1].PerNode*width {
			rates = rates[:len(rates)-1]
			from = starts[len(rates)-first]
			gain, width = values[at]-values[from], float64(nodes[at]-nodes[from])
		}
		starts[len(rates)-first] = from
		rates = append(rates, Rate{PerNode: gain / width, Nodes: width})
	}
	return rates
}

// BreakRate returns the rate at which the nodes needed run out when rates are taken by
// falling rate, 0 if they do not, by selection: it reorders the rates. It returns false
// if time is up.
func BreakRate(clock *Clock, rates []Rate, need float64) (float64, bool) {
	for len(rates) > 0 {
		a, b, d := rates[0].PerNode, rates[len(rates)/2].PerNode, rates[len(rates)-1].PerNode
		pivot := max(min(a, b), min(max(a, b), d))
		// Above the pivot from the left, below it from the right.
		above, below := 0, len(rates)
		more, same := 0.0, 0.0
		for n, seen := 0, 0; n < below; seen++ {
			if seen%4096 == 0 && clock.Up(4096) {
				return 0, false
			}
			switch r := rates[n]; {
			case r.PerNode > pivot:
				rates[n], rates[above] = rates[above], r
				more += r.Nodes
				above++
				n++
			case r.PerNode < pivot:
				below--
				rates[n], rates[below] = rates[below], r
			default:
				same += r.Nodes
				n++
			}
		}
		switch {
		case more > need:
			rates = rates[:above]
		case more+same > need:
			return pivot, true
		default:
			need -= more + same
			rates = rates[below:]
		}
	}
	return 0, true
}
