package solver

import (
	"cmp"
	"slices"
	"time"
)

// Limits and defaults of a forecast.
const (
	MaxSamples          = 100                   // simulations per forecast
	DefaultErrorSamples = 20                    // simulations if there are random quantities
	DefaultUntil        = 30 * 24 * time.Hour   // simulated time
	MaxForecastSpan     = 3650 * 24 * time.Hour // simulated time, and time between decisions
	MaxArrivalsPerHour  = 1e6                   // submissions per hour
)

// ForecastOptions are the options of a forecast, which simulates the future of a snapshot. The zero
// value of a field means its default.
type ForecastOptions struct {
	// Cadence is the time between two decisions in whole seconds. 0 means the step of the horizon,
	// rounded up to whole seconds.
	Cadence time.Duration
	// EveryEvent adds a decision one second after each completion of a job. Otherwise, queued jobs
	// get the idle nodes after a completion.
	EveryEvent bool
	// ETAError is the largest relative error of remaining ETAs, 0 to 1. The actual remaining time of a
	// job is random and uniform between (1 - ETAError) and (1 + ETAError) times its remaining ETA, but
	// at least a second. If Job.ETAError is set, or if ETAError is 0 and TotalTimeOptions.ETAError is
	// set, the total work of the job is log-normal instead, with this standard deviation of its
	// logarithm. The mean of the remaining time is then the remaining ETA.
	ETAError float64
	// Samples is the number of simulations, at most MaxSamples. 0 means DefaultErrorSamples. Without
	// random quantities, there is one simulation.
	Samples int
	// Seed is the seed of the random quantities.
	Seed uint64
	// ArrivalsPerHour is the rate of simulated submissions. They are at random times, and each job is a
	// copy of a random job of the snapshot. 0 to MaxArrivalsPerHour.
	ArrivalsPerHour float64
	// Until is the time to simulate. 0 means DefaultUntil.
	Until time.Duration
	// Bad are violations that ForecastOptions cannot represent. The code that converts another format
	// to ForecastOptions sets them.
	Bad []Violation
}

// WithDefaults returns the options with the default of every field that is not set. The snapshot has its
// defaults, and decide are the options of the decisions.
func (o ForecastOptions) WithDefaults(s *Snapshot, decide *Options) ForecastOptions {
	o.Cadence = cmp.Or(o.Cadence, min((s.Horizon.Step+time.Second-1).Truncate(time.Second), MaxForecastSpan))
	random := o.ETAError > 0 || o.ArrivalsPerHour > 0 || ValueOr(decide.TotalTime.ETAError, 0) > 0 ||
		slices.ContainsFunc(s.Jobs, func(j Job) bool { return ValueOr(j.ETAError, 0) > 0 })
	if o.Samples == 0 && random {
		o.Samples = DefaultErrorSamples
	}
	if o.Samples == 0 || !random && o.Samples > 0 && o.Samples <= MaxSamples {
		o.Samples = 1
	}
	o.Until = cmp.Or(o.Until, DefaultUntil)
	return o
}

// Validate returns the invalid fields of options that have their defaults.
func (o *ForecastOptions) Validate() []Violation {
	bad := Violations(o.Bad)
	if o.Cadence < time.Second || o.Cadence > MaxForecastSpan || o.Cadence%time.Second != 0 {
		bad.Addf("cadence", "is %v; must be whole seconds, 1s to %v", o.Cadence, MaxForecastSpan)
	}
	bad.CheckFactor("eta_error", &o.ETAError, 1)
	bad.CheckFactor("arrivals_per_hour", &o.ArrivalsPerHour, MaxArrivalsPerHour)
	if o.Samples < 1 || o.Samples > MaxSamples {
		bad.Addf("samples", "is %d; must be 1 to %d", o.Samples, MaxSamples)
	}
	if o.Until < 0 || o.Until > MaxForecastSpan {
		bad.Addf("until", "is %v; must be greater than 0s and at most %v", o.Until, MaxForecastSpan)
	}
	return bad
}

// Forecast has the simulated start and completion times of the jobs of a snapshot.
type Forecast struct {
	// Jobs are in the order of the snapshot.
	Jobs []JobForecast
	// MeanTotal is the mean time from the snapshot to the completion of a job, over all jobs that
	// complete and all samples. MeanQueue is the mean time to the first nodes, over all jobs that
	// start.
	MeanTotal, MeanQueue time.Duration
	// Decisions is the number of decisions of all samples, without fills of idle nodes.
	Decisions int64
	// Complete reports whether all samples are complete. If the time budget expired, the forecast
	// covers the complete samples or, if there are none, the first sample as far as it was simulated.
	Complete bool
	// Stalled reports whether a sample stopped because no job made progress although an unfinished job
	// fits into the pool. Complete is then false, and the forecast includes the sample.
	Stalled bool
	// Contradiction is Report.Contradiction of one of the decisions, "" if there is none.
	Contradiction string
}

// JobForecast has the simulated start and completion times of a job, relative to the snapshot. Over
// several samples, it has the medians, and the 10th (Low) and 90th (High) percentiles. A time beyond
// the end of the simulation is nil.
type JobForecast struct {
	JobID string
	// Start is the time when the job first gets nodes, 0 if it has nodes from now on.
	Start, StartLow, StartHigh *time.Duration
	// End is the completion time of the job.
	End, EndLow, EndHigh *time.Duration
	// Resizes is the number of resizes of the job without its first start.
	Resizes int
}
