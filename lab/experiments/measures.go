package experiments

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/lab/statistics"
	"github.com/elastalloc/elastalloc/sim"
)

// Number is a measure over runs that differ in their seed.
type Number struct {
	Mean float64 `json:"mean"`
	// Spread is the standard deviation from run to run, 0 of a single run.
	Spread float64 `json:"spread"`
}

// numberOf returns the mean and the standard deviation of a sample.
func numberOf(values []float64) Number {
	n := Number{Mean: statistics.Mean(values)}
	if len(values) > 1 {
		sum := 0.0
		for _, v := range values {
			sum += (v - n.Mean) * (v - n.Mean)
		}
		n.Spread = math.Sqrt(sum / float64(len(values)-1))
	}
	return n
}

func (n Number) times(factor float64) Number { return Number{n.Mean * factor, n.Spread * factor} }

// Row contains the measures of one policy on one pool, as written to results.json.
type Row struct {
	Setting string `json:"setting"`
	Source  Source `json:"source"`
	Policy  string `json:"policy"`
	Nodes   int    `json:"nodes"`
	// Jobs is the smallest number of jobs of the runs, and Runs the number of runs.
	Jobs int `json:"jobs"`
	Runs int `json:"runs"`
	// The means are over all jobs, and then over the runs.
	QueueSeconds Number `json:"mean_queue_s"`
	TotalSeconds Number `json:"mean_total_s"`
	Resizes      Number `json:"resizes"`
	// CrowdedShare is the share of decisions with more active jobs than nodes.
	CrowdedShare Number `json:"crowded_share"`
	// ExtraJobsPer100 and the reductions compare with greedy, which lacks them. A
	// reduction is also missing if greedy's time was 0 in every run.
	ExtraJobsPer100 *Number `json:"extra_jobs_per_100,omitempty"`
	QueueReduction  *Number `json:"queue_reduction,omitempty"`
	TotalReduction  *Number `json:"total_reduction,omitempty"`
	// OverBound is the mean completion time divided by hesrpt.Bound, only for a batch.
	OverBound *Number `json:"total_over_bound,omitempty"`
	// Decisions counts those of all runs, and Proven those proven optimal.
	Decisions int `json:"decisions"`
	Proven    int `json:"proven"`
}

// Timing is the distribution of decision times of runs made one at a time.
type Timing struct {
	Source Source `json:"source"`
	Nodes  int    `json:"nodes"`
	// Decisions is the number of decisions, over all runs.
	Decisions int     `json:"decisions"`
	Mean      float64 `json:"mean_ms"`
	Median    float64 `json:"median_ms"`
	P95       float64 `json:"p95_ms"`
	P99       float64 `json:"p99_ms"`
	Max       float64 `json:"max_ms"`

	millis []float64
}

type measures struct {
	pools   []int
	sources []Source
	rows    []Row
	timings []Timing
	// decisions and proven count the decisions of policies that optimize.
	decisions, proven int
}

// outcome is a run and its comparison with greedy under the same conditions, NaN for greedy itself.
type outcome struct {
	planned *planned
	run     *sim.Result
	summary statistics.Summary
	against statistics.Comparison
}

// measure returns the measures of runs, the first of which were timed.
func measure(config *Config, plans []planned, runs []*sim.Result, timed int) *measures {
	m := &measures{pools: config.Pools, sources: []Source{Synthetic}}
	if config.Trace != nil {
		m.sources = append(m.sources, Trace)
	}
	type conditions struct {
		setting string
		source  Source
		nodes   int
		seed    uint64
	}
	conditionsOf := func(i int) conditions {
		return conditions{plans[i].setting, plans[i].source, runs[i].Nodes, plans[i].seed}
	}
	greedy := make(map[conditions]*sim.Result)
	for i, run := range runs {
		if run.Policy == greedyPolicy {
			greedy[conditionsOf(i)] = run
		}
	}
	outcomes := make(map[Row][]outcome)
	var order []Row
	for i, run := range runs {
		key := Row{Setting: plans[i].setting, Source: plans[i].source, Policy: run.Policy, Nodes: run.Nodes}
		if outcomes[key] == nil {
			order = append(order, key)
		}
		o := outcome{planned: &plans[i], run: run, summary: statistics.Summarize(run, plans[i].seed)}
		o.against = statistics.Comparison{
			ExtraJobsPer100: math.NaN(), QueueReduction: statistics.Share(math.NaN()), TotalReduction: statistics.Share(math.NaN()),
		}
		if run.Policy != greedyPolicy {
			o.against = statistics.Compare(run, greedy[conditionsOf(i)])
		}
		outcomes[key] = append(outcomes[key], o)
		if plans[i].task.Policy.Optimizes() {
			m.decisions += len(run.Decisions)
			m.proven += statistics.Proven(run)
		}
	}
	for _, row := range order {
		row.fill(outcomes[row])
		m.rows = append(m.rows, row)
	}
	for _, source := range m.sources {
		t := Timing{Source: source, Nodes: config.Pools[0]}
		for i := range plans[:timed] {
			if plans[i].source == source {
				t.millis = append(t.millis, statistics.SolveTimes(runs[i])...)
			}
		}
		t.Decisions, t.Mean, t.Max = len(t.millis), statistics.Mean(t.millis), statistics.Quantile(t.millis, 1)
		t.Median, t.P95, t.P99 = statistics.Quantile(t.millis, 0.5), statistics.Quantile(t.millis, 0.95), statistics.Quantile(t.millis, 0.99)
		m.timings = append(m.timings, t)
	}
	return m
}

func (r *Row) fill(outcomes []outcome) {
	// optional omits runs for which a number is undefined.
	optional := func(of func(*outcome) float64) *Number {
		var values []float64
		for i := range outcomes {
			if value := of(&outcomes[i]); !math.IsNaN(value) {
				values = append(values, value)
			}
		}
		if len(values) == 0 {
			return nil
		}
		return new(numberOf(values))
	}
	r.Runs, r.Jobs = len(outcomes), outcomes[0].summary.Jobs
	for i := range outcomes {
		r.Jobs = min(r.Jobs, outcomes[i].summary.Jobs)
		r.Decisions += len(outcomes[i].run.Decisions)
		r.Proven += statistics.Proven(outcomes[i].run)
	}
	r.QueueSeconds = *optional(func(o *outcome) float64 { return o.summary.MeanQueueSeconds })
	r.TotalSeconds = *optional(func(o *outcome) float64 { return o.summary.MeanTotalSeconds })
	r.Resizes = *optional(func(o *outcome) float64 { return float64(o.summary.Resizes) })
	r.CrowdedShare = *optional(func(o *outcome) float64 {
		crowded := 0
		for _, decision := range o.run.Decisions {
			if decision.Jobs > o.run.Nodes {
				crowded++
			}
		}
		return float64(crowded) / float64(max(1, len(o.run.Decisions)))
	})
	r.OverBound = optional(func(o *outcome) float64 {
		if o.planned.bound == 0 {
			return math.NaN()
		}
		return o.summary.MeanTotalSeconds / o.planned.bound.Seconds()
	})
	r.ExtraJobsPer100 = optional(func(o *outcome) float64 { return o.against.ExtraJobsPer100 })
	r.QueueReduction = optional(func(o *outcome) float64 { return float64(o.against.QueueReduction) })
	r.TotalReduction = optional(func(o *outcome) float64 { return float64(o.against.TotalReduction) })
}

// row returns the measures of a policy on a pool. There is one for every policy of
// the setting, every source and every pool.
func (m *measures) row(setting string, source Source, policy string, nodes int) *Row {
	for i := range m.rows {
		r := &m.rows[i]
		if r.Setting == setting && r.Source == source && r.Policy == policy && r.Nodes == nodes {
			return r
		}
	}
	return new(Row)
}

func (m *measures) rowsOf(setting string, policies ...string) []Row {
	return slices.DeleteFunc(slices.Clone(m.rows), func(r Row) bool {
		return r.Setting != setting || !slices.Contains(policies, r.Policy)
	})
}

// The measures of a row that results, tables and figures show.

func queueMinutes(r *Row) Number { return r.QueueSeconds.times(1.0 / 60) }

func totalMinutes(r *Row) Number { return r.TotalSeconds.times(1.0 / 60) }

func crowded(r *Row) Number { return r.CrowdedShare.times(100) }

func resizes(r *Row) Number { return r.Resizes }

func extraJobs(r *Row) Number { return orZero(r.ExtraJobsPer100) }

func overBound(r *Row) Number { return orZero(r.OverBound) }

func orZero(n *Number) Number {
	if n == nil {
		return Number{}
	}
	return *n
}
