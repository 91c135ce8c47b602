package exact

import "context"

// quantum is the work between two questions about time, in operations of an inner
// loop: well below a millisecond of one core.
const quantum = 100_000

// clock asks a context whether time is up, by the work done since it asked last: often
// enough to keep time whatever a problem's shape, seldom enough to cost nothing. It
// serves one goroutine.
type clock struct {
	ctx context.Context
	// every is the work between two questions, left what remains of it.
	every, left int
	// work is all that was counted.
	work  int
	ended bool
}

func newClock(ctx context.Context, every int) *clock { return &clock{ctx: ctx, every: every} }

// past reports whether a count of work was reached, 0 being never.
func (c *clock) past(until int) bool { return until > 0 && c.work > until }

// up counts work and reports whether time is up.
func (c *clock) up(work int) bool {
	c.work += work
	if c.left -= work; c.left < 0 && !c.ended {
		c.left = c.every
		c.ended = c.ctx.Err() != nil
	}
	return c.ended
}
