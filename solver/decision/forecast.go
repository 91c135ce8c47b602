package decision

import (
	"cmp"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// Limits and defaults of a forecast.
const (
	MaxSamples          = 100                   // simulations
	DefaultErrorSamples = 20                    // simulations where anything is drawn
	DefaultUntil        = 30 * 24 * time.Hour   // how far to simulate
	MaxForecastSpan     = 3650 * 24 * time.Hour // how far to simulate, and time between decisions
	MaxArrivalsPerHour  = 1e6                   // submissions per hour
)

// ForecastOptions say how the future of a snapshot is simulated. The zero value of each
// field means its default.
type ForecastOptions struct {
	// Cadence is the time between two decisions, whole seconds; 0 means the step of the
	// horizon, rounded up to whole seconds.
	Cadence time.Duration
	// EveryEvent decides, as well, a second after each end of a job. If not, the queue
	// then takes what is idle.
	EveryEvent bool
	// ETAError, 0 to 1, is how far remaining ETAs may be off: what is really left of a job is
	// drawn uniformly from (1 - ETAError) to (1 + ETAError) times what the snapshot says, but at
	// least a second. For a job with an ETAError of its own, or that of TotalTimeOptions where
	// this is 0, its whole work is log-normal instead, with that standard deviation of its
	// logarithm, so that the mean of what is left is what the snapshot says.
	ETAError float64
	// Samples is the number of simulations, at most MaxSamples; 0 means DefaultErrorSamples.
	// Where nothing is drawn, one is made.
	Samples int
	// Seed is that of all that is drawn.
	Seed uint64
	// ArrivalsPerHour is the rate of submissions to expect, at random times, each of a job
	// like one of the snapshot. 0 to MaxArrivalsPerHour.
	ArrivalsPerHour float64
	// Until is how far to simulate; 0 means DefaultUntil.
	Until time.Duration
	// Bad is what is wrong with fields that cannot be expressed here, as the code that made
	// these from another form knows.
	Bad []snapshot.Violation
}

// WithDefaults returns the options with the default of every field that is not set, for a
// snapshot that has its own and the options of its decisions.
func (o ForecastOptions) WithDefaults(s *snapshot.Snapshot, decide *problem.Options) ForecastOptions {
	o.Cadence = cmp.Or(o.Cadence, min((s.Horizon.Step+time.Second-1).Truncate(time.Second), MaxForecastSpan))
	drawn := o.ETAError > 0 || o.ArrivalsPerHour > 0 || valueOr(decide.TotalTime.ETAError, 0) > 0 ||
		slices.ContainsFunc(s.Jobs, func(j snapshot.Job) bool { return valueOr(j.ETAError, 0) > 0 })
	if o.Samples == 0 && drawn {
		o.Samples = DefaultErrorSamples
	}
	if o.Samples == 0 || !drawn && o.Samples > 0 && o.Samples <= MaxSamples {
		o.Samples = 1
	}
	o.Until = cmp.Or(o.Until, DefaultUntil)
	return o
}

// Validate returns every bad field of options that have their defaults.
func (o *ForecastOptions) Validate() []snapshot.Violation {
	bad := snapshot.Violations(o.Bad)
	if o.Cadence < time.Second || o.Cadence > MaxForecastSpan || o.Cadence%time.Second != 0 {
		bad.Addf("cadence", "is %v; want whole seconds, 1s to %v", o.Cadence, MaxForecastSpan)
	}
	bad.CheckFactor("eta_error", &o.ETAError, 1)
	bad.CheckFactor("arrivals_per_hour", &o.ArrivalsPerHour, MaxArrivalsPerHour)
	if o.Samples < 1 || o.Samples > MaxSamples {
		bad.Addf("samples", "is %d; want 1 to %d", o.Samples, MaxSamples)
	}
	if o.Until < 0 || o.Until > MaxForecastSpan {
		bad.Addf("until", "is %v; want more than 0s and at most %v", o.Until, MaxForecastSpan)
	}
	return bad
}

// Forecast is when the jobs of a snapshot start and end.
type Forecast struct {
	// Jobs are in the order of the snapshot.
	Jobs []JobForecast
	// MeanTotal is the mean time to the end, over jobs that end and over samples, and
	// MeanQueue that to the first nodes, over jobs that get some.
	MeanTotal, MeanQueue time.Duration
	// Decisions is the number of those of all samples, the filling of idle nodes apart.
	Decisions int64
	// Complete reports whether all samples came to their end. If time was up before, the forecast
	// is that of the samples that did or, if none did, of the first one up to then.
	Complete bool
	// Stalled reports whether a sample stopped because no job made progress any more, although a
	// job that has not ended fits the pool. Complete is then false; the sample counts.
	Stalled bool
	// Contradiction, where it is not empty, is that of a decision on the way, as in Report.
	Contradiction string
}

// JobForecast is when a job starts and ends, from the snapshot on: over several samples
// the medians and, as Low and High, the 10th and 90th percentiles. A time beyond the end of
// the simulation is nil.
type JobForecast struct {
	JobID string
	// Start is when the job first holds nodes, 0 if it does from now on.
	Start, StartLow, StartHigh *time.Duration
	// End is when the job ends.
	End, EndLow, EndHigh *time.Duration
	// Rescales is how often its nodes change, its first start not counted.
	Rescales int
}

// valueOr returns what a points to, or the default.
func valueOr[T any](a *T, fallback T) T {
	if a == nil {
		return fallback
	}
	return *a
}
