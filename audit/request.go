package audit

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

const (
	noLimit   = math.MaxInt
	mostSteps = 24
	mostTypes = 8
	// Times, from the shortest one above 0 on.
	moment  = 1e-9
	year    = 365 * 24 * 3600
	forever = math.MaxFloat64
)

// snapshot is a request as the API defines it, with its defaults and without the nodes of
// the jobs that are held for their bad fields. Times are in seconds.
type snapshot struct {
	nodes     []int // of each node type; one number where all nodes are alike
	types     []nodeType
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

// nodeType is a kind of nodes, held ones too, and the speed of one of them.
type nodeType struct {
	id    string
	nodes int
	speed float64
}

// job is a job of the request.
type job struct {
	id       string
	held     bool
	current  int
	on       int     // position of the type of its nodes, 0 where all are alike, -1 where unknown
	group    int     // -1 where there is none
	kinds    []kind  // the nodes that it can train on
	here     kind    // those that it holds
	demand   float64 // on one reference node
	weight   float64
	delay    float64
	restart  float64
	move     float64
	waiting  float64
	etaError float64 // below 0 where it has none of its own
	trained  bool    // holds nodes or has trained
}

// kind is a node type as a job uses it: of speed(k) = factor curve(k).
type kind struct {
	curve
	on     int // position of the type
	factor float64
}

// curve is how fast a job trains on some nodes, against one of them.
type curve struct {
	sizes      []int     // legal, ascending, without 0
	tabled     []int     // the sizes that speeds are of
	speeds     []float64 // nil where there is an efficiency
	efficiency float64
}

// kindOn returns how a job trains on nodes of a type, nil where it does not.
func (j *job) kindOn(on int) *kind {
	for n := range j.kinds {
		if j.kinds[n].on == on {
			return &j.kinds[n]
		}
	}
	return nil
}

// speed returns the speed on some nodes against one reference node.
func (k *kind) speed(nodes float64) float64 { return k.factor * k.at(nodes) }

// most returns the largest size.
func (c *curve) most() float64 { return float64(c.sizes[len(c.sizes)-1]) }

// several reports whether there are several node types.
func (s *snapshot) several() bool { return len(s.nodes) > 1 }

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

// read reads a request; the error says why it has to be refused.
func read(request *elastallocv1.AllocateRequest) (*snapshot, error) {
	from, r := request.GetSnapshot(), new(reader)
	_ = protorange.Range(request.ProtoReflect(), func(at protopath.Values) error { // r has the error.
		switch last := at.Index(-1); of := last.Value.Interface().(type) {
		case string:
			r.want(len(of) <= 256, at.Path.String(), "longer than 256 bytes")
		case protoreflect.EnumNumber:
			r.want(last.Step.FieldDescriptor().Enum().Values().ByNumber(of) != nil, at.Path.String(), of)
		}
		return nil
	})
	r.want(from != nil, "snapshot", "missing")
	s := &snapshot{nodes: []int{int(from.GetTotalNodes())}}
	r.want(s.nodes[0] >= 0, "snapshot.total_nodes", s.nodes[0])
	horizon := cmp.Or(from.GetHorizon(), new(elastallocv1.Horizon))
	s.step = r.seconds(horizon.GetStep(), "snapshot.horizon.step", 300, moment, forever)
	s.steps = int(number(r, horizon.Steps, "snapshot.horizon.steps", 5, 1, mostSteps))
	s.readOptions(request.GetOptions(), r)
	s.readTypes(from.GetNodeTypes(), r)
	ids := s.readGroups(from.GetGroups(), r)
	hold := request.GetOptions().GetBadJobs() == elastallocv1.BadJobs_BAD_JOBS_HOLD
	seen := make(map[string]bool, len(from.GetJobs()))
	for i, f := range from.GetJobs() {
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
	if j.on >= 0 {
		s.nodes[j.on] = max(0, s.nodes[j.on]-nodes)
	}
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
	r.want(len(from) == 0 || s.totalTime != nil && !s.several(), "snapshot.groups", "set without OBJECTIVE_TOTAL_TIME or beside several node types")
	r.want(len(from) <= 10_000, "snapshot.groups", "too long")
	ids := make(map[string]int, len(from))
	for i, f := range from {
		f = cmp.Or(f, new(elastallocv1.Group))
		g := group{id: f.GetId(), limit: noLimit, quota: int(f.GetQuota()), parent: -1}
		if f.Limit != nil {
			g.limit = int(f.GetLimit())
		}
		at := fmt.Sprintf("snapshot.groups[%d]", i)
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

// readTypes reads the node types, of which total_nodes is unset or the sum.
func (s *snapshot) readTypes(from []*elastallocv1.NodeType, r *reader) {
	if len(from) == 0 {
		return
	}
	r.want(len(from) <= mostTypes, "snapshot.node_types", "too long")
	r.want(len(from) == 1 || s.totalTime != nil, "snapshot.node_types", "several without OBJECTIVE_TOTAL_TIME")
	total, sum := s.nodes[0], 0
	s.nodes = nil
	for i, f := range from {
		f = cmp.Or(f, new(elastallocv1.NodeType))
		at := fmt.Sprintf("snapshot.node_types[%d]", i)
		r.want(f.GetId() != "" && s.typeOf(f.GetId()) < 0, at+".id", "empty or that of a type before")
		r.want(f.GetNodes() >= 0, at+".nodes", f.GetNodes())
		speed := number(r, f.Speed, at+".speed", 1, math.SmallestNonzeroFloat64, 1e9)
		s.types, s.nodes = append(s.types, nodeType{f.GetId(), int(f.GetNodes()), speed}), append(s.nodes, int(f.GetNodes()))
		sum += int(f.GetNodes())
	}
	r.want(sum <= math.MaxInt32 && (total == 0 || total == sum), "snapshot.total_nodes", total)
}

// typeOf returns the position of a node type, -1 where there is none of that name.
func (s *snapshot) typeOf(id string) int {
	return slices.IndexFunc(s.types, func(t nodeType) bool { return t.id == id })
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
	j.move = r.seconds(from.GetMoveTime(), "move_time", j.restart, 0, forever)
	j.trained = r.seconds(from.GetTrainingTime(), "training_time", 0, 0, forever) > 0 || j.current > 0
	r.want(j.demand > 0, "remaining_eta", j.demand)
	r.want(j.current >= 0, "current_nodes", j.current)
	r.want(from.GetOverrun() >= 0 && from.GetOverrun() <= math.MaxFloat64, "overrun", from.GetOverrun())
	r.want(j.delay == 0 || j.restart == 0, "restart_time", "set beside rescale_delay")
	if len(s.groups) > 0 {
		j.group = ids[from.GetGroupId()] - 1
		r.want(j.group >= 0 && !s.groups[max(0, j.group)].inner, "group_id", "none of a group without others in it")
	}
	worked := r.seconds(from.GetWorkDone(), "work_done", 0, 0, forever)
	measured := s.readKinds(&j, from, r)
	if from.EtaNodes != nil && r.bad == nil {
		nodes, of := int(from.GetEtaNodes()), measured.tabled
		r.want(nodes >= 1 && (len(of) == 0 || nodes >= of[0] && nodes <= of[len(of)-1]), "eta_nodes", nodes)
		measured.factor *= measured.at(float64(nodes))
	}
	j.demand *= measured.factor
	r.want(j.demand >= moment, "remaining_eta on one node", j.demand)
	if s.totalTime == nil {
		j.demand = max(j.demand, worked/4)
	}
	return j
}

// readKinds reads what a job can train on, and returns the nodes that its ETA is measured on.
func (s *snapshot) readKinds(j *job, from *elastallocv1.Job, r *reader) (measured kind) {
	if len(s.types) == 0 && len(from.GetSpeeds()) > 0 {
		from = proto.CloneOf(from)
		from.Speeds = nil // Of no type.
	}
	own := readCurve(from, &elastallocv1.TypeSpeed{Scaling: from.GetScaling()}, nil, "", r)
	measured = kind{curve: own, factor: 1}
	if len(s.types) == 0 {
		j.here, j.kinds = measured, []kind{measured}
		return measured
	}
	j.on = s.typeOf(from.GetCurrentNodeType())
	r.want(j.on >= 0 || from.GetCurrentNodeType() == "" && j.current == 0, "current_node_type", from.GetCurrentNodeType())
	seen := make(map[int]bool)
	for i, f := range from.GetSpeeds() {
		at := fmt.Sprintf("speeds[%d].", i)
		on := s.typeOf(f.GetNodeType())
		r.want(on >= 0 && !seen[on], at+"node_type", f.GetNodeType())
		seen[on] = true
		factor := number(r, f.Factor, at+"factor", 0, math.SmallestNonzeroFloat64, 1e9)
		if on >= 0 && f.Factor == nil {
			factor = s.types[on].speed
		}
		j.kinds = append(j.kinds, kind{readCurve(from, f, &own, at, r), on, factor})
	}
	slices.SortFunc(j.kinds, func(a, b kind) int { return cmp.Compare(a.on, b.on) })
	for on := range s.types {
		if len(from.GetSpeeds()) == 0 {
			j.kinds = append(j.kinds, kind{own, on, s.types[on].speed})
		}
	}
	of := func(on int) kind { // One that it does not train on is as any other is to it.
		if k := j.kindOn(on); k != nil {
			return *k
		}
		return kind{own, on, s.types[max(0, on)].speed}
	}
	if j.here = of(j.on); from.GetEtaNodeType() != "" {
		on := s.typeOf(from.GetEtaNodeType())
		r.want(on >= 0, "eta_node_type", from.GetEtaNodeType())
		return of(on)
	}
	return measured
}

// readCurve reads legal sizes and their speeds, which a table may have of all allowed ones.
// What a type does not name is as the job's own curve has it.
func readCurve(job *elastallocv1.Job, from *elastallocv1.TypeSpeed, own *curve, at string, r *reader) (c curve) {
	named := from.GetAllowedNodes()
	if len(named) == 0 {
		named = job.GetAllowedNodes()
	}
	var allowed []int
	for i, k := range named {
		r.want(k >= 1 && (i == 0 || int(k) > allowed[i-1]), at+"allowed_nodes", named)
		allowed = append(allowed, int(k))
	}
	c.sizes = sizesOf(job, allowed, at, r)
	if own != nil && from.GetScaling().GetCurve() == nil {
		for _, k := range c.sizes {
			r.want(own.speeds == nil || slices.Contains(own.tabled, k), at+"allowed_nodes", k)
		}
		return curve{c.sizes, own.tabled, own.speeds, own.efficiency}
	}
	c.efficiency = 0.8
	switch of := from.GetScaling().GetCurve().(type) {
	case *elastallocv1.Scaling_DoublingEfficiency:
		c.efficiency = of.DoublingEfficiency
		r.want(c.efficiency > 0 && c.efficiency <= 1, at+"scaling.doubling_efficiency", c.efficiency)
	case *elastallocv1.Scaling_Table:
		if c.speeds, c.tabled = of.Table.GetSpeeds(), c.sizes; len(c.speeds) == len(allowed) {
			c.tabled = allowed
		}
		r.want(len(c.speeds) > 0 && len(c.speeds) == len(c.tabled), at+"scaling.table", c.speeds)
		for _, v := range c.speeds {
			r.want(v > 0 && v <= 1e9, at+"scaling.table", c.speeds)
		}
	}
	return c
}

// sizesOf returns the allowed sizes, else powers of two, from min_nodes to max_nodes.
func sizesOf(job *elastallocv1.Job, allowed []int, at string, r *reader) (sizes []int) {
	most := int32(16)
	if of := job.GetAllowedNodes(); len(of) > 0 {
		most = slices.Max(of)
	}
	for _, own := range job.GetSpeeds() {
		for _, k := range own.GetAllowedNodes() {
			most = max(most, k)
		}
	}
	least := number(r, job.MinNodes, "min_nodes", 1, 1, math.MaxInt32)
	most = number(r, job.MaxNodes, "max_nodes", most, least, math.MaxInt32)
	if len(allowed) == 0 && least == most {
		allowed = []int{int(least)}
	} else if len(allowed) == 0 {
		for bit := range 31 {
			allowed = append(allowed, 1<<bit)
		}
	}
	for _, k := range allowed {
		if k >= int(least) && k <= int(most) {
			sizes = append(sizes, k)
		}
	}
	r.want(len(sizes) >= 1 && len(sizes) <= 32, at+"allowed_nodes", fmt.Sprintf("%v with %d sizes in range", allowed, len(sizes)))
	return sizes
}

// used returns those of some nodes that the job can train on: between two sizes of a table
// the smaller.
func (c *curve) used(nodes int) float64 {
	if c.speeds == nil {
		return float64(nodes)
	}
	above, _ := slices.BinarySearch(c.tabled, nodes+1)
	return float64(append([]int{0}, c.tabled...)[above])
}

// at returns the curve at any nodes: between two sizes of a table on a straight line of
// logarithms, beyond its ends that of the nearest.
func (c *curve) at(nodes float64) float64 {
	if nodes <= 0 {
		return 0
	}
	if c.speeds == nil {
		return nodes * math.Pow(c.efficiency, math.Log2(nodes))
	}
	last := len(c.tabled) - 1
	nodes = min(max(nodes, float64(c.tabled[0])), float64(c.tabled[last]))
	n := 0
	for float64(c.tabled[n]) < nodes {
		n++
	}
	if to := float64(c.tabled[n]); to > nodes {
		from := float64(c.tabled[n-1])
		share := math.Log(nodes/from) / math.Log(to/from)
		return math.Pow(c.speeds[n-1], 1-share) * math.Pow(c.speeds[n], share)
	}
	return c.speeds[n]
}

// known returns an error where a message has fields that the check does not know, such as
// those of a newer version: they may change what is asked for.
func known(m proto.Message) error {
	return protorange.Range(m.ProtoReflect(), func(at protopath.Values) error {
		if part, ok := at.Index(-1).Value.Interface().(protoreflect.Message); ok && len(part.GetUnknown()) > 0 {
			return leaveOpen("%s has fields that the check does not know", part.Descriptor().Name())
		}
		return nil
	})
}
