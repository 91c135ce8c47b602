package audit

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

const (
	noLimit   = math.MaxInt
	mostSteps = 24
	// Times, from the shortest one above 0 on.
	moment  = 1e-9
	year    = 365 * 24 * 3600
	forever = math.MaxFloat64
)

// snapshot is a request as the API defines it, with its defaults and without the nodes of
// the jobs that are held for their bad fields. Times are in seconds.
type snapshot struct {
	pool      int
	steps     int // of the model
	step      float64
	groups    []group
	jobs      []job // all of the request, held ones too
	totalTime *totalTime
	admission elastallocv1.Admission
	gap       float64 // asked for
}

// group is a team: the position of its parent or -1, its limit and its quota.
type group struct {
	id                   string
	parent, limit, quota int
	inner                bool // others are part of it
}

// job is a job of the request.
type job struct {
	id         string
	held       bool
	current    int
	group      int       // -1 where there is none
	sizes      []int     // legal, ascending, without 0
	tabled     []int     // the sizes that speeds are of
	speeds     []float64 // nil where the job has an efficiency
	efficiency float64
	demand     float64 // on one node
	weight     float64
	delay      float64
	restart    float64
	waiting    float64
	etaError   float64 // below 0 where it has none of its own
	trained    bool    // holds nodes or has trained
}

// above yields a group and those that it is part of.
func (s *snapshot) above(g int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for g >= 0 && yield(g) {
			g = s.groups[g].parent
		}
	}
}

// reader reads messages and notes the first field whose value the API does not allow.
type reader struct{ bad error }

func (r *reader) want(allowed bool, field string, value any) {
	if !allowed && r.bad == nil {
		r.bad = fmt.Errorf("%s is %v", field, value)
	}
}

// seconds reads a time of least to most, a default where it is unset.
func (r *reader) seconds(d *durationpb.Duration, field string, unset, least, most float64) float64 {
	if d == nil {
		return unset
	}
	t := d.AsDuration() // It saturates, so only what fits survives the way back.
	back, s := durationpb.New(t), t.Seconds()
	fits := d.IsValid() && back.GetSeconds() == d.GetSeconds() && back.GetNanos() == d.GetNanos()
	r.want(fits && s >= least && s <= most, field, t)
	return s
}

// number reads a number of least to most, a default where it is unset.
func number[N int32 | float64](r *reader, v *N, field string, unset, least, most N) N {
	if v == nil {
		return unset
	}
	r.want(*v >= least && *v <= most, field, *v)
	return *v
}

func (r *reader) enum(e protoreflect.Enum, field string) {
	r.want(e.Descriptor().Values().ByNumber(e.Number()) != nil, field, e)
}

func (r *reader) id(id, field string) {
	r.want(len(id) <= 256, field, "longer than 256 bytes")
}

// read reads a request; the error says why it has to be refused.
func read(request *elastallocv1.AllocateRequest) (*snapshot, error) {
	from, r := request.GetSnapshot(), new(reader)
	r.want(from != nil, "snapshot", "missing")
	s := &snapshot{pool: int(from.GetTotalNodes())}
	r.want(s.pool >= 0, "snapshot.total_nodes", s.pool)
	r.id(from.GetId(), "snapshot.id")
	horizon := cmp.Or(from.GetHorizon(), new(elastallocv1.Horizon))
	s.step = r.seconds(horizon.GetStep(), "snapshot.horizon.step", 300, moment, forever)
	s.steps = int(number(r, horizon.Steps, "snapshot.horizon.steps", 5, 1, mostSteps))
	s.readOptions(request.GetOptions(), r)
	ids := s.readGroups(from.GetGroups(), r)
	hold := request.GetOptions().GetBadJobs() == elastallocv1.BadJobs_BAD_JOBS_HOLD
	seen := make(map[string]bool, len(from.GetJobs()))
	for i, f := range from.GetJobs() {
		r.id(f.GetId(), fmt.Sprintf("snapshot.jobs[%d].id", i))
		r.id(f.GetGroupId(), fmt.Sprintf("snapshot.jobs[%d].group_id", i))
		if r.bad != nil {
			break
		}
		of := new(reader)
		of.want(f.GetId() != "" && !seen[f.GetId()], "id", "empty or that of a job before")
		seen[f.GetId()] = true
		j := s.readJob(f, ids, of)
		if j.held = of.bad != nil; j.held {
			r.want(hold, fmt.Sprintf("snapshot.jobs[%d]", i), of.bad)
			s.take(&j)
		}
		s.jobs = append(s.jobs, j)
	}
	return s, r.bad
}

// take takes the nodes of a held job from the pool, limits and quotas.
func (s *snapshot) take(j *job) {
	nodes := max(0, j.current)
	s.pool = max(0, s.pool-nodes)
	for g := range s.above(j.group) {
		if of := &s.groups[g]; of.limit != noLimit {
			of.limit = max(0, of.limit-nodes)
		}
		s.groups[g].quota = max(0, s.groups[g].quota-nodes)
	}
}

// readOptions reads what is asked for. OBJECTIVE_TOTAL_TIME has one step as long as its
// payback.
func (s *snapshot) readOptions(o *elastallocv1.AllocateOptions, r *reader) {
	r.enum(o.GetBackend(), "options.backend")
	r.enum(o.GetFormulation(), "options.formulation")
	r.enum(o.GetObjective(), "options.objective")
	r.enum(o.GetAdmission(), "options.admission")
	r.enum(o.GetBadJobs(), "options.bad_jobs")
	r.seconds(o.GetTimeBudget(), "options.time_budget", 0, moment, forever)
	s.gap, s.admission = o.GetRelativeGap(), o.GetAdmission()
	r.want(s.gap >= 0 && s.gap < 1, "options.relative_gap", s.gap)
	r.want(len(o.GetPriceHint()) <= mostSteps, "options.price_hint", "too long")
	for _, price := range o.GetPriceHint() {
		r.want(price >= 0 && price <= math.MaxFloat64, "options.price_hint", price)
	}
	from := cmp.Or(o.GetTotalTime(), new(elastallocv1.TotalTimeOptions))
	const at = "options.total_time."
	t := &totalTime{
		fairness:   number(r, from.Fairness, at+"fairness", 1, 0, 1e6),
		aging:      r.seconds(from.GetAging(), at+"aging", 8*3600, 0, year),
		price:      r.seconds(from.GetRescalePrice(), at+"rescale_price", 75, 0, year),
		payback:    r.seconds(from.GetPayback(), at+"payback", 900, 1, year),
		pause:      number(r, from.PausePriceFactor, at+"pause_price_factor", 1, 0, 1e6),
		bonus:      r.seconds(from.GetStartBonus(), at+"start_bonus", 500, 0, year),
		cadence:    r.seconds(from.GetCadence(), at+"cadence", 0, 0, year),
		quotaPrice: number(r, from.QuotaPrice, at+"quota_price", 0.3, 0, 1e6),
		etaError:   number(r, from.EtaError, at+"eta_error", 0, 0, 5),
	}
	r.want(t.aging == 0 || t.aging >= 1, at+"aging", t.aging)
	if s.admission != elastallocv1.Admission_ADMISSION_OPTIMIZED {
		t.bonus = 0
	}
	if o.GetObjective() == elastallocv1.Objective_OBJECTIVE_TOTAL_TIME {
		s.totalTime, s.steps, s.step = t, 1, t.payback
		r.want(o.GetFormulation() != elastallocv1.Formulation_FORMULATION_PAPER, "options.formulation", "that of progress")
	}
}

// readGroups reads the groups and returns one more than the position of each id.
func (s *snapshot) readGroups(from []*elastallocv1.Group, r *reader) map[string]int {
	r.want(len(from) == 0 || s.totalTime != nil, "snapshot.groups", "set without OBJECTIVE_TOTAL_TIME")
	r.want(len(from) <= 10_000, "snapshot.groups", "too long")
	ids := make(map[string]int, len(from))
	for i, f := range from {
		f = cmp.Or(f, new(elastallocv1.Group))
		g := group{id: f.GetId(), limit: noLimit, quota: int(f.GetQuota()), parent: -1}
		if f.Limit != nil {
			g.limit = int(f.GetLimit())
		}
		at := fmt.Sprintf("snapshot.groups[%d]", i)
		r.id(g.id, at+".id")
		r.want(g.id != "" && ids[g.id] == 0, at+".id", "empty or that of a group before")
		r.want(g.limit >= 0, at+".limit", g.limit)
		r.want(g.quota >= 0, at+".quota", g.quota)
		ids[g.id] = i + 1
		s.groups = append(s.groups, g)
	}
	for i, f := range from {
		if f.GetParentId() != "" {
			parent := ids[f.GetParentId()] - 1
			r.want(parent >= 0, fmt.Sprintf("snapshot.groups[%d].parent_id", i), "no group's")
			if s.groups[i].parent = parent; parent >= 0 {
				s.groups[parent].inner = true
			}
		}
	}
	for i := range s.groups {
		depth := 0
		for range s.above(i) {
			if depth++; depth > 4 {
				r.want(false, fmt.Sprintf("snapshot.groups[%d].parent_id", i), "too deep or in a circle")
				break
			}
		}
	}
	return ids
}

// readJob reads a job, its id apart.
func (s *snapshot) readJob(from *elastallocv1.Job, ids map[string]int, r *reader) job {
	from = cmp.Or(from, new(elastallocv1.Job))
	j := job{
		id: from.GetId(), current: int(from.GetCurrentNodes()), group: -1,
		weight:   number(r, from.Weight, "weight", 1, 0, 1e12),
		delay:    r.seconds(from.GetRescaleDelay(), "rescale_delay", 0, 0, forever),
		restart:  r.seconds(from.GetRestartTime(), "restart_time", 0, 0, forever),
		waiting:  r.seconds(from.GetWaitingTime(), "waiting_time", 0, 0, forever),
		demand:   r.seconds(from.GetRemainingEta(), "remaining_eta", 0, moment, forever),
		etaError: number(r, from.EtaError, "eta_error", -1, 0, 5),
	}
	j.trained = r.seconds(from.GetTrainingTime(), "training_time", 0, 0, forever) > 0 || j.current > 0
	r.want(j.demand > 0, "remaining_eta", j.demand)
	r.want(j.current >= 0, "current_nodes", j.current)
	r.want(j.delay == 0 || j.restart == 0, "restart_time", "set beside rescale_delay")
	if len(s.groups) > 0 {
		j.group = ids[from.GetGroupId()] - 1
		r.want(j.group >= 0 && !s.groups[max(0, j.group)].inner, "group_id", "none of a group without others in it")
	}
	worked := r.seconds(from.GetWorkDone(), "work_done", 0, 0, forever)
	j.readSizes(from, r)
	if from.EtaNodes != nil && r.bad == nil {
		nodes := int(from.GetEtaNodes())
		r.want(nodes >= 1 && (j.speeds == nil || nodes >= j.tabled[0] && nodes <= j.tabled[len(j.tabled)-1]), "eta_nodes", nodes)
		j.demand *= j.speedAt(float64(nodes))
		r.want(j.demand >= moment, "remaining_eta on one node", j.demand)
	}
	if s.totalTime == nil {
		j.demand = max(j.demand, worked/4)
	}
	return j
}

// readSizes reads the legal sizes and their speeds, which a table may have of all allowed ones.
func (j *job) readSizes(from *elastallocv1.Job, r *reader) {
	var allowed []int
	for i, k := range from.GetAllowedNodes() {
		r.want(k >= 1 && (i == 0 || int(k) > allowed[i-1]), "allowed_nodes", from.GetAllowedNodes())
		allowed = append(allowed, int(k))
	}
	most := int32(16)
	if len(allowed) > 0 {
		most = slices.Max(from.GetAllowedNodes())
	}
	least := number(r, from.MinNodes, "min_nodes", 1, 1, math.MaxInt32)
	most = number(r, from.MaxNodes, "max_nodes", most, least, math.MaxInt32)
	named := allowed
	for bit := 0; len(from.GetAllowedNodes()) == 0 && least != most && bit < 31; bit++ {
		named = append(named, 1<<bit)
	}
	if len(named) == 0 {
		named = []int{int(least)}
	}
	for _, k := range named {
		if k >= int(least) && k <= int(most) {
			j.sizes = append(j.sizes, k)
		}
	}
	r.want(len(j.sizes) >= 1 && len(j.sizes) <= 32, "allowed_nodes", fmt.Sprintf("%v with %d sizes in range", named, len(j.sizes)))
	j.efficiency = 0.8
	switch curve := from.GetScaling().GetCurve().(type) {
	case *elastallocv1.Scaling_DoublingEfficiency:
		j.efficiency = curve.DoublingEfficiency
		r.want(j.efficiency > 0 && j.efficiency <= 1, "scaling.doubling_efficiency", j.efficiency)
	case *elastallocv1.Scaling_Table:
		if j.speeds, j.tabled = curve.Table.GetSpeeds(), j.sizes; len(j.speeds) == len(allowed) {
			j.tabled = allowed
		}
		r.want(len(j.speeds) > 0 && len(j.speeds) == len(j.tabled), "scaling.table", j.speeds)
		for _, v := range j.speeds {
			r.want(v > 0 && v <= 1e9, "scaling.table", j.speeds)
		}
	}
}

// used returns those of some nodes that the job can train on: between two sizes of a table
// the smaller.
func (j *job) used(nodes int) float64 {
	if j.speeds == nil {
		return float64(nodes)
	}
	above, _ := slices.BinarySearch(j.tabled, nodes+1)
	return float64(append([]int{0}, j.tabled...)[above])
}

// speedAt returns the speed on any nodes: between two sizes of a table on a straight line of
// logarithms, beyond its ends that of the nearest.
func (j *job) speedAt(nodes float64) float64 {
	if nodes <= 0 {
		return 0
	}
	if j.speeds == nil {
		return nodes * math.Pow(j.efficiency, math.Log2(nodes))
	}
	last := len(j.tabled) - 1
	nodes = min(max(nodes, float64(j.tabled[0])), float64(j.tabled[last]))
	n := 0
	for float64(j.tabled[n]) < nodes {
		n++
	}
	if to := float64(j.tabled[n]); to > nodes {
		from := float64(j.tabled[n-1])
		return j.speeds[n-1] * math.Pow(j.speeds[n]/j.speeds[n-1], math.Log(nodes/from)/math.Log(to/from))
	}
	return j.speeds[n]
}

// known returns an error where a message has fields that the check does not know, such as
// those of a newer version: they may change what is asked for.
func known(m protoreflect.Message) (err error) {
	if len(m.GetUnknown()) > 0 {
		return leaveOpen("%s has fields that the check does not know", m.Descriptor().Name())
	}
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Message() == nil:
		case field.IsList():
			for n := 0; n < v.List().Len() && err == nil; n++ {
				err = known(v.List().Get(n).Message())
			}
		default:
			err = known(v.Message())
		}
		return err == nil
	})
	return err
}
