package model

// Effort is how much goes into each way of searching. Tests make it small, so that
// problems of known optimum take every way.
type Effort struct {
	// Quantum is the work between two questions about time, in operations of an inner
	// loop: well below a millisecond of one core.
	Quantum int
	// MinSampled is the number of jobs from which on prices are those of a sample first. From
	// 1,000 jobs on, BenchmarkDecision takes 2.8 times the CPU time at 700 jobs.
	MinSampled int
	// MaxLabels limits the labels of one step of pricing. A job of the sizes and horizons
	// that occur stays far below; beyond it, labels are merged in pairs so that the value
	// returned stays an upper bound.
	MaxLabels int
	// MaxColumns limits the plans of one job that a core search takes on.
	MaxColumns int
	// Visits limits the partial plans looked at before a table is filled to list columns.
	// Without them BenchmarkInstances takes 1.6 times the CPU time.
	Visits int
	// FirstWidth and LastWidth bound the states of a beam. Beyond the last the search
	// ends. With a single width of 2,000 BenchmarkHardEnd loses a proof, with 1,000
	// TestWorkOfAProof does, and with 4,000 decisions along traces take 2.7 times the CPU time.
	FirstWidth, LastWidth int
	// FirstStates and LastStates bound the states of a step that are kept at prices per size.
	FirstStates, LastStates int
	// EasyWork is the work of core searches before prices per size are sought, in addition to a
	// multiple of the work of a rollout: decisions along traces are proven within it. With 2
	// million BenchmarkInstances takes 1.7 times the CPU time, with 20 million the sweeps of
	// BenchmarkSizePrices take 1.2 times.
	EasyWork int
	// SizesWork goes into prices per size, and into searching what is left at them, each
	// besides a multiple of what core searches had before.
	SizesWork int
	// BundleWork bounds one evaluation of the bound at prices per size; where it takes more,
	// there are none.
	BundleWork int
	// DenseRows is the size of Newton's system up to which it is factorised; a larger one
	// is solved by conjugate gradients.
	DenseRows int
}

// Usual returns the effort of a backend.
func Usual() *Effort {
	return &Effort{
		Quantum:     100_000,
		MinSampled:  400,
		MaxLabels:   4096,
		MaxColumns:  20_000,
		Visits:      400,
		FirstWidth:  1000,
		LastWidth:   4000,
		FirstStates: 16,
		LastStates:  1024,
		EasyWork:    10_000_000,
		SizesWork:   100_000_000,
		BundleWork:  10_000_000,
		DenseRows:   120,
	}
}
