package world

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/kube/kinds"
)

// The label that opts a job in, and the annotations that are read and written.
const (
	Prefix    = "elastalloc.dev/"
	PoolLabel = Prefix + "pool"

	WorkAnnotation       = Prefix + "work"
	RemainingAnnotation  = Prefix + "remaining"
	ProgressAnnotation   = Prefix + "progress"
	NodesAnnotation      = Prefix + "nodes"
	SpeedsAnnotation     = Prefix + "speeds"
	EfficiencyAnnotation = Prefix + "doubling-efficiency"
	RestartAnnotation    = Prefix + "restart"
	WeightAnnotation     = Prefix + "weight"
	PausedAnnotation     = Prefix + "paused"

	TargetAnnotation   = Prefix + "target"
	DecisionAnnotation = Prefix + "decision"
)

// What the API takes.
const (
	maxSizes         = 32
	maxSpeed         = 1e9
	maxWeight        = 1e12
	maxDuration      = 100 * 365 * 24 * time.Hour
	defaultMaxNodes  = 16
	defaultEfficient = 0.8
)

// Wishes are what the annotations of a job say.
type Wishes struct {
	// Work is its whole run time on one node, Remaining what is left of it; 0 is unknown.
	Work, Remaining time.Duration
	Progress        *float64 // the share that is done, nil if it is not known
	// Sizes are the legal sizes, ascending; nil means the powers of two between the limits
	// of its kind.
	Sizes []int
	// Speeds are the speeds of Sizes relative to one node, or nil; Efficiency is then the
	// share of the ideal gain that each doubling keeps, 0 where it is not declared.
	Speeds     []float64
	Efficiency float64
	Restart    time.Duration // what a change of size costs; without the annotation it is the pool's
	Weight     float64
	Paused     bool
}

// ParseWishes reads the annotations of a job whose size its kind limits to least and most
// (0 means unlimited) and multiples of a number. The error names every bad annotation.
func ParseWishes(annotations map[string]string, least, most, multiple int) (Wishes, error) {
	r := &reader{annotations: annotations}
	w := Wishes{
		Work:       r.duration(WorkAnnotation, time.Second),
		Remaining:  r.duration(RemainingAnnotation, time.Second),
		Restart:    r.duration(RestartAnnotation, 0),
		Weight:     r.number(WeightAnnotation, 1, 0, maxWeight),
		Efficiency: r.number(EfficiencyAnnotation, 0, 0.01, 1),
		Paused:     r.boolean(PausedAnnotation),
	}
	if progress := r.number(ProgressAnnotation, -1, 0, 1); progress >= 0 {
		w.Progress = &progress
	}
	w.Sizes = r.sizes(least, most, multiple)
	w.Speeds = r.speeds(len(w.Sizes))
	if _, both := annotations[EfficiencyAnnotation]; both && w.Speeds != nil {
		r.bad(EfficiencyAnnotation, "is there beside %s; want one of them", SpeedsAnnotation)
	}
	r.unknown()
	if len(r.problems) > 0 {
		return w, fmt.Errorf("bad annotations: %s", strings.Join(r.problems, "; "))
	}
	return w, nil
}

// reader reads annotations and gathers what is wrong with them.
type reader struct {
	annotations map[string]string
	problems    []string
}

func (r *reader) bad(name, format string, args ...any) {
	r.problems = append(r.problems, name+" "+fmt.Sprintf(format, args...))
}

// unknown reports annotations of our prefix that nothing reads: likely typos.
func (r *reader) unknown() {
	known := []string{
		WorkAnnotation, RemainingAnnotation, ProgressAnnotation, NodesAnnotation, SpeedsAnnotation,
		EfficiencyAnnotation, RestartAnnotation, WeightAnnotation, PausedAnnotation,
	}
	for _, name := range slices.Sorted(maps.Keys(r.annotations)) {
		if strings.HasPrefix(name, Prefix) && name != TargetAnnotation && name != DecisionAnnotation && !slices.Contains(known, name) {
			r.bad(name, "is unknown; want one of %s", strings.Join(known, ", "))
		}
	}
}

func (r *reader) duration(name string, least time.Duration) time.Duration {
	text, found := r.annotations[name]
	if !found {
		return 0
	}
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil || d < least || d > maxDuration {
		r.bad(name, "is %q; want a duration such as 36h or 90s, at least %v", text, least)
		return 0
	}
	return d
}

func (r *reader) number(name string, otherwise, least, most float64) float64 {
	text, found := r.annotations[name]
	if !found {
		return otherwise
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(n >= least && n <= most) {
		r.bad(name, "is %q; want a number from %.3g to %.3g", text, least, most)
		return otherwise
	}
	return n
}

func (r *reader) boolean(name string) bool {
	text, found := r.annotations[name]
	if !found {
		return false
	}
	b, err := strconv.ParseBool(strings.TrimSpace(text))
	if err != nil {
		r.bad(name, "is %q; want true or false", text)
		return true // Who writes this wants to be left alone.
	}
	return b
}

// sizes reads the legal sizes: a list, or the powers of two within a range.
func (r *reader) sizes(least, most, multiple int) []int {
	text, found := r.annotations[NodesAnnotation]
	low, high := max(1, least), most
	if high == 0 {
		high = max(low, multiple, defaultMaxNodes)
	}
	high = min(high, kinds.MaxSize)
	var sizes []int
	switch {
	case !found:
		// Of each of its parts, where it grows by several nodes at once.
		for _, n := range powersOfTwo((low+multiple-1)/multiple, high/multiple) {
			sizes = append(sizes, n*multiple)
		}
	case strings.Contains(text, "-"):
		from, to, _ := strings.Cut(text, "-")
		a, errA := strconv.Atoi(strings.TrimSpace(from))
		b, errB := strconv.Atoi(strings.TrimSpace(to))
		if errA != nil || errB != nil || a < 1 || b < a || b > kinds.MaxSize {
			r.bad(NodesAnnotation, "is %q; want a range such as 1-16 or a list such as 1,2,4,8", text)
			return nil
		}
		sizes = powersOfTwo(a, b)
		if len(sizes) == 0 {
			r.bad(NodesAnnotation, "is %q, which holds no power of two; list the sizes", text)
			return nil
		}
	default:
		for entry := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(entry))
			if err != nil || n < 1 || n > kinds.MaxSize {
				r.bad(NodesAnnotation, "is %q; want a range such as 1-16 or a list such as 1,2,4,8", text)
				return nil
			}
			sizes = append(sizes, n)
		}
		if !slices.IsSorted(sizes) || len(slices.Compact(slices.Clone(sizes))) < len(sizes) || len(sizes) > maxSizes {
			r.bad(NodesAnnotation, "is %q; want at most %d sizes, ascending and each once", text, maxSizes)
			return nil
		}
	}
	for _, n := range sizes {
		if found && (n < least || most > 0 && n > most || n%multiple != 0) {
			r.bad(NodesAnnotation, "allows %d, which the job itself does not: it allows multiples of %d from %d%s",
				n, multiple, max(least, multiple), upTo(most))
			return nil
		}
	}
	legal := slices.DeleteFunc(sizes, func(n int) bool { return n%multiple != 0 })
	if len(legal) == 0 {
		r.bad(NodesAnnotation, "is missing, and no power of two is within the limits of the job")
	}
	return legal
}

func upTo(most int) string {
	if most == 0 {
		return ""
	}
	return fmt.Sprintf(" to %d", most)
}

func (r *reader) speeds(sizes int) []float64 {
	text, found := r.annotations[SpeedsAnnotation]
	if !found {
		return nil
	}
	var speeds []float64
	for entry := range strings.SplitSeq(text, ",") {
		speed, err := strconv.ParseFloat(strings.TrimSpace(entry), 64)
		if err != nil || !(speed > 0 && speed <= maxSpeed) {
			r.bad(SpeedsAnnotation, "is %q; want a list of speeds relative to one node such as 1,1.8,3.1", text)
			return nil
		}
		speeds = append(speeds, speed)
	}
	if sizes > 0 && len(speeds) != sizes {
		r.bad(SpeedsAnnotation, "has %d speeds for %d legal sizes", len(speeds), sizes)
		return nil
	}
	return speeds
}

// powersOfTwo returns the powers of two from low to high.
func powersOfTwo(low, high int) []int {
	var sizes []int
	for n := 1; n <= high; n *= 2 {
		if n >= low {
			sizes = append(sizes, n)
		}
	}
	return sizes
}

// Speed returns the speed of the job on the given nodes relative to one node. Between two
// sizes of a table it follows a straight line of logarithms, and beyond its ends it is that
// of the nearest end, as in the API.
func (w *Wishes) Speed(nodes int) float64 {
	if nodes <= 0 {
		return 0
	}
	if w.Speeds == nil {
		return eta.Speed(nodes, cmp.Or(w.Efficiency, defaultEfficient))
	}
	i, exact := slices.BinarySearch(w.Sizes, nodes)
	switch {
	case exact:
		return w.Speeds[i]
	case i == 0:
		return w.Speeds[0]
	case i == len(w.Sizes):
		return w.Speeds[i-1]
	}
	position := math.Log(float64(nodes)/float64(w.Sizes[i-1])) / math.Log(float64(w.Sizes[i])/float64(w.Sizes[i-1]))
	return w.Speeds[i-1] * math.Pow(w.Speeds[i]/w.Speeds[i-1], position)
}
