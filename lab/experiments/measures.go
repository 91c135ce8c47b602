package experiments

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// Number is a measure over runs that differ in their seed.
type Number struct {
	Mean float64 `json:"mean"`
	// Spread is the standard deviation from run to run, 0 of a single run.
	Spread float64 `json:"spread"`
}

// numberOf returns the mean and the standard deviation of a sample.
func numberOf(values []float64) Number {
	n := Number{Mean: sim.Mean(values)}
	if len(values) > 1 {
		sum := 0.0
		for _, v := range values {
			sum += (v - n.Mean) * (v - n.Mean)
		}
		n.Spread = math.Sqrt(sum / float64(len(values)-1))
	}
	return n
}

// Row is the measures of one policy on one pool. Field names are those of results.json;
// the names of times end in their unit.
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
	Rescales     Number `json:"rescales"`
	// CrowdedShare is the share of decisions with more active jobs than nodes.
	CrowdedShare Number `json:"crowded_share"`
	// ExtraJobsPer100 and the reductions compare with greedy, which lacks them. A
	// reduction is also missing if greedy's time was 0 in every run.
	ExtraJobsPer100 *Number `json:"extra_jobs_per_100,omitempty"`
	QueueReduction  *Number `json:"queue_reduction,omitempty"`
	TotalReduction  *Number `json:"total_reduction,omitempty"`
	// OverBound is the mean total time divided by sim.TotalTimeBound; only in a batch.
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

// measures holds the measures of all runs.
type measures struct {
	pools   []int
	sources []Source
	rows    []Row
	timings []Timing
	// decisions and proven count the decisions of policies that ask for an optimum.
	decisions, proven int
}

// measure returns the measures of runs, the first of which were timed.
func measure(config *Config, plans []planned, runs []*sim.Result, timed int) *measures {
	m := &measures{pools: config.Pools, sources: []Source{Synthetic}}
	if config.Trace != nil {
		m.sources = append(m.sources, Trace)
	}
	type key struct {
		setting string
		source  Source
		policy  string
		nodes   int
	}
	groups := make(map[key][]int)
	var order []key
	references := make(map[key]map[uint64]*sim.Result)
	for i := range plans {
		k := key{plans[i].setting, plans[i].source, runs[i].Policy, runs[i].Nodes}
		if groups[k] == nil {
			order = append(order, k)
			references[k] = make(map[uint64]*sim.Result)
		}
		groups[k] = append(groups[k], i)
		references[k][plans[i].seed] = runs[i]
		if plans[i].task.Policy.Options.Backend == solver.BackendExact {
			m.decisions += len(runs[i].Decisions)
			m.proven += provenOf(runs[i])
		}
	}
	for _, k := range order {
		row := Row{Setting: k.setting, Source: k.source, Policy: k.policy, Nodes: k.nodes}
		var numbers sample
		for _, i := range groups[k] {
			var greedy *sim.Result
			if k.policy != greedyPolicy {
				greedy = references[key{k.setting, k.source, greedyPolicy, k.nodes}][plans[i].seed]
			}
			numbers.add(&row, &plans[i], runs[i], greedy)
		}
		numbers.fill(&row)
		m.rows = append(m.rows, row)
	}
	for _, source := range m.sources {
		var millis []float64
		for i := range plans[:timed] {
			if plans[i].source == source {
				millis = append(millis, runs[i].SolveMillis()...)
			}
		}
		m.timings = append(m.timings, newTiming(source, config.Pools[0], millis))
	}
	return m
}

func newTiming(source Source, nodes int, millis []float64) Timing {
	return Timing{
		Source: source, Nodes: nodes, Decisions: len(millis), millis: millis,
		Mean: sim.Mean(millis), Median: sim.Quantile(millis, 0.5), P95: sim.Quantile(millis, 0.95),
		P99: sim.Quantile(millis, 0.99), Max: sim.Quantile(millis, 1),
	}
}

// sample holds the measures of runs that differ only in their seed, one value per run.
type sample struct {
	queue, total, rescales, crowded, extra, queueReduction, totalReduction, overBound []float64
}

// add adds a run, and its comparison with greedy's unless it is greedy's own.
func (m *sample) add(row *Row, p *planned, run, greedy *sim.Result) {
	s := sim.Summarize(run, p.seed)
	if row.Runs == 0 || s.Jobs < row.Jobs {
		row.Jobs = s.Jobs
	}
	row.Runs++
	row.Decisions += len(run.Decisions)
	row.Proven += provenOf(run)
	m.queue = append(m.queue, s.MeanQueueSeconds)
	m.total = append(m.total, s.MeanTotalSeconds)
	m.rescales = append(m.rescales, float64(s.Rescales))
	crowded := 0
	for i := range run.Decisions {
		if run.Decisions[i].Jobs > run.Nodes {
			crowded++
		}
	}
	m.crowded = append(m.crowded, float64(crowded)/float64(max(1, len(run.Decisions))))
	if p.bound > 0 {
		m.overBound = append(m.overBound, s.MeanTotalSeconds/p.bound.Seconds())
	}
	if greedy == nil {
		return
	}
	c := sim.Compare(run, greedy)
	m.extra = append(m.extra, c.ExtraJobsPer100)
	if !math.IsNaN(float64(c.QueueReduction)) {
		m.queueReduction = append(m.queueReduction, float64(c.QueueReduction))
	}
	if !math.IsNaN(float64(c.TotalReduction)) {
		m.totalReduction = append(m.totalReduction, float64(c.TotalReduction))
	}
}

// fill writes the sample's numbers into the row.
func (m *sample) fill(row *Row) {
	row.QueueSeconds, row.TotalSeconds = numberOf(m.queue), numberOf(m.total)
	row.Rescales, row.CrowdedShare = numberOf(m.rescales), numberOf(m.crowded)
	row.ExtraJobsPer100 = ifAny(m.extra)
	row.QueueReduction, row.TotalReduction = ifAny(m.queueReduction), ifAny(m.totalReduction)
	row.OverBound = ifAny(m.overBound)
}

// ifAny returns the number of a sample, nil if it is empty.
func ifAny(values []float64) *Number {
	if len(values) == 0 {
		return nil
	}
	n := numberOf(values)
	return &n
}

func provenOf(run *sim.Result) int {
	proven := 0
	for i := range run.Decisions {
		if run.Decisions[i].Proven() {
			proven++
		}
	}
	return proven
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

// rowsOf returns the rows of a setting and some policies.
func (m *measures) rowsOf(setting string, policies ...string) []Row {
	var rows []Row
	for i := range m.rows {
		if r := &m.rows[i]; r.Setting == setting && slices.Contains(policies, r.Policy) {
			rows = append(rows, *r)
		}
	}
	return rows
}

// timing returns the decision times of a source.
func (m *measures) timing(source Source) *Timing {
	for i := range m.timings {
		if m.timings[i].Source == source {
			return &m.timings[i]
		}
	}
	return new(Timing)
}

// means returns a measure of a policy over the pools.
func (m *measures) means(setting string, source Source, policy string, of func(*Row) Number) []float64 {
	values := make([]float64, len(m.pools))
	for i, nodes := range m.pools {
		values[i] = of(m.row(setting, source, policy, nodes)).Mean
	}
	return values
}

// The measures of a row that tables and figures show.

func queueMinutes(r *Row) Number { return r.QueueSeconds.times(1.0 / 60) }

func totalMinutes(r *Row) Number { return r.TotalSeconds.times(1.0 / 60) }

func crowded(r *Row) Number { return r.CrowdedShare.times(100) }

func rescales(r *Row) Number { return r.Rescales }

func extraJobs(r *Row) Number { return deref(r.ExtraJobsPer100) }

func overBound(r *Row) Number { return deref(r.OverBound) }

func deref(n *Number) Number {
	if n == nil {
		return Number{}
	}
	return *n
}

// times converts the number to another unit.
func (n Number) times(factor float64) Number { return Number{n.Mean * factor, n.Spread * factor} }
