package solver

import "slices"

// Certificate has the prices with which an independent checker can repeat the proof of a bound: the
// prices of the options of jobs that are priced per option and not per node. The checker does not
// have to trust the prices, because any prices give a valid bound.
//
// In a problem.Result, SizePrices.Job is a position in problem.Problem.Jobs. In a Report, it is a position in
// Snapshot.Jobs.
type Certificate []SizePrices

// SizePrices are the prices of the options of one job.
type SizePrices struct {
	// Job is the position of the job, see Certificate.
	Job int
	// Prices has one price per step and option of problem.AdmittedJob.Options, step by step, in units of
	// the objective. Prices may be negative.
	Prices []float64
}

// RemapJobs returns a copy of the certificate in which the position of every job is replaced by to.
func (c Certificate) RemapJobs(to func(job int) int) Certificate {
	renamed := slices.Clone(c)
	for i := range renamed {
		renamed[i].Job = to(renamed[i].Job)
	}
	return renamed
}
