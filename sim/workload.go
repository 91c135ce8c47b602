package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Workload is the jobs of a simulation in the order of their submission.
type Workload struct {
	// Name is the name of the trace.
	Name string
	// Jobs are in the order of submission, the first at second 0.
	Jobs []WorkloadJob
	// Cut counts the differences between the workload and its trace.
	Cut Cuts
}

// Cuts counts the jobs and GPUs of a trace that a workload omits, as written to summary.json.
type Cuts struct {
	// TooShort is the number of omitted jobs with less than WorkloadOptions.MinDuration.
	TooShort int `json:"jobs_too_short"`
	// Jobs is the number of jobs that requested more GPUs than RequestedNodes has, because the trace
	// limits their sizes. GPUs is the number
	// of their excess GPUs, and MaxGPUs the largest request.
	Jobs    int `json:"jobs_cut"`
	GPUs    int `json:"gpus_cut"`
	MaxGPUs int `json:"most_gpus"`
	// Eligible is the number of jobs that could run only after their submission. Their times count from then on.
	Eligible int `json:"jobs_eligible_later"`
	// BelowNode is the number of jobs that requested less than one node and get a whole node.
	BelowNode int `json:"jobs_below_node"`
}

// WorkloadJob is one job of a workload.
type WorkloadJob struct {
	// ID is unique in the workload.
	ID string
	// Submit is when the job is submitted, in whole seconds.
	Submit time.Duration
	// Demand is the run time on one node if the job completes. It is greater than 0.
	Demand time.Duration
	// RequestedNodes is the number of nodes that the job requested. Policies with fixed sizes allocate
	// it as far as the legal sizes and the pool allow.
	RequestedNodes int
	// Shape contains the scaling and the weight.
	Shape
	// User submitted the job, and Group is its team; "" for unknown.
	User, Group string
	// Recorded lists the recorded allocations of the job, in whole seconds and not before Submit. The
	// last entry has no nodes. It is empty if the schedule is not known.
	Recorded []NodesAt
	// History is the state at Submit of a job that started earlier.
	History History
	// ResizeDelay replaces Config.ScalingDelay for this job if it is longer. It is less than
	// Config.Frequency. RestartTime, if set, replaces Config.RestartTime and both delays. They are in
	// whole seconds.
	ResizeDelay, RestartTime time.Duration
	// UserEstimate is the estimate of Demand at submission, 0 for none.
	UserEstimate time.Duration
	// UserError is the standard deviation of ln(Demand / UserEstimate), 0 for a reliable estimate.
	// Without a reliable estimate, snapshots contain the estimates of client/eta, with UserError as
	// their error if it is set.
	UserError float64
	// ReportsWork adds the work done to snapshots.
	ReportsWork bool
	// UserLimit is the time with nodes after which the user expects the job to be complete, in whole
	// seconds. 0 means twice the run time on its requested nodes. Jobs that exceed it keep running.
	UserLimit time.Duration
	// Phases are the speeds on node types in the course of Demand. If empty, Shape applies on all node
	// types.
	Phases []Phase
	// ETAUpdates are later estimates of the remaining work, in ascending order of work done. If empty,
	// the remaining ETA is UserEstimate less the work done.
	ETAUpdates []ETAUpdate
	// Fate is the outcome of the job under every policy.
	Fate Outcome
	// Work is the run time on one node after which the job finishes if it does not hang. It is less
	// than Demand if the user kills the job.
	Work time.Duration
	// HangAfter is the training time after which a job with OutcomeHung hangs, in whole seconds, at
	// least 1 s.
	HangAfter time.Duration
}

// Outcome is the way in which a job finishes.
type Outcome string

// The outcomes.
const (
	// OutcomeCompleted means that the job did all its work.
	OutcomeCompleted Outcome = "completed"
	// OutcomeHung means that the job hung because of a bug soon after its start.
	OutcomeHung Outcome = "hung"
	// OutcomeKilled means that the user terminated the job.
	OutcomeKilled Outcome = "killed"
)

// WorkloadOptions control the conversion of a trace into a workload.
type WorkloadOptions struct {
	// GPUsPerNode is the number of GPUs of a node, at least 1.
	GPUsPerNode int
	// MinDuration is the shortest duration of a job. Shorter jobs are omitted.
	MinDuration time.Duration
	// Speeds are the speeds of the applications. nil ignores TraceJob.Application.
	Speeds Speeds
	// MaxGrowth limits the nodes of a job to a multiple of its requested nodes, of at least 1. 0 means
	// no limit. A job keeps its smallest size.
	MaxGrowth float64
}

// smallestDemand is the minimum demand of a job. A duration of 0 in a trace is a duration below the
// resolution of its clock.
const smallestDemand = time.Second

// NewWorkload converts a trace into a workload. Jobs are submitted when they could run, and time 0 is the submission
// of the first job that is not omitted. Submissions are rounded up to whole seconds. Demands are at least 1 s.
func NewWorkload(name string, trace Trace, options WorkloadOptions) Workload {
	workload := Workload{Name: name}
	var begin time.Duration
	byArrival := slices.SortedStableFunc(slices.Values(trace), func(a, b TraceJob) int { return cmp.Compare(a.arrival(), b.arrival()) })
	for i := range byArrival {
		traced := &byArrival[i]
		if traced.runTime(options.GPUsPerNode) < options.MinDuration {
			workload.Cut.TooShort++
			continue
		}
		if len(workload.Jobs) == 0 {
			begin = traced.arrival()
		}
		demand := max(traced.RemainingDemand(0, options.GPUsPerNode), smallestDemand)
		job := WorkloadJob{
			ID:             traced.ID,
			Submit:         WholeSeconds(traced.arrival() - begin),
			Demand:         demand,
			RequestedNodes: traced.Nodes(options.GPUsPerNode),
			Shape:          traced.shapeOn(options.GPUsPerNode),
			User:           traced.User,
			Group:          traced.Group,
			UserEstimate:   demand,
			Fate:           OutcomeCompleted,
			Work:           demand,
			RestartTime:    WholeSeconds(traced.RestartTime),
			UserLimit:      WholeSeconds(traced.Limit),
		}
		if app := options.Speeds[traced.Application]; app != nil {
			job.Phases, job.RestartTime = app.Phases, cmp.Or(job.RestartTime, app.RestartTime)
			job.Shape, job.MaxNodes = traced.Shape, cmp.Or(traced.MaxNodes, app.largest())
		}
		if options.MaxGrowth > 0 {
			job.limitGrowth(options.MaxGrowth)
		}
		if traced.Start != nil {
			started := WholeSeconds(*traced.Start - begin)
			job.Recorded = []NodesAt{{At: started, Nodes: job.RequestedNodes}, {At: started + WholeSeconds(traced.runTime(options.GPUsPerNode))}}
		}
		workload.Jobs = append(workload.Jobs, job)
		if traced.arrival() > traced.Submit {
			workload.Cut.Eligible++
		}
		if traced.GPUs < options.GPUsPerNode {
			workload.Cut.BelowNode++
		}
		if allocated := job.RequestedNodes * options.GPUsPerNode; traced.GPUs > allocated {
			workload.Cut.Jobs++
			workload.Cut.GPUs += traced.GPUs - allocated
			workload.Cut.MaxGPUs = max(workload.Cut.MaxGPUs, traced.GPUs)
		}
	}
	return workload
}

// Load returns the node time of all jobs on their requested nodes, divided by the node time of a pool
// in a span. If it exceeds 1, the queue grows. It is NaN for a span of 0.
func (w *Workload) Load(nodes int, span time.Duration) float64 {
	if span <= 0 {
		return math.NaN()
	}
	sum := 0.0
	for i := range w.Jobs {
		job := &w.Jobs[i]
		size := job.atMost(job.RequestedNodes)
		sum += float64(size) * job.Work.Seconds() / job.speed(size)
	}
	return sum / (float64(nodes) * span.Seconds())
}

// Span returns the time from the first submission to the last.
func (w *Workload) Span() time.Duration {
	if len(w.Jobs) == 0 {
		return 0
	}
	return w.Jobs[len(w.Jobs)-1].Submit - w.Jobs[0].Submit
}

// SnapshotJob returns the job as it appears in a snapshot while it is queued, without a remaining ETA.
func (j *WorkloadJob) SnapshotJob() solver.Job {
	spec := *j.job(j.ID)
	spec.GroupID = j.Group
	if len(j.Phases) > 0 {
		spec.Speeds = j.Phases[0].Speeds
	}
	return spec
}

// alone returns the completion time of the job alone in the pool, in whole seconds, at least 1 s. The
// job runs on its largest size, or on the fastest allocation if there are node types.
func (j *WorkloadJob) alone(config *Config) time.Duration {
	perSecond := Scale(time.Second, j.speed(j.atMost(config.available())))
	span := WholeSeconds(time.Duration(float64(j.Work) / float64(perSecond) * float64(time.Second)))
	if len(config.NodeTypes) > 0 {
		span = j.aloneOnTypes(config.NodeTypes)
	}
	if j.Fate == OutcomeHung {
		span = min(span, j.HangAfter)
	}
	return max(span, time.Second)
}

// Check returns a *solver.InvalidError for an invalid config, and another error if a job does not fit the pool.
func (w *Workload) Check(config *Config) error {
	if bad := config.Validate(); len(bad) > 0 {
		return &solver.InvalidError{Violations: bad}
	}
	if err := cmp.Or(w.checkGroups(config), w.checkTypes(config), w.checkMachines(config)); err != nil || len(config.NodeTypes) > 0 {
		return err
	}
	for i := range w.Jobs {
		if job := &w.Jobs[i]; job.minSize() > config.available() {
			return fmt.Errorf("job %q of %s needs at least %d nodes; the pool has %d", job.ID, w.Name, job.minSize(), config.available())
		}
	}
	return nil
}

// CheckRecorded returns a *solver.InvalidError for an invalid config, and another error if a job has no recorded
// schedule on the node types of the pool.
func (w *Workload) CheckRecorded(config *Config) error {
	if bad := config.Validate(); len(bad) > 0 {
		return &solver.InvalidError{Violations: bad}
	}
	if err := cmp.Or(w.checkGroups(config), w.checkTypes(config)); err != nil {
		return err
	}
	untyped := func(period NodesAt) bool {
		return len(config.NodeTypes) > 0 && period.Nodes > 0 && period.NodeType == ""
	}
	for i := range w.Jobs {
		job := &w.Jobs[i]
		if len(job.Recorded) == 0 {
			return fmt.Errorf("job %q of %s has no %s; the policy %s needs it", job.ID, w.Name, columnStart, config.Name)
		}
		if slices.ContainsFunc(job.Recorded, untyped) {
			return fmt.Errorf("job %q of %s has no recorded node types; the policy %s needs them", job.ID, w.Name, config.Name)
		}
	}
	return nil
}

// Disturbance adds errors of estimates, hanging jobs and killed jobs to a workload, as in section
// "Robustness" of the paper.
type Disturbance struct {
	// ETAError is the largest relative error of user estimates, in [0, 1). Errors are uniform in
	// [-ETAError, ETAError]. Jobs that hang or are killed have no error.
	ETAError float64
	// ETASigma is the standard deviation of a log-normal error, 0 to solver.MaxETAError. The user
	// estimate of a job is its demand times exp(ETASigma g) with a standard normal g. Snapshots contain
	// the resulting estimates of client/eta, with ETASigma as their error, and the work done. ETASigma
	// and ETAError exclude each other.
	ETASigma float64
	// ETAUnknown removes all user estimates. Snapshots contain estimates of client/eta from completed
	// jobs, and the work done. If ETASigma is set, it is the error of these estimates.
	ETAUnknown bool
	// BugShare is the share of jobs that hang, after a training time that is uniform up to latestHang.
	BugShare float64
	// KillShare is the share of jobs that are killed, after a uniform share of their work.
	KillShare float64
}

// latestHang is the longest training time of a job that hangs.
const latestHang = 5 * time.Minute

// Disturb returns the workload with a disturbance. The random numbers of a job depend only on the seed
// and its position, so a job that hangs for one BugShare also hangs for every larger one.
func (w Workload) Disturb(d Disturbance, seed uint64) Workload {
	disturbed := Workload{Name: w.Name, Jobs: make([]WorkloadJob, len(w.Jobs)), Cut: w.Cut}
	for i, job := range w.Jobs {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		u, etaError, killedAt := random.Float64(), 2*random.Float64()-1, random.Float64()
		hangAfter := time.Duration(1+random.Int64N(int64(latestHang/time.Second))) * time.Second
		exponent := d.ETASigma * random.NormFloat64()
		switch {
		case u < d.BugShare:
			job.Fate, job.HangAfter = OutcomeHung, hangAfter
		case u < d.BugShare+d.KillShare:
			job.Fate, job.Work = OutcomeKilled, max(1, Scale(job.Demand, killedAt))
		default:
			job.UserEstimate = max(1, Scale(job.Demand, 1+d.ETAError*etaError))
		}
		if d.ETAUnknown || d.ETASigma > 0 {
			job.UserError, job.ReportsWork = d.ETASigma, true
			job.UserEstimate = max(1, Scale(job.Demand, math.Exp(exponent)))
		}
		if d.ETAUnknown {
			job.UserEstimate = 0
		}
		disturbed.Jobs[i] = job
	}
	return disturbed
}

// WholeSeconds rounds d, at least 0, up to whole seconds.
func WholeSeconds(d time.Duration) time.Duration {
	if rest := d % time.Second; rest > 0 {
		return d + time.Second - rest
	}
	return d
}

// Shape contains the scaling and the weight of a job. The zero value of a field means the default of
// solver.Job: 1 to 16 nodes, the speed curve of the paper, and weight 1.
type Shape struct {
	// MinNodes and MaxNodes limit the legal sizes, which are the powers of two in this range. If both
	// are equal, their value is the only legal size.
	MinNodes, MaxNodes int
	// AllowedNodes, if set, are the legal sizes instead, in ascending order.
	AllowedNodes []int
	// Speeds, if set, are the training speeds on AllowedNodes relative to one node. They replace
	// DoublingEfficiency.
	Speeds []float64
	// DoublingEfficiency is e in speed(k) = k * e^log2(k).
	DoublingEfficiency float64
	// Weight is the weight of the job in objectives.
	Weight float64
	// As, if set, is a job of a snapshot with defaults. Its sizes, speeds, weight and ETA error replace
	// the other fields.
	As *solver.Job
}

// job returns the shape as a queued job with all defaults.
func (s *Shape) job(id string) *solver.Job {
	if s.As != nil {
		return &solver.Job{
			ID: id, MinNodes: s.As.MinNodes, MaxNodes: s.As.MaxNodes, AllowedNodes: s.As.AllowedNodes,
			Scaling: s.As.Scaling, Weight: s.As.Weight, ETAError: s.As.ETAError,
			Speeds: s.As.Speeds, MoveTime: s.As.MoveTime,
		}
	}
	job := solver.NewJob(id, 0)
	job.MinNodes = cmp.Or(s.MinNodes, job.MinNodes)
	job.MaxNodes = cmp.Or(s.MaxNodes, job.MaxNodes)
	if len(s.AllowedNodes) > 0 {
		job.MinNodes, job.MaxNodes = s.AllowedNodes[0], s.AllowedNodes[len(s.AllowedNodes)-1]
		job.AllowedNodes, job.Scaling.Speeds = s.AllowedNodes, s.Speeds
	}
	job.Scaling.DoublingEfficiency = cmp.Or(s.DoublingEfficiency, job.Scaling.DoublingEfficiency)
	if s.Weight != 0 {
		job.Weight = new(s.Weight)
	}
	return &job
}

// speed returns the training speed on the given nodes relative to one.
func (s *Shape) speed(nodes int) float64 { return s.job("").Speed(nodes) }

func (s *Shape) weight() float64 { return s.job("").WeightOrDefault() }

// minSize returns the smallest legal size of the job.
func (s *Shape) minSize() int { return s.job("").LegalSizes()[0] }

// atMost returns the largest legal size that does not exceed nodes, or the smallest legal size if
// there is none.
func (s *Shape) atMost(nodes int) int {
	sizes := s.job("").LegalSizes()
	fitting, found := slices.BinarySearch(sizes, nodes)
	if found {
		return nodes
	}
	return sizes[max(0, fitting-1)]
}

// RequestedNodes converts a requested number of GPUs into nodes. Both arguments are at least 1. With
// AllowedNodes, it returns the smallest of these sizes with enough GPUs, or the largest size. For a
// job with a single legal size, it returns this size. Otherwise it returns the smallest number of
// nodes with enough GPUs, at most solver.MaxNodes.
func (s *Shape) RequestedNodes(gpus, gpusPerNode int) int {
	needed := (gpus-1)/gpusPerNode + 1
	if n := len(s.AllowedNodes); n > 0 {
		at, _ := slices.BinarySearch(s.AllowedNodes, needed)
		return s.AllowedNodes[min(at, n-1)]
	}
	if s.MinNodes != 0 && s.MinNodes == s.MaxNodes {
		return s.MinNodes
	}
	return min(needed, solver.MaxNodes)
}

// limitGrowth removes the sizes of the job above growth times the requested nodes, except the smallest
// size.
func (j *WorkloadJob) limitGrowth(growth float64) {
	limit := int(min(growth*float64(j.RequestedNodes), solver.MaxNodes))
	kept := func(sizes []int) int {
		above, _ := slices.BinarySearch(sizes, limit+1)
		return max(1, above)
	}
	j.Phases = slices.Clone(j.Phases)
	for p := range j.Phases {
		phase := &j.Phases[p]
		phase.Speeds = slices.Clone(phase.Speeds)
		for i := range phase.Speeds {
			speed := &phase.Speeds[i]
			n := kept(speed.AllowedNodes)
			speed.AllowedNodes, speed.Scaling.Speeds = speed.AllowedNodes[:n], speed.Scaling.Speeds[:min(n, len(speed.Scaling.Speeds))]
		}
	}
	if len(j.Phases) > 0 {
		return
	}
	sizes := j.job("").LegalSizes()
	n := kept(sizes)
	if n == len(sizes) {
		return
	}
	j.AllowedNodes = slices.Clone(sizes[:n])
	if len(j.Speeds) > 0 {
		j.Speeds = j.Speeds[:n]
	}
}
