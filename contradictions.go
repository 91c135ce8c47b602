package elastalloc

import (
	"cmp"
	"context"
	"sync"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
)

// noting is a chain that remembers the first contradiction of its proofs, for answers that
// many decisions and searches go into.
type noting struct {
	*chain.Chain
	mu            sync.Mutex
	contradiction string
}

// Allocate decides.
func (n *noting) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	decision, err := n.Chain.Allocate(ctx, s, o)
	n.note(decision.Report.Contradiction)
	return decision, err
}

// Solve searches.
func (n *noting) Solve(ctx context.Context, p *solver.Problem, options solver.SolveOptions) (solver.Result, error) {
	result, err := n.Chain.Solve(ctx, p, options)
	n.note(result.Contradiction)
	return result, err
}

func (n *noting) note(contradiction string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.contradiction = cmp.Or(n.contradiction, contradiction)
}
