package chain

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// closed returns the circuit of a backend that has not been asked.
func closed() *circuit { return &circuit{BackendState: BackendState{Up: true}} }

// TestOpenTimes checks how long the circuit stays open: each trial that fails doubles it,
// up to the longest, and success makes the next one short again.
func TestOpenTimes(t *testing.T) {
	now := time.Unix(0, 0)
	c := closed()
	fail := func() {
		t.Helper()
		ticket, admitted := c.admit(now)
		if !admitted {
			t.Fatalf("no try is admitted at %v", now)
		}
		c.settle(ticket, now, saysFails, "broken")
	}
	for range 2 {
		for range MostFailures - 1 {
			fail()
		}
		if !c.Up {
			t.Fatalf("it is open after %d failures", c.Failures)
		}
		for _, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
			fail()
			if got := c.OpenUntil.Sub(now); c.Up || got != want {
				t.Fatalf("after %d failures it is open for %v; want %v", c.Failures, got, want)
			}
			if _, admitted := c.admit(c.OpenUntil.Add(-1)); admitted {
				t.Fatal("a try is admitted during a rest")
			}
			now = c.OpenUntil
		}
		ticket, _ := c.admit(now)
		if !c.settle(ticket, now, saysWorks, "") || !c.Up || c.Failures != 0 || c.Since != now {
			t.Fatalf("after a trial that succeeded: %+v", c)
		}
	}
}

// TestTryOfAnotherTime checks that a try counts for nothing once the state in which
// it was admitted is over: many calls that are in flight together and fail together
// are not a trial that failed.
func TestTryOfAnotherTime(t *testing.T) {
	for name, says := range map[string]verdict{"works": saysWorks, "fails": saysFails, "says nothing": saysNothing} {
		t.Run(name, func(t *testing.T) {
			now, c := time.Unix(0, 0), closed()
			late, _ := c.admit(now)
			for range MostFailures {
				ticket, _ := c.admit(now)
				c.settle(ticket, now, saysFails, "broken")
			}
			want := *c
			if c.settle(late, now, says, "late"); *c != want {
				t.Errorf("open, it is now %+v; want %+v", *c, want)
			}
			now = c.OpenUntil
			trial, _ := c.admit(now)
			want = *c
			if c.settle(late, now, says, "late"); *c != want {
				t.Errorf("on trial, it is now %+v; want %+v", *c, want)
			}
			c.settle(trial, now, saysWorks, "")
			want = *c
			if c.settle(late, now, says, "late"); *c != want {
				t.Errorf("up again, it is now %+v; want %+v", *c, want)
			}
		})
	}
}

// phase is a time in the model of a circuit during which it was closed or open.
type phase struct {
	openFor  time.Duration // 0 is up
	began    time.Time
	verdicts []verdict // on the tries admitted in it, in the order of their ends
	underWay int
}

// admits is the model's word on another try.
func (p *phase) admits(now time.Time) bool {
	return p.openFor == 0 || p.underWay == 0 && now.Sub(p.began) >= p.openFor
}

// next returns how long the phase that follows is open and whether there is one yet.
func (p *phase) next() (openFor time.Duration, over bool) {
	failures := 0
	for _, says := range p.verdicts {
		switch {
		case says == saysWorks && p.openFor > 0:
			return 0, true
		case says == saysWorks:
			failures = 0
		case says == saysFails:
			failures++
		}
	}
	switch {
	case p.openFor > 0 && failures > 0:
		return min(2*p.openFor, LongestOpenTime), true
	case failures >= MostFailures:
		return ShortestOpenTime, true
	default:
		return 0, false
	}
}

// TestCircuitIsAsItsModel has tries begin and end in any order at any time, and
// compares with a model that remembers everything and decides afresh each time.
func TestCircuitIsAsItsModel(t *testing.T) {
	type try struct {
		ticket int
		phase  *phase
	}
	rapid.Check(t, func(t *rapid.T) {
		now, c := time.Unix(0, 0), closed()
		current := &phase{began: now}
		var tries []try // under way
		begin := func(t *rapid.T) {
			want := current.admits(now)
			ticket, admitted := c.admit(now)
			if admitted != want {
				t.Fatalf("admitted is %t; want %t in %+v", admitted, want, current)
			}
			if admitted {
				current.underWay++
				tries = append(tries, try{ticket, current})
			}
		}
		end := func(t *rapid.T, i int, says verdict) {
			ended := tries[i]
			tries = slices.Delete(tries, i, i+1)
			ended.phase.underWay--
			ended.phase.verdicts = append(ended.phase.verdicts, says)
			over := false
			if ended.phase == current {
				var openFor time.Duration
				if openFor, over = current.next(); over {
					current = &phase{openFor: openFor, began: now}
				}
			}
			if changed := c.settle(ended.ticket, now, says, "broken"); changed != over {
				t.Fatalf("it says that it changed: %t; want %t", changed, over)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": begin,
			"end": func(t *rapid.T) {
				if len(tries) == 0 {
					t.Skip("no try is under way")
				}
				says := rapid.SampledFrom([]verdict{saysFails, saysWorks, saysNothing}).Draw(t, "says")
				end(t, rapid.IntRange(0, len(tries)-1).Draw(t, "try"), says)
			},
			// Without many of these it would hardly ever open.
			"fail often": func(t *rapid.T) {
				for range rapid.IntRange(1, MostFailures).Draw(t, "times") {
					before := len(tries)
					if begin(t); len(tries) > before {
						end(t, len(tries)-1, saysFails)
					}
				}
			},
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 200).Draw(t, "seconds")) * time.Second)
			},
			"": func(t *rapid.T) {
				if c.openFor != current.openFor || !c.Up && c.OpenUntil != current.began.Add(current.openFor) {
					t.Fatalf("it is %+v; want %+v", c, current)
				}
				if onTrial := current.openFor > 0 && current.underWay > 0; c.HalfOpen != onTrial {
					t.Fatalf("on trial is %t; want %t", c.HalfOpen, onTrial)
				}
			},
		})
	})
}
