// Package placement decides on which machines jobs run, for schedulers that place pods or
// processes themselves. It is pure: it needs no server and keeps no state.
//
// elastalloc decides how many units each job gets. A unit is a machine or, for example, one of
// its GPUs. A piece is the part of an allocation that must lie together: a piece smaller than a
// machine lies on one machine, and a larger piece consists of whole machines of one block, such
// as a rack or an NVLink domain. A decision by counts alone can be impossible to place. Two
// blocks of 18 machines have room for 36, but not for jobs of 16, 16 and 4 machines. Limits
// returns the few size limits that exclude such decisions, Place puts a decision that keeps them on
// machines, and Steps returns the order in which this is carried out.
//
// # Theorem
//
// Let the piece sizes form a chain, in which each size divides the next, such as 1, 2, 4, 8.
// Machines have g units. If pieces larger than g exist, g is in the chain. For a size s, let
// cap(s) be s times the number of pieces of s that fit in the free units:
//
//   - For s up to g, floor(f / s) on each machine that has f free units.
//   - For larger s, floor(w / (s/g)) in each block that has w whole free machines.
//
// All jobs can be placed if and only if, for every size s of the chain, the pieces of at least s
// have together at most cap(s) units. Placing the largest piece first, anywhere it fits, always
// succeeds.
//
// Necessity: a piece of at least s consists of pieces of s, and at most cap(s)/s of these fit.
// Sufficiency: everything placed so far is a multiple of the size s that is placed next.
// Wherever it was put, it took exactly its own share of the places for pieces of s. The condition
// keeps at least one place free while a piece of s is left.
//
// Machines may have several sizes. A piece then lies on one machine, or on whole machines of one size
// in one block, and cap(s) is summed over the sizes of machines. Both directions apply to each size
// of machines alone, because g is in the chain if pieces larger than g lie on machines of g units.
//
// Three consequences shape this package. A limit is implied by the limit of the next smaller size
// if both have the same cap, so few remain. Kept jobs only reduce the free units, so the theorem
// decides whether the other jobs fit without a move. Where a piece goes never matters for
// feasibility, so pieces go to the fullest machine that fits, and only the choice of jobs that
// move is a search.
package placement
