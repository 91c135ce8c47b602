package apiconv

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// TestHold checks that a job that the core's types cannot represent is frozen like other invalid jobs.
func TestHold(t *testing.T) {
	t.Parallel()
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := onJob(func(j *elastallocv1.Job) {
		j.RemainingEta, j.MinNodes, j.CurrentNodes = &durationpb.Duration{Seconds: 1e12}, new(int32(0)), 3
	})
	r.Options.BadJobs = elastallocv1.BadJobs_BAD_JOBS_HOLD
	r.Snapshot.Jobs = append(r.Snapshot.Jobs, nil)
	response, err := InProcess{allocator}.Allocate(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if nodes := response.GetAllocations()[1].GetNodes(); nodes != 3 {
		t.Errorf("the bad job has %d nodes; want its 3 current nodes", nodes)
	}
	if nodes := response.GetAllocations()[0].GetNodes(); nodes != 4 { // Its largest size within 8 - 3.
		t.Errorf("the good job has %d nodes; want 4", nodes)
	}
	var messages []string
	for _, w := range response.GetReport().GetWarnings() {
		if w.GetCode() == elastallocv1.WarningCode_WARNING_CODE_BAD_JOB_HELD {
			messages = append(messages, w.GetMessage())
		}
	}
	if len(messages) != 2 || !strings.Contains(messages[0], "snapshot.jobs[1].remaining_eta: is not a valid duration") ||
		!strings.Contains(messages[0], "snapshot.jobs[1].min_nodes: is 0; must be at least 1") ||
		!strings.Contains(messages[1], "snapshot.jobs[2].id: is empty") {
		t.Errorf("warnings %q", messages)
	}
}

// TestKeep checks that of a job with keep, only the fields that are read must be valid.
func TestKeep(t *testing.T) {
	t.Parallel()
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const bad = "invalid request: snapshot.jobs[1].piece_nodes: is -1; must be 0 to 2147483647"
	for want, piece := range map[string]*int32{"": nil, bad: new(int32(-1))} {
		_, err := InProcess{allocator}.Allocate(t.Context(), onJob(func(j *elastallocv1.Job) {
			j.Keep, j.RemainingEta, j.MinNodes, j.PieceNodes = true, &durationpb.Duration{Seconds: 1e12}, new(int32(0)), piece
		}))
		if err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("error %v; want %q", err, want)
		}
	}
}

// TestPieceOfZero checks that piece_nodes 0 is the whole allocation, as in client/placement.
func TestPieceOfZero(t *testing.T) {
	t.Parallel()
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for piece, want := range map[int32]int32{0: 2, 2: 8} {
		r := onJob(func(j *elastallocv1.Job) { j.PieceNodes = &piece })
		r.Snapshot.Jobs = r.GetSnapshot().GetJobs()[1:2]
		r.Snapshot.SizeLimits = []*elastallocv1.SizeLimit{{Size: 4, Nodes: 0}}
		r.Options = nil
		response, err := InProcess{allocator}.Allocate(t.Context(), r)
		if err != nil || response.GetAllocations()[0].GetNodes() != want {
			t.Errorf("in pieces of %d: %v, error %v; want %d nodes", piece, response.GetAllocations(), err, want)
		}
	}
}

// TestHoldOnNodeTypes checks that a frozen job keeps its nodes and their type, and has no type
// if its type is not in the snapshot.
func TestHoldOnNodeTypes(t *testing.T) {
	t.Parallel()
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := onJob(func(j *elastallocv1.Job) {
		j.MinNodes, j.CurrentNodes, j.CurrentNodeType = new(int32(0)), 3, "b"
	})
	r.Options.BadJobs, r.Options.Objective = elastallocv1.BadJobs_BAD_JOBS_HOLD, elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
	r.Snapshot.TotalNodes, r.Snapshot.NodeTypes = 0, []*elastallocv1.NodeType{{Id: "a", Nodes: 4}, {Id: "b", Nodes: 4}}
	for _, nodeType := range []string{"a", "b", "gone"} {
		r.Snapshot.Jobs[1].CurrentNodeType = nodeType
		response, err := InProcess{allocator}.Allocate(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		want := nodeType
		if nodeType == "gone" {
			want = ""
		}
		if a := response.GetAllocations()[1]; a.GetNodes() != 3 || a.GetNodeType() != want {
			t.Errorf("on %q the bad job has %d nodes of type %q", nodeType, a.GetNodes(), a.GetNodeType())
		}
	}
}

// certifies is a backend that returns a certificate with every job that
// is not frozen.
type certifies struct{ problem.Backend }

// Solve adds the certificate.
func (c certifies) Solve(ctx context.Context, p *problem.Problem, o problem.SolveOptions) (problem.Result, error) {
	result, err := c.Backend.Solve(ctx, p, o)
	result.Certificate = nil
	for i := range p.Jobs {
		result.Certificate = append(result.Certificate, solver.SizePrices{Job: i, Prices: []float64{8, 9}})
	}
	return result, err
}

// TestCertificateNamesJobsOfTheRequest checks that the jobs in a certificate have the indexes of the request, if
// other jobs are frozen or never fit.
func TestCertificateNamesJobsOfTheRequest(t *testing.T) {
	t.Parallel()
	allocator, err := elastalloc.New(elastalloc.Options{
		Middleware: func(b problem.Backend) problem.Backend { return certifies{b} },
	})
	if err != nil {
		t.Fatal(err)
	}
	bad := &elastallocv1.Job{Id: "bad", CurrentNodes: 1}
	never := &elastallocv1.Job{Id: "never", RemainingEta: durationpb.New(time.Hour), MinNodes: new(int32(16))}
	good := &elastallocv1.Job{Id: "good", RemainingEta: durationpb.New(time.Hour)}
	r := &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{TotalNodes: 8, Jobs: []*elastallocv1.Job{bad, never, good}},
		Options: &elastallocv1.AllocateOptions{
			Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, Certificate: true, BadJobs: elastallocv1.BadJobs_BAD_JOBS_HOLD,
		},
	}
	response, err := InProcess{allocator}.Allocate(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	want := &elastallocv1.Certificate{SizePrices: []*elastallocv1.Certificate_SizePrices{{Job: 2, Prices: []float64{8, 9}}}}
	if got := response.GetReport().GetCertificate(); !proto.Equal(got, want) {
		t.Errorf("certificate %v; want %v", got, want)
	}
	if plan := response.GetAllocations()[2].GetPlannedNodes(); len(plan) != 5 {
		t.Errorf("the plan is %v; want one over 5 steps, which a certificate goes with", plan)
	}
}
