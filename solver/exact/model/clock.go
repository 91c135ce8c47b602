package model

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"
)

// yieldEvery is the number of checks after which other goroutines may run: less than one
// millisecond of work. Otherwise Go lets a search run for 10 ms while a server has requests to read
// and responses to send. BenchmarkCall (go test ./server -run '^$' -bench Call) would show a change
// in latency.
const yieldEvery = 8

// Clock checks the deadline of a context after a given amount of work. The interval between two
// checks is therefore short for problems of any shape, and the cost of the checks is negligible. A
// Clock must not be used concurrently.
type Clock struct {
	ctx context.Context
	// interval is the work between two checks, and remaining the work until the next one.
	interval, remaining int
	// Work is the total count of work.
	Work int
	// checks is the number of checks.
	checks int
	// Expired reports whether a check found that the context is done.
	Expired bool
}

// NewClock returns a clock that checks the context after each given amount of work.
func NewClock(ctx context.Context, every int) *Clock { return &Clock{ctx: ctx, interval: every} }

// Past reports whether the count of work exceeds a limit; a limit of 0 means never.
func (clock *Clock) Past(until int) bool { return until > 0 && clock.Work > until }

// SortDescending sorts items by decreasing numbers and keeps the order of equal ones. It needs
// spare memory for as many items. If the deadline passes, it returns false and leaves the items in
// any order.
func SortDescending[Item any](clock *Clock, items, spare []Item, number func(Item) float64) bool {
	const bits, few = 11, 1000 // A comparison sort is faster for few items.
	if len(items) < few {
		slices.SortStableFunc(items, func(a, b Item) int { return cmp.Compare(number(b), number(a)) })
		return !clock.Add(16 * len(items))
	}
	// Radix sort, from the lowest digit, of integers that increase as the numbers decrease.
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
			*at++
			if n%1024 == 0 && clock.Add(4096) {
				return false
			}
		}
		items, spare = spare, items
	}
	return true
}

// Add adds work to the count and reports whether the deadline has passed.
func (clock *Clock) Add(work int) bool {
	clock.Work += work
	if clock.remaining -= work; clock.remaining < 0 && !clock.Expired {
		clock.remaining = clock.interval
		clock.Expired = clock.ctx.Err() != nil
		clock.checks++
		if clock.checks%yieldEvery == 0 {
			runtime.Gosched()
		}
	}
	return clock.Expired
}
