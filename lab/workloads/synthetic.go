package workloads

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"github.com/elastalloc/elastalloc/sim"
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

// Workload parameters from section "Simulation Setup" of the paper: "There were
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

// Workload parameters that the paper does not give.
const (
	// logDeviation is the standard deviation of the logarithm of long durations:
	// public traces of such clusters have 1.4 to 1.8 (docs/reference/traces.md).
	logDeviation = 1.5
	// Submissions are a wave that is 4 times as high at 3 pm as at 3 am.
	busiest  = 15 * time.Hour
	dayNight = 0.6
	// users is the number of users, as in a span of the same length of Helios Venus. The n-th user
	// submits 1/n as many jobs as the first, which is roughly the distribution there.
	users = 35
	// requestedNodes is the number of requested nodes of every job. The demand of a job is its
	// duration times its speed on these nodes. The paper does not give the number of nodes for which
	// its 232.6 minutes were measured, so this number is the one free parameter of the synthetic
	// workload. It determines the load.
	//
	// The number is calibrated on the pools in the paper, 70 to 190 nodes, and not on results of a
	// policy. In the smallest pool, "the number of training jobs equals node size" and each job has one
	// node. In the largest pool, all jobs get "as many nodes as possible", 16. The table shows the mean
	// number of busy nodes if every job of the baseline runs from its submission in an unlimited pool,
	// over ten seeds:
	//
	//	requested nodes                       1     2     4     8    16
	//	one node per job, mean of the span   26    38    53    73    95
	//	one node per job, busiest time       49    66    89   119   156
	//	16 nodes per job, mean of the span   79   123   189   283   421
	//
	// With 4, the largest pool matches the paper, and the smallest pool, 70, lies between the mean and
	// the busiest time. No other size fits both.
	requestedNodes = 4
)

// Synthetic generates a synthetic workload as a trace for nodes with sim.DefaultGPUsPerNode. The numbers of
// jobs and the span are exactly as in the paper, the mean durations to 1 s. Durations have a heavy tail,
// and the rate of submissions depends on the time of day. Both kinds have the same long jobs at the same
// times for the same seed.
func Synthetic(kind SyntheticKind, seed uint64) (sim.Trace, error) {
	if kind != Baseline && kind != Heterogeneous {
		return nil, fmt.Errorf("unknown synthetic workload %q (must be %s or %s)", kind, Baseline, Heterogeneous)
	}
	// Each property has its own random stream, so that both kinds have the same long jobs.
	stream := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
	trace := make(sim.Trace, 0, longJobs+shortJobs)
	add := func(prefix string, durations, submissions []time.Duration, user func() string) {
		for i, duration := range durations {
			trace = append(trace, sim.TraceJob{
				ID:       fmt.Sprintf("%s-%03d", prefix, i+1),
				Submit:   submissions[i],
				Duration: duration,
				GPUs:     requestedNodes * sim.DefaultGPUsPerNode,
				User:     user(),
			})
		}
	}
	submissions := sampleSubmissions(stream(1), longJobs)
	// Both kinds have the span of the workload in the paper.
	submissions[0], submissions[longJobs-1] = 0, syntheticSpan
	add("long", longDurations(stream(0)), submissions, sampleUsers(stream(4)))
	if kind == Heterogeneous {
		add("short", shortDurations(stream(2)), sampleSubmissions(stream(3), shortJobs), sampleUsers(stream(5)))
	}
	sort.SliceStable(trace, func(a, b int) bool { return trace[a].Submit < trace[b].Submit })
	return trace, nil
}

// longDurations returns random durations of the long jobs: 5 minutes plus a log-normal number of
// seconds, scaled to the mean.
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
		durations[i] = longest + sim.Scale(time.Second, math.Round(factor*above[i]))
	}
	return durations
}

// shortDurations returns random durations of the short jobs: 5 minutes times u^c with a uniform u. The
// exponent c follows from the mean 1/(c+1) of u^c.
func shortDurations(random *rand.Rand) []time.Duration {
	shares := make([]float64, shortJobs)
	for i := range shares {
		// Stratified sampling makes the sample mean equal to the mean of the distribution.
		shares[i] = (float64(i) + random.Float64()) / shortJobs
	}
	random.Shuffle(shortJobs, func(a, b int) { shares[a], shares[b] = shares[b], shares[a] })
	power := longest.Seconds()/shortMean.Seconds() - 1
	durations := make([]time.Duration, shortJobs)
	for i := range durations {
		seconds := math.Round(longest.Seconds() * math.Pow(shares[i], power))
		durations[i] = min(max(time.Second, sim.Scale(time.Second, seconds)), longest-time.Second)
	}
	return durations
}

// sampleUsers returns a function that returns the random user of the next job.
func sampleUsers(random *rand.Rand) func() string {
	var below [users]float64 // cumulative shares of users
	sum := 0.0
	for n := range below {
		sum += 1 / float64(n+1)
		below[n] = sum
	}
	return func() string {
		u := random.Float64() * sum
		return fmt.Sprintf("user-%d", 1+sort.Search(users-1, func(n int) bool { return u < below[n] }))
	}
}

// sampleSubmissions returns random submission times in ascending order, in whole seconds.
func sampleSubmissions(random *rand.Rand, jobs int) []time.Duration {
	submissions := make([]time.Duration, jobs)
	for i := range submissions {
		// Rejection sampling of the daily wave.
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
