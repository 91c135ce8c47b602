package audit

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// snapshot is a request as the API defines it, with its defaults and without the nodes of
// the jobs that are held for their bad fields.
type snapshot struct {
	wholePool int     // with the nodes of held jobs
	pool      int     // without
	steps     int     // of the model
	step      float64 // in seconds
	groups    []group
	jobs      []job // all of the request, held ones too
	totalTime bool
	admission elastallocv1.Admission
	options   *elastallocv1.AllocateOptions
}

// group is a team: the position of its parent or -1, its limit and its quota.
type group struct {
	parent, limit, quota int
	inner                bool // others are part of it
}

// job is a job of the request. Times are in seconds.
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
	trained    bool // holds nodes or has trained
}

// What the API allows.
const (
	noLimit       = math.MaxInt
	mostDepth     = 4
	mostSteps     = 24
	mostSizes     = 32
	mostWeight    = 1e12
	mostSpeed     = 1e9
	mostFactor    = 1e6
	mostSpan      = 365 * 24 * 3600
	smallestWork  = 1e-9
	defaultStep   = 300
	defaultSteps  = 5
	defaultMost   = 16
	defaultPaid   = 900
	defaultEff    = 0.8
	defaultCost   = 0.3
	slowestSpeed  = 1e-30 // that total time tells from others
	defaultAging  = 8 * 3600
	defaultPrice  = 75
	defaultBonus  = 500
	leastExponent = 0.05
	mostExponent  = 0.97
)

// read reads a request; the error says why it had to be refused.
func read(request *elastallocv1.AllocateRequest) (*snapshot, error) {
	from, o := request.GetSnapshot(), request.GetOptions()
	s := &snapshot{
		wholePool: int(from.GetTotalNodes()), pool: int(from.GetTotalNodes()), options: o,
		totalTime: o.GetObjective() == elastallocv1.Objective_OBJECTIVE_TOTAL_TIME,
		admission: max(o.GetAdmission(), elastallocv1.Admission_ADMISSION_FIFO),
	}
	if from == nil || s.pool < 0 {
		return nil, errors.New("snapshot.total_nodes is missing or below 0")
	}
	if err := checkOptions(o); err != nil {
		return nil, err
	}
	if err := s.readHorizon(from.GetHorizon()); err != nil {
		return nil, err
	}
	ids, err := s.readGroups(from.GetGroups())
	if err != nil {
		return nil, err
	}
	hold := o.GetBadJobs() == elastallocv1.BadJobs_BAD_JOBS_HOLD
	seen := make(map[string]bool, len(from.GetJobs()))
	for i, j := range from.GetJobs() {
		read, bad := s.readJob(j, ids)
		if read.id == "" || seen[read.id] {
			bad = errors.New("id is empty or that of a job before")
		}
		seen[read.id] = true
		if read.held = bad != nil; read.held && !hold {
			return nil, fmt.Errorf("snapshot.jobs[%d].%w", i, bad)
		}
		if read.held {
			s.take(ids[j.GetGroupId()]-1, max(0, read.current))
		}
		s.jobs = append(s.jobs, read)
	}
	return s, nil
}

// take takes the nodes of a held job from the pool, limits and quotas.
func (s *snapshot) take(g, nodes int) {
	s.pool = max(0, s.pool-nodes)
	for ; g >= 0; g = s.groups[g].parent {
		if s.groups[g].limit != noLimit {
			s.groups[g].limit = max(0, s.groups[g].limit-nodes)
		}
		s.groups[g].quota = max(0, s.groups[g].quota-nodes)
	}
}

// readHorizon reads the horizon. OBJECTIVE_TOTAL_TIME has one step as long as its payback.
func (s *snapshot) readHorizon(h *elastallocv1.Horizon) error {
	s.step, s.steps = defaultStep, defaultSteps
	var bad error
	if h.GetStep() != nil {
		if s.step, bad = seconds(h.GetStep()); bad != nil || s.step <= 0 {
			return errors.New("snapshot.horizon.step is not a time above 0")
		}
	}
	if h != nil && h.Steps != nil {
		s.steps = int(h.GetSteps())
	}
	if s.steps < 1 || s.steps > mostSteps {
		return fmt.Errorf("snapshot.horizon.steps is %d", s.steps)
	}
	if s.totalTime {
		s.steps, s.step = 1, span(s.options.GetTotalTime().GetPayback(), defaultPaid)
	}
	return nil
}

// checkOptions returns what is wrong with the options that say what is asked for.
func checkOptions(o *elastallocv1.AllocateOptions) error {
	known := func(e interface{ String() string }, n, most int32) bool { return n >= 0 && n <= most && e != nil }
	if !known(o.GetObjective(), int32(o.GetObjective()), 2) || !known(o.GetAdmission(), int32(o.GetAdmission()), 4) ||
		!known(o.GetBadJobs(), int32(o.GetBadJobs()), 2) {
		return errors.New("options have an objective, admission or bad_jobs that does not exist")
	}
	if !(o.GetRelativeGap() >= 0 && o.GetRelativeGap() < 1) {
		return fmt.Errorf("options.relative_gap is %v", o.GetRelativeGap())
	}
	t := o.GetTotalTime()
	if t == nil {
		return nil
	}
	for _, factor := range []*float64{t.Fairness, t.PausePriceFactor, t.QuotaPrice} {
		if factor != nil && !(*factor >= 0 && *factor <= mostFactor) {
			return fmt.Errorf("options.total_time has a factor of %v", *factor)
		}
	}
	aging, paid := t.GetAging(), t.GetPayback()
	if aging.AsDuration() == 0 {
		aging = nil
	}
	for d, least := range map[*durationpb.Duration]float64{
		aging: 1, paid: 1, t.GetRescalePrice(): 0, t.GetStartBonus(): 0, t.GetCadence(): 0,
	} {
		if v, bad := seconds(d); d != nil && (bad != nil || v < least || v > mostSpan) {
			return fmt.Errorf("options.total_time has a time of %v", d)
		}
	}
	return nil
}

// readGroups reads the groups and returns one more than the position of each id.
func (s *snapshot) readGroups(from []*elastallocv1.Group) (map[string]int, error) {
	if len(from) > 0 && !s.totalTime {
		return nil, errors.New("snapshot.groups go with OBJECTIVE_TOTAL_TIME only")
	}
	ids := make(map[string]int, len(from))
	for i, g := range from {
		read := group{limit: noLimit, quota: int(g.GetQuota()), parent: -1}
		if g != nil && g.Limit != nil {
			read.limit = int(g.GetLimit())
		}
		if g.GetId() == "" || ids[g.GetId()] != 0 || read.limit < 0 || read.quota < 0 {
			return nil, fmt.Errorf("snapshot.groups[%d] has a bad id, limit or quota", i)
		}
		ids[g.GetId()] = i + 1
		s.groups = append(s.groups, read)
	}
	for i, g := range from {
		if g.GetParentId() == "" {
			continue
		}
		parent := ids[g.GetParentId()] - 1
		if parent < 0 {
			return nil, fmt.Errorf("snapshot.groups[%d].parent_id is not known", i)
		}
		s.groups[i].parent, s.groups[parent].inner = parent, true
	}
	for i := range s.groups {
		depth := 0
		for g := i; g >= 0; g = s.groups[g].parent {
			if depth++; depth > mostDepth {
				return nil, fmt.Errorf("snapshot.groups[%d] is deeper than %d or in a circle", i, mostDepth)
			}
		}
	}
	return ids, nil
}

// readJob reads a job; the error is the first thing that is wrong with it, its id apart.
func (s *snapshot) readJob(from *elastallocv1.Job, ids map[string]int) (job, error) {
	if from == nil {
		from = &elastallocv1.Job{}
	}
	j := job{id: from.GetId(), current: int(from.GetCurrentNodes()), group: -1, weight: 1}
	if from.Weight != nil {
		j.weight = *from.Weight
	}
	var eta, training float64
	for _, d := range []struct {
		name string
		from *durationpb.Duration
		to   *float64
	}{
		{"remaining_eta", from.GetRemainingEta(), &eta},
		{"training_time", from.GetTrainingTime(), &training},
		{"rescale_delay", from.GetRescaleDelay(), &j.delay},
		{"restart_time", from.GetRestartTime(), &j.restart},
		{"waiting_time", from.GetWaitingTime(), &j.waiting},
	} {
		var bad error
		if *d.to, bad = seconds(d.from); bad != nil || *d.to < 0 {
			return j, fmt.Errorf("%s is not a time of at least 0", d.name)
		}
	}
	j.trained = j.current > 0 || training > 0
	switch {
	case eta <= 0:
		return j, errors.New("remaining_eta is not above 0")
	case j.current < 0:
		return j, errors.New("current_nodes is below 0")
	case !(j.weight >= 0 && j.weight <= mostWeight):
		return j, fmt.Errorf("weight is %v", j.weight)
	case j.delay > 0 && j.restart > 0:
		return j, errors.New("restart_time goes with no rescale_delay")
	}
	if len(s.groups) > 0 {
		j.group = ids[from.GetGroupId()] - 1
		if j.group < 0 || s.groups[j.group].inner {
			return j, errors.New("group_id is not that of a group without others in it")
		}
	}
	if err := j.readSizes(from); err != nil {
		return j, err
	}
	if err := j.readSpeeds(from); err != nil {
		return j, err
	}
	j.demand = eta
	if from.EtaNodes != nil {
		nodes := int(from.GetEtaNodes())
		if nodes < 1 || j.speeds != nil && (nodes < j.tabled[0] || nodes > j.tabled[len(j.tabled)-1]) {
			return j, fmt.Errorf("eta_nodes is %d", nodes)
		}
		j.demand = eta * j.speedAt(float64(nodes))
	}
	if j.demand < smallestWork {
		return j, errors.New("remaining_eta on one node is less than 1ns")
	}
	return j, nil
}

// readSizes reads the legal sizes.
func (j *job) readSizes(from *elastallocv1.Job) error {
	least, most := 1, defaultMost
	if allowed := from.GetAllowedNodes(); len(allowed) > 0 {
		most = int(slices.Max(allowed))
	}
	if from.MinNodes != nil {
		least = int(from.GetMinNodes())
	}
	if from.MaxNodes != nil {
		most = int(from.GetMaxNodes())
	}
	if least < 1 || most < least {
		return fmt.Errorf("[min_nodes, max_nodes] is [%d, %d]", least, most)
	}
	for i, k := range from.GetAllowedNodes() {
		if k < 1 || i > 0 && k <= from.GetAllowedNodes()[i-1] {
			return errors.New("allowed_nodes is not ascending from 1")
		}
		if int(k) >= least && int(k) <= most {
			j.sizes = append(j.sizes, int(k))
		}
	}
	switch {
	case len(from.GetAllowedNodes()) > 0:
	case least == most:
		j.sizes = []int{least}
	default:
		for k := 1; k <= most; k *= 2 {
			if k >= least {
				j.sizes = append(j.sizes, k)
			}
		}
	}
	if len(j.sizes) == 0 || len(j.sizes) > mostSizes {
		return fmt.Errorf("allowed_nodes has %d sizes in range", len(j.sizes))
	}
	return nil
}

// readSpeeds reads the speeds.
func (j *job) readSpeeds(from *elastallocv1.Job) error {
	j.efficiency = defaultEff
	switch curve := from.GetScaling().GetCurve().(type) {
	case *elastallocv1.Scaling_DoublingEfficiency:
		if j.efficiency = curve.DoublingEfficiency; !(j.efficiency > 0 && j.efficiency <= 1) {
			return fmt.Errorf("scaling.doubling_efficiency is %v", j.efficiency)
		}
	case *elastallocv1.Scaling_Table:
		j.speeds, j.tabled = curve.Table.GetSpeeds(), j.sizes
		if len(j.speeds) == 0 || len(j.speeds) != len(j.sizes) && len(j.speeds) != len(from.GetAllowedNodes()) {
			return fmt.Errorf("scaling.table has %d speeds", len(j.speeds))
		}
		if len(j.speeds) == len(from.GetAllowedNodes()) {
			j.tabled = make([]int, len(j.speeds))
			for i, k := range from.GetAllowedNodes() {
				j.tabled[i] = int(k)
			}
		}
		for _, v := range j.speeds {
			if !(v > 0 && v <= mostSpeed) {
				return fmt.Errorf("scaling.table has a speed of %v", v)
			}
		}
	}
	return nil
}

// speed returns the speed on whole nodes: between two sizes of a table that of the smaller.
func (j *job) speed(nodes int) float64 {
	if j.speeds == nil {
		return j.speedAt(float64(nodes))
	}
	at, found := slices.BinarySearch(j.tabled, nodes)
	if found {
		return j.speeds[at]
	}
	if at == 0 {
		return 0
	}
	return j.speeds[at-1]
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
	if nodes <= float64(j.tabled[0]) {
		return j.speeds[0]
	}
	for n := 1; n <= last; n++ {
		from, to := float64(j.tabled[n-1]), float64(j.tabled[n])
		if nodes == to {
			return j.speeds[n]
		}
		if nodes < to {
			return j.speeds[n-1] * math.Pow(j.speeds[n]/j.speeds[n-1], math.Log(nodes/from)/math.Log(to/from))
		}
	}
	return j.speeds[last]
}

// work returns what each of the sizes serves in the first step and in a later one.
func (s *snapshot) work(j *job, sizes []int) (first, later []float64) {
	for _, k := range sizes {
		speed := j.speed(k)
		at := s.step * speed
		later = append(later, at)
		if delay := min(j.delay, s.step); k > j.current && delay > 0 {
			at = delay*j.speed(j.current) + (s.step-delay)*speed
		}
		if restart := min(j.restart, s.step); k != j.current && j.trained && restart > 0 {
			at = (s.step - restart) * speed
		}
		first = append(first, at)
	}
	return first, later
}

// seconds returns a time, 0 where it is unset; the error says that it has no meaning.
func seconds(d *durationpb.Duration) (float64, error) {
	if d == nil {
		return 0, nil
	}
	t := d.AsDuration()
	if !d.IsValid() || t == math.MaxInt64 || t == math.MinInt64 {
		return 0, errors.New("is not a time within 292 years")
	}
	return t.Seconds(), nil
}

// span returns a time of the options, or its default.
func span(d *durationpb.Duration, otherwise float64) float64 {
	if d == nil {
		return otherwise
	}
	return d.AsDuration().Seconds()
}

// factor returns a factor of the options, or its default.
func factor(v *float64, otherwise float64) float64 {
	if v == nil {
		return otherwise
	}
	return *v
}
