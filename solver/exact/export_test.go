package exact

// NewAsking returns a backend that asks about time each time that it has done this much work.
func NewAsking(work int) *Solver { return &Solver{every: work} }
