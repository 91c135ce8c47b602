// Package snapshot defines the input of a decision: the pool, its jobs, groups and node types at
// one moment, their defaults and limits, and when they are valid. It knows neither the
// optimization model nor the result.
package snapshot
