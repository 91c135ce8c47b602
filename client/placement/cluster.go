package placement

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// bins are the free units of machines.
type bins struct {
	machine int   // units of a whole machine
	block   []int // of each machine
	free    []int // units of each machine
	whole   []int // free whole machines of each block
}

// take takes free units of a machine; it returns them if units are negative.
func (b *bins) take(n, units int) {
	if b.free[n] == b.machine {
		b.whole[b.block[n]]--
	}
	b.free[n] -= units
	if b.free[n] == b.machine {
		b.whole[b.block[n]]++
	}
}

// machines returns the number of machines that a piece lies on.
func (b *bins) machines(size int) int { return (size + b.machine - 1) / b.machine }

// places returns the number of pieces of a size that fit in the free units.
func (b *bins) places(size int) (places int) {
	if size > b.machine {
		for _, whole := range b.whole {
			places += whole / b.machines(size)
		}
		return places
	}
	for _, free := range b.free {
		places += free / size
	}
	return places
}

// within returns the number of places for pieces of a size that a piece takes.
func (b *bins) within(piece, size int) int {
	if size > b.machine {
		return b.machines(piece) / b.machines(size)
	}
	return piece/b.machine*(b.machine/size) + piece%b.machine/size
}

// fit returns the machines for a piece: the fullest machine that fits, or whole machines of the
// block with the fewest of them. Of equally full machines, it returns the first one in the block
// with the fewest whole machines. It returns nil if the piece does not fit.
func (b *bins) fit(size int) []int {
	best, fewest := -1, b.machines(size)
	better := func(n int) bool {
		if best < 0 || b.free[n] != b.free[best] {
			return best < 0 || b.free[n] < b.free[best]
		}
		return b.whole[b.block[n]] < b.whole[b.block[best]]
	}
	for n, free := range b.free {
		fits := free >= size
		if size > b.machine {
			fits = free == b.machine && b.whole[b.block[n]] >= fewest
		}
		if fits && better(n) {
			best = n
		}
	}
	if best < 0 {
		return nil
	}
	if size <= b.machine {
		return []int{best}
	}
	var machines []int
	for n := best; len(machines) < fewest; n++ {
		if b.block[n] == b.block[best] && b.free[n] == b.machine {
			machines = append(machines, n)
		}
	}
	return machines
}

// piece is a number of pieces of one size of one job.
type piece struct{ job, size, count int }

// put places pieces, the largest first. It returns the units of each job on each machine, or the
// size of a piece that does not fit, and leaves the free units as they were.
func (b *bins) put(pieces []piece) (on map[int]map[int]int, failed int) {
	on = make(map[int]map[int]int)
	defer func() {
		for _, of := range on {
			for n, units := range of {
				b.take(n, -units)
			}
		}
	}()
	pieces = slices.Clone(pieces)
	slices.SortStableFunc(pieces, func(p, q piece) int { return q.size - p.size })
	for _, p := range pieces {
		if on[p.job] == nil {
			on[p.job] = make(map[int]int)
		}
		for p.count > 0 {
			machines := b.fit(p.size)
			if machines == nil {
				return on, p.size
			}
			together := 1 // As many as fit on a machine.
			if p.size <= b.machine {
				together = min(p.count, b.free[machines[0]]/p.size)
			}
			p.count -= together
			units := together * p.size
			for _, n := range machines {
				part := min(units, b.free[n])
				b.take(n, part)
				on[p.job][n] += part
				units -= part
			}
		}
	}
	return on, 0
}

// cluster is the machines of a pool, with their free units.
type cluster struct {
	bins
	nodes   []Node
	index   map[string]int // of each node id
	largest int            // machines of the largest block, free or not
	most    int            // largest of the sizes that fit a block; 0 if none fits
}

// newCluster returns the cluster of nodes. The error names every field that is not valid.
func newCluster(nodes []Node, sizes []int) (*cluster, error) {
	c := &cluster{nodes: nodes, index: make(map[string]int, len(nodes))}
	c.machine = 1
	var bad []error
	addf := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	for i, size := range sizes {
		if size < 1 || size > math.MaxInt32 {
			addf("sizes[%d]: is %d; must be 1 to %d", i, size, math.MaxInt32)
		}
	}
	total := 0
	for n, node := range nodes {
		if other, seen := c.index[node.ID]; seen {
			addf("nodes[%d].id: is %q like nodes[%d].id; must be unique", n, node.ID, other)
		} else if node.ID == "" {
			addf("nodes[%d].id: is empty; every node must have an id", n)
		}
		c.index[node.ID] = n
		if most := math.MaxInt32 - total; node.Units < 0 || node.Units > most {
			addf("nodes[%d].units: is %d; must be 0 to %d, so that all nodes have at most %d", n, node.Units, most, math.MaxInt32)
		} else if total += node.Units; node.Free < 0 || node.Free > node.Units {
			addf("nodes[%d].free: is %d; must be 0 to units (%d)", n, node.Free, node.Units)
		}
		c.machine = max(c.machine, node.Units)
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	blocks, machines := make(map[string]int), make(map[string]int)
	for _, node := range nodes {
		b, seen := blocks[node.Block]
		if !seen {
			b = len(blocks)
			blocks[node.Block], c.whole = b, append(c.whole, 0)
		}
		c.block, c.free = append(c.block, b), append(c.free, node.Free)
		if node.Free == c.machine {
			c.whole[b]++
		}
		if node.Units == c.machine {
			machines[node.Block]++
			c.largest = max(c.largest, machines[node.Block])
		}
	}
	for _, size := range sizes {
		if c.machines(size) <= c.largest {
			c.most = max(c.most, size)
		}
	}
	return c, nil
}

// cut returns the size of the pieces that a piece is cut into: its own if it fits a block.
func (c *cluster) cut(size int) int {
	if c.machines(size) <= c.largest || c.most == 0 {
		return size
	}
	return c.most
}

// notNested returns two sizes, of which the first should divide the second and does not, or 0 and
// 0. If a size is larger than a machine, the units of a machine count as a size.
func (c *cluster) notNested(sizes []int) (small, large int) {
	chain := slices.Clone(sizes)
	if len(sizes) > 0 && c.cut(slices.Max(sizes)) > c.machine {
		chain = append(chain, c.machine)
	}
	chain = distinct(chain)
	for i := 1; i < len(chain); i++ {
		if chain[i]%chain[i-1] != 0 {
			return chain[i-1], chain[i]
		}
	}
	return 0, 0
}

// distinct returns the distinct numbers of a list, ascending.
func distinct(list []int) []int { return slices.Compact(slices.Sorted(slices.Values(list))) }
