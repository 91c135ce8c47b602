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

// The label that opts a job in, and the annotations that the controller reads and writes.
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

	TargetAnnotation     = Prefix + "target"
	TargetTypeAnnotation = Prefix + "target-type"
	DecisionAnnotation   = Prefix + "decision"
)

// Limits of the elastalloc API, and defaults of annotations.
const (
	maxSizes         = 32
	maxSpeed         = 1e9
	maxWeight        = 1e12
	maxDuration      = 100 * 365 * 24 * time.Hour
	defaultMaxNodes  = 16
	defaultEfficient = 0.8
)

// JobAnnotations are the parsed annotations of a job.
type JobAnnotations struct {
	// Work is the run time of the whole job on one node, and Remaining the run time that is left. Both are
	// 0 if unknown.
	Work, Remaining time.Duration
	Progress        *float64 // completed fraction of the work, nil if unknown
	// Sizes are the legal sizes in ascending order. The default is the powers of two between the limits of
	// the job.
	Sizes []int
	// Speeds are the speeds at Sizes relative to one node, or nil. Efficiency is the fraction of the ideal
	// speedup that each doubling of the nodes keeps, 0 if not set. At most one of the two is set.
	Speeds     []float64
	Efficiency float64
	// TypeSpeeds are the speeds at Sizes on node types, relative to the reference node, by the name of the type. The job
	// can run only on these types. nil means all types that the pod template allows, with SpeedOfType.
	TypeSpeeds map[string][]float64
	// SpeedOfType are the speeds of the node types of the pool; ParseAnnotations leaves it at nil.
	SpeedOfType map[string]float64
	// PerPod is the number by which each pod counts in Sizes; ParseAnnotations leaves it at 0, which means 1.
	// Speeds and times are relative to one pod.
	PerPod  int
	Restart time.Duration // training time that a resize costs; defaults to the pool's
	Weight  float64       // weight in the objective; defaults to 1
	Paused  bool
}

// ParseAnnotations parses the annotations of a job. The job limits its size to least and most nodes, where
// 0 means unlimited, and to multiples of a number. The error names all invalid annotations.
func ParseAnnotations(annotations map[string]string, least, most, multiple int) (JobAnnotations, error) {
	r := &reader{annotations: annotations}
	w := JobAnnotations{
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
	if strings.Contains(annotations[SpeedsAnnotation], "=") {
		w.TypeSpeeds = r.typeSpeeds(len(w.Sizes))
	} else {
		w.Speeds = r.speeds(annotations[SpeedsAnnotation], len(w.Sizes))
	}
	if _, both := annotations[EfficiencyAnnotation]; both && (w.Speeds != nil || w.TypeSpeeds != nil) {
		r.bad(EfficiencyAnnotation, "is set together with %s; only one of them must be set", SpeedsAnnotation)
	}
	r.unknown()
	if len(r.problems) > 0 {
		return w, fmt.Errorf("bad annotations: %s", strings.Join(r.problems, "; "))
	}
	return w, nil
}

// inUnits converts the sizes from pods to units, of which each pod requests perPod.
func (w *JobAnnotations) inUnits(perPod int) {
	w.PerPod = perPod
	for i := range w.Sizes {
		w.Sizes[i] *= perPod
	}
}

// reader parses annotations and collects errors.
type reader struct {
	annotations map[string]string
	problems    []string
}

func (r *reader) bad(name, format string, args ...any) {
	r.problems = append(r.problems, name+": "+fmt.Sprintf(format, args...))
}

// unknown reports annotations with the prefix that do not exist, which are probably typos.
func (r *reader) unknown() {
	known := []string{
		WorkAnnotation, RemainingAnnotation, ProgressAnnotation, NodesAnnotation, SpeedsAnnotation,
		EfficiencyAnnotation, RestartAnnotation, WeightAnnotation, PausedAnnotation,
	}
	for _, name := range slices.Sorted(maps.Keys(r.annotations)) {
		written := name == TargetAnnotation || name == TargetTypeAnnotation || name == DecisionAnnotation
		if strings.HasPrefix(name, Prefix) && !written && !slices.Contains(known, name) {
			r.bad(name, "is unknown; must be one of %s", strings.Join(known, ", "))
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
		r.bad(name, "is %q; must be a duration of at least %v, such as 36h or 90s", text, least)
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
		r.bad(name, "is %q; must be a number from %.3g to %.3g", text, least, most)
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
		r.bad(name, "is %q; must be true or false", text)
		return true // An invalid value pauses the job, because its user meant to set it.
	}
	return b
}

// sizes parses the legal sizes: a list, or a range that stands for its powers of two.
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
		// The powers of two apply to the number of multiples.
		for _, n := range powersOfTwo((low+multiple-1)/multiple, high/multiple) {
			sizes = append(sizes, n*multiple)
		}
	case strings.Contains(text, "-"):
		from, to, _ := strings.Cut(text, "-")
		a, errA := strconv.Atoi(strings.TrimSpace(from))
		b, errB := strconv.Atoi(strings.TrimSpace(to))
		if errA != nil || errB != nil || a < 1 || b < a || b > kinds.MaxSize {
			r.bad(NodesAnnotation, "is %q; must be a range such as 1-16 or a list such as 1,2,4,8", text)
			return nil
		}
		sizes = powersOfTwo(a, b)
		if len(sizes) == 0 {
			r.bad(NodesAnnotation, "is %q, which contains no power of two; must be a list of sizes", text)
			return nil
		}
	default:
		for entry := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(entry))
			if err != nil || n < 1 || n > kinds.MaxSize {
				r.bad(NodesAnnotation, "is %q; must be a range such as 1-16 or a list such as 1,2,4,8", text)
				return nil
			}
			sizes = append(sizes, n)
		}
		if !slices.IsSorted(sizes) || len(slices.Compact(slices.Clone(sizes))) < len(sizes) || len(sizes) > maxSizes {
			r.bad(NodesAnnotation, "is %q; must be at most %d distinct sizes in ascending order", text, maxSizes)
			return nil
		}
	}
	for _, n := range sizes {
		if found && (n < least || most > 0 && n > most || n%multiple != 0) {
			r.bad(NodesAnnotation, "allows %d nodes, but the job must have a multiple of %d nodes from %d%s",
				n, multiple, max(least, multiple), upTo(most))
			return nil
		}
	}
	legal := slices.DeleteFunc(sizes, func(n int) bool { return n%multiple != 0 })
	if len(legal) == 0 {
		r.bad(NodesAnnotation, "is unset; must be set because no power of two is within the limits of the job")
	}
	return legal
}

func upTo(most int) string {
	if most == 0 {
		return ""
	}
	return fmt.Sprintf(" to %d", most)
}

// typeSpeeds parses speeds on several node types, such as a100=1,1.8; h100=2.2,4.
func (r *reader) typeSpeeds(sizes int) map[string][]float64 {
	text := r.annotations[SpeedsAnnotation]
	byType := make(map[string][]float64)
	for entry := range strings.SplitSeq(text, ";") {
		name, list, found := strings.Cut(entry, "=")
		name = strings.TrimSpace(name)
		if _, twice := byType[name]; !found || name == "" || twice {
			r.bad(SpeedsAnnotation, "is %q; must list each node type once, such as a100=1,1.8; h100=2.2,4", text)
			return nil
		}
		if byType[name] = r.speeds(list, sizes); byType[name] == nil {
			return nil
		}
	}
	return byType
}

// speeds parses a list of speeds, nil for an empty one.
func (r *reader) speeds(list string, sizes int) []float64 {
	if _, found := r.annotations[SpeedsAnnotation]; !found {
		return nil
	}
	var speeds []float64
	for entry := range strings.SplitSeq(list, ",") {
		speed, err := strconv.ParseFloat(strings.TrimSpace(entry), 64)
		if err != nil || !(speed > 0 && speed <= maxSpeed) {
			r.bad(SpeedsAnnotation, "is %q; must be a list of speeds relative to one node such as 1,1.8,3.1", r.annotations[SpeedsAnnotation])
			return nil
		}
		speeds = append(speeds, speed)
	}
	if sizes > 0 && len(speeds) != sizes {
		r.bad(SpeedsAnnotation, "has %d speeds; must have one for each of the %d legal sizes", len(speeds), sizes)
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

// Speed returns the speed of the job at a size relative to one pod, on nodes of the reference type. Between two listed
// sizes it interpolates linearly on a log-log scale. Outside the list it returns the speed at the nearest size. The API
// defines tables of speeds in the same way.
func (w *JobAnnotations) Speed(nodes int) float64 {
	switch {
	case nodes <= 0:
		return 0
	case w.Speeds == nil:
		return eta.Speed(nodes/max(1, w.PerPod), cmp.Or(w.Efficiency, defaultEfficient))
	}
	return w.interpolate(w.Speeds, nodes)
}

// SpeedOn returns the speed of the job like Speed, on nodes of a type of the pool.
func (w *JobAnnotations) SpeedOn(nodes int, nodeType string) float64 {
	if speeds := w.TypeSpeeds[nodeType]; speeds != nil && nodes > 0 {
		return w.interpolate(speeds, nodes)
	}
	return w.Speed(nodes) * cmp.Or(w.SpeedOfType[nodeType], 1)
}

// interpolate returns the speed at a size from the speeds at Sizes.
func (w *JobAnnotations) interpolate(speeds []float64, nodes int) float64 {
	i, exact := slices.BinarySearch(w.Sizes, nodes)
	switch {
	case exact:
		return speeds[i]
	case i == 0:
		return speeds[0]
	case i == len(w.Sizes):
		return speeds[i-1]
	}
	position := math.Log(float64(nodes)/float64(w.Sizes[i-1])) / math.Log(float64(w.Sizes[i])/float64(w.Sizes[i-1]))
	return speeds[i-1] * math.Pow(speeds[i]/speeds[i-1], position)
}
