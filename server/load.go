package server

// Load is how busy a server is at a moment.
type Load struct {
	// Inflight calls are being decided, of MaxInflight at most.
	Inflight, MaxInflight int
	// Queued calls wait for that, of MaxQueued at most; 0 means that there is no
	// queue.
	Queued, MaxQueued int
	// Shed is how many calls were turned away since the start.
	Shed int64
}

// load returns how busy the server is now.
func (a *admission) load() Load {
	return Load{Inflight: len(a.inflight), MaxInflight: cap(a.inflight), Shed: a.shed.Load()}
}
