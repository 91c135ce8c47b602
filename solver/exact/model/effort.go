package model

// Effort contains the work limits of the search. Tests use small limits, so that problems with a
// known optimum reach every stage. Work counts operations of inner loops. BenchmarkInstances,
// BenchmarkHardEnd, BenchmarkSizePrices and BenchmarkAgainstHiGHS are run by go test ./solver/exact
// -run '^$' -bench NAME -benchtime 1x, and BenchmarkDecision by go test . -run '^$' -bench
// Decision.
type Effort struct {
	// CheckInterval is the work between two checks of the deadline: well below one millisecond on one
	// core. BenchmarkStretch shows the longest interval without a check.
	CheckInterval int
	// MinSampledJobs is the number of jobs from which on the search for prices starts with a sample.
	// With 1,000, BenchmarkDecision takes 2.8 times the CPU time at 700 jobs.
	MinSampledJobs int
	// MaxLabels limits the labels of one step of pricing. Beyond it, labels are merged in pairs,
	// and the result remains an upper bound. It limits the memory. With 32, BenchmarkSolve/jobs=200 is
	// not proven.
	MaxLabels int
	// MaxColumns limits the plans of one job in a core search. It trades memory for the size of the
	// gaps that a core search closes. With a quarter BenchmarkHardEnd takes 1.2 times the work, and with
	// 4 times the number 1.4 times the CPU time.
	MaxColumns int
	// FirstVisits limits the partial plans that are examined before a table is filled to list columns.
	// Without this first attempt BenchmarkInstances takes 1.6 times the CPU time.
	FirstVisits int
	// FirstWidth and LastWidth are the first and the last width of the beam of a core search. With
	// a single width of 2,000 BenchmarkHardEnd loses a proof, with 1,000 TestWorkOfAProof does, and
	// with 4,000 decisions along traces take 2.7 times the CPU time.
	FirstWidth, LastWidth int
	// FirstStates and LastStates are the first and the last width of the beam of a stepwise search.
	// With a quarter or 4 times FirstStates BenchmarkAgainstHiGHS loses a proof, and with a quarter of
	// LastStates it loses 2.
	FirstStates, LastStates int
	// FirstCoreWork is the work limit of the first core searches, before prices per size, in addition to
	// a multiple of the work of a rollout. It suffices to prove decisions along traces. With 2
	// million BenchmarkInstances takes 1.7 times the CPU time, and with 20 million the
	// hyperparameter sweeps of BenchmarkSizePrices take 1.2 times the CPU time.
	FirstCoreWork int
	// SizePricesWork is the work limit of the bundle method, and of the last stepwise search. With a
	// fifth BenchmarkHardEnd loses a proof with 24 steps.
	SizePricesWork int
	// MaxEvaluationWork limits the work of one evaluation of the bound at prices per size. If it takes
	// more, the stage is skipped. With a quarter BenchmarkHardEnd skips it for 24 steps, 32 sizes and 50
	// jobs, in a third of the CPU time. No benchmark shows an effect on proofs.
	MaxEvaluationWork int
	// MaxDenseRows is the largest number of rows of Newton's system that is solved by Cholesky
	// factorization. Larger systems are solved by the conjugate gradient method.
	// With 30 BenchmarkHardEnd takes 1.2 times the CPU time, and with 480 BenchmarkAgainstHiGHS loses a
	// proof.
	MaxDenseRows int
}

// DefaultEffort returns the work limits of the backend.
func DefaultEffort() *Effort {
	return &Effort{
		CheckInterval:     100_000,
		MinSampledJobs:    400,
		MaxLabels:         4096,
		MaxColumns:        20_000,
		FirstVisits:       400,
		FirstWidth:        1000,
		LastWidth:         4000,
		FirstStates:       16,
		LastStates:        1024,
		FirstCoreWork:     10_000_000,
		SizePricesWork:    500_000_000,
		MaxEvaluationWork: 10_000_000,
		MaxDenseRows:      120,
	}
}
