// Package eta estimates the remaining run time of jobs, and the error of the estimate, from what a
// scheduler knows: the steps that a job reports, the estimate of its user, the work that it has
// done, and the work of completed jobs. docs/schedulers/estimate-remaining-time.md compares these
// sources.
//
// Work is measured in run time on one node. On k nodes a job does Speed(k) seconds of work per
// second, and none while it restarts.
package eta

import (
	"math"
	"slices"
	"sort"
	"time"
)

const (
	// DefaultUserError is the error of a user's estimate if Job.UserError is 0: a factor of 2.
	DefaultUserError = math.Ln2
	// UnknownError is the error of an estimate from completed jobs. It was chosen by simulation
	// (scripts/etas.sh).
	UnknownError = 3.0
	// MaxError is the largest error that the service accepts.
	MaxError = 5
	// MaxCompleted is the number of completed jobs that an Estimator remembers, the latest ones.
	MaxCompleted = 1000

	// minETA and maxETA are the smallest and largest ETA in seconds: 1 s and ten years.
	minETA, maxETA = 1.0, 10 * 365 * 24 * 3600.0
	// pseudoRemaining is the remaining work in seconds that the first of two pseudo-jobs has, which
	// stand for the experience before any job has completed.
	pseudoRemaining = 20 * 60.0
	// minError keeps an almost exact estimate in the range of float64.
	minError = 1e-9
)

// Job is what a scheduler knows of a job that has not completed. All fields are optional.
type Job struct {
	// StepsLeft is the number of steps until the job completes.
	StepsLeft float64
	// SecondsPerStep is the time per step on Nodes nodes, 0 if the job does not report it.
	SecondsPerStep float64
	// Nodes is the number of nodes of SecondsPerStep. 0 means 1.
	Nodes int
	// UserEstimate is the run time of the whole job on one node as estimated by its user or measured
	// in an earlier run, 0 if there is none.
	UserEstimate time.Duration
	// UserError is the standard deviation of ln(true / UserEstimate). 0 means DefaultUserError.
	UserError float64
	// WorkDone is the work that the job has done.
	WorkDone time.Duration
}

// Estimate is the estimate for a job in the terms of the API: Job.remaining_eta, eta_nodes,
// eta_error, overrun and work_done. client.SetEstimate sets these fields.
type Estimate struct {
	// ETA is the remaining run time on Nodes nodes, 1 s to ten years.
	ETA time.Duration
	// Nodes is the number of nodes of ETA.
	Nodes int32
	// Error is the standard deviation of ln(true / ETA). 0 means exact.
	Error float64
	// Overrun is the work done divided by the user's estimate, 0 without an estimate. At 1 the
	// estimate has run out. From 2 on a person should look at the job.
	Overrun float64
	// WorkDone is the work that the job has done, 0 to ten years.
	WorkDone time.Duration
}

// Estimator makes estimates, and learns from completed jobs. The zero value has seen no completed
// job. Its JSON is a state to keep over restarts. It is not safe for concurrent use.
type Estimator struct {
	completed []float64 // work of completed jobs in seconds, in the order of completion
	sorted    []float64 // the same, ascending
	fit       fit       // of the users' estimates of completed jobs
}

// Estimate returns the best estimate for a job. It uses the first of these that is known: the steps
// of the job, the estimate of its user, the work of completed jobs.
func (e *Estimator) Estimate(j Job) Estimate {
	done := min(max(j.WorkDone.Seconds(), 0), maxETA)
	estimate := Estimate{Nodes: 1, WorkDone: min(max(j.WorkDone, 0), duration(maxETA))}
	if j.UserEstimate > 0 {
		estimate.Overrun = done / j.UserEstimate.Seconds()
	}
	switch remaining := j.StepsLeft * j.SecondsPerStep; {
	case j.SecondsPerStep > 0 && remaining >= 0: // NaN is neither.
		estimate.ETA, estimate.Nodes = duration(remaining), int32(min(max(j.Nodes, 1), math.MaxInt32))
	case j.UserEstimate > 0:
		median, sigma := e.fit.correct(j.userEstimate())
		estimate.ETA, estimate.Error = duration(MeanRemaining(median, sigma, done)), sigma
	default:
		estimate.ETA, estimate.Error = duration(e.medianRemaining(done)), UnknownError
	}
	return estimate
}

// userEstimate returns the logarithm of the user's estimate in seconds, and its error.
func (j *Job) userEstimate() (median, sigma float64) {
	if sigma = j.UserError; !(sigma > 0) {
		sigma = DefaultUserError
	}
	return math.Log(min(j.UserEstimate.Seconds(), maxETA)), min(max(sigma, minError), MaxError)
}

// MeanRemaining returns the mean remaining work W - x of a job that has done the work x >= 0, if
// ln W is normal with the given median and the standard deviation s > 0, and W > x. With
// D = e^median and z = (ln x - median) / s the mean is D e^(s^2/2) Phi(s - z) / Phi(-z) - x.
func MeanRemaining(median, s, x float64) float64 {
	z := (math.Log(x) - median) / s // -Inf without work done
	if z <= tail {
		return math.Exp(median+s*s/2)*math.Erfc((z-s)/math.Sqrt2)/math.Erfc(z/math.Sqrt2) - x
	}
	// Phi(-z) underflows for large z. With Phi(-z) = phi(z) M(z) the densities cancel.
	return x * (mills(z-s)/mills(z) - 1)
}

// tail is the argument from which on a continued fraction is used for Mills' ratio.
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

// medianRemaining returns the median remaining work of the completed jobs that had done more work
// than done, and of two pseudo-jobs.
func (e *Estimator) medianRemaining(done float64) float64 {
	first := sort.Search(len(e.sorted), func(i int) bool { return e.sorted[i] > done })
	longer := e.sorted[first:]
	pseudo := max(done, pseudoRemaining)
	// The ranks of the pseudo-jobs, which have pseudo and 3 pseudo left.
	short := sort.Search(len(longer), func(i int) bool { return longer[i]-done > pseudo })
	long := 1 + sort.Search(len(longer), func(i int) bool { return longer[i]-done > 3*pseudo })
	at := func(rank int) float64 {
		switch {
		case rank == short:
			return pseudo
		case rank == long:
			return 3 * pseudo
		case rank > long:
			rank -= 2
		case rank > short:
			rank--
		}
		return longer[rank] - done
	}
	return (at((len(longer)+1)/2) + at(len(longer)/2+1)) / 2
}

// Completed records a job that has completed or stopped for another reason: its work, and the error
// of its user's estimate. It ignores jobs without work.
func (e *Estimator) Completed(j Job) {
	if j.WorkDone <= 0 {
		return
	}
	if len(e.completed) == MaxCompleted {
		at, _ := slices.BinarySearch(e.sorted, e.completed[0])
		e.sorted = slices.Delete(e.sorted, at, at+1)
		e.completed = e.completed[1:]
	}
	seconds := min(j.WorkDone.Seconds(), maxETA)
	if j.UserEstimate > 0 {
		median, sigma := j.userEstimate()
		e.fit.add(median, sigma, max(seconds, minETA))
	}
	at, _ := slices.BinarySearch(e.sorted, seconds)
	e.completed, e.sorted = append(e.completed, seconds), slices.Insert(e.sorted, at, seconds)
}

// Speed returns the speed on the given number of nodes, at least 1, relative to one node:
// k * e^log2(k). Each doubling multiplies the speed by twice the efficiency e, whose default in the
// service is 0.8.
func Speed(nodes int, efficiency float64) float64 {
	return float64(nodes) * math.Pow(efficiency, math.Log2(float64(nodes)))
}

// duration returns seconds as an ETA.
func duration(seconds float64) time.Duration {
	if !(seconds >= minETA) {
		seconds = minETA
	}
	return time.Duration(math.Round(min(seconds, maxETA) * float64(time.Second)))
}
