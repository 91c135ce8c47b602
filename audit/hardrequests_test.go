package audit_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/audit"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

const (
	// long is the class of few jobs that take long to decide and to audit. It is generated less often.
	long = "20 to 24 steps of 5 to 32 sizes"
	// sweeps is a class of which the check leaves about a tenth open.
	sweeps = "identical jobs on node types"
)

// class is a class of random requests.
type class struct {
	name     string
	generate func(d generator) *elastallocv1.AllocateRequest
}

// classes returns the classes for which verdicts are counted.
func classes() []class {
	progress := func(d generator, nodes, steps, jobs, sizes int) *elastallocv1.AllocateRequest {
		r := d.request(nodes, steps, jobs, sizes)
		for r.GetOptions().GetObjective() != elastallocv1.Objective_OBJECTIVE_PROGRESS {
			r = d.request(nodes, steps, jobs, sizes)
		}
		return r
	}
	totalTime := func(d generator, jobs int, groups, types bool) *elastallocv1.AllocateRequest {
		nodes, sizes := d.IntN(100), 1+d.IntN(6)
		for {
			r := d.request(nodes, 1, jobs, sizes)
			s := r.GetSnapshot()
			if r.GetOptions().GetObjective() == elastallocv1.Objective_OBJECTIVE_TOTAL_TIME &&
				(len(s.GetGroups()) > 0) == groups && (len(s.GetNodeTypes()) > 1) == types {
				return r
			}
		}
	}
	return []class{
		{"small", func(d generator) *elastallocv1.AllocateRequest {
			return progress(d, d.IntN(13), 1+d.IntN(4), d.IntN(5), 1+d.IntN(3))
		}},
		{"33 sizes", func(d generator) *elastallocv1.AllocateRequest {
			return progress(d, 20+d.IntN(80), 1+d.IntN(4), 1+d.IntN(5), 32)
		}},
		{"24 steps", func(d generator) *elastallocv1.AllocateRequest {
			return progress(d, d.IntN(100), 24, d.IntN(6), 1+d.IntN(5))
		}},
		{long, func(d generator) *elastallocv1.AllocateRequest {
			return progress(d, d.IntN(100), 20+d.IntN(5), 1+d.IntN(6), 5+d.IntN(28))
		}},
		{"3 to 22 jobs", func(d generator) *elastallocv1.AllocateRequest {
			return progress(d, 4+d.IntN(100), 2+d.IntN(7), 3+d.IntN(20), 1+d.IntN(6))
		}},
		{"25 to 44 jobs", func(d generator) *elastallocv1.AllocateRequest {
			return d.request(40+d.IntN(100), 3+d.IntN(5), 25+d.IntN(20), 4+d.IntN(6))
		}},
		{"total-time", func(d generator) *elastallocv1.AllocateRequest { return totalTime(d, d.IntN(40), false, false) }},
		{"groups", func(d generator) *elastallocv1.AllocateRequest { return totalTime(d, d.IntN(40), true, false) }},
		{"node types", func(d generator) *elastallocv1.AllocateRequest { return totalTime(d, d.IntN(40), false, true) }},
		{sweeps, func(d generator) *elastallocv1.AllocateRequest {
			return d.sweep(10+d.IntN(90), 2+d.IntN(60), 1+d.IntN(5))
		}},
		{"size limits", func(d generator) *elastallocv1.AllocateRequest {
			r := totalTime(d, d.IntN(40), false, d.chance(2))
			d.sizeLimits(r.GetSnapshot())
			return r
		}},
		{"costly changes", func(d generator) *elastallocv1.AllocateRequest {
			n, kind := 2+d.IntN(20), d.IntN(4)
			if kind == 3 {
				return d.costly(progress(d, d.IntN(2*n), 1+d.IntN(6), n, 1+d.IntN(5)))
			}
			return d.costly(totalTime(d, n, kind == 1, kind == 2))
		}},
		{"restart budgets", func(d generator) *elastallocv1.AllocateRequest { return d.restarted(2 + d.IntN(20)) }},
		{"hostile numbers", func(d generator) *elastallocv1.AllocateRequest {
			r := d.request(d.IntN(100), 1+d.IntN(6), d.IntN(12), 1+d.IntN(6))
			d.makeHostile(r)
			return r
		}},
		{"frozen jobs", func(d generator) *elastallocv1.AllocateRequest {
			r := d.request(d.IntN(100), 1+d.IntN(5), 3+d.IntN(12), 1+d.IntN(6))
			for _, j := range r.GetSnapshot().GetJobs() {
				if d.chance(3) {
					j.RemainingEta = nil
				}
			}
			return r
		}},
	}
}

// restarted returns a request of costly changes in which many running jobs have used their restart budgets: with
// every objective, with groups, and with node types and size limits.
func (d generator) restarted(jobs int) *elastallocv1.AllocateRequest {
	r := d.costly(d.request(1+d.IntN(4*jobs), 1+d.IntN(3), jobs, 1+d.IntN(3)))
	s := r.GetSnapshot()
	if r.GetOptions().GetObjective() == elastallocv1.Objective_OBJECTIVE_TOTAL_TIME && s.GetGroups() == nil && d.chance(2) {
		d.sizeLimits(s)
	}
	for _, j := range s.GetJobs() {
		d.restarts(j)
	}
	return r
}

// generate returns the request of a class for a seed.
func generate(name string, seed uint64) *elastallocv1.AllocateRequest {
	of := classes()
	return of[slices.IndexFunc(of, func(c class) bool { return c.name == name })].generate(newGenerator(seed))
}

// sweep returns a request of few kinds of identical jobs with ETA errors, on up to 8 types with equal
// numbers of nodes.
func (d generator) sweep(nodes, jobs, kinds int) *elastallocv1.AllocateRequest {
	s := new(elastallocv1.Snapshot)
	types := int32(1 + d.IntN(8))
	for n := range types {
		s.NodeTypes = append(s.NodeTypes, &elastallocv1.NodeType{
			Id: fmt.Sprint("type-", n), Nodes: int32(nodes) / types, Speed: new(0.3 + 3*d.Float64()),
		})
	}
	for i := range jobs {
		if i < kinds {
			s.Jobs = append(s.Jobs, d.job(i, 1+d.IntN(6), s))
			s.Jobs[i].EtaError = new(0.5)
			continue
		}
		s.Jobs = append(s.Jobs, proto.CloneOf(s.Jobs[i%kinds]))
		s.Jobs[i].Id = fmt.Sprint("job-", i)
	}
	return &elastallocv1.AllocateRequest{Snapshot: s, Options: &elastallocv1.AllocateOptions{
		Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME,
		Admission: max(elastallocv1.Admission_ADMISSION_FIFO, elastallocv1.Admission(d.IntN(5))),
		BadJobs:   elastallocv1.BadJobs_BAD_JOBS_HOLD, IncludePlan: true,
	}}
}

// extreme returns a number from low to high, often one of the two, otherwise log-uniform.
func (d generator) extreme(low, high float64) float64 {
	switch d.IntN(4) {
	case 0:
		return low
	case 1:
		return high
	default:
		return min(high, max(low, low*math.Exp(d.Float64()*(math.Log(high)-math.Log(low)))))
	}
}

// makeHostile sets numbers at and near the limits of the API.
func (d generator) makeHostile(r *elastallocv1.AllocateRequest) {
	second := func(low, high float64) *durationpb.Duration {
		return durationpb.New(time.Duration(d.extreme(low, high) * 1e9))
	}
	const year = 365 * 24 * 3600
	for _, j := range r.GetSnapshot().GetJobs() {
		if d.chance(2) && j.RemainingEta != nil {
			j.RemainingEta = second(1e-9, 9e9)
		}
		if d.chance(2) {
			j.Weight = new(d.extreme(1e-300, 1e12))
		}
		if table := j.GetScaling().GetTable(); table != nil && d.chance(2) {
			for n := range table.Speeds {
				table.Speeds[n] = d.extreme(1e-300, 1e9)
			}
			slices.Sort(table.Speeds)
		}
		if d.chance(3) {
			j.WaitingTime = second(1e-9, 9e9)
		}
		if d.chance(3) && j.ResizeDelay == nil {
			j.RestartTime = second(1e-9, 9e9)
		}
	}
	if h := r.GetSnapshot().GetHorizon(); d.chance(3) {
		h.Step = second(1e-9, 9e9)
	}
	if r.GetOptions().GetObjective() == elastallocv1.Objective_OBJECTIVE_TOTAL_TIME && d.chance(2) {
		r.Options.TotalTime = &elastallocv1.TotalTimeOptions{
			Fairness: new(d.extreme(1e-300, 1e6)), PausePriceFactor: new(d.extreme(1e-300, 1e6)), QuotaPrice: new(d.extreme(1e-300, 1e6)),
			Aging: second(1, year), ResizePrice: second(1e-9, year), Payback: second(1, year), StartBonus: second(1e-9, year),
		}
	}
}

// TestHardRequests audits, with little work, requests that needed far more work in earlier versions:
// equal jobs, prices whose sum exceeds all values, jobs over 23 steps with negligible values, more
// undecided jobs than steps, and a hyperparameter sweep of 160 jobs on several types.
func TestHardRequests(t *testing.T) {
	t.Parallel()
	sweep := newGenerator(9).sweep(320, 160, 4)
	if got := audit.Check(t.Context(), sweep, decide(t, sweep), audit.Options{Work: 30_000_000}); got.Verdict != audit.Confirmed {
		t.Error(got)
	}
	for class, drawn := range map[string]struct {
		work  int
		seeds []uint64
	}{
		sweeps: {2_000_000_000, []uint64{38, 267}}, long: {2_000_000_000, []uint64{9000068, 9000094, 9000706, 9032434}},
		"node types": {30_000_000, []uint64{9002954}}, "frozen jobs": {30_000_000, []uint64{9001766}},
		"25 to 44 jobs": {30_000_000, []uint64{1936, 2260}}, "total-time": {30_000_000, []uint64{9000997}},
	} {
		for _, seed := range drawn.seeds[:testtier.Conformance.Examples(1, len(drawn.seeds))] {
			request := generate(class, seed)
			request.Options.TimeBudget = durationpb.New(time.Minute)
			if got := audit.Check(t.Context(), request, decide(t, request), audit.Options{Work: drawn.work}); got.Verdict != audit.Confirmed {
				t.Errorf("%s, seed %d: %v", class, seed, got)
			}
		}
	}
}

// TestAlone audits a response with wrong prices, in which one job has nearly the whole value and all the
// nodes that it can use.
func TestAlone(t *testing.T) {
	t.Parallel()
	request := generate(long, 9002770)
	request.Options.TimeBudget = durationpb.New(time.Minute)
	response := decide(t, request)
	for n := range response.GetReport().GetNodePrices() {
		response.Report.NodePrices[n] = 1e7
	}
	if got := audit.Check(t.Context(), request, response, audit.Options{Work: 1_000_000}); got.Verdict != audit.Confirmed {
		t.Error(got)
	}
}

// TestWorkBoundsMemory counts the bytes that the dynamic program allocates. A unit of work corresponds to
// at most a few bytes, so that Options.Work also bounds the memory.
func TestWorkBoundsMemory(t *testing.T) {
	request := generate(long, 9000706)
	request.Options.TimeBudget = durationpb.New(time.Minute)
	response := decide(t, request)
	work := testtier.Conformance.Examples(4_000_000, 20_000_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := audit.Check(t.Context(), request, response, audit.Options{Work: work})
	runtime.ReadMemStats(&after)
	used := after.TotalAlloc - before.TotalAlloc
	if t.Logf("%d bytes", used); got.Verdict != audit.Open || used > uint64(3*work) {
		t.Errorf("%v after %d bytes for %d units of work", got, used, work)
	}
}

// TestSizePrices audits, with little work, few jobs over 24 steps. The bound from prices of nodes is off by
// a percent; the bound from prices of sizes is tight.
func TestSizePrices(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nodes, jobs int32
		admission   elastallocv1.Admission
		kinds       []*elastallocv1.Job
	}{
		// The largest size exceeds the pool, so that its price can be any number.
		"3 jobs": {12, 3, elastallocv1.Admission_ADMISSION_OPTIMIZED, []*elastallocv1.Job{
			uneven(40441686296185, []int32{3, 6, 8, 10, 11, 13}, 2.6386069309670424, 3.8030322091651882,
				5.185104525187376, 5.686878191897719, 6.042189503277137, 12.44936624686235),
			uneven(30240036830092, []int32{3, 6, 8, 10, 11, 13}, 2.6353064030667888, 4.028217974764916,
				5.352564782820845, 4.791000660973541, 9.647875782531784, 12.587012456875735),
		}},
		"9 equal jobs": {39, 9, elastallocv1.Admission_ADMISSION_PREEMPTIVE, []*elastallocv1.Job{
			uneven(53801856711082, []int32{2, 4, 7, 10, 13, 14}, 1.5441203778080872, 2.6227902320130405,
				4.138282441558482, 5.235856685046462, 7.869954684071251, 8.432827022983945),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &elastallocv1.Snapshot{Id: name, TotalNodes: c.nodes, Horizon: &elastallocv1.Horizon{Steps: new(int32(24))}}
			for i := range int(c.jobs) {
				j := proto.CloneOf(c.kinds[i%len(c.kinds)])
				j.Id = fmt.Sprint("job-", i)
				s.Jobs = append(s.Jobs, j)
			}
			request := &elastallocv1.AllocateRequest{Snapshot: s, Options: &elastallocv1.AllocateOptions{
				Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, Admission: c.admission,
				IncludePlan: true, TimeBudget: durationpb.New(time.Minute),
			}}
			answer := decide(t, request)
			if got := audit.Check(t.Context(), request, answer, audit.Options{Work: 100_000_000}); got.Verdict != audit.Confirmed {
				t.Error(got)
			}
		})
	}
}

// uneven returns a job with the given ETA and a speed table.
func uneven(eta time.Duration, sizes []int32, speeds ...float64) *elastallocv1.Job {
	return &elastallocv1.Job{
		RemainingEta: durationpb.New(eta), AllowedNodes: sizes,
		Scaling: &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: &elastallocv1.SpeedTable{Speeds: speeds}}},
	}
}
