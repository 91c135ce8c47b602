package exact

// NewAsking returns a backend that asks about time whenever it has done so much work.
func NewAsking(work int) *Solver { return &Solver{every: work} }
