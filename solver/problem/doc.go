// Package problem defines the optimization model of a snapshot: the options of a decision, which
// jobs are admitted, what each of them may hold and what that is worth to an objective, when a
// plan is legal, and what its objective is. A backend solves a Problem; it knows no results.
package problem
