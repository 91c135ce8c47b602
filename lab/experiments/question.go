package experiments

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Question is what somebody asks who thinks of using the allocator, and what the
// runs answer.
type Question struct {
	Question string   `json:"question"`
	Answers  []string `json:"answers"`
}

// What decision times are aimed at, in milliseconds, at the smallest pool.
const aimMedian, aimP99 = 1.0, 30.0

// Questions returns the questions and their answers.
func (f *Findings) Questions() []Question {
	return []Question{
		{"Is optimal lower than greedy in queueing time at every pool size, on every workload, and if not, why?",
			f.everywhere("queueing time", queueMinutes)},
		{"Is it in total time?", f.everywhere("total time", totalMinutes)},
		{"How many more jobs does it finish, and where is the bell?", f.answer(func(s Source) string {
			b := f.bell(baselineSetting, s)
			if !b.countable() {
				return b.headline()
			}
			text := "no bell: the largest number is at an end of the pool sizes"
			if b.isBell() {
				text = fmt.Sprintf("a peak at %d nodes, with less at both ends", b.pools[b.peak])
			}
			return fmt.Sprintf("%s (the paper: up to %s at 110 nodes); %s", b.headline(), rounded(paperExtra, 1), text)
		})},
		{"What do ETA errors, bugs and the scaling delay cost?", f.costs()},
		{"How long do decisions take?", f.answer(f.speed)},
		{"What share of all decisions is proven optimal?", []string{f.proof()}},
		{"How far is the mean total time from the heSRPT bound?", f.answer(func(s Source) string {
			return fmt.Sprintf("with all jobs submitted at once, optimal's is %s times the bound over the pools, "+
				"with PREEMPTIVE admission %s times, heSRPT rounded to legal sizes %s times, greedy's %s times",
				f.overBounds(optimalPolicy, s), f.overBounds(preemptivePolicy, s),
				f.overBounds(heSRPTPolicy, s), f.overBounds(greedyPolicy, s))
		})},
		{"What do event-driven decisions add, and what do they cost?", f.answer(func(s Source) string {
			return fmt.Sprintf("against optimal: %v", f.effect(eventPolicy, s))
		})},
		{"What does PREEMPTIVE admission add, and what does it cost?", f.answer(func(s Source) string {
			return fmt.Sprintf("against optimal: %v", f.effect(preemptivePolicy, s))
		})},
		{"Is optimal the best there is in mean total time?", f.answer(func(s Source) string {
			return fmt.Sprintf("heSRPT's rule, rounded to legal sizes, is lower at %s; "+
				"the model maximises training progress, not the mean total time", f.lowerTotals(heSRPTPolicy, s))
		})},
	}
}

// answer answers for every source.
func (f *Findings) answer(say func(Source) string) []string {
	var answers []string
	for _, source := range f.sources() {
		answers = append(answers, sentence("on %s: %s", source.name(), say(source)))
	}
	return answers
}

// everywhere says, for every setting with arrivals, where optimal is lower in a
// mean time, by how much, and what can be seen where it is not. Each different pair of a
// workload and a pool counts once.
func (f *Findings) everywhere(what string, measure func(*Row) Number) []string {
	var answers []string
	held, all := 0, 0
	for _, setting := range Settings() {
		if setting.Batch {
			continue
		}
		for _, s := range f.sources() {
			c := f.contest(setting.Name, s, measure)
			text := c.headline()
			if f.isBaseline(setting.Name, s) {
				answers = append(answers, sentence("%s, on %s: the baseline again; %s", setting.Name, s.name(), text))
				continue
			}
			held += len(c.lower)
			all += len(c.pools)
			if len(c.notLower) > 0 {
				text += ". " + f.crowding(setting.Name, s, &c)
			}
			answers = append(answers, sentence("%s, on %s: %s", setting.Name, s.name(), text))
		}
	}
	verdict := "yes"
	if held < all {
		verdict = "no"
	}
	summary := sentence("%s: optimal's mean %s is lower in %d of %d pairs of a workload and a pool", verdict, what, held, all)
	return append([]string{summary}, answers...)
}

// crowding says how often there were more jobs than nodes where optimal is not
// lower, and elsewhere: with more jobs than nodes the queue waits whatever the
// allocator thinks, since every admitted job holds a node.
func (f *Findings) crowding(setting string, source Source, c *contest) string {
	crowded := func(r *Row) Number { return r.CrowdedShare }
	optimal := means(f.over(setting, source, optimalPolicy, crowded))
	greedy := means(f.over(setting, source, greedyPolicy, crowded))
	var words []string
	scarce := 0
	for _, i := range c.notLower {
		words = append(words, fmt.Sprintf("%s of optimal's decisions and %s of greedy's at %d nodes",
			percent(optimal[i]), percent(greedy[i]), c.pools[i]))
		if optimal[i] > 0 {
			scarce++
		}
	}
	text := "There were more jobs than nodes at " + listed(words)
	if len(c.lower) > 0 {
		text += fmt.Sprintf(", and at most %s of optimal's where it is lower", percent(maxShare(optimal, c.lower)))
	}
	switch scarce {
	case len(c.notLower):
		text += ". At such a moment optimal can but give every admitted job one node, and arrivals wait for one to end. " +
			"The runs show that the two go together, not that one is all of the cause"
	case 0:
		text += ", so it is not that jobs outnumbered nodes"
	}
	return text
}

// costs says what each departure from the ideal changes.
func (f *Findings) costs() []string {
	var answers []string
	for _, c := range []struct{ name, setting, paper string }{
		{"ETA errors of up to 10 %", etaSetting, "−2.4 to −0.6"},
		{"bugs and killed jobs", bugSetting, "the largest by −2.4"},
		{"a scaling delay of 15 s", delaySetting, "−0.9 to +1.8"},
	} {
		answers = append(answers, sentence("with %s, the additional jobs per 100 change by %s (the paper: %s)",
			c.name, f.eachSource(func(s Source) string {
				text := spanned(f.changed(c.setting, s), signed)
				if c.setting != bugSetting { // Less work is done where jobs are cut short.
					total := changes(means(f.over(c.setting, s, optimalPolicy, totalMinutes)),
						means(f.over(baselineSetting, s, optimalPolicy, totalMinutes)))
					text += " and optimal's mean total time by " + spanned(total, signedPercent)
				}
				return text
			}), c.paper))
	}
	return answers
}

// speed says how long decisions took, and whether that is what is aimed at.
func (f *Findings) speed(source Source) string {
	t := f.timing(source)
	aim := func(value, aim float64) string {
		if value <= aim {
			return "met"
		}
		return "missed"
	}
	return fmt.Sprintf("at %d nodes, one at a time: mean %s ms, median %s ms (aim 1 ms: %s), 95th percentile %s ms, "+
		"99th %s ms (aim 30 ms: %s), maximum %s ms; the paper: 400, 240, 1490 and 2480 ms for mean, median, 95th and maximum",
		t.Nodes, rounded(t.Mean, 2), rounded(t.Median, 2), aim(t.Median, aimMedian), rounded(t.P95, 2),
		rounded(t.P99, 2), aim(t.P99, aimP99), rounded(t.Max, 2))
}

// proof says what share of decisions is proven optimal, and lists the others.
func (f *Findings) proof() string {
	// Rounded down: 100 % are all.
	share := math.Floor(1e6*float64(f.proven)/float64(max(1, f.decisions))) / 1e4
	text := fmt.Sprintf("%d of %d decisions of optimal and its variants in all runs, %s %%",
		f.proven, f.decisions, rounded(share, 4))
	if len(f.unproven) == 0 {
		return sentence("%s", text)
	}
	var names []string
	for i := range f.unproven {
		names = append(names, f.unproven[i].File)
	}
	return sentence("%s; the others are in the folder unproven: %s", text, strings.Join(slices.Compact(names), ", "))
}
