package solver

import (
	"time"
)

// Defaults of TotalTimeOptions.
const (
	DefaultFairness         = 1.0
	DefaultAging            = 8 * time.Hour
	DefaultResizePrice      = 75 * time.Second
	DefaultPayback          = 900 * time.Second
	DefaultPausePriceFactor = 1.0
	DefaultStartBonus       = 500 * time.Second
	DefaultQuotaPrice       = 0.3
	DefaultSharePrice       = 0.1
)

// TotalTimeOptions are the parameters of ObjectiveTotalTime. Nil means the default of the field.
type TotalTimeOptions struct {
	// Fairness scales the weight of future jobs, F. The larger it is, the closer is the decision to
	// the max-min fair share. 0 means that no future jobs are expected, as in heSRPT. 0 to
	// MaxFactor.
	Fairness *float64
	// Aging is the waiting time that doubles the weight of a job, A. 0 disables aging. For each
	// job, it is at least 100 restart times.
	Aging *time.Duration
	// ResizePrice is the price of a resize in job-seconds of an average job, beta. A resize has to
	// save at least its price. At least 0.
	ResizePrice *time.Duration
	// Payback is the time within which a resize has to save its cost, L. Greater than 0. For each
	// job, it is at least 4 restart times and, if the job becomes faster, at least Job.SinceRestart.
	Payback *time.Duration
	// PausePriceFactor is the price of preempting a running job, as a multiple of ResizePrice. 0 to
	// MaxFactor.
	PausePriceFactor *float64
	// StartBonus is the additional value of starting a job that never had nodes, in job-seconds of an
	// average job. It applies to AdmissionOptimized only. At least 0.
	StartBonus *time.Duration
	// Cadence is the time until the next decision of callers that decide only at fixed times. Work
	// beyond the remaining work of a job then has no value, and a job that completes earlier saves
	// its weight for the rest of the time. At least 0. Nil or 0 means that the next decision follows
	// the next submission or completion.
	Cadence *time.Duration
	// QuotaPrice is the cost of each node that a group is below its quota, in job-seconds per
	// second. 0 to MaxFactor.
	QuotaPrice *float64
	// ETAError is the ETA error of jobs that do not set Job.ETAError. 0 to MaxETAError. Nil means 0.
	// For a job without FreeResizes, it is at least 0.1.
	ETAError *float64
	// SharePrice is the additional value of nodes up to the fair share of a job, as a multiple of the
	// value of work of the shortest job. 0 to MaxSharePrice.
	SharePrice *float64
}

// Limits of TotalTimeOptions. Beyond them, sums of values would lose precision.
const (
	MaxFactor        = 1e6                  // Fairness, PausePriceFactor, QuotaPrice
	MaxSharePrice    = 10                   // SharePrice
	MaxTotalTimeSpan = 365 * 24 * time.Hour // all durations
	MinTotalTimeSpan = time.Second          // Payback, and Aging if it is not 0
)

func (o *TotalTimeOptions) validate(bad *Violations) {
	factor := func(name string, v *float64) { bad.CheckFactor("total_time."+name, v, MaxFactor) }
	span := func(name string, v *time.Duration, smallest time.Duration) {
		if v != nil && (*v < smallest || *v > MaxTotalTimeSpan) {
			bad.Addf("total_time."+name, "is %v; must be %v to %v", *v, smallest, MaxTotalTimeSpan)
		}
	}
	factor("fairness", o.Fairness)
	factor("pause_price_factor", o.PausePriceFactor)
	factor("quota_price", o.QuotaPrice)
	bad.CheckFactor("total_time.eta_error", o.ETAError, MaxETAError)
	bad.CheckFactor("total_time.share_price", o.SharePrice, MaxSharePrice)
	if v := o.Aging; v != nil && *v != 0 {
		span("aging", v, MinTotalTimeSpan)
	}
	span("resize_price", o.ResizePrice, 0)
	span("payback", o.Payback, MinTotalTimeSpan)
	span("start_bonus", o.StartBonus, 0)
	span("cadence", o.Cadence, 0)
}
