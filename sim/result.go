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
		Workload: s.workload.Name, Policy: s.policy.Name, Nodes: s.config.Nodes, Groups: s.config.Groups,
		NodeTypes: s.config.NodeTypes, Jobs: make([]JobResult, len(s.jobs)), Decisions: s.decisions,
	}
	for i := range s.jobs {
		job := &s.jobs[i]
		r.Jobs[i] = JobResult{
			ID: job.ID, Group: job.Group, Weight: job.weight(), MinSize: job.minSize(), Alone: job.alone(&s.config),
			Submit: job.Submit, Start: job.start, End: job.end, Unserved: job.end - job.Submit - job.trained,
			Resizes: job.resizes, Moves: job.moves, PlacementMoves: job.placementMoves, Nodes: job.timeline, Outcome: job.outcome(),
		}
	}
	if s.config.Placer != nil {
		r.Unplaced = &s.unplaced
	}
	r.Utilization = r.meanUtilization(r.Nodes, func(NodesAt) bool { return true })
	return r
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

// meanUtilization returns the mean share of nodes that jobs occupy while jobs are present. It includes the
// allocations for which counts returns true. It is NaN if no job is ever present.
func (r *Result) meanUtilization(nodes int, counts func(NodesAt) bool) float64 {
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

// poolTooSmall reports whether the recorded schedule does not fit the pool.
func (r *Result) poolTooSmall() bool { return r.Policy == RecordedPolicy && r.PeakNodes() > r.Nodes }

// TypeSummary contains the measures of a node type in a run, as written to summary.json.
type TypeSummary struct {
	ID    string `json:"id"`
	Nodes int    `json:"nodes"`
	// Utilization is the mean share of the nodes that jobs occupy while jobs are present, and IdleNodes the
	// mean number of idle nodes.
	Utilization Share `json:"utilization"`
	IdleNodes   Share `json:"idle_nodes"`
	// Price is the mean value of one additional node until the last submission, in job-seconds saved per second.
	// It is null if decisions have no node prices.
	Price Share `json:"price"`
}

// JobHoursPerDay returns the job hours that one additional node saves per day at its price.
func (t *TypeSummary) JobHoursPerDay() float64 { return 24 * float64(t.Price) }

func (r *Result) typeSummaries() []TypeSummary {
	var types []TypeSummary
	for n, t := range r.NodeTypes {
		utilization := r.meanUtilization(t.Nodes, func(period NodesAt) bool { return period.NodeType == t.ID })
		types = append(types, TypeSummary{
			ID: t.ID, Nodes: t.Nodes, Utilization: Share(utilization), IdleNodes: Share((1 - utilization) * float64(t.Nodes)), Price: Share(r.meanPrice(n)),
		})
	}
	return types
}

// meanPrice returns the mean price of a type over the time from the first decision to the last
// submission. A price applies until the next decision. The result is NaN if no decision has a price.
func (r *Result) meanPrice(n int) float64 {
	sum, span := 0.0, 0.0
	for i := range r.Decisions {
		until := r.Jobs[len(r.Jobs)-1].Submit
		if i+1 < len(r.Decisions) {
			until = min(until, r.Decisions[i+1].At)
		}
		if prices := r.Decisions[i].Prices; n < len(prices) && until > r.Decisions[i].At {
			seconds := (until - r.Decisions[i].At).Seconds()
			sum, span = sum+seconds*prices[n], span+seconds
		}
	}
	return sum / span
}

// recordedResult returns the recorded schedule, regardless of the pool and the restart time.
func recordedResult(workload Workload, policy Policy, config Config) *Result {
	r := &Result{
		Workload: workload.Name, Policy: policy.Name, Nodes: config.Nodes, Groups: config.Groups, NodeTypes: config.NodeTypes,
		Utilization: math.NaN(), Jobs: make([]JobResult, len(workload.Jobs)),
	}
	for i := range workload.Jobs {
		job := &workload.Jobs[i]
		result := JobResult{
			ID: job.ID, Group: job.Group, Weight: job.weight(), MinSize: job.minSize(), Alone: job.alone(&config),
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
	if !r.poolTooSmall() {
		r.Utilization = r.meanUtilization(r.Nodes, func(NodesAt) bool { return true })
	}
	return r
}
