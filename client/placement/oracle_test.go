package placement_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/client/placement"
)

// problem is a call of Place.
type problem struct {
	Nodes []placement.Node
	Sizes []int
	Jobs  []placement.Job
}

// block is the machines of one size that share a block.
type block struct {
	name  string
	units int
}

// machines returns the number of machines of some units that a piece lies on, 0 if it lies on none of them.
// Only of the largest machines it may use a part.
func (c *problem) machines(piece, units int) int {
	largest := 0
	for _, n := range c.Nodes {
		largest = max(largest, n.Units)
	}
	switch {
	case piece <= units:
		return 1
	case units > 0 && (piece%units == 0 || units == largest):
		return (piece + units - 1) / units
	default:
		return 0
	}
}

// pieces returns the pieces of a job. A piece that fits in no empty block is cut into pieces of the
// largest size that fits in one.
func (c *problem) pieces(job placement.Job) (pieces []int) {
	size := job.Units
	if job.Piece > 0 {
		size = min(size, job.Piece)
	}
	blocks := make(map[block]int)
	for _, n := range c.Nodes {
		blocks[block{n.Block, n.Units}]++
	}
	fits := func(piece int) bool {
		for b, count := range blocks {
			if machines := c.machines(piece, b.units); machines > 0 && machines <= count {
				return true
			}
		}
		return false
	}
	if !fits(size) {
		for _, s := range slices.Sorted(slices.Values(c.Sizes)) {
			if fits(s) {
				size = s
			}
		}
	}
	for left := job.Units; left > 0; left -= size {
		pieces = append(pieces, min(left, size))
	}
	return pieces
}

// allPieces returns the pieces of all jobs.
func (c *problem) allPieces() (pieces []int) {
	for _, job := range c.Jobs {
		pieces = append(pieces, c.pieces(job)...)
	}
	return pieces
}

// fit reports whether pieces fit in the free units of the nodes, by trying all places of each.
func (c *problem) fit(free, pieces []int) bool {
	if sum(pieces) > sum(free) {
		return false
	}
	failed := make(map[string]bool) // with as many pieces left; nodes of a block are alike
	var try func(free, pieces []int) bool
	try = func(free, pieces []int) bool {
		if len(pieces) == 0 {
			return true
		}
		var nodes []string
		for n := range free {
			nodes = append(nodes, fmt.Sprint(c.Nodes[n].Block, c.Nodes[n].Units, free[n]))
		}
		slices.Sort(nodes)
		key := fmt.Sprint(nodes, len(pieces))
		if failed[key] {
			return false
		}
		for _, on := range c.places(free, pieces[0]) {
			after := slices.Clone(free)
			for _, n := range on {
				after[n] -= min(pieces[0], c.Nodes[n].Units)
			}
			if try(after, pieces[1:]) {
				return true
			}
		}
		failed[key] = true
		return false
	}
	return try(free, slices.SortedFunc(slices.Values(pieces), func(a, b int) int { return b - a }))
}

// places returns the nodes of every place for a piece. Of the whole machines of one size in one block,
// which are alike, it takes the first ones.
func (c *problem) places(free []int, piece int) (places [][]int) {
	whole := make(map[block][]int)
	for n, node := range c.Nodes {
		if free[n] >= piece {
			places = append(places, []int{n})
		}
		if free[n] == node.Units && node.Units < piece {
			b := block{node.Block, node.Units}
			whole[b] = append(whole[b], n)
		}
	}
	for _, b := range slices.SortedFunc(maps.Keys(whole), func(a, b block) int {
		return cmp.Or(cmp.Compare(a.name, b.name), a.units-b.units)
	}) {
		if count := c.machines(piece, b.units); count > 0 && len(whole[b]) >= count {
			places = append(places, whole[b][:count])
		}
	}
	return places
}

func sum(list []int) (sum int) {
	for _, v := range list {
		sum += v
	}
	return sum
}

// free returns the units of the nodes that are free, or will be.
func (c *problem) free() (free []int) {
	for _, n := range c.Nodes {
		free = append(free, n.Free+n.Releasing)
	}
	return free
}

// liesOn reports whether the pieces of a job can be placed on nodes.
func (c *problem) liesOn(job placement.Job, on map[string]int) bool {
	free := make([]int, len(c.Nodes))
	for n, node := range c.Nodes {
		free[n] = on[node.ID]
	}
	return sum(free) == job.Units && c.fit(free, c.pieces(job))
}

// fewestMoves returns the fewest unchanged jobs that have to move, by trying all sets of jobs, and whether a
// placement exists.
func (c *problem) fewestMoves() (moves int, exists bool) {
	var still, others []int
	for j, job := range c.Jobs {
		if unchanged(job) {
			still = append(still, j)
		} else {
			others = append(others, c.pieces(job)...)
		}
	}
	for kept := range 1 << len(still) {
		free, loose, moved := c.free(), slices.Clone(others), 0
		for i, j := range still {
			job := c.Jobs[j]
			if kept&(1<<i) == 0 {
				loose = append(loose, c.pieces(job)...)
				moved++
				continue
			}
			for n, node := range c.Nodes {
				free[n] -= job.On[node.ID]
			}
			if !c.liesOn(job, job.On) {
				free = append(free, -1)
			}
		}
		if (len(free) == 0 || slices.Min(free) >= 0) && (!exists || moved < moves) && c.fit(free, loose) {
			moves, exists = moved, true
		}
	}
	return moves, exists
}

// unchanged reports whether the units of a job do not change.
func unchanged(job placement.Job) bool {
	units := sum(slices.Collect(maps.Values(job.On)))
	return units > 0 && units == job.Units
}

// chains are the units of a machine and sizes that form a chain.
var chains = [][]int{
	{8, 1, 2, 4, 8}, {8, 1, 2, 4, 8, 16, 32}, {8, 2, 8, 24}, {12, 1, 3, 6, 12, 24}, {1, 1, 2, 4}, {8, 3, 6}, {4, 1, 4, 8, 16}, {6, 2, 6},
}

// unnested are the units of a machine and sizes that do not form a chain.
var unnested = [][]int{{8, 1, 2, 3, 4, 5, 6, 7, 8}, {8, 1, 2, 4, 6, 8}, {1, 1, 2, 3, 4}, {8, 3, 8, 16}, {8, 5, 6}}

// problems returns random problems on machines and sizes of some kinds.
func problems(kinds [][]int) *rapid.Generator[problem] {
	return rapid.Custom(func(t *rapid.T) problem {
		return randomProblem(kinds, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "number") })
	})
}

// seeded returns the random problem of a seed on machines and sizes of some kinds. The problems of rapid
// are smaller.
func seeded(kinds [][]int, seed int) problem {
	return randomProblem(kinds, rand.New(rand.NewPCG(uint64(seed), 0)).IntN)
}

// randomProblem returns a problem with running jobs, of which some change, new jobs, nodes of one or several
// sizes, and nodes with missing units. intN returns random numbers from 0 to below its argument.
func randomProblem(kinds [][]int, intN func(n int) int) problem {
	kind := kinds[intN(len(kinds))]
	c := problem{Sizes: kind[1:], Nodes: randomNodes(kind, intN)}
	size := func() int { return c.Sizes[min(intN(len(c.Sizes)), intN(len(c.Sizes)))] }
	free := c.free()
	total := sum(free)
	for j := range intN(12) {
		job := placement.Job{ID: fmt.Sprint("j", j), Units: size()}
		if intN(4) == 0 {
			job.Piece = job.Units
			job.Units *= 1 + intN(3)
			if rest := size(); rest < job.Piece && intN(2) == 0 {
				job.Units += rest
			}
		}
		running := intN(4) > 0
		if !running && intN(2) == 0 {
			job.Units = c.Sizes[len(c.Sizes)-1]
		}
		if job.Units > total && intN(8) > 0 {
			continue
		}
		total -= job.Units
		if running {
			job.On = c.run(intN, free, job)
		}
		if job.On != nil && intN(4) == 0 {
			total += job.Units
			job.Units = 0
			if intN(2) == 0 {
				job.Units = size()
			}
			total -= job.Units
		}
		c.Jobs = append(c.Jobs, job)
	}
	c.Nodes = changed(c.Nodes, intN)
	return c
}

// randomNodes returns up to 6 nodes, some with missing units, of kind[0] units or, if all sizes divide each other, of
// several numbers of units.
func randomNodes(kind []int, intN func(n int) int) (nodes []placement.Node) {
	count, inBlock, damaged, mixed := intN(7), intN(4), intN(2) == 0, nested(kind[1:]) && intN(3) == 0
	for n := range count {
		node := placement.Node{ID: fmt.Sprint("n", n), Units: kind[0]}
		if mixed {
			node.Units = kind[intN(len(kind))]
		}
		node.Free = node.Units
		if inBlock > 0 {
			node.Block = fmt.Sprint("b", n/inBlock)
		}
		if damaged && intN(3) == 0 {
			node.Free = intN(node.Units + 1)
		}
		nodes = append(nodes, node)
	}
	return nodes
}

// changed returns the nodes after jobs were placed on them: the first may lose units or be gone, and some may have
// units that are being released.
func changed(nodes []placement.Node, intN func(n int) int) []placement.Node {
	if len(nodes) > 0 && intN(6) == 0 {
		nodes[0].Free = intN(nodes[0].Free + 1)
	}
	if len(nodes) > 1 && intN(16) == 0 {
		nodes = nodes[1:]
	}
	for n := range nodes {
		if intN(8) == 0 {
			nodes[n].Releasing = intN(nodes[n].Free + 1)
			nodes[n].Free -= nodes[n].Releasing
		}
	}
	return nodes
}

// nested reports whether each of some ascending sizes divides the next.
func nested(sizes []int) bool {
	for i := 1; i < len(sizes); i++ {
		if sizes[i]%sizes[i-1] != 0 {
			return false
		}
	}
	return true
}

// run returns random nodes for a job, and takes their free units; nil if it does not fit.
func (c *problem) run(intN func(n int) int, free []int, job placement.Job) map[string]int {
	after, on := slices.Clone(free), make(map[string]int)
	for _, piece := range c.pieces(job) {
		places := c.places(after, piece)
		if len(places) == 0 {
			return nil
		}
		for _, n := range places[intN(len(places))] {
			units := min(piece, c.Nodes[n].Units)
			after[n] -= units
			on[c.Nodes[n].ID] += units
		}
	}
	copy(free, after)
	return on
}
