// Package milp holds the model of a decision as data, for solvers that are
// programs of their own: a mixed-integer linear program in one of two
// formulations, its file in free MPS, and the way back from a solver's values to a
// plan.
//
// The two have the same optimum. PAPER is the paper's section "Final Formulation",
// constraint by constraint. ONE_HOT says the same with one binary per job, step and
// size, and its linear relaxation is far tighter.
//
// # What both leave open to the reader of the paper
//
// K, n_min and n_max are those of the job: its legal sizes, the smallest and the
// largest of them. A size of 0, which admission may add, is a size like any other
// that serves nothing. In the first step a size serves what
// solver.AdmittedJob.FirstStepWork says, which holds the rescale delay, and in
// later steps StepWork; both stand for p * k * 0.8^log2(k). The objective is that of
// solver.AdmittedJob.Gain; ONE_HOT has OptionValue as well.
//
// # The unit of demand
//
// Demand may be anything between a millisecond and centuries, and in one unit for
// all jobs the matrix would defeat the tolerances of a solver. The paper chooses
// the unit by p, its time step adjustment parameter. Here every job has a unit of
// its own: what its smallest training size serves in one step, or its whole demand
// if that is less. Then a size above 0 serves about one unit or a few, p is 1 for
// an ordinary job whose sizes begin with 1, and its speeds stand in the file as
// the paper has them: 1, 1.6, 2.56, 4.096, 6.5536. No size serves more than the
// whole demand in a step, which s <= d has in it anyway but a solver's tolerances
// have not.
//
// The objective is scaled by a power of ten to between a thousand and a million,
// for the same reason; Model.Objective translates what a solver reports.
package milp
