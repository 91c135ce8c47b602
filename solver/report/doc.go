// Package report converts the result of a backend into a decision: the allocations of all jobs of the
// snapshot with the reasons for waiting, and the report with its warnings. It does not depend on any
// backend.
package report
