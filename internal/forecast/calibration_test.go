package forecast_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// submitting draws jobs that are submitted at random, at a rate an hour, and take what was told
// of them times a factor that is log-normal about 1, as Job.ETAError says.
func submitting(seed uint64, rate float64) sim.Workload {
	const off = 0.7
	random := rand.New(rand.NewPCG(seed, 0))
	var trace sim.Trace
	var told []time.Duration
	at := 0.0
	for i := range 160 {
		at += random.ExpFloat64() * 3600 / rate
		seconds := 3600 * math.Exp(random.NormFloat64())
		told = append(told, time.Duration(seconds*float64(time.Second)))
		trace = append(trace, sim.TraceJob{
			ID: fmt.Sprint(i), GPUs: 8, Submit: time.Duration(at) * time.Second,
			Duration: time.Duration(seconds*math.Exp(off*random.NormFloat64())) * time.Second,
		})
	}
	w := sim.NewWorkload("submitting", trace, sim.WorkloadOptions{GPUsPerNode: 8})
	for i := range w.Jobs {
		w.Jobs[i].UserEstimate, w.Jobs[i].UserError, w.Jobs[i].ReportsWork = told[i], off, true
	}
	return w
}

// TestForecastIsCalibrated forecasts from the middle of simulations in which submissions go on
// and ETAs err. Told the rate of submissions, eight in ten jobs end between end_low and
// end_high; -v prints how many do.
func TestForecastIsCalibrated(t *testing.T) {
	if testing.Short() {
		t.Skip("whole simulations take minutes under the race detector")
	}
	t.Parallel()
	policy, err := sim.FindPolicy("total-time")
	if err != nil {
		t.Fatal(err)
	}
	const rate, until = 4.0, 24 * time.Hour
	a := newAllocator(t, elastalloc.Options{})
	jobs, early, late := 0, 0, [2]int{}
	for seed := range uint64(testtier.Conformance.Examples(8, 100)) {
		workload := submitting(seed, rate)
		var snapshots []*solver.Snapshot
		config := sim.DefaultConfig(8)
		config.Frequency = 15 * time.Minute
		config.Observe = func(s *solver.Snapshot, _ solver.Decision) { snapshots = append(snapshots, s) }
		result, err := sim.Run(t.Context(), workload, policy, config, a)
		if err != nil {
			t.Fatal(err)
		}
		middle := slices.IndexFunc(result.Decisions, func(d sim.Decision) bool {
			return d.At%config.Frequency == 0 && d.At > workload.Jobs[80].Submit
		})
		s, now := snapshots[middle], result.Decisions[middle].At
		for n, told := range []float64{rate, 0} {
			f, err := a.Forecast(t.Context(), s, policy.Options, solver.ForecastOptions{
				EveryEvent: true, Cadence: config.Frequency, ArrivalsPerHour: told, Seed: seed, Until: until,
			})
			if err != nil || !f.Complete {
				t.Fatalf("complete: %t, %v", f.Complete, err)
			}
			for _, job := range f.Jobs {
				i := slices.IndexFunc(result.Jobs, func(j sim.JobResult) bool { return j.ID == job.JobID })
				end := min(result.Jobs[i].End-now, until)
				if job.EndHigh != nil && end > *job.EndHigh {
					late[n]++
				}
				if n == 0 {
					jobs++
					if end < *cmp.Or(job.EndLow, new(until)) {
						early++
					}
				}
			}
		}
	}
	t.Logf("of %d jobs %d end before end_low and %d after end_high; %d do if nothing else is submitted", jobs, early, late[0], late[1])
	if within := float64(jobs-early-late[0]) / float64(jobs); within < 0.7 || within > 0.9 {
		t.Errorf("%.0f %% of the jobs end within the forecast; want 70 to 90 %%", 100*within)
	}
}
