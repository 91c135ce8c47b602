package sim

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Summary is the measures of a run. Field names are those of summary.json; times
// end in their unit.
type Summary struct {
	// Trace, Policy and Nodes say what was run, and Seed with what random numbers.
	Trace  string `json:"trace"`
	Policy string `json:"policy"`
	Nodes  int    `json:"nodes"`
	Seed   uint64 `json:"seed"`
	// Jobs is the number of jobs, and Completed of those trained to their end.
	Jobs      int `json:"jobs"`
	Completed int `json:"completed"`
	// Means and quantiles are over all jobs, however they ended.
	MeanQueueSeconds float64 `json:"mean_queue_s"`
	MeanTotalSeconds float64 `json:"mean_total_s"`
	P50TotalSeconds  float64 `json:"p50_total_s"`
	P95TotalSeconds  float64 `json:"p95_total_s"`
	P99TotalSeconds  float64 `json:"p99_total_s"`
	MaxTotalSeconds  float64 `json:"max_total_s"`
	// WeightedTotalSeconds counts every job by its weight.
	WeightedTotalSeconds float64 `json:"weighted_mean_total_s"`
	// MeanUnservedSeconds is the mean time without nodes, in the queue and in pauses;
	// MaxUnservedBigSeconds the longest of a job that needs BigMinimum nodes or more.
	MeanUnservedSeconds   float64 `json:"mean_unserved_s"`
	MaxUnservedBigSeconds float64 `json:"max_unserved_big_s"`
	// MaxSlowdown is the largest JobResult.Slowdown.
	MaxSlowdown float64 `json:"max_slowdown"`
	// LaterShare is the share of jobs that end later than under equal shares, the
	// policy MaxMinPolicy, and WorstLater the largest ratio of a job's total time to
	// the one it has there. Missing where that was not run on the same pool.
	LaterShare *float64 `json:"later_than_max_min,omitempty"`
	WorstLater *float64 `json:"worst_ratio_to_max_min,omitempty"`
	// MakespanSeconds is from the first submission to the last end.
	MakespanSeconds float64 `json:"makespan_s"`
	// Decisions is the number of decisions, SolveMillis how long they took, and Unproven how
	// many asked for an optimum and were not proven to have it.
	Decisions   int         `json:"decisions"`
	Unproven    int         `json:"unproven"`
	SolveMillis SolveMillis `json:"solve_ms"`
	// NodePrice is what one more node was worth at the decisions, in units of the
	// objective. Missing if no decision says so.
	NodePrice *NodePrice `json:"node_price,omitempty"`
	// Rescales is how often jobs' nodes changed after their start, and Pauses how often that
	// took all of them, per job.
	Rescales int     `json:"rescales"`
	Pauses   float64 `json:"pauses"`
	// Moves is how often jobs' nodes changed their type, per job, and NodeTypes are the kinds
	// of nodes, missing where nodes are all alike.
	Moves     float64       `json:"moves"`
	NodeTypes []TypeSummary `json:"node_types,omitempty"`
	// Utilization is Result.Utilization, and IdleNodeHours are the node hours of the pool that no job
	// occupied in the same time.
	Utilization   Share `json:"utilization"`
	IdleNodeHours Share `json:"idle_node_hours"`
	// PoolTooSmall reports that what the cluster did, RecordedPolicy, does not fit the pool.
	PoolTooSmall bool `json:"pool_too_small,omitempty"`
	// Teams are the teams that shared the pool, and WorstTeam is the largest of their
	// ratios to their partitions. Missing if there are no teams.
	Teams     []TeamSummary `json:"teams,omitempty"`
	WorstTeam *float64      `json:"worst_team_to_partition,omitempty"`
}

// TeamSummary is the measures of a team in a run.
type TeamSummary struct {
	Team  string `json:"team"`
	Quota int    `json:"quota"`
	// Jobs is the number of its jobs, and MeanTotalSeconds their mean total time.
	Jobs             int     `json:"jobs"`
	MeanTotalSeconds float64 `json:"mean_total_s"`
	// ToPartition is the ratio of that time to the one that the team has in a partition
	// of its own, the policy PartitionsPolicy. Missing where that was not run.
	ToPartition *float64 `json:"ratio_to_partition,omitempty"`
}

// BigMinimum is the number of nodes from which the smallest size of a job counts as big:
// half of what an elastic job may hold by default.
const BigMinimum = 8

// MaxMinPolicy is the name of the policy of equal shares.
const MaxMinPolicy = "max-min"

// RecordedPolicy is the policy that replays what really happened.
const RecordedPolicy = "recorded"

// PartitionsPolicy is the name of the policy of a partition for each team.
const PartitionsPolicy = "static-partitions"

// SolveMillis is the distribution of decision times in milliseconds.
type SolveMillis struct {
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	Max    float64 `json:"max"`
}

// NodePrice is the distribution of Decision.Prices in the first step.
type NodePrice struct {
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
}

// MostHeld returns how many nodes jobs held at once, at most.
func (r *Result) MostHeld() int {
	var changes []NodesAt // By how many nodes.
	for i := range r.Jobs {
		before := 0
		for _, held := range r.Jobs[i].Nodes {
			changes = append(changes, NodesAt{At: held.At, Nodes: held.Nodes - before})
			before = held.Nodes
		}
	}
	// What is given back at a second is free in it.
	slices.SortFunc(changes, func(a, b NodesAt) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Nodes, b.Nodes)) })
	most, held := 0, 0
	for _, change := range changes {
		held += change.Nodes
		most = max(most, held)
	}
	return most
}

// Summarize works out the measures of a run that was made with a seed.
func Summarize(r *Result, seed uint64) Summary {
	s := Summary{
		Trace: r.Workload, Policy: r.Policy, Nodes: r.Nodes, Seed: seed,
		Jobs: len(r.Jobs), Decisions: len(r.Decisions),
	}
	var queue, total, unserved []float64
	var weights, weighted float64
	var begin, end time.Duration
	for i := range r.Jobs {
		job := &r.Jobs[i]
		queue = append(queue, job.QueueTime().Seconds())
		total = append(total, job.TotalTime().Seconds())
		unserved = append(unserved, job.Unserved.Seconds())
		weights += job.Weight
		weighted += job.Weight * job.TotalTime().Seconds()
		s.MaxSlowdown = max(s.MaxSlowdown, job.Slowdown())
		if job.Smallest >= BigMinimum {
			s.MaxUnservedBigSeconds = max(s.MaxUnservedBigSeconds, job.Unserved.Seconds())
		}
		if i == 0 {
			begin = job.Submit
		}
		end = max(end, job.End)
		s.Rescales += job.Rescales
		s.Moves += float64(job.Moves)
		s.Pauses += float64(job.Pauses())
		if job.Outcome == OutcomeCompleted {
			s.Completed++
		}
	}
	s.MeanQueueSeconds, s.MeanTotalSeconds, s.MeanUnservedSeconds = Mean(queue), Mean(total), Mean(unserved)
	s.P50TotalSeconds, s.P95TotalSeconds = Quantile(total, 0.5), Quantile(total, 0.95)
	s.P99TotalSeconds, s.MaxTotalSeconds = Quantile(total, 0.99), Quantile(total, 1)
	if weights > 0 {
		s.WeightedTotalSeconds = weighted / weights
	}
	s.Pauses /= float64(max(1, len(r.Jobs)))
	s.Moves /= float64(max(1, len(r.Jobs)))
	s.MakespanSeconds = (end - begin).Seconds()
	if Optimises(r.Policy) {
		s.Unproven = len(r.Decisions) - r.Proven()
	}
	s.Utilization, s.IdleNodeHours = Share(r.Utilization), Share(r.IdleNodeHours())
	s.PoolTooSmall = r.tooSmall()
	s.Teams = r.teams()
	if len(r.NodeTypes) > 0 {
		s.NodeTypes = r.types()
	} else {
		s.NodePrice = r.nodePrice()
	}

	solve := r.SolveMillis()
	s.SolveMillis = SolveMillis{
		Mean: Mean(solve), Median: Quantile(solve, 0.5), P95: Quantile(solve, 0.95), Max: Quantile(solve, 1),
	}
	return s
}

// ProvenPercent returns how many per cent of the decisions are proven optimal, rounded down so
// that 100 means all; NaN for a policy that asks for no optimum.
func (s *Summary) ProvenPercent() float64 {
	if !Optimises(s.Policy) {
		return math.NaN()
	}
	return math.Floor(1e4*(1-float64(s.Unproven)/float64(s.Decisions))) / 100
}

// RescalesPerJob returns the changes of nodes per job.
func (s *Summary) RescalesPerJob() float64 { return float64(s.Rescales) / float64(max(1, s.Jobs)) }

// CompareWithEqualShares fills in LaterShare and WorstLater. Both runs are of the same
// workload.
func (s *Summary) CompareWithEqualShares(r, maxMin *Result) {
	later, worst := 0, 0.0
	for i := range r.Jobs {
		job, equal := &r.Jobs[i], &maxMin.Jobs[i]
		if job.End > equal.End {
			later++
		}
		worst = max(worst, job.TotalTime().Seconds()/max(1, equal.TotalTime().Seconds()))
	}
	s.LaterShare, s.WorstLater = new(float64(later)/float64(max(1, len(r.Jobs)))), &worst
}

// nodePrice returns what one more node was worth in the first step, nil if no decision says so.
func (r *Result) nodePrice() *NodePrice {
	var prices []float64
	for i := range r.Decisions {
		if steps := r.Decisions[i].Prices; len(steps) > 0 {
			prices = append(prices, steps[0])
		}
	}
	if len(prices) == 0 {
		return nil
	}
	return &NodePrice{Median: Quantile(prices, 0.5), P90: Quantile(prices, 0.9)}
}

// teams returns the measures of the teams that have jobs.
func (r *Result) teams() []TeamSummary {
	var teams []TeamSummary
	for _, team := range teamsOf(r.Groups) {
		var total []float64
		for i := range r.Jobs {
			if r.Jobs[i].Group == team.ID {
				total = append(total, r.Jobs[i].TotalTime().Seconds())
			}
		}
		if len(total) > 0 {
			teams = append(teams, TeamSummary{
				Team: team.ID, Quota: team.Quota, Jobs: len(total), MeanTotalSeconds: Mean(total),
			})
		}
	}
	return teams
}

// CompareWithPartitions fills in the ratios of the teams to their partitions. Both runs
// are of the same workload and teams.
func (s *Summary) CompareWithPartitions(partitions *Result) {
	worst := 0.0
	for i, own := range partitions.teams() {
		team := &s.Teams[i]
		team.ToPartition = new(team.MeanTotalSeconds / max(1, own.MeanTotalSeconds))
		worst = max(worst, *team.ToPartition)
	}
	s.WorstTeam = &worst
}

// SolveMillis returns how long each decision took, in milliseconds.
func (r *Result) SolveMillis() []float64 {
	times := make([]float64, len(r.Decisions))
	for i := range r.Decisions {
		times[i] = float64(r.Decisions[i].SolveTime) / float64(time.Millisecond)
	}
	return times
}

// Proven returns how many decisions are proven optimal.
func (r *Result) Proven() int {
	proven := 0
	for i := range r.Decisions {
		if r.Decisions[i].Reason == solver.ReasonOptimal {
			proven++
		}
	}
	return proven
}

// Comparison is what a policy brings against a baseline, both on the same workload
// and pool. Field names are those of summary.json.
type Comparison struct {
	Policy   string `json:"policy"`
	Baseline string `json:"baseline"`
	Nodes    int    `json:"nodes"`
	// QueueReduction and TotalReduction are the shares by which the mean queueing
	// and total times are less than the baseline's; NaN where that is less than a minute, of
	// which a share says nothing.
	QueueReduction Share `json:"queue_reduction"`
	TotalReduction Share `json:"total_reduction"`
	// ExtraJobs is how many more jobs than the baseline the policy had finished
	// when the baseline had finished 100, 200, and so on.
	ExtraJobs []int `json:"extra_jobs"`
	// ExtraJobsPer100 is the mean of ExtraJobs, each per 100 of the baseline's; 0
	// where the baseline finished fewer than 100.
	ExtraJobsPer100 float64 `json:"extra_jobs_per_100"`
}

// Share is a share of something; NaN, null in JSON, is a share of nothing.
type Share float64

// MarshalJSON writes a number, or null.
func (s Share) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(s)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(s))
}

// extraJobsEvery is after how many of the baseline's jobs additional jobs are counted.
const extraJobsEvery = 100

// Compare works out what a policy brings against a baseline. Additional jobs count all that
// ended, also those that hung or were killed. Jobs that the baseline ended in the same second
// as its 100th are counted on both sides, so that equal runs have no additional jobs.
func Compare(policy, baseline *Result) Comparison {
	c := Comparison{
		Policy: policy.Policy, Baseline: baseline.Policy, Nodes: policy.Nodes,
		ExtraJobs: []int{},
	}
	p, b := Summarize(policy, 0), Summarize(baseline, 0)
	c.QueueReduction = reduction(p.MeanQueueSeconds, b.MeanQueueSeconds)
	c.TotalReduction = reduction(p.MeanTotalSeconds, b.MeanTotalSeconds)

	policyEnds, baselineEnds := policy.ends(), baseline.ends()
	perHundred := []float64{}
	for m := extraJobsEvery; m <= len(baselineEnds); m += extraJobsEvery {
		at := baselineEnds[m-1]
		extra := endedBy(policyEnds, at) - endedBy(baselineEnds, at)
		c.ExtraJobs = append(c.ExtraJobs, extra)
		perHundred = append(perHundred, float64(extra)/float64(m)*100)
	}
	if len(perHundred) > 0 {
		c.ExtraJobsPer100 = Mean(perHundred)
	}
	return c
}

// reduction returns by what share a mean time in seconds is less than the baseline's: 0 where they
// are equal, and else NaN where the baseline's is less than a minute.
func reduction(mean, baseline float64) Share {
	if mean == baseline {
		return 0
	}
	if baseline < 60 {
		return Share(math.NaN())
	}
	return Share(1 - mean/baseline)
}

func (r *Result) ends() []time.Duration {
	ends := make([]time.Duration, len(r.Jobs))
	for i := range r.Jobs {
		ends[i] = r.Jobs[i].End
	}
	slices.Sort(ends)
	return ends
}

// endedBy returns how many of ascending ends are at or before a time.
func endedBy(ends []time.Duration, at time.Duration) int {
	n, _ := slices.BinarySearch(ends, at+1)
	return n
}

// Mean returns the mean of values, 0 if there are no values.
func Mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}

// Quantile returns the value below which a share of the values lies, interpolated
// between the two nearest, and 0 if there are no values. The share is in [0, 1].
func Quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := share * float64(len(sorted)-1)
	below := int(at)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}
