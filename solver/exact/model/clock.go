package model

import (
	"context"
	"runtime"
	"slices"
)

// yieldEvery is the number of questions after which other goroutines may run: less than a
// millisecond of work. Go would let a search run for 10 ms while a server has calls to read and to answer.
const yieldEvery = 8

// Clock asks a context whether time is up, by the work done since it asked last: often
// enough to keep time whatever a problem's shape, seldom enough to cost nothing. It
// serves one goroutine.
type Clock struct {
	ctx context.Context
	// every is the work between two questions, left what remains of it.
	every, left int
	// Work is all that was counted.
	Work int
	// asked counts the questions.
	asked int
	Ended bool
}

// NewClock returns a clock that asks whenever that much work was done.
func NewClock(ctx context.Context, every int) *Clock { return &Clock{ctx: ctx, every: every} }

// Past reports whether a count of work was reached, 0 being never.
func (clock *Clock) Past(until int) bool { return until > 0 && clock.Work > until }

// StableSort sorts items, equal ones in the order they are in, in pieces, so that time is
// kept. It returns false, and leaves them in any order, if time is up.
func StableSort[Item any](clock *Clock, items []Item, compare func(a, b Item) int) bool {
	const piece = 128 // Longer ones take less time to merge than to sort in place.
	for from := 0; from < len(items); from += piece {
		part := items[from:min(from+piece, len(items))]
		slices.SortStableFunc(part, compare)
		if clock.Up(16 * len(part)) {
			return false
		}
	}
	if len(items) <= piece {
		return true
	}
	from, to := items, make([]Item, len(items))
	for width := piece; width < len(items); width *= 2 {
		for start := 0; start < len(items); start += 2 * width {
			middle, end := min(start+width, len(items)), min(start+2*width, len(items))
			a, b, out := from[start:middle], from[middle:end], to[start:start]
			for len(a) > 0 && len(b) > 0 {
				if compare(a[0], b[0]) <= 0 {
					out, a = append(out, a[0]), a[1:]
				} else {
					out, b = append(out, b[0]), b[1:]
				}
				if clock.Up(4) {
					copy(items, from)
					return false
				}
			}
			copy(to[start+len(out):end], a)
			copy(to[start+len(out)+len(a):end], b)
		}
		from, to = to, from
	}
	copy(items, from)
	return true
}

// Up counts work and reports whether time is up.
func (clock *Clock) Up(work int) bool {
	clock.Work += work
	if clock.left -= work; clock.left < 0 && !clock.Ended {
		clock.left = clock.every
		clock.Ended = clock.ctx.Err() != nil
		if clock.asked++; clock.asked%yieldEvery == 0 {
			runtime.Gosched()
		}
	}
	return clock.Ended
}
