package audit_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/audit"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// sizeLimits adds random size limits to a request, and pieces to its jobs.
func (d generator) sizeLimits(s *elastallocv1.Snapshot) {
	types := s.GetNodeTypes()
	for size := int32(2); size < 9; size += 1 + d.Int32N(3) {
		l := &elastallocv1.SizeLimit{Size: size, Nodes: d.Int32N(s.GetTotalNodes() + 2)}
		if len(types) > 1 {
			of := types[d.IntN(len(types))]
			l.NodeType, l.Nodes = of.GetId(), d.Int32N(of.GetNodes()+2)
		}
		s.SizeLimits = append(s.SizeLimits, l)
	}
	for _, j := range s.GetJobs() {
		if d.chance(2) {
			j.PieceNodes = new(1 + d.Int32N(6))
		}
	}
}

// counted returns how many nodes of a job count in a size limit.
func counted(s *elastallocv1.Snapshot, l *elastallocv1.SizeLimit, j *elastallocv1.Job, nodeType string, nodes int32) int32 {
	if l.GetNodeType() != "" && l.GetNodeType() != nodeType || len(s.GetNodeTypes()) > 0 && nodeType == "" {
		return 0
	}
	return inPieces(j, nodes, l.GetSize())
}

// inPieces returns how many nodes of an allocation lie in pieces of at least the given size, counted piece by piece.
func inPieces(j *elastallocv1.Job, nodes, size int32) (counted int32) {
	for nodes > 0 {
		piece := nodes
		if j.GetPieceNodes() > 0 {
			piece = min(nodes, j.GetPieceNodes())
		}
		if nodes -= piece; piece >= size {
			counted += piece
		}
	}
	return counted
}

// inUse returns how many current nodes count in a size limit.
func inUse(s *elastallocv1.Snapshot, l *elastallocv1.SizeLimit) (nodes int32) {
	for _, j := range s.GetJobs() {
		nodes += counted(s, l, j, j.GetCurrentNodeType(), j.GetCurrentNodes())
	}
	return nodes
}

// jobOf returns the job of an allocation: of several jobs with its id, the first with the most nodes.
func jobOf(s *elastallocv1.Snapshot, id string) (of *elastallocv1.Job) {
	for _, j := range s.GetJobs() {
		if j.GetId() == id && (of == nil || j.GetCurrentNodes() > of.GetCurrentNodes()) {
			of = j
		}
	}
	return of
}

// limit adds the size limits of a request to its response. It reports whether the response satisfies them: a
// limit has no nodes for other jobs if frozen jobs occupy them.
func (m *model) limit(request *elastallocv1.AllocateRequest, response *elastallocv1.AllocateResponse, price float64) (satisfied bool) {
	s := request.GetSnapshot()
	satisfied = true
	for _, l := range s.GetSizeLimits() {
		used, frozen := int32(0), int32(0)
		for n, a := range response.GetAllocations() {
			nodes := counted(s, l, jobOf(s, a.GetJobId()), a.GetNodeType(), a.GetNodes())
			if used += nodes; m.held.Contains(n) {
				frozen += nodes
			}
		}
		satisfied = satisfied && (used <= l.GetNodes() || used == frozen)
		response.Report.SizeLimits = append(response.Report.SizeLimits, &elastallocv1.SizeLimitReport{
			Size: l.GetSize(), NodeType: l.GetNodeType(), Nodes: l.GetNodes(), Used: used, Price: price,
		})
	}
	return satisfied
}

// limitedCase is a random request with size limits, in which no job must have nodes. The model of the request without size
// limits has the values of its plans.
type limitedCase struct {
	seed      uint64
	generator generator
	request   *elastallocv1.AllocateRequest
	model     *model
	price     float64
	open      int // claims that are open because of rounding
}

// newLimitedCase returns a random case, or nil if the random request is of another kind or has too many plans.
func newLimitedCase(t *testing.T, seed uint64) *limitedCase {
	t.Helper()
	d := newGenerator(seed)
	request := d.request(2+d.IntN(12), 1, 1+d.IntN(3), 1+d.IntN(4))
	s := request.GetSnapshot()
	if s.GetGroups() != nil || request.GetOptions().GetObjective() != elastallocv1.Objective_OBJECTIVE_TOTAL_TIME {
		return nil
	}
	request.Options.Admission = elastallocv1.Admission_ADMISSION_PREEMPTIVE
	m := newModel(t, proto.CloneOf(request))
	if m == nil || m.count() > 4000 {
		return nil
	}
	total := s.GetTotalNodes()
	if s.TotalNodes = 0; len(s.GetNodeTypes()) == 0 {
		s.TotalNodes = total
	}
	for _, of := range s.GetNodeTypes() {
		s.TotalNodes += of.GetNodes()
	}
	d.sizeLimits(s)
	if slices.ContainsFunc(s.GetSizeLimits(), func(l *elastallocv1.SizeLimit) bool { return inUse(s, l) > l.GetNodes() }) {
		return nil // Decreases would cost less than without the limits.
	}
	return &limitedCase{seed: seed, generator: d, request: request, model: m}
}

// respond returns a response with a plan and reports whether it satisfies the size limits.
func (c *limitedCase) respond(plan problem.Plan, bound float64, reason solver.Reason) (*elastallocv1.AllocateResponse, bool) {
	response := c.model.respond(plan, bound, reason, []float64{c.price})
	return response, c.model.limit(c.request, response, c.price*c.generator.Float64())
}

// best returns the best plan that satisfies the size limits and the best one that does not, or nil, and their values.
func (c *limitedCase) best() (best, illegal problem.Plan, optimum, tooMuch float64) {
	optimum, tooMuch = math.Inf(-1), math.Inf(-1)
	c.model.each(func(plan problem.Plan, v float64) {
		switch _, satisfied := c.respond(plan, v, solver.ReasonFeasible); {
		case satisfied && v > optimum:
			best, optimum = plan.Clone(), v
		case !satisfied && v > tooMuch:
			illegal, tooMuch = plan.Clone(), v
		}
	})
	return best, illegal, optimum, tooMuch
}

// worse returns a random plan below a value that satisfies the size limits and the plan's value, or nil if there is none.
func (c *limitedCase) worse(below float64) (worse problem.Plan, less float64) {
	c.model.each(func(plan problem.Plan, v float64) {
		if _, satisfied := c.respond(plan, v, solver.ReasonFeasible); satisfied && v < below && (worse == nil || c.generator.chance(5)) {
			worse, less = plan.Clone(), v
		}
	})
	return worse, less
}

// check checks the verdict on a plan with a claim, unless rounding leaves it open.
func (c *limitedCase) check(t *testing.T, plan problem.Plan, bound float64, reason solver.Reason, want audit.Verdict) {
	t.Helper()
	response, _ := c.respond(plan, bound, reason)
	got := audit.Check(t.Context(), c.request, response, audit.Options{Work: 1e8})
	if isRounding(got) {
		c.open++
	} else if got.Verdict != want {
		t.Errorf("seed %d: %v with the claim %v; must be %s\n%s", c.seed, got, bound, want, protojson.Format(c.request))
	}
}

// checkUsed checks that a response with a wrong number of used nodes is refuted.
func (c *limitedCase) checkUsed(t *testing.T, plan problem.Plan, optimum float64) {
	t.Helper()
	response, _ := c.respond(plan, optimum, solver.ReasonOptimal)
	reports := response.Report.SizeLimits
	reports[c.generator.IntN(len(reports))].Used++
	got := audit.Check(t.Context(), c.request, response, audit.Options{})
	if got.Verdict != audit.Refuted || !strings.Contains(got.Reason, "limit of size") {
		t.Errorf("seed %d: %v with a wrong number of used nodes", c.seed, got)
	}
}

// TestSizeLimits compares verdicts with an enumeration of all plans that satisfy the size limits. The values
// are those of the same request without size limits, and no job must have nodes.
func TestSizeLimits(t *testing.T) {
	t.Parallel()
	compared, binding, open := 0, 0, 0
	for seed := range uint64(iterations(1500, 100_000)) {
		c := newLimitedCase(t, seed)
		if c == nil {
			continue
		}
		best, illegal, optimum, tooMuch := c.best()
		distance := 10 * audit.Tolerance * max(tiny, math.Abs(optimum))
		worse, less := c.worse(optimum - distance)
		c.price = math.Abs(optimum) / float64(c.model.good.TotalNodes+1) * c.generator.Float64() * 2
		c.check(t, best, optimum, solver.ReasonOptimal, audit.Confirmed)
		c.check(t, best, optimum+math.Abs(optimum), solver.ReasonFeasible, audit.Confirmed)
		if illegal != nil {
			c.check(t, illegal, tooMuch, solver.ReasonOptimal, audit.Refuted)
		}
		if tooMuch > optimum+distance {
			binding++
		}
		if worse != nil {
			c.check(t, worse, less, solver.ReasonOptimal, audit.Refuted)
		}
		if len(c.request.GetSnapshot().GetSizeLimits()) > 0 {
			c.checkUsed(t, best, optimum)
		}
		compared++
		open += c.open
	}
	t.Logf("%d requests, %d with a better plan without limits, %d open", compared, binding, open)
	if min(compared, 4*binding) < 100 || open*100 > compared {
		t.Error("too few, or too many open")
	}
}

// rigid returns a request with identical jobs of the given numbers of nodes and with size limits, in which no job
// must have nodes.
func rigid(nodes int32, limits []*elastallocv1.SizeLimit, sizes ...int32) *elastallocv1.AllocateRequest {
	s := &elastallocv1.Snapshot{TotalNodes: nodes, SizeLimits: limits}
	for n, k := range sizes {
		s.Jobs = append(s.Jobs, &elastallocv1.Job{
			Id: fmt.Sprint(n), RemainingEta: durationpb.New(time.Hour), EtaNodes: new(k), AllowedNodes: []int32{k}, EtaError: new(0.5),
		})
	}
	return &elastallocv1.AllocateRequest{Snapshot: s, Options: &elastallocv1.AllocateOptions{
		Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME, Admission: elastallocv1.Admission_ADMISSION_PREEMPTIVE, IncludePlan: true,
	}}
}

// TestSizeLimitExamples audits plans that the capacity of the pool allows and machines do not.
func TestSizeLimitExamples(t *testing.T) {
	t.Parallel()
	limit := func(size, nodes int32) *elastallocv1.SizeLimit {
		return &elastallocv1.SizeLimit{Size: size, Nodes: nodes}
	}
	for name, test := range map[string]struct {
		nodes  int32
		limits []*elastallocv1.SizeLimit
		sizes  []int32
		all    audit.Verdict // if all jobs have nodes
	}{
		"3, 3, 3, 3, 3 on two machines of 8": {16, []*elastallocv1.SizeLimit{limit(3, 12)}, []int32{3, 3, 3, 3, 3}, audit.Refuted},
		"3, 3, 3, 3 on two machines of 8":    {16, []*elastallocv1.SizeLimit{limit(3, 12)}, []int32{3, 3, 3, 3}, audit.Confirmed},
		"5, 5, 5 on two machines of 8":       {16, []*elastallocv1.SizeLimit{limit(5, 10)}, []int32{5, 5, 5}, audit.Refuted},
		"16, 16, 4 on two blocks of 18":      {36, []*elastallocv1.SizeLimit{limit(4, 32), limit(16, 32)}, []int32{16, 16, 4}, audit.Refuted},
		"16, 16, 2, 2 on two blocks of 18": {
			36, []*elastallocv1.SizeLimit{limit(4, 32), limit(16, 32)}, []int32{16, 16, 2, 2}, audit.Confirmed,
		},
		"16, 4, 4, 4, 4 on two blocks of 18": {
			36, []*elastallocv1.SizeLimit{limit(4, 32), limit(16, 32)}, []int32{16, 4, 4, 4, 4}, audit.Confirmed,
		},
		// The limits are necessary only.
		"6, 6, 4 do not divide each other": {16, []*elastallocv1.SizeLimit{limit(4, 16), limit(6, 12)}, []int32{6, 6, 4}, audit.Confirmed},
		"a limit without nodes":            {16, []*elastallocv1.SizeLimit{limit(2, 0)}, []int32{1, 2}, audit.Refuted},
	} {
		request := rigid(test.nodes, test.limits, test.sizes...)
		unlimited := proto.CloneOf(request)
		unlimited.Snapshot.SizeLimits = nil
		m := newModel(t, unlimited)
		best, optimum, all := problem.Plan(nil), math.Inf(-1), problem.Plan(nil)
		m.each(func(plan problem.Plan, v float64) {
			response := m.respond(plan, v, solver.ReasonOptimal, nil)
			if m.limit(request, response, 0) && v > optimum {
				best, optimum = plan.Clone(), v
			}
			if response.GetReport().GetIdleNodes() == test.nodes-sum(test.sizes) {
				all = plan.Clone()
			}
		})
		response := m.respond(all, m.Objective(all), solver.ReasonOptimal, nil)
		m.limit(request, response, 0)
		got := audit.Check(t.Context(), request, response, audit.Options{})
		if got.Verdict != test.all || got.Verdict == audit.Refuted && !strings.Contains(got.Reason, "the size limit is") {
			t.Errorf("%s: all jobs have nodes: %v", name, got)
		}
		response = m.respond(best, optimum, solver.ReasonOptimal, nil)
		m.limit(request, response, 0)
		if got := audit.Check(t.Context(), request, response, audit.Options{}); got.Verdict != audit.Confirmed {
			t.Errorf("%s: the best plan: %v", name, got)
		}
		// A false claim of optimality: no job has nodes.
		none := problem.NewPlan(len(m.Jobs), 1)
		response = m.respond(none, m.Objective(none), solver.ReasonOptimal, nil)
		m.limit(request, response, 0)
		got = audit.Check(t.Context(), request, response, audit.Options{})
		if got.Verdict != audit.Refuted || !strings.Contains(got.Reason, "a plan is worth") {
			t.Errorf("%s: no job has nodes: %v", name, got)
		}
		for name, change := range map[string]func(of *elastallocv1.SizeLimitReport){
			"size":  func(of *elastallocv1.SizeLimitReport) { of.Size++ },
			"nodes": func(of *elastallocv1.SizeLimitReport) { of.Nodes-- },
			"used":  func(of *elastallocv1.SizeLimitReport) { of.Used-- },
			"type":  func(of *elastallocv1.SizeLimitReport) { of.NodeType = "x" },
		} {
			response := m.respond(best, optimum, solver.ReasonOptimal, nil)
			m.limit(request, response, 0)
			change(response.GetReport().GetSizeLimits()[0])
			if got := audit.Check(t.Context(), request, response, audit.Options{}); got.Verdict != audit.Refuted {
				t.Errorf("a wrong %s: %v", name, got)
			}
		}
		response = m.respond(best, optimum, solver.ReasonOptimal, nil)
		if got := audit.Check(t.Context(), request, response, audit.Options{}); got.Verdict != audit.Refuted {
			t.Errorf("%s: without reports: %v", name, got)
		}
		m.limit(request, response, math.Inf(1))
		if got := audit.Check(t.Context(), request, response, audit.Options{}); got.Verdict != audit.Confirmed {
			t.Errorf("%s: with infinite prices: %v", name, got)
		}
	}
}

// ladder returns size limits of the sizes from 2 on, each with one node less than the one before, up to a number
// of nodes.
func ladder(limits, nodes int32) (ladder []*elastallocv1.SizeLimit) {
	for n := range limits {
		ladder = append(ladder, &elastallocv1.SizeLimit{Size: 2 + n, Nodes: max(0, nodes-n)})
	}
	return ladder
}

func sum(sizes []int32) (sum int32) {
	for _, k := range sizes {
		sum += k
	}
	return sum
}

// TestManySizeLimits audits a decision with more rows than a state can have member by member.
func TestManySizeLimits(t *testing.T) {
	t.Parallel()
	var sizes []int32
	for k := range int32(32) {
		sizes = append(sizes, k+1)
	}
	request := rigid(64, ladder(31, 62), 32, 32)
	for n, j := range request.GetSnapshot().GetJobs() {
		j.AllowedNodes, j.Weight = sizes, new(1+float64(n))
	}
	unlimited := proto.CloneOf(request)
	unlimited.Snapshot.SizeLimits = nil
	m := newModel(t, unlimited)
	best, second, optimum, next := problem.Plan(nil), problem.Plan(nil), math.Inf(-1), math.Inf(-1)
	m.each(func(plan problem.Plan, v float64) {
		if v > next && m.limit(request, m.respond(plan, v, solver.ReasonOptimal, nil), 0) {
			if second, next = plan.Clone(), v; v > optimum {
				second, next, best, optimum = best, optimum, second, v
			}
		}
	})
	for want, plan := range map[audit.Verdict]problem.Plan{audit.Confirmed: best, audit.Refuted: second} {
		response := m.respond(plan, m.Objective(plan), solver.ReasonOptimal, nil)
		m.limit(request, response, 0)
		if got := audit.Check(t.Context(), request, response, audit.Options{}); got.Verdict != want {
			t.Errorf("%v: %v; must be %s", plan, got, want)
		}
	}
}

// TestSizeLimitDecisions audits decisions of the exact backend and of greedy on random requests with size
// limits, under every admission, with and without node types, frozen jobs and running jobs that exceed a
// limit. All must be confirmed, except that rounding may leave one in a hundred open.
func TestSizeLimitDecisions(t *testing.T) {
	t.Parallel()
	counts, open := make(verdicts), 0
	rounds := iterations(500, 20_000)
	for seed := range uint64(rounds) {
		d := newGenerator(seed)
		var request *elastallocv1.AllocateRequest
		for request == nil || request.GetSnapshot().GetGroups() != nil ||
			request.GetOptions().GetObjective() != elastallocv1.Objective_OBJECTIVE_TOTAL_TIME {
			request = d.request(2+d.IntN(60), 1, 1+d.IntN(20), 1+d.IntN(5))
		}
		s := request.GetSnapshot()
		if d.chance(2) {
			d.costly(request)
		}
		d.sizeLimits(s)
		request.Options.Admission = elastallocv1.Admission(1 + seed%4)
		if d.chance(5) {
			request.Options.Backend = elastallocv1.Backend_BACKEND_GREEDY
		}
		if newModel(t, request) == nil {
			continue
		}
		response := decide(t, request)
		got := audit.Check(t.Context(), request, response, audit.Options{})
		counts.count(request.GetOptions().GetAdmission().String()+" "+response.GetReport().GetReason().String(), got.Verdict)
		if isRounding(got) {
			open++
		} else if got.Verdict != audit.Confirmed {
			t.Errorf("seed %d: %v\n%s", seed, got, protojson.Format(request))
		}
	}
	if t.Log(counts); open*100 > rounds {
		t.Errorf("%d of %d are open", open, rounds)
	}
}
