// Package snapshot defines the input of a decision: the pool, its jobs, groups and node types at the
// decision time, with their defaults, limits and validation. It depends neither on the optimization
// model nor on the result.
package snapshot
