package chain

import "time"

// verdict is what a try says of a backend.
type verdict int

// The verdicts.
const (
	saysNothing verdict = iota // such as one whose caller left
	saysWorks
	saysFails
)

// MostFailures is how many failures in a row open a breaker: first for the shortest time,
// then twice as long each time, up to the longest.
const (
	MostFailures     = 5
	ShortestOpenTime = 30 * time.Second
	LongestOpenTime  = 5 * time.Minute
)

// circuit is what a breaker knows of its backend. The time is handed to it, and it
// is not safe for concurrent use.
//
// It is closed until the backend has failed a number of times in a row. Then it opens, and
// once its open time is over it is half-open: a single try decides whether it closes or
// stays open for longer.
type circuit struct {
	BackendState
	openFor time.Duration // 0 while it is closed
	// epoch is that of the tries that count. Those begun before the state changed
	// are about a time that is over.
	epoch int
}

// admit returns a ticket for a try, which has to be settled once, and whether the
// try may be made now.
func (c *circuit) admit(now time.Time) (ticket int, admitted bool) {
	if !c.Up {
		if c.HalfOpen || now.Before(c.OpenUntil) {
			return 0, false
		}
		c.HalfOpen = true
	}
	return c.epoch, true
}

// settle takes note of what a try says, with the cause where it failed, and reports
// whether that closed or opened the circuit.
func (c *circuit) settle(ticket int, now time.Time, says verdict, cause string) (changed bool) {
	if ticket != c.epoch {
		return false
	}
	c.HalfOpen = false
	switch says {
	case saysWorks:
		c.Failures, c.Cause = 0, ""
		if c.Up {
			return false
		}
		c.BackendState, c.openFor = BackendState{Up: true, Since: now}, 0
		c.epoch++
		return true
	case saysFails:
		c.Failures++
		c.Cause = cause
		if c.Up && c.Failures < MostFailures {
			return false
		}
		c.trip(now)
		return true
	default:
		return false
	}
}

// trip opens the circuit, for twice as long as before where it was half-open.
func (c *circuit) trip(now time.Time) {
	if c.Up {
		c.Up, c.Since = false, now
	}
	c.openFor = min(max(2*c.openFor, ShortestOpenTime), LongestOpenTime)
	c.OpenUntil = now.Add(c.openFor)
	c.epoch++
}
