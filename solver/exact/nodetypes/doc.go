// Package nodetypes solves one step of a pool with several types of nodes: each job holds
// one of its options, nodes of one type or none, the nodes that jobs hold of a type are at
// most its capacity, and the sum of values is to be largest. That is a multiple-choice
// knapsack with a few capacities.
//
//	nodetypes.go  the problem, the search, and what counts as proven
//	prices.go     a price per type, by Newton's method
//	bound.go      the bound at prices, and what each option loses against it
//	kinds.go      the search of equal jobs, by how many hold what
//	core.go       the search over the options that lose little
//	beam.go       the states of that search
//	reduce.go     options that are in no best choice, where rounding leaves something open
//	tie.go        which of two choices of equal value is preferred
//
// Prices and plans can be slow to come, never wrong: the bound is worked out at whatever the
// prices are, and a choice counts only if it is legal, at the sum of its values.
//
// # Lemmas
//
// A bound is written in one place, search.prove, under the name of the lemma that proves it.
// v is the value of an option, k its nodes, g its type, N the capacities.
//
// "node prices" (bound.go). For prices lambda >= 0 every legal choice has at most
//
//	D = sum_g lambda_g N_g + sum_i phi_i,   phi_i = max over options (v - lambda_g k),
//
// because the nodes it holds of a type cost no more than the capacity does. Rounding: products
// and sums are carried to twice the digits of a number, each addition losing at most 2^-102
// of the magnitudes added up; that is added to D before it is rounded up, once.
//
// "kinds" (bound.go, kinds.go). Jobs with the same options are one kind: what a choice loses
// depends only on how many of each kind hold which option. It is a sum over types, each of what
// its jobs lose and lambda_g for each node left over, and of what jobs without nodes lose. All
// counts of jobs that lose less than a limit are listed type by type, those apart that leave the
// types to come too much: at least the largest, over kinds, of what these lose for that many of the
// kind. So every choice loses at least the lesser of the limit and the best loss found. Rounding: as
// in the core, for each job, and for each type twice.
//
// "core" (bound.go, core.go, beam.go). A choice has D less its losses, none below 0:
// phi_i - (v - lambda_g k) of each job, and lambda_g for each node of g that is left over. One
// that loses less than a limit consists of options that do, all of which are listed. States
// are reached job by job; those of the same nodes are one, with the lesser loss. What a state
// loses yet is at least the sum over types of what each, with its share of the losses, must
// lose by itself to bring the nodes held into its capacity (tails). So every choice loses at
// least the least of four: the limit, the best loss found, the tails of the states that the
// beam dropped, and those of states that lose more than the best found. Rounding: each loss is
// rounded down, a sum of n of them is taken to be short by n 2^-52 of itself, and where two
// states of the same nodes differ by less than rounding, so that ties decide, that is taken
// off for each job.
//
// Where a search came to its end and rounding leaves a gap between the choice and the bound, it
// is made once more without the options that reduce names: whatever the prices, a choice loses
// against the sum of the jobs' best values at least what each of its options does against its
// own job's, and no job holds more of a type than the others must leave. Rounding: what a choice
// loses is added up job by job, nothing below 0, and rounded up by 2^-52 of it for each.
//
// A legal choice above a bound contradicts its lemma. Result.Contradiction then says so, and
// nothing is proven.
package nodetypes
