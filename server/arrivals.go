package server

import (
	"container/list"
	"sync"
)

// arrivals are the calls whose requests are being received. Where there are too many,
// the one that has been at it longest makes room for the newest: a good request is
// there within milliseconds, so it is hardly ever that of an honest caller. If the
// newest were refused instead, one caller who opens calls and sends nothing could keep
// out all the others.
type arrivals struct {
	limit int

	mutex sync.Mutex
	calls list.List // of chan struct{}, in the order in which they began
}

// begin notes a call. The channel is closed when the call has to make room; done is to
// be called when its request has been received, or will not be.
func (a *arrivals) begin() (crowdedOut <-chan struct{}, done func()) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for a.calls.Len() >= a.limit {
		close(a.calls.Remove(a.calls.Front()).(chan struct{}))
	}
	out := make(chan struct{})
	call := a.calls.PushBack(out)
	return out, func() {
		a.mutex.Lock()
		defer a.mutex.Unlock()
		a.calls.Remove(call) // It does nothing to one that has made room.
	}
}

// count returns how many requests are being received.
func (a *arrivals) count() int {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.calls.Len()
}
