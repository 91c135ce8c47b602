package replay

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/internal/text"
	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// Difference is a job whose allocation in the decision of a policy differs from its recorded allocation
// after the snapshot.
type Difference struct {
	JobID string
	// Before is the allocation in the snapshot, Recorded the allocation after it, Assigned the
	// allocation in the recorded response, if any, and Policy the allocation in the decision of the
	// policy. Why explains the difference.
	Before, Recorded, Assigned, Policy Allocation
	Why                                string
}

// CallDifference compares a recorded decision with the decision of a policy.
type CallDifference struct {
	Time        time.Time
	SnapshotID  string
	Jobs        int // of the snapshot
	Differences []Difference
	// IdleRecorded is the number of idle nodes after the snapshot, and IdlePolicy the number of idle
	// nodes in the decision of the policy.
	IdleRecorded, IdlePolicy int
}

// Moved returns the number of nodes that the policy assigns to other jobs.
func (m *CallDifference) Moved() int {
	moved := 0
	for _, d := range m.Differences {
		if moved += d.Policy.Nodes; d.Policy.NodeType == d.Recorded.NodeType {
			moved -= min(d.Policy.Nodes, d.Recorded.Nodes)
		}
	}
	return moved
}

// Differences makes a decision of a policy for every recorded Allocate call except the last, and returns
// the differences. The last call is omitted because later allocations are not known. Differences calls
// done, which may be nil, after each decision.
func (r *Replay) Differences(
	ctx context.Context, p catalog.Policy, allocator sim.Allocator, done func(done, all int),
) ([]CallDifference, error) {
	var list []CallDifference
	after := r.allocationAfter()
	for i := range r.Calls[:len(r.Calls)-1] {
		m := &r.Calls[i]
		if !m.Decision {
			continue
		}
		decision, err := allocator.Allocate(ctx, m.Snapshot, optionsOf(&p, m.Snapshot))
		if err != nil {
			return nil, fmt.Errorf("snapshot %q of %v: %w", m.Snapshot.ID, m.Time, err)
		}
		d := CallDifference{
			Time: m.Time, SnapshotID: m.Snapshot.ID, Jobs: len(m.Snapshot.Jobs),
			IdleRecorded: r.idleAfter(i), IdlePolicy: decision.Report.IdleNodes,
		}
		for n := range m.Snapshot.Jobs {
			job, a := &m.Snapshot.Jobs[n], &decision.Allocations[n]
			allocation, gets := after[i][n], m.allocation(a.Nodes, a.NodeType)
			if allocation == gets {
				continue
			}
			assigned, ok := m.Response[job.ID]
			if !ok {
				assigned.Nodes = noResponse
			}
			d.Differences = append(d.Differences, Difference{
				JobID: job.ID, Before: m.allocation(job.CurrentNodes, job.CurrentNodeType), Recorded: allocation, Assigned: assigned, Policy: gets,
				Why: m.why(n, a, allocation, gets),
			})
		}
		list = append(list, d)
		if done != nil {
			done(i+1, len(r.Calls)-1)
		}
	}
	return list, nil
}

// optionsOf returns the options of a policy for a recorded snapshot.
func optionsOf(p *catalog.Policy, s *solver.Snapshot) solver.Options {
	o := p.Options
	o.TimeBudget = sim.DefaultDecisionBudget
	if p.EveryEvent {
		return o
	}
	return o.WithCadence(s.Horizon.Step)
}

// idleAfter returns the number of idle nodes after a call that is not the last.
func (r *Replay) idleAfter(call int) int {
	m := &r.Calls[call]
	idle, counted := m.Snapshot.TotalNodes, make(map[*track]bool)
	for _, t := range slices.Concat(r.seen[call], r.seen[call+1]) {
		if !counted[t] {
			counted[t] = true
			idle -= allocationAfter(t.work.Recorded, m.At).Nodes
		}
	}
	return max(0, idle)
}

// allocationAfter returns the allocations of the jobs of each call after it.
func (r *Replay) allocationAfter() [][]Allocation {
	all := make([][]Allocation, len(r.Calls))
	for i, tracks := range r.seen {
		all[i] = make([]Allocation, len(tracks))
		for n, t := range tracks {
			all[i][n] = allocationAt(t.work.Recorded, r.Calls[i].At)
		}
	}
	return all
}

// allocationAt returns the allocation at a time, including changes at this time except the completion.
func allocationAt(changes []sim.NodesAt, at time.Duration) Allocation {
	if last := len(changes) - 1; last >= 0 && changes[last] == (sim.NodesAt{At: at}) {
		changes = changes[:last]
	}
	return allocationAfter(changes, at)
}

// allocationAfter returns the allocation from a time on, including changes at this time.
func allocationAfter(changes []sim.NodesAt, at time.Duration) (allocation Allocation) {
	for _, change := range changes {
		if change.At > at {
			break
		}
		allocation = Allocation{change.Nodes, change.NodeType}
	}
	return allocation
}

// why explains the allocation of job n in comparison with its recorded allocation.
func (m *Call) why(n int, a *solver.Allocation, allocation, gets Allocation) string {
	switch {
	case a.Nodes == 0 && a.WaitReason == solver.WaitBehind:
		return "waits behind " + a.BehindJobID
	case a.Nodes == 0 && a.WaitReason == solver.WaitNotWorthIt:
		return fmt.Sprintf("other jobs benefit more from its %s", allocation.ofNodes())
	case a.Nodes == 0:
		return "waits: " + strings.ReplaceAll(string(a.WaitReason), "-", " ")
	case allocation.Nodes == 0:
		return fmt.Sprintf("starts on %s, which are idle", gets)
	case gets.NodeType != allocation.NodeType:
		return fmt.Sprintf("trains %s times as fast on %s as on %s, from which other jobs benefit more",
			m.speedup(n, allocation, gets), gets, allocation)
	case a.Nodes > allocation.Nodes:
		return fmt.Sprintf("trains %s times as fast on %d as on %s, more than other jobs would benefit",
			m.speedup(n, allocation, gets), a.Nodes, allocation.ofNodes())
	default:
		return fmt.Sprintf("its last %s make it only %s times as fast; other jobs benefit more from them",
			Allocation{allocation.Nodes - a.Nodes, allocation.NodeType}.ofNodes(), m.speedup(n, gets, allocation))
	}
}

func (h Allocation) ofNodes() string {
	if h.NodeType == "" {
		return fmt.Sprint(h.Nodes, " nodes")
	}
	return h.String()
}

// speedup formats the ratio of the speeds of job n on two allocations.
func (m *Call) speedup(n int, from, to Allocation) string {
	speed := func(h Allocation) float64 { return m.Snapshot.Speed(n, m.Snapshot.Option(h.NodeType, h.Nodes)) }
	if slower := speed(from); slower > 0 {
		return strconv.FormatFloat(speed(to)/slower, 'f', 2, 64)
	}
	return "many"
}

// DecisionsCSV returns the content of decisions.csv: a line for every difference.
func DecisionsCSV(policy string, calls []CallDifference) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	// Writing to memory does not fail.
	_ = w.Write([]string{"time", "snapshot_id", "job_id", "nodes_before", "recorded", "answered", policy, "why"})
	for i := range calls {
		m := &calls[i]
		for _, d := range m.Differences {
			_ = w.Write([]string{
				m.Time.UTC().Format(time.RFC3339), text.Cell(m.SnapshotID), text.Cell(d.JobID), d.Before.String(), d.Recorded.String(),
				d.Assigned.String(), d.Policy.String(), text.Cell(d.Why),
			})
		}
	}
	w.Flush()
	return b.Bytes()
}

// Largest returns the calls with the most moved nodes, at most limit, in descending order.
func Largest(calls []CallDifference, limit int) []CallDifference {
	sorted := slices.DeleteFunc(slices.Clone(calls), func(m CallDifference) bool { return m.Moved() == 0 })
	slices.SortStableFunc(sorted, func(a, b CallDifference) int { return b.Moved() - a.Moved() })
	return sorted[:min(limit, len(sorted))]
}
