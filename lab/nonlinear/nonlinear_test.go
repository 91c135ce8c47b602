package nonlinear

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// linear returns a queued job of two steps that serves one unit of demand per node
// and step.
func linear(demand float64, sizes ...int) problem.AdmittedJob {
	work := make([]float64, len(sizes))
	for n, k := range sizes {
		work[n] = float64(k)
	}
	return problem.AdmittedJob{Demand: demand, Gain: []float64{1, 1}, Options: solver.Nodes(sizes...), FirstStepWork: work, StepWork: work}
}

// TestWhereTheyDiffer has jobs of demand 2, 3 and 4 on 4 nodes for two steps. Each
// has 1 or 2 nodes, so one of them gets the second node first.
//
// In the nonlinear formulation job 1 gets it: it finishes, returns both nodes, and the others have
// two each: 1 + 1/3 + 1/4, then 1 + 1 + 3/4, which is 4 1/3. In the simplified
// model it would keep one node, and 1/4 of job 3 would be lost: 4 1/12. So in that model
// job 2 gets the node: 1/2 + 2/3 + 1/4, then 1 + 1 + 3/4, which is 4 1/6. No job
// finishes in the first step, so this plan is legal in the nonlinear formulation as well.
func TestWhereTheyDiffer(t *testing.T) {
	p := &problem.Problem{Capacity: []int{4, 4}, Steps: 2, Jobs: []problem.AdmittedJob{
		linear(2, 1, 2), linear(3, 1, 2), linear(4, 1, 2),
	}}
	got, ok := Compare(p)
	if !ok {
		t.Fatal("Compare() found no plan")
	}
	want := Comparison{
		First: []int{1, 2, 1}, NonlinearFirst: []int{2, 1, 1},
		Optimum: 4 + 1.0/3, Reached: 4 + 1.0/6, Differs: true,
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Errorf("Compare() (-want +got):\n%s", diff)
	}
	if loss := got.Loss(); math.Abs(loss-1.0/26) > 1e-12 {
		t.Errorf("Loss() = %v; want 1/26", loss)
	}
}

// TestTied has two equal jobs of which the simplified model, too, lets either go
// first; whichever it takes is one of the nonlinear best.
func TestTied(t *testing.T) {
	p := &problem.Problem{Capacity: []int{3, 3}, Steps: 2, Jobs: []problem.AdmittedJob{linear(2, 1, 2), linear(2, 1, 2)}}
	c, ok := Compare(p)
	if !ok || c.Differs || c.Tied || c.Loss() != 0 {
		t.Errorf("Compare() = %+v, %v; want no difference", c, ok)
	}
}

func TestNoPlan(t *testing.T) {
	p := &problem.Problem{Capacity: []int{1, 1}, Steps: 2, Jobs: []problem.AdmittedJob{linear(2, 2)}}
	if c, ok := Compare(p); ok {
		t.Errorf("Compare() = %+v; want no plan", c)
	}
}

// TestCompareAgainstCounting compares with a recursion over the steps that follows
// the equations and leaves nothing out.
func TestCompareAgainstCounting(t *testing.T) {
	limits := solvertest.Limits{Jobs: 3, Steps: 3, Sizes: 2, Nodes: 9}
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.SnapshotsWithin(limits).Draw(t, "snapshot")
		p := problem.NewProblem(s, solver.AdmissionFIFO)
		got, ok := Compare(p)
		if !ok {
			t.Fatal("Compare() found no plan of an admitted problem")
		}
		optimum := map[finished]float64{keepsMinSize: math.Inf(-1), returnsToZero: math.Inf(-1)}
		values := map[finished][]float64{}
		firsts := firstSteps(p)
		for f := range optimum {
			for _, first := range firsts {
				v := count(p, f, 0, make([]float64, len(p.Jobs)), first)
				values[f] = append(values[f], v)
				optimum[f] = max(optimum[f], v)
			}
		}
		if !reaches(got.Optimum, optimum[returnsToZero]) || got.Optimum > optimum[returnsToZero]*(1+tieTolerance) {
			t.Fatalf("the nonlinear optimum is %v; want %v", got.Optimum, optimum[returnsToZero])
		}
		if !reaches(optimum[returnsToZero], optimum[keepsMinSize]) {
			t.Fatalf("the nonlinear optimum %v is below the simplified one %v",
				optimum[returnsToZero], optimum[keepsMinSize])
		}
		// The first steps are in the order of the rule for ties.
		want := slices.IndexFunc(values[keepsMinSize], func(v float64) bool { return reaches(v, optimum[keepsMinSize]) })
		if diff := cmp.Diff(firsts[want], got.First); diff != "" {
			t.Fatalf("first step (-want +got):\n%s", diff)
		}
		if reached := values[returnsToZero][want]; math.Abs(got.Reached-reached) > tieTolerance*reached {
			t.Fatalf("the first step reaches %v; want %v", got.Reached, reached)
		}
		if differs := !reaches(values[returnsToZero][want], optimum[returnsToZero]); got.Differs != differs {
			t.Fatalf("Differs = %v; want %v", got.Differs, differs)
		}
		tied := false
		for n := range firsts {
			tied = tied || got.Differs && reaches(values[keepsMinSize][n], optimum[keepsMinSize]) &&
				reaches(values[returnsToZero][n], optimum[returnsToZero])
		}
		if got.Tied != tied {
			t.Fatalf("Tied = %v; want %v", got.Tied, tied)
		}
	})
}

// count returns the best objective from step t on, given the demand served before.
// The nodes of step t are the given ones, or any where those are nil.
func count(p *problem.Problem, f finished, t int, servedBefore []float64, given []int) float64 {
	if t == p.Steps {
		return 0
	}
	best := math.Inf(-1)
	after := make([]float64, len(p.Jobs))
	var assign func(i, total int, value float64)
	assign = func(i, total int, value float64) {
		if total > p.Capacity[t] {
			return
		}
		if i == len(p.Jobs) {
			best = max(best, value+count(p, f, t+1, slices.Clone(after), nil))
			return
		}
		job := &p.Jobs[i]
		if f == returnsToZero && servedBefore[i] >= job.Demand {
			after[i] = job.Demand
			assign(i+1, total, value+job.Gain[t])
			return
		}
		for n, size := range job.Options {
			k := int(size.Nodes)
			if given != nil && k != given[i] {
				continue
			}
			after[i] = min(job.Demand, servedBefore[i]+job.Work(t)[n])
			assign(i+1, total+k, value+job.Gain[t]*after[i]/job.Demand)
		}
	}
	assign(0, 0, 0)
	return best
}

func TestRandomSnapshots(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for short := range jobs + 1 {
		s := randomSnapshot(random, 8, short)
		if bad := s.Validate(jobs); len(bad) > 0 {
			t.Fatalf("not valid: %v", bad)
		}
		found := 0
		for _, job := range s.Jobs {
			if job.RemainingETA < s.Horizon.Step*(steps-1) {
				found++
			}
		}
		if found != short {
			t.Errorf("%d jobs are short; want %d", found, short)
		}
	}
}

func TestWriteTable(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it is concurrent, and the race detector makes minutes of it")
	}
	write := func(seed uint64) string {
		var table strings.Builder
		if err := (Study{Seed: seed, Snapshots: 1}).WriteTable(&table); err != nil {
			t.Fatal(err)
		}
		return table.String()
	}
	table := write(1)
	if testtier.Conformance.Selected() {
		if again := write(1); again != table {
			t.Errorf("the same study wrote\n%s\nand then\n%s", table, again)
		}
		if write(2) == table {
			t.Error("another seed wrote the same table")
		}
	}
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if want := 2 + 6*(jobs+1); len(lines) != want {
		t.Errorf("%d lines; want %d", len(lines), want)
	}
	for _, line := range lines {
		if strings.Count(line, "|") != strings.Count(lines[0], "|") {
			t.Errorf("a line of another shape: %s", line)
		}
	}
}
