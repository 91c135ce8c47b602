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
	// Name is that of the trace.
	Name string
	// Jobs are in the order of submission, the first at second 0.
	Jobs []WorkloadJob
	// Cut is what the workload leaves out of its trace.
	Cut Cuts
}

// Cuts is what a workload leaves out of its trace. Field names are those of
// summary.json.
type Cuts struct {
	// TooShort is the number of jobs below WorkloadOptions.MinDuration.
	TooShort int `json:"jobs_too_short"`
	// Jobs is how many of the others asked for more GPUs than the most nodes hold,
	// GPUs how many more in sum, and MostGPUs the most that one of them asked for.
	Jobs     int `json:"jobs_cut"`
	GPUs     int `json:"gpus_cut"`
	MostGPUs int `json:"most_gpus"`
	// BelowNode is how many jobs asked for fewer GPUs than a node has, and hold one at least.
	BelowNode int `json:"jobs_below_node"`
}

// WorkloadJob is one job of a workload.
type WorkloadJob struct {
	// ID is unique in the workload.
	ID string
	// Submit is when the job is submitted, in whole seconds.
	Submit time.Duration
	// Demand is the run time on one node if nothing ends the job early. Greater than 0.
	Demand time.Duration
	// Asked is the number of nodes the job asked for, which policies of fixed sizes give it
	// as far as its legal sizes and the pool allow.
	Asked int
	// Shape is how it scales and how much it counts.
	Shape
	// User submitted the job, and Group is its team; "" for unknown.
	User, Group string
	// Recorded is what the job really held, in whole seconds and not before Submit. It
	// ends where the job gives up its last nodes, and is empty if that is not known.
	Recorded []NodesAt
	// History is what the job has behind it at Submit, for one that does not begin there.
	History History
	// RescaleDelay and RestartTime are those of Config for this job where they are longer
	// than for all: whole seconds, RescaleDelay less than the frequency, not both.
	RescaleDelay, RestartTime time.Duration
	// ToldETA is what is told of Demand at submission; 0 if nothing is. ToldError is the
	// standard deviation of ln(Demand / ToldETA), 0 for one that the allocator is to take as it
	// is. In every other case it is told the estimates of client/eta, with ToldError or else with
	// that of the estimate.
	ToldETA   time.Duration
	ToldError float64
	// TellsWork tells the allocator the work done, too.
	TellsWork bool
	// Phases are how fast the job trains on node types, in the order of its Demand; empty
	// where its own scaling holds on each of them throughout.
	Phases []Phase
	// Retold is what the allocator is told of the work left as the job advances, in that
	// order; empty where that is ToldETA less what is done.
	Retold []ETAAt
	// Fate is how the job will end, whatever the policy.
	Fate Outcome
	// Work is the run time on one node after which a job ends that does not hang: all of
	// Demand, or less if its user kills it.
	Work time.Duration
	// HangAfter is the training time after which a job hangs that will: whole seconds, at
	// least one.
	HangAfter time.Duration
}

// Outcome is how a job ended.
type Outcome string

// The outcomes.
const (
	// OutcomeCompleted means that the job was trained to its end.
	OutcomeCompleted Outcome = "completed"
	// OutcomeHung means that a bug hung the job up soon after it had started.
	OutcomeHung Outcome = "hung"
	// OutcomeKilled means that its user terminated the job.
	OutcomeKilled Outcome = "killed"
)

// WorkloadOptions say how a trace becomes a workload.
type WorkloadOptions struct {
	// GPUsPerNode turns GPUs into nodes. At least 1.
	GPUsPerNode int
	// MinDuration drops jobs whose duration in the trace is shorter.
	MinDuration time.Duration
	// Speeds are those of the applications of the trace; nil if it is not looked at.
	Speeds Speeds
}

// smallestDemand is what a job of a trace takes at least: a duration of 0 only
// says that it was shorter than the trace's clock could tell.
const smallestDemand = time.Second

// NewWorkload returns the workload of a trace. Time begins with the first job kept; submissions are
// rounded up to whole seconds and demands to at least one.
func NewWorkload(name string, trace Trace, options WorkloadOptions) Workload {
	workload := Workload{Name: name}
	var begin time.Duration
	for i := range trace {
		traced := &trace[i]
		if traced.runTime(options.GPUsPerNode) < options.MinDuration {
			workload.Cut.TooShort++
			continue
		}
		if len(workload.Jobs) == 0 {
			begin = traced.Submit
		}
		demand := max(traced.RemainingDemand(0, options.GPUsPerNode), smallestDemand)
		job := WorkloadJob{
			ID:      traced.ID,
			Submit:  wholeSeconds(traced.Submit - begin),
			Demand:  demand,
			Asked:   traced.Nodes(options.GPUsPerNode),
			Shape:   traced.shapeOn(options.GPUsPerNode),
			User:    traced.User,
			Group:   traced.Group,
			ToldETA: demand,
			Fate:    OutcomeCompleted,
			Work:    demand,
		}
		if app := options.Speeds[traced.Application]; app != nil {
			job.Phases, job.RestartTime = app.Phases, app.RestartTime
			job.MaxNodes = cmp.Or(traced.MaxNodes, app.largest())
		}
		if traced.Start != nil {
			started := wholeSeconds(*traced.Start - begin)
			job.Recorded = []NodesAt{{At: started, Nodes: job.Asked}, {At: started + wholeSeconds(traced.runTime(options.GPUsPerNode))}}
		}
		workload.Jobs = append(workload.Jobs, job)
		if traced.GPUs < options.GPUsPerNode {
			workload.Cut.BelowNode++
		}
		if held := job.Asked * options.GPUsPerNode; traced.GPUs > held {
			workload.Cut.Jobs++
			workload.Cut.GPUs += traced.GPUs - held
			workload.Cut.MostGPUs = max(workload.Cut.MostGPUs, traced.GPUs)
		}
	}
	return workload
}

// Load returns the node time that the jobs need on the nodes that they asked for by the node time
// of a pool in a span: above 1, a queue builds up. NaN for no span.
func (w *Workload) Load(nodes int, span time.Duration) float64 {
	if span <= 0 {
		return math.NaN()
	}
	sum := 0.0
	for i := range w.Jobs {
		job := &w.Jobs[i]
		size := job.atMost(job.Asked)
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

// Told returns the queued job as an allocator is told of it, its ETA aside.
func (j *WorkloadJob) Told() solver.Job {
	told := *j.job(j.ID)
	told.GroupID = j.Group
	if len(j.Phases) > 0 {
		told.Speeds = j.Phases[0].Speeds
	}
	return told
}

// alone returns how long the job takes, to the end it will come to, alone in a pool on
// its largest size there, with node types on the nodes that are the fastest for all of it:
// whole seconds, at least one.
func (j *WorkloadJob) alone(config *Config) time.Duration {
	perSecond := scale(time.Second, j.speed(j.atMost(config.Nodes)))
	span := wholeSeconds(time.Duration(float64(j.Work) / float64(perSecond) * float64(time.Second)))
	if len(config.NodeTypes) > 0 {
		span = j.aloneOnTypes(config.NodeTypes)
	}
	if j.Fate == OutcomeHung {
		span = min(span, j.HangAfter)
	}
	return max(span, time.Second)
}

// Suits returns an error if a policy cannot run the workload in a setting: a job needs more
// nodes, and would wait for ever, or what the policy needs is not known.
func (w *Workload) Suits(policy *Policy, config *Config) error {
	if err := cmp.Or(w.suitsTeams(policy, config), w.suitsTypes(policy, config)); err != nil {
		return err
	}
	if policy.Partitioned {
		return suitsPartitions(w, policy, config)
	}
	for i := range w.Jobs {
		job := &w.Jobs[i]
		switch {
		case policy.Name == RecordedPolicy && len(job.Recorded) == 0:
			return fmt.Errorf("job %q of %s has no %s; the policy %s needs it", job.ID, w.Name, columnStart, policy.Name)
		case policy.Name == RecordedPolicy || len(config.NodeTypes) > 0:
		case job.smallest() > config.Nodes:
			return fmt.Errorf("job %q of %s needs at least %d nodes; the pool has %d", job.ID, w.Name, job.smallest(), config.Nodes)
		}
	}
	return nil
}

// Disturbance is how reality departs from what the allocator is told, as in the
// paper's section "Robustness".
type Disturbance struct {
	// ETAError is the largest relative error of a told ETA, drawn uniformly from -ETAError
	// to +ETAError for the jobs that neither hang nor are killed. In [0, 1).
	ETAError float64
	// ETASigma is the standard deviation of a log-normal error, 0 to solver.MaxETAError: the
	// ETA of a job is exp(ETASigma g) times its demand, g normal. The allocator is told the
	// estimates of client/eta from it, with ETASigma as their error, and the work done. Not
	// together with ETAError.
	ETASigma float64
	// ETAUnknown has no job tell an ETA: the allocator is told the estimates of client/eta
	// from the jobs that have ended, and the work done. ETASigma, where set, is then the
	// error told of them.
	ETAUnknown bool
	// BugShare is the share of jobs that hang after a training time drawn uniformly up to
	// latestHang, and KillShare of those killed when a share of their work is done that is
	// drawn uniformly.
	BugShare, KillShare float64
}

// latestHang is the training time by which a job with a bug hangs.
const latestHang = 5 * time.Minute

// Disturb returns a workload that departs from what the allocator is told. The fate of a job
// depends on the seed and its position alone: one that hangs at one share of bugs also does at
// a larger one.
func (w Workload) Disturb(d Disturbance, seed uint64) Workload {
	disturbed := Workload{Name: w.Name, Jobs: make([]WorkloadJob, len(w.Jobs)), Cut: w.Cut}
	for i, job := range w.Jobs {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		lot, etaError, killedAt := random.Float64(), 2*random.Float64()-1, random.Float64()
		hangAfter := time.Duration(1+random.Int64N(int64(latestHang/time.Second))) * time.Second
		exponent := d.ETASigma * random.NormFloat64()
		switch {
		case lot < d.BugShare:
			job.Fate, job.HangAfter = OutcomeHung, hangAfter
		case lot < d.BugShare+d.KillShare:
			job.Fate, job.Work = OutcomeKilled, max(1, scale(job.Demand, killedAt))
		default:
			job.ToldETA = max(1, scale(job.Demand, 1+d.ETAError*etaError))
		}
		if d.ETAUnknown || d.ETASigma > 0 {
			job.ToldError, job.TellsWork = d.ETASigma, true
			job.ToldETA = max(1, scale(job.Demand, math.Exp(exponent)))
		}
		if d.ETAUnknown {
			job.ToldETA = 0
		}
		disturbed.Jobs[i] = job
	}
	return disturbed
}

// wholeSeconds rounds d, at least 0, up to whole seconds.
func wholeSeconds(d time.Duration) time.Duration {
	if rest := d % time.Second; rest > 0 {
		return d + time.Second - rest
	}
	return d
}

// Shape is how a job scales and how much it counts. The zero value of each field means
// the default of solver.Job: 1 to 16 nodes, the paper's speed curve, the weight 1.
type Shape struct {
	// Legal sizes are the powers of two from MinNodes to MaxNodes, or that size alone where
	// the two are equal.
	MinNodes, MaxNodes int
	// AllowedNodes, if set, are the legal sizes instead, ascending, and Speeds, as many if set, the
	// training speeds on them relative to one node, instead of DoublingEfficiency.
	AllowedNodes []int
	Speeds       []float64
	// DoublingEfficiency is e in speed(k) = k * e^log2(k).
	DoublingEfficiency float64
	// Weight is the factor on the job's part of an objective.
	Weight float64
	// As, where set, is a job of a snapshot, defaults filled in, whose range, sizes, speeds,
	// weight and ETA error it has instead of those of the other fields.
	As *solver.Job
}

// job returns the queued job that an allocator is told of, every default filled in.
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

// smallest returns the least nodes the job can train on.
func (s *Shape) smallest() int { return s.job("").LegalSizes()[0] }

// atMost returns the largest legal size of at most the given nodes, or the smallest
// if all are larger.
func (s *Shape) atMost(nodes int) int {
	sizes := s.job("").LegalSizes()
	fitting, found := slices.BinarySearch(sizes, nodes)
	if found {
		return nodes
	}
	return sizes[max(0, fitting-1)]
}

// NodesAsked returns the nodes that hold the given GPUs, both arguments at least 1: the smallest of
// AllowedNodes that does, otherwise the largest; without AllowedNodes rounded up to a power of two,
// and, unless a node is a GPU, at most the default maximum or MaxNodes if that is more. A job of one
// size alone asked for that.
func (s *Shape) NodesAsked(gpus, gpusPerNode int) int {
	needed := (gpus-1)/gpusPerNode + 1
	if n := len(s.AllowedNodes); n > 0 {
		at, _ := slices.BinarySearch(s.AllowedNodes, needed)
		return s.AllowedNodes[min(at, n-1)]
	}
	if s.MinNodes != 0 && s.MinNodes == s.MaxNodes {
		return s.MinNodes
	}
	most := max(solver.DefaultMaxNodes, s.MaxNodes)
	if gpusPerNode == 1 {
		most = mostUnits
	}
	nodes := 1
	for nodes < needed && 2*nodes <= most {
		nodes *= 2
	}
	return nodes
}

// mostUnits is the largest power of two that a request may have as a job's nodes.
const mostUnits = 1 << 30
