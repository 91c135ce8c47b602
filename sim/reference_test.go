package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	compare "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/solver"
)

// literalJob is a job of the reference simulation.
type literalJob struct {
	WorkloadJob
	submitted, started, completed bool
	start, end                    int
	nodes, trainsOn               int
	waits                         int // seconds until the job trains on all its nodes
	served                        time.Duration
	trained, unserved             int
	resizes, moves                int
	restarts                      []int // values of trained
	timeline                      []NodesAt
	nodeType, firstType, pin      string
	on                            map[string]int
	placementMoves                int
}

// restartTime returns the restart time of the job, which replaces that of all jobs.
func (j *literalJob) restartTime(config *Config) time.Duration {
	if j.RestartTime > 0 {
		return j.RestartTime
	}
	return config.RestartTime
}

// speeds returns the speeds of the job on node types in its current phase.
func (j *literalJob) speeds() []solver.TypeSpeed {
	for _, phase := range j.Phases {
		if j.served < Scale(j.Demand, phase.Until) || phase.Until == 1 {
			return phase.Speeds
		}
	}
	return nil
}

// speedOn returns the speed of the job on the given number of nodes of its type.
func (j *literalJob) speedOn(nodes int, config *Config) float64 {
	for _, nodeType := range config.NodeTypes {
		if nodeType.ID != j.nodeType || nodes == 0 {
			continue
		}
		spec := j.job(j.ID)
		for _, speed := range j.speeds() {
			if speed.NodeType == j.nodeType {
				spec.AllowedNodes, spec.Scaling = speed.AllowedNodes, speed.Scaling
				return speed.Factor * spec.Speed(nodes)
			}
		}
		return nodeType.Speed * spec.Speed(nodes)
	}
	return j.speed(nodes)
}

// literal is a simple implementation of the simulation that the package documentation describes: a loop
// over seconds without any shortcut.
func literal(t *rapid.T, w Workload, p namedPolicy, config Config, allocator Allocator) (results []JobResult, unplaced int) {
	config.Terms = p.Terms
	// With machines, the rule could change allocations again without an event, so it is not repeated.
	l := &literalRun{T: t, jobs: make([]literalJob, len(w.Jobs)), policy: p, config: config, allocator: allocator, due: true}
	for i := range l.jobs {
		l.jobs[i].WorkloadJob = w.Jobs[i]
	}
	for second := 0; l.left() > 0; second++ {
		if second > 100_000 {
			t.Fatal("the loop does not end")
		}
		scheduled := l.scheduled(second)
		if !scheduled {
			l.decideBetween(second)
		}
		l.complete(second)
		l.submit(second)
		if scheduled && len(l.active()) > 0 {
			l.decide(second, false)
			l.happened, l.due = false, true
		}
		for _, job := range l.active() {
			job.train(&l.config)
		}
	}
	for i := range l.jobs {
		results = append(results, l.jobs[i].result(&l.config))
	}
	return results, l.unplaced
}

// literalRun is the state of literal.
type literalRun struct {
	*rapid.T
	jobs      []literalJob
	policy    namedPolicy
	config    Config
	allocator Allocator
	estimator eta.Estimator
	unplaced  int  // decisions that no placement realizes completely
	happened  bool // whether a job arrived or completed since the last decision
	due       bool // whether another decision could change allocations without an event
}

// active returns the jobs that are submitted and not completed.
func (l *literalRun) active() []*literalJob {
	var list []*literalJob
	for i := range l.jobs {
		if l.jobs[i].submitted && !l.jobs[i].completed {
			list = append(list, &l.jobs[i])
		}
	}
	return list
}

// left returns the number of jobs that are not completed.
func (l *literalRun) left() (left int) {
	for i := range l.jobs {
		if !l.jobs[i].completed {
			left++
		}
	}
	return left
}

// scheduled reports whether a decision is scheduled, because of the frequency or a pool that changes.
func (l *literalRun) scheduled(second int) bool {
	now := time.Duration(second) * time.Second
	return now%l.config.Frequency == 0 || slices.ContainsFunc(l.config.Resized, func(change NodesAt) bool { return change.At == now })
}

// decideBetween decides at a round after an event, and while a rule that fills idle nodes may change allocations.
func (l *literalRun) decideBetween(second int) {
	endOfRound := second%max(1, int(l.config.Round/time.Second)) == 0
	if endOfRound && len(l.active()) > 0 && (l.happened || !l.policy.EveryEvent && l.due) {
		l.decide(second, !l.policy.EveryEvent)
	}
	l.happened = l.happened && !endOfRound
	l.due = l.config.Placer == nil || l.due && !endOfRound
}

// complete ends the jobs that completed or hung before a second.
func (l *literalRun) complete(second int) {
	for _, job := range l.active() {
		if job.served < job.Work && (job.Fate != OutcomeHung || time.Duration(job.trained)*time.Second < job.HangAfter) {
			continue
		}
		job.completed, job.end, l.happened, l.due = true, second, true, true
		completed := eta.Job{WorkDone: job.History.Work + job.served}
		if job.History.Work == 0 {
			completed.UserEstimate, completed.UserError = job.UserEstimate, job.UserError
		}
		l.estimator.Completed(completed)
		if job.nodes > 0 {
			job.timeline = append(job.timeline, NodesAt{At: time.Duration(second) * time.Second, Nodes: 0})
		}
	}
}

// submit submits the jobs of a second. Jobs with a history may occupy nodes.
func (l *literalRun) submit(second int) {
	for i := range l.jobs {
		job := &l.jobs[i]
		if job.Submit != time.Duration(second)*time.Second {
			continue
		}
		if l.policy.AssignType != nil {
			spec := *job.job(job.ID)
			spec.Speeds = job.speeds()
			job.pin = l.policy.AssignType(literalSnapshot(l.active(), l.policy, l.config, &l.estimator), spec)
		}
		job.submitted, l.happened, l.due = true, true, true
		if before := job.History; before.Nodes > 0 || before.Trained > 0 {
			job.started, job.start = true, second
			job.nodes, job.trainsOn = before.Nodes, before.Nodes
		}
		if job.nodes > 0 {
			job.timeline = []NodesAt{{At: time.Duration(second) * time.Second, Nodes: job.nodes}}
		}
	}
}

// decide applies a decision of the policy or, if fill is true, of FillIdle.
func (l *literalRun) decide(second int, fill bool) {
	snapshot := literalSnapshot(l.active(), l.policy, l.config, &l.estimator)
	for _, change := range l.config.Resized {
		if change.At <= time.Duration(second)*time.Second {
			snapshot.TotalNodes = change.Nodes
		}
	}
	var states []JobState
	for _, job := range l.active() {
		states = append(states, job.state())
	}
	var decision solver.Decision
	var err error
	if fill {
		decision, err = l.allocator.FillIdle(l.Context(), snapshot)
	} else {
		decision, err = l.policy.Decide(l.Context(), Input{
			Snapshot: snapshot, Allocator: l.allocator, Job: func(i int) JobState { return states[i] }, Config: &l.config,
		})
	}
	if err != nil {
		l.Fatal(err)
	}
	nodes, err := allocationsOf(snapshot, decision)
	if err != nil {
		l.Fatal(err)
	}
	if l.config.Placer != nil {
		l.place(snapshot, nodes)
	}
	for i, job := range l.active() {
		job.allocate(second, nodes[i], &l.config)
	}
	l.checkPlaces()
}

// place reduces allocations to what fits on machines, and restarts the jobs that move between machines.
func (l *literalRun) place(s *solver.Snapshot, to []allocation) {
	reduced, moved := literalPlace(l.T, &l.config, s, l.active(), to)
	if reduced {
		l.unplaced++
	}
	for i, job := range l.active() {
		if !moved[i] {
			continue
		}
		job.placementMoves++
		job.restarts = append(job.restarts, job.trained)
		if restart := int(job.restartTime(&l.config) / time.Second); restart > 0 {
			job.trainsOn, job.waits = 0, restart
		}
	}
}

// checkPlaces checks the places of all jobs on machines, for each node type.
func (l *literalRun) checkPlaces() {
	switch placer := l.config.Placer.(type) {
	case rack:
		checkTogether(l.T, placer, l.active())
	case racks:
		for nodeType, r := range placer {
			checkTogether(l.T, r, slices.DeleteFunc(l.active(), func(job *literalJob) bool { return job.nodes == 0 || job.nodeType != nodeType }))
		}
	}
}

// state returns what a policy sees of a job.
func (j *literalJob) state() JobState {
	state := JobState{Job: &j.WorkloadJob, Restarting: j.waits > 0}
	for n, period := range j.timeline {
		state.LargestNodes = max(state.LargestNodes, period.Nodes)
		if period.Nodes > 0 && n > 0 {
			state.Restarts++
		}
	}
	return state
}

// allocate changes the nodes of a job.
func (j *literalJob) allocate(second int, to allocation, config *Config) {
	before, other := j.nodes, to.nodes > 0 && to.nodeType != j.nodeType
	if to.nodes == before && !other {
		return
	}
	j.nodes = to.nodes
	j.timeline = append(j.timeline, NodesAt{At: time.Duration(second) * time.Second, Nodes: to.nodes, NodeType: to.nodeType})
	if j.started {
		j.resizes++
		if to.nodes > 0 {
			j.restarts = append(j.restarts, j.trained)
		}
		if other {
			j.moves++
		}
	} else {
		j.started, j.start, j.firstType = true, second, to.nodeType
	}
	if other {
		j.nodeType = to.nodeType
	}
	if restart := int(j.restartTime(config) / time.Second); restart > 0 && to.nodes > 0 {
		j.trainsOn, j.waits = 0, restart
		return
	}
	if to.nodes > before {
		j.waits = int(config.ScalingDelay / time.Second)
	}
	if to.nodes <= j.trainsOn || j.waits == 0 {
		j.waits, j.trainsOn = 0, to.nodes
	}
}

// train lets a job train or wait for one second.
func (j *literalJob) train(config *Config) {
	if j.nodes == 0 {
		j.unserved++
		return
	}
	j.served += Scale(time.Second, j.speedOn(j.trainsOn, config))
	j.trained++
	if j.waits > 0 {
		if j.waits--; j.waits == 0 {
			j.trainsOn = j.nodes
		}
	}
}

// result returns the result of a job that completed.
func (j *literalJob) result(config *Config) JobResult {
	result := JobResult{
		ID: j.ID, Group: j.Group, Weight: j.weight(), MinSize: j.minSize(), Alone: j.alone(config),
		Submit: j.Submit, Start: time.Duration(j.start) * time.Second, End: time.Duration(j.end) * time.Second,
		Unserved: time.Duration(j.unserved) * time.Second, Resizes: j.resizes, Moves: j.moves, PlacementMoves: j.placementMoves,
		Nodes: j.timeline, Outcome: j.Fate,
	}
	if j.Fate == OutcomeHung && j.served >= j.Work {
		result.Outcome = OutcomeCompleted
	}
	return result
}

// literalSnapshot returns the snapshot of a decision.
func literalSnapshot(jobs []*literalJob, p namedPolicy, config Config, estimator *eta.Estimator) *solver.Snapshot {
	s := &solver.Snapshot{
		TotalNodes: config.Nodes - config.Unavailable,
		SizeLimits: config.SizeLimits,
		NodeTypes:  config.NodeTypes,
		Horizon:    solver.Horizon{Step: config.Frequency, Steps: config.Steps},
	}
	if p.GroupLimits {
		s.Groups = config.Groups
	}
	for _, job := range jobs {
		s.Jobs = append(s.Jobs, job.spec(p, &config, s.Groups, estimator))
	}
	return s
}

// spec returns the job as the snapshot of a decision contains it.
func (j *literalJob) spec(p namedPolicy, config *Config, groups []solver.Group, estimator *eta.Estimator) solver.Job {
	spec := *j.job(j.ID)
	spec.GroupID = j.Group
	spec.RemainingETA, spec.ETAError = j.estimate(estimator)
	if j.ReportsWork {
		spec.WorkDone = j.History.Work + j.served
	}
	spec.CurrentNodes = j.nodes
	if j.nodes > 0 {
		spec.CurrentNodeType = j.nodeType
	}
	spec.Speeds = j.speeds()
	if only := cmp.Or(j.pin, map[bool]string{true: j.firstType}[p.KeepType]); only != "" {
		spec.Speeds = slices.DeleteFunc(slices.Clone(spec.Speeds), func(s solver.TypeSpeed) bool { return s.NodeType != only })
		if len(j.Phases) == 0 {
			spec.Speeds = []solver.TypeSpeed{{NodeType: only}}
		}
	}
	spec.TrainingTime = j.History.Trained + time.Duration(j.trained)*time.Second
	spec.WaitingTime = j.History.Waited + time.Duration(j.unserved)*time.Second
	spec.RestartTime = j.restartTime(config)
	if spec.RestartTime == 0 {
		spec.ResizeDelay = config.ScalingDelay
	}
	spec.FreeResizes = spec.RestartTime == 0
	for n := len(j.restarts) - 1; !p.NoRestartBudget && n >= 0 && n >= len(j.restarts)-3; n-- {
		spec.RecentRestarts = append(spec.RecentRestarts, time.Duration(j.trained-j.restarts[n])*time.Second)
	}
	if p.FixedSize {
		spec.AllowedNodes = j.fixedSize(&spec, nodeLimit(config.Nodes-config.Unavailable, groups, j.Group))
	}
	return spec
}

// estimate returns the remaining ETA and its error: those of the user, or of the estimator if the user has none.
func (j *literalJob) estimate(estimator *eta.Estimator) (remaining time.Duration, etaError *float64) {
	if j.UserError > 0 || j.UserEstimate == 0 {
		estimate := estimator.Estimate(eta.Job{UserEstimate: j.UserEstimate, UserError: j.UserError, WorkDone: j.served})
		if j.UserError > 0 {
			return estimate.ETA, new(j.UserError)
		}
		return estimate.ETA, new(estimate.Error)
	}
	remaining = max(time.Second, j.UserEstimate-j.served)
	for _, later := range j.ETAUpdates {
		if later.Served <= j.served {
			remaining = max(time.Second, later.ETA+later.Served-j.served)
		}
	}
	return remaining, nil
}

// fixedSize returns the only size of a job of a fixed size: the largest legal size up to the request and the limit,
// otherwise the smallest.
func (j *literalJob) fixedSize(spec *solver.Job, limit int) (size []int) {
	for _, legal := range spec.LegalSizes() {
		if size == nil || legal <= min(j.RequestedNodes, limit) {
			size = []int{legal}
		}
	}
	return size
}

// TestRunEqualsReference compares Run with the reference simulation on small workloads, under policies of all kinds.
func TestRunEqualsReference(t *testing.T) {
	policies, typed := policies(), typedPolicies(t)
	allocator := newAllocator()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(policies).Draw(t, "policy")
		config := Config{
			Nodes: rapid.IntRange(maxMinNodes, 12).Draw(t, "nodes"),
			Steps: rapid.IntRange(1, 3).Draw(t, "steps"),
		}
		randomCost(t, &config, 20)
		config.Frequency = config.ScalingDelay + time.Duration(rapid.IntRange(1, 60).Draw(t, "frequency"))*time.Second
		w := randomWorkload(t)
		config.Groups = randomTeams(t, w.Jobs)
		if rapid.Bool().Draw(t, "continued") {
			randomContinuation(t, &w, &config)
		}
		if config.ScalingDelay == 0 && rapid.Bool().Draw(t, "typed") {
			p = rapid.SampledFrom(typed).Draw(t, "typed policy")
			randomTypes(t, &w, &config)
			if rapid.Bool().Draw(t, "without teams") {
				config.Groups = nil
			}
		}
		if rapid.Bool().Draw(t, "decides in rounds") {
			config.Round = time.Duration(rapid.IntRange(1, 40).Draw(t, "round")) * time.Second
		}
		got, err := p.run(t.Context(), w, config, allocator)
		if errors.Is(err, ErrStalled) {
			return // The reference loop would not end either.
		}
		if err != nil {
			t.Fatal(err)
		}
		want, _ := literal(t, w, p, config, allocator)
		if diff := compare.Diff(want, got.Jobs, exceptIdeal()); diff != "" {
			t.Errorf("%s: jobs (-literal +got):\n%s", p.Name, diff)
		}
	})
}

// typedPolicies returns policies of all kinds in pools with node types.
func typedPolicies(t rapid.TB) []namedPolicy {
	totalTime := policy(t, "total-time").Policy
	return []namedPolicy{
		policy(t, "total-time"), policy(t, "total-time-waiting"), policy(t, "total-time-steady"),
		{Terms{Name: "arbitrary", EveryEvent: true, KeepType: true}, arbitrary{}},
		{Terms{Name: "arbitrary, free to move", EveryEvent: true}, arbitrary{}},
		{Terms{Name: "total-time, kept", EveryEvent: true, KeepType: true}, totalTime},
		{Terms{Name: "total-time, assigned", EveryEvent: true, AssignType: shortestQueue}, totalTime},
	}
}

// limitTypes adds random limits on the node types "fast" and "slow" to groups.
func limitTypes(t *rapid.T, groups []solver.Group) {
	for i := range groups {
		if rapid.Bool().Draw(t, "has limits per type") {
			groups[i].TypeLimits = []solver.GroupTypeLimit{
				{NodeType: "fast", Limit: rapid.IntRange(0, 6).Draw(t, "limit of fast")},
				{NodeType: "slow", Limit: rapid.IntRange(maxMinNodes, 12).Draw(t, "limit of slow")},
			}
		}
	}
}

// randomTypes adds node types and random speeds, which change during a job.
func randomTypes(t *rapid.T, w *Workload, config *Config) {
	config.Resized = nil
	limitTypes(t, config.Groups)
	config.NodeTypes = []solver.NodeType{
		{ID: "fast", Nodes: rapid.IntRange(1, 4).Draw(t, "fast"), Speed: 2.5}, {ID: "slow", Nodes: config.Nodes, Speed: 1},
	}
	config.Nodes += config.NodeTypes[0].Nodes
	for i := range w.Jobs {
		job := &w.Jobs[i]
		job.History = History{}
		if rapid.Bool().Draw(t, "by columns of the trace") {
			continue
		}
		job.Shape = Shape{MaxNodes: 8}
		speed := rapid.Float64Range(0.1, 5)
		runsOnFast := rapid.Bool().Draw(t, "runs on fast")
		for _, until := range []float64{rapid.Float64Range(0.01, 0.4).Draw(t, "until"), 0.5, 1} {
			phase := Phase{Until: until}
			if runsOnFast {
				phase.Speeds = append(phase.Speeds, solver.TypeSpeed{
					NodeType: "fast", Factor: speed.Draw(t, "fast"), AllowedNodes: []int{1, 3}, Scaling: solver.Scaling{Speeds: []float64{1, 2}},
				})
			}
			phase.Speeds = append(phase.Speeds, solver.TypeSpeed{
				NodeType: "slow", Factor: speed.Draw(t, "slow"), AllowedNodes: []int{1, 2, 4}, Scaling: solver.Scaling{Speeds: []float64{1, 1.5, 1.4}},
			})
			job.Phases = append(job.Phases, phase)
		}
	}
}

// shortestQueue returns the node type that the job can use with the fewest jobs, as AssignType does.
func shortestQueue(s *solver.Snapshot, job solver.Job) string {
	best, fewest := "", 0
	for n := range s.NodeTypes {
		id, jobs := s.NodeTypes[n].ID, 0
		for i := range s.Jobs {
			if s.Jobs[i].Speeds[0].NodeType == id {
				jobs++
			}
		}
		if there, _, runs := job.ForType(&s.NodeTypes[n]); runs &&
			there.LegalSizes()[0] <= s.NodeTypes[n].Nodes && (best == "" || jobs < fewest) {
			best, fewest = id, jobs
		}
	}
	return best
}

// arbitrary is a policy that gives pseudo-random nodes, which depend on the time and the states of the jobs.
type arbitrary struct{}

func (arbitrary) Decide(_ context.Context, in Input) (solver.Decision, error) {
	s := in.Snapshot
	hash := fnv.New64a()
	fmt.Fprint(hash, s.Jobs[0].WaitingTime, len(s.Jobs))
	for i := range s.Jobs {
		state := in.Job(i)
		fmt.Fprint(hash, state.Restarts, state.LargestNodes, state.Restarting)
	}
	random := rand.New(rand.NewPCG(hash.Sum64(), 1))
	left := map[string]int{}
	for _, nodeType := range s.NodeTypes {
		left[nodeType.ID] = nodeType.Nodes
	}
	decision := solver.Decision{Allocations: make([]solver.Allocation, len(s.Jobs))}
	for i := range s.Jobs {
		for option := range optionsOf(s.Jobs[i], s.NodeTypes) {
			if option.nodes <= left[option.nodeType] && random.IntN(2) == 0 {
				left[option.nodeType] -= option.nodes
				decision.Allocations[i] = solver.Allocation{Nodes: option.nodes, NodeType: option.nodeType}
				break
			}
		}
	}
	return decision, nil
}

// randomCost chooses whether a resize takes effect at once, after a delay of at most the given seconds, or after a restart, which
// may take much longer than the time between decisions.
func randomCost(t *rapid.T, config *Config, maxDelay int) {
	switch rapid.SampledFrom([]string{"at once", "delay", "restart"}).Draw(t, "cost") {
	case "delay":
		config.ScalingDelay = time.Duration(rapid.IntRange(1, maxDelay).Draw(t, "delay")) * time.Second
	case "restart":
		config.RestartTime = time.Duration(rapid.IntRange(1, 100).Draw(t, "restart")) * time.Second
	}
}

// randomContinuation lets a workload start from the state of a cluster, with a pool that changes.
func randomContinuation(t *rapid.T, w *Workload, config *Config) {
	seconds := func(limit int, name string) time.Duration {
		return time.Duration(rapid.IntRange(0, limit).Draw(t, name)) * time.Second
	}
	idle := config.Nodes
	for i := range w.Jobs {
		job := &w.Jobs[i]
		if rapid.Bool().Draw(t, "as a snapshot") {
			like := job.job("another")
			job.Shape = Shape{As: like}
		}
		for n, served := 0, time.Duration(0); n < rapid.IntRange(0, 3).Draw(t, "retold"); n++ {
			served += 1 + seconds(100, "served")
			job.ETAUpdates = append(job.ETAUpdates, ETAUpdate{Served: served, ETA: 1 + seconds(300, "ETA")})
		}
		if rapid.Bool().Draw(t, "restart time of the job") {
			job.RestartTime = seconds(50, "restart")
		}
		if job.Submit == 0 {
			job.History = History{Trained: seconds(100, "trained"), Waited: seconds(100, "waited"), Work: seconds(100, "work")}
			sizes := append([]int{0}, like(job).LegalSizes()...)
			if nodes := rapid.SampledFrom(sizes).Draw(t, "held"); nodes <= idle && config.Groups == nil {
				job.History.Nodes = nodes
				idle -= nodes
			}
		}
	}
	at := time.Duration(-1) * time.Second
	for range rapid.IntRange(0, 3).Draw(t, "resizes") {
		at += time.Second + seconds(100, "resize after")
		config.Resized = append(config.Resized, NodesAt{At: at, Nodes: rapid.IntRange(0, config.Nodes).Draw(t, "to")})
	}
	if n := len(config.Resized); n > 0 {
		config.Resized[n-1].Nodes = config.Nodes
	}
}

func like(job *WorkloadJob) *solver.Job { return job.job(job.ID) }

// checkCourse checks that a job with the nodes of a result completes at the time of the result, with its work done.
func checkCourse(t *rapid.T, job *WorkloadJob, got *JobResult) {
	t.Helper()
	course := NewProgress(job, nil)
	for n, change := range got.Nodes {
		if n == 0 && job.History.Nodes > 0 {
			continue
		}
		if n == len(got.Nodes)-1 {
			if end, ends := course.End(job.Work); !ends || end != got.End {
				t.Fatalf("%s ends at %v, %v; want %v", job.ID, end, ends, got.End)
			}
		}
		course.Resize(change)
	}
	if served := course.Served(got.End); served < job.Work || course.Served(got.End+time.Hour) != served {
		t.Fatalf("%s did %v of %v", job.ID, served, job.Work)
	}
}

// TestCourse checks that a job with the nodes of a recorded course does the same work and completes at
// the same time.
func TestCourse(t *testing.T) {
	p := policy(t, "total-time")
	allocator := newAllocator()
	rapid.Check(t, func(t *rapid.T) {
		config := Config{Nodes: 8, Steps: 2, Frequency: 45 * time.Second}
		w := randomWorkload(t)
		randomContinuation(t, &w, &config)
		result, err := p.run(t.Context(), w, config, allocator)
		if errors.Is(err, ErrStalled) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range w.Jobs {
			if got := &result.Jobs[i]; got.Outcome != OutcomeHung {
				checkCourse(t, &w.Jobs[i], got)
			}
		}
		until := config.Frequency
		if used, limit := NodeTime(config.Resized, config.Nodes, 0, until), time.Duration(config.Nodes)*until; used > limit {
			t.Fatalf("the pool had %v of %v", used, limit)
		}
	})
}

// maxMinNodes is the maximum of MinNodes of a random job.
const maxMinNodes = 4

func randomShape(t *rapid.T) Shape {
	if rapid.Bool().Draw(t, "plain") {
		return Shape{}
	}
	minNodes := rapid.SampledFrom([]int{0, 1, 2, 3, maxMinNodes}).Draw(t, "min")
	return Shape{
		MinNodes:           minNodes,
		MaxNodes:           rapid.SampledFrom([]int{0, max(1, minNodes), 4, 8, 32}).Draw(t, "max"),
		DoublingEfficiency: rapid.SampledFrom([]float64{0, 0.6, 0.95, 1}).Draw(t, "efficiency"),
		Weight:             rapid.SampledFrom([]float64{0, 0.5, 1, 8}).Draw(t, "weight"),
	}
}

// randomTeams generates a tree of groups and assigns the jobs to its leaves.
func randomTeams(t *rapid.T, jobs []WorkloadJob) []solver.Group {
	upTo12 := func(name string, lowest int) int { return rapid.IntRange(lowest, 12).Draw(t, name) }
	groups := []solver.Group{
		{ID: "a", ParentID: "department", Quota: upTo12("quota", 0)}, {ID: "department", Quota: upTo12("quota", 0)},
		{ID: "b", ParentID: "department", Quota: upTo12("quota", 0)}, {ID: "c", Quota: upTo12("quota", 0)},
	}
	for i := range groups {
		if rapid.Bool().Draw(t, "has a limit") {
			groups[i].Limit = new(upTo12("limit", maxMinNodes))
		}
	}
	for i := range jobs {
		jobs[i].Group = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "team")
	}
	return groups
}

func randomWorkload(t *rapid.T) Workload {
	trace := make(Trace, rapid.IntRange(1, 8).Draw(t, "jobs"))
	submit := time.Duration(0)
	for i := range trace {
		trace[i] = TraceJob{
			ID:       fmt.Sprint("job ", i),
			Submit:   submit,
			Duration: time.Duration(rapid.Int64Range(0, int64(3*time.Minute)).Draw(t, "duration")),
			GPUs:     rapid.IntRange(1, 200).Draw(t, "GPUs"),
			Shape:    randomShape(t),
		}
		submit += time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "wait"))
	}
	share := func(name string) float64 { return rapid.Float64Range(0, 0.5).Draw(t, name) }
	d := Disturbance{BugShare: share("bugs"), KillShare: share("kills")}
	switch rapid.SampledFrom([]string{"uniform", "log-normal", "unknown"}).Draw(t, "ETAs") {
	case "uniform":
		d.ETAError = share("ETA error")
	case "log-normal":
		d.ETASigma = rapid.Float64Range(0, solver.MaxETAError).Draw(t, "sigma")
	case "unknown":
		d.ETAUnknown, d.ETASigma = true, rapid.SampledFrom([]float64{0, 1}).Draw(t, "sigma")
	}
	return NewWorkload("drawn", trace, WorkloadOptions{GPUsPerNode: DefaultGPUsPerNode}).Disturb(d, rapid.Uint64().Draw(t, "seed"))
}
