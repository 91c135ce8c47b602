package eta

import (
	"fmt"
	"math"
)

const (
	// What doubt is worth in ended jobs, chosen by simulation: that what is told errs in the
	// mean, that it errs otherwise for long jobs than for short ones, and that it errs by more
	// or less than said.
	doubtBias, doubtSlope, doubtSpread = 40.0, 20.0, 20.0
	// leastOff is the least that counts as the error told, and farthest how many of it a job
	// counts as off at most.
	leastOff, farthest = 0.1, 6.0
	// kept is what a job leaves of those before it.
	kept = 1 - 1.0/MaxEnded
	// mostSum is beyond every sum of a fit, and mostLog beyond every logarithm of a time.
	mostSum, mostLog = 1e6, 50.0
)

// fit is how wrong what is told turned out to be: the number of ended jobs that were told one, and
// sums over them of u, z, u^2, uz and z^2, for a ridge regression of z = ln(took / told), in standard
// deviations told, on u = ln(told).
type fit [6]float64

// add adds a job that took so much, of which told was the logarithm, with the given error.
func (f *fit) add(told, off, took float64) {
	z := min(max((math.Log(took)-told)/max(off, leastOff), -farthest), farthest)
	for i, term := range (fit{1, told, z, told * told, told * z, z * z}) {
		f[i] = f[i]*kept + term
	}
}

// believed returns what to believe of what was told, its logarithm and its error.
func (f *fit) believed(told, off float64) (median, sd float64) {
	n := f[0]
	if n == 0 {
		return told, off
	}
	u, z := f[1]/n, f[2]/n
	uu, uz, zz := max(f[3]-n*u*u, 0), f[4]-n*u*z, max(f[5]-n*z*z, 0) // about the means
	slope, bias := uz/(uu+doubtSlope), n*z/(n+doubtBias)
	squares := max(zz-2*slope*uz+slope*slope*uu, 0) + n*(z-bias)*(z-bias)
	spread := math.Sqrt((squares + doubtSpread) / (n + doubtSpread))
	// A state that was not written by add may have any line.
	median = min(max(told+off*(bias+slope*(told-u)), -mostLog), mostLog)
	return median, min(max(off*spread, leastError), MaxError)
}

// readFit returns the fit with the given numbers, that of no jobs where there are none.
func readFit(numbers []float64) (f fit, err error) {
	if len(numbers) == 0 {
		return f, nil
	}
	sane := len(numbers) == len(f) && numbers[0] >= 1 && numbers[0] <= MaxEnded
	for _, number := range numbers {
		sane = sane && math.Abs(number) <= mostSum
	}
	if !sane {
		return f, fmt.Errorf("parse state of ETAs: told is %v; want 1 to %d jobs and 5 sums of at most %g", numbers, MaxEnded, mostSum)
	}
	return fit(numbers), nil
}
