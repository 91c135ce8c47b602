package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"
)

// SyntheticKind is a kind of synthetic workload.
type SyntheticKind string

// The kinds of synthetic workloads.
const (
	// Baseline is the paper's baseline: the 447 jobs of 5 minutes and more.
	Baseline SyntheticKind = "baseline"
	// Heterogeneous is all 1,252 jobs.
	Heterogeneous SyntheticKind = "heterogeneous"
)

// What the paper says of its workload (section "Simulation Setup"): "There were
// 1252 jobs submitted from January 24, 2021 14:25:41 to January 26, 2021 16:07:19
// … 447 of them spent training time of >= 5 minutes … training time is 232.6
// minutes"; with 84.3 minutes for all, the other 805 average 1.95.
const (
	longJobs      = 447
	shortJobs     = 805
	longMean      = 13956 * time.Second // 232.6 min
	shortMean     = 117 * time.Second   // 1.95 min
	longest       = 5 * time.Minute     // of a short job; the shortest of a long one
	syntheticSpan = 49*time.Hour + 41*time.Minute + 38*time.Second
	timeOfDay     = 14*time.Hour + 25*time.Minute + 41*time.Second // of the first submission
)

// What the paper does not say, and what we take.
const (
	// logDeviation is the standard deviation of the logarithm of long durations:
	// public traces of such clusters have 1.4 to 1.8 (docs/reference/traces.md).
	logDeviation = 1.5
	// Submissions are a wave that is 4 times as high at 3 pm as at 3 am.
	busiest  = 15 * time.Hour
	dayNight = 0.6
	// users is the number of users, that of Helios Venus in such a span. The n-th submits
	// 1/n of what the first does, which is roughly the spread there.
	users = 35
	// nodesAsked is the number of nodes that every job is said to have run on, so that
	// its demand is its duration times the speed on those. The paper does not say on how
	// many its 232.6 minutes were measured; this is the one free parameter of the
	// synthetic workload: its load.
	//
	// It is calibrated on what the paper says of its pools, 70 to 190 nodes, never
	// on what a policy achieves there. At the scarce end "the number of training
	// jobs equals node size" and each has one node; at the ample end all jobs get
	// "as many nodes as possible", 16. So let every job run from its submission in
	// a pool without end. Over the span and ten seeds, baseline, that keeps busy:
	//
	//	nodes asked                           1     2     4     8    16
	//	one node per job, mean of the span   26    38    53    73    95
	//	one node per job, busiest moment     49    66    89   119   156
	//	16 nodes per job, mean of the span   79   123   189   283   421
	//
	// With 4, the ample end is at the paper's, and the scarce end, 70, lies between
	// the mean and the busiest moment. No other size fits both.
	nodesAsked = 4
)

// Synthetic draws a synthetic workload as a trace on nodes of DefaultGPUsPerNode:
// the paper's counts and span exactly, its mean durations to a second. Durations
// have a heavy tail, submissions follow day and night, and both kinds of one seed
// have the same long jobs at the same times.
func Synthetic(kind SyntheticKind, seed uint64) (Trace, error) {
	if kind != Baseline && kind != Heterogeneous {
		return nil, fmt.Errorf("unknown synthetic workload %q (want %s or %s)", kind, Baseline, Heterogeneous)
	}
	// Each property has a stream of its own, so that the kinds agree.
	stream := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
	trace := make(Trace, 0, longJobs+shortJobs)
	add := func(prefix string, durations, submissions []time.Duration, user func() string) {
		for i, duration := range durations {
			trace = append(trace, TraceJob{
				ID:       fmt.Sprintf("%s-%03d", prefix, i+1),
				Submit:   submissions[i],
				Duration: duration,
				GPUs:     nodesAsked * DefaultGPUsPerNode,
				User:     user(),
			})
		}
	}
	submissions := drawSubmissions(stream(1), longJobs)
	// Both kinds span what the paper's workload spans.
	submissions[0], submissions[longJobs-1] = 0, syntheticSpan
	add("long", longDurations(stream(0)), submissions, drawUsers(stream(4)))
	if kind == Heterogeneous {
		add("short", shortDurations(stream(2)), drawSubmissions(stream(3), shortJobs), drawUsers(stream(5)))
	}
	sort.SliceStable(trace, func(a, b int) bool { return trace[a].Submit < trace[b].Submit })
	return trace, nil
}

// longDurations draws the durations of the long jobs: 5 minutes and a lognormal
// number of seconds on top, scaled to the mean.
func longDurations(random *rand.Rand) []time.Duration {
	above := make([]float64, longJobs)
	sum := 0.0
	for i := range above {
		above[i] = math.Exp(logDeviation * random.NormFloat64())
		sum += above[i]
	}
	factor := longJobs * (longMean - longest).Seconds() / sum
	durations := make([]time.Duration, longJobs)
	for i := range durations {
		durations[i] = longest + scale(time.Second, math.Round(factor*above[i]))
	}
	return durations
}

// shortDurations draws the durations of the short jobs: a share of 5 minutes,
// raised to the power that gives the mean, since u^c has the mean 1/(c+1).
func shortDurations(random *rand.Rand) []time.Duration {
	shares := make([]float64, shortJobs)
	for i := range shares {
		// One draw out of every 805th of the range: the sample's mean is then that
		// of the distribution.
		shares[i] = (float64(i) + random.Float64()) / shortJobs
	}
	random.Shuffle(shortJobs, func(a, b int) { shares[a], shares[b] = shares[b], shares[a] })
	power := longest.Seconds()/shortMean.Seconds() - 1
	durations := make([]time.Duration, shortJobs)
	for i := range durations {
		seconds := math.Round(longest.Seconds() * math.Pow(shares[i], power))
		durations[i] = min(max(time.Second, scale(time.Second, seconds)), longest-time.Second)
	}
	return durations
}

// drawUsers draws the users of one job after the other.
func drawUsers(random *rand.Rand) func() string {
	var below [users]float64 // the shares of users up to each
	sum := 0.0
	for n := range below {
		sum += 1 / float64(n+1)
		below[n] = sum
	}
	return func() string {
		lot := random.Float64() * sum
		return fmt.Sprintf("user-%d", 1+sort.Search(users-1, func(n int) bool { return lot < below[n] }))
	}
}

// drawSubmissions draws times of submission, ascending, in whole seconds.
func drawSubmissions(random *rand.Rand, jobs int) []time.Duration {
	submissions := make([]time.Duration, jobs)
	for i := range submissions {
		// By rejection: a time counts as often as the wave is high.
		for {
			at := time.Duration(random.Int64N(int64(syntheticSpan/time.Second)+1)) * time.Second
			angle := 2 * math.Pi * (timeOfDay + at - busiest).Hours() / 24
			if random.Float64()*(1+dayNight) < 1+dayNight*math.Cos(angle) {
				submissions[i] = at
				break
			}
		}
	}
	slices.Sort(submissions)
	return submissions
}
