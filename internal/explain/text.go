package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/internal/text"
	"github.com/elastalloc/elastalloc/solver"
)

func (e *explainer) describe(r *reason) solver.JobExplanation {
	explanation := solver.JobExplanation{JobID: r.allocation.JobID, Nodes: r.allocation.Nodes, Remedies: r.remedies}
	for _, size := range r.sizes {
		explanation.Sizes = append(explanation.Sizes, size.SizeOption)
	}
	why, because := e.why(r)
	explanation.Why = why
	explanation.Text = because + e.uncertainty(r) + e.suggestion(r) + "."
	return explanation
}

// why returns the reason for a job's nodes and the beginning of a sentence that describes it.
func (e *explainer) why(r *reason) (solver.Why, string) {
	a, pool := r.allocation, e.all.TotalNodes
	nodes := formatNodes(a.Nodes, a.NodeType)
	has, keeps := shortName(a.JobID)+" has "+nodes, shortName(a.JobID)+" keeps its "+nodes
	switch {
	case r.bad:
		return solver.WhyKept, keeps + ": its fields are invalid"
	case r.job < 0:
		return solver.WhyKept, keeps + ": the request states that it does"
	}
	job := &e.snapshot.Jobs[r.job]
	sizes := solver.Nodes(job.LegalSizes()...)
	if a.Nodes == 0 {
		return solver.Why(a.WaitReason), e.waiting(r, e.snapshot.SmallestSize(r.job))
	}
	next, larger := r.next()
	if e.snapshot.Typed() {
		sizes = e.optionsOf(r)
	}
	fitting := 0 // number of legal sizes that fit the pool
	for _, k := range sizes {
		if int(k.Nodes) <= pool {
			fitting++
		}
	}
	switch {
	case e.keptByRestartBudget(r):
		return solver.WhyRestartBudget,
			fmt.Sprintf("%s: it has restarted %d times lately and is not resized until it has had nodes for another %s",
				keeps, solver.MaxRecentRestarts, formatSeconds(job.RestartBudgetWait(), 2))
	case !larger && e.sizeLimited(r):
		return solver.WhySizeLimit, has + ": the size limits allow no more nodes"
	case len(sizes) == 1 && sizes[0] == r.option:
		return solver.WhyOnlySize, has + ", its only size"
	case e.snapshot.Typed() && !slices.ContainsFunc(sizes, func(k solver.Option) bool { return e.isMore(r.job, r.option, k) }):
		return solver.WhyLargest, has + ", its fastest option"
	case e.snapshot.Typed(): // The following cases do not apply.
	case a.Nodes >= int(sizes[len(sizes)-1].Nodes):
		return solver.WhyLargest, has + ", its largest size"
	case a.Nodes >= int(sizes[max(0, fitting-1)].Nodes):
		return solver.WhyLargest, fmt.Sprintf("%s, the largest of its sizes that fits the pool of %d", has, pool)
	case !larger && e.groupLimited(r):
		return solver.WhyGroupLimit, has + ": the limit of its group allows no more nodes"
	}
	if !larger {
		return solver.WhyNoRoom, has + ": no larger size fits in addition to the smallest sizes of the other jobs"
	}
	if prevented := e.preventedByCost(r); prevented != nil {
		if remaining := e.problem.Jobs[r.admitted].Demand / e.snapshot.Speed(r.job, r.option); remaining <= job.RestartTime.Seconds() {
			return solver.WhyChangeCost, fmt.Sprintf("%s: it completes in %s, and a restart takes %s",
				keeps, formatSeconds(remaining, 2), formatSeconds(job.RestartTime.Seconds(), 2))
		}
		benefit, cost := e.formatAmounts(max(0, prevented.change-prevented.Loss), prevented.change)
		saves := fmt.Sprintf("gain %s for all jobs", benefit)
		if e.options.Spec().Unit.Format == solver.FormatTime {
			saves = fmt.Sprintf("save all jobs %s", benefit)
		}
		return solver.WhyChangeCost, fmt.Sprintf("%s: %s would %s, but the resize costs %s", keeps, e.formatChange(r, prevented), saves, cost)
	}
	if next.gain <= e.tolerance() {
		return solver.WhyEnough, fmt.Sprintf("%s: %s would bring no benefit", has, e.formatChange(r, &next))
	}
	tradeOff := e.tradeOff(e.formatChange(r, &next), &next)
	admitted := &e.problem.Jobs[r.admitted]
	capacity := e.capacityPrice(next.option)*float64(next.option.Nodes) - e.capacityPrice(r.option)*float64(r.option.Nodes)
	switch limited := next.gain > capacity && e.nodePrice(admitted, next.option) > e.capacityPrice(next.option); {
	case limited && len(e.problem.Groups) > 0:
		return solver.WhyGroupLimit, has + ": within the limit of its group, " + tradeOff
	case limited && len(e.snapshot.SizeLimits) > 0:
		return solver.WhySizeLimit, has + ": within the size limits, " + tradeOff
	}
	return solver.WhyPricedOut, has + ": " + tradeOff
}

// keptByRestartBudget reports whether a job keeps its nodes because it has used its restart budget: more or faster nodes
// would fit, or a new job waits because it cannot be paused.
func (e *explainer) keptByRestartBudget(r *reason) bool {
	if !e.snapshot.UsedRestartBudget(r.job) || r.option != e.snapshot.Current(r.job) || r.admitted < 0 {
		return false
	}
	member, smallest := e.problem.Jobs[r.admitted].Member, e.problem.MinOption(r.admitted)
	e.headroom.Release(member, smallest)
	defer e.headroom.Allocate(member, smallest)
	isMore := func(o solver.Option) bool { return e.isMore(r.job, r.option, o) && e.headroom.Fits(member, o) }
	sharesType := func(i int) bool {
		return slices.ContainsFunc(e.snapshot.Places(i, nil), func(l solver.Place) bool { return l.Type == int(r.option.Type) })
	}
	return slices.ContainsFunc(e.optionsOf(r), isMore) || slices.ContainsFunc(e.waitingForBudget, sharesType)
}

// formatNodes formats a number of nodes with their type, if they have one.
func formatNodes(nodes int, nodeType string) string {
	if nodeType == "" {
		return format.Plural(nodes, "node")
	}
	return fmt.Sprintf("%d %s", nodes, shortName(nodeType))
}

// formatChange formats the change to another size: "2 → 4" or, with node types, "2 t4 → 1 a100" and the
// speedup.
func (e *explainer) formatChange(r *reason, to *sizeReason) string {
	a := r.allocation
	if !e.snapshot.Typed() {
		return fmt.Sprintf("%d → %d", a.Nodes, to.Nodes)
	}
	change := formatNodes(a.Nodes, a.NodeType) + " → " + formatNodes(to.Nodes, to.NodeType)
	if to.faster && a.Nodes > 0 {
		change += fmt.Sprintf(", %s times as fast,", formatNumber(e.snapshot.Speed(r.job, to.option)/e.snapshot.Speed(r.job, r.option), 2))
	}
	return change
}

// optionsOf returns the options of a job above 0 that fit the pool, including the options that it cannot have because it
// has used its restart budget.
func (e *explainer) optionsOf(r *reason) []solver.Option {
	if r.admitted < 0 {
		return []solver.Option{r.option}
	}
	var options []solver.Option
	for _, l := range e.snapshot.Places(r.job, nil) {
		options, _ = l.AppendOptions(options, nil, e.problem.Rows)
	}
	return options
}

// uncertainty describes the ETA error of a job, "" if the objective does not use it.
func (e *explainer) uncertainty(r *reason) string {
	if r.job < 0 || !e.options.Spec().UsesETAErrors {
		return ""
	}
	sigma := cmp.Or(e.snapshot.Jobs[r.job].ETAError, e.options.TotalTime.ETAError)
	if sigma == nil || *sigma == 0 {
		return ""
	}
	return fmt.Sprintf(" (its ETA may be wrong by a factor of %s, eta_error %s)",
		formatNumber(math.Exp(*sigma), 2), strconv.FormatFloat(*sigma, 'g', 3, 64))
}

// groupLimited reports whether the limit of a job's group, and not the pool, prevents its next size.
func (e *explainer) groupLimited(r *reason) bool {
	if r.admitted < 0 {
		return false
	}
	admitted := &e.problem.Jobs[r.admitted]
	return len(e.problem.Groups) > 0 && e.headroom.FreeInGroup(admitted.Group) < e.headroom.Idle
}

// sizeLimited reports whether size limits, and not the capacity, prevent a larger size of a job.
func (e *explainer) sizeLimited(r *reason) bool {
	if r.admitted < 0 || len(e.snapshot.SizeLimits) == 0 {
		return false
	}
	member, smallest := e.problem.Jobs[r.admitted].Member, e.problem.MinOption(r.admitted)
	e.headroom.Release(member, smallest)
	defer e.headroom.Allocate(member, smallest)
	for _, l := range e.snapshot.Places(r.job, nil) {
		for _, k := range l.AppendSizes(nil) {
			option := solver.NewOption(l.Type, k)
			if e.isMore(r.job, r.option, option) && k <= e.headroom.FreeOfType(l.Type) && !e.headroom.Fits(member, option) {
				return true
			}
		}
	}
	return false
}

// next returns the larger size of a job with the smallest loss. Sizes with a gain are preferred. It
// returns false if no larger size fits.
func (r *reason) next() (sizeReason, bool) {
	best, found := sizeReason{}, false
	for _, size := range r.sizes {
		if size.faster && (!found || size.gain > 0 && (best.gain <= 0 || size.Loss < best.Loss)) {
			best, found = size, true
		}
	}
	return best, found
}

// preventedByCost returns the size that a job that keeps its nodes would have if changes cost nothing.
// It returns nil if the job would keep its nodes then too.
func (e *explainer) preventedByCost(r *reason) *sizeReason {
	if r.allocation.Change != solver.ChangeKeep {
		return nil
	}
	var best *sizeReason
	for n := range r.sizes {
		size := &r.sizes[n]
		if size.option != r.option && size.change-size.Loss > e.tolerance() &&
			(best == nil || size.change-size.Loss > best.change-best.Loss) {
			best = size
		}
	}
	return best
}

func (e *explainer) waiting(r *reason, smallest int) string {
	a, needed := r.allocation, format.Plural(smallest, "node")
	waits := shortName(a.JobID) + " waits"
	if a.Current > 0 {
		waits = shortName(a.JobID) + " is paused"
	}
	switch a.WaitReason {
	case solver.WaitNeverFits:
		if e.snapshot.Typed() {
			return fmt.Sprintf("%s: it needs at least %s, and no node type on which it runs has as many", waits, needed)
		}
		return fmt.Sprintf("%s: it needs at least %s, and the pool has %d", waits, needed, e.all.TotalNodes)
	case solver.WaitBehind:
		return fmt.Sprintf("%s behind %s, which does not fit", waits, shortName(a.BehindJobID))
	case solver.WaitGroupLimit:
		return fmt.Sprintf("%s: the limit of its group leaves less than %s", waits, needed)
	case solver.WaitSizeLimit:
		return fmt.Sprintf("%s: the size limits leave less than %s", waits, needed)
	case solver.WaitRestartBudget:
		return fmt.Sprintf("%s: %s would fit only if jobs that have used their restart budget were paused", waits, needed)
	case solver.WaitNotWorthIt:
		if next, found := r.next(); found {
			larger := formatNodes(next.Nodes, next.NodeType)
			if next.gain <= e.tolerance() {
				return fmt.Sprintf("%s: %s would bring no benefit", waits, larger)
			}
			return waits + ": " + e.tradeOff(larger, &next)
		}
	}
	fit := "do not fit"
	if smallest == 1 {
		fit = "does not fit"
	}
	return fmt.Sprintf("%s: %s %s in addition to the jobs before it%s", waits, needed, fit, e.largestStarter())
}

// largestStarter describes the job that starts with the largest number of nodes under
// AdmissionStartFirst, which starts jobs at any cost. It returns "" under other admissions.
func (e *explainer) largestStarter() string {
	if e.options.Admission != solver.AdmissionStartFirst {
		return ""
	}
	clause, largest := "", 0
	for i := range e.snapshot.Jobs {
		job, n := &e.snapshot.Jobs[i], e.admitted[i]
		if n < 0 || !job.NeverStarted() || int(e.plan[n][0].Nodes) <= largest {
			continue
		}
		largest = int(e.plan[n][0].Nodes)
		clause = fmt.Sprintf(", mainly because %s starts with %s", shortName(job.ID), format.Plural(largest, "node"))
	}
	return clause
}

func (e *explainer) suggestion(r *reason) string {
	var changes []string
	first := ""
	for n, remedy := range r.remedies {
		gets, more := strings.TrimSpace(strconv.Itoa(remedy.Nodes)+" "+shortName(remedy.NodesType)), ""
		if n == 0 {
			first = gets
		} else if gets != first {
			more = fmt.Sprintf(" (then %s)", gets)
		}
		switch {
		case remedy.Weight > 0:
			changes = append(changes, fmt.Sprintf("weight %s%s", strconv.FormatFloat(remedy.Weight, 'g', -1, 64), more))
		case remedy.MachineNodes > 0:
			changes = append(changes, e.moreMachines(remedy)+more)
		case remedy.NodeType != "":
			changes = append(changes, fmt.Sprintf("%d %s%s (more may not help)", remedy.TotalNodes, shortName(remedy.NodeType), more))
		case remedy.TotalNodes > 0:
			changes = append(changes, fmt.Sprintf("a pool of %d%s (a larger one may not help)", remedy.TotalNodes, more))
		case remedy.MinNodes > 0:
			changes = append(changes, fmt.Sprintf("min_nodes %d%s", remedy.MinNodes, more))
		}
	}
	if len(changes) == 0 {
		return ""
	}
	return fmt.Sprintf("; it would get %s with %s", first, strings.Join(changes, " or "))
}

// moreMachines describes the machines that a remedy adds.
func (e *explainer) moreMachines(remedy solver.Remedy) string {
	now := e.all.TotalNodes
	if remedy.NodeType != "" {
		now = e.all.NodeTypes[e.all.TypeIndex(remedy.NodeType)].Nodes
	}
	machines := "1 more machine"
	if n := (remedy.TotalNodes - now) / remedy.MachineNodes; n > 1 {
		machines = fmt.Sprintf("%d more machines", n)
	}
	if remedy.NodeType != "" {
		machines += " of type " + shortName(remedy.NodeType)
	}
	return fmt.Sprintf("%s of %d", machines, remedy.MachineNodes)
}

// tolerance returns the difference up to which objectives are treated as equal.
func (e *explainer) tolerance() float64 { return solver.OptimalGap * max(1e-12, math.Abs(e.best)) }

// tradeOff describes the gain of a job and the cost for other jobs if the job changes to a size. change
// describes the change.
func (e *explainer) tradeOff(change string, size *sizeReason) string {
	gain, cost := e.formatAmounts(size.gain, size.gain+size.Loss)
	if e.options.Spec().Unit.Format == solver.FormatTime {
		return fmt.Sprintf("%s would save this job %s but delay other jobs by %s", change, gain, cost)
	}
	return fmt.Sprintf("%s would gain %s for this job but cost other jobs %s", change, gain, cost)
}

// formatAmounts formats two values of the objective, with as many digits as are needed to distinguish them.
func (e *explainer) formatAmounts(a, b float64) (string, string) {
	for precision := 2; ; precision++ {
		first, second := e.formatAmount(a, precision), e.formatAmount(b, precision)
		if first != second || precision == 5 {
			return first, second
		}
	}
}

// formatAmount formats a value of the objective with the given number of significant digits.
func (e *explainer) formatAmount(value float64, precision int) string {
	switch unit := e.options.Spec().Unit; unit.Format {
	case solver.FormatTime:
		return formatSeconds(min(value*3600, 1e15), precision) + " per hour"
	case solver.FormatShares:
		horizon := time.Duration(e.problem.Steps) * e.snapshot.Horizon.Step
		return fmt.Sprintf("%s%% of a job over %s",
			formatNumber(100*value/float64(e.problem.Steps), precision), formatSeconds(horizon.Seconds(), 2))
	default:
		return formatNumber(value, precision) + " " + unit.Name
	}
}

// formatNumber formats a number with the given number of significant digits and with all digits before
// the decimal point.
func formatNumber(x float64, precision int) string {
	if math.Abs(x) >= math.Pow10(precision-1) {
		return strconv.FormatFloat(math.Round(x), 'f', 0, 64)
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', precision, 64), 64)
	if err != nil {
		rounded = x
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// formatSeconds formats a duration with the largest unit in which it is at least about one and a half:
// 36 s, 12 min, 4.5 h.
func formatSeconds(seconds float64, precision int) string {
	const minute, hour, day = 60, 3600, 86400
	switch {
	case seconds < 99.5:
		return formatNumber(seconds, precision) + " s"
	case seconds < 99.5*minute:
		return formatNumber(seconds/minute, precision) + " min"
	case seconds < 99.5*hour:
		return formatNumber(seconds/hour, precision) + " h"
	default:
		return formatNumber(seconds/day, precision) + " d"
	}
}

// shortName returns an id, shortened for a sentence.
func shortName(id string) string {
	const maxLength = 60
	short := text.Shorten(id)
	if runes := []rune(short); len(runes) > maxLength {
		short = string(slices.Concat(runes[:maxLength-1], []rune("…")))
	}
	return short
}
