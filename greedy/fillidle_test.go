package greedy

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
)

func TestFillIdle(t *testing.T) {
	const hour = time.Hour
	tests := []struct {
		name  string
		nodes int
		jobs  []solver.Job
		want  []int
	}{
		{
			// "job 1 finishes training at 9:02:09 and releases 8 nodes. Job 2 joins
			// queue since 9:01:02, so 1 second later the system allocates the 8 nodes
			// to it." Job 1 is gone from the snapshot of 9:02:10.
			name: "example of the paper", nodes: 24,
			jobs: []solver.Job{running(16, hour), queued()},
			want: []int{16, 8},
		},
		{
			name: "the queue in order, each job as many nodes as it can use", nodes: 23,
			jobs: []solver.Job{queued(), running(2, hour), queued(), queued(), queued()},
			want: []int{16, 2, 4, 1, 0},
		},
		{
			name: "a job that does not fit blocks the queue", nodes: 6,
			jobs: []solver.Job{running(4, hour), sized(queued(), 4), queued()},
			want: []int{4, 0, 0},
		},
		{
			name: "the largest size of the job", nodes: 16,
			jobs: []solver.Job{sized(queued(), 1, 2, 3), queued()},
			want: []int{3, 8},
		},
		{
			name: "running jobs do not scale up", nodes: 16,
			jobs: []solver.Job{running(2, hour)},
			want: []int{2},
		},
		{
			name: "running jobs keep illegal sizes", nodes: 16,
			jobs: []solver.Job{running(7, hour), sized(running(1, hour), 4), queued()},
			want: []int{7, 1, 8},
		},
		{
			name: "shrunken pool: running jobs that fit keep their nodes and no job starts", nodes: 9,
			jobs: []solver.Job{running(4, hour), queued(), running(2, hour), running(4, hour), running(1, hour)},
			want: []int{4, 0, 2, 0, 1},
		},
		{name: "no jobs", nodes: 4, want: []int{}},
		{name: "zero nodes", jobs: []solver.Job{running(4, hour), queued()}, want: []int{0, 0}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(solver.Nodes(test.want...), FillIdle(snapshotOf(test.nodes, test.jobs...))); diff != "" {
				t.Errorf("FillIdle() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFillIdleProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := snapshots().Draw(t, "snapshot")
		options := FillIdle(s)
		used, current, waits := 0, 0, false
		keeps, kept := make([]int, len(s.Jobs)), 0 // nodes that each running job keeps, and their sum
		for _, exhausted := range []bool{true, false} {
			for i := range s.Jobs {
				if nodes := s.Jobs[i].CurrentNodes; s.UsedRestartBudget(i) == exhausted && kept+nodes <= s.TotalNodes {
					keeps[i], kept = nodes, kept+nodes
				}
			}
		}
		for i := range s.Jobs {
			job := &s.Jobs[i]
			nodes := int(options[i].Nodes)
			used += nodes
			current += job.CurrentNodes
			switch {
			case !job.Queued():
				if nodes != keeps[i] {
					t.Fatalf("running job %d is resized from %d to %d nodes; must have %d", i, job.CurrentNodes, nodes, keeps[i])
				}
			case nodes == 0:
				// A job that never fits does not block the queue.
				waits = waits || job.LegalSizes()[0] <= s.TotalNodes
			case waits:
				t.Fatalf("job %d starts although a job before it in the queue waits: %v", i, options)
			case !slices.Contains(job.LegalSizes(), nodes):
				t.Fatalf("job %d starts with the illegal size %d", i, nodes)
			}
		}
		if used > s.TotalNodes {
			t.Fatalf("uses %d of %d nodes", used, s.TotalNodes)
		}
		// After the decision is applied, no more nodes can be filled, unless jobs lost nodes.
		if current > s.TotalNodes {
			return
		}
		for i := range s.Jobs {
			s.Jobs[i].CurrentNodes = int(options[i].Nodes)
		}
		if diff := cmp.Diff(options, FillIdle(s)); diff != "" {
			t.Fatalf("second decision (-first +second):\n%s", diff)
		}
	})
}
