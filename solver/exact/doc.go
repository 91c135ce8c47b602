// Package exact finds an optimal plan and proves its optimality, without an external solver.
//
// The method is Lagrangian relaxation followed by a core search. The jobs of the model share only
// the capacity of the pool, which is one constraint per time step. A Lagrange multiplier per step,
// the price of a node, separates the model into one small problem per job. The best prices give an
// upper bound that is slightly above the optimum. At these prices almost all plans of almost all
// jobs are excluded by their reduced cost. The core problem of the remaining plans is solved
// exactly.
//
// Three packages contain the search: model, heuristics and horizon. The package comment of horizon
// lists its stages and files. Each file implements one idea and begins with its mathematics. Only
// model and horizon matter for the correctness of a bound. Package heuristics proposes prices and
// plans. Package horizon computes the bound at any prices itself, and accepts a plan only if it is
// legal and with the value that model computes.
//
//	model/instance.go      the problem in the units of the search, and tie costs
//	model/quotas.go        limits and floors of groups
//	model/plan.go          plans, their values and their legality
//	model/estimate.go      the scale of the objective, and the first bound
//	model/classes.go       classes of identical jobs
//	model/columns.go       the columns (plans) generated for a class
//	model/curve.go         jobs that cannot finish in the horizon, priced by binary search
//	model/rates.go         upper concave hulls
//	model/sizeindex.go     the numbering of prices per size
//	model/effort.go        work limits of the search
//	model/clock.go         counts of work, and checks of the deadline
//	model/memory.go        memory that searches reuse
//
//	heuristics/start.go    initial prices
//	heuristics/descent.go  the best node prices, by column generation with a smoothed master
//	heuristics/smooth.go   the smoothed value of separable jobs
//	heuristics/newton.go   Newton's method
//	heuristics/bundle.go   the best prices per size, by a proximal bundle method
//	heuristics/builder.go  a legal plan from prices, job by job
//	heuristics/rollout.go  a legal plan from prices, step by step
//
// A problem with several node types or size limits has one step. Package rows solves it, with or without
// groups, on its own data types and states its own lemmas. File rows.go converts between the two.
//
// # Lemmas
//
// Only horizon.Search.prove lowers the upper bound, and it records the lemma that proves the new
// bound. The value of a plan is its objective minus its tie cost, in multiples of Instance.Unit. In
// the lemmas, u is the value of a job, n_t the nodes of its plan in step t, N_t the capacity, and
// lambda_t the price of a node. The reduced cost of a plan, called its loss, is phi_i - (u - lambda
// n), where phi_i is the maximum of u - lambda n over all plans of job i.
//
// "every job alone" (model/estimate.go). Compared with its smallest size, a job gains at most the
// value that it would have alone in the pool. It also gains at most the rate of its best size for
// each additional node and step. A fractional knapsack of the free nodes bounds the sum. Rounding:
// the bound is raised by a fraction of the sum of all magnitudes.
//
// "steps alone" (horizon/knapsack.go, search.go). If no job can finish in the horizon, the objective
// is a sum over steps, and each step is a knapsack. The value of a step is at most lambda N + sum
// over jobs of max (u - lambda n), minus the loss that every solution has. The dynamic program
// finds the smallest loss below a limit. If it finds none, every solution loses at least the limit.
//
// "node prices" (horizon/lagrangian.go, pricing.go; model/curve.go). For all prices lambda >= 0, the
// value of a plan is at most L(lambda) = sum_t lambda_t N_t + sum_i phi_i. If labels are merged to
// limit their number, phi only increases. It also only increases because a job counts as finished
// when it has completed 1 - 1e-12 of its demand. A finished job has its smallest size: all sizes
// have the same value then, and the smallest one has the lowest cost.
//
// "core" (horizon/fixing.go, steptable.go, lookahead.go, core.go, beam.go). The value of a plan is
// L(lambda) minus the losses of its jobs and minus the price of the nodes that it leaves idle. All
// terms are at least 0. A plan that loses less than a limit consists of columns that each lose less
// than the limit, and all of them are enumerated. Therefore the smallest loss is at least the
// minimum of the limit, the best loss found, and the look-ahead bounds of the states that the beam
// dropped. Losses are computed relative to the best known column, whose value is at most phi. They
// are therefore too small rather than too large. Rounding: a negative loss counts as 0, and a
// solution that improves the incumbent by less than Instance.Precision is not searched for.
//
// "size prices" (horizon/sizeprices.go). For all prices x of sizes, of any sign, each job pays x to
// the steps. The value of a plan is at most the sum of the maxima of the jobs, net of x, and the
// maxima of the steps, which are knapsacks with the values x. The tables that prune labels never
// underestimate: the value-to-go at a share is at most the value-to-go at the next larger tabulated
// share. It is also at most the value-to-go at the next smaller one plus the value of serving the
// difference at once.
//
// "step by step" (horizon/stepwise.go). The value of a plan through a state at the start of a step is
// at most the value so far, plus the value-to-go of each job net of x, plus the maxima of the
// remaining steps. A state is dominated if another state has at least the same value after paying
// for all demand that its jobs were served less: the same remaining sizes then lead to at least the
// same value. Instance.Precision covers the rounding error.
//
// "group prices" (horizon/groups.go). Let mu_q >= 0 be the multiplier of the limit of group q, and
// nu_q the multiplier of its floor, with 0 <= nu_q <= the quota price. A node costs a job the sum
// of mu - nu over all groups that contain the job. The value of a plan is at most the sum of the
// maxima of the jobs, of mu_q limit_q, and of -nu_q floor_q.
//
// "group tables" (horizon/grouptable.go). The difference between this bound and the value of a plan
// is a sum of losses of jobs and groups, which are all at least 0. The table of the pool contains
// the smallest loss below a limit. If it contains none, every plan loses at least the limit.
//
// For a problem of one step, the gap can also be computed without the bound (horizon/recount.go). The
// gap is the loss of the incumbent minus the smallest loss in the tables. Its rounding error
// depends only on the losses, which matters if values and prices are much larger than the
// objective. Solve calls Recount if rounding alone prevents a proof after a complete search.
//
// # Rounding
//
// The lemmas are proven for real numbers. File lemmas.go bounds the total rounding error of a bound
// in one place. A bound is a sum with one term per job, and each term has a few operations per
// step. Its error is at most
//
//	(jobs + 4 steps + 16) 2^-53 (|bound| + 3 sum of |values| + 4 cost of the pool)
//
// where the values are the values of the jobs in a legal plan. A problem counts as solved if the gap
// is at most this error plus Instance.Precision. A lemma counts as contradicted if the value of a
// legal plan exceeds the bound by more than that. The bound that Solve returns is raised by this
// error and by the upper bound on the total tie cost.
package exact
