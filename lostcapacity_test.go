package elastalloc_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
)

// remaining contains the free nodes of a pool, its node types and the limits of its groups after the
// running jobs considered so far.
type remaining struct {
	snapshot *solver.Snapshot
	nodes    []int          // by node type, or of the pool
	limits   map[string]int // of the groups that have one
}

func newRemaining(s *solver.Snapshot) *remaining {
	r := &remaining{snapshot: s, nodes: []int{s.TotalNodes}, limits: map[string]int{}}
	if len(s.NodeTypes) > 0 {
		r.nodes = nil
	}
	for _, t := range s.NodeTypes {
		r.nodes = append(r.nodes, t.Nodes)
	}
	for _, g := range s.Groups {
		if g.Limit != nil {
			r.limits[g.ID] = *g.Limit
		}
	}
	return r
}

// groupsOf returns the group of a job and its ancestors.
func (r *remaining) groupsOf(job *solver.Job) []string {
	var ids []string
	for id := job.GroupID; id != ""; {
		ids = append(ids, id)
		at := slices.IndexFunc(r.snapshot.Groups, func(g solver.Group) bool { return g.ID == id })
		id = r.snapshot.Groups[at].ParentID
	}
	return ids
}

// withinLimits reports whether the limits of the groups of a job leave room for nodes.
func (r *remaining) withinLimits(job *solver.Job, nodes int) bool {
	return !slices.ContainsFunc(r.groupsOf(job), func(id string) bool {
		left, limited := r.limits[id]
		return limited && left < nodes
	})
}

// currentType returns the position of the node type that a job occupies.
func (r *remaining) currentType(job *solver.Job) int {
	return max(0, slices.IndexFunc(r.snapshot.NodeTypes, func(t solver.NodeType) bool { return t.ID == job.CurrentNodeType }))
}

// smallest returns the smallest size of a job on a node type, or 0 if the job cannot run on it.
func (r *remaining) smallest(job *solver.Job, nodeType int) int {
	there, runs := *job, true
	if len(r.snapshot.NodeTypes) > 0 {
		there, _, runs = job.ForType(&r.snapshot.NodeTypes[nodeType])
	}
	if sizes := there.LegalSizes(); runs && len(sizes) > 0 {
		return sizes[0]
	}
	return 0
}

// place returns the node type for the smallest size of a job: its current type if it has room,
// otherwise the type with the most free nodes. It returns -1 if no type has room.
func (r *remaining) place(job *solver.Job) int {
	best := -1
	for t, left := range r.nodes {
		switch size := r.smallest(job, t); {
		case size == 0 || size > left:
		case t == r.currentType(job):
			return t
		case best < 0 || left > r.nodes[best]:
			best = t
		}
	}
	return best
}

// take takes nodes of a type for a job.
func (r *remaining) take(job *solver.Job, nodeType, nodes int) {
	r.nodes[nodeType] -= nodes
	for _, id := range r.groupsOf(job) {
		if _, limited := r.limits[id]; limited {
			r.limits[id] -= nodes
		}
	}
}

// keepRule defines which nodes the running jobs need.
type keepRule struct {
	loading bool // whether only loading jobs are considered
	exactly bool // whether a job needs its current number of nodes, or its smallest size
	moves   bool // whether it can use any node type, or only its current type
}

// keep considers the running jobs in order and reports which of them have room for the nodes that they
// need. lost reports whether a job has no room that would have room in the empty pool.
func (r *remaining) keep(rule keepRule) (kept []bool, lost bool) {
	kept = make([]bool, len(r.snapshot.Jobs))
	for i := range r.snapshot.Jobs {
		job := &r.snapshot.Jobs[i]
		if job.CurrentNodes == 0 || rule.loading && job.TrainingTime > 0 {
			continue
		}
		on := r.currentType(job)
		if rule.moves {
			on = r.place(job)
		}
		nodes := job.CurrentNodes
		if !rule.exactly && on >= 0 {
			nodes = r.smallest(job, on)
		}
		switch {
		case on >= 0 && nodes == 0: // The job cannot run on its current nodes.
		case on >= 0 && nodes <= r.nodes[on] && r.withinLimits(job, nodes):
			kept[i] = true
			r.take(job, on, nodes)
		case rule.exactly:
			lost = lost || nodes > r.nodes[on]
		default:
			empty := newRemaining(r.snapshot)
			at := empty.place(job)
			lost = lost || on < 0 && at >= 0 && r.withinLimits(job, r.smallest(job, at))
		}
	}
	return kept, lost
}

// loseCapacity returns the snapshot with a pool, node types or group limits that have at most as
// many nodes as the running jobs need.
func loseCapacity(t *rapid.T, s *solver.Snapshot) *solver.Snapshot {
	r, shrunk := newRemaining(s), *s
	needs, needsOf := make([]int, len(r.nodes)), map[string]int{}
	for i := range s.Jobs {
		if job := &s.Jobs[i]; job.CurrentNodes > 0 {
			on := r.currentType(job)
			needs[on] += r.smallest(job, on)
			for _, id := range r.groupsOf(job) {
				needsOf[id] += r.smallest(job, on)
			}
		}
	}
	lose := func(nodes, need int) int {
		return rapid.OneOf(rapid.Just(nodes), rapid.IntRange(0, min(nodes, need))).Draw(t, "remaining nodes")
	}
	shrunk.Jobs = slices.Clone(s.Jobs)
	for i := range shrunk.Jobs {
		shrunk.Jobs[i].RecentRestarts = nil // A used restart budget takes precedence.
	}
	shrunk.TotalNodes, shrunk.NodeTypes, shrunk.Groups = 0, slices.Clone(s.NodeTypes), slices.Clone(s.Groups)
	for g := range shrunk.NodeTypes {
		shrunk.NodeTypes[g].Nodes = lose(s.NodeTypes[g].Nodes, needs[g])
		shrunk.TotalNodes += shrunk.NodeTypes[g].Nodes
	}
	if len(s.NodeTypes) == 0 {
		shrunk.TotalNodes = lose(s.TotalNodes, needs[0])
	}
	for g := range shrunk.Groups {
		if limit := s.Groups[g].Limit; limit != nil {
			shrunk.Groups[g].Limit = new(lose(*limit, needsOf[s.Groups[g].ID]))
		}
	}
	return &shrunk
}

// TestLostCapacity checks random snapshots, in many of which a pool or a group has fewer nodes than its
// jobs occupy. Every running job that fits together with the jobs before it keeps nodes. Under
// ADMISSION_START_FIRST this applies to every loading job. No queued job starts before a job that lost
// its nodes.
func TestLostCapacity(t *testing.T) {
	t.Parallel()
	allocator := newAllocator(t, elastalloc.Options{}).Allocator // not audited, because the audit would fail first
	limits := solvertest.Limits{Jobs: 8, Steps: 2, Sizes: 4, Nodes: 24}
	generators := map[string]*rapid.Generator[*solver.Snapshot]{
		"pool": solvertest.SnapshotsWithin(limits), "groups": solvertest.GroupedSnapshots(limits),
		"node types": solvertest.TypedSnapshots(limits),
	}
	for name, snapshots := range generators {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				s := loseCapacity(rt, snapshots.Draw(rt, "snapshot").WithDefaults())
				o := solver.Options{
					Objective: solver.ObjectiveTotalTime,
					Backend:   rapid.SampledFrom([]solver.BackendName{solver.BackendExact, solver.BackendGreedy}).Draw(rt, "backend"),
					Admission: rapid.SampledFrom(solver.Admissions()).Draw(rt, "admission"),
				}
				rule := keepRule{moves: true}
				blocks := o.Admission == solver.AdmissionFIFO // A job that lost its nodes blocks the queue.
				switch o.Admission {
				case solver.AdmissionPreemptive: // The optimizer may pause any job.
					o.Backend, rule.moves, blocks = solver.BackendGreedy, false, true
				case solver.AdmissionStartFirst:
					rule.loading = true
				}
				d, err := allocator.Allocate(t.Context(), s, o)
				if rapid.IntRange(0, 3).Draw(rt, "decision") == 3 {
					d, err = allocator.FillIdle(t.Context(), s)
					rule, blocks = keepRule{exactly: true}, true
				}
				if err != nil {
					rt.Fatal(err)
				}
				kept, lost := newRemaining(s).keep(rule)
				for i, a := range d.Allocations {
					if kept[i] && a.Nodes == 0 {
						rt.Fatalf("job %s loses its %d nodes", a.JobID, a.Current)
					}
					if lost && blocks && a.Current == 0 && a.Nodes > 0 {
						rt.Fatalf("job %s gets %d nodes before a job that lost its nodes", a.JobID, a.Nodes)
					}
				}
			})
		})
	}
}
