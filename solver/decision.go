package solver

import "github.com/elastalloc/elastalloc/solver/decision"

// Names of package decision: the result of a decision, and the questions about it.
type (
	// Decision is the nodes of every job of a snapshot and what is known about them.
	Decision = decision.Decision

	// Allocation is the decision for one job.
	Allocation = decision.Allocation

	// Change is what a decision means for a job.
	Change = decision.Change

	// Why is the reason for the nodes of a job.
	Why = decision.Why

	// Explanation is a decision with its reasons.
	Explanation = decision.Explanation

	// JobExplanation is why a job gets its nodes.
	JobExplanation = decision.JobExplanation

	// SizeOption is a size that a job could hold from now on.
	SizeOption = decision.SizeOption

	// Remedy is the smallest change of one kind that gives a job more nodes; a larger one may give
	// it less.
	Remedy = decision.Remedy

	// ForecastOptions say how the future of a snapshot is simulated.
	ForecastOptions = decision.ForecastOptions

	// Forecast is when the jobs of a snapshot start and end.
	Forecast = decision.Forecast

	// JobForecast is when a job starts and ends, from the snapshot on: over several samples the
	// medians and, as Low and High, the 10th and 90th percentiles.
	JobForecast = decision.JobForecast

	// Reason is what is known about an answer.
	Reason = decision.Reason

	// Report says who decided, how good the decision is and how it came about.
	Report = decision.Report

	// Attempt is one backend's try at a decision.
	Attempt = decision.Attempt

	// Outcome is how a backend's try at a decision ended.
	Outcome = decision.Outcome

	// GroupReport is what a decision means for a group.
	GroupReport = decision.GroupReport

	// NodeTypeReport is what a decision means for a node type.
	NodeTypeReport = decision.NodeTypeReport

	// SizeLimitReport is what a decision means for a size limit.
	SizeLimitReport = decision.SizeLimitReport

	// WaitReason is why a job holds no nodes; "" where it holds some.
	WaitReason = decision.WaitReason

	// WarningCode names what an operator should know of a decision.
	WarningCode = decision.WarningCode

	// Warning is something that an operator should know of a decision.
	Warning = decision.Warning

	// Scenario is a variation of a snapshot.
	Scenario = decision.Scenario

	// ScenarioResult is the decision on a variation, or why there is none.
	ScenarioResult = decision.ScenarioResult

	// WhatIf is the decision on a snapshot and on variations of it.
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

	MaxScenarios = decision.MaxScenarios
	ScenarioJobs = decision.ScenarioJobs
)

// DecideNow turns the option of every job of the snapshot from now on into a decision without a
// plan.
func DecideNow(s *Snapshot, options []Option) Decision { return decision.DecideNow(s, options) }

// Decide turns the result of a backend into the decision for every job of the snapshot that p
// was built from.
func Decide(s *Snapshot, p *Problem, result Result) Decision { return decision.Decide(s, p, result) }
