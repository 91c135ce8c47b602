// Package machines describes the machines of simulated pools and places jobs on them.
package machines

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/elastalloc/elastalloc/client/placement"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// Machines are the machines of a pool, whose nodes are units of them. It is a sim.Placer.
type Machines struct {
	nodes []placement.Node
	sizes []int
	// units is the number of units of a machine if there are no blocks. Jobs that have a multiple of it are on any
	// whole machines.
	units int
}

// Layout describes the machines of a pool.
type Layout struct {
	// Units is the number of units of a machine, at least 1.
	Units int
	// Block is the number of machines of a block. 0 means that there are no blocks.
	Block int
	// Damaged is the share of the machines that lack 1 to Units-1 units, 0 to 1.
	Damaged float64
	// Seed determines which machines lack how many units.
	Seed uint64
}

// streamDamage is the stream of random numbers of the damaged machines.
const streamDamage = 200

// New returns the machines of a pool of units, a multiple of Layout.Units, for jobs with sizes.
func New(units int, layout Layout, sizes []int) *Machines {
	m := &Machines{nodes: make([]placement.Node, units/layout.Units)}
	if layout.Block == 0 {
		m.units = layout.Units
	}
	for _, size := range sizes {
		m.sizes = append(m.sizes, m.piece(size))
	}
	for n := range m.nodes {
		node := placement.Node{ID: fmt.Sprintf("machine-%d", n), Units: layout.Units, Free: layout.Units}
		if layout.Block > 0 {
			node.Block = fmt.Sprintf("block-%d", n/layout.Block)
		}
		m.nodes[n] = node
	}
	random := rand.New(rand.NewPCG(layout.Seed, streamDamage))
	damaged := int(math.Round(layout.Damaged * float64(len(m.nodes))))
	for _, n := range random.Perm(len(m.nodes))[:damaged] {
		m.nodes[n].Free -= 1 + random.IntN(layout.Units-1)
	}
	return m
}

// piece returns the largest part of an allocation that must lie together.
func (m *Machines) piece(size int) int {
	if m.units > 0 && size > m.units && size%m.units == 0 {
		return m.units
	}
	return size
}

// Unavailable returns the number of units that the machines lack.
func (m *Machines) Unavailable() int {
	lacking := 0
	for _, node := range m.nodes {
		lacking += node.Units - node.Free
	}
	return lacking
}

// Limits returns the size limits of the machines. It returns an error if the sizes do not divide each
// other.
func (m *Machines) Limits() ([]solver.SizeLimit, error) {
	limits, err := placement.Limits(m.nodes, m.sizes)
	converted := make([]solver.SizeLimit, len(limits))
	for i, limit := range limits {
		converted[i] = solver.SizeLimit{Size: int(limit.GetSize()), Nodes: int(limit.GetNodes())}
	}
	return converted, err
}

// Place places jobs. See sim.Placer.
func (m *Machines) Place(kept, jobs []sim.PlacedJob) ([]map[string]int, error) {
	occupied := make(map[string]int)
	for _, job := range kept {
		for id, units := range job.On {
			occupied[id] += units
		}
	}
	nodes := make([]placement.Node, len(m.nodes))
	for n, node := range m.nodes {
		node.Free -= occupied[node.ID]
		nodes[n] = node
	}
	placing := make([]placement.Job, len(jobs))
	for i, job := range jobs {
		placing[i] = placement.Job{ID: job.ID, Units: job.Nodes, Piece: m.piece(job.Nodes), On: job.On}
	}
	placed, err := placement.Place(nodes, m.sizes, placing)
	var limit *placement.LimitError
	switch {
	case errors.As(err, &limit):
		return nil, &sim.NoPlaceError{Size: limit.Size}
	case errors.Is(err, placement.ErrNotNested):
		return nil, &sim.NoPlaceError{Size: 1}
	case err != nil:
		return nil, err
	}
	on := make([]map[string]int, len(jobs))
	for i, job := range jobs {
		on[i] = placed.On[job.ID]
	}
	return on, nil
}

// ByType are the machines of the node types of a pool. It is a sim.Placer.
type ByType map[string]*Machines

// Limits returns the size limits of the machines of all types. It returns an error if the sizes of a type do not
// divide each other.
func (b ByType) Limits() ([]solver.SizeLimit, error) {
	var all []solver.SizeLimit
	for _, nodeType := range slices.Sorted(maps.Keys(b)) {
		limits, err := b[nodeType].Limits()
		if err != nil {
			return nil, fmt.Errorf("node type %q: %w", nodeType, err)
		}
		for _, limit := range limits {
			limit.NodeType = nodeType
			all = append(all, limit)
		}
	}
	return all, nil
}

// Place places jobs on the machines of their types. See sim.Placer.
func (b ByType) Place(kept, jobs []sim.PlacedJob) ([]map[string]int, error) {
	on := make([]map[string]int, len(jobs))
	for _, nodeType := range slices.Sorted(maps.Keys(b)) {
		elsewhere := func(job sim.PlacedJob) bool { return job.NodeType != nodeType }
		placed, err := b[nodeType].Place(slices.DeleteFunc(slices.Clone(kept), elsewhere), slices.DeleteFunc(slices.Clone(jobs), elsewhere))
		var none *sim.NoPlaceError
		if errors.As(err, &none) {
			none.NodeType = nodeType
		}
		if err != nil {
			return nil, err
		}
		for i := range jobs {
			if !elsewhere(jobs[i]) {
				on[i], placed = placed[0], placed[1:]
			}
		}
	}
	return on, nil
}
