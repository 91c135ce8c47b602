package parallel

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
)

// TestDoLosesNoWork checks that all work is done even if workers are withdrawn repeatedly,
// also at the time at which the last call of the caller returns.
func TestDoLosesNoWork(t *testing.T) {
	t.Parallel()
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("one processor; want two that work side by side")
	}
	for range 1000 {
		hurried, hurry := context.WithCancel(t.Context())
		lend := func(context.Context) (context.Context, func(), bool) {
			return hurried, func() {}, hurried.Err() == nil
		}
		var done [2]atomic.Bool
		var begun atomic.Int32
		err := Do(t.Context(), lend, len(done), func(own context.Context, i int) error {
			for begun.Add(1); begun.Load() < 2; {
				runtime.Gosched()
			}
			hurry()
			if err := own.Err(); err != nil { // It helps.
				return err
			}
			done[i].Store(true)
			return nil
		})
		if err != nil || !done[0].Load() || !done[1].Load() {
			t.Fatalf("error %v, done %t and %t; want both done", err, done[0].Load(), done[1].Load())
		}
	}
}
