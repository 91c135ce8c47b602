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

// why returns the reason of a job's nodes, and half a sentence about it.
func (e *explainer) why(r *reason) (solver.Why, string) {
	a, pool := r.allocation, e.all.TotalNodes
	nodes := nodesOf(a.Nodes, a.NodeType)
	has, keeps := name(a.JobID)+" has "+nodes, name(a.JobID)+" keeps its "+nodes
	if r.job < 0 {
		return solver.WhyOnlySize, keeps + ", because its data are bad"
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
	fitting := 0 // legal sizes that the pool could hold
	for _, k := range sizes {
		if int(k.Nodes) <= pool {
			fitting++
		}
	}
	switch {
	case !larger && e.sizeLimited(r):
		return solver.WhySizeLimit, has + ", because the size limits leave it no more"
	case len(sizes) == 1 && sizes[0] == r.option:
		return solver.WhyOnlySize, has + ", its only size"
	case e.snapshot.Typed() && !slices.ContainsFunc(sizes, func(k solver.Option) bool { return e.more(r.job, r.option, k) }):
		return solver.WhyLargest, has + ", on which it is as fast as it can be"
	case e.snapshot.Typed(): // Nothing of what follows.
	case a.Nodes >= int(sizes[len(sizes)-1].Nodes):
		return solver.WhyLargest, has + ", its largest size"
	case a.Nodes >= int(sizes[max(0, fitting-1)].Nodes):
		return solver.WhyLargest, fmt.Sprintf("%s, the largest of its sizes that fits the pool of %d", has, pool)
	case !larger && e.limited(r):
		return solver.WhyGroupLimit, has + ", because the limit of its group leaves it no more"
	}
	if !larger {
		return solver.WhyNoRoom, has + ", because no more fit beside what the other jobs must have"
	}
	if kept := e.keptByCost(r); kept != nil {
		if left := e.problem.Jobs[r.admitted].Demand / e.snapshot.Speed(r.job, r.option); left <= job.RestartTime.Seconds() {
			return solver.WhyChangeCost, fmt.Sprintf("%s, because it ends in %s and a restart takes %s",
				keeps, spell(left, 2), spell(job.RestartTime.Seconds(), 2))
		}
		brings, costs := e.amounts(max(0, kept.change-kept.Loss), kept.change)
		return solver.WhyChangeCost, fmt.Sprintf("%s, because %s would bring all jobs %s and the change itself cost %s",
			keeps, e.step(r, kept), brings, costs)
	}
	if next.gain <= e.nothing() {
		return solver.WhyEnough, fmt.Sprintf("%s, because %s would bring it nothing", has, strings.TrimPrefix(e.step(r, &next), strconv.Itoa(a.Nodes)+" → "))
	}
	own, others := e.amounts(next.gain, next.gain+next.Loss)
	price := fmt.Sprintf("%s would bring it %s and cost other jobs %s", e.step(r, &next), own, others)
	admitted := &e.problem.Jobs[r.admitted]
	capacity := e.capacityPrice(next.option)*float64(next.option.Nodes) - e.capacityPrice(r.option)*float64(r.option.Nodes)
	switch limited := next.gain > capacity && e.nodePrice(admitted, next.option) > e.capacityPrice(next.option); {
	case limited && len(e.problem.Groups) > 0:
		return solver.WhyGroupLimit, has + ", because within the limit of its group " + price
	case limited && len(e.snapshot.SizeLimits) > 0:
		return solver.WhySizeLimit, has + ", because within the size limits " + price
	}
	return solver.WhyPricedOut, has + ", because " + price
}

// nodesOf returns a number of nodes with their type, if they have one.
func nodesOf(nodes int, nodeType string) string {
	if nodeType == "" {
		return format.Plural(nodes, "node")
	}
	return fmt.Sprintf("%d %s", nodes, name(nodeType))
}

// step returns the change to another size: 2 → 4 or, of several types, 2 t4 → 1 a100 and how
// many times as fast that would be.
func (e *explainer) step(r *reason, to *sizeReason) string {
	a := r.allocation
	if !e.snapshot.Typed() {
		return fmt.Sprintf("%d → %d", a.Nodes, to.Nodes)
	}
	change := nodesOf(a.Nodes, a.NodeType) + " → " + nodesOf(to.Nodes, to.NodeType)
	if to.faster && a.Nodes > 0 {
		change += fmt.Sprintf(", %s times as fast,", digits(e.snapshot.Speed(r.job, to.option)/e.snapshot.Speed(r.job, r.option), 2))
	}
	return change
}

// optionsOf returns the options of a job above 0 that the pool could hold.
func (e *explainer) optionsOf(r *reason) []solver.Option {
	if r.admitted < 0 {
		return []solver.Option{r.option}
	}
	return slices.DeleteFunc(slices.Clone(e.problem.Jobs[r.admitted].Options), solver.Option.IsZero)
}

// uncertainty says how far a job's ETA may be off where that counts.
func (e *explainer) uncertainty(r *reason) string {
	if r.job < 0 || !e.options.Spec().UsesETAErrors {
		return ""
	}
	off := cmp.Or(e.snapshot.Jobs[r.job].ETAError, e.options.TotalTime.ETAError)
	if off == nil || *off == 0 {
		return ""
	}
	return fmt.Sprintf(" (its ETA is told to be off by a factor of %s, eta_error %s)",
		digits(math.Exp(*off), 2), strconv.FormatFloat(*off, 'g', 3, 64))
}

// limited reports whether it is the limit of a job's group, and not the pool, that leaves no
// room for its next size.
func (e *explainer) limited(r *reason) bool {
	if r.admitted < 0 {
		return false
	}
	admitted := &e.problem.Jobs[r.admitted]
	return len(e.problem.Groups) > 0 && e.room.FreeInGroup(admitted.Group) < e.room.Idle
}

// sizeLimited reports whether size limits, and not the capacity, leave no room for a larger size of a
// job.
func (e *explainer) sizeLimited(r *reason) bool {
	if r.admitted < 0 || len(e.snapshot.SizeLimits) == 0 {
		return false
	}
	member, least := e.problem.Jobs[r.admitted].Member, e.problem.MinOption(r.admitted)
	e.room.Release(member, least)
	defer e.room.Allocate(member, least)
	for _, l := range e.snapshot.Places(r.job, nil) {
		for _, k := range l.AppendSizes(nil) {
			option := solver.NewOption(l.Type, k)
			if e.more(r.job, r.option, option) && k <= e.room.FreeOfType(l.Type) && !e.room.Fits(member, option) {
				return true
			}
		}
	}
	return false
}

// next returns what is known of the next larger size that a job could hold: the one of
// least loss where several bring it something.
func (r *reason) next() (sizeReason, bool) {
	best, found := sizeReason{}, false
	for _, size := range r.sizes {
		if size.faster && (!found || size.gain > 0 && (best.gain <= 0 || size.Loss < best.Loss)) {
			best, found = size, true
		}
	}
	return best, found
}

// keptByCost returns the size that a job which keeps its nodes would have if changing to it
// cost nothing; nil if it would keep them then, too.
func (e *explainer) keptByCost(r *reason) *sizeReason {
	if r.allocation.Change != solver.ChangeKeep {
		return nil
	}
	var kept *sizeReason
	for n := range r.sizes {
		size := &r.sizes[n]
		if size.option != r.option && size.change-size.Loss > e.nothing() &&
			(kept == nil || size.change-size.Loss > kept.change-kept.Loss) {
			kept = size
		}
	}
	return kept
}

func (e *explainer) waiting(r *reason, smallest int) string {
	a, needed := r.allocation, format.Plural(smallest, "node")
	waits := name(a.JobID) + " waits"
	if a.Current > 0 {
		waits = name(a.JobID) + " is paused"
	}
	switch a.WaitReason {
	case solver.WaitNeverFits:
		if e.snapshot.Typed() {
			return fmt.Sprintf("%s, because it needs at least %s and no type that it runs on has as many", waits, needed)
		}
		return fmt.Sprintf("%s, because it needs at least %s and the pool has %d", waits, needed, e.all.TotalNodes)
	case solver.WaitBehind:
		return fmt.Sprintf("%s behind %s, which has no room", waits, name(a.BehindJobID))
	case solver.WaitGroupLimit:
		return fmt.Sprintf("%s, because the limit of its group leaves it less than %s", waits, needed)
	case solver.WaitSizeLimit:
		return fmt.Sprintf("%s, because the size limits leave it less than %s", waits, needed)
	case solver.WaitNotWorthIt:
		if next, found := r.next(); found {
			larger := nodesOf(next.Nodes, next.NodeType)
			if next.gain <= e.nothing() {
				return fmt.Sprintf("%s, because %s would bring it nothing", waits, larger)
			}
			own, others := e.amounts(next.gain, next.gain+next.Loss)
			return fmt.Sprintf("%s, because %s would bring it %s and cost other jobs %s", waits, larger, own, others)
		}
	}
	fit := "do not fit"
	if smallest == 1 {
		fit = "does not fit"
	}
	return fmt.Sprintf("%s, because %s %s beside what goes before it%s", waits, needed, fit, e.largestStart())
}

// largestStart names the job that starts with the most nodes where the admission starts jobs
// at any price, and "" elsewhere.
func (e *explainer) largestStart() string {
	if e.options.Admission != solver.AdmissionStartFirst {
		return ""
	}
	largest, most := "", 0
	for i := range e.snapshot.Jobs {
		job, n := &e.snapshot.Jobs[i], e.admitted[i]
		if n < 0 || !job.NeverStarted() || int(e.plan[n][0].Nodes) <= most {
			continue
		}
		most = int(e.plan[n][0].Nodes)
		largest = fmt.Sprintf(", above all the %s that %s starts with", format.Plural(most, "node"), name(job.ID))
	}
	return largest
}

func (e *explainer) suggestion(r *reason) string {
	var ways []string
	first := ""
	for n, remedy := range r.remedies {
		gets, more := strings.TrimSpace(strconv.Itoa(remedy.Nodes)+" "+name(remedy.NodesType)), ""
		if n == 0 {
			first = gets
		} else if gets != first {
			more = fmt.Sprintf(" (then %s)", gets)
		}
		switch {
		case remedy.Weight > 0:
			ways = append(ways, fmt.Sprintf("weight %s%s", strconv.FormatFloat(remedy.Weight, 'g', -1, 64), more))
		case remedy.NodeType != "":
			ways = append(ways, fmt.Sprintf("%d %s%s (more may not do)", remedy.TotalNodes, name(remedy.NodeType), more))
		case remedy.TotalNodes > 0:
			ways = append(ways, fmt.Sprintf("a pool of %d%s (a larger one may not do)", remedy.TotalNodes, more))
		case remedy.MinNodes > 0:
			ways = append(ways, fmt.Sprintf("min_nodes %d%s", remedy.MinNodes, more))
		}
	}
	if len(ways) == 0 {
		return ""
	}
	return fmt.Sprintf("; it would get %s with %s", first, strings.Join(ways, " or "))
}

// nothing is a difference of objectives that does not count.
func (e *explainer) nothing() float64 { return solver.OptimalGap * max(1e-12, math.Abs(e.best)) }

// amounts returns two parts of the objective in words, with as many digits as it takes to
// tell them apart.
func (e *explainer) amounts(a, b float64) (string, string) {
	for precision := 2; ; precision++ {
		first, second := e.amount(a, precision), e.amount(b, precision)
		if first != second || precision == 5 {
			return first, second
		}
	}
}

// amount returns a part of the objective in words, to this number of significant digits.
func (e *explainer) amount(value float64, precision int) string {
	switch unit := e.options.Spec().Unit; unit.Format {
	case solver.FormatTime:
		return spell(min(value*3600, 1e15), precision) + " an hour"
	case solver.FormatShares:
		horizon := time.Duration(e.problem.Steps) * e.snapshot.Horizon.Step
		return fmt.Sprintf("%s %% of a job over %s", digits(100*value/float64(e.problem.Steps), precision), spell(horizon.Seconds(), 2))
	default:
		return digits(value, precision) + " " + unit.Name
	}
}

// digits returns a number to this precision in significant digits, with all of those before the
// point.
func digits(x float64, precision int) string {
	if math.Abs(x) >= math.Pow10(precision-1) {
		return strconv.FormatFloat(math.Round(x), 'f', 0, 64)
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', precision, 64), 64)
	if err != nil {
		rounded = x
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// spell returns a time in seconds with a unit that leaves it below a hundred or so: 36 s,
// 12 min, 4.5 h.
func spell(seconds float64, precision int) string {
	const minute, hour, day = 60, 3600, 86400
	switch {
	case seconds < 99.5:
		return digits(seconds, precision) + " s"
	case seconds < 99.5*minute:
		return digits(seconds/minute, precision) + " min"
	case seconds < 99.5*hour:
		return digits(seconds/hour, precision) + " h"
	default:
		return digits(seconds/day, precision) + " d"
	}
}

// name returns the id of a job for a sentence.
func name(id string) string {
	const longest = 60
	short := text.Shorten(id)
	if runes := []rune(short); len(runes) > longest {
		short = string(slices.Concat(runes[:longest-1], []rune("…")))
	}
	return short
}
