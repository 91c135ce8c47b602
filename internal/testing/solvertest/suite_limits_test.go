package solvertest

import (
	"strconv"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// sizeLimits solves pools with size limits at the limits, under every admission.
func (r *runner) sizeLimits(t *testing.T) {
	limit := func(size, nodes int) solver.SizeLimit { return solver.SizeLimit{Size: size, Nodes: nodes} }
	sized := func(sizes ...int) solver.Job {
		job := solver.NewJob("", time.Hour)
		job.AllowedNodes = sizes
		return job
	}
	running := func(nodes, piece int, sizes ...int) solver.Job {
		job := sized(sizes...)
		job.CurrentNodes, job.TrainingTime, job.RestartTime, job.PieceNodes = nodes, time.Hour, time.Minute, piece
		return job
	}
	tests := []struct {
		name   string
		nodes  int
		limits []solver.SizeLimit
		jobs   []solver.Job
	}{
		{"no jobs", 8, []solver.SizeLimit{limit(2, 4)}, nil},
		{"no nodes", 0, []solver.SizeLimit{limit(2, 0)}, []solver.Job{sized(1, 2), running(2, 0, 1, 2)}},
		{"two blocks of 18", 36, []solver.SizeLimit{limit(4, 32)}, []solver.Job{sized(16), sized(16), sized(4), sized(2)}},
		{"two machines of 8", 16, []solver.SizeLimit{limit(3, 12)}, []solver.Job{sized(3), sized(3), sized(3), sized(3), sized(3)}},
		{"a limit without nodes", 16, []solver.SizeLimit{limit(2, 0)}, []solver.Job{sized(1, 2), sized(2), sized(1)}},
		{"a limit above the pool", 4, []solver.SizeLimit{limit(2, 9)}, []solver.Job{sized(1, 2, 4), sized(1, 2, 4)}},
		{"sizes above the limits", 16, []solver.SizeLimit{limit(4, 3), limit(8, 16)}, []solver.Job{sized(1, 2, 4, 8), sized(8)}},
		{"pieces below the sizes", 16, []solver.SizeLimit{limit(4, 4)}, []solver.Job{running(8, 2, 4, 8), running(4, 0, 4, 8), sized(4)}},
		{"a limit that shrank", 16, []solver.SizeLimit{limit(4, 4)}, []solver.Job{running(8, 0, 2, 4, 8), running(8, 0, 4, 8), sized(1)}},
		{"limits that no running job fits", 16, []solver.SizeLimit{limit(2, 1)},
			[]solver.Job{running(8, 0, 2, 4, 8), running(4, 1, 4), sized(1)}},
	}
	for _, test := range tests {
		s := &solver.Snapshot{TotalNodes: test.nodes, SizeLimits: test.limits, Jobs: test.jobs}
		r.checkAdmissions(t, test.name, s)
	}
}

// randomLimits solves the same problems every time.
func (r *runner) randomLimits(t *testing.T) {
	problems := LimitedProblems(Limits{Jobs: 4, Steps: 1, Sizes: 3, Nodes: 16})
	for seed := range r.TypedExamples {
		t.Run(strconv.Itoa(seed), func(t *testing.T) { r.checkTyped(t, problems.Example(seed)) })
	}
}
