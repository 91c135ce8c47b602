package placement

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// bins are the free units of machines. The machines of one size in one block are a group.
type bins struct {
	group   []int // of each machine
	free    []int // units of each machine
	units   []int // of a machine of each group
	whole   []int // free whole machines of each group
	classes []int // the distinct units of machines, ascending
}

// take takes free units of a machine; it returns them if units are negative.
func (b *bins) take(n, units int) {
	g := b.group[n]
	if b.free[n] == b.units[g] {
		b.whole[g]--
	}
	b.free[n] -= units
	if b.free[n] == b.units[g] {
		b.whole[g]++
	}
}

// machines returns the number of machines of some units that a piece lies on, 0 if it lies on none of
// them. A piece that is no multiple of a machine lies on a part of several of the largest machines
// only.
func (b *bins) machines(size, units int) int {
	if units == 0 || size > units && size%units > 0 && units < b.classes[len(b.classes)-1] {
		return 0
	}
	return (size + units - 1) / units
}

// places returns the number of pieces of a size that fit in the free units.
func (b *bins) places(size int) (places int) {
	for g, whole := range b.whole {
		if count := b.machines(size, b.units[g]); count > 1 {
			places += whole / count
		}
	}
	for _, free := range b.free {
		places += free / size
	}
	return places
}

// within returns the least number of places for pieces of a size that a piece takes.
func (b *bins) within(piece, size int) int {
	within := math.MaxInt
	for _, units := range b.classes {
		switch count := b.machines(piece, units); {
		case count == 0:
		case count == 1:
			within = min(within, piece/size)
		case size <= units:
			within = min(within, piece/units*(units/size)+piece%units/size)
		case b.machines(size, units) == 0:
			within = 0
		default:
			within = min(within, count/b.machines(size, units))
		}
	}
	if within == math.MaxInt { // It fits nowhere.
		return piece / size
	}
	return within
}

// fit returns the machines for a piece: the fullest machine that fits or, if there is none, whole
// machines of the group with the fewest of them. Of equally full machines, it returns the first one in
// the group with the fewest whole machines. It returns nil if the piece does not fit.
func (b *bins) fit(size int) []int {
	best, fewest := -1, 0
	for n, free := range b.free {
		count := b.machines(size, b.units[b.group[n]])
		fits := free >= size
		if count > 1 {
			fits = free == b.units[b.group[n]] && b.whole[b.group[n]] >= count
		}
		if fits && (best < 0 || cmp.Or(count-fewest, free-b.free[best], b.whole[b.group[n]]-b.whole[b.group[best]]) < 0) {
			best, fewest = n, count
		}
	}
	if best < 0 {
		return nil
	}
	if fewest == 1 {
		return []int{best}
	}
	var machines []int
	for n := best; len(machines) < fewest; n++ {
		if b.group[n] == b.group[best] && b.free[n] == b.free[best] {
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
			together := 1
			if len(machines) == 1 { // As many as fit on the machine.
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
	nodes  []Node
	index  map[string]int // of each node id
	usable []int          // units of each machine, in use or not
	count  []int          // machines of each group, free or not
	most   int            // largest of the sizes that fit a block; 0 if none fits
}

// newCluster returns the cluster of nodes. The error names every field that is not valid.
func newCluster(nodes []Node, sizes []int) (*cluster, error) {
	c := &cluster{nodes: nodes, index: make(map[string]int, len(nodes))}
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
			continue
		}
		total += node.Units
		if node.Free < 0 || node.Free > node.Units {
			addf("nodes[%d].free: is %d; must be 0 to units (%d)", n, node.Free, node.Units)
		} else if node.Releasing < 0 || node.Releasing > node.Units-node.Free {
			addf("nodes[%d].releasing: is %d; must be 0 to units less free (%d)", n, node.Releasing, node.Units-node.Free)
		}
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	type class struct {
		block string
		units int
	}
	groups := make(map[class]int)
	for _, node := range nodes {
		g, seen := groups[class{node.Block, node.Units}]
		if !seen {
			g = len(groups)
			groups[class{node.Block, node.Units}] = g
			c.units, c.whole, c.count = append(c.units, node.Units), append(c.whole, 0), append(c.count, 0)
		}
		usable := node.Free + node.Releasing
		c.group, c.free, c.usable = append(c.group, g), append(c.free, usable), append(c.usable, usable)
		c.count[g]++
		if usable == node.Units {
			c.whole[g]++
		}
	}
	c.classes = distinct(c.units)
	for _, size := range sizes {
		if c.canFit(size) {
			c.most = max(c.most, size)
		}
	}
	return c, nil
}

// canFit reports whether a piece of a size fits an empty block.
func (c *cluster) canFit(size int) bool {
	for g, count := range c.count {
		if machines := c.machines(size, c.units[g]); machines > 0 && machines <= count {
			return true
		}
	}
	return false
}

// cut returns the size of the pieces that a piece is cut into: its own if it fits a block.
func (c *cluster) cut(size int) int {
	if c.most == 0 || c.canFit(size) {
		return size
	}
	return c.most
}

// notNested returns two sizes, of which the first should divide the second and does not, or 0 and
// 0. If a size fits on several machines of a block, the units of these machines count as a size.
func (c *cluster) notNested(sizes []int) (small, large int) {
	chain := slices.Clone(sizes)
	for g, count := range c.count {
		for _, size := range sizes {
			if machines := c.machines(size, c.units[g]); machines > 1 && machines <= count {
				chain = append(chain, c.units[g])
			}
		}
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
