// Package rows solves one step of a pool with several node types or size limits, with or without
// groups. Each job chooses one of its options: a number of nodes of one type, or none. The nodes that
// count in a row must not exceed its capacity, and the sum of values is maximized. This is a
// multiple-choice knapsack with a few capacity constraints.
//
// Each type has a row for its capacity, in which all of its nodes count, and one for each size limit.
// The rows of a type are nested: the nodes that count in a row count in all rows before it. If an option
// is no multiple of its piece, the remainder counts in fewer rows than its other nodes. Groups
// bound the nodes of some of the jobs, of all types or of one. Such a bound is a window.
//
//	rows.go       the problem, the search, and the upper bound
//	prices.go     the prices of rows (Lagrange multipliers), by Newton's method
//	bound.go      the Lagrangian bound, and the loss (reduced cost) of each option
//	counts.go     the search over counts of identical jobs, by branch and cut
//	cuts.go       constraints that only integers satisfy
//	simplex.go    the linear programs of this search, by the dual simplex method
//	core.go       the core search over the options with small losses
//	beam.go       the states of the core search
//	windows.go    the bounds of groups
//	tree.go       the core problem with groups, and the tables of leaf groups
//	joint.go      the tables of a row together with a leaf group
//	treesearch.go the core search with groups
//	tighten.go    better prices for the tables
//	change.go     changes of choices with groups
//	reduce.go     options that no optimal choice contains
//	tie.go        the preference between choices of equal value
//
// Heuristics only affect the time of the search. The bound is computed at any prices, and a choice
// counts only if it is legal and with the sum of its values.
//
// # Lemmas
//
// Only search.prove lowers the bound, and it records the lemma that proves the new bound. In the
// lemmas, v is the value of an option, N the capacities of the rows, lambda their prices, and c the cost of
// an option: the sum over rows of lambda times the nodes of the option that count. It is Lambda k for k nodes
// that count in the same rows, where Lambda is the sum of the prices of these rows, and a sum of two such
// products if there is a remainder. Each capacity is rounded down to a multiple of the greatest common divisor
// of the nodes that count, because every choice leaves the rest idle.
//
// "node prices" (bound.go). For all prices lambda >= 0 the value of a legal choice is at most
//
//	D = sum over rows of lambda N + sum_i phi_i,   phi_i = max over options (v - c),
//
// because the nodes that count in a row cost at most as much as its capacity. Rounding: the sums
// Lambda are rounded, and lambda is the difference of two of them, which is at least 0. Products and
// other sums have twice the digits of a float64. Each addition loses at most 2^-102 of the sum of
// magnitudes. This error is added to D before D is rounded up once.
//
// "counts" (counts.go, cuts.go). Jobs with the same options and the same current allocation form a class. The
// variables are the numbers of jobs of each class per option. The search divides the choices in parts,
// each with bounds on these counts. For all prices >= 0 of rows and cuts, the value of a legal choice in a part
// is at most
//
//	sum over rows and cuts of price times nodes + sum over classes of the largest sum of
//	(v - price of the option) over its jobs, with counts within the bounds,
//
// because the choice satisfies the rows and cuts. The jobs of a class take the options in the order of this
// difference. One more job with an option reduces the sum by at least what the option is worth less than
// the option of the last job. An option is excluded from a part if all choices with it are worth less than the
// incumbent. The bound is the maximum over all parts that together contain the other choices. A cut is a
// sum of rows and classes with multipliers, whose weights and then total are rounded down: the counts are
// integers of at least 0. Rounding: as in "node prices". Cuts are computed in integers.
//
// "core" (bound.go, core.go, beam.go). The value of a choice is D minus its losses, which are at
// least 0: phi_i - (v - c) of each job, and lambda for each idle node of each row. A
// choice that loses less than a limit consists of options that each lose less than the limit, and
// all of them are listed. States are reached job by job. Of two states with the same nodes only the
// one with the smaller loss is kept. A lower bound on the remaining loss is a sum over rows
// (tails). The tail of a row is the smallest loss that brings the nodes of the row within its
// capacity, if each option assigns its loss to the rows with a price that it changes. The tail of
// a row without a price only excludes states that the remaining jobs cannot bring back to the
// capacity. Therefore every choice loses at least the minimum of the limit, the best loss found, the
// bounds of the states that the beam dropped, and the losses of states above the best one. Rounding:
// each loss is rounded down, and a sum of n losses is reduced by n 2^-52 of itself, where each size limit
// counts as one more loss, for its own sum and for its rounded price. If two states
// with the same nodes differ by less than the rounding error, ties decide, and this difference is
// subtracted for each job.
//
// "node prices" with groups (windows.go, bound.go). A window of a group with limit L, floor F and quota
// price p has a price y >= -p. Its part of D is the largest y U - p max(0, F - U) of all U <= L: y L if
// y > 0, otherwise y F. If there is no limit, y <= 0, and if there is no floor, y >= 0. A floor above the
// limit counts as the limit, and the cost of the rest is constant. Rounding: all prices are multiples of
// a power of two and at most 2^45 times as large, so that the sums of the prices of an option, at most
// 2^7, are exact. Thus an option pays exactly the prices whose rows and windows count it.
//
// "tree" (tree.go, joint.go, treesearch.go). The value of a choice is D minus its losses, which are at least
// 0: those of "core", and those of the windows. A window loses its part of D minus y U + p max(0, F - U). Jobs are
// decided leaf group by leaf group. The table of a leaf group has the smallest loss T(m, x) of its jobs from m on and
// of one of its windows, by the excess nodes x of the window before job m. For any table T the losses of the leaf group are
//
//	T(0, 0) + sum over its jobs of (loss of the option + T(m+1, x') - T(m, x)),
//
// and the reduced loss of an option is a lower bound on its term. The tails of the other rows and windows divide the
// reduced losses as in "core", and the bound of a state is the sum of its losses, of T(m, x), of the tails, and of the
// same at the start of the later leaf groups. Options with which a leaf group loses more than the limit minus the smallest
// losses of the others are left out. The joint table of a row has the smallest sum of the loss of the row and of 1/k of
// the losses of the leaf groups, where k is the number of priced rows of the leaf group, so that the sum over all rows is
// a lower bound, too. States, ties and dropped states are treated as in "core". When the last job of a window is decided,
// its loss is added to the state and its excess nodes are forgotten. Rounding: every number in a table or a state is a sum
// of numbers of at least 0, of which each choice has at most n: one per job, row and window. Its relative error is below
// n 2^-52. A reduced loss is a difference of two of them, with an error below 2^-51 of the limit, once per job. Together,
// less than (n + 16) 2^-50 of the limit, which is subtracted from the proven loss, as are the differences that ties decide.
//
// If a search completes but rounding leaves a gap between the choice and the bound, it is repeated
// without the options that reduce removes. At any prices, the loss of a choice relative to the sum
// of the largest values of the jobs is at least the loss of each of its options relative to the
// largest value of its job. With groups, the cost of the nodes below floors is added to the loss
// of the incumbent, because every other choice pays at least what all choices pay. No job uses more nodes of a type
// than the smallest options of the other jobs leave. Rounding: the loss of a choice is added up job by job, no term is below 0, and it is
// rounded up by 2^-52 of itself for each job.
//
// If the value of a legal choice exceeds a bound, the lemma of the bound is contradicted.
// Result.Contradiction then names the lemma, and the result claims no bound.
package rows
