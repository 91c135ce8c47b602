// Package exact proves the optimal plan of a problem without an external solver.
//
// Only the pool's capacity, one row per step, couples the jobs of the model. That
// makes it easy: a price per node and step turns it into one small problem per
// job, the best prices give an upper bound that is hardly above the optimum, and
// the few jobs that are not settled at those prices are searched exactly.
//
// Three packages, one file an idea, each opening with its mathematics. To check a proof,
// read model and proof; guess only makes it fast. It hands out prices and plans: proof works
// out the bound at any prices itself, and a plan counts only if it is legal, at the value
// that model gives it.
//
//	model/instance.go    the problem in the units of the search, and how ties are broken
//	model/quotas.go      the limits and floors of groups
//	model/plan.go        plans, their values, and which are legal
//	model/estimate.go    the scale of the objective, and the first bound
//	model/classes.go     which jobs are equal
//	model/columns.go     the plans found so far for equal jobs
//	model/curve.go       jobs that cannot finish in the horizon, priced by a look-up
//	model/rates.go       concave hulls
//	model/sizeindex.go   where the price of a size is
//	model/clock.go       when to ask whether time is up
//	model/memory.go      memory that the next search uses again
//
//	proof/proof.go       what proves a bound, and its rounding
//	proof/search.go      the stages of the search
//	proof/knapsack.go    one step by itself, solved exactly
//	proof/pricing.go     a job's best plan at given prices, by label setting
//	proof/lagrangian.go  the bound at given prices
//	proof/fixing.go      which plans of a job can still be part of a better solution
//	proof/steptable.go   the separable jobs of the core, completed exactly per step
//	proof/lookahead.go   what the jobs not yet decided still lose, at least
//	proof/core.go        dynamic programming over what survives
//	proof/beam.go        the states of that search
//	proof/sizeprices.go  the bound at a price per size instead of one per node
//	proof/decompose.go   where they are sought and searched at
//	proof/stepwise.go    the search at them, step by step
//	proof/groups.go      a tree of limits and floors, and its prices
//	proof/grouptable.go  tables merged along that tree
//	proof/recount.go     the gap of one step, of losses alone
//	proof/certificate.go the best prices per size, for others to check
//
//	guess/start.go       where the search for prices starts
//	guess/descent.go     the best prices: column generation on a smoothed master
//	guess/smooth.go      the smoothed value of jobs that cannot finish
//	guess/newton.go      Newton's step
//	guess/bundle.go      the best prices per size, by a proximal bundle
//	guess/builder.go     a legal plan from prices, job by job
//	guess/rollout.go     a legal plan from prices, step by step
//
// Where there are several types of nodes, the problem has one step and no groups: nodetypes
// solves it by itself, on plain data, and states its own lemmas; types.go converts.
//
// # Lemmas
//
// A bound is written in one place, proof.Search.prove, under the name of the lemma that
// proves it. Values are those of plans less tie cost, as shares of the largest gain; u is a
// job's value, n the nodes of its plan, N the capacity.
//
// "every job alone" (model/estimate.go). Beyond its smallest size no job gains more than it
// would alone in the pool, nor more per node and step than its best size does; the free
// nodes of all steps go to those that gain most. Rounding: added to the bound, as a share of
// all that was summed up.
//
// "steps alone" (proof/knapsack.go, search.go). Where no job can finish in the horizon, the
// objective is a sum over steps, each a knapsack. One has at most lambda N + sum over jobs of
// max (u - lambda n), less what every solution loses against that: its table has the least
// loss of all solutions that lose less than a limit, or else they all lose the limit.
//
// "node prices" (proof/lagrangian.go, pricing.go; model/curve.go). For prices lambda >= 0,
// every plan has at most L(lambda) = sum_t lambda_t N_t + sum_i phi_i, phi_i = max (u - lambda n)
// over the plans of the job. Labels that are merged for want of room raise phi, and so does
// counting a job as finished from 1 - 1e-12 of its demand on. A finished job holds its smallest
// size: all are worth the same, and the smallest costs least.
//
// "core" (proof/fixing.go, steptable.go, lookahead.go, core.go, beam.go). A plan has at most
// L(lambda) less the losses of its jobs, phi_i - (u - lambda n), and of the nodes that it
// leaves over. Plans that lose less than a limit consist of columns that do, all of which are
// listed. The least loss is thus at least the least of three: the limit, the best solution
// found, and the look-ahead's bound of each state that the beam dropped. Losses are counted from the
// best column known, which has at most phi: they are too small rather than too large.
// Rounding: losses below 0 become 0; a solution better than the one found by less than the
// instance's precision is not looked for.
//
// "size prices" (proof/sizeprices.go). For any prices x of sizes, those below 0 too, a plan
// pays in each job what it brings in the steps: it has at most the sum of every job's best
// value less x and every step's knapsack of x. The tables that cut off labels never fall
// short: between two shares no more follows than from the larger, nor than from the smaller
// with the rest served at once.
//
// "step by step" (proof/stepwise.go). For a state at the start of a step, the value so far,
// what can still follow of each job and what the steps to come bring at most bound what goes on
// from it. Of two states one goes only where the other has no less value after paying for what
// its jobs were served less: no sizes later make up for more. The precision covers rounding.
//
// "group prices" (proof/groups.go). With mu_q >= 0 for the limit and 0 <= nu_q <= price for
// the floor of every group, and a node costing a job what those around it add up to, a plan
// has at most the sum of every job's best, mu_q limit_q, and -nu_q floor_q.
//
// "group tables" (proof/grouptable.go). A plan falls short of that by losses of jobs and
// groups, none below 0. The pool's table has the least loss of all plans below a limit, or
// else they all lose the limit.
//
// In one step the gap can be had without the bound (proof/recount.go): it is what the plan
// loses less what the tables lose at least. Rounding: of sums of losses alone, which is little
// where values and prices are huge beside the objective. The recount is made where the account
// below leaves a complete search without a proof.
//
// # Rounding
//
// Lemmas are proven for real numbers. What arithmetic may put a bound below the truth is
// added up once, in proof.go: a bound is a sum of one term a job, each of a few a step, so
// that it is off by at most
//
//	(jobs + 4 steps + 16) 2^-53 (|bound| + 3 sum of |values| + 4 what the pool costs)
//
// where the values are those of a legal plan. No problem counts as solved, and no lemma as
// contradicted, by less than that and the precision of ties; the bound that Solve returns is
// raised by it, and by the most that all tie costs come to.
package exact
