package audit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/report"
)

// generator generates random requests from a seed.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, 23))} }

func (d generator) chance(one int) bool { return d.IntN(one) == 0 }

func (d generator) span(low, high float64) *durationpb.Duration {
	return durationpb.New(time.Duration(low * math.Pow(high/low, d.Float64()) * 1e9))
}

// small returns a request whose legal plans a test can enumerate, with size limits for half of those that
// may have them. New fields are set at its end: tests of hard requests depend on the random numbers of request and job.
func (d generator) small() *elastallocv1.AllocateRequest {
	r := d.smallWithoutLimits()
	s := r.GetSnapshot()
	if r.GetOptions().GetObjective() == elastallocv1.Objective_OBJECTIVE_TOTAL_TIME && s.GetGroups() == nil && d.chance(2) {
		d.sizeLimits(s)
	}
	if o := r.GetOptions().GetTotalTime(); o != nil && d.chance(2) {
		o.SharePrice = new([]float64{0, 0.1, 10, d.Float64()}[d.IntN(4)])
	}
	for _, j := range s.GetJobs() {
		d.restarts(j)
	}
	for n, j := range s.GetJobs() {
		if d.chance(10) {
			s.Jobs[n] = d.kept(j)
		}
	}
	if o := r.GetOptions(); o.GetObjective() == elastallocv1.Objective_OBJECTIVE_TOTAL_TIME && d.chance(4) {
		o.Objective = elastallocv1.Objective_OBJECTIVE_UNSPECIFIED // The default is the same.
		if d.chance(2) {
			o.Admission = elastallocv1.Admission_ADMISSION_UNSPECIFIED
		}
	}
	if r.GetOptions().GetObjective() != elastallocv1.Objective_OBJECTIVE_PROGRESS && d.chance(2) {
		d.share(s)
	}
	return r
}

// share adds groups to a request with node types or size limits. To one with groups, it adds size limits or one node
// type. Half of the groups have limits on some types.
func (d generator) share(s *elastallocv1.Snapshot) {
	switch {
	case s.GetGroups() == nil && len(s.GetNodeTypes()) > 0 || s.GetSizeLimits() != nil:
		d.groups(s)
		for _, j := range s.GetJobs() {
			j.GroupId = fmt.Sprint("leaf-", d.IntN(3))
		}
	case s.GetGroups() == nil:
		return
	case d.chance(2):
		d.sizeLimits(s)
	default:
		s.NodeTypes = []*elastallocv1.NodeType{{Id: "type-0", Nodes: s.GetTotalNodes()}}
		for _, j := range s.GetJobs() {
			if j.GetCurrentNodes() != 0 {
				j.CurrentNodeType = "type-0"
			}
		}
	}
	for _, g := range s.GetGroups() {
		for _, t := range s.GetNodeTypes() {
			if d.chance(4) {
				g.TypeLimits = append(g.TypeLimits, &elastallocv1.GroupTypeLimit{NodeType: t.GetId(), Limit: d.Int32N(8)})
			}
		}
	}
}

// kept returns a job that keeps its nodes. Half of these jobs have no other fields than those that place the
// nodes.
func (d generator) kept(j *elastallocv1.Job) *elastallocv1.Job {
	j.Keep = true
	if d.chance(2) {
		return j
	}
	kept := &elastallocv1.Job{
		Id: j.GetId(), CurrentNodes: j.GetCurrentNodes(), CurrentNodeType: j.GetCurrentNodeType(), PieceNodes: j.PieceNodes, Keep: true,
	}
	if d.chance(2) {
		kept.GroupId = j.GetGroupId()
	}
	if d.chance(20) {
		kept.CurrentNodes = -1
	}
	return kept
}

// restarts sets the restarts of a job. Half of the running jobs have used their restart budgets if their restart
// times are not 0. Few jobs have restarts that are not valid.
func (d generator) restarts(j *elastallocv1.Job) {
	if j.RestartTime == nil && d.chance(4) {
		j.RestartTime = durationpb.New(0)
	}
	times, since, restart := d.IntN(4), time.Duration(0), j.GetRestartTime().AsDuration()
	if j.GetCurrentNodes() > 0 && d.chance(2) {
		times, restart = 3, restart/2
		if sizes := j.GetAllowedNodes(); len(sizes) > 0 {
			j.CurrentNodes = sizes[d.IntN(len(sizes))]
		} else {
			j.CurrentNodes = 1 << d.IntN(4)
		}
	}
	if d.chance(40) {
		times = 4
	}
	for range times {
		since += time.Duration(d.Float64() * 8 * float64(restart))
		j.RecentRestarts = append(j.RecentRestarts, durationpb.New(since))
	}
	if d.chance(40) {
		slices.Reverse(j.RecentRestarts)
	}
}

func (d generator) smallWithoutLimits() *elastallocv1.AllocateRequest {
	switch nodes := d.IntN(13); d.IntN(8) {
	case 0: // The largest number of sizes.
		return d.request(20+d.IntN(30), 1+d.IntN(2), 1+d.IntN(2), 32)
	case 1: // The largest number of steps.
		return d.request(nodes, 24, 1, 1)
	case 2, 3:
		return d.costly(d.request(nodes, 1+d.IntN(3), 1+d.IntN(5), 1+d.IntN(2)))
	default:
		return d.request(nodes, 1+d.IntN(4), d.IntN(5), 1+d.IntN(3))
	}
}

// request returns a request with the given numbers of nodes, steps and jobs, and of sizes per job.
func (d generator) request(nodes, steps, jobs, sizes int) *elastallocv1.AllocateRequest {
	s := &elastallocv1.Snapshot{Id: "random", TotalNodes: int32(nodes)}
	o := &elastallocv1.AllocateOptions{
		Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, Admission: elastallocv1.Admission(d.IntN(5)), IncludePlan: true,
		BadJobs: elastallocv1.BadJobs_BAD_JOBS_HOLD,
	}
	if d.chance(3) {
		o.Objective, o.Admission = elastallocv1.Objective_OBJECTIVE_TOTAL_TIME, max(o.Admission, elastallocv1.Admission_ADMISSION_FIFO)
		o.TotalTime = d.totalTime()
		steps, jobs = 1, jobs+d.IntN(3)
		switch d.IntN(4) {
		case 0, 1:
			if sizes < 32 {
				d.groups(s)
			}
		case 2:
			d.nodeTypes(s)
		}
	}
	s.Horizon = &elastallocv1.Horizon{Steps: new(int32(steps)), Step: d.span(1, 1000)}
	for i := range jobs {
		s.Jobs = append(s.Jobs, d.job(i, sizes, s))
	}
	return &elastallocv1.AllocateRequest{Snapshot: s, Options: o}
}

// costly makes changes expensive: restarts are long, jobs load, new jobs are equal to running jobs, and
// the running jobs may exceed the pool.
func (d generator) costly(r *elastallocv1.AllocateRequest) *elastallocv1.AllocateRequest {
	s := r.GetSnapshot()
	if d.chance(2) {
		r.Options.Admission = elastallocv1.Admission_ADMISSION_START_FIRST
	}
	for i, j := range s.GetJobs() {
		if i > 0 && d.chance(2) {
			id, waiting := j.GetId(), j.GetWaitingTime()
			j = proto.CloneOf(s.GetJobs()[d.IntN(i)])
			j.Id, j.WaitingTime, s.Jobs[i] = id, waiting, j
		}
		for _, speed := range j.GetSpeeds() {
			if n := len(speed.GetAllowedNodes()); n > 0 && d.chance(2) { // So that the smallest sizes differ.
				speed.AllowedNodes = j.GetAllowedNodes()[len(j.GetAllowedNodes())-n:]
			}
		}
		if j.ResizeDelay == nil && !d.chance(4) {
			j.RestartTime = d.span(10, 5000)
		}
		if d.chance(2) {
			j.EtaError = new(d.Float64() / 5)
		}
		if d.chance(2) {
			j.TrainingTime = nil
		}
		if j.CurrentNodes = 0; d.chance(2) {
			j.CurrentNodes = 1 + d.Int32N(8)
			if types := s.GetNodeTypes(); len(types) > 0 {
				j.CurrentNodeType = types[d.IntN(len(types))].GetId()
			}
		}
	}
	return r
}

func (d generator) totalTime() *elastallocv1.TotalTimeOptions {
	o := &elastallocv1.TotalTimeOptions{}
	if d.chance(2) {
		o.Fairness, o.PausePriceFactor, o.QuotaPrice = new(d.Float64()*3), new(d.Float64()*3), new(d.Float64())
	}
	if d.chance(2) {
		o.Aging, o.ResizePrice, o.Payback = d.span(1, 1e6), d.span(1, 1e3), d.span(1, 1e4)
	}
	if d.chance(2) {
		o.StartBonus, o.Cadence = d.span(1, 1e4), d.span(1, 1e4)
	}
	if d.chance(3) {
		o.EtaError = d.etaError()
	}
	return o
}

// etaError returns an ETA error, often one that other jobs have, too.
func (d generator) etaError() *float64 {
	return new([]float64{0, 9e-7, 0.1, 0.7, 1.4, 5, d.Float64() * 2}[d.IntN(7)])
}

// groups adds a tree of groups. The leaves have the ids "leaf-…".
func (d generator) groups(s *elastallocv1.Snapshot) {
	draw := func(id, parent string) {
		g := &elastallocv1.Group{Id: id, ParentId: parent, Quota: int32(d.IntN(6))}
		if d.chance(2) {
			g.Limit = new(int32(d.IntN(8)))
		}
		s.Groups = append(s.Groups, g)
	}
	draw("leaf-0", "")
	draw("leaf-1", "top")
	draw("leaf-2", "middle")
	draw("middle", "top")
	draw("top", "")
}

// nodeTypes splits the pool into types with the ids "type-…".
func (d generator) nodeTypes(s *elastallocv1.Snapshot) {
	left := s.GetTotalNodes()
	for n := range 1 + d.IntN(4) {
		nodes := d.Int32N(left + 1)
		s.NodeTypes = append(s.NodeTypes, &elastallocv1.NodeType{Id: fmt.Sprint("type-", n), Nodes: nodes})
		if left -= nodes; d.chance(2) {
			s.NodeTypes[n].Speed = new(0.3 + 3*d.Float64())
		}
	}
	s.NodeTypes[0].Nodes += left
	if d.chance(2) {
		s.TotalNodes = 0
	}
}

// onTypes sets the fields of a job about node types.
func (d generator) onTypes(j *elastallocv1.Job, types []*elastallocv1.NodeType) {
	one := func() string { return types[d.IntN(len(types))].GetId() }
	if j.GetCurrentNodes() > 0 || d.chance(4) {
		j.CurrentNodeType = one()
	}
	if d.chance(3) {
		j.EtaNodeType = one()
	}
	if d.chance(3) {
		j.MoveTime = d.span(1, 1000)
	}
	if d.chance(2) {
		return
	}
	for _, n := range d.Perm(len(types))[:1+d.IntN(len(types))] {
		speed := &elastallocv1.TypeSpeed{NodeType: types[n].GetId()}
		if d.chance(2) {
			speed.Factor = new(0.3 + 3*d.Float64())
		}
		if sizes := j.GetAllowedNodes(); len(sizes) > 1 && d.chance(3) {
			speed.AllowedNodes = sizes[:1+d.IntN(len(sizes))]
		}
		if d.chance(4) {
			speed.Scaling = &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_DoublingEfficiency{DoublingEfficiency: 0.4 + d.Float64()/2}}
		}
		j.Speeds = append(j.Speeds, speed)
	}
}

func (d generator) job(i, sizes int, s *elastallocv1.Snapshot) *elastallocv1.Job {
	j := &elastallocv1.Job{Id: fmt.Sprint("job-", i), RemainingEta: d.span(10, 1e4)}
	if d.chance(2) {
		j.CurrentNodes = int32(d.IntN(6))
	}
	if d.chance(3) {
		j.TrainingTime, j.WaitingTime = d.span(1, 1e4), d.span(1, 1e5)
	}
	if d.chance(3) {
		j.WorkDone, j.Overrun = d.span(1, 1e6), 4*d.Float64()
	}
	if d.chance(3) {
		j.EtaError = d.etaError()
	}
	switch d.IntN(4) {
	case 0:
		j.Weight = new(d.Float64() * 10)
	case 1:
		j.Weight = new(math.Pow(10, d.Float64()*18-6))
	case 2:
		if d.chance(4) {
			j.Weight = new(0.0)
		}
	}
	switch d.IntN(4) {
	case 0:
		j.ResizeDelay = d.span(1, 100)
	case 1:
		j.RestartTime = d.span(1, 1000)
	}
	if len(s.GetGroups()) > 0 {
		j.GroupId = fmt.Sprint("leaf-", d.IntN(3))
	}
	if d.chance(12) {
		bad := []func(){
			func() { j.RemainingEta = nil }, func() { j.Weight = new(-1.0) }, func() { j.MinNodes = new(int32(0)) },
			func() { j.RestartTime, j.ResizeDelay = d.span(1, 2), d.span(1, 2) }, func() { j.Id = "job-0" },
			func() { j.AllowedNodes = []int32{2, 1} }, func() { j.EtaNodes = new(int32(-1)) },
			func() { j.Scaling = &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_DoublingEfficiency{}} },
		}
		bad[d.IntN(len(bad))]()
		return j
	}
	if sizes == 32 || d.chance(2) {
		for len(j.AllowedNodes) < sizes {
			if k := int32(1 + d.IntN(max(8, 2*sizes))); !slices.Contains(j.AllowedNodes, k) {
				j.AllowedNodes = append(j.AllowedNodes, k)
			}
		}
		slices.Sort(j.AllowedNodes)
	} else {
		j.MaxNodes = new(int32(1) << d.IntN(sizes))
	}
	if d.chance(2) && j.AllowedNodes != nil {
		speed, table := 1.0, &elastallocv1.SpeedTable{}
		for range j.AllowedNodes {
			table.Speeds = append(table.Speeds, speed)
			speed *= 0.9 + d.Float64()
		}
		j.Scaling = &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: table}}
		j.EtaNodes = new(j.AllowedNodes[d.IntN(len(j.AllowedNodes))])
	} else if d.chance(2) {
		j.Scaling = &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_DoublingEfficiency{DoublingEfficiency: 0.5 + d.Float64()/2}}
		j.EtaNodes = new(int32(1 + d.IntN(8)))
	}
	if len(s.GetNodeTypes()) > 0 {
		d.onTypes(j, s.GetNodeTypes())
	}
	return j
}

// model is a request in the model of the solver, which is independent of the model of the check.
type model struct {
	request *elastallocv1.AllocateRequest
	good    *solver.Snapshot // without frozen jobs
	held    solver.FrozenJobs
	options solver.Options
	*problem.Problem
}

// newModel returns the model of a request, or nil if the request is invalid.
func newModel(t *testing.T, request *elastallocv1.AllocateRequest) *model {
	t.Helper()
	converted, err := apiconv.FromAllocateRequest(request, 1000)
	if err != nil {
		return nil
	}
	m := &model{request: request, options: converted.Options.WithDefaults()}
	m.good = converted.Snapshot.WithDefaults()
	m.good, m.held = m.good.Freeze(m.options.BadJobs == solver.BadJobsHold)
	if solver.Validate(m.good, m.options, 1000, elastalloc.BackendNames()) != nil {
		return nil
	}
	m.Problem = problem.NewProblemFor(m.good, m.options)
	return m
}

// count returns the number of combinations of sizes.
func (m *model) count() float64 {
	count := 1.0
	for i := range m.Jobs {
		count *= math.Pow(float64(len(m.Jobs[i].Options)), float64(m.Steps))
	}
	return count
}

// each calls a function with every legal plan and its value.
func (m *model) each(visit func(problem.Plan, float64)) {
	plan := problem.NewPlan(len(m.Jobs), m.Steps)
	var walk func(i, step int)
	walk = func(i, step int) {
		if step == m.Steps {
			i, step = i+1, 0
		}
		if i == len(m.Jobs) {
			if m.Check(plan) == nil {
				visit(plan, m.Objective(plan))
			}
			return
		}
		for _, k := range m.Jobs[i].Options {
			plan[i][step] = k
			walk(i, step+1)
		}
	}
	walk(0, 0)
}

// respond returns a response with a plan, a bound and a reason.
func (m *model) respond(plan problem.Plan, bound float64, reason solver.Reason, prices []float64) *elastallocv1.AllocateResponse {
	plan = plan.Clone()
	m.ReleaseFinished(plan)
	d := report.Decide(m.good, m.Problem, problem.Result{Plan: plan})
	r := &d.Report
	r.Backend, r.Reason, r.Limit, r.NodePrices = solver.BackendExact, reason, solver.LimitNone, prices
	r.Objective, r.Bound = m.Objective(plan), bound
	r.RelativeGap = solver.RelativeGap(r.Objective, r.Bound)
	d = report.RestoreFrozen(m.held, d, m.Steps)
	response := apiconv.ToAllocateResponse(m.request.GetSnapshot().GetId(), d, true)
	// Encode and decode the response, as for a caller.
	text, err := proto.Marshal(response)
	if err != nil {
		panic(err)
	}
	arrived := &elastallocv1.AllocateResponse{}
	if err := proto.Unmarshal(text, arrived); err != nil {
		panic(err)
	}
	return arrived
}

// certificate returns random prices of sizes, positive and negative, possibly invalid.
func (d generator) certificate(m *model) *elastallocv1.Certificate {
	certificate, paid := &elastallocv1.Certificate{}, float64(d.IntN(3))/2
	for i := range m.Jobs {
		if d.chance(2) {
			continue
		}
		prices := &elastallocv1.Certificate_SizePrices{Job: int32(m.index(i))}
		for range m.Steps {
			for _, k := range m.Jobs[i].Options {
				prices.Prices = append(prices.Prices, float64(k.Nodes)*(d.Float64()-paid)*m.Jobs[i].Gain[0]/3)
			}
		}
		if d.chance(16) {
			prices.Prices[d.IntN(len(prices.Prices))] = d.nonsense()
		}
		certificate.SizePrices = append(certificate.SizePrices, prices)
	}
	return certificate
}

// nonsense returns an invalid price.
func (d generator) nonsense() float64 {
	return []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64}[d.IntN(5)]
}

// index returns the position of the allocation of job i of the model.
func (m *model) index(i int) int {
	id := m.good.Jobs[m.Jobs[i].Index].ID
	return slices.IndexFunc(m.held.Snapshot().Jobs, func(j solver.Job) bool { return j.ID == id })
}

// plan returns the plan of a response.
func (m *model) plan(response *elastallocv1.AllocateResponse) problem.Plan {
	plan := problem.NewPlan(len(m.Jobs), m.Steps)
	for i := range plan {
		of := response.GetAllocations()[m.index(i)]
		for step, k := range of.GetPlannedNodes() {
			plan[i][step] = m.good.Option(of.GetNodeType(), int(k))
		}
	}
	return plan
}
