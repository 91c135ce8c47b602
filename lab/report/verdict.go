package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/lab/statistics"
)

// explain describes a reference policy.
func explain(policy string) string {
	switch policy {
	case catalog.Recorded:
		return "what the cluster did (recorded)"
	case catalog.Backfill:
		return "FIFO with backfill (fifo-backfill)"
	case results.FIFOPolicy:
		return "FIFO with fixed sizes (fifo)"
	case catalog.MaxMin:
		return "max-min fair shares (max-min)"
	default:
		return policy
	}
}

// verdict describes the best policy: its improvement, idle node hours, slower jobs and conditions.
func verdict(s *results.Summary, gpusPerNode int) []string {
	v := s.Verdict
	if v == nil {
		return []string{validity(s, gpusPerNode)}
	}
	lines, mean := leading(v), "mean job completion time (JCT)"
	if len(lines) > 0 {
		mean = "mean JCT"
	}
	for _, reference := range v.ComparedWith {
		lines = append(lines, fmt.Sprintf("%s compared with %s%s: the %s is %s.",
			v.Policy, explain(reference.Policy), poolOf(s, &reference), mean, lowered(s, &reference)))
		mean = "mean JCT"
	}
	if v.Calm != "" {
		lines = append(lines,
			fmt.Sprintf("%s, which pauses no job: the mean JCT is %s.", v.Calm, loweredAll(s.CompareWith(v.Calm, v.References()))))
	}
	if lower := lowerThanBest(s); lower != "" {
		lines = append(lines, lower)
	}
	if idle := idle(s); idle != "" {
		lines = append(lines, idle)
	}
	lines = append(lines, losers(s), validity(s, gpusPerNode))
	return lines
}

// leading describes the most careful scenario that still gains, if there are several scenarios.
func leading(v *results.Verdict) []string {
	if len(v.Scenarios) < 2 {
		return nil
	}
	for i := range v.Scenarios {
		if scenario := &v.Scenarios[i]; scenario.Name == v.Leading {
			return []string{
				fmt.Sprintf("%s, the mean job completion time (JCT) of %s is %s.", assumption(v.Leading), v.Policy, loweredAll(scenario.ComparedWith)),
			}
		}
	}
	both := ""
	if len(v.References()) > 1 {
		both = "both "
	}
	return []string{fmt.Sprintf("In no scenario is the mean job completion time (JCT) of %s lower than under %s%s by at least 1%%.",
		v.Policy, both, strings.Join(v.References(), " and "))}
}

// assumption describes the assumption of a scenario at the start of a sentence.
func assumption(scenario string) string {
	switch scenario {
	case results.NoGrowth:
		return "If no job has more nodes than it requested"
	case results.FewElastic:
		return "If one job in five is elastic, and the others have the nodes that they requested"
	default:
		return "Only with all assumptions of the simulation"
	}
}

// scenariosTable returns the table of the scenarios of a verdict, nil if there is only one.
func scenariosTable(s *results.Summary) []Table {
	v := s.Verdict
	if v == nil || len(v.Scenarios) < 2 {
		return nil
	}
	in, unit := unitOf(s)
	policies := append(v.References(), v.Policy)
	t := Table{Header: []string{"scenario"}, Legend: [][2]string{
		{"scenario", "mean JCT (" + unit + ") of each policy, and the change with " + v.Policy + " in percent; negative is better"},
		{results.AsAssumed, "the sizes of the trace, or their defaults"},
		{results.FewElastic, "four jobs in five have the nodes that they requested"},
		{results.NoGrowth, "jobs are elastic, up to the nodes that they requested"},
	}}
	t.Header = append(t.Header, policies...)
	for _, reference := range v.References() {
		t.Header = append(t.Header, "to "+reference)
	}
	for _, nodes := range s.Pools() {
		t.Rows = append(t.Rows, []string{format.Plural(nodes, "node")})
		for i := range v.Scenarios {
			scenario := &v.Scenarios[i]
			there := results.Summary{Runs: scenario.Runs}
			cells := []string{scenario.Name}
			for _, policy := range policies {
				cell := ""
				if run := there.Run(policy, nodes); run != nil && slices.Contains(there.PoolsOf(policy), nodes) {
					cell = in(run.MeanTotalSeconds)
				}
				cells = append(cells, cell)
			}
			for _, reference := range scenario.ComparedWith {
				cell := ""
				for _, pool := range reference.Pools {
					if pool.Nodes == nodes {
						cell = fmt.Sprintf("%+.1f%%", 100*pool.Change)
					}
				}
				cells = append(cells, cell)
			}
			t.Rows = append(t.Rows, cells)
		}
	}
	return []Table{t}
}

// poolOf names the pool that a comparison is of, unless it is of all pools.
func poolOf(s *results.Summary, r *results.Reference) string {
	if len(r.Pools) == len(s.Pools()) {
		return ""
	}
	return fmt.Sprintf(", on %d nodes", r.Pools[0].Nodes)
}

// unitOf returns the format and the unit of times, which is seconds if jobs take less than 10 min.
func unitOf(s *results.Summary) (write func(seconds float64) string, name string) {
	if s.Runs[0].MeanTotalSeconds < 600 {
		return func(seconds float64) string { return fmt.Sprintf("%.0f", seconds) }, "s"
	}
	return minutes, "min"
}

// lowered describes the change of a mean compared with a reference.
func lowered(s *results.Summary, r *results.Reference) string {
	text := change(changes(r)...)
	if in, unit := unitOf(s); len(r.Pools) == 1 && text != unchanged {
		text += fmt.Sprintf(" (%s instead of %s %s)", in(r.Pools[0].MeanTotalSeconds), in(r.Pools[0].ReferenceSeconds), unit)
	}
	return text
}

// loweredAll describes the changes of a mean compared with several references.
func loweredAll(references []results.Reference) string {
	texts := make([]string, len(references))
	for i := range references {
		than := " than " + references[i].Policy
		if texts[i] = change(changes(&references[i])...); texts[i] == unchanged {
			than = " compared with " + references[i].Policy
		}
		texts[i] += than
	}
	return strings.Join(texts, ", ")
}

func changes(r *results.Reference) []float64 {
	shares := make([]float64, len(r.Pools))
	for i := range r.Pools {
		shares[i] = r.Pools[i].Change
	}
	return shares
}

// lowerThanBest names the policies whose mean is lower than the mean of the best policy on some pools.
func lowerThanBest(s *results.Summary) string {
	var others []string
	for _, policy := range s.Policies() {
		if policy == catalog.Recorded {
			continue
		}
		var pools []int
		for _, nodes := range s.Pools() {
			if s.Run(policy, nodes).MeanTotalSeconds < s.Run(s.Verdict.Policy, nodes).MeanTotalSeconds {
				pools = append(pools, nodes)
			}
		}
		if len(pools) > 0 {
			others = append(others, fmt.Sprintf("%s on %s nodes", policy, joined(pools)))
		}
	}
	if len(others) == 0 {
		return ""
	}
	return "The mean JCT is lower under " + strings.Join(others, ", ") + "."
}

// of returns a measure of a policy on the pools of a reference.
func of(s *results.Summary, policy string, r *results.Reference, measure func(*statistics.Summary) float64) []float64 {
	var values []float64
	for _, pool := range r.Pools {
		if !slices.Contains(s.PoolsOf(policy), pool.Nodes) {
			continue
		}
		if value := measure(s.Run(policy, pool.Nodes)); !math.IsNaN(value) {
			values = append(values, value)
		}
	}
	return values
}

func idleHours(s *statistics.Summary) float64   { return float64(s.IdleNodeHours) }
func utilization(s *statistics.Summary) float64 { return 100 * float64(s.Utilization) }

// idle describes the idle node hours of policies, on the pools of the first reference.
func idle(s *results.Summary) string {
	var texts []string
	first := &s.Verdict.ComparedWith[0]
	for _, policy := range compared(s) {
		hours := of(s, policy, first, idleHours)
		if len(hours) == 0 {
			continue
		}
		digits := "%.0f"
		if slices.Max(hours) < 10 {
			digits = "%.1f"
		}
		text := policy + " " + ranged(digits, hours...)
		if shares := of(s, policy, first, utilization); len(shares) > 0 { // No job was present for any time otherwise.
			text += fmt.Sprintf(" (utilization %s%%)", ranged("%.1f", shares...))
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return ""
	}
	return "Idle node hours" + poolOf(s, first) + ": " + strings.Join(texts, ", ") + "."
}

// compared returns the policies of a verdict, starting with the references.
func compared(s *results.Summary) []string {
	policies := append(s.Verdict.References(), s.Verdict.Policy)
	if s.Verdict.Calm != "" {
		policies = append(policies, s.Verdict.Calm)
	}
	return policies
}

// losers describes the jobs that are slower than under the last reference.
func losers(s *results.Summary) string {
	best := s.Verdict.Policy
	reference := s.Verdict.ComparedWith[len(s.Verdict.ComparedWith)-1]
	var longest, later, worst, resizes, before []float64
	for _, pool := range reference.Pools {
		run, other := s.Run(best, pool.Nodes), s.Run(reference.Policy, pool.Nodes)
		longest = append(longest, share(run.MaxTotalSeconds, other.MaxTotalSeconds))
		resizes, before = append(resizes, run.ResizesPerJob()), append(before, other.ResizesPerJob())
		if reference.Policy == catalog.MaxMin && run.LaterShare != nil {
			later, worst = append(later, 100**run.LaterShare), append(worst, *run.WorstLater)
		}
	}
	text := fmt.Sprintf("Slower jobs compared with %s: ", reference.Policy)
	if len(later) > 0 {
		text += fmt.Sprintf("%s%% of the jobs complete later, one takes %.1f times as long. ", ranged("%.0f", later...), slices.Max(worst))
	}
	pauses := of(s, best, &reference, func(run *statistics.Summary) float64 { return run.Pauses })
	return text + fmt.Sprintf("The longest JCT is %s. Jobs are resized %s times instead of %s; %s of these are pauses.",
		change(longest...), ranged("%.2f", resizes...), ranged("%.2f", before...), ranged("%.2f", pauses...))
}

// validity describes the conditions of a verdict.
func validity(s *results.Summary, gpusPerNode int) string {
	c := s.Conditions
	elastic := "no job is elastic"
	if c.Elastic > 0 {
		of := ""
		if gpusPerNode > 1 {
			of = fmt.Sprintf(" of %d GPUs", gpusPerNode)
		}
		elastic = fmt.Sprintf("%d of %s (%s) are elastic, on up to %d nodes%s", c.Elastic,
			format.Plural(c.Jobs, "job"), percent(c.ElasticShare), c.LargestSize, of)
	}
	if n := s.Cut.BelowNode; n > 0 {
		elastic += fmt.Sprintf(", although %d requested less than a node", n)
	}
	var loads []string
	for _, load := range c.Loads {
		if math.IsNaN(float64(load.Load)) {
			continue
		}
		text := fmt.Sprintf("%.2f", float64(load.Load))
		if len(c.Loads) > 1 {
			text += fmt.Sprintf(" on %d nodes", load.Nodes)
		}
		loads = append(loads, text)
	}
	load := ""
	if len(loads) > 0 {
		load = "the load is " + strings.Join(loads, ", ") + "; "
	}
	restart := "resizes are free"
	if c.RestartSeconds > 0 {
		restart = "a restart takes " + format.ShortDuration(time.Duration(c.RestartSeconds)*time.Second)
	}
	return fmt.Sprintf("Conditions of these figures: %s; %s%s; %s.", elastic, load, etas(c), restart)
}

// etas describes the accuracy of ETAs.
func etas(c *results.Conditions) string {
	factor := ""
	if f := float64(c.ETAFactor); !math.IsNaN(f) {
		factor = fmt.Sprintf(" (half of them are within a factor of %.2f)", f)
	}
	switch c.ETA {
	case results.ETAUnknown:
		return "ETAs are unknown"
	case results.ETABounded, results.ETARandom:
		return "ETAs are wrong" + factor
	case results.ETARecorded:
		return "ETAs are as recorded" + factor
	default:
		return "ETAs are exact"
	}
}

// verdictTable returns the table of a verdict. Each row is a measure, with its best value marked.
func verdictTable(s *results.Summary) []Table {
	if s.Verdict == nil {
		return nil
	}
	policies := compared(s)
	in, unit := unitOf(s)
	rows := []struct {
		name   string
		higher bool // is better
		cell   func(*statistics.Summary) string
	}{
		{"mean JCT (" + unit + ")", false, func(s *statistics.Summary) string { return in(s.MeanTotalSeconds) }},
		{"p95 JCT (" + unit + ")", false, func(s *statistics.Summary) string { return in(s.P95TotalSeconds) }},
		{"longest JCT (" + unit + ")", false, func(s *statistics.Summary) string { return in(s.MaxTotalSeconds) }},
		{"without nodes (" + unit + ")", false, func(s *statistics.Summary) string { return in(s.MeanUnservedSeconds) }},
		{"utilization (%)", true, func(s *statistics.Summary) string { return number("%.1f", utilization(s)) }},
		{"idle node hours", false, func(s *statistics.Summary) string { return number("%.1f", idleHours(s)) }},
		{"resizes per job", false, func(s *statistics.Summary) string { return number("%.2f", s.ResizesPerJob()) }},
	}
	t := Table{
		Header: append([]string{"verdict"}, policies...), Best: make(map[[2]int]bool),
		Legend: [][2]string{
			{"*", "best value of the row: for utilization the highest, for all others the lowest"},
			{"JCT", "job completion time, from submission to completion; mean, 95th percentile and maximum"},
			{"without nodes", "mean time in the queue and in pauses"},
		},
	}
	for _, nodes := range s.Pools() {
		t.Rows = append(t.Rows, []string{format.Plural(nodes, "node")})
		for _, row := range rows {
			cells, best := []string{row.name}, math.Inf(1)
			for _, policy := range policies {
				cell := ""
				if slices.Contains(s.PoolsOf(policy), nodes) {
					cell = row.cell(s.Run(policy, nodes))
				}
				cells = append(cells, cell)
			}
			sign := 1.0
			if row.higher {
				sign = -1
			}
			value := func(cell string) float64 {
				var x float64
				if _, err := fmt.Sscan(cell, &x); err != nil {
					return math.Inf(1)
				}
				return sign * x
			}
			for _, cell := range cells[1:] {
				best = min(best, value(cell))
			}
			differ := slices.ContainsFunc(cells[1:], func(cell string) bool { return cell != "" && value(cell) != best })
			for n, cell := range cells[1:] {
				t.Best[[2]int{len(t.Rows), n + 1}] = differ && value(cell) == best
			}
			t.Rows = append(t.Rows, cells)
		}
	}
	return []Table{t}
}
