package elastalloc_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// TestRestartsWithinBudget checks the lemma of docs/proofs/sequences.md on restart budgets. It visits all states that one
// job can reach, whatever the decisions are, and compares the largest number of restarts
// within 12 restart times of its time with nodes with the bound: B + S - 1 for S legal sizes, and S more for each
// pause of the job against its budget.
func TestRestartsWithinBudget(t *testing.T) {
	t.Parallel()
	for sizes := 1; sizes <= 4; sizes++ {
		for forced := range 3 {
			most := solver.MaxRecentRestarts + sizes - 1 + forced*sizes
			if got := mostRestarts(sizes, forced); got != most {
				t.Errorf("%d legal sizes, %d forced pauses: at most %d restarts; want %d", sizes, forced, got, most)
			}
		}
	}
}

// budgetState is the state of a running job. Ages are times with nodes, in ticks.
type budgetState struct {
	size     int
	restarts []int // ages of the restarts within the last window, newest first
	forced   int   // forced pauses that are left
}

// The window of a budget has windowTicks ticks of tick each.
const (
	windowTicks   = 4
	budgetRestart = time.Minute
	tick          = 12 * budgetRestart / windowTicks
)

// mostRestarts returns the largest number of restarts within one window over all states that a job with the sizes 1
// to sizes can reach if it is paused against its budget up to forced times.
func mostRestarts(sizes, forced int) (most int) {
	visited := make(map[string]bool)
	var visit func(s budgetState)
	visit = func(s budgetState) {
		if id := fmt.Sprint(s); visited[id] {
			return
		} else if visited[id] = true; len(s.restarts) > most {
			most = len(s.restarts)
		}
		older := budgetState{size: s.size, forced: s.forced}
		for _, age := range s.restarts {
			if age+1 < windowTicks {
				older.restarts = append(older.restarts, age+1)
			}
		}
		visit(older)
		restarted := slices.Concat([]int{0}, s.restarts)
		for size := 1; size <= sizes; size++ {
			switch used := s.usedBudget(sizes); {
			case !used || size < s.size: // a resize, or a pause and a resume
				visit(budgetState{size, restarted, s.forced})
			case s.forced > 0:
				visit(budgetState{size, restarted, s.forced - 1})
			}
		}
	}
	visit(budgetState{size: 1, forced: forced})
	return most
}

// usedBudget reports whether the job has used its restart budget in a snapshot.
func (s budgetState) usedBudget(sizes int) bool {
	job := solver.Job{ID: "a", RemainingETA: time.Hour, CurrentNodes: s.size, RestartTime: budgetRestart}
	for size := 1; size <= sizes; size++ {
		job.AllowedNodes = append(job.AllowedNodes, size)
	}
	for _, age := range s.restarts[:min(len(s.restarts), solver.MaxRecentRestarts)] {
		job.RecentRestarts = append(job.RecentRestarts, time.Duration(age)*tick)
	}
	return (&solver.Snapshot{TotalNodes: sizes, Jobs: []solver.Job{job}}).WithDefaults().UsedRestartBudget(0)
}
