package audit

import "slices"

// A search begins with minPrecision and ends with maxPrecision.
const minPrecision, maxPrecision = 10, 18

// numbersPerVertex is how many numbers a vertex takes while its row is built.
const numbersPerVertex = 8

// candidates are the plans of a member that may be part of a better plan.
type candidates struct {
	*search
	*member
	position int
	// adjust is added to the value of each size in each row: the prices that the member receives
	// minus those that it pays, of either sign. It is infeasible for sizes that no plan has.
	adjust [][]int64
	bound  int64 // upper bound of the adjusted value of any plan, before the sweeps
	paths  *paths
	best   int64 // the largest adjusted value of a path
}

// label is the work done and the value of a partial plan of a member.
type label struct{ work, value int64 }

// bestValue returns an upper bound of the adjusted value of any plan. It computes the Pareto front of
// labels step by step.
func (c *candidates) bestValue() int64 {
	if c.separable || c.coupled() {
		return c.allPaths().backward(c)[0][0]
	}
	labels := []label{{}}
	for t := range c.steps {
		var next []label
		for _, n := range c.usable[t] {
			extended := slices.Clone(labels)
			for i, from := range labels {
				work := c.workAfter(from.work, t, n)
				extended[i] = label{work, from.value + c.completionGain(work) + c.adjust[t][n]}
			}
			next = mergeLabels(next, extended)
			c.spend(4 * (len(next) + len(extended)))
		}
		if labels = next; len(labels) > 1<<(c.precision+4) { // Pairs are merged into upper bounds.
			for n := 0; 2*n < len(labels); n++ {
				labels[n] = label{labels[2*n].work, labels[min(2*n+1, len(labels)-1)].value}
			}
			labels = labels[:(len(labels)+1)/2]
		}
	}
	return labels[len(labels)-1].value
}

// mergeLabels merges two lists of labels in descending order of work, and drops every label that has
// neither more work nor more value than another.
func mergeLabels(a, b []label) (merged []label) {
	merged = make([]label, 0, len(a)+len(b))
	for len(a)+len(b) > 0 {
		from := &a
		if len(a) == 0 || len(b) > 0 && b[0].work > a[0].work {
			from = &b
		}
		l := (*from)[0]
		*from = (*from)[1:]
		last := len(merged) - 1
		if last >= 0 && l.value <= merged[last].value {
			continue
		}
		if last >= 0 && l.work == merged[last].work {
			merged = merged[:last]
		}
		merged = append(merged, l)
	}
	return merged
}

// futureValues returns upper bounds of the value after some work is done, by step except the first,
// and by work in cells of 2^shift units, rounded up.
func (c *candidates) futureValues() (table [][]int64, shift int) {
	if shift = workBits - 8; c.steps > 6 {
		shift = workBits - 11
	}
	cells := int(allWork>>shift) + 1
	table = make([][]int64, c.steps+1)
	table[c.steps] = make([]int64, cells)
	for t := c.steps - 1; t > 0; t-- {
		table[t] = slices.Repeat([]int64{infeasible}, cells)
		for cell := range table[t] {
			for _, n := range c.usable[t] {
				work := c.workAfter(int64(cell)<<shift, t, n)
				next := (work + 1<<shift - 1) >> shift
				table[t][cell] = max(table[t][cell], c.completionGain(work)+c.adjust[t][n]+table[t+1][next])
			}
		}
		c.spend(2 * cells * len(c.usable[t]))
	}
	return table, shift
}

// paths are plans of a member as paths of a layered graph, from the only vertex before the first row
// to any vertex after the last. A vertex is the state of a plan after a row: the work done, or what is
// pending if rows are coupled. Plans with the same state have the same continuations.
type paths struct {
	rounded  bool    // the work done is rounded up
	vertices []int   // number of vertices, by number of rows passed
	arcs     [][]arc // by row, in the order of their sources
	// values are the largest adjusted values of paths to a vertex, or from it, by number of rows passed
	// and vertex. Which of both depends on the direction of the last propagation.
	values [][]int64
}

// arc is a size in a row, by its position, with its source, its target and its value.
type arc struct {
	value    int64
	from, to int32
	size     uint16
}

// allPaths returns all plans of a member that is separable, or whose rows are coupled.
func (c *candidates) allPaths() *paths {
	if !c.separable {
		return c.optionPaths()
	}
	g := &paths{vertices: []int{1}}
	for t := range c.rows {
		var arcs []arc
		for _, n := range c.usable[t] {
			arcs = append(arcs, arc{value: c.rowValue(c.member, t, n), size: uint16(n)})
		}
		c.store(2 * len(arcs))
		g.vertices, g.arcs = append(g.vertices, 1), append(g.arcs, arcs)
	}
	return g
}

// single reports whether there is one path, with a known value.
func (g *paths) single() bool {
	return !g.rounded && !slices.ContainsFunc(g.arcs, func(arcs []arc) bool { return len(arcs) != 1 })
}

// pathsAbove returns the plans whose adjusted value exceeds a threshold.
func (c *candidates) pathsAbove(threshold int64) *paths {
	if c.separable || c.coupled() {
		g := c.allPaths()
		g.prune(c, threshold)
		return g
	}
	numbers := c.numbers
	g := c.pathsByWork(threshold, 0)
	if g == nil {
		c.numbers = numbers
		g = c.pathsByWork(threshold, workBits-c.precision)
	}
	g.prune(c, threshold)
	return g
}

// pathsByWork returns the plans whose adjusted value may exceed a threshold. The vertices are the work
// done by the end of each step, rounded up by some bits. It returns nil if nothing is rounded and there
// are too many vertices.
func (c *candidates) pathsByWork(threshold int64, roundBits int) *paths {
	future, shift := c.futureValues()
	g, vertices, value := &paths{rounded: roundBits > 0, vertices: []int{1}}, []int64{0}, []int64{0}
	for t := range c.steps {
		var work, next []int64
		var arcs []arc
		index := make(map[int64]int32)
		for from, before := range vertices {
			arcsBefore, verticesBefore, usable := len(arcs), len(work), c.usable[t]
			if before >= allWork && roundBits == 0 {
				usable = usable[:1] // A finished job keeps its smallest size, unless rounding finished it.
			}
			for _, n := range usable {
				to := (c.workAfter(before, t, n) + 1<<roundBits - 1) >> roundBits << roundBits
				gain := c.completionGain(to)
				v := value[from] + gain + c.adjust[t][n]
				if v+future[t+1][(to+1<<shift-1)>>shift] <= threshold {
					continue
				}
				at, seen := index[to]
				if !seen {
					at = int32(len(work))
					index[to], work, next = at, append(work, to), append(next, v)
				}
				next[at] = max(next[at], v)
				arcs = append(arcs, arc{gain, int32(from), at, uint16(n)})
			}
			c.spend(10 * len(c.usable[t]))
			c.store(2*(len(arcs)-arcsBefore) + numbersPerVertex*(len(work)-verticesBefore))
			if roundBits == 0 && len(work) > 1<<c.precision {
				return nil
			}
		}
		c.numbers += (numbersPerVertex - 1) * len(work)
		g.vertices, g.arcs = append(g.vertices, len(work)), append(g.arcs, arcs)
		vertices, value = work, next
	}
	return g
}

// backward returns the largest adjusted value of the paths from each vertex, by number of rows passed.
func (g *paths) backward(c *candidates) [][]int64 {
	g.values = make([][]int64, len(g.vertices))
	for t, vertices := range g.vertices {
		g.values[t] = make([]int64, vertices)
	}
	for t := len(g.arcs) - 1; t >= 0; t-- {
		g.propagate(c, t, true)
	}
	return g.values
}

// start prepares a propagation from the first row forward, or from the last row back.
func (g *paths) start(back bool) {
	if back {
		clear(g.values[len(g.arcs)])
	} else {
		clear(g.values[0])
	}
}

// propagate computes the values on one side of a row from those on the other side.
func (g *paths) propagate(c *candidates, t int, back bool) {
	known, next := g.values[t], g.values[t+1]
	if back {
		known, next = next, known
	}
	for n := range next {
		next[n] = infeasible
	}
	for _, a := range g.arcs[t] {
		from, to := a.from, a.to
		if back {
			from, to = to, from
		}
		if adjust := c.adjust[t][a.size]; adjust != infeasible && known[from] != infeasible {
			next[to] = max(next[to], known[from]+a.value+adjust)
		}
	}
	c.spend(4 * (len(g.arcs[t]) + len(next)))
	checkRange(next)
}

// prune drops the arcs that are on no path whose value exceeds a threshold. It returns the largest
// value of a path through each size in each row.
func (g *paths) prune(c *candidates, threshold int64) (largest [][]int64) {
	g.backward(c)
	g.start(false)
	for t := range g.arcs {
		largest = append(largest, g.pruneRow(c, t, c.adjust[t], threshold))
		g.propagate(c, t, false)
	}
	return largest
}

// pruneRow prunes the row that the propagations from both sides have reached, with the given
// adjustments of its sizes.
func (g *paths) pruneRow(c *candidates, t int, adjust []int64, threshold int64) (largest []int64) {
	largest = slices.Repeat([]int64{infeasible}, len(adjust))
	before, after, kept := g.values[t], g.values[t+1], g.arcs[t][:0]
	for _, a := range g.arcs[t] {
		if before[a.from] == infeasible || adjust[a.size] == infeasible || after[a.to] == infeasible {
			continue
		}
		if v := before[a.from] + a.value + adjust[a.size] + after[a.to]; v > threshold {
			largest[a.size] = max(largest[a.size], v)
			kept = append(kept, a)
		}
	}
	c.spend(4 * len(g.arcs[t]))
	g.arcs[t] = kept
	return largest
}
