package forecast

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// withDefaultErrors returns the snapshot with the default ETA error of the options in jobs that have
// none. If the forecast has its own error, it returns the snapshot unchanged.
func withDefaultErrors(s *solver.Snapshot, f *solver.ForecastOptions, o *solver.Options) *solver.Snapshot {
	if o.TotalTime.ETAError == nil || f.ETAError > 0 {
		return s
	}
	s = new(*s)
	s.Jobs = slices.Clone(s.Jobs)
	for i := range s.Jobs {
		s.Jobs[i].ETAError = cmp.Or(s.Jobs[i].ETAError, o.TotalTime.ETAError)
	}
	return s
}

// sampleInput returns the random quantities of one sample: the true work of the jobs and future submissions.
func sampleInput(s *solver.Snapshot, f *solver.ForecastOptions, sample int) sim.ForecastInput {
	random := rand.New(rand.NewPCG(f.Seed, uint64(sample)))
	input := sim.ForecastInput{Work: make([]time.Duration, len(s.Jobs)), EveryEvent: f.EveryEvent}
	for i := range s.Jobs {
		input.Work[i] = sampleWork(&s.Jobs[i], f, random)
	}
	if f.ArrivalsPerHour > 0 && len(s.Jobs) > 0 {
		input.Next = newSubmissions(s, f, random)
	}
	return input
}

// sampleWork returns the random true remaining work of a job, as run time on one node. Without an ETA
// error, it is at least a quarter of the work done, as under ObjectiveProgress.
func sampleWork(job *solver.Job, f *solver.ForecastOptions, random *rand.Rand) time.Duration {
	estimate := sim.DemandOf(job)
	if job.ETAError == nil {
		estimate = max(estimate, job.WorkDone/4)
	}
	remaining := float64(estimate) * (1 + f.ETAError*(2*random.Float64()-1))
	if job.ETAError != nil {
		remaining = sampleRemaining(float64(estimate), *job.ETAError, float64(job.WorkDone), random)
	}
	if remaining == float64(estimate) {
		return estimate
	}
	return time.Duration(max(float64(time.Second), min(remaining, maxDuration)))
}

// minError is the error below which an ETA counts as exact, as in the objective.
const minError = 1e-4

// sampleRemaining returns the random remaining work of a job whose total work is log-normal with the
// standard deviation sigma of the logarithm. The estimate is the mean of the remaining work given the
// work done, as in package client/eta.
func sampleRemaining(estimate, sigma, done float64, random *rand.Rand) float64 {
	if sigma < minError {
		return estimate
	}
	// Bisection finds the logarithm of the median of the total work, because the mean increases with
	// it. The remaining work of a job that has done far more than its median is about done * sigma / z.
	low, high := math.Log(estimate)-sigma*sigma*(2+2*done/estimate), math.Log(estimate+done)
	for range 100 {
		if middle := (low + high) / 2; eta.MeanRemaining(middle, sigma, done) < estimate {
			low = middle
		} else {
			high = middle
		}
	}
	z := (math.Log(done) - low) / sigma // the total exceeds the work done, so the normal variable exceeds z
	if z > 0 {
		// Marsaglia's method samples the tail: it accepts the square root of z^2 + 2 e with a
		// probability. The excess over z is computed separately to avoid cancellation.
		for {
			e := random.ExpFloat64()
			x := math.Sqrt(z*z + 2*e)
			if x*random.Float64() <= z {
				return done * math.Expm1(sigma*2*e/(x+z))
			}
		}
	}
	for {
		if x := random.NormFloat64(); x > z {
			return math.Exp(low+sigma*x) - done
		}
	}
}

// maxDuration is 146 years, so that the sum of two durations fits a time.Duration.
const maxDuration = 1 << 62

// newSubmissions returns a function that returns the next random submission: a Poisson process of the
// jobs of the snapshot in their state at submission. A job with twice the work is in snapshots for
// twice the time, so its probability is half as large.
func newSubmissions(s *solver.Snapshot, f *solver.ForecastOptions, random *rand.Rand) func() sim.Submission {
	jobs, cumulative := make([]solver.Job, len(s.Jobs)), make([]float64, len(s.Jobs))
	total := 0.0
	for i := range s.Jobs {
		jobs[i] = atSubmission(s, i)
		total += 1 / jobs[i].RemainingETA.Seconds()
		cumulative[i] = total
	}
	at, count := 0.0, 0
	return func() sim.Submission {
		at += random.ExpFloat64() * 3600 / f.ArrivalsPerHour
		count++
		index, _ := slices.BinarySearch(cumulative, total*random.Float64())
		job := jobs[index]
		job.ID = fmt.Sprintf("%s, submission %d", job.ID, count)
		return sim.Submission{At: seconds(math.Ceil(at)), Job: job, Work: sampleWork(&job, f, random)}
	}
}

// atSubmission returns job i of a snapshot in its state at submission.
func atSubmission(s *solver.Snapshot, i int) solver.Job {
	job := &s.Jobs[i]
	submitted := *job
	done := job.WorkDone
	if done == 0 {
		done = seconds(job.TrainingTime.Seconds() * s.Speed(i, s.Current(i)))
	}
	submitted.RemainingETA = time.Duration(min(float64(sim.DemandOf(job))+float64(done), maxDuration))
	submitted.ETANodes, submitted.CurrentNodes, submitted.CurrentNodeType = 0, 0, ""
	submitted.TrainingTime, submitted.WaitingTime, submitted.WorkDone = 0, 0, 0
	return submitted
}

// seconds returns a duration of at most maxDuration.
func seconds(s float64) time.Duration { return time.Duration(min(s*float64(time.Second), maxDuration)) }
