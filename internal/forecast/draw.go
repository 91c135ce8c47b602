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

// withErrors returns the snapshot with the ETA error of all in the jobs that have none of
// their own, where it counts.
func withErrors(s *solver.Snapshot, f *solver.ForecastOptions, o *solver.Options) *solver.Snapshot {
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

// draw draws what a snapshot does not tell, for one sample.
func draw(s *solver.Snapshot, f *solver.ForecastOptions, sample int) sim.ForecastInput {
	random := rand.New(rand.NewPCG(f.Seed, uint64(sample)))
	ahead := sim.ForecastInput{Work: make([]time.Duration, len(s.Jobs))}
	for i := range s.Jobs {
		ahead.Work[i] = work(&s.Jobs[i], f, random)
	}
	if f.ArrivalsPerHour > 0 && len(s.Jobs) > 0 {
		ahead.Next = submissions(s, f, random)
	}
	return ahead
}

// work draws what is really left of a job, in run time on one node. Of one whose ETA has run out
// without an error that says how far, a quarter of the work done is left, as the objective
// PROGRESS has it.
func work(job *solver.Job, f *solver.ForecastOptions, random *rand.Rand) time.Duration {
	told := sim.DemandOf(job)
	if job.ETAError == nil {
		told = max(told, job.WorkDone/4)
	}
	left := float64(told) * (1 + f.ETAError*(2*random.Float64()-1))
	if job.ETAError != nil {
		left = logNormal(float64(told), *job.ETAError, float64(job.WorkDone), random)
	}
	if left == float64(told) {
		return told
	}
	return time.Duration(max(float64(time.Second), min(left, longest)))
}

// leastError is the error below which an ETA counts as exact, as in the objective.
const leastError = 1e-4

// logNormal draws what is left of a job whose total is log-normal with the given error: what
// was told is the mean of what is left after the work done, as client/eta makes it.
func logNormal(told, sigma, done float64, random *rand.Rand) float64 {
	if sigma < leastError {
		return told
	}
	// The logarithm of the total's median, by halving an interval: the mean grows with it. What
	// is left of a job that has done far more than its median is nearly done * sigma / z.
	low, high := math.Log(told)-sigma*sigma*(2+2*done/told), math.Log(told+done)
	for range 100 {
		if middle := (low + high) / 2; eta.MeanRemaining(middle, sigma, done) < told {
			low = middle
		} else {
			high = middle
		}
	}
	z := (math.Log(done) - low) / sigma // the total is more than the work done, normal beyond z
	if z > 0 {
		// Marsaglia's draw from the tail: the square root of z^2 + 2 e, at times. What it is
		// beyond z is taken apart, so that nothing cancels.
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

// longest is a time of 146 years: sums of two fit a time.Duration.
const longest = 1 << 62

// submissions returns what draws the submissions to come: a Poisson process of jobs of the
// snapshot as they were when they were submitted. A job of twice the work is present twice as
// long, so that it stands for half as many submissions.
func submissions(s *solver.Snapshot, f *solver.ForecastOptions, random *rand.Rand) func() sim.Submission {
	jobs, chances := make([]solver.Job, len(s.Jobs)), make([]float64, len(s.Jobs))
	all := 0.0
	for i := range s.Jobs {
		jobs[i] = fresh(s, i)
		all += 1 / jobs[i].RemainingETA.Seconds()
		chances[i] = all
	}
	at, count := 0.0, 0
	return func() sim.Submission {
		at += random.ExpFloat64() * 3600 / f.ArrivalsPerHour
		count++
		drawn, _ := slices.BinarySearch(chances, all*random.Float64())
		job := jobs[drawn]
		job.ID = fmt.Sprintf("%s, submission %d", job.ID, count)
		return sim.Submission{At: seconds(math.Ceil(at)), Job: job, Work: work(&job, f, random)}
	}
}

// fresh returns job i of a snapshot as it was when it was submitted.
func fresh(s *solver.Snapshot, i int) solver.Job {
	job := &s.Jobs[i]
	submitted := *job
	done := job.WorkDone
	if done == 0 {
		done = seconds(job.TrainingTime.Seconds() * s.Speed(i, s.Current(i)))
	}
	submitted.RemainingETA = time.Duration(min(float64(sim.DemandOf(job))+float64(done), longest))
	submitted.ETANodes, submitted.CurrentNodes, submitted.CurrentNodeType = 0, 0, ""
	submitted.TrainingTime, submitted.WaitingTime, submitted.WorkDone = 0, 0, 0
	return submitted
}

// seconds returns a time, at most the longest.
func seconds(s float64) time.Duration { return time.Duration(min(s*float64(time.Second), longest)) }
