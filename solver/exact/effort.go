package exact

// effort is how much goes into each way of searching. Tests make it small, so that
// problems of known optimum take every way there is.
type effort struct {
	// quantum is the work between two questions about time, in operations of an inner
	// loop: well below a millisecond of one core.
	quantum int
	// minSampled is the number of jobs from which on prices are those of a sample first.
	minSampled int
	// maxLabels bounds the labels of one step of pricing. A job of the sizes and horizons
	// that occur stays far below; beyond it, labels are merged in pairs so that the value
	// returned stays an upper bound.
	maxLabels int
	// visits bounds the partial plans looked at before a table is filled to list columns.
	visits int
	// firstWidth and lastWidth bound the states of a beam. Beyond the last, splitting the
	// subproblem does more.
	firstWidth, lastWidth int
	// leftWidths are the widths of the beams over what is left at prices per size.
	leftWidths [2]int
	// easyWork is the work in which most instances are solved, before anything is made
	// ready for the others.
	easyWork int
	// sizesWork goes into prices per size, and into searching what is left at them, each
	// besides a multiple of what core searches had before.
	sizesWork int
	// denseRows is the size of Newton's system up to which it is factorised; a larger one
	// is solved by conjugate gradients.
	denseRows int
	// maxSubproblems bounds the subproblems of one search.
	maxSubproblems int
}

// usual returns the effort of a backend.
func usual() *effort {
	return &effort{
		quantum:        100_000,
		minSampled:     400,
		maxLabels:      4096,
		visits:         400,
		firstWidth:     1000,
		lastWidth:      4000,
		leftWidths:     [2]int{2000, 16_000},
		easyWork:       2_000_000,
		sizesWork:      100_000_000,
		denseRows:      120,
		maxSubproblems: 20_000,
	}
}
