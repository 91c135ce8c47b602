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
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// Difference is a job to which a policy, asked about a recorded snapshot, gives other nodes
// than it then held.
type Difference struct {
	JobID string
	// Before is what the job held, Recorded what it held then, Answered what the server
	// had answered, if it had, Policy what the policy gives it, and Why a sentence.
	Before, Recorded, Answered, Policy Held
	Why                                string
}

// MomentDifference is a recorded decision beside that of a policy.
type MomentDifference struct {
	Time        time.Time
	SnapshotID  string
	Jobs        int // of the snapshot
	Differences []Difference
	// IdleRecorded are the nodes that no job held just after the snapshot.
	IdleRecorded, IdlePolicy int
}

// Moved returns how many nodes the policy gives to other jobs.
func (m *MomentDifference) Moved() int {
	moved := 0
	for _, d := range m.Differences {
		if moved += d.Policy.Nodes; d.Policy.NodeType == d.Recorded.NodeType {
			moved -= min(d.Policy.Nodes, d.Recorded.Nodes)
		}
	}
	return moved
}

// Differences asks a policy about every snapshot that a decision was recorded for, apart from
// the last, after which nothing is known, and returns what it would have decided otherwise.
// done, which may be nil, is called after each.
func (r *Replay) Differences(ctx context.Context, p sim.Policy, allocator sim.Allocator, done func(done, all int)) ([]MomentDifference, error) {
	var list []MomentDifference
	after := r.heldAfter()
	for i := range r.Moments[:len(r.Moments)-1] {
		m := &r.Moments[i]
		if !m.Decision {
			continue
		}
		decision, err := allocator.Allocate(ctx, m.Snapshot, optionsOf(&p, m.Snapshot))
		if err != nil {
			return nil, fmt.Errorf("snapshot %q of %v: %w", m.Snapshot.ID, m.Time, err)
		}
		d := MomentDifference{
			Time: m.Time, SnapshotID: m.Snapshot.ID, Jobs: len(m.Snapshot.Jobs),
			IdleRecorded: r.idleAfter(i), IdlePolicy: decision.Report.IdleNodes,
		}
		for n := range m.Snapshot.Jobs {
			job, a := &m.Snapshot.Jobs[n], &decision.Allocations[n]
			held, gets := after[i][n], m.held(a.Nodes, a.NodeType)
			if held == gets {
				continue
			}
			answered, ok := m.Answer[job.ID]
			if !ok {
				answered.Nodes = unanswered
			}
			d.Differences = append(d.Differences, Difference{
				JobID: job.ID, Before: m.held(job.CurrentNodes, job.CurrentNodeType), Recorded: held, Answered: answered, Policy: gets,
				Why: m.why(n, a, held, gets),
			})
		}
		list = append(list, d)
		if done != nil {
			done(i+1, len(r.Moments)-1)
		}
	}
	return list, nil
}

// optionsOf returns what a policy is asked with about a recorded snapshot.
func optionsOf(p *sim.Policy, s *solver.Snapshot) solver.Options {
	o := p.Options
	o.TimeBudget = sim.DefaultDecisionBudget
	if p.EveryEvent {
		return o
	}
	return o.WithCadence(s.Horizon.Step)
}

// idleAfter returns how many nodes no job held at a moment but the last, changes then included.
func (r *Replay) idleAfter(moment int) int {
	m := &r.Moments[moment]
	idle, counted := m.Snapshot.TotalNodes, make(map[*track]bool)
	for _, t := range slices.Concat(r.seen[moment], r.seen[moment+1]) {
		if !counted[t] {
			counted[t] = true
			idle -= heldAfter(t.work.Recorded, m.At).Nodes
		}
	}
	return max(0, idle)
}

// heldAfter returns, by moment and job of its snapshot, what the job held then.
func (r *Replay) heldAfter() [][]Held {
	all := make([][]Held, len(r.Moments))
	for i, tracks := range r.seen {
		all[i] = make([]Held, len(tracks))
		for n, t := range tracks {
			all[i][n] = heldAt(t.work.Recorded, r.Moments[i].At)
		}
	}
	return all
}

// heldAt returns the nodes at a time, changes at that very time included but for an end.
func heldAt(changes []sim.NodesAt, at time.Duration) Held {
	if last := len(changes) - 1; last >= 0 && changes[last] == (sim.NodesAt{At: at}) {
		changes = changes[:last]
	}
	return heldAfter(changes, at)
}

// heldAfter returns the nodes from a time on, all changes at that very time included.
func heldAfter(changes []sim.NodesAt, at time.Duration) (held Held) {
	for _, change := range changes {
		if change.At > at {
			break
		}
		held = Held{change.Nodes, change.NodeType}
	}
	return held
}

// why says in a sentence what speaks for the allocation of job n instead of what it held.
func (m *Moment) why(n int, a *solver.Allocation, held, gets Held) string {
	switch {
	case a.Nodes == 0 && a.WaitReason == solver.WaitBehind:
		return "waits behind " + a.BehindJobID
	case a.Nodes == 0 && a.WaitReason == solver.WaitNotWorthIt:
		return fmt.Sprintf("its %s bring more elsewhere", held.ofNodes())
	case a.Nodes == 0:
		return "waits: " + strings.ReplaceAll(string(a.WaitReason), "-", " ")
	case held.Nodes == 0:
		return fmt.Sprintf("starts on %s: nodes are free for it", gets)
	case gets.NodeType != held.NodeType:
		return fmt.Sprintf("trains %s times as fast on %s as on %s, which bring more elsewhere", m.speedup(n, held, gets), gets, held)
	case a.Nodes > held.Nodes:
		return fmt.Sprintf("trains %s times as fast on %d as on %s, more than others would gain by them",
			m.speedup(n, held, gets), a.Nodes, held.ofNodes())
	default:
		return fmt.Sprintf("its last %s only make it %s times as fast; others gain more by them",
			Held{held.Nodes - a.Nodes, held.NodeType}.ofNodes(), m.speedup(n, gets, held))
	}
}

func (h Held) ofNodes() string {
	if h.NodeType == "" {
		return fmt.Sprint(h.Nodes, " nodes")
	}
	return h.String()
}

// speedup writes by what factor job n is faster on other nodes.
func (m *Moment) speedup(n int, from, to Held) string {
	speed := func(h Held) float64 { return m.Snapshot.Speed(n, m.Snapshot.Option(h.NodeType, h.Nodes)) }
	if slower := speed(from); slower > 0 {
		return strconv.FormatFloat(speed(to)/slower, 'f', 2, 64)
	}
	return "many"
}

// DecisionsCSV returns the content of decisions.csv: a line for every difference.
func DecisionsCSV(policy string, moments []MomentDifference) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	// Writing to memory does not fail.
	_ = w.Write([]string{"time", "snapshot_id", "job_id", "nodes_before", "recorded", "answered", policy, "why"})
	for i := range moments {
		m := &moments[i]
		for _, d := range m.Differences {
			_ = w.Write([]string{
				m.Time.UTC().Format(time.RFC3339), text.Cell(m.SnapshotID), text.Cell(d.JobID), d.Before.String(), d.Recorded.String(),
				d.Answered.String(), d.Policy.String(), text.Cell(d.Why),
			})
		}
	}
	w.Flush()
	return b.Bytes()
}

// Largest returns the moments at which the most nodes move, at most the given number, the
// largest first.
func Largest(moments []MomentDifference, most int) []MomentDifference {
	sorted := slices.DeleteFunc(slices.Clone(moments), func(m MomentDifference) bool { return m.Moved() == 0 })
	slices.SortStableFunc(sorted, func(a, b MomentDifference) int { return b.Moved() - a.Moved() })
	return sorted[:min(most, len(sorted))]
}
