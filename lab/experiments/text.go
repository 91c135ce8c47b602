package experiments

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// name returns what sentences call a source.
func (s Source) name() string {
	if s == Trace {
		return "the trace"
	}
	return "the synthetic workload"
}

// rounded writes a number with so many decimals, never as a negative zero.
func rounded(value float64, decimals int) string {
	text := strconv.FormatFloat(value, 'f', decimals, 64)
	if strings.Trim(text, "-0.") == "" {
		return strings.TrimPrefix(text, "-")
	}
	return strings.Replace(text, "-", "−", 1)
}

// signed writes a number with one decimal and its sign.
func signed(value float64) string {
	text := rounded(value, 1)
	if strings.HasPrefix(text, "−") || text == "0.0" {
		return text
	}
	return "+" + text
}

// percent writes a share in per cent with one decimal.
func percent(share float64) string { return rounded(100*share, 1) + " %" }

// signedPercent writes a share in per cent with its sign.
func signedPercent(share float64) string { return signed(100*share) + " %" }

// spread writes a number and how far runs vary, if there are several.
func (r *Row) spread(n Number, decimals int) string {
	if r.Runs < 2 {
		return rounded(n.Mean, decimals)
	}
	return rounded(n.Mean, decimals) + " ± " + rounded(n.Spread, decimals)
}

// listed joins words: a, b and c.
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// nodesList writes sizes of pools: 70, 90 and 110 nodes.
func nodesList(pools []int) string {
	words := make([]string, len(pools))
	for i, nodes := range pools {
		words[i] = strconv.Itoa(nodes)
	}
	return listed(words) + " nodes"
}

// spanned writes the range of values, in which each is written by format.
func spanned(values []float64, format func(float64) string) string {
	if len(values) == 0 {
		return "nothing"
	}
	least, most := format(slices.Min(values)), format(slices.Max(values))
	if least == most {
		return most
	}
	return least + " to " + most
}

// against says how a value relates to the paper's, as they are written.
func against(value, paper float64, decimals int) string {
	ours, theirs := rounded(value, decimals), rounded(paper, decimals)
	switch {
	case ours == theirs:
		return "as much as"
	case value > paper:
		return "more than"
	default:
		return "less than"
	}
}

// means returns the means of numbers.
func means(numbers []Number) []float64 {
	values := make([]float64, len(numbers))
	for i, n := range numbers {
		values[i] = n.Mean
	}
	return values
}

// differences returns a - b, value by value.
func differences(a, b []float64) []float64 {
	list := make([]float64, len(a))
	for i := range a {
		list[i] = a[i] - b[i]
	}
	return list
}

// changes returns a/b - 1, value by value, without those where b is 0.
func changes(a, b []float64) []float64 {
	var list []float64
	for i := range a {
		if b[i] != 0 {
			list = append(list, a[i]/b[i]-1)
		}
	}
	return list
}

// sentence makes a text one: a capital letter at the front and a period at the end.
func sentence(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// contest is how optimal does against greedy in a mean time, over the pools.
type contest struct {
	pools           []int
	optimal, greedy []float64
	lower, notLower []int // positions
}

// contest compares the two policies in minutes.
func (f *Findings) contest(setting string, source Source, measure func(*Row) Number) contest {
	c := contest{
		pools:   f.pools,
		optimal: means(f.over(setting, source, optimalPolicy, measure)),
		greedy:  means(f.over(setting, source, greedyPolicy, measure)),
	}
	for i := range c.pools {
		if c.optimal[i] < c.greedy[i] {
			c.lower = append(c.lower, i)
		} else {
			c.notLower = append(c.notLower, i)
		}
	}
	return c
}

// reduction returns by what share optimal's mean is less than greedy's on a pool,
// 0 where greedy's is 0.
func (c *contest) reduction(i int) float64 {
	if c.greedy[i] == 0 {
		return 0
	}
	return 1 - c.optimal[i]/c.greedy[i]
}

// largest returns the position of the largest reduction.
func (c *contest) largest() int {
	best := 0
	for i := range c.pools {
		if c.reduction(i) > c.reduction(best) {
			best = i
		}
	}
	return best
}

// exceptions says where optimal is not lower: 70 nodes (13.6 against 10.4 min).
func (c *contest) exceptions() string {
	words := make([]string, len(c.notLower))
	for n, i := range c.notLower {
		words[n] = fmt.Sprintf("%d nodes (%s against %s min)",
			c.pools[i], rounded(c.optimal[i], 1), rounded(c.greedy[i], 1))
	}
	return listed(words)
}

// headline says where optimal is lower and by how much.
func (c *contest) headline() string {
	var text string
	switch {
	case len(c.notLower) == 0:
		text = "optimal lower at every pool size"
	case len(c.lower) == 0:
		return "optimal lower at no pool size: " + c.exceptions()
	default:
		text = fmt.Sprintf("optimal lower at %d of %d pool sizes, not at %s", len(c.lower), len(c.pools), c.exceptions())
	}
	best := c.largest()
	text += fmt.Sprintf("; largest decrease %s, at %d nodes", percent(c.reduction(best)), c.pools[best])
	if i := slices.Index(c.pools, 150); i >= 0 && i != best {
		text += fmt.Sprintf("; at 150 nodes %s", signedPercent(-c.reduction(i)))
	}
	return text
}

// bell describes additional jobs over the pools.
type bell struct {
	pools  []int
	values []Number
	peak   int
	jobs   int
}

// bell returns optimal's additional jobs under a setting.
func (f *Findings) bell(setting string, source Source) bell {
	b := bell{
		pools: f.pools, values: f.over(setting, source, optimalPolicy, extraJobs),
		jobs: f.row(setting, source, optimalPolicy, f.pools[0]).Jobs,
	}
	for i := range b.values {
		if b.values[i].Mean > b.values[b.peak].Mean {
			b.peak = i
		}
	}
	return b
}

// countable reports whether greedy ever finished a hundred jobs.
func (b *bell) countable() bool { return b.jobs >= 100 }

// isBell reports whether the peak is inside and both ends are below it.
func (b *bell) isBell() bool {
	last := len(b.values) - 1
	return b.peak > 0 && b.values[last].Mean < b.largest()
}

// largest returns the peak's number.
func (b *bell) largest() float64 { return b.values[b.peak].Mean }

// headline says where the peak is and what is at the ends.
func (b *bell) headline() string {
	if !b.countable() {
		return fmt.Sprintf("not counted: %d jobs are fewer than 100", b.jobs)
	}
	text := fmt.Sprintf("up to %s per 100, at %d nodes", signed(b.largest()), b.pools[b.peak])
	if last := len(b.pools) - 1; last > 0 {
		text += fmt.Sprintf("; %s at %d and %s at %d nodes", signed(b.values[0].Mean), b.pools[0],
			signed(b.values[last].Mean), b.pools[last])
	}
	return text
}

// maxShare returns the largest of the shares at positions, 0 of none.
func maxShare(shares []float64, at []int) float64 {
	most := 0.0
	for _, i := range at {
		most = math.Max(most, shares[i])
	}
	return most
}
