package model

import (
	"cmp"
	"context"
	"math"
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

// SortFalling sorts items by falling numbers, equal ones in the order they are in, with spare
// memory for as many. It returns false, and leaves them in any order, if time is up.
func SortFalling[Item any](clock *Clock, items, spare []Item, number func(Item) float64) bool {
	const bits, few = 11, 1000 // Fewer take less time to compare than the counts to add up.
	if len(items) < few {
		slices.SortStableFunc(items, func(a, b Item) int { return cmp.Compare(number(b), number(a)) })
		return !clock.Up(16 * len(items))
	}
	// Digit by digit, the last first, of whole numbers that rise as the numbers fall.
	var starts [1 << bits]int
	for shift := 0; shift < 64; shift += bits {
		digit := func(item Item) uint64 {
			whole := math.Float64bits(number(item))
			if whole>>63 == 0 {
				whole = ^whole &^ (1 << 63)
			}
			return whole >> shift & (1<<bits - 1)
		}
		clear(starts[:])
		for n := range items {
			starts[digit(items[n])]++
		}
		before := 0
		for d, count := range &starts {
			starts[d], before = before, before+count
		}
		for n := range items {
			at := &starts[digit(items[n])]
			spare[*at] = items[n]
			if *at++; n%1024 == 0 && clock.Up(4096) {
				return false
			}
		}
		items, spare = spare, items
	}
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
