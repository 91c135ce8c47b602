package audit

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

const (
	unlimited     = 1 << 62
	maxGroupDepth = 4
	maxSteps      = 24
	maxNodeTypes  = 8
	// Bounds of times, in seconds.
	nanosecond = 1e-9
	year       = 365 * 24 * 3600
	maxSeconds = math.MaxFloat64
)

// snapshot is a request with its defaults. Nodes of frozen jobs are not included in the capacity of
// the pool, of size limits and of groups. Times are in seconds.
type snapshot struct {
	nodes       []int // available nodes of each type
	limits      []sizeLimit
	types       []nodeType // at least one
	steps       int        // of the model
	step        float64    // length
	groups      []group
	jobs        []job // all jobs of the request, including frozen ones
	totalTime   *totalTime
	admission   elastallocv1.Admission
	relativeGap float64 // as requested
}

// group is a team. Its parent is a position in snapshot.groups, or -1.
type group struct {
	id                   string
	parent, limit, quota int
	hasChildren          bool
	typeLimits           []typeLimit
}

// typeLimit is the limit of a group on the nodes of one type.
type typeLimit struct {
	nodeType         int // position
	limit, available int // as in the request, and without the nodes of frozen jobs
}

// limitOn returns the nodes of a type that the limits of a group allow, without the nodes of frozen jobs.
func (g *group) limitOn(nodeType int) int {
	for _, l := range g.typeLimits {
		if l.nodeType == nodeType {
			return l.available
		}
	}
	return unlimited
}

// nodeType is a node type, with all its nodes and the speed of one of them. If the request has no
// node types, there is one without an id.
type nodeType struct {
	id    string
	nodes int
	speed float64
}

// job is a job of the request. Its remaining work is the remaining ETA on one reference node.
type job struct {
	id            string
	frozen        bool // it keeps its nodes, because of keep or bad fields (BAD_JOBS_HOLD)
	currentNodes  int
	pieceNodes    int        // largest part of an allocation that must be placed together
	nodeType      int        // position of the type of its current nodes, -1 if unknown
	group         int        // position of its group, -1 if there is none
	profiles      []*profile // one for each type that it can train on
	current       profile    // on the type of its current nodes
	remainingWork float64
	weight        float64
	resizeDelay   float64
	restartTime   float64
	moveTime      float64
	waitingTime   float64
	etaError      float64 // negative if the job has none of its own
	free          bool    // its restart time is set to 0
	manyRestarts  bool    // its third last restart is less than 12 restart times of its time with nodes ago
	sinceChange   float64 // time with nodes since its last restart, or in total
	trained       bool    // it has current nodes or has trained before
	loading       bool    // it has current nodes and has not trained yet
	cannotGrow    bool    // it has used its restart budget, set by admit
	mayMove       bool    // although it has, because its smallest size needs another type, set by admit
}

// profile is the legal sizes and the speed of a job on one node type: speed(k) = factor curve(k).
type profile struct {
	curve
	nodeType int // position
	factor   float64
}

// curve is the legal sizes of a job, and its speed relative to the speed on one node.
type curve struct {
	allowed    []int     // ascending, including sizes outside min_nodes to max_nodes
	sizes      []int     // the legal sizes, ascending, without 0
	tableSizes []int     // the sizes of the speed table
	speeds     []float64 // the speed table, nil if efficiency is set
	efficiency float64   // of a doubling
}

// profileOn returns the profile of a job on a node type, or nil if it cannot train there.
func (j *job) profileOn(nodeType int) *profile {
	for _, p := range j.profiles {
		if p.nodeType == nodeType {
			return p
		}
	}
	return nil
}

// speed returns the speed relative to one reference node.
func (p *profile) speed(nodes float64) float64 { return p.factor * p.relativeSpeed(nodes) }

// maxSize returns the largest legal size.
func (c *curve) maxSize() float64 { return float64(c.sizes[len(c.sizes)-1]) }

// multipleTypes reports whether there are several node types.
func (s *snapshot) multipleTypes() bool { return len(s.nodes) > 1 }

// withAncestors yields a group and its ancestors. If the tree is too deep or has a cycle, it yields
// maxGroupDepth+1 groups.
func (s *snapshot) withAncestors(g int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := 0; n <= maxGroupDepth && g >= 0 && yield(g); n++ {
			g = s.groups[g].parent
		}
	}
}

// restartOn returns how long a job restarts if it gets nodes of a type, and whether it moves.
func (j *job) restartOn(nodeType int) (moves bool, restart float64) {
	if j.currentNodes > 0 && nodeType != j.nodeType {
		return true, j.moveTime
	}
	return false, j.restartTime
}

// reader reads a message of a request and records the first invalid field with its path.
type reader struct {
	message protoreflect.Message
	path    string
	invalid *error
}

// in returns a reader of a message that is part of this one.
func (r reader) in(m proto.Message, path string) reader {
	return reader{m.ProtoReflect(), r.path + path + ".", r.invalid}
}

// require records a field as invalid unless it is valid.
func (r reader) require(valid bool, field string, value any) {
	if !valid && *r.invalid == nil {
		*r.invalid = fmt.Errorf("%s%s is %v", r.path, field, value)
	}
}

// number reads a number, or a time in seconds, that must be from lower to upper. It returns unset
// if the field is not set.
func (r reader) number(name protoreflect.Name, unset, lower, upper float64) float64 {
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
		t := d.AsDuration() // It saturates, so durations out of range differ after the conversion back.
		r.require(proto.Equal(durationpb.New(t), d), string(name), t)
		v, value = t.Seconds(), t
	}
	r.require(v >= lower && v <= upper, string(name), value)
	return v
}

// count reads a number of nodes.
func (r reader) count(name protoreflect.Name, unset, lower int) int {
	return int(r.number(name, float64(unset), float64(lower), math.MaxInt32))
}

// parseRequest parses and validates a request. The error names the first invalid field.
func parseRequest(request *elastallocv1.AllocateRequest) (*snapshot, error) {
	whole := reader{request.ProtoReflect(), "", new(error)}
	_ = protorange.Options{Stable: true}.Range(whole.message, func(at protopath.Values) error { // The reader records the error.
		switch last := at.Index(-1); v := last.Value.Interface().(type) {
		case string:
			whole.require(len(v) <= 256, at.Path.String(), "longer than 256 bytes")
		case protoreflect.EnumNumber:
			whole.require(last.Step.FieldDescriptor().Enum().Values().ByNumber(v) != nil, at.Path.String(), v)
		}
		return nil
	}, nil)
	from := request.GetSnapshot()
	whole.require(from != nil, "snapshot", "missing")
	r, s := whole.in(from, "snapshot"), new(snapshot)
	horizon := r.in(from.GetHorizon(), "horizon")
	s.step = horizon.number("step", 300, nanosecond, maxSeconds)
	s.steps = int(horizon.number("steps", 5, 1, maxSteps))
	s.readOptions(request.GetOptions(), whole.in(request.GetOptions(), "options"))
	s.readTypes(from.GetNodeTypes(), r)
	s.readSizeLimits(from, r)
	ids := s.readGroups(from.GetGroups(), r)
	freeze := request.GetOptions().GetBadJobs() == elastallocv1.BadJobs_BAD_JOBS_HOLD
	seen := make(map[string]int, len(from.GetJobs())) // position plus 1
	for i, f := range from.GetJobs() {
		if *r.invalid != nil {
			break
		}
		jobReader := reader{f.ProtoReflect(), "", new(error)}
		same := seen[f.GetId()]
		jobReader.require(f.GetId() != "" && same == 0, "id", "empty or not unique")
		j := s.readJob(f, ids, jobReader)
		if *jobReader.invalid != nil {
			r.require(freeze, fmt.Sprintf("jobs[%d]", i), *jobReader.invalid)
			j.frozen = true
		}
		if f.GetId() == "" || same == 0 {
			s.jobs = append(s.jobs, j)
			seen[f.GetId()] = len(s.jobs)
			continue
		}
		// Jobs with one id are one frozen job, the first of those with the most nodes.
		first := &s.jobs[same-1]
		if first.frozen = true; j.currentNodes > first.currentNodes {
			*first = j
		}
	}
	for i := range s.jobs {
		if j := &s.jobs[i]; j.frozen {
			s.reserve(j)
		}
	}
	for g := range s.groups {
		if of := &s.groups[g]; !s.multipleTypes() {
			of.limit = min(of.limit, of.limitOn(0))
		}
	}
	return s, *r.invalid
}

// reserve subtracts the nodes of a frozen job from the pool, from the size limits that count them, and
// from the limits and quotas of its groups.
func (s *snapshot) reserve(j *job) {
	if j.nodeType >= 0 {
		s.nodes[j.nodeType] = max(0, s.nodes[j.nodeType]-j.currentNodes)
	}
	for n := range s.limits {
		l := &s.limits[n]
		l.available = max(0, l.available-l.usage(j, j.nodeType, j.currentNodes))
	}
	for g := range s.withAncestors(j.group) {
		of := &s.groups[g]
		of.limit, of.quota = max(0, of.limit-j.currentNodes), max(0, of.quota-j.currentNodes)
		for n := range of.typeLimits {
			if l := &of.typeLimits[n]; l.nodeType == j.nodeType {
				l.available = max(0, l.available-j.currentNodes)
			}
		}
	}
}

// readOptions reads the options. OBJECTIVE_TOTAL_TIME has one step of the length of its payback.
func (s *snapshot) readOptions(o *elastallocv1.AllocateOptions, r reader) {
	r.number("time_budget", 0, nanosecond, maxSeconds)
	s.relativeGap, s.admission = r.number("relative_gap", 0, 0, math.Nextafter(1, 0)), o.GetAdmission()
	from := r.in(o.GetTotalTime(), "total_time")
	t := &totalTime{
		fairness:         from.number("fairness", 1, 0, 1e6),
		aging:            from.number("aging", 8*3600, 0, year),
		resizePrice:      from.number("resize_price", 75, 0, year),
		payback:          from.number("payback", 900, 1, year),
		pausePriceFactor: from.number("pause_price_factor", 1, 0, 1e6),
		startBonus:       from.number("start_bonus", 500, 0, year),
		cadence:          from.number("cadence", 0, 0, year),
		quotaPrice:       from.number("quota_price", 0.3, 0, 1e6),
		etaError:         from.number("eta_error", 0, 0, 5),
		sharePrice:       from.number("share_price", 0.1, 0, 10),
	}
	from.require(t.aging == 0 || t.aging >= 1, "aging", t.aging)
	if s.admission != elastallocv1.Admission_ADMISSION_OPTIMIZED {
		t.startBonus = 0
	}
	if o.GetObjective() == elastallocv1.Objective_OBJECTIVE_PROGRESS {
		s.admission = cmp.Or(s.admission, elastallocv1.Admission_ADMISSION_FIFO)
		return
	}
	s.totalTime, s.steps, s.step = t, 1, t.payback
	s.admission = cmp.Or(s.admission, elastallocv1.Admission_ADMISSION_START_FIRST)
	buildsMILP := o.GetBackend() == elastallocv1.Backend_BACKEND_CBC || o.GetBackend() == elastallocv1.Backend_BACKEND_HIGHS
	r.require(!buildsMILP || o.GetFormulation() != elastallocv1.Formulation_FORMULATION_PAPER,
		"formulation", "valid for OBJECTIVE_PROGRESS only")
}

// readTypes reads the node types. total_nodes must be unset or the sum of their nodes. Without node
// types, all nodes are of one type without an id.
func (s *snapshot) readTypes(from []*elastallocv1.NodeType, r reader) {
	r.require(len(from) <= maxNodeTypes, "node_types", "too long")
	r.require(len(from) <= 1 || s.totalTime != nil, "node_types", "valid for OBJECTIVE_TOTAL_TIME only")
	total, sum := r.count("total_nodes", 0, 0), 0
	for i, f := range from {
		of := r.in(f, fmt.Sprintf("node_types[%d]", i))
		of.require(f.GetId() != "" && s.typeIndex(f.GetId()) < 0, "id", "empty or not unique")
		t := nodeType{f.GetId(), of.count("nodes", 0, 0), of.number("speed", 1, math.SmallestNonzeroFloat64, 1e9)}
		s.types, sum = append(s.types, t), sum+t.nodes
	}
	if len(from) == 0 {
		s.types, sum = []nodeType{{"", total, 1}}, total
	}
	r.require(sum <= math.MaxInt32 && (total == 0 || total == sum), "total_nodes", total)
	for _, t := range s.types {
		s.nodes = append(s.nodes, t.nodes)
	}
}

// typeIndex returns the position of a node type, or -1 if no type has that id.
func (s *snapshot) typeIndex(id string) int {
	return slices.IndexFunc(s.types, func(t nodeType) bool { return t.id == id })
}

// readGroups reads the groups. It returns the position of each id plus 1.
func (s *snapshot) readGroups(from []*elastallocv1.Group, r reader) map[string]int {
	r.require(len(from) == 0 || s.totalTime != nil, "groups", "valid for OBJECTIVE_TOTAL_TIME only")
	r.require(len(from) <= 10_000, "groups", "too long")
	ids := make(map[string]int, len(from))
	for i, f := range from {
		of := r.in(f, fmt.Sprintf("groups[%d]", i))
		of.require(f.GetId() != "" && ids[f.GetId()] == 0, "id", "empty or not unique")
		ids[f.GetId()] = i + 1
		s.groups = append(s.groups, group{id: f.GetId(), limit: of.count("limit", unlimited, 0), quota: of.count("quota", 0, 0)})
		s.readTypeLimits(&s.groups[i], f.GetTypeLimits(), of)
	}
	for i, f := range from {
		parent := ids[f.GetParentId()] - 1
		r.require(parent >= 0 || f.GetParentId() == "", fmt.Sprintf("groups[%d].parent_id", i), "not the id of a group")
		if s.groups[i].parent = parent; parent >= 0 {
			s.groups[parent].hasChildren = true
		}
	}
	for i := range s.groups {
		r.require(len(slices.Collect(s.withAncestors(i))) <= maxGroupDepth,
			fmt.Sprintf("groups[%d].parent_id", i), "too deep, or part of a cycle")
	}
	return ids
}

// readTypeLimits reads the limits of a group per node type. They need node types in the request.
func (s *snapshot) readTypeLimits(g *group, from []*elastallocv1.GroupTypeLimit, r reader) {
	r.require(len(from) == 0 || s.types[0].id != "", "type_limits", "valid with node types only")
	r.require(len(from) <= maxNodeTypes, "type_limits", "too long")
	for n, f := range from {
		of := r.in(f, fmt.Sprintf("type_limits[%d]", n))
		l := typeLimit{nodeType: s.typeIndex(f.GetNodeType()), limit: of.count("limit", 0, 0)}
		of.require(l.nodeType >= 0 && g.limitOn(l.nodeType) == unlimited, "node_type", "unknown or not unique")
		l.available = l.limit
		g.typeLimits = append(g.typeLimits, l)
	}
}

// readJob reads a job. The caller reads its id. A job with keep is frozen, and only the fields that place its
// nodes must be valid.
func (s *snapshot) readJob(from *elastallocv1.Job, ids map[string]int, r reader) job {
	if !from.GetKeep() {
		return s.readDecided(from, ids, r)
	}
	j := s.readDecided(from, ids, reader{r.message, r.path, new(error)})
	r.count("current_nodes", 0, 0)
	r.count("piece_nodes", 0, 0)
	r.require(from.GetGroupId() == "" || len(s.groups) == 0 || j.group >= 0 && !s.groups[j.group].hasChildren,
		"group_id", "not the id of a group without children")
	known := j.nodeType >= 0 || j.currentNodes == 0 && from.GetCurrentNodeType() == ""
	r.require(known, "current_node_type", from.GetCurrentNodeType())
	j.frozen = true
	return j
}

// readDecided reads a job without keep.
func (s *snapshot) readDecided(from *elastallocv1.Job, ids map[string]int, r reader) job {
	j := job{
		id: from.GetId(), group: -1,
		currentNodes:  max(0, r.count("current_nodes", 0, 0)),
		weight:        min(r.number("weight", 1, 0, 1e12), 1e9),
		resizeDelay:   r.number("resize_delay", 0, 0, maxSeconds),
		restartTime:   r.number("restart_time", 0, 0, maxSeconds),
		waitingTime:   r.number("waiting_time", 0, 0, maxSeconds),
		remainingWork: r.number("remaining_eta", 0, nanosecond, maxSeconds),
		etaError:      r.number("eta_error", -1, 0, 5),
	}
	j.moveTime = r.number("move_time", j.restartTime, 0, maxSeconds)
	j.free = from.RestartTime != nil && j.restartTime == 0
	j.sinceChange = r.number("training_time", 0, 0, maxSeconds)
	j.trained = j.sinceChange > 0
	j.readRestarts(from, r)
	j.loading = j.currentNodes > 0 && !j.trained
	j.trained = j.trained || j.currentNodes > 0
	if j.pieceNodes = r.count("piece_nodes", 0, 0); j.pieceNodes < 1 {
		j.pieceNodes = unlimited
	}
	r.require(j.resizeDelay == 0 || j.restartTime == 0, "restart_time", "set together with resize_delay")
	if len(s.groups) > 0 {
		j.group = ids[from.GetGroupId()] - 1
		r.require(j.group >= 0 && !s.groups[max(0, j.group)].hasChildren, "group_id", "not the id of a group without children")
	}
	measured := s.readProfiles(&j, from, r)
	if from.EtaNodes != nil && *r.invalid == nil {
		nodes, table := r.count("eta_nodes", 1, 1), measured.tableSizes
		r.require(len(table) == 0 || nodes >= table[0] && nodes <= table[len(table)-1], "eta_nodes", nodes)
		measured.factor *= measured.relativeSpeed(float64(nodes))
	}
	j.remainingWork *= measured.factor
	r.require(j.remainingWork >= nanosecond, "remaining_eta on one node", j.remainingWork)
	worked, overrun := r.number("work_done", 0, 0, maxSeconds), r.number("overrun", 0, 0, maxSeconds)
	if s.totalTime == nil || overrun >= 1 {
		j.remainingWork = max(j.remainingWork, worked/4)
	}
	return j
}

// readRestarts reads the recent restarts of a job.
func (j *job) readRestarts(from *elastallocv1.Job, r reader) {
	r.require(len(from.GetRecentRestarts()) <= 3, "recent_restarts", "too long")
	last := time.Duration(0)
	for _, d := range from.GetRecentRestarts() {
		t := d.AsDuration()
		r.require(t >= last && proto.Equal(durationpb.New(t), d), "recent_restarts", t)
		last = t
	}
	if restarts := from.GetRecentRestarts(); len(restarts) > 0 {
		j.sinceChange = restarts[0].AsDuration().Seconds()
		j.manyRestarts = len(restarts) == 3 && last/12 < from.GetRestartTime().AsDuration()
	}
}

// usedBudget reports whether a job has used its restart budget: the oldest of three restarts is less than 12
// restart times of its time with nodes ago, and its current nodes are a legal size of their type.
func (s *snapshot) usedBudget(j *job) bool {
	return !j.frozen && j.manyRestarts && slices.ContainsFunc(s.usableProfiles(j), func(p *profile) bool {
		return p.nodeType == j.nodeType && slices.Contains(p.sizes, j.currentNodes)
	})
}

// withoutGrowth returns a job that can have only the current nodes of j, or fewer on their type, and if it may
// move all sizes on other types.
func (j *job) withoutGrowth() *job {
	reduced := *j
	reduced.profiles = nil
	for _, p := range j.profiles {
		if p.nodeType == j.nodeType {
			smaller := *p
			smaller.sizes = slices.DeleteFunc(slices.Clone(p.sizes), func(k int) bool { return k > j.currentNodes })
			p = &smaller
		} else if !j.mayMove {
			continue
		}
		reduced.profiles = append(reduced.profiles, p)
	}
	return &reduced
}

// readProfiles reads the profiles of a job. It returns the profile of the nodes on which its ETA is
// measured.
func (s *snapshot) readProfiles(j *job, from *elastallocv1.Job, r reader) (measured profile) {
	speeds, currentType, etaType := from.GetSpeeds(), from.GetCurrentNodeType(), from.GetEtaNodeType()
	if s.types[0].id == "" { // Node types of jobs are ignored.
		speeds, currentType, etaType = nil, "", ""
	}
	minNodes, maxNodes := r.count("min_nodes", 1, 1), 16
	if allowed := from.GetAllowedNodes(); len(allowed) > 0 {
		maxNodes = int(slices.Max(allowed))
	}
	for _, f := range speeds {
		for _, k := range f.GetAllowedNodes() {
			maxNodes = max(maxNodes, int(k))
		}
	}
	maxNodes = r.count("max_nodes", maxNodes, minNodes)
	byDefault := curve{efficiency: 0.8}
	for bit := range 31 {
		byDefault.allowed = append(byDefault.allowed, 1<<bit)
	}
	if minNodes == maxNodes {
		byDefault.allowed = []int{minNodes}
	}
	own := byDefault.override(from.GetAllowedNodes(), from.GetScaling(), minNodes, maxNodes, r)
	if j.nodeType = s.typeIndex(currentType); j.nodeType < 0 {
		r.require(currentType == "" && j.currentNodes == 0, "current_node_type", currentType)
	}
	for i, f := range speeds {
		of, t := r.in(f, fmt.Sprintf("speeds[%d]", i)), s.typeIndex(f.GetNodeType())
		of.require(t >= 0 && j.profileOn(t) == nil, "node_type", f.GetNodeType())
		factor := of.number("factor", s.types[max(0, t)].speed, math.SmallestNonzeroFloat64, 1e9)
		j.profiles = append(j.profiles, &profile{own.override(f.GetAllowedNodes(), f.GetScaling(), minNodes, maxNodes, of), t, factor})
	}
	slices.SortFunc(j.profiles, func(a, b *profile) int { return cmp.Compare(a.nodeType, b.nodeType) })
	if len(speeds) == 0 {
		for t, of := range s.types {
			j.profiles = append(j.profiles, &profile{own, t, of.speed})
		}
	}
	// On a type that the job cannot train on, its own curve and the speed of the type apply.
	profileOrDefault := func(t int) profile {
		if p := j.profileOn(t); p != nil {
			return *p
		}
		return profile{own, t, s.types[max(0, t)].speed}
	}
	j.current = profileOrDefault(j.nodeType)
	if etaType == "" {
		return profile{curve: own, factor: 1}
	}
	t := s.typeIndex(etaType)
	r.require(t >= 0, "eta_node_type", etaType)
	return profileOrDefault(t)
}

// override returns the curve with the given sizes and scaling, which default to the sizes and scaling of
// c. The sizes from minNodes to maxNodes are legal. A speed table has speeds of the legal sizes, or of all.
func (c curve) override(allowed []int32, scaling *elastallocv1.Scaling, minNodes, maxNodes int, r reader) curve {
	if len(allowed) > 0 {
		c.allowed = nil
	}
	for i, k := range allowed {
		r.require(k >= 1 && (i == 0 || k > allowed[i-1]), "allowed_nodes", allowed)
		c.allowed = append(c.allowed, int(k))
	}
	c.sizes = slices.DeleteFunc(slices.Clone(c.allowed), func(k int) bool { return k < minNodes || k > maxNodes })
	r.require(len(c.sizes) >= 1 && len(c.sizes) <= 32, "allowed_nodes", fmt.Sprintf("%v with %d sizes in range", c.allowed, len(c.sizes)))
	switch of := scaling.GetCurve().(type) {
	case nil: // The table of c may lack some of the given sizes.
		for _, k := range c.sizes {
			r.require(c.speeds == nil || slices.Contains(c.tableSizes, k), "allowed_nodes", k)
		}
	case *elastallocv1.Scaling_DoublingEfficiency:
		c.speeds, c.tableSizes, c.efficiency = nil, nil, of.DoublingEfficiency
		r.require(c.efficiency > 0 && c.efficiency <= 1, "scaling.doubling_efficiency", c.efficiency)
	case *elastallocv1.Scaling_Table:
		if c.speeds, c.tableSizes = of.Table.GetSpeeds(), c.sizes; len(c.speeds) == len(c.allowed) {
			c.tableSizes = c.allowed
		}
		r.require(len(c.speeds) > 0 && len(c.speeds) == len(c.tableSizes), "scaling.table", c.speeds)
		for _, v := range c.speeds {
			r.require(v > 0 && v <= 1e9, "scaling.table", c.speeds)
		}
	}
	return c
}

// usableNodes returns how many of some nodes the job can train on. With a speed table, that is the
// largest size of the table that does not exceed them.
func (c *curve) usableNodes(nodes int) float64 {
	if c.speeds == nil {
		return float64(nodes)
	}
	above, _ := slices.BinarySearch(c.tableSizes, nodes+1)
	return float64(append([]int{0}, c.tableSizes...)[above])
}

// relativeSpeed returns the speed relative to one node, also for sizes that are not legal. Between
// two sizes of a table, the logarithm of the speed is linear in the logarithm of the nodes. Outside the table,
// the speed is the speed of the nearest size.
func (c *curve) relativeSpeed(nodes float64) float64 {
	if nodes <= 0 {
		return 0
	}
	if c.speeds == nil {
		return nodes * math.Pow(c.efficiency, math.Log2(nodes))
	}
	n, found := slices.BinarySearchFunc(c.tableSizes, nodes, func(k int, nodes float64) int { return cmp.Compare(float64(k), nodes) })
	switch {
	case found || n == 0:
		return c.speeds[n]
	case n == len(c.tableSizes):
		return c.speeds[n-1]
	}
	from, to := float64(c.tableSizes[n-1]), float64(c.tableSizes[n])
	share := math.Log(nodes/from) / math.Log(to/from)
	return math.Pow(c.speeds[n-1], 1-share) * math.Pow(c.speeds[n], share)
}

// checkUnknownFields returns an error if a message has fields that this check does not know, for
// example fields of a newer version of the API. Such a field may change the meaning of the others.
func checkUnknownFields(m proto.Message) error {
	return protorange.Range(m.ProtoReflect(), func(at protopath.Values) error {
		if at.Index(-1).Step.Kind() == protopath.UnknownAccessStep {
			return leaveOpen("%s has fields that the check does not know", at.Index(-2).Value.Message().Descriptor().Name())
		}
		return nil
	})
}
