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

// randomWorkload returns jobs with random submissions, at a rate per hour, whose run times are their
// estimates times a log-normal factor, as Job.ETAError describes.
func randomWorkload(seed uint64, rate float64) sim.Workload {
	const off = 0.7
	random := rand.New(rand.NewPCG(seed, 0))
	var trace sim.Trace
	var estimates []time.Duration
	at := 0.0
	for i := range 160 {
		at += random.ExpFloat64() * 3600 / rate
		seconds := 3600 * math.Exp(random.NormFloat64())
		estimates = append(estimates, time.Duration(seconds*float64(time.Second)))
		trace = append(trace, sim.TraceJob{
			ID: fmt.Sprint(i), GPUs: 8, Submit: time.Duration(at) * time.Second,
			Duration: time.Duration(seconds*math.Exp(off*random.NormFloat64())) * time.Second,
		})
	}
	w := sim.NewWorkload("random", trace, sim.WorkloadOptions{GPUsPerNode: 8})
	for i := range w.Jobs {
		w.Jobs[i].UserEstimate, w.Jobs[i].UserError, w.Jobs[i].ReportsWork = estimates[i], off, true
	}
	return w
}

// TestForecastIsCalibrated forecasts from the middle of simulations with continuing submissions and ETA
// errors. If the rate of submissions is set, about 80% of the jobs must complete between end_low and
// end_high. The flag -v prints the share.
func TestForecastIsCalibrated(t *testing.T) {
	if testing.Short() {
		t.Skip("whole simulations take minutes under the race detector")
	}
	t.Parallel()
	options := solver.Options{Backend: solver.BackendExact, Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionStartFirst}
	const rate, until = 4.0, 24 * time.Hour
	a := newAllocator(t, elastalloc.Options{})
	jobs, early, late := 0, 0, [2]int{}
	for seed := range uint64(testtier.Conformance.Examples(12, 100)) {
		workload := randomWorkload(seed, rate)
		var snapshots []*solver.Snapshot
		config := sim.DefaultConfig(8)
		config.Frequency, config.EveryEvent = 15*time.Minute, true
		config.Observe = func(s *solver.Snapshot, _ solver.Decision) { snapshots = append(snapshots, s) }
		result, err := sim.Run(t.Context(), workload, sim.Request{Options: options}, config, a)
		if err != nil {
			t.Fatal(err)
		}
		middle := slices.IndexFunc(result.Decisions, func(d sim.Decision) bool {
			return d.At%config.Frequency == 0 && d.At > workload.Jobs[80].Submit
		})
		s, now := snapshots[middle], result.Decisions[middle].At
		for n, arrivals := range []float64{rate, 0} {
			f, err := a.Forecast(t.Context(), s, options, solver.ForecastOptions{
				EveryEvent: true, Cadence: config.Frequency, ArrivalsPerHour: arrivals, Seed: seed, Until: until,
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
		t.Errorf("%.0f%% of the jobs complete within the forecast range; want 70%% to 90%%", 100*within)
	}
}
