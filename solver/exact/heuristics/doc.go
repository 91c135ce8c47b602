// Package heuristics finds prices and plans for the exact search. Its results affect only the time
// of the search, never the correctness of a proof: the caller evaluates the prices and checks the
// plans, and this package computes no bound.
package heuristics
