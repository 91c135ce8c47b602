// Package statistics computes the measures of simulations.
package statistics

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// Summary contains the measures of a run, as written to summary.json.
type Summary struct {
	// Trace, Policy, Nodes and Seed identify the run.
	Trace  string `json:"trace"`
	Policy string `json:"policy"`
	Nodes  int    `json:"nodes"`
	Seed   uint64 `json:"seed"`
	// Jobs is the number of jobs, and Completed the number of jobs with sim.OutcomeCompleted.
	Jobs      int `json:"jobs"`
	Completed int `json:"completed"`
	// Means and quantiles include all jobs, whatever their outcome. Total times are job completion
	// times (sim.JobResult.TotalTime).
	MeanQueueSeconds float64 `json:"mean_queue_s"`
	MeanTotalSeconds float64 `json:"mean_total_s"`
	P50TotalSeconds  float64 `json:"p50_total_s"`
	P95TotalSeconds  float64 `json:"p95_total_s"`
	P99TotalSeconds  float64 `json:"p99_total_s"`
	MaxTotalSeconds  float64 `json:"max_total_s"`
	// WeightedTotalSeconds is the mean completion time weighted by sim.JobResult.Weight.
	WeightedTotalSeconds float64 `json:"weighted_mean_total_s"`
	// MeanUnservedSeconds is the mean time without nodes, in the queue and in pauses.
	// MaxUnservedBigSeconds is the largest such time of the jobs with a MinSize of at least
	// BigMinimum.
	MeanUnservedSeconds   float64 `json:"mean_unserved_s"`
	MaxUnservedBigSeconds float64 `json:"max_unserved_big_s"`
	// MaxSlowdown is the largest sim.JobResult.Slowdown.
	MaxSlowdown float64 `json:"max_slowdown"`
	// LaterShare is the share of jobs that complete later than under catalog.MaxMin. WorstLater is the
	// largest ratio of a completion time to the time of the same job under catalog.MaxMin. Both are
	// absent if catalog.MaxMin was not run on the same pool.
	LaterShare *float64 `json:"later_than_max_min,omitempty"`
	WorstLater *float64 `json:"worst_ratio_to_max_min,omitempty"`
	// LaterThanIdeal is the share of jobs whose completion time exceeds sim.MaxIdealRatio times
	// sim.JobResult.Ideal.
	LaterThanIdeal float64 `json:"later_than_ideal_share"`
	// MakespanSeconds is the time from the first submission to the last completion.
	MakespanSeconds float64 `json:"makespan_s"`
	// Decisions is the number of decisions. SolveMillis is the distribution of their solve times.
	// Unproven is the number of decisions without an optimality proof, for policies that optimize.
	Decisions   int         `json:"decisions"`
	Unproven    int         `json:"unproven"`
	SolveMillis SolveMillis `json:"solve_ms"`
	// NodePrice is the value of one additional node, in units of the objective. It is absent if no
	// decision has node prices.
	NodePrice *NodePrice `json:"node_price,omitempty"`
	// Resizes is the number of resizes of all jobs after their start. Pauses is the mean number of
	// pauses per job.
	Resizes int     `json:"resizes"`
	Pauses  float64 `json:"pauses"`
	// Moves is the mean number of changes of the node type per job. NodeTypes are the node types of
	// the pool, if any.
	Moves     float64       `json:"moves"`
	NodeTypes []TypeSummary `json:"node_types,omitempty"`
	// PlacementMoves is the mean number of restarts on other machines per job, without resizes. Unplaced
	// is sim.Result.Unplaced. Both are absent if decisions are not placed.
	PlacementMoves *float64 `json:"placement_moves,omitempty"`
	Unplaced       *int     `json:"unplaced,omitempty"`
	// Utilization is sim.Result.Utilization. IdleNodeHours is sim.Result.IdleNodeHours.
	Utilization   Share `json:"utilization"`
	IdleNodeHours Share `json:"idle_node_hours"`
	// PoolTooSmall reports that the recorded schedule does not fit the pool.
	PoolTooSmall bool `json:"pool_too_small,omitempty"`
	// Teams are the teams that share the pool. WorstTeam is the largest TeamSummary.ToPartition. Both
	// are absent if there are no teams.
	Teams     []TeamSummary `json:"teams,omitempty"`
	WorstTeam *float64      `json:"worst_team_to_partition,omitempty"`
}

// TeamSummary contains the measures of a team in a run.
type TeamSummary struct {
	Team  string `json:"team"`
	Quota int    `json:"quota"`
	// Jobs is the number of jobs of the team, and MeanTotalSeconds their mean completion time.
	Jobs             int     `json:"jobs"`
	MeanTotalSeconds float64 `json:"mean_total_s"`
	// ToPartition is the ratio of MeanTotalSeconds to its value under catalog.Partitions. It is absent
	// if catalog.Partitions was not run.
	ToPartition *float64 `json:"ratio_to_partition,omitempty"`
}

// BigMinimum is the smallest sim.JobResult.MinSize of a big job. It is half of the default maximum of
// nodes.
const BigMinimum = 8

// SolveMillis is the distribution of decision times in milliseconds.
type SolveMillis struct {
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	Max    float64 `json:"max"`
}

// NodePrice is the distribution of sim.Decision.Prices in the first step.
type NodePrice struct {
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
}

// Summarize computes the measures of a result. seed is the seed of the run, for Summary.Seed.
func Summarize(r *sim.Result, seed uint64) Summary {
	s := Summary{
		Trace: r.Workload, Policy: r.Policy, Nodes: r.Nodes, Seed: seed,
		Jobs: len(r.Jobs), Decisions: len(r.Decisions),
	}
	var queue, total, unserved []float64
	var weights, weighted, placementMoves float64
	var begin, end time.Duration
	for i := range r.Jobs {
		job := &r.Jobs[i]
		queue = append(queue, job.QueueTime().Seconds())
		total = append(total, job.TotalTime().Seconds())
		unserved = append(unserved, job.Unserved.Seconds())
		weights += job.Weight
		weighted += job.Weight * job.TotalTime().Seconds()
		s.MaxSlowdown = max(s.MaxSlowdown, job.Slowdown())
		if job.TotalTime().Seconds() > sim.MaxIdealRatio*job.Ideal.Seconds() {
			s.LaterThanIdeal++
		}
		if job.MinSize >= BigMinimum {
			s.MaxUnservedBigSeconds = max(s.MaxUnservedBigSeconds, job.Unserved.Seconds())
		}
		if i == 0 {
			begin = job.Submit
		}
		end = max(end, job.End)
		s.Resizes += job.Resizes
		s.Moves += float64(job.Moves)
		placementMoves += float64(job.PlacementMoves)
		s.Pauses += float64(job.Pauses())
		if job.Outcome == sim.OutcomeCompleted {
			s.Completed++
		}
	}
	s.MeanQueueSeconds, s.MeanTotalSeconds, s.MeanUnservedSeconds = Mean(queue), Mean(total), Mean(unserved)
	s.P50TotalSeconds, s.P95TotalSeconds = Quantile(total, 0.5), Quantile(total, 0.95)
	s.P99TotalSeconds, s.MaxTotalSeconds = Quantile(total, 0.99), Quantile(total, 1)
	if weights > 0 {
		s.WeightedTotalSeconds = weighted / weights
	}
	if s.Unplaced = r.Unplaced; s.Unplaced != nil {
		s.PlacementMoves = new(placementMoves / float64(max(1, len(r.Jobs))))
	}
	s.Pauses /= float64(max(1, len(r.Jobs)))
	s.LaterThanIdeal /= float64(max(1, len(r.Jobs)))
	s.Moves /= float64(max(1, len(r.Jobs)))
	s.MakespanSeconds = (end - begin).Seconds()
	if catalog.Optimizes(r.Policy) {
		s.Unproven = len(r.Decisions) - Proven(r)
	}
	s.Utilization, s.IdleNodeHours = Share(r.Utilization), Share(r.IdleNodeHours())
	s.PoolTooSmall = r.PoolTooSmall()
	s.Teams = teamSummaries(r)
	if len(r.NodeTypes) > 0 {
		s.NodeTypes = typeSummaries(r)
	} else {
		s.NodePrice = nodePrice(r)
	}

	solve := SolveTimes(r)
	s.SolveMillis = SolveMillis{
		Mean: Mean(solve), Median: Quantile(solve, 0.5), P95: Quantile(solve, 0.95), Max: Quantile(solve, 1),
	}
	return s
}

// ProvenPercent returns the percentage of decisions that are proven optimal, rounded down so that 100
// means all. It is NaN for a policy that does not optimize.
func (s *Summary) ProvenPercent() float64 {
	if !catalog.Optimizes(s.Policy) {
		return math.NaN()
	}
	return math.Floor(1e4*(1-float64(s.Unproven)/float64(s.Decisions))) / 100
}

// ResizesPerJob returns the mean number of resizes per job.
func (s *Summary) ResizesPerJob() float64 { return float64(s.Resizes) / float64(max(1, s.Jobs)) }

// CompareWithMaxMin sets LaterShare and WorstLater. maxMin is the result of catalog.MaxMin for the same
// workload.
func (s *Summary) CompareWithMaxMin(r, maxMin *sim.Result) {
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

// nodePrice returns the distribution of node prices in the first step, nil if there are none.
func nodePrice(r *sim.Result) *NodePrice {
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
func teamSummaries(r *sim.Result) []TeamSummary {
	var teams []TeamSummary
	for _, team := range sim.Teams(r.Groups) {
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

// CompareWithPartitions sets the ratios of the teams to their partitions. partitions is the result of
// catalog.Partitions for the same workload and teams.
func (s *Summary) CompareWithPartitions(partitions *sim.Result) {
	worst := 0.0
	for i, own := range teamSummaries(partitions) {
		team := &s.Teams[i]
		team.ToPartition = new(team.MeanTotalSeconds / max(1, own.MeanTotalSeconds))
		worst = max(worst, *team.ToPartition)
	}
	s.WorstTeam = &worst
}

// SolveTimes returns the solve time of each decision in milliseconds.
func SolveTimes(r *sim.Result) []float64 {
	times := make([]float64, len(r.Decisions))
	for i := range r.Decisions {
		times[i] = float64(r.Decisions[i].SolveTime) / float64(time.Millisecond)
	}
	return times
}

// Proven returns the number of decisions that are proven optimal.
func Proven(r *sim.Result) int {
	proven := 0
	for i := range r.Decisions {
		if r.Decisions[i].Reason == solver.ReasonOptimal {
			proven++
		}
	}
	return proven
}

// Comparison compares a policy with a baseline on the same workload and pool, as written to
// summary.json.
type Comparison struct {
	Policy   string `json:"policy"`
	Baseline string `json:"baseline"`
	Nodes    int    `json:"nodes"`
	// QueueReduction and TotalReduction are the relative reductions of the mean queueing time and of
	// the mean completion time. They are NaN if the mean of the baseline is less than 1 min, which is
	// too short for a meaningful ratio.
	QueueReduction Share `json:"queue_reduction"`
	TotalReduction Share `json:"total_reduction"`
	// ExtraJobs is the number of additional jobs that the policy has completed when the baseline has
	// completed 100 jobs, 200 jobs, and so on.
	ExtraJobs []int `json:"extra_jobs"`
	// ExtraJobsPer100 is the mean of ExtraJobs per 100 jobs of the baseline. It is 0 if the baseline
	// completed fewer than 100 jobs.
	ExtraJobsPer100 float64 `json:"extra_jobs_per_100"`
}

// Share is a ratio. NaN means undefined and is null in JSON.
type Share float64

// MarshalJSON encodes NaN as null.
func (s Share) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(s)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(s))
}

// extraJobsEvery is the distance, in completed jobs of the baseline, between counts of additional jobs.
const extraJobsEvery = 100

// Compare compares a policy with a baseline. Additional jobs include jobs that hung or were killed.
// Jobs that complete in the same second as the 100th of the baseline count on both sides, so that
// identical runs have no additional jobs.
func Compare(policy, baseline *sim.Result) Comparison {
	c := Comparison{
		Policy: policy.Policy, Baseline: baseline.Policy, Nodes: policy.Nodes,
		ExtraJobs: []int{},
	}
	p, b := Summarize(policy, 0), Summarize(baseline, 0)
	c.QueueReduction = reduction(p.MeanQueueSeconds, b.MeanQueueSeconds)
	c.TotalReduction = reduction(p.MeanTotalSeconds, b.MeanTotalSeconds)

	policyEnds, baselineEnds := completionTimes(policy), completionTimes(baseline)
	perHundred := []float64{}
	for m := extraJobsEvery; m <= len(baselineEnds); m += extraJobsEvery {
		at := baselineEnds[m-1]
		extra := completedBy(policyEnds, at) - completedBy(baselineEnds, at)
		c.ExtraJobs = append(c.ExtraJobs, extra)
		perHundred = append(perHundred, float64(extra)/float64(m)*100)
	}
	if len(perHundred) > 0 {
		c.ExtraJobsPer100 = Mean(perHundred)
	}
	return c
}

// reduction returns the relative reduction of a mean time in seconds. It returns 0 if the means are
// equal, otherwise NaN if the baseline is less than 1 min.
func reduction(mean, baseline float64) Share {
	if mean == baseline {
		return 0
	}
	if baseline < 60 {
		return Share(math.NaN())
	}
	return Share(1 - mean/baseline)
}

func completionTimes(r *sim.Result) []time.Duration {
	ends := make([]time.Duration, len(r.Jobs))
	for i := range r.Jobs {
		ends[i] = r.Jobs[i].End
	}
	slices.Sort(ends)
	return ends
}

// completedBy returns the number of ascending completion times that are not after a time.
func completedBy(ends []time.Duration, at time.Duration) int {
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

// Quantile returns the quantile of the values at share, which is in [0, 1], with linear interpolation
// between the two nearest values. It returns 0 if there are no values.
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

func typeSummaries(r *sim.Result) []TypeSummary {
	var types []TypeSummary
	for n, t := range r.NodeTypes {
		utilization := r.MeanUtilization(t.Nodes, func(period sim.NodesAt) bool { return period.NodeType == t.ID })
		types = append(types, TypeSummary{
			ID: t.ID, Nodes: t.Nodes, Utilization: Share(utilization),
			IdleNodes: Share((1 - utilization) * float64(t.Nodes)), Price: Share(meanPrice(r, n)),
		})
	}
	return types
}

// meanPrice returns the mean price of a type over the time from the first decision to the last
// submission. A price applies until the next decision. The result is NaN if no decision has a price.
func meanPrice(r *sim.Result, n int) float64 {
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
