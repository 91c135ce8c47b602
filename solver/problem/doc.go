// Package problem defines the optimization model of a snapshot. It contains the options of a
// decision, the admission of jobs, the legal options of each admitted job and their values under
// an objective, and the checks of a plan. A backend solves a Problem and returns a Result. Package
// decision converts the Result into a Decision.
package problem
