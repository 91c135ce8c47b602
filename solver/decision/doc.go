// Package decision defines the result of a decision: the allocations of all jobs of the snapshot with
// the reasons for waiting, and the report with its warnings. It also defines the inputs and results of
// explanations, forecasts and what-if scenarios. It does not depend on any backend.
package decision
