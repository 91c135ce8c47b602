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
	// had answered, -1 for nothing, and Policy what the policy gives it.
	Before, Recorded, Answered, Policy int
	// Why is a sentence that says why the policy gives it that number.
	Why string
}

// MomentDifference is a recorded decision beside that of a policy.
type MomentDifference struct {
	Time       time.Time
	SnapshotID string
	// Jobs is the number of jobs, and Differences are those that differ.
	Jobs        int
	Differences []Difference
	// IdleRecorded and IdlePolicy are the nodes that each leaves idle; recorded, those that
	// no job held just after the snapshot.
	IdleRecorded, IdlePolicy int

	moment int
}

// Moved returns how many nodes the policy gives to other jobs.
func (m *MomentDifference) Moved() int {
	moved := 0
	for _, d := range m.Differences {
		moved += max(0, d.Policy-d.Recorded)
	}
	return moved
}

// Differences asks a policy about every snapshot that a decision was recorded for, as it
// was, and returns what it would have decided otherwise: one entry for each, apart from the
// last, after which nothing is known. done is called after each.
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
			Time: m.Time, SnapshotID: m.Snapshot.ID, Jobs: len(m.Snapshot.Jobs), moment: i,
			IdleRecorded: r.idleAfter(i), IdlePolicy: decision.Report.IdleNodes,
		}
		for n := range m.Snapshot.Jobs {
			job, a := &m.Snapshot.Jobs[n], &decision.Allocations[n]
			held := after[i][n]
			if held == a.Nodes {
				continue
			}
			answered, ok := m.Answer[job.ID]
			if !ok {
				answered = unanswered
			}
			d.Differences = append(d.Differences, Difference{
				JobID: job.ID, Before: job.CurrentNodes, Recorded: held, Answered: answered, Policy: a.Nodes, Why: why(job, a, held),
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
	return o.Paced(s.Horizon.Step)
}

// Explainer explains decisions, as *elastalloc.Allocator does.
type Explainer interface {
	Explain(ctx context.Context, s *solver.Snapshot, o solver.Options, jobIDs []string) (solver.Explanation, error)
}

// Explain has the decisions of a policy explained with their numbers, for at most the given
// number of jobs each, and replaces the plainer words of Differences with that.
func (r *Replay) Explain(ctx context.Context, p sim.Policy, explainer Explainer, moments []MomentDifference, jobs int) error {
	for i := range moments {
		m := &moments[i]
		s := r.Moments[m.moment].Snapshot
		differences := m.Differences[:min(jobs, len(m.Differences))]
		var ids []string
		for _, d := range differences {
			ids = append(ids, d.JobID)
		}
		explanation, err := explainer.Explain(ctx, s, optionsOf(&p, s), ids)
		if err != nil {
			return fmt.Errorf("snapshot %q of %v: %w", m.SnapshotID, m.Time, err)
		}
		for _, job := range explanation.Jobs {
			for n := range differences {
				if differences[n].JobID == job.JobID {
					differences[n].Why = job.Text
				}
			}
		}
	}
	return nil
}

// idleAfter returns how many nodes no job held at a moment, changes then included; it is not
// the last one.
func (r *Replay) idleAfter(moment int) int {
	m := &r.Moments[moment]
	idle, counted := m.Snapshot.TotalNodes, make(map[*track]bool)
	for _, t := range slices.Concat(r.seen[moment], r.seen[moment+1]) {
		if !counted[t] {
			counted[t] = true
			idle -= heldAfter(t.work.Recorded, m.At)
		}
	}
	return max(0, idle)
}

// heldAfter returns, by moment and job of its snapshot, what the job held then.
func (r *Replay) heldAfter() [][]int {
	all := make([][]int, len(r.Moments))
	for i, tracks := range r.seen {
		all[i] = make([]int, len(tracks))
		for n, t := range tracks {
			all[i][n] = heldAt(t.work.Recorded, r.Moments[i].At)
		}
	}
	return all
}

// heldAt returns the nodes at a time, changes at that very time included but for an end.
func heldAt(changes []sim.NodesAt, at time.Duration) int {
	if last := len(changes) - 1; last >= 0 && changes[last] == (sim.NodesAt{At: at}) {
		changes = changes[:last]
	}
	return heldAfter(changes, at)
}

// heldAfter returns the nodes from a time on, all changes at that very time included.
func heldAfter(changes []sim.NodesAt, at time.Duration) int {
	nodes := 0
	for _, change := range changes {
		if change.At > at {
			break
		}
		nodes = change.Nodes
	}
	return nodes
}

// why says in a sentence what speaks for an allocation instead of the given nodes.
func why(job *solver.Job, a *solver.Allocation, held int) string {
	switch {
	case a.Nodes == 0 && a.WaitReason == solver.WaitBehind:
		return "waits behind " + a.BehindJobID
	case a.Nodes == 0 && a.WaitReason == solver.WaitNotWorthIt:
		return fmt.Sprintf("its %d nodes bring more elsewhere", held)
	case a.Nodes == 0:
		return "waits: " + strings.ReplaceAll(string(a.WaitReason), "-", " ")
	case held == 0:
		return fmt.Sprintf("starts on %d: nodes are free for it", a.Nodes)
	case a.Nodes > held:
		return fmt.Sprintf("trains %s times as fast on %d as on %d nodes, more than others would gain by them",
			speedup(job, held, a.Nodes), a.Nodes, held)
	default:
		return fmt.Sprintf("its last %d nodes only make it %s times as fast; others gain more by them",
			held-a.Nodes, speedup(job, a.Nodes, held))
	}
}

// speedup writes by what factor more nodes are faster.
func speedup(job *solver.Job, from, to int) string {
	if slower := job.Speed(from); slower > 0 {
		return strconv.FormatFloat(job.Speed(to)/slower, 'f', 2, 64)
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
			answered := ""
			if d.Answered != unanswered {
				answered = strconv.Itoa(d.Answered)
			}
			_ = w.Write([]string{
				m.Time.UTC().Format(time.RFC3339), text.Cell(m.SnapshotID), text.Cell(d.JobID), strconv.Itoa(d.Before), strconv.Itoa(d.Recorded),
				answered, strconv.Itoa(d.Policy), text.Cell(d.Why),
			})
		}
	}
	w.Flush()
	return b.Bytes()
}

// Largest returns the moments at which the most nodes move, at most the given number, the
// largest first.
func Largest(moments []MomentDifference, most int) []MomentDifference {
	sorted := slices.Clone(moments)
	slices.SortStableFunc(sorted, func(a, b MomentDifference) int { return b.Moved() - a.Moved() })
	sorted = slices.DeleteFunc(sorted, func(m MomentDifference) bool { return m.Moved() == 0 })
	return sorted[:min(most, len(sorted))]
}
