// Package milp builds the mixed-integer linear program (MILP) of a decision for external solvers,
// writes it as a free MPS file, and converts the values of a solver back to a plan.
//
// There are two formulations with the same optimum. FormulationPaper has the constraints of the paper's
// section "Final Formulation" verbatim. FormulationOneHot has one binary per job, step and size, and a
// much tighter linear relaxation.
//
// # Parameters that the paper does not define
//
// K is the set of legal sizes of the job, and n_min and n_max are the smallest and the largest of them.
// A size of 0, which the admission may add, is a size without progress. The work of a size in a step, p
// * k * 0.8^log2(k) in the paper, is problem.AdmittedJob.FirstStepWork in the first step, which
// includes `resize_delay`, and StepWork in later steps. The objective uses problem.AdmittedJob.Gain,
// and FormulationOneHot also OptionValue.
//
// # Unit of demand
//
// Demands range from milliseconds to centuries. With one unit for all jobs, the coefficients would
// exceed the tolerances of solvers. The paper chooses the unit with p, its time step adjustment
// parameter. This package has one unit per job: the work of its smallest training size in one step, or
// its demand if that is less. A size above 0 then does about one unit of work per step, p is 1 if the
// smallest size is 1, and its speeds in the file are the speeds of the paper: 1, 1.6, 2.56, 4.096,
// 6.5536. The work of a size in a step is limited to the demand. This does not change the model,
// because s <= d, but it avoids errors due to tolerances.
//
// For the same reason, the objective is scaled by a power of ten to between 1e3 and 1e6.
// Model.Objective converts the values that a solver reports.
package milp
