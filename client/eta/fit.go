package eta

import (
	"fmt"
	"math"
)

const (
	// priorBias, priorSlope and priorSpread are the weights of the prior in completed jobs, chosen by
	// simulation (scripts/etas.sh): that estimates have no bias, that the bias does not depend on the
	// length of the job, and that the error is as stated.
	priorBias, priorSlope, priorSpread = 40.0, 20.0, 20.0
	// minUserError is the smallest stated error that the fit divides by.
	minUserError = 0.1
	// maxDeviations is the largest number of standard deviations by which a job counts.
	maxDeviations = 6.0
	// decay multiplies the sums of the fit for each completed job.
	decay = 1 - 1.0/MaxCompleted
	// maxSum is an upper bound of every sum of a fit, and maxLog of every logarithm of a time.
	maxSum, maxLog = 1e6, 50.0
)

// fit is the state of a ridge regression of z = ln(true / estimate), in standard deviations as
// stated, on u = ln(estimate): the number of completed jobs with an estimate, and the sums over them
// of u, z, u^2, uz and z^2.
type fit [6]float64

// add adds a job that took the given seconds. median is the logarithm of its estimate, and sigma the
// stated error.
func (f *fit) add(median, sigma, seconds float64) {
	z := min(max((math.Log(seconds)-median)/max(sigma, minUserError), -maxDeviations), maxDeviations)
	for i, term := range (fit{1, median, z, median * median, median * z, z * z}) {
		f[i] = f[i]*decay + term
	}
}

// correct returns the median and error of an estimate, corrected by the errors of earlier ones.
func (f *fit) correct(median, sigma float64) (corrected, sd float64) {
	n := f[0]
	if n == 0 {
		return median, sigma
	}
	u, z := f[1]/n, f[2]/n
	uu, uz, zz := max(f[3]-n*u*u, 0), f[4]-n*u*z, max(f[5]-n*z*z, 0) // about the means
	slope, bias := uz/(uu+priorSlope), n*z/(n+priorBias)
	squares := max(zz-2*slope*uz+slope*slope*uu, 0) + n*(z-bias)*(z-bias)
	spread := math.Sqrt((squares + priorSpread) / (n + priorSpread))
	// A state that add did not write may have any line.
	corrected = min(max(median+sigma*(bias+slope*(median-u)), -maxLog), maxLog)
	return corrected, min(max(sigma*spread, minError), MaxError)
}

// readFit returns the fit with the given numbers, the zero fit if there are none.
func readFit(numbers []float64) (f fit, err error) {
	if len(numbers) == 0 {
		return f, nil
	}
	valid := len(numbers) == len(f) && numbers[0] >= 1 && numbers[0] <= MaxCompleted
	for _, number := range numbers {
		valid = valid && math.Abs(number) <= maxSum
	}
	if !valid {
		return f, fmt.Errorf("parse state of ETAs: user_estimates: is %v; must be a number of jobs, 1 to %d, and 5 sums of at most %g",
			numbers, MaxCompleted, maxSum)
	}
	return fit(numbers), nil
}
