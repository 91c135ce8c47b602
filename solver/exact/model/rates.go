package model

import (
	"github.com/elastalloc/elastalloc/solver"
)

// Edge is an edge of an upper concave hull: its value per node and its number of nodes.
type Edge struct{ Rate, Nodes float64 }

// AppendEdges appends the edges with a positive rate of the upper concave hull of the points
// (nodes, values), by decreasing rate.
func AppendEdges(edges []Edge, nodes []int32, values []float64) []Edge {
	first := len(edges)
	edges = AppendAllEdges(edges, nodes, values)
	for len(edges) > first && edges[len(edges)-1].Rate <= 0 {
		edges = edges[:len(edges)-1]
	}
	return edges
}

// AppendAllEdges appends all edges of the hull, including edges with a rate of 0 or less.
func AppendAllEdges(edges []Edge, nodes []int32, values []float64) []Edge {
	first := len(edges)
	var starts [solver.MaxSizes + 1]int // first point of each edge
	for at := 1; at < len(nodes); at++ {
		from := at - 1
		gain, width := values[at]-values[from], float64(nodes[at]-nodes[from])
		// An earlier edge with a smaller rate lies below the hull. The gain is recomputed from the
		// points rather than added to the gain of this edge, because a very large value below the
		// hull would cause rounding errors.
		for len(edges) > first && gain >= edges[len(edges)-1].Rate*width {
			edges = edges[:len(edges)-1]
			from = starts[len(edges)-first]
			gain, width = values[at]-values[from], float64(nodes[at]-nodes[from])
		}
		starts[len(edges)-first] = from
		edges = append(edges, Edge{Rate: gain / width, Nodes: width})
	}
	return edges
}

// BreakRate returns the rate of the edge that uses up the needed nodes if edges are taken by
// decreasing rate, or 0 if the edges have fewer nodes. It uses selection and reorders the edges. It
// returns false if the deadline has passed.
func BreakRate(clock *Clock, edges []Edge, need float64) (float64, bool) {
	for len(edges) > 0 {
		a, b, d := edges[0].Rate, edges[len(edges)/2].Rate, edges[len(edges)-1].Rate
		pivot := max(min(a, b), min(max(a, b), d))
		// Partition: rates above the pivot at the left, rates below it at the right.
		above, below := 0, len(edges)
		more, same := 0.0, 0.0
		for n, seen := 0, 0; n < below; seen++ {
			if seen%4096 == 0 && clock.Add(4096) {
				return 0, false
			}
			switch r := edges[n]; {
			case r.Rate > pivot:
				edges[n], edges[above] = edges[above], r
				more += r.Nodes
				above++
				n++
			case r.Rate < pivot:
				below--
				edges[n], edges[below] = edges[below], r
			default:
				same += r.Nodes
				n++
			}
		}
		switch {
		case more > need:
			edges = edges[:above]
		case more+same > need:
			return pivot, true
		default:
			need -= more + same
			edges = edges[below:]
		}
	}
	return 0, true
}
