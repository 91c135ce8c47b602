package eta

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestFitMinimizesSquares compares the corrected estimate with its definition: the bias and the slope
// minimize the sum of squares including the prior. The error is this sum without the prior terms of
// the bias and the slope.
func TestFitMinimizesSquares(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type point struct{ weight, u, z float64 }
		var f fit
		var points []point
		jobs, mean := 0.0, 0.0
		for range rapid.IntRange(1, 60).Draw(rt, "jobs") {
			u, off := rapid.Float64Range(0, 19).Draw(rt, "u"), rapid.Float64Range(1e-9, 5).Draw(rt, "off")
			took := math.Exp(rapid.Float64Range(0, 19).Draw(rt, "ln took"))
			f.add(u, off, took)
			for i := range points {
				points[i].weight *= 0.999
			}
			points = append(points, point{1, u, min(max((math.Log(took)-u)/max(off, 0.1), -6), 6)})
		}
		for _, p := range points {
			jobs, mean = jobs+p.weight, mean+p.weight*p.u
		}
		mean /= jobs
		squares := func(bias, slope float64) (sum float64) {
			for _, p := range points {
				off := p.z - bias - slope*(p.u-mean)
				sum += p.weight * off * off
			}
			return sum
		}
		penalized := func(bias, slope float64) float64 { return squares(bias, slope) + 40*bias*bias + 20*slope*slope }
		// At the mean, the correction is the bias.
		atMean, spread := f.correct(mean, 1)
		above, _ := f.correct(mean+1, 1)
		bias := atMean - mean
		slope := above - mean - 1 - bias
		for _, step := range [][2]float64{{1e-3, 0}, {-1e-3, 0}, {0, 1e-3}, {0, -1e-3}, {1e-3, 1e-3}} {
			if penalized(bias+step[0], slope+step[1]) < penalized(bias, slope) {
				rt.Fatalf("bias %v, slope %v: the sum is smaller at a step of %v", bias, slope, step)
			}
		}
		if want := math.Sqrt((squares(bias, slope) + 20) / (jobs + 20)); math.Abs(spread-min(want, MaxError)) > 1e-9*want {
			rt.Fatalf("spread %v; want %v", spread, want)
		}
		// The stated error scales the bias and the error.
		if half, sd := f.correct(mean, 0.5); math.Abs(half-mean-bias/2) > 1e-9 || math.Abs(sd-spread/2) > 1e-9 && spread < MaxError {
			rt.Fatalf("with half the stated error: bias %v, error %v", half-mean, sd)
		}
	})
}

// TestFitCorrects checks that unbiased estimates are not corrected, and that estimates are corrected
// that are three times too long, too long only for long jobs, or less exact than stated.
func TestFitCorrects(t *testing.T) {
	for name, c := range map[string]struct{ bias, slope, off float64 }{
		"as stated":     {0, 0, 1},
		"three times":   {-math.Log(3), 0, 1},
		"long too long": {0, -0.4, 1},
		"less exact":    {0, 0, 2},
	} {
		random := rand.New(rand.NewPCG(7, 0))
		var e Estimator
		for range 2000 {
			u := 8 + 1.5*random.NormFloat64()
			took := u + c.bias + c.slope*(u-8) + c.off*DefaultUserError*random.NormFloat64()
			e.Completed(Job{UserEstimate: duration(math.Exp(u)), WorkDone: duration(math.Exp(took))})
		}
		for _, u := range []float64{6.5, 8, 9.5} {
			median, sd := e.fit.correct(u, DefaultUserError)
			if want := u + c.bias + c.slope*(u-8); math.Abs(median-want) > 0.12 {
				t.Errorf("%s: an estimate of %v is corrected to %v; want %v", name, u, median, want)
			}
			if want := c.off * DefaultUserError; math.Abs(sd/want-1) > 0.1 {
				t.Errorf("%s: error %v; want %v", name, sd, want)
			}
		}
		// Completed jobs without an estimate do not change the fit.
		before := e.fit
		if e.Completed(Job{WorkDone: time.Hour}); e.fit != before {
			t.Errorf("%s: %v, then %v", name, before, e.fit)
		}
	}
}
