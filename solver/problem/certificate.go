package problem

import "slices"

// Certificate leads a checker that shares no code with the search to the proof that the
// search found: what sizes cost the jobs that pay for those and not for nodes. None of its
// numbers need be trusted: any prices give a valid bound.
//
// In a Result its jobs are those of the Problem, in a Report those of the Snapshot, both by
// position.
type Certificate []SizePrices

// SizePrices are what the sizes of one job cost.
type SizePrices struct {
	Job int
	// Prices are one per step and one of AdmittedJob.Sizes, row by row, in units of the
	// objective and of either sign.
	Prices []float64
}

// RemapJobs returns the certificate with the position of every job replaced.
func (c Certificate) RemapJobs(to func(job int) int) Certificate {
	renamed := slices.Clone(c)
	for i := range renamed {
		renamed[i].Job = to(renamed[i].Job)
	}
	return renamed
}
