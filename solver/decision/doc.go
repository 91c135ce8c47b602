// Package decision defines the result of a problem: what every job of the snapshot gets and why,
// the report with its warnings, and the questions about a decision, which are explanations,
// forecasts and scenarios. It knows no backend.
package decision
