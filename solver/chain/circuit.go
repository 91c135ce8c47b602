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

// circuit is what a breaker knows of its backend. The time is handed to it, and it
// is not safe for concurrent use.
//
// It is up until the backend has failed so many times in a row. Then it rests, and
// once the rest is over a single try, the trial, decides whether it is up again or
// rests for longer.
type circuit struct {
	// allowed is how many failures in a row make it rest: first for shortest, then
	// twice as long each time, up to longest.
	allowed           int
	shortest, longest time.Duration

	failures int       // in a row
	cause    string    // of the last of them
	since    time.Time // of the last change between up and resting
	rest     time.Duration
	until    time.Time // the end of the rest
	trial    bool      // whether a trial is under way
	// epoch is that of the tries that count. Those begun before the state changed
	// speak of a time that is over.
	epoch int
}

// resting reports whether no try but the trial is admitted.
func (c *circuit) resting() bool { return c.rest > 0 }

// admit returns a ticket for a try, which has to be settled once, and whether the
// try may be made now.
func (c *circuit) admit(now time.Time) (ticket int, admitted bool) {
	if c.resting() {
		if c.trial || now.Before(c.until) {
			return 0, false
		}
		c.trial = true
	}
	return c.epoch, true
}

// settle takes note of what a try says, with the cause where it failed, and reports
// whether the backend came up or was sent to rest by it.
func (c *circuit) settle(ticket int, now time.Time, says verdict, cause string) (changed bool) {
	if ticket != c.epoch {
		return false
	}
	c.trial = false
	switch says {
	case saysWorks:
		c.failures, c.cause = 0, ""
		if !c.resting() {
			return false
		}
		c.rest, c.since = 0, now
		c.epoch++
		return true
	case saysFails:
		c.failures++
		c.cause = cause
		if !c.resting() && c.failures < c.allowed {
			return false
		}
		c.sendToRest(now)
		return true
	default:
		return false
	}
}

// sendToRest begins a rest, twice as long as the last one where one has just ended.
func (c *circuit) sendToRest(now time.Time) {
	if !c.resting() {
		c.since = now
	}
	c.rest = min(max(2*c.rest, c.shortest), c.longest)
	c.until = now.Add(c.rest)
	c.epoch++
}
