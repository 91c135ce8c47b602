package chain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/solver"
)

// guarded is a chain of a backend behind a breaker, with the exact one as prover and
// as next.
type guarded struct {
	*Chain
	breaker *Breaker
	// asked is how often the backend was asked.
	asked int
	// changes are what OnChange was told.
	changes []BackendState
}

// guard returns such a chain; the n-th try of the backend, from 1, is made by
// tries(n).
func guard(config BreakerConfig, tries func(n int) fake) *guarded {
	g := new(guarded)
	backend := fake{solver.BackendCBC, func(ctx context.Context, p *solver.Problem, o solver.SolveOptions) (solver.Result, error) {
		g.asked++
		return tries(g.asked).solve(ctx, p, o)
	}}
	config.OnChange = func(s BackendState) { g.changes = append(g.changes, s) }
	g.breaker = NewBreaker(backend, config)
	g.Chain = newChain(greedy(), g.breaker, exact())
	g.config.Prover = proves(exact())
	return g
}

// decide has the chain decide in a budget that leaves the backend an amount of time,
// and returns the attempt of the backend.
func (g *guarded) decide(ctx context.Context, t *testing.T, gives time.Duration) solver.Attempt {
	t.Helper()
	o := options(func(o *solver.Options) { o.Backend, o.TimeBudget = solver.BackendCBC, gives*40/27 })
	d, err := g.Allocate(ctx, twoJobs(), o)
	if errors.Is(ctx.Err(), context.Canceled) {
		return solver.Attempt{}
	}
	if err != nil || d.Report.Reason != solver.ReasonOptimal && ctx.Err() == nil {
		t.Fatalf("report %+v, error %v; want an optimum", d.Report, err)
	}
	return d.Report.Attempts[0]
}

func always(backend fake) func(int) fake { return func(int) fake { return backend } }

// TestWhatCounts checks which tries send a backend to rest when they come again and
// again.
func TestWhatCounts(t *testing.T) {
	const cbc = solver.BackendCBC
	illegal := gives(cbc, solver.Result{Plan: solver.Plan{solver.Nodes(2, 2), solver.Nodes(2, 2)}})
	alternate := func(n int) fake {
		if n%MostFailures == 0 {
			return claims(cbc, bestPlan(), true)
		}
		return panics(cbc)
	}
	for name, test := range map[string]struct {
		tries func(int) fake
		gives time.Duration // 0 means a second
		opens bool
		cause string
	}{
		"a program that is missing": {always(fails(cbc, fmt.Errorf("%w: no such file", solver.ErrUnavailable))), 0, true, "no such file"},
		"a crash":                   {always(fails(cbc, errors.New("signal: killed"))), 0, true, "signal: killed"},
		"a panic":                   {always(panics(cbc)), 0, true, "panic: a step of -1"},
		"a plan that it calls none": {always(fails(cbc, fmt.Errorf("%w: Infeasible", solver.ErrInvalidPlan))), 0, true, "backend has no valid plan: Infeasible"},
		"an illegal plan":           {always(illegal), 0, true, "plan uses 4 nodes in step 1; the pool has 3"},
		"a claim that is refuted":   {always(claims(cbc, greedyPlan(), true)), 0, true, "it says so; refuted: it calls 2.3 optimal, and exact has a plan of 2.4"},
		"a hang":                    {always(hangs(cbc)), 0, true, "backend has no plan in time: no solution file"},
		"a hang of all the time that counts": {
			always(hangs(cbc)), 450 * time.Millisecond, true, "backend has no plan in time: no solution file",
		},

		"a hang of less":               {tries: always(hangs(cbc)), gives: 449 * time.Millisecond},
		"a crash in hardly any time":   {always(panics(cbc)), 30 * time.Millisecond, true, "panic: a step of -1"},
		"a good plan":                  {tries: always(claims(cbc, bestPlan(), true))},
		"a plan cut short":             {tries: always(gives(cbc, solver.Result{Plan: bestPlan(), Limit: solver.LimitTime, Bound: bestObjective}))},
		"a problem too large for it":   {tries: always(fails(cbc, fmt.Errorf("%w: too many columns", solver.ErrUnsuited)))},
		"failures, but not in a row":   {tries: alternate},
		"a plan that is called a plan": {tries: always(claims(cbc, bestPlan(), false))},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if test.gives == 0 {
					test.gives = time.Second
				}
				g := guard(BreakerConfig{MinAttemptTime: 450 * time.Millisecond}, test.tries)
				for range 3 * MostFailures {
					g.decide(t.Context(), t, test.gives)
				}
				state := g.breaker.State()
				if state.Up == test.opens || state.Up != (g.asked == 3*MostFailures) || test.opens && g.asked != MostFailures {
					t.Errorf("after %d tries its state is %+v; want rest: %t", g.asked, state, test.opens)
				}
				if test.opens && !strings.Contains(state.Cause, test.cause) {
					t.Errorf("cause %q; want %q", state.Cause, test.cause)
				}
			})
		})
	}
}

// TestRestAndReturn follows a backend from its first failure until it is back.
func TestRestAndReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		works := false
		g := guard(BreakerConfig{}, func(int) fake {
			if works {
				return claims(solver.BackendCBC, bestPlan(), true)
			}
			return fails(solver.BackendCBC, errors.New("no licence"))
		})
		for range MostFailures {
			if a := g.decide(t.Context(), t, time.Second); a.Outcome != solver.OutcomeCrashed {
				t.Fatalf("attempt %+v; want a crash", a)
			}
		}
		opened := time.Now()
		// Refused at once, with all that a caller may want to know.
		want := solver.Attempt{
			Backend: solver.BackendCBC, Outcome: solver.OutcomeUnavailable,
			Detail: "backend is unavailable: circuit open until " + opened.Add(OpenTime).UTC().Format(time.RFC3339) +
				": 5 failures in a row, the last: no licence",
		}
		if diff := cmp.Diff(want, g.decide(t.Context(), t, time.Second)); diff != "" {
			t.Errorf("attempt (-want +got):\n%s", diff)
		}
		time.Sleep(OpenTime + 1)
		g.decide(t.Context(), t, time.Second) // The trial fails.
		time.Sleep(OpenTime)
		g.decide(t.Context(), t, time.Second) // The next rest is not quite over.
		if g.asked != MostFailures+1 {
			t.Errorf("asked %d times; want %d and one trial", g.asked, MostFailures)
		}
		works = true
		time.Sleep(time.Nanosecond)
		for range 3 {
			if a := g.decide(t.Context(), t, time.Second); a.Outcome != solver.OutcomeAnswered {
				t.Errorf("attempt %+v; want an answer", a)
			}
		}
		again := opened.Add(OpenTime + 1)
		back := again.Add(OpenTime + 1)
		wantChanges := []BackendState{
			{Since: opened, OpenUntil: opened.Add(OpenTime), Failures: 5, Cause: "no licence"},
			{Since: opened, OpenUntil: again.Add(OpenTime), Failures: 6, Cause: "no licence"},
			{Up: true, Since: back},
		}
		if diff := cmp.Diff(wantChanges, g.changes); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(wantChanges[2], g.breaker.State()); diff != "" {
			t.Errorf("state (-want +got):\n%s", diff)
		}
	})
}

// TestDownFromTheStart checks a backend of which it is known that it does not work:
// it is open before the first decision, and closes again.
func TestDownFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(BreakerConfig{Down: fmt.Errorf("%w: no such file", solver.ErrUnavailable)}, always(claims(solver.BackendCBC, bestPlan(), true)))
		start := time.Now()
		want := BackendState{NeverUp: true, Since: start, OpenUntil: start.Add(OpenTime), Cause: "no such file"}
		if diff := cmp.Diff(want, g.breaker.State()); diff != "" {
			t.Errorf("state (-want +got):\n%s", diff)
		}
		detail := "backend is unavailable: circuit open until " + want.OpenUntil.UTC().Format(time.RFC3339) + ": no such file"
		if a := g.decide(t.Context(), t, time.Second); a.Detail != detail || g.asked != 0 {
			t.Errorf("attempt %+v after %d tries; want detail %q", a, g.asked, detail)
		}
		time.Sleep(OpenTime + 1)
		if g.breaker.State().Up {
			t.Error("it is up before it was tried")
		}
		if a := g.decide(t.Context(), t, time.Second); a.Outcome != solver.OutcomeAnswered || !g.breaker.State().Up || g.breaker.State().NeverUp {
			t.Errorf("attempt %+v, state %+v; want an answer and up", a, g.breaker.State())
		}
	})
}

// TestTrialsThatSayNothing checks that the caller of a trial may leave or have no
// time: the next one makes it then.
func TestTrialsThatSayNothing(t *testing.T) {
	for name, test := range map[string]struct {
		gives  time.Duration
		leaves bool
	}{
		"the caller leaves":       {time.Hour, true},
		"the caller is too hasty": {100 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := guard(BreakerConfig{MinAttemptTime: time.Second, Down: errors.New("it hung")}, func(n int) fake {
					if n <= 3 {
						return hangs(solver.BackendCBC)
					}
					return claims(solver.BackendCBC, bestPlan(), true)
				})
				time.Sleep(OpenTime + 1)
				before := g.breaker.State()
				for range 3 {
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan struct{})
					go func() {
						defer close(done)
						g.decide(ctx, t, test.gives)
					}()
					synctest.Wait()
					want := before
					want.HalfOpen = true
					if diff := cmp.Diff(want, g.breaker.State()); diff != "" {
						t.Errorf("state during the trial (-want +got):\n%s", diff)
					}
					if a := g.decide(t.Context(), t, time.Minute); a.Detail != "backend is unavailable: circuit half-open, another decision is trying it: it hung" {
						t.Errorf("attempt during the trial: %+v", a)
					}
					if test.leaves {
						cancel()
					}
					<-done
					cancel()
					if diff := cmp.Diff(before, g.breaker.State()); diff != "" {
						t.Errorf("state after the trial (-want +got):\n%s", diff)
					}
				}
				if a := g.decide(t.Context(), t, time.Minute); a.Outcome != solver.OutcomeAnswered {
					t.Errorf("attempt %+v; want an answer", a)
				}
			})
		})
	}
}

// TestManyAtOnce checks that tries that fail together count once, and that one of
// many makes the trial.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 20
		var breaker *Breaker
		asked := make(chan struct{}, 3*many)
		backend := fake{solver.BackendCBC, func(ctx context.Context, p *solver.Problem, o solver.SolveOptions) (solver.Result, error) {
			asked <- struct{}{}
			return hangs(solver.BackendCBC).solve(ctx, p, o)
		}}
		breaker = NewBreaker(backend, BreakerConfig{})
		c := newChain(greedy(), breaker, exact())
		together := func() {
			done := make(chan error)
			for range many {
				go func() {
					_, err := c.Allocate(t.Context(), twoJobs(), options(func(o *solver.Options) {
						o.Backend, o.TimeBudget = solver.BackendCBC, time.Second
					}))
					done <- err
				}()
			}
			for range many {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		together()
		if state := breaker.State(); len(asked) != many || state.Failures != MostFailures {
			t.Errorf("after %d tries: %+v; want the failures that made it rest to count", len(asked), state)
		}
		time.Sleep(OpenTime + 1)
		together()
		if state := breaker.State(); len(asked) != many+1 || state.Failures != MostFailures+1 {
			t.Errorf("after %d tries: %+v; want one trial", len(asked)-many, state)
		}
	})
}

// TestPanicOfATry checks that a defect of ours during a trial does not leave it under
// way for ever.
func TestPanicOfATry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(BreakerConfig{Down: errors.New("it hung")}, always(gives(solver.BackendCBC, solver.Result{})))
		time.Sleep(OpenTime + 1)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is gone")
				}
			}()
			_, _ = g.breaker.guard(t.Context(), time.Time{}, func() answer { panic("a defect") })
		}()
		if state := g.breaker.State(); state.HalfOpen || state.Cause != "the try panicked" {
			t.Errorf("state %+v; want a trial that failed", state)
		}
	})
}

func TestCauseOf(t *testing.T) {
	for name, test := range map[string]struct{ detail, want string }{
		"short":               {"signal: killed", "signal: killed"},
		"of an absent one":    {"backend is unavailable: no such file", "no such file"},
		"long":                {strings.Repeat("x", longestCause+1), strings.Repeat("x", longestCause) + "…"},
		"cut in a character":  {"x" + strings.Repeat("é", longestCause), "x" + strings.Repeat("é", longestCause/2-1) + "…"},
		"no text, only bytes": {strings.Repeat("\x80", 2*longestCause), "…"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, causeOf(test.detail)); diff != "" {
				t.Errorf("causeOf (-want +got):\n%s", diff)
			}
		})
	}
}
