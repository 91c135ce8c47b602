package solver

import "github.com/elastalloc/elastalloc/solver/decision"

// Names of package decision: results of decisions, explanations, forecasts and scenarios.
type (
	// Decision has the allocations of all jobs of a snapshot and a report about them.
	Decision = decision.Decision

	// Allocation is the decision for one job.
	Allocation = decision.Allocation

	// Change is the effect of a decision on a job.
	Change = decision.Change

	// Why is the reason why a job gets its number of nodes.
	Why = decision.Why

	// Explanation is a decision with its reasons.
	Explanation = decision.Explanation

	// JobExplanation is the reason why a job gets its number of nodes.
	JobExplanation = decision.JobExplanation

	// SizeOption is a possible size of a job.
	SizeOption = decision.SizeOption

	// Remedy is the smallest change of one kind that gives a job more nodes. A larger change may give
	// it fewer nodes. With more than 256 jobs or more than 256 additional nodes, TotalNodes may not be
	// the smallest. Exactly one of Weight, TotalNodes and MinNodes is set.
	Remedy = decision.Remedy

	// ForecastOptions are the options of a forecast, which simulates the future of a snapshot. The
	// zero value of a field means its default.
	ForecastOptions = decision.ForecastOptions

	// Forecast has the simulated start and completion times of the jobs of a snapshot.
	Forecast = decision.Forecast

	// JobForecast has the simulated start and completion times of a job, relative to the snapshot.
	// Over several samples, it has the medians, and the 10th (Low) and 90th (High) percentiles. A time
	// beyond the end of the simulation is nil.
	JobForecast = decision.JobForecast

	// Reason states how good a decision is known to be.
	Reason = decision.Reason

	// Report describes how a decision was made and how good it is.
	Report = decision.Report

	// Attempt is the attempt of one backend to make a decision.
	Attempt = decision.Attempt

	// Outcome is the outcome of an attempt.
	Outcome = decision.Outcome

	// GroupReport describes the effect of a decision on a group.
	GroupReport = decision.GroupReport

	// NodeTypeReport describes the effect of a decision on a node type.
	NodeTypeReport = decision.NodeTypeReport

	// SizeLimitReport describes the effect of a decision on a size limit.
	SizeLimitReport = decision.SizeLimitReport

	// WaitReason is the reason why a job gets no nodes. "" means that it gets nodes.
	WaitReason = decision.WaitReason

	// WarningCode identifies the type of a warning.
	WarningCode = decision.WarningCode

	// Warning is a warning about a decision for operators.
	Warning = decision.Warning

	// Scenario is a variation of a snapshot. Apply returns the varied snapshot.
	Scenario = decision.Scenario

	// ScenarioResult is the decision on a scenario or an error.
	ScenarioResult = decision.ScenarioResult

	// WhatIf has the decisions on a snapshot and on scenarios.
	WhatIf = decision.WhatIf
)

// Constants of package decision.
const (
	ChangeStart     = decision.ChangeStart
	ChangeScaleUp   = decision.ChangeScaleUp
	ChangeScaleDown = decision.ChangeScaleDown
	ChangeKeep      = decision.ChangeKeep
	ChangeWait      = decision.ChangeWait
	ChangePreempt   = decision.ChangePreempt
	ChangeMove      = decision.ChangeMove

	WhyLargest    = decision.WhyLargest
	WhyEnough     = decision.WhyEnough
	WhyPricedOut  = decision.WhyPricedOut
	WhyChangeCost = decision.WhyChangeCost
	WhyOnlySize   = decision.WhyOnlySize
	WhyNoRoom     = decision.WhyNoRoom
	WhyGroupLimit = decision.WhyGroupLimit
	WhySizeLimit  = decision.WhySizeLimit

	WhyRestartBudget = decision.WhyRestartBudget
	WhyKept          = decision.WhyKept

	MaxSamples          = decision.MaxSamples
	DefaultErrorSamples = decision.DefaultErrorSamples
	DefaultUntil        = decision.DefaultUntil
	MaxForecastSpan     = decision.MaxForecastSpan
	MaxArrivalsPerHour  = decision.MaxArrivalsPerHour

	ReasonOptimal   = decision.ReasonOptimal
	ReasonFeasible  = decision.ReasonFeasible
	ReasonHeuristic = decision.ReasonHeuristic

	OutcomeAnswered    = decision.OutcomeAnswered
	OutcomeUnavailable = decision.OutcomeUnavailable
	OutcomeTimedOut    = decision.OutcomeTimedOut
	OutcomeCrashed     = decision.OutcomeCrashed
	OutcomeInvalidPlan = decision.OutcomeInvalidPlan

	WaitNoRoom     = decision.WaitNoRoom
	WaitBehind     = decision.WaitBehind
	WaitNeverFits  = decision.WaitNeverFits
	WaitGroupLimit = decision.WaitGroupLimit
	WaitNotWorthIt = decision.WaitNotWorthIt
	WaitSizeLimit  = decision.WaitSizeLimit

	WaitRestartBudget = decision.WaitRestartBudget

	WarningNeverFits        = decision.WarningNeverFits
	WarningIdleWithQueue    = decision.WarningIdleWithQueue
	WarningEmptyPool        = decision.WarningEmptyPool
	WarningBadJobHeld       = decision.WarningBadJobHeld
	WarningLoadShedToGreedy = decision.WarningLoadShedToGreedy
	WarningQuotasExceedPool = decision.WarningQuotasExceedPool
	WarningOptionsIgnored   = decision.WarningOptionsIgnored
	WarningETARanOut        = decision.WarningETARanOut
	WarningManyPauses       = decision.WarningManyPauses
	WarningSizesNotNested   = decision.WarningSizesNotNested
	WarningSizeLimitsKept   = decision.WarningSizeLimitsKept
	WarningLongWait         = decision.WarningLongWait
	LongWait                = decision.LongWait

	MaxScenarios = decision.MaxScenarios
	ScenarioJobs = decision.ScenarioJobs
)

// DecideNow returns the decision with the given options, one per job of the snapshot. The options
// must not exceed the pool. The decision has no plan, and its report has only IdleNodes, NodeTypes
// and Warnings.
func DecideNow(s *Snapshot, options []Option) Decision { return decision.DecideNow(s, options) }

// Decide converts the result of a backend to the decision for the snapshot of p. Jobs that are not
// admitted get no nodes. The report has only the fields that follow from the allocations. The plan
// must be legal for p.WithWaiting().
func Decide(s *Snapshot, p *Problem, result Result) Decision { return decision.Decide(s, p, result) }
