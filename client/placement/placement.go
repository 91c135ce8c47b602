package placement

import (
	"errors"
	"fmt"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// Node is a machine of the pool.
type Node struct {
	// ID is required and unique.
	ID string
	// Block names the machines that share a rack or an NVLink domain; optional.
	Block string
	// Units is the number of units of the machine, for example 8 GPUs.
	Units int
	// Free is the number of units available to the jobs to be placed, 0 to Units. Units that
	// these jobs occupy now count as free. Units that are being released do not.
	Free int
	// Releasing is the number of units that are being released now and are not free yet, 0 to Units
	// less Free. The default is 0. Limits and Place may use them, and Steps waits for them.
	Releasing int
}

// Job is an allocation to be placed.
type Job struct {
	// ID is required and unique.
	ID string
	// Units is the number of units of the allocation; 0 pauses the job.
	Units int
	// Piece is the number of units of the largest part that must lie together, as in
	// elastallocv1.Job.PieceNodes. 0 means all of the allocation. If Units is no multiple, the
	// remainder is a smaller piece.
	Piece int
	// On has the units that the job occupies now, by node id; nil if none.
	On map[string]int
}

// Placement is the result of Place: the machines of each job.
type Placement struct {
	// On has the units of every job, by job id and node id. A paused job has an empty map.
	On map[string]map[string]int
	// Moved has the ids of the jobs whose units do not change and that had to move, in the order
	// of the jobs.
	Moved []string
}

// LimitError reports the limit that no placement of the jobs keeps.
type LimitError struct {
	// Size is the smallest piece that counts. Size 1 is the capacity of the pool.
	Size int
	// Units is the maximum number of units of such pieces that fit on the machines.
	Units int
	// Used is the number of units of such pieces that the jobs have. Of a piece that Size does not
	// divide, it counts the pieces of Size within it.
	Used int
}

// Error names the limit.
func (e *LimitError) Error() string {
	if e.Size == 1 {
		return fmt.Sprintf("no placement exists: the jobs have %d units; the machines have %d free units", e.Used, e.Units)
	}
	return fmt.Sprintf("no placement exists: pieces of at least %d units have %d units together; at most %d fit on the machines",
		e.Size, e.Used, e.Units)
}

// ErrNotNested means that Place found no placement, although one may exist, because the pieces
// do not form a chain in which each size divides the next.
var ErrNotNested = errors.New("no placement was found; one may exist, because the pieces do not divide each other")

// Limits returns the size limits for Snapshot.size_limits that the machines imply beyond the
// capacity of the pool, by ascending size. sizes are the piece sizes in use. A limit that follows
// from the capacity of the pool or from the limit of a smaller size is left out. In a snapshot
// with several node types, call Limits for the machines of each type and set node_type.
//
// Each piece of an allocation counts at its own size, the remainder too. A machine that is added,
// also one of a new size, makes no limit smaller, unless it makes a block the first that one of sizes
// fits: then pieces of this size are no longer cut.
//
// The error names every field of a node that is not valid, or sizes that do not form a chain.
func Limits(nodes []Node, sizes []int) ([]*elastallocv1.SizeLimit, error) {
	c, err := newCluster(nodes, sizes)
	if err != nil {
		return nil, err
	}
	sizes = distinct(sizes)
	if small, large := c.notNested(sizes); large > 0 {
		return nil, fmt.Errorf("sizes: %d does not divide %d; each size must divide the next one, and sizes above "+
			"the units of a machine must be multiples of them", small, large)
	}
	var limits []*elastallocv1.SizeLimit
	units := c.places(1)
	for _, size := range sizes {
		if c.cut(size) < size {
			break // Its pieces are those of a smaller size.
		}
		if held := c.places(size) * size; held < units {
			limits = append(limits, &elastallocv1.SizeLimit{Size: int32(size), Nodes: int32(held)})
			units = held
		}
	}
	return limits, nil
}

// Place puts jobs on machines. sizes are the piece sizes in use: a piece that fits no block
// is cut into pieces of the largest of sizes that fits a block.
//
// A job whose units do not change keeps its machines if that is possible, and few such jobs move
// otherwise. Each piece goes to the fullest machine, or block, that fits.
//
// If the pieces form a chain, Place fails if and only if no placement exists, with a *LimitError.
// Otherwise it may fail although a placement exists, with an error that wraps ErrNotNested.
func Place(nodes []Node, sizes []int, jobs []Job) (Placement, error) {
	c, err := newCluster(nodes, sizes)
	if err != nil {
		return Placement{}, err
	}
	p, err := newPlacer(c, jobs)
	if err != nil {
		return Placement{}, err
	}
	for _, size := range p.sizes {
		if need, places := p.need(size), p.places(size); need > places {
			return Placement{}, &LimitError{Size: size, Units: places * size, Used: need * size}
		}
	}
	p.keepUnchanged()
	on, failed := p.put(p.loose())
	for failed > 0 && p.makePlace(failed) { // Pieces that form a chain do not fail.
		on, failed = p.put(p.loose())
	}
	if failed > 0 {
		return Placement{}, fmt.Errorf("%w; a piece of %d units fits nowhere", ErrNotNested, failed)
	}
	return p.placement(on), nil
}
