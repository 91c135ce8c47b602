// Package problem defines the optimization model of a snapshot. It contains the admission of jobs, the
// legal options of each admitted job and their values under an objective, and the checks of a plan. A
// backend solves a Problem and returns a Result. Package report converts the Result into a decision.
package problem
