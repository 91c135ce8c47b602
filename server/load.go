package server

// Load is how busy a server is, in Allocate calls.
type Load struct {
	// Inflight are being decided, and MaxInflight the most that may be.
	Inflight, MaxInflight int
	// Queued wait for their turn, and MaxQueued the most that may.
	Queued, MaxQueued int
	// Shed were turned away since the start.
	Shed int64
}

// load returns how busy the server is now.
func (a *admission) load() Load {
	return Load{
		Inflight: len(a.turns), MaxInflight: cap(a.turns),
		Queued: int(min(a.waiting.Load(), a.maxQueue)), MaxQueued: int(a.maxQueue),
		Shed: a.turnedAway.Load(),
	}
}
