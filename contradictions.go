package elastalloc

import (
	"cmp"
	"context"
	"sync"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// recordingChain is a chain that records the first contradiction of its proofs, for calls that make many
// decisions and searches.
type recordingChain struct {
	*chain.Chain
	mu            sync.Mutex
	contradiction string
}

// Allocate decides a snapshot.
func (n *recordingChain) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	decision, err := n.Chain.Allocate(ctx, s, o)
	n.note(decision.Report.Contradiction)
	return decision, err
}

// Solve solves a problem.
func (n *recordingChain) Solve(ctx context.Context, p *problem.Problem, options problem.SolveOptions) (problem.Result, error) {
	result, err := n.Chain.Solve(ctx, p, options)
	n.note(result.Contradiction)
	return result, err
}

func (n *recordingChain) note(contradiction string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.contradiction = cmp.Or(n.contradiction, contradiction)
}
