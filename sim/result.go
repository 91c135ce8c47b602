package sim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Result is the result of Run.
type Result struct {
	// Workload is the name of the workload, and Policy the name of the policy.
	Workload, Policy string
	// Nodes is the size of the pool.
	Nodes int
	// Groups are the teams that share the pool, with their departments.
	Groups []solver.Group
	// Utilization is the mean share of the nodes that jobs occupy while jobs are present (Present). It is NaN
	// if the recorded schedule does not fit the pool.
	Utilization float64
	// NodeTypes are the node types of the pool, if any.
	NodeTypes []solver.NodeType
	// Jobs are in the order of the workload.
	Jobs []JobResult
	// Unplaced is the number of decisions, including FillIdle, whose jobs were reduced because the
	// machines had no place for them. It is nil if decisions are not placed.
	Unplaced *int
	// Decisions are the decisions of the policy in order of time, without FillIdle.
	Decisions []Decision
}

// JobResult is the result of a job. Times are whole seconds since the first submission.
type JobResult struct {
	ID string
	// Group is the team of the job, or "".
	Group string
	// Weight is the weight of the job, 1 by default.
	Weight float64
	// MinSize is the smallest number of nodes that the job can train on.
	MinSize int
	// Alone is the completion time of the job alone in the pool, at least 1 s.
	Alone time.Duration
	// Ideal is the completion time of the job under ideal fair shares plus one restart time.
	Ideal time.Duration
	// Start is the time at which the job first had nodes.
	Submit, Start, End time.Duration
	// Unserved is the time without nodes, in the queue and in pauses.
	Unserved time.Duration
	// Resizes is the number of resizes after the start, including pauses and returns. Moves is the
	// number of resizes that changed the node type.
	Resizes, Moves int
	// PlacementMoves is the number of restarts on other machines without a resize.
	PlacementMoves int
	// Nodes lists the allocations of the job from Start to End.
	Nodes []NodesAt
	// Outcome is the outcome of the job.
	Outcome Outcome
}

// QueueTime returns the time from the submission to the start of the job.
func (j *JobResult) QueueTime() time.Duration { return j.Start - j.Submit }

// TotalTime returns the job completion time (JCT), the time from the submission to the completion.
func (j *JobResult) TotalTime() time.Duration { return j.End - j.Submit }

// Slowdown returns the ratio of the completion time to the completion time alone in the pool.
func (j *JobResult) Slowdown() float64 {
	return j.TotalTime().Seconds() / max(j.Alone, time.Second).Seconds()
}

// Pauses returns how often the job lost all its nodes before its completion.
func (j *JobResult) Pauses() int {
	pauses := 0
	for _, period := range j.Nodes[:max(1, len(j.Nodes))-1] {
		if period.Nodes == 0 {
			pauses++
		}
	}
	return pauses
}

// NodeTypes returns the node types that the job used, in order of time.
func (j *JobResult) NodeTypes() []string {
	var types []string
	for _, period := range j.Nodes {
		if period.Nodes > 0 && (len(types) == 0 || types[len(types)-1] != period.NodeType) {
			types = append(types, period.NodeType)
		}
	}
	return types
}

// Decision describes one decision of a run.
type Decision struct {
	// At is the decision time.
	At time.Duration
	// Jobs is the number of active jobs.
	Jobs int
	// SolveTime is the solve time in the report, or the run time of a Rule.
	SolveTime time.Duration
	// Reason is the reason in the report.
	Reason solver.Reason
	// Prices are the values of one additional node, in units of the objective, for each step or for
	// each node type. It is nil if the report has no node prices.
	Prices []float64
}

func (s *simulation) result() *Result {
	r := &Result{
		Workload: s.workload.Name, Policy: s.config.Name, Nodes: s.config.Nodes, Groups: s.config.Groups,
		NodeTypes: s.config.NodeTypes, Jobs: make([]JobResult, len(s.jobs)), Decisions: s.decisions,
	}
	for i := range s.jobs {
		job := &s.jobs[i]
		r.Jobs[i] = JobResult{
			ID: job.ID, Group: job.Group, Weight: job.weight(), MinSize: job.minSize(),
			Submit: job.Submit, Start: job.start, End: job.end, Unserved: job.end - job.Submit - job.trained,
			Resizes: job.resizes, Moves: job.moves, PlacementMoves: job.placementMoves, Nodes: job.timeline, Outcome: job.outcome(),
		}
	}
	if s.config.Placer != nil {
		r.Unplaced = &s.unplaced
	}
	return r
}

// SetReferences sets Alone and Ideal of all jobs, and Utilization. Run calls it. Another caller sets its own results.
func (r *Result) SetReferences(w *Workload, config *Config) {
	for i := range r.Jobs {
		r.Jobs[i].Alone = w.Jobs[i].alone(config)
	}
	r.setIdeal(w, config)
	r.Utilization = r.MeanUtilization(r.Nodes, func(NodesAt) bool { return true })
}

// Present returns the time in which at least one job was submitted and not complete.
func (r *Result) Present() time.Duration {
	type span struct{ from, until time.Duration }
	spans := make([]span, len(r.Jobs))
	for i := range r.Jobs {
		spans[i] = span{r.Jobs[i].Submit, r.Jobs[i].End}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	sum, until := time.Duration(0), time.Duration(0)
	for _, s := range spans {
		sum += max(0, s.until-max(s.from, until))
		until = max(until, s.until)
	}
	return sum
}

// MeanUtilization returns the mean share of nodes that jobs occupy while jobs are present. It includes the
// allocations for which counts returns true. It is NaN if no job is ever present.
func (r *Result) MeanUtilization(nodes int, counts func(NodesAt) bool) float64 {
	sum := time.Duration(0)
	for i := range r.Jobs {
		changes := slices.Clone(r.Jobs[i].Nodes)
		for n := range changes {
			if !counts(changes[n]) {
				changes[n].Nodes = 0
			}
		}
		sum += NodeTime(changes, 0, r.Jobs[i].Submit, r.Jobs[i].End)
	}
	return sum.Seconds() / (r.Present().Seconds() * float64(nodes))
}

// IdleNodeHours returns the node hours that no job occupies while jobs are present. It is NaN if Utilization is
// NaN.
func (r *Result) IdleNodeHours() float64 {
	return (1 - r.Utilization) * float64(r.Nodes) * r.Present().Hours()
}

// PeakNodes returns the largest number of nodes that jobs occupied at the same time.
func (r *Result) PeakNodes() int {
	var changes []NodesAt // Nodes is the difference from the previous number.
	for i := range r.Jobs {
		before := 0
		for _, period := range r.Jobs[i].Nodes {
			changes = append(changes, NodesAt{At: period.At, Nodes: period.Nodes - before})
			before = period.Nodes
		}
	}
	// Nodes that are released in a second are available in the same second.
	slices.SortFunc(changes, func(a, b NodesAt) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Nodes, b.Nodes)) })
	peak, occupied := 0, 0
	for _, change := range changes {
		occupied += change.Nodes
		peak = max(peak, occupied)
	}
	return peak
}

// PoolTooSmall reports whether the jobs occupied more nodes than the pool has, as in a recorded schedule.
func (r *Result) PoolTooSmall() bool { return r.PeakNodes() > r.Nodes }

// Recorded returns the recorded schedule of a workload, regardless of the pool and the restart time. It returns an error
// if CheckRecorded does.
func Recorded(workload Workload, config Config) (*Result, error) {
	if err := workload.CheckRecorded(&config); err != nil {
		return nil, err
	}
	r := &Result{
		Workload: workload.Name, Policy: config.Name, Nodes: config.Nodes, Groups: config.Groups, NodeTypes: config.NodeTypes,
		Jobs: make([]JobResult, len(workload.Jobs)),
	}
	for i := range workload.Jobs {
		job := &workload.Jobs[i]
		result := JobResult{
			ID: job.ID, Group: job.Group, Weight: job.weight(), MinSize: job.minSize(),
			Submit: job.Submit, Start: job.Recorded[0].At, End: job.Recorded[len(job.Recorded)-1].At,
			Nodes: job.Recorded, Resizes: len(job.Recorded) - 2, Outcome: OutcomeCompleted,
		}
		result.Unserved = result.Start - result.Submit
		for n, period := range job.Recorded[:len(job.Recorded)-1] {
			if period.Nodes == 0 {
				result.Unserved += job.Recorded[n+1].At - period.At
			}
		}
		result.Moves = max(0, len(result.NodeTypes())-1)
		r.Jobs[i] = result
	}
	r.SetReferences(&workload, &config)
	if r.PoolTooSmall() {
		r.Utilization = math.NaN()
	}
	return r, nil
}
