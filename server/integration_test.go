package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// startReal starts a server with the real backends and without a time budget.
func startReal(t *testing.T) *harness {
	t.Helper()
	return start(t, func(c *Config) {
		allocator, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
		if err != nil {
			t.Fatal(err)
		}
		c.Allocator = allocator
	})
}

// queue returns a snapshot of queued jobs of very different lengths.
func queue(jobs, nodes int) *elastallocv1.Snapshot {
	s := &elastallocv1.Snapshot{Id: "queue", TotalNodes: int32(nodes)}
	for i := range jobs {
		s.Jobs = append(s.Jobs, &elastallocv1.Job{
			Id:           fmt.Sprintf("job-%d", i),
			RemainingEta: durationpb.New(time.Duration(math.Pow(7, float64(i%10)) * float64(time.Second))),
		})
	}
	return s
}

// shrunken returns a snapshot whose running jobs, one of an illegal size, no
// longer fit.
func shrunken() *elastallocv1.Snapshot {
	s := queue(4, 2)
	for i, job := range s.GetJobs() {
		job.CurrentNodes = int32(i) // 0, 1, 2 and the illegal 3.
	}
	return s
}

// extremes returns a snapshot of a job that completes in a millisecond and one that runs for ten years.
func extremes() *elastallocv1.Snapshot {
	s := queue(2, 20)
	s.Jobs[0].RemainingEta = durationpb.New(time.Millisecond)
	s.Jobs[1].RemainingEta = durationpb.New(10 * 365 * 24 * time.Hour)
	return s
}

// TestDecisions makes calls with extreme snapshots, and checks that each response is legal, proven optimal, and
// the same every time.
func TestDecisions(t *testing.T) {
	t.Parallel()
	h := startReal(t)
	tests := map[string]*elastallocv1.Snapshot{
		"no jobs":              queue(0, 10),
		"no nodes":             queue(3, 0),
		"more jobs than nodes": queue(12, 5),
		"ample pool":           queue(3, 1000),
		"shrunken pool":        shrunken(),
		"extremes":             extremes(),
	}
	for name, snapshot := range tests {
		for _, admission := range []elastallocv1.Admission{
			elastallocv1.Admission_ADMISSION_FIFO,
			elastallocv1.Admission_ADMISSION_OPTIMIZED,
			elastallocv1.Admission_ADMISSION_PREEMPTIVE,
		} {
			t.Run(name+"/"+admission.String(), func(t *testing.T) {
				t.Parallel()
				request := &elastallocv1.AllocateRequest{
					Snapshot: snapshot,
					Options:  &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, Admission: admission, IncludePlan: true},
				}
				response := h.allocate(t, request)
				checkResponse(t, snapshot, response)
				if again := h.allocate(t, request); !bytes.Equal(marshal(t, mask(response)), marshal(t, mask(again))) {
					t.Errorf("responses to the same request differ:\n%v\n%v", response, again)
				}
			})
		}
	}
}

// allocate makes a call that must succeed.
func (h *harness) allocate(t *testing.T, request *elastallocv1.AllocateRequest) *elastallocv1.AllocateResponse {
	t.Helper()
	response, err := h.client.Allocate(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func marshal(t *testing.T, message proto.Message) []byte {
	t.Helper()
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// checkResponse fails unless a response is complete, within the pool in every
// step, consistent and proven optimal.
func checkResponse(t *testing.T, s *elastallocv1.Snapshot, r *elastallocv1.AllocateResponse) {
	t.Helper()
	if len(r.GetAllocations()) != len(s.GetJobs()) {
		t.Fatalf("%d allocations for %d jobs", len(r.GetAllocations()), len(s.GetJobs()))
	}
	used := make([]int32, solver.DefaultSteps)
	for i, a := range r.GetAllocations() {
		if a.GetJobId() != s.GetJobs()[i].GetId() || a.GetChange() == elastallocv1.Change_CHANGE_UNSPECIFIED ||
			len(a.GetPlannedNodes()) != len(used) || a.GetPlannedNodes()[0] != a.GetNodes() {
			t.Fatalf("allocation %d is %v", i, a)
		}
		for step, nodes := range a.GetPlannedNodes() {
			used[step] += nodes
		}
	}
	for step, nodes := range used {
		if nodes > s.GetTotalNodes() {
			t.Errorf("%d of %d nodes are used in step %d", nodes, s.GetTotalNodes(), step)
		}
	}
	report := r.GetReport()
	if report.GetIdleNodes() != s.GetTotalNodes()-used[0] {
		t.Errorf("%d nodes are idle; %d of %d are used", report.GetIdleNodes(), used[0], s.GetTotalNodes())
	}
	if report.GetReason() != elastallocv1.Reason_REASON_OPTIMAL || report.GetBound() < report.GetObjective()*(1-1e-9) {
		t.Errorf("report is %v", report)
	}
}

// TestCertifiedInstance decides instances whose optimum is known.
func TestCertifiedInstance(t *testing.T) {
	t.Parallel()
	directory := filepath.Join("..", "..", "shared", "instances")
	text, err := os.ReadFile(filepath.Join(directory, "certified.json"))
	if err != nil {
		t.Skipf("the shared instances are not next to the checkout: %v", err)
	}
	var certified map[string]struct{ Objective float64 }
	if err := json.Unmarshal(text, &certified); err != nil {
		t.Fatal(err)
	}
	h := startReal(t)
	for _, name := range []string{"base_I0010_N0070_s1", "base_I0040_N0070_s1"} {
		text, err := os.ReadFile(filepath.Join(directory, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		request := &elastallocv1.AllocateRequest{}
		if err := protojson.Unmarshal(text, request); err != nil {
			t.Fatal(err)
		}
		request.Options = &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, IncludePlan: true}
		response := h.allocate(t, request)
		checkResponse(t, request.GetSnapshot(), response)
		if want, got := certified[name].Objective, response.GetReport().GetObjective(); math.Abs(got-want) > 1e-8*want {
			t.Errorf("%s: objective is %.12g; want %.12g", name, got, want)
		}
	}
}
