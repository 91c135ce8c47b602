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
	noLimit   = 1 << 62
	deepest   = 4 // tree of groups
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
	nodes     []int      // of each node type; one number where all nodes are alike
	types     []nodeType // at least one
	steps     int        // of the model
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

// nodeType is a kind of nodes, held ones too, and the speed of one of them. It has no id where
// the request has no node types.
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
	on       int     // position of the type of its nodes, -1 where unknown
	group    int     // -1 where there is none
	kinds    []*kind // the nodes that it can train on
	here     kind    // those that it holds
	demand   float64 // on one reference node
	weight   float64
	delay    float64
	restart  float64
	move     float64
	waiting  float64
	etaError float64 // below 0 where it has none of its own
	trained  bool    // holds nodes or has trained
	loads    bool    // holds nodes and has not trained
}

// kind is a node type as a job uses it: of speed(k) = factor curve(k).
type kind struct {
	curve
	on     int // position of the type
	factor float64
}

// curve is how fast a job trains on some nodes, against one of them.
type curve struct {
	allowed    []int     // sizes, ascending, legal or not
	sizes      []int     // legal, ascending, without 0
	tabled     []int     // the sizes that speeds are of
	speeds     []float64 // nil where there is an efficiency
	efficiency float64
}

// kindOn returns how a job trains on nodes of a type, nil where it does not.
func (j *job) kindOn(on int) *kind {
	for _, k := range j.kinds {
		if k.on == on {
			return k
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

// above yields a group and those that it is part of: one too many of a tree that is too deep, or
// that is none.
func (s *snapshot) above(g int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := 0; n <= deepest && g >= 0 && yield(g); n++ {
			g = s.groups[g].parent
		}
	}
}

// moveTo reports whether a job that gets nodes of a type moves, and how long its restart takes.
func (j *job) moveTo(on int) (moves bool, restart float64) {
	if j.current > 0 && on != j.on {
		return true, j.move
	}
	return false, j.restart
}

// reader reads a message of a request and notes the first field whose value the API does not
// allow, by its path.
type reader struct {
	message protoreflect.Message
	at      string
	bad     *error
}

// in returns a reader of a message that is part of this one.
func (r reader) in(m proto.Message, at string) reader {
	return reader{m.ProtoReflect(), r.at + at + ".", r.bad}
}

func (r reader) want(allowed bool, field string, value any) {
	if !allowed && *r.bad == nil {
		*r.bad = fmt.Errorf("%s%s is %v", r.at, field, value)
	}
}

// number reads a number of least to most, or a time in seconds; a default where it is unset.
func (r reader) number(name protoreflect.Name, unset, least, most float64) float64 {
	field := r.message.Descriptor().Fields().ByName(name)
	if !r.message.Has(field) {
		return unset
	}
	v, value := unset, r.message.Get(field).Interface()
	switch of := value.(type) {
	case int32:
		v = float64(of)
	case float64:
		v = of
	case protoreflect.Message:
		d := of.Interface().(*durationpb.Duration)
		t := d.AsDuration() // It saturates, so only what fits survives the way back.
		r.want(proto.Equal(durationpb.New(t), d), string(name), t)
		v, value = t.Seconds(), t
	}
	r.want(v >= least && v <= most, string(name), value)
	return v
}

// count reads a number of nodes.
func (r reader) count(name protoreflect.Name, unset, least int) int {
	return int(r.number(name, float64(unset), float64(least), math.MaxInt32))
}

// read reads a request; the error says why it has to be refused.
func read(request *elastallocv1.AllocateRequest) (*snapshot, error) {
	whole := reader{request.ProtoReflect(), "", new(error)}
	_ = protorange.Options{Stable: true}.Range(whole.message, func(at protopath.Values) error { // The reader has the error.
		switch last := at.Index(-1); v := last.Value.Interface().(type) {
		case string:
			whole.want(len(v) <= 256, at.Path.String(), "longer than 256 bytes")
		case protoreflect.EnumNumber:
			whole.want(last.Step.FieldDescriptor().Enum().Values().ByNumber(v) != nil, at.Path.String(), v)
		}
		return nil
	}, nil)
	from := request.GetSnapshot()
	whole.want(from != nil, "snapshot", "missing")
	r, s := whole.in(from, "snapshot"), new(snapshot)
	horizon := r.in(from.GetHorizon(), "horizon")
	s.step = horizon.number("step", 300, moment, forever)
	s.steps = int(horizon.number("steps", 5, 1, mostSteps))
	s.readOptions(request.GetOptions(), whole.in(request.GetOptions(), "options"))
	s.readTypes(from.GetNodeTypes(), r)
	r.want(len(from.GetSizeLimits()) == 0, "size_limits", "set")
	ids := s.readGroups(from.GetGroups(), r)
	hold := request.GetOptions().GetBadJobs() == elastallocv1.BadJobs_BAD_JOBS_HOLD
	seen := make(map[string]bool, len(from.GetJobs()))
	for i, f := range from.GetJobs() {
		if *r.bad != nil {
			break
		}
		of := reader{f.ProtoReflect(), "", new(error)}
		of.want(f.GetId() != "" && !seen[f.GetId()], "id", "empty or that of a job before")
		seen[f.GetId()] = true
		j := s.readJob(f, ids, of)
		if j.held = *of.bad != nil; j.held {
			r.want(hold, fmt.Sprintf("jobs[%d]", i), *of.bad)
			s.take(&j)
		}
		s.jobs = append(s.jobs, j)
	}
	return s, *r.bad
}

// take takes the nodes of a held job from the pool, limits and quotas.
func (s *snapshot) take(j *job) {
	if j.on >= 0 {
		s.nodes[j.on] = max(0, s.nodes[j.on]-j.current)
	}
	for g := range s.above(j.group) {
		of := &s.groups[g]
		of.limit, of.quota = max(0, of.limit-j.current), max(0, of.quota-j.current)
	}
}

// readOptions reads what is asked for. OBJECTIVE_TOTAL_TIME has one step as long as its
// payback.
func (s *snapshot) readOptions(o *elastallocv1.AllocateOptions, r reader) {
	r.number("time_budget", 0, moment, forever)
	s.gap, s.admission = r.number("relative_gap", 0, 0, math.Nextafter(1, 0)), o.GetAdmission()
	r.want(len(o.GetPriceHint()) <= mostSteps, "price_hint", "too long")
	for _, price := range o.GetPriceHint() {
		r.want(price >= 0 && price <= math.MaxFloat64, "price_hint", price)
	}
	from := r.in(o.GetTotalTime(), "total_time")
	t := &totalTime{
		fairness:   from.number("fairness", 1, 0, 1e6),
		aging:      from.number("aging", 8*3600, 0, year),
		price:      from.number("rescale_price", 75, 0, year),
		payback:    from.number("payback", 900, 1, year),
		pause:      from.number("pause_price_factor", 1, 0, 1e6),
		bonus:      from.number("start_bonus", 500, 0, year),
		cadence:    from.number("cadence", 0, 0, year),
		quotaPrice: from.number("quota_price", 0.3, 0, 1e6),
		etaError:   from.number("eta_error", 0, 0, 5),
	}
	from.want(t.aging == 0 || t.aging >= 1, "aging", t.aging)
	if s.admission != elastallocv1.Admission_ADMISSION_OPTIMIZED {
		t.bonus = 0
	}
	if o.GetObjective() == elastallocv1.Objective_OBJECTIVE_TOTAL_TIME {
		s.totalTime, s.steps, s.step = t, 1, t.payback
		r.want(o.GetFormulation() != elastallocv1.Formulation_FORMULATION_PAPER, "formulation", "that of progress")
	}
}

// readTypes reads the node types, of which total_nodes is unset or the sum. Without any, all nodes
// are of one without a name.
func (s *snapshot) readTypes(from []*elastallocv1.NodeType, r reader) {
	r.want(len(from) <= mostTypes, "node_types", "too long")
	r.want(len(from) <= 1 || s.totalTime != nil, "node_types", "several without OBJECTIVE_TOTAL_TIME")
	total, sum := r.count("total_nodes", 0, 0), 0
	for i, f := range from {
		of := r.in(f, fmt.Sprintf("node_types[%d]", i))
		of.want(f.GetId() != "" && s.typeOf(f.GetId()) < 0, "id", "empty or that of a type before")
		t := nodeType{f.GetId(), of.count("nodes", 0, 0), of.number("speed", 1, math.SmallestNonzeroFloat64, 1e9)}
		s.types, sum = append(s.types, t), sum+t.nodes
	}
	if len(from) == 0 {
		s.types, sum = []nodeType{{"", total, 1}}, total
	}
	r.want(sum <= math.MaxInt32 && (total == 0 || total == sum), "total_nodes", total)
	for _, t := range s.types {
		s.nodes = append(s.nodes, t.nodes)
	}
}

// typeOf returns the position of a node type, -1 where there is none of that name.
func (s *snapshot) typeOf(id string) int {
	return slices.IndexFunc(s.types, func(t nodeType) bool { return t.id == id })
}

// readGroups reads the groups and returns one more than the position of each id.
func (s *snapshot) readGroups(from []*elastallocv1.Group, r reader) map[string]int {
	r.want(len(from) == 0 || s.totalTime != nil && !s.several(), "groups", "set without OBJECTIVE_TOTAL_TIME or beside several node types")
	r.want(len(from) <= 10_000, "groups", "too long")
	ids := make(map[string]int, len(from))
	for i, f := range from {
		of := r.in(f, fmt.Sprintf("groups[%d]", i))
		of.want(f.GetId() != "" && ids[f.GetId()] == 0, "id", "empty or that of a group before")
		ids[f.GetId()] = i + 1
		s.groups = append(s.groups, group{id: f.GetId(), limit: of.count("limit", noLimit, 0), quota: of.count("quota", 0, 0)})
	}
	for i, f := range from {
		parent := ids[f.GetParentId()] - 1
		r.want(parent >= 0 || f.GetParentId() == "", fmt.Sprintf("groups[%d].parent_id", i), "no group's")
		if s.groups[i].parent = parent; parent >= 0 {
			s.groups[parent].inner = true
		}
	}
	for i := range s.groups {
		r.want(len(slices.Collect(s.above(i))) <= deepest, fmt.Sprintf("groups[%d].parent_id", i), "too deep or in a circle")
	}
	return ids
}

// readJob reads a job, its id apart.
func (s *snapshot) readJob(from *elastallocv1.Job, ids map[string]int, r reader) job {
	j := job{
		id: from.GetId(), group: -1,
		current:  max(0, r.count("current_nodes", 0, 0)),
		weight:   r.number("weight", 1, 0, 1e12),
		delay:    r.number("rescale_delay", 0, 0, forever),
		restart:  r.number("restart_time", 0, 0, forever),
		waiting:  r.number("waiting_time", 0, 0, forever),
		demand:   r.number("remaining_eta", 0, moment, forever),
		etaError: r.number("eta_error", -1, 0, 5),
	}
	j.move = r.number("move_time", j.restart, 0, forever)
	j.trained = r.number("training_time", 0, 0, forever) > 0
	j.loads = j.current > 0 && !j.trained
	j.trained = j.trained || j.current > 0
	r.number("overrun", 0, 0, forever)
	r.count("piece_nodes", 1, 1)
	r.want(j.delay == 0 || j.restart == 0, "restart_time", "set beside rescale_delay")
	if len(s.groups) > 0 {
		j.group = ids[from.GetGroupId()] - 1
		r.want(j.group >= 0 && !s.groups[max(0, j.group)].inner, "group_id", "none of a group without others in it")
	}
	measured := s.readKinds(&j, from, r)
	if from.EtaNodes != nil && *r.bad == nil {
		nodes, of := r.count("eta_nodes", 1, 1), measured.tabled
		r.want(len(of) == 0 || nodes >= of[0] && nodes <= of[len(of)-1], "eta_nodes", nodes)
		measured.factor *= measured.at(float64(nodes))
	}
	j.demand *= measured.factor
	r.want(j.demand >= moment, "remaining_eta on one node", j.demand)
	if worked := r.number("work_done", 0, 0, forever); s.totalTime == nil {
		j.demand = max(j.demand, worked/4)
	}
	return j
}

// readKinds reads what a job can train on, and returns the nodes that its ETA is measured on.
func (s *snapshot) readKinds(j *job, from *elastallocv1.Job, r reader) (measured kind) {
	speeds, current, eta := from.GetSpeeds(), from.GetCurrentNodeType(), from.GetEtaNodeType()
	if s.types[0].id == "" { // Types are not looked at.
		speeds, current, eta = nil, "", ""
	}
	least, most := r.count("min_nodes", 1, 1), 16
	if of := from.GetAllowedNodes(); len(of) > 0 {
		most = int(slices.Max(of))
	}
	for _, f := range speeds {
		for _, k := range f.GetAllowedNodes() {
			most = max(most, int(k))
		}
	}
	most = r.count("max_nodes", most, least)
	usual := curve{efficiency: 0.8}
	for bit := range 31 {
		usual.allowed = append(usual.allowed, 1<<bit)
	}
	if least == most {
		usual.allowed = []int{least}
	}
	own := usual.with(from.GetAllowedNodes(), from.GetScaling(), least, most, r)
	if j.on = s.typeOf(current); j.on < 0 {
		r.want(current == "" && j.current == 0, "current_node_type", current)
	}
	for i, f := range speeds {
		of, on := r.in(f, fmt.Sprintf("speeds[%d]", i)), s.typeOf(f.GetNodeType())
		of.want(on >= 0 && j.kindOn(on) == nil, "node_type", f.GetNodeType())
		factor := of.number("factor", s.types[max(0, on)].speed, math.SmallestNonzeroFloat64, 1e9)
		j.kinds = append(j.kinds, &kind{own.with(f.GetAllowedNodes(), f.GetScaling(), least, most, of), on, factor})
	}
	slices.SortFunc(j.kinds, func(a, b *kind) int { return cmp.Compare(a.on, b.on) })
	if len(speeds) == 0 {
		for on, of := range s.types {
			j.kinds = append(j.kinds, &kind{own, on, of.speed})
		}
	}
	of := func(on int) kind { // One that it does not train on is as any other is to it.
		if k := j.kindOn(on); k != nil {
			return *k
		}
		return kind{own, on, s.types[max(0, on)].speed}
	}
	j.here = of(j.on)
	if eta == "" {
		return kind{curve: own, factor: 1}
	}
	on := s.typeOf(eta)
	r.want(on >= 0, "eta_node_type", eta)
	return of(on)
}

// with returns a curve of the named sizes and scaling, of those of c where they are unset. Of the
// sizes those from least to most are legal; a table may have speeds of these or of all.
func (c curve) with(named []int32, scaling *elastallocv1.Scaling, least, most int, r reader) curve {
	if len(named) > 0 {
		c.allowed = nil
	}
	for i, k := range named {
		r.want(k >= 1 && (i == 0 || k > named[i-1]), "allowed_nodes", named)
		c.allowed = append(c.allowed, int(k))
	}
	c.sizes = slices.DeleteFunc(slices.Clone(c.allowed), func(k int) bool { return k < least || k > most })
	r.want(len(c.sizes) >= 1 && len(c.sizes) <= 32, "allowed_nodes", fmt.Sprintf("%v with %d sizes in range", c.allowed, len(c.sizes)))
	switch of := scaling.GetCurve().(type) {
	case nil: // A table of c may lack sizes that are named.
		for _, k := range c.sizes {
			r.want(c.speeds == nil || slices.Contains(c.tabled, k), "allowed_nodes", k)
		}
	case *elastallocv1.Scaling_DoublingEfficiency:
		c.speeds, c.tabled, c.efficiency = nil, nil, of.DoublingEfficiency
		r.want(c.efficiency > 0 && c.efficiency <= 1, "scaling.doubling_efficiency", c.efficiency)
	case *elastallocv1.Scaling_Table:
		if c.speeds, c.tabled = of.Table.GetSpeeds(), c.sizes; len(c.speeds) == len(c.allowed) {
			c.tabled = c.allowed
		}
		r.want(len(c.speeds) > 0 && len(c.speeds) == len(c.tabled), "scaling.table", c.speeds)
		for _, v := range c.speeds {
			r.want(v > 0 && v <= 1e9, "scaling.table", c.speeds)
		}
	}
	return c
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
	n, there := slices.BinarySearchFunc(c.tabled, nodes, func(k int, nodes float64) int { return cmp.Compare(float64(k), nodes) })
	switch {
	case there || n == 0:
		return c.speeds[n]
	case n == len(c.tabled):
		return c.speeds[n-1]
	}
	from, to := float64(c.tabled[n-1]), float64(c.tabled[n])
	share := math.Log(nodes/from) / math.Log(to/from)
	return math.Pow(c.speeds[n-1], 1-share) * math.Pow(c.speeds[n], share)
}

// known returns an error where a message has fields that the check does not know, such as
// those of a newer version: they may change what is asked for.
func known(m proto.Message) error {
	return protorange.Range(m.ProtoReflect(), func(at protopath.Values) error {
		if at.Index(-1).Step.Kind() == protopath.UnknownAccessStep {
			return leaveOpen("%s has fields that the check does not know", at.Index(-2).Value.Message().Descriptor().Name())
		}
		return nil
	})
}
