package results

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/lab/statistics"
	"github.com/elastalloc/elastalloc/sim"
)

// FIFOPolicy is the name of the policy of fixed sizes in the order of arrival.
const FIFOPolicy = "fifo"

// Verdict compares the best policy with what a cluster runs otherwise. Field names are those of
// summary.json.
type Verdict struct {
	// Policy is the best policy that optimizes, otherwise the best of all that are no reference.
	Policy string `json:"policy"`
	// Calm is the best policy that optimizes and pauses no job; "" if Policy pauses none.
	Calm string `json:"policy_without_pauses,omitempty"`
	// ComparedWith are the references of Policy: the recorded schedule of the cluster if it is known,
	// otherwise FIFO with fixed sizes, with backfill if it was run, and then max-min fair shares.
	ComparedWith []Reference `json:"compared_with"`
	// Scenarios compare the same policies under assumptions that are more and more careful, starting with
	// AsAssumed. Scenarios that do not apply to the workload are missing.
	Scenarios []Scenario `json:"scenarios"`
	// Leading is the name of the most careful scenario that still gains, "" if none does.
	Leading string `json:"leading_scenario,omitempty"`
}

// The names of the scenarios, from the least careful to the most careful.
const (
	// AsAssumed has the sizes of the workload.
	AsAssumed = "as-assumed"
	// FewElastic has one job in five elastic, and the others on the nodes that they requested.
	FewElastic = "one-in-five-elastic"
	// NoGrowth has no job with more nodes than it requested.
	NoGrowth = "no-job-above-its-request"
)

// Scenario is a comparison under one assumption about the sizes of jobs.
type Scenario struct {
	Name string `json:"name"`
	// ComparedWith has the references of Verdict.ComparedWith.
	ComparedWith []Reference `json:"compared_with"`
	// Runs are the measures of the policy and of its references.
	Runs []statistics.Summary `json:"runs"`
}

// smallestGain is the reduction of the mean completion time from which on a scenario gains.
const smallestGain = 0.01

// Gains reports whether the mean completion time is lower than that of every reference, by at least 1% in the
// mean over the pools.
func (s *Scenario) Gains() bool {
	for i := range s.ComparedWith {
		var changes []float64
		for _, pool := range s.ComparedWith[i].Pools {
			changes = append(changes, pool.Change)
		}
		if statistics.Mean(changes) > -smallestGain {
			return false
		}
	}
	return len(s.ComparedWith) > 0
}

// AddScenario adds a scenario with the measures of its runs, after all less careful ones.
func (v *Verdict) AddScenario(name string, runs *Summary) {
	scenario := Scenario{Name: name, ComparedWith: runs.CompareWith(v.Policy, v.References())}
	for i := range runs.Runs {
		if policy := runs.Runs[i].Policy; policy == v.Policy || slices.Contains(v.References(), policy) {
			scenario.Runs = append(scenario.Runs, runs.Runs[i])
		}
	}
	v.Scenarios = append(v.Scenarios, scenario)
	if scenario.Gains() {
		v.Leading = name
	}
}

// Reference compares a policy with another one.
type Reference struct {
	Policy string       `json:"policy"`
	Pools  []PoolChange `json:"pools"`
}

// PoolChange compares mean job completion times on a pool.
type PoolChange struct {
	Nodes int `json:"nodes"`
	// MeanTotalSeconds is the mean of the policy, and ReferenceSeconds the mean of the reference.
	MeanTotalSeconds float64 `json:"mean_total_s"`
	ReferenceSeconds float64 `json:"reference_mean_total_s"`
	// Change is by what share the policy's mean is higher than the reference's; negative is better.
	Change float64 `json:"change"`
}

// Conditions are the conditions of runs, as written to summary.json.
type Conditions struct {
	// Jobs is the number of jobs, Elastic how many of them have several sizes, and ElasticShare
	// their share.
	Jobs         int     `json:"jobs"`
	Elastic      int     `json:"elastic_jobs"`
	ElasticShare float64 `json:"elastic_share"`
	// LargestSize is the largest number of nodes that an elastic job may get.
	LargestSize int `json:"largest_size"`
	// ETA is how good the ETAs are that policies see, and ETAFactor the factor within which half
	// of them are right; null if no job has an ETA.
	ETA       string           `json:"eta"`
	ETAFactor statistics.Share `json:"eta_factor"`
	// RestartSeconds is the time without progress after every resize, the median of the jobs.
	RestartSeconds float64 `json:"restart_s"`
	// Loads are by pool.
	Loads []Load `json:"loads"`
}

// Load is sim.Workload.Load on a pool.
type Load struct {
	Nodes int              `json:"nodes"`
	Load  statistics.Share `json:"load"`
}

// The values of Conditions.ETA.
const (
	ETAExact    = "exact"
	ETABounded  = "bounded_error"
	ETARandom   = "log_normal_error"
	ETAUnknown  = "unknown"
	ETARecorded = "recorded"
)

// ConditionsOf returns the conditions of a workload on pools; span is the time that the load is
// of, 0 if the load is not known, and eta one of the values of Conditions.ETA.
func ConditionsOf(workload *sim.Workload, pools []int, span, restart time.Duration, eta string) Conditions {
	c := Conditions{Jobs: len(workload.Jobs), ETA: eta, ETAFactor: statistics.Share(math.NaN())}
	var errors, restarts []float64
	for i := range workload.Jobs {
		job := &workload.Jobs[i]
		told := job.SnapshotJob()
		sizes := told.LegalSizes()
		if len(told.Speeds) > 0 {
			sizes = nil
		}
		for _, speed := range told.Speeds {
			sizes = append(sizes, speed.AllowedNodes...)
		}
		if len(sizes) > 1 {
			c.Elastic++
			c.LargestSize = max(c.LargestSize, slices.Max(sizes))
		}
		restarts = append(restarts, cmp.Or(job.RestartTime, restart).Seconds())
		if job.UserEstimate > 0 && job.Demand > 0 && job.Fate == sim.OutcomeCompleted {
			errors = append(errors, math.Exp(math.Abs(math.Log(job.UserEstimate.Seconds()/job.Demand.Seconds()))))
		}
	}
	c.ElasticShare = float64(c.Elastic) / float64(max(1, c.Jobs))
	c.RestartSeconds = statistics.Quantile(restarts, 0.5)
	if len(errors) > 0 && eta != ETAUnknown {
		c.ETAFactor = statistics.Share(statistics.Quantile(errors, 0.5))
	}
	for _, nodes := range pools {
		c.Loads = append(c.Loads, Load{Nodes: nodes, Load: statistics.Share(workload.Load(nodes, span))})
	}
	return c
}

// Conclude sets the conditions of the runs, and their verdict if there are two policies to compare.
func (s *Summary) Conclude(conditions Conditions) {
	s.Conditions = &conditions
	references := s.references()
	best := ""
	for ; len(references) > 0; references = references[:len(references)-1] {
		other := func(policy string) bool { return !slices.Contains(references, policy) }
		if best = s.Best(func(policy string) bool { return other(policy) && catalog.Optimizes(policy) }); best == "" {
			best = s.Best(other)
		}
		if best != "" {
			break
		}
	}
	if best == "" {
		return
	}
	s.Verdict = &Verdict{Policy: best, ComparedWith: s.CompareWith(best, references)}
	s.Verdict.AddScenario(AsAssumed, s)
	if s.pauses(best) {
		s.Verdict.Calm = s.Best(func(policy string) bool {
			return !slices.Contains(references, policy) && catalog.Optimizes(policy) && !s.pauses(policy)
		})
	}
}

// References returns the policies that the best one is compared with.
func (v *Verdict) References() []string {
	names := make([]string, len(v.ComparedWith))
	for i := range v.ComparedWith {
		names[i] = v.ComparedWith[i].Policy
	}
	return names
}

// CompareWith compares a policy with others on the pools where they can be compared.
func (s *Summary) CompareWith(policy string, references []string) []Reference {
	var compared []Reference
	for _, name := range references {
		reference := Reference{Policy: name}
		for _, nodes := range s.PoolsOf(name) {
			run, other := s.Run(policy, nodes), s.Run(name, nodes)
			if run == nil || other == nil {
				continue
			}
			change := PoolChange{Nodes: nodes, MeanTotalSeconds: run.MeanTotalSeconds, ReferenceSeconds: other.MeanTotalSeconds}
			if other.MeanTotalSeconds > 0 {
				change.Change = run.MeanTotalSeconds/other.MeanTotalSeconds - 1
			}
			reference.Pools = append(reference.Pools, change)
		}
		if len(reference.Pools) > 0 {
			compared = append(compared, reference)
		}
	}
	return compared
}

// PoolsOf returns the pools on which a policy can be compared: all of them, but for what the cluster
// did only the smallest one that has the nodes for it.
func (s *Summary) PoolsOf(policy string) []int {
	if policy != catalog.Recorded {
		return s.Pools()
	}
	smallest := 0
	for i := range s.Runs {
		if run := &s.Runs[i]; run.Policy == policy && !run.PoolTooSmall && (smallest == 0 || run.Nodes < smallest) {
			smallest = run.Nodes
		}
	}
	if smallest == 0 {
		return nil
	}
	return []int{smallest}
}

// maxBelowNode is the largest share of jobs that requested less than a node with which runs are compared with the
// recorded schedule.
const maxBelowNode = 0.1

// NodesTooLarge reports whether so many jobs requested less than a node that runs, in which they have whole nodes,
// cannot be compared with the recorded schedule.
func (s *Summary) NodesTooLarge() bool {
	return len(s.Runs) > 0 && float64(s.Cut.BelowNode) > maxBelowNode*float64(s.Runs[0].Jobs)
}

// references returns the policies that the best policy is compared with: the recorded schedule or FIFO, with
// backfill if it was run, then max-min fair shares; without any of them the best plain rule, otherwise the baseline.
func (s *Summary) references() []string {
	policies := s.Policies()
	var references []string
	if len(s.PoolsOf(catalog.Recorded)) > 0 && !s.NodesTooLarge() {
		references = append(references, catalog.Recorded)
	} else if fifo := slices.IndexFunc([]string{catalog.Backfill, FIFOPolicy},
		func(name string) bool { return slices.Contains(policies, name) }); fifo >= 0 {
		references = append(references, []string{catalog.Backfill, FIFOPolicy}[fifo])
	}
	if slices.Contains(policies, catalog.MaxMin) {
		references = append(references, catalog.MaxMin)
	}
	if len(references) > 0 {
		return references
	}
	if rule := s.Best(func(policy string) bool { return !catalog.Optimizes(policy) }); rule != "" {
		return []string{rule}
	}
	if baseline := s.Baseline(); baseline != "" {
		return []string{baseline}
	}
	return nil
}

// Best returns the policy of those that suit with the lowest mean job completion time over the
// pools, in ratios; "" for none. What the cluster did is not among them.
func (s *Summary) Best(suits func(policy string) bool) string {
	best, least := "", math.Inf(1)
	for _, policy := range s.Policies() {
		if policy == catalog.Recorded || !suits(policy) {
			continue
		}
		var logs []float64
		for _, nodes := range s.Pools() {
			if run := s.Run(policy, nodes); run != nil {
				logs = append(logs, math.Log(run.MeanTotalSeconds))
			}
		}
		if total := statistics.Mean(logs); total < least {
			best, least = policy, total
		}
	}
	return best
}

// Shown returns at most four policies for figures: the best one, what it is compared with, the
// baseline, then the others with the lowest mean job completion times, in the order of the runs.
func (s *Summary) Shown() []string {
	const most = 4
	var shown []string
	add := func(policy string) {
		if policy != "" && len(shown) < most && !slices.Contains(shown, policy) {
			shown = append(shown, policy)
		}
	}
	if v := s.Verdict; v != nil {
		add(v.Policy)
		for _, reference := range v.References() {
			add(reference)
		}
		add(s.Baseline())
	}
	for len(shown) < most {
		next := s.Best(func(policy string) bool { return !slices.Contains(shown, policy) })
		if next == "" {
			break
		}
		add(next)
	}
	for _, policy := range s.Policies() {
		add(policy) // What the cluster did, if it is no reference.
	}
	order := s.Policies()
	slices.SortFunc(shown, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
	return shown
}

// pauses reports whether a policy pauses jobs on any pool.
func (s *Summary) pauses(policy string) bool {
	return slices.ContainsFunc(s.Runs, func(run statistics.Summary) bool { return run.Policy == policy && run.Pauses > 0 })
}
