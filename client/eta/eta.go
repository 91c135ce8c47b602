// Package eta makes the remaining ETAs of a snapshot, and says how far off they may be, of
// what a scheduler has: the steps that a job reports, what its user told, the work it has
// done, and what the jobs before it took. docs/schedulers/estimate-remaining-time.md says what each is worth.
//
// Work is counted in run time on one node: on k nodes a job does Speed(k) seconds of it a
// second, and nothing while it restarts.
package eta

import (
	"math"
	"slices"
	"sort"
	"time"
)

const (
	// DefaultToldError is the error of what was told where a Job says none: a factor of 2.
	DefaultToldError = math.Ln2
	// UnknownError is the error of an estimate from ended jobs, chosen by simulation.
	UnknownError = 3.0
	// MaxError is the largest error that the service takes.
	MaxError = 5
	// MaxEnded is how many ended jobs an Estimator remembers, the latest.
	MaxEnded = 1000

	// In seconds: a job has at least this left, and more than that is as good as without an end.
	least, most = 1.0, 10 * 365 * 24 * 3600.0
	// pseudoLeft is what is left, in seconds, of a job before any has ended.
	pseudoLeft = 20 * 60.0
	// leastError keeps what is nearly exact within what can be calculated with.
	leastError = 1e-9
)

// Job is what a scheduler knows of a job that has not ended. Every field may be left out.
type Job struct {
	// StepsLeft is how many steps the job has left, and SecondsPerStep what one takes on
	// that many nodes, 0 for a job that does not report it. Nodes unset means 1.
	StepsLeft, SecondsPerStep float64
	Nodes                     int
	// Told is what the whole job was said to take on one node, by its user or by an earlier
	// run; 0 where it was not said. ToldError is the standard deviation of ln(true / told);
	// 0 means DefaultToldError.
	Told      time.Duration
	ToldError float64
	// WorkDone is the work that the job has done.
	WorkDone time.Duration
}

// Estimate is what to tell of a job, in the terms of the API: Job.remaining_eta, eta_nodes,
// eta_error, overrun and work_done. client.Tell fills them in.
type Estimate struct {
	// ETA is the run time left on Nodes nodes: at least a second, at most ten years.
	ETA   time.Duration
	Nodes int32
	Error float64 // the standard deviation of ln(true / ETA); 0 is exact
	// Overrun is the work done as a share of what was told, 0 where it was not: from 1 on that
	// has run out, and from 2 on twice, which a person should look at.
	Overrun float64
	// WorkDone is the Job's: at least 0, at most ten years.
	WorkDone time.Duration
}

// Estimator makes estimates, and learns from the jobs that end. The zero value has seen no
// job end. Its JSON is a state to be kept over restarts. It is not safe for concurrent use.
type Estimator struct {
	ended  []float64 // the work of ended jobs in seconds, in the order of their ends
	sorted []float64 // the same, ascending
	fit    fit       // of what was told of ended jobs
}

// Estimate returns the best estimate that what is known of a job allows: by its steps, else
// by what was told, else by the jobs that have ended.
func (e *Estimator) Estimate(j Job) Estimate {
	done := min(max(j.WorkDone.Seconds(), 0), most)
	estimate := Estimate{Nodes: 1, WorkDone: min(max(j.WorkDone, 0), duration(most))}
	if j.Told > 0 {
		estimate.Overrun = done / j.Told.Seconds()
	}
	switch left := j.StepsLeft * j.SecondsPerStep; {
	case j.SecondsPerStep > 0 && left >= 0: // NaN is neither.
		estimate.ETA, estimate.Nodes = duration(left), int32(min(max(j.Nodes, 1), math.MaxInt32))
	case j.Told > 0:
		median, off := e.fit.believed(j.told())
		estimate.ETA, estimate.Error = duration(MeanLeft(median, off, done)), off
	default:
		estimate.ETA, estimate.Error = duration(e.left(done)), UnknownError
	}
	return estimate
}

// told returns the logarithm of what was told and its error.
func (j *Job) told() (median, off float64) {
	if off = j.ToldError; !(off > 0) {
		off = DefaultToldError
	}
	return math.Log(min(j.Told.Seconds(), most)), min(max(off, leastError), MaxError)
}

// MeanLeft returns the mean of what is left, W - x, of a job that has done x >= 0, where ln W is
// normal about a median of its own with the standard deviation s > 0, and W > x. With D = e^median
// and z = (ln x - median) / s that is D e^(s^2/2) Phi(s - z) / Phi(-z) - x.
func MeanLeft(median, s, x float64) float64 {
	z := (math.Log(x) - median) / s // -Inf without work done
	if z <= tail {
		return math.Exp(median+s*s/2)*math.Erfc((z-s)/math.Sqrt2)/math.Erfc(z/math.Sqrt2) - x
	}
	// Far out Phi(-z) underflows. With Phi(-z) = phi(z) M(z) the densities cancel.
	return x * (mills(z-s)/mills(z) - 1)
}

// tail is from where on a continued fraction is used for Mills' ratio.
const tail = 3

// mills returns Mills' ratio of the normal distribution, Phi(-z) / phi(z), for z > -38.
func mills(z float64) float64 {
	if z <= tail {
		return math.Sqrt(math.Pi/2) * math.Exp(z*z/2) * math.Erfc(z/math.Sqrt2)
	}
	// Laplace's 1/(z + 1/(z + 2/(z + 3/(z + …)))), to the last digit from 3 on.
	rest := z
	for n := 60; n > 0; n-- {
		rest = z + float64(n)/rest
	}
	return 1 / rest
}

// left returns the median of what was left of the ended jobs that had come as far as done,
// and of two pseudo-jobs, which stand for all experience before any.
func (e *Estimator) left(done float64) float64 {
	first := sort.Search(len(e.sorted), func(i int) bool { return e.sorted[i] > done })
	further := e.sorted[first:]
	pseudo := max(done, pseudoLeft)
	// The places of the pseudo-jobs among all.
	short := sort.Search(len(further), func(i int) bool { return further[i]-done > pseudo })
	long := 1 + sort.Search(len(further), func(i int) bool { return further[i]-done > 3*pseudo })
	at := func(place int) float64 {
		switch {
		case place == short:
			return pseudo
		case place == long:
			return 3 * pseudo
		case place > long:
			place -= 2
		case place > short:
			place--
		}
		return further[place] - done
	}
	return (at((len(further)+1)/2) + at(len(further)/2+1)) / 2
}

// Ended notes that a job has ended, for whatever reason, with the work that it has done, and how
// wrong what was told of it was. Jobs without work are of no use and not noted.
func (e *Estimator) Ended(j Job) {
	if j.WorkDone <= 0 {
		return
	}
	if len(e.ended) == MaxEnded {
		at, _ := slices.BinarySearch(e.sorted, e.ended[0])
		e.sorted = slices.Delete(e.sorted, at, at+1)
		e.ended = e.ended[1:]
	}
	seconds := min(j.WorkDone.Seconds(), most)
	if j.Told > 0 {
		told, off := j.told()
		e.fit.add(told, off, max(seconds, least))
	}
	at, _ := slices.BinarySearch(e.sorted, seconds)
	e.ended, e.sorted = append(e.ended, seconds), slices.Insert(e.sorted, at, seconds)
}

// Speed returns the speed on the given nodes, at least 1, against one node, k * e^log2(k):
// each doubling multiplies it by twice the efficiency, of which the service's default is 0.8.
func Speed(nodes int, efficiency float64) float64 {
	return float64(nodes) * math.Pow(efficiency, math.Log2(float64(nodes)))
}

// duration returns seconds as an ETA.
func duration(seconds float64) time.Duration {
	if !(seconds >= least) {
		seconds = least
	}
	return time.Duration(math.Round(min(seconds, most) * float64(time.Second)))
}
