package explain_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/testing/audittest"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// auditedAllocator audits all of its decisions.
type auditedAllocator struct{ *elastalloc.Allocator }

func (a auditedAllocator) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	return audittest.Allocate(ctx, s, o, a.Allocator.Allocate)
}

// newAllocator returns an allocator without a default time budget.
func newAllocator(tb testing.TB, options elastalloc.Options) auditedAllocator {
	tb.Helper()
	if options.DefaultBudget == 0 {
		options.DefaultBudget = elastalloc.NoBudget
	}
	a, err := elastalloc.New(options)
	if err != nil {
		tb.Fatal(err)
	}
	return auditedAllocator{a}
}

// TestExplanations compares explanations of random snapshots with exhaustive search: the loss of every
// size, and that every remedy works and is the smallest.
func TestExplanations(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	rapid.Check(t, func(t *rapid.T) {
		limits := solvertest.Limits{Jobs: 3, Steps: 2, Sizes: 3, Nodes: 12}
		s := solvertest.SnapshotsWithin(limits).Draw(t, "snapshot")
		o := solver.Options{
			Certificate: true, // required by the audit
			Objective:   rapid.SampledFrom([]solver.Objective{solver.ObjectiveProgress, solver.ObjectiveTotalTime}).Draw(t, "objective"),
			Admission:   rapid.SampledFrom(solver.Admissions()).Draw(t, "admission"),
		}
		if o.Objective == solver.ObjectiveTotalTime {
			switch rapid.SampledFrom([]string{"alike", "groups", "types"}).Draw(t, "pool") {
			case "groups":
				s = solvertest.GroupedSnapshots(limits).Draw(t, "grouped snapshot")
			case "types":
				s = solvertest.TypedSnapshots(limits).Draw(t, "typed snapshot")
			}
		}
		got, err := a.Explain(context.Background(), s, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := a.Allocate(context.Background(), s, o)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Decision, solvertest.IgnoreDurations()); diff != "" {
			t.Fatalf("decision (-Allocate +got):\n%s", diff)
		}
		if len(got.Jobs) != len(s.Jobs) {
			t.Fatalf("%d explanations; want %d", len(got.Jobs), len(s.Jobs))
		}
		s, o = s.WithDefaults(), o.WithDefaults()
		for i, job := range got.Jobs {
			gets := s.Option(want.Allocations[i].NodeType, job.Nodes)
			checkSizes(t, s, o, i, gets, job)
			remedyChecker{a, s, o, i, gets}.check(t, job)
		}
	})
}

// TestSmallestPool checks that the pool of a remedy is the smallest one among those that are tried one
// by one.
func TestSmallestPool(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	s, o := solvertest.BusySnapshot(12, 300), solver.Options{Objective: solver.ObjectiveTotalTime}
	for i := range s.Jobs {
		s.Jobs[i].MaxNodes = 128
	}
	got, err := a.Explain(t.Context(), s, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]int, len(s.Jobs))
	for n := range 256 {
		varied := *s
		varied.TotalNodes += n + 1
		d, err := a.Allocate(t.Context(), &varied, o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if want[i] == 0 && d.Allocations[i].Nodes > got.Jobs[i].Nodes {
				want[i] = varied.TotalNodes
			}
		}
	}
	compared := 0
	for i, job := range got.Jobs {
		for _, r := range job.Remedies {
			if r.TotalNodes > 0 && want[i] > 0 {
				compared++
				if r.TotalNodes != want[i] {
					t.Errorf("job %d gets more in a pool of %d; want %d", i, r.TotalNodes, want[i])
				}
			}
		}
	}
	if compared == 0 {
		t.Error("nothing was compared")
	}
}

// TestSizesWithOtherTypes checks that a size is listed even if another job has to release nodes of
// another type for it.
func TestSizesWithOtherTypes(t *testing.T) {
	t.Parallel()
	only := []solver.TypeSpeed{{NodeType: "x"}}
	s := &solver.Snapshot{
		NodeTypes: []solver.NodeType{{ID: "x", Nodes: 4}, {ID: "y", Nodes: 1, Speed: 0.1}},
		Jobs: []solver.Job{
			{ID: "a", RemainingETA: time.Hour, MaxNodes: 2, Speeds: only, Weight: new(0.01)},
			{ID: "b", RemainingETA: time.Hour, MaxNodes: 1},
			{ID: "c", RemainingETA: time.Hour, MinNodes: 2, MaxNodes: 2, Speeds: only},
		},
	}
	got, err := newAllocator(t, elastalloc.Options{}).Explain(t.Context(),
		s, solver.Options{Objective: solver.ObjectiveTotalTime}, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	if sizes := got.Jobs[0].Sizes; len(sizes) != 2 || got.Jobs[0].Nodes != 1 || sizes[1].Nodes != 2 {
		t.Errorf("the job gets %d nodes of the sizes %+v; want 1 of 1 and 2", got.Jobs[0].Nodes, sizes)
	}
}

// TestSizesWithFlexibleJobs checks that a size is listed if it fits only because the decision, unlike
// the admission, puts another job on another type.
func TestSizesWithFlexibleJobs(t *testing.T) {
	t.Parallel()
	s := &solver.Snapshot{
		NodeTypes: []solver.NodeType{{ID: "x", Nodes: 1, Speed: 3}, {ID: "y", Nodes: 4}},
		Jobs: []solver.Job{
			{ID: "a", RemainingETA: time.Hour, MaxNodes: 2},
			{ID: "b", RemainingETA: time.Hour},
			{ID: "c", RemainingETA: time.Hour},
			{ID: "d", RemainingETA: time.Hour, Speeds: []solver.TypeSpeed{{NodeType: "y"}}},
		},
	}
	got, err := newAllocator(t, elastalloc.Options{}).Explain(t.Context(),
		s, solver.Options{Objective: solver.ObjectiveTotalTime}, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	isTwo := func(size solver.SizeOption) bool { return size.NodeType == "y" && size.Nodes == 2 && size.Proven }
	if sizes := got.Jobs[0].Sizes; !slices.ContainsFunc(sizes, isTwo) {
		t.Errorf("the job has the sizes %+v; want 2 nodes of y among them", sizes)
	}
}

// without returns a problem in which all options of a job except one have a penalty in the first step.
func without(p *problem.Problem, job, size int, penalty float64) *problem.Problem {
	own := *p
	own.Jobs = slices.Clone(p.Jobs)
	values := make([]float64, len(p.Jobs[job].Options))
	copy(values, p.Jobs[job].OptionValue) // It may be nil.
	for k := range values {
		if k != size {
			values[k] -= penalty
		}
	}
	own.Jobs[job].OptionValue = values
	return &own
}

// checkSizes compares the losses of the sizes of a job with exhaustive search.
func checkSizes(t *rapid.T, s *solver.Snapshot, o solver.Options, i int, gets solver.Option, job solver.JobExplanation) {
	t.Helper()
	p := problem.NewProblemFor(s, o)
	n := slices.IndexFunc(p.Jobs, func(j problem.AdmittedJob) bool { return j.Index == i })
	if n < 0 {
		if job.Sizes != nil || job.Nodes != 0 {
			t.Fatalf("job %d is not admitted and has %+v", i, job)
		}
		return
	}
	best, _ := solvertest.Exhaustive(p)
	magnitude, offered := 0.0, 0 // of the values, in which sums are rounded
	for _, j := range p.Jobs {
		for _, value := range j.OptionValue {
			magnitude += math.Abs(value)
		}
		for _, gain := range j.Gain {
			magnitude += gain
		}
	}
	for _, group := range p.Groups {
		magnitude += p.QuotaPrice * float64(group.Floor)
	}
	for k, option := range p.Jobs[n].Options {
		optimum, _ := solvertest.Exhaustive(without(p, n, k, 1+4*magnitude))
		if optimum.Plan[n][0] != option {
			continue // It does not fit.
		}
		at := slices.IndexFunc(job.Sizes, func(o solver.SizeOption) bool { return s.Option(o.NodeType, o.Nodes) == option })
		if at < 0 && s.Typed() {
			continue // The heuristic that checks whether a size fits may fail.
		}
		if at < 0 {
			t.Fatalf("option %v of job %d is missing in %+v", option, i, job.Sizes)
		}
		offered++
		size, loss := job.Sizes[at], best.Objective-p.Objective(optimum.Plan)
		if option == gets {
			loss = 0
		}
		nothing := math.Abs(best.Objective) < 1e-6*magnitude // in which no gap is small
		if !size.Proven && !nothing || math.Abs(size.Loss-loss) > 1e-9*(1+magnitude) {
			t.Fatalf("option %v of job %d: %+v; want a loss of %v", option, i, size, loss)
		}
	}
	if offered != len(job.Sizes) {
		t.Fatalf("job %d has the sizes %+v; want %d", i, job.Sizes, offered)
	}
}

// remedyChecker decides variations of a snapshot, and compares what a job gets with what it gets without them.
type remedyChecker struct {
	allocator auditedAllocator
	snapshot  *solver.Snapshot
	options   solver.Options
	job       int
	gets      solver.Option
}

// decide returns what the job gets after a change of the snapshot. It has -1 nodes if the changed snapshot is not valid.
func (c remedyChecker) decide(change func(*solver.Snapshot)) solver.Option {
	changed := *c.snapshot
	changed.Jobs, changed.NodeTypes = slices.Clone(c.snapshot.Jobs), slices.Clone(c.snapshot.NodeTypes)
	change(&changed)
	d, err := c.allocator.Allocate(context.Background(), &changed, c.options)
	if err != nil {
		return solver.Option{Nodes: -1}
	}
	return c.snapshot.Option(d.Allocations[c.job].NodeType, d.Allocations[c.job].Nodes)
}

// withMinimum returns what the job gets with another MinNodes.
func (c remedyChecker) withMinimum(least int) solver.Option {
	return c.decide(func(s *solver.Snapshot) { s.Jobs[c.job].MinNodes = least })
}

// inPool returns what the job gets in a pool of a total number of nodes.
func (c remedyChecker) inPool(total int) solver.Option {
	return c.decide(func(s *solver.Snapshot) { s.TotalNodes = total })
}

// withType returns what the job gets with a number of nodes of a node type.
func (c remedyChecker) withType(g, nodes int) solver.Option {
	return c.decide(func(s *solver.Snapshot) {
		s.TotalNodes += nodes - s.NodeTypes[g].Nodes
		s.NodeTypes[g].Nodes = nodes
	})
}

// more reports whether an option is more than what the job gets.
func (c remedyChecker) more(option solver.Option) bool {
	if !c.snapshot.Typed() || c.gets.IsZero() {
		return option.Nodes > c.gets.Nodes
	}
	return option.Nodes > 0 && c.snapshot.Speed(c.job, option) > c.snapshot.Speed(c.job, c.gets)
}

// checkFirst checks that to is the smallest number with which the job gets more, and that it then gets what the remedy
// reports.
func (c remedyChecker) checkFirst(t *rapid.T, r solver.Remedy, from, step, to int, with func(int) solver.Option) {
	t.Helper()
	for n := from; ; n += step {
		got := with(n)
		if c.more(got) != (n == to) || n == to && got != c.snapshot.Option(r.NodesType, r.Nodes) {
			t.Fatalf("with %d job %d has %d nodes of type %d; remedy %+v", n, c.job, got.Nodes, got.Type, r)
		}
		if n == to {
			return
		}
	}
}

// check checks that the remedies of the job work, that no smaller change works, and that no remedy is missing.
func (c remedyChecker) check(t *rapid.T, job solver.JobExplanation) {
	t.Helper()
	s, i := c.snapshot, c.job
	var hasPool, hasMinimum bool
	for _, r := range job.Remedies {
		switch {
		case r.Weight > 0:
			c.checkFirst(t, r, 0, 1, 0, func(int) solver.Option {
				return c.decide(func(s *solver.Snapshot) { s.Jobs[i].Weight = &r.Weight })
			})
		case r.TotalNodes > 0 && s.Typed():
			hasPool = true
			g := slices.IndexFunc(s.NodeTypes, func(t solver.NodeType) bool { return t.ID == r.NodeType })
			c.checkFirst(t, r, s.NodeTypes[g].Nodes+1, 1, r.TotalNodes, func(nodes int) solver.Option { return c.withType(g, nodes) })
		case r.TotalNodes > 0:
			hasPool = true
			c.checkFirst(t, r, s.TotalNodes+1, 1, r.TotalNodes, c.inPool)
		case r.MinNodes > 0:
			hasMinimum = true
			from, step := max(s.Jobs[i].MinNodes, job.Nodes), 1
			if r.MinNodes < s.Jobs[i].MinNodes {
				from, step = s.Jobs[i].MinNodes, -1
			}
			c.checkFirst(t, r, from+step, step, r.MinNodes, c.withMinimum)
		default:
			t.Fatalf("remedy %+v", r)
		}
	}
	if !hasPool && !s.Typed() {
		c.checkNoPool(t)
	}
	if !hasMinimum {
		c.checkNoMinimum(t)
	}
}

// checkNoPool checks that the job gets no more in a pool of up to twice the nodes.
func (c remedyChecker) checkNoPool(t *rapid.T) {
	t.Helper()
	for total := c.snapshot.TotalNodes + 1; total <= 2*c.snapshot.TotalNodes; total++ {
		if c.more(c.inPool(total)) {
			t.Fatalf("in a pool of %d job %d has more than %d nodes, but no remedy reports it", total, c.job, c.gets.Nodes)
		}
	}
}

// checkNoMinimum checks that the job gets no more with another MinNodes.
func (c remedyChecker) checkNoMinimum(t *rapid.T) {
	t.Helper()
	job := &c.snapshot.Jobs[c.job]
	for least := 1; least <= 20; least++ {
		if least == job.MaxNodes && job.AllowedNodes == nil || c.snapshot.Typed() && least <= int(c.gets.Nodes) {
			continue // MaxNodes becomes a size if both are equal, also if it is no power of two.
		}
		if least != job.MinNodes && c.more(c.withMinimum(least)) {
			t.Fatalf("with min_nodes %d job %d has more than %d nodes, but no remedy reports it", least, c.job, c.gets.Nodes)
		}
	}
}

// TestCompletionBeforeRestart checks the reason of a job that completes before a resize could pay off.
func TestCompletionBeforeRestart(t *testing.T) {
	t.Parallel()
	job := solver.NewJob("short", 30*time.Second)
	job.CurrentNodes, job.RestartTime = 2, time.Minute
	s := &solver.Snapshot{TotalNodes: 8, Jobs: []solver.Job{job}}
	got, err := newAllocator(t, elastalloc.Options{}).Explain(t.Context(), s, solver.Options{Objective: solver.ObjectiveTotalTime}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = "short keeps its 2 nodes: it completes in 19 s, and a restart takes 60 s"
	if why := got.Jobs[0]; why.Why != solver.WhyChangeCost || !strings.HasPrefix(why.Text, want) {
		t.Errorf("%s: %q; want %q", why.Why, why.Text, want)
	}
}

// BenchmarkExplain explains all of 40 jobs and one of 1,000, with remedies.
func BenchmarkExplain(b *testing.B) {
	a := newAllocator(b, elastalloc.Options{})
	for _, objective := range []solver.Objective{solver.ObjectiveTotalTime, solver.ObjectiveProgress} {
		for _, size := range []struct {
			jobs, nodes int
			asked       []string
		}{{40, 70, nil}, {1000, 4000, []string{"job-17"}}} {
			b.Run(fmt.Sprintf("%s/%d-jobs", objective, size.jobs), func(b *testing.B) {
				s := solvertest.BusySnapshot(size.jobs, size.nodes)
				solvertest.ReportCPU(b)
				for b.Loop() {
					explanation, err := a.Explain(b.Context(), s, solver.Options{Objective: objective}, size.asked)
					if err != nil || len(explanation.Jobs) == 0 {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// illegalProver is a prover that gives the last job of every problem one node too many.
type illegalProver struct{ problem.Prover }

// Solve returns an illegal plan.
func (c illegalProver) Solve(ctx context.Context, p *problem.Problem, o problem.SolveOptions) (problem.Result, error) {
	result, err := c.Prover.Solve(ctx, p, o)
	if err == nil {
		result.Plan[len(result.Plan)-1][0].Nodes++
	}
	return result, err
}

// counting counts the problems that a backend solves.
type counting struct {
	problem.Backend
	asked *atomic.Int32
}

// Solve calls the backend.
func (c counting) Solve(ctx context.Context, p *problem.Problem, o problem.SolveOptions) (problem.Result, error) {
	c.asked.Add(1)
	return c.Backend.Solve(ctx, p, o)
}

// TestEveryPlanIsChecked checks that the plans of explanations pass the middleware of the allocator and
// are checked.
func TestEveryPlanIsChecked(t *testing.T) {
	t.Parallel()
	s := solvertest.BusySnapshot(3, 4)
	a := newAllocator(t, elastalloc.Options{ProverMiddleware: func(p problem.Prover) problem.Prover { return illegalProver{p} }})
	if _, err := a.Explain(t.Context(), s, solver.Options{}, nil); err == nil || !strings.Contains(err.Error(), "invalid-plan") {
		t.Errorf("error %v; want that a plan is not legal", err)
	}
	var asked atomic.Int32
	a = newAllocator(t, elastalloc.Options{Middleware: func(b problem.Backend) problem.Backend { return counting{b, &asked} }})
	for _, noRemedies := range []bool{true, false} {
		asked.Store(0)
		if _, err := a.Explain(t.Context(), s, solver.Options{NoRemedies: noRemedies}, nil); err != nil {
			t.Fatal(err)
		}
		// Greedy and the exact backend decide the snapshot, and then each of its variations.
		if n := asked.Load(); (n == 2) != noRemedies {
			t.Errorf("%d problems with no remedies %t", n, noRemedies)
		}
	}
}

// TestExplainWithoutPrices checks that a decision without time for prices is explained with estimates.
func TestExplainWithoutPrices(t *testing.T) {
	t.Parallel()
	s := &solver.Snapshot{TotalNodes: 4, Jobs: []solver.Job{solver.NewJob("a", time.Hour), solver.NewJob("b", 2*time.Hour)}}
	explanation, err := newAllocator(t, elastalloc.Options{}).Explain(t.Context(), s, solver.Options{TimeBudget: 1}, nil)
	if err != nil || len(explanation.Jobs) != 2 || explanation.Jobs[0].Text == "" {
		t.Errorf("Explain() = %+v, %v; want an explanation of two jobs", explanation.Jobs, err)
	}
}
