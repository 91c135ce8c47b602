// Package horizon searches for an optimal plan of an instance, and proves an upper bound on the value
// of every plan. A Search starts with a simple bound and runs stages until the bound meets its best
// plan, the incumbent. The package comment of exact states the lemma of each bound.
//
//	lemmas.go                      the names of the lemmas, and the rounding error of bounds
//	search.go                      the stages, which use the files below
//
//	Search.searchPrices            the best price of a node in each step
//	    lagrangian.go              the Lagrangian bound
//	    pricing.go                 the best plan of a job at given prices, by label setting
//	Search.searchCore              the exact search of the plans with small losses
//	    fixing.go                  reduced-cost fixing: the plans of a job that can improve the incumbent
//	    steptable.go               the separable jobs, by dynamic programming
//	    lookahead.go               the look-ahead: a lower bound on the loss of undecided jobs
//	    core.go, beam.go           the search, and its states
//	Search.searchSizePrices        prices per size, if a short core search does not prove optimality
//	    decompose.go               the stage
//	    sizeprices.go              the Lagrangian decomposition with a price per size
//	    stepwise.go                a beam search by steps
//	    certificate.go             the prices per size as a certificate for an independent checker
//	Search.searchIndependentSteps  the only stage if no job can finish in the horizon
//	    knapsack.go                the multiple-choice knapsack of one step
//	Search.searchGroups            the only stage of one step with groups
//	    groups.go                  limits and floors of a tree of groups, and their multipliers
//	    grouptable.go              dynamic programming over the tree of groups
//
//	Recount                        for one step, if rounding alone prevents a proof by a Search
//	    recount.go                 the gap, computed from losses only
//
// The code uses these terms:
//
//   - A price is the Lagrange multiplier of a capacity constraint, per node and step.
//   - The net value of a plan of a job is its value minus its cost at the prices.
//   - A column is a plan of one job. Identical jobs are a class and share their columns.
//   - The loss of a plan is its reduced cost: the net value of the job's best plan minus its own.
//   - The base is the best plan of every job at the prices. Excess nodes are relative to the base.
//   - A job is finishing if it can complete its demand within the horizon. Otherwise it is
//     separable: its value is a sum over steps.
//   - The share of a job is the fraction of its demand that was served.
//   - The value-to-go of a job is the maximum value that it can still add, by share and step.
package horizon
