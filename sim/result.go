package sim

import (
	"math"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Result is what became of a workload under a policy.
type Result struct {
	// Workload and Policy are the names of the two.
	Workload, Policy string
	// Nodes is the size of the pool, and Groups are those that shared it.
	Nodes  int
	Groups []solver.Group
	// Utilization is the share of the pool's nodes that jobs occupied, on average from the
	// first submission to the last; NaN if those coincide, or if the pool is smaller than what
	// RecordedPolicy occupied.
	Utilization float64
	// NodeTypes are the kinds of nodes; empty if nodes are all alike.
	NodeTypes []solver.NodeType
	// Jobs are in the order of the workload.
	Jobs []JobResult
	// Decisions are those at scaling moments, in the order of time.
	Decisions []Decision
}

// JobResult is what became of a job. Times are whole seconds of the simulation.
type JobResult struct {
	ID string
	// Group is the team it belongs to, or "".
	Group string
	// Weight is 1 by default, and Smallest the least nodes the job can train on.
	Weight   float64
	Smallest int
	// Alone is how long the job would have taken alone in the pool, at least a second.
	Alone time.Duration
	// Start is when it first got nodes.
	Submit, Start, End time.Duration
	// Unserved is how long it held no nodes, in the queue and in pauses.
	Unserved time.Duration
	// Rescales is how often its nodes changed after its start, pauses and returns included,
	// and Moves how often they were then of another type.
	Rescales, Moves int
	// Nodes is what the job held, from its start to its end.
	Nodes []NodesAt
	// Outcome is how it ended.
	Outcome Outcome
}

// QueueTime returns how long the job waited for its first nodes.
func (j *JobResult) QueueTime() time.Duration { return j.Start - j.Submit }

// TotalTime returns how long the job took from its submission to its end.
func (j *JobResult) TotalTime() time.Duration { return j.End - j.Submit }

// Slowdown returns by what factor the job took longer than alone in the pool.
func (j *JobResult) Slowdown() float64 {
	return j.TotalTime().Seconds() / max(j.Alone, time.Second).Seconds()
}

// Pauses returns how often the job lost all its nodes before its end.
func (j *JobResult) Pauses() int {
	pauses := 0
	for _, held := range j.Nodes[:max(1, len(j.Nodes))-1] {
		if held.Nodes == 0 {
			pauses++
		}
	}
	return pauses
}

// NodeTypes returns the types that the job held nodes of, in the order of time.
func (j *JobResult) NodeTypes() []string {
	var types []string
	for _, held := range j.Nodes {
		if held.Nodes > 0 && (len(types) == 0 || types[len(types)-1] != held.NodeType) {
			types = append(types, held.NodeType)
		}
	}
	return types
}

// Decision is what is known of one decision.
type Decision struct {
	// At is the second of the simulation.
	At time.Duration
	// Jobs is the number of active jobs.
	Jobs int
	// SolveTime is the report's solve time; of a comparator, the time of its rule.
	SolveTime time.Duration
	// Reason is the report's.
	Reason solver.Reason
	// Prices are what one more node was worth, in units of the objective, in each step, or of each
	// node type where there are some; nil where the report does not say.
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
			ID: job.ID, Group: job.Group, Weight: job.weight(), Smallest: job.smallest(), Alone: job.alone(&s.config),
			Submit: job.Submit, Start: job.start, End: job.end, Unserved: job.end - job.Submit - job.trained,
			Rescales: job.rescales, Moves: job.moves, Nodes: job.held, Outcome: job.outcome(),
		}
	}
	r.Utilization = r.use(r.Nodes, func(NodesAt) bool { return true })
	return r
}

// use returns the share of nodes that jobs held, of holdings that count, on average from the
// first submission to the last; NaN if those coincide.
func (r *Result) use(nodes int, counts func(NodesAt) bool) float64 {
	if len(r.Jobs) == 0 {
		return math.NaN()
	}
	begin, until := r.Jobs[0].Submit, r.Jobs[len(r.Jobs)-1].Submit
	sum := time.Duration(0)
	for i := range r.Jobs {
		changes := slices.Clone(r.Jobs[i].Nodes)
		for n := range changes {
			if !counts(changes[n]) {
				changes[n].Nodes = 0
			}
		}
		sum += NodeTime(changes, 0, begin, until)
	}
	return sum.Seconds() / ((until - begin).Seconds() * float64(nodes))
}

// IdleNodeHours returns the node hours of the pool that no job occupied from the first submission
// to the last; NaN if Utilization is.
func (r *Result) IdleNodeHours() float64 {
	if len(r.Jobs) == 0 {
		return math.NaN()
	}
	return (1 - r.Utilization) * float64(r.Nodes) * (r.Jobs[len(r.Jobs)-1].Submit - r.Jobs[0].Submit).Hours()
}

// tooSmall reports whether the pool of a run of RecordedPolicy has fewer nodes than jobs occupied.
func (r *Result) tooSmall() bool { return r.Policy == RecordedPolicy && r.MostHeld() > r.Nodes }

// TypeSummary is the measures of a node type in a run. Field names are those of summary.json.
type TypeSummary struct {
	ID    string `json:"id"`
	Nodes int    `json:"nodes"`
	// Utilization is the share of the nodes that jobs held, and IdleNodes how many they did
	// not, on average from the first submission to the last.
	Utilization Share `json:"utilization"`
	IdleNodes   Share `json:"idle_nodes"`
	// Price is what one more node was worth in that time, in job-seconds saved per second;
	// null where decisions do not say.
	Price Share `json:"price"`
}

// JobHoursADay returns how many hours of jobs one more node saves in a day, at its price.
func (t *TypeSummary) JobHoursADay() float64 { return 24 * float64(t.Price) }

func (r *Result) types() []TypeSummary {
	var types []TypeSummary
	for n, t := range r.NodeTypes {
		use := r.use(t.Nodes, func(held NodesAt) bool { return held.NodeType == t.ID })
		types = append(types, TypeSummary{
			ID: t.ID, Nodes: t.Nodes, Utilization: Share(use), IdleNodes: Share((1 - use) * float64(t.Nodes)), Price: Share(r.meanPrice(n)),
		})
	}
	return types
}

// meanPrice returns the price of a type from the first decision to the last submission, each
// until the next decision. NaN where that is not known.
func (r *Result) meanPrice(n int) float64 {
	worth, span := 0.0, 0.0
	for i := range r.Decisions {
		until := r.Jobs[len(r.Jobs)-1].Submit
		if i+1 < len(r.Decisions) {
			until = min(until, r.Decisions[i+1].At)
		}
		if prices := r.Decisions[i].Prices; n < len(prices) && until > r.Decisions[i].At {
			held := (until - r.Decisions[i].At).Seconds()
			worth, span = worth+held*prices[n], span+held
		}
	}
	return worth / span
}

// recorded returns what really became of the jobs, whatever the pool and the restart time.
func recorded(workload Workload, policy Policy, config Config) *Result {
	r := &Result{
		Workload: workload.Name, Policy: policy.Name, Nodes: config.Nodes, Groups: config.Groups, NodeTypes: config.NodeTypes,
		Utilization: math.NaN(), Jobs: make([]JobResult, len(workload.Jobs)),
	}
	for i := range workload.Jobs {
		job := &workload.Jobs[i]
		result := JobResult{
			ID: job.ID, Group: job.Group, Weight: job.weight(), Smallest: job.smallest(), Alone: job.alone(&config),
			Submit: job.Submit, Start: job.Recorded[0].At, End: job.Recorded[len(job.Recorded)-1].At,
			Nodes: job.Recorded, Rescales: len(job.Recorded) - 2, Outcome: OutcomeCompleted,
		}
		result.Unserved = result.Start - result.Submit
		for n, held := range job.Recorded[:len(job.Recorded)-1] {
			if held.Nodes == 0 {
				result.Unserved += job.Recorded[n+1].At - held.At
			}
		}
		result.Moves = max(0, len(result.NodeTypes())-1)
		r.Jobs[i] = result
	}
	if !r.tooSmall() {
		r.Utilization = r.use(r.Nodes, func(NodesAt) bool { return true })
	}
	return r
}
