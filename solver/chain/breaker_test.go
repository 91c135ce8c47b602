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
	"github.com/elastalloc/elastalloc/solver/problem"
)

// breakerChain is a chain of a backend behind a breaker and of the exact backend, which is also the prover.
type breakerChain struct {
	*Chain
	breaker *Breaker
	// calls is the number of calls of the backend.
	calls int
	// changes are the arguments of OnChange.
	changes []BackendState
}

// newBreakerChain returns a chain in which backend(n) makes the n-th attempt, counted from 1.
func newBreakerChain(config BreakerConfig, backend func(n int) fake) *breakerChain {
	c := new(breakerChain)
	counted := fake{solver.BackendCBC, func(ctx context.Context, p *problem.Problem, o problem.SolveOptions) (problem.Result, error) {
		c.calls++
		return backend(c.calls).solve(ctx, p, o)
	}}
	config.OnChange = func(s BackendState) { c.changes = append(c.changes, s) }
	c.breaker = NewBreaker(counted, config)
	c.Chain = newChain(greedy(), c.breaker, exact())
	c.config.Prover = proverOf(exact())
	return c
}

// decide makes a decision with a budget that leaves the backend the available time, and returns the attempt
// of the backend.
func (c *breakerChain) decide(ctx context.Context, t *testing.T, available time.Duration) solver.Attempt {
	t.Helper()
	o := options(func(o *solver.Options) { o.Backend, o.TimeBudget = solver.BackendCBC, available*40/27 })
	d, err := c.Allocate(ctx, twoJobs(), o)
	if errors.Is(ctx.Err(), context.Canceled) {
		return solver.Attempt{}
	}
	if err != nil || d.Report.Reason != solver.ReasonOptimal && ctx.Err() == nil {
		t.Fatalf("report %+v, error %v; want a proven optimum", d.Report, err)
	}
	return d.Report.Attempts[0]
}

func always(backend fake) func(int) fake { return func(int) fake { return backend } }

// TestFailures checks which attempts open the breaker if they are repeated.
func TestFailures(t *testing.T) {
	const cbc = solver.BackendCBC
	illegal := returning(cbc, problem.Result{Plan: problem.Plan{solver.Nodes(2, 2), solver.Nodes(2, 2)}})
	alternate := func(n int) fake {
		if n%FailureThreshold == 0 {
			return claiming(cbc, bestPlan(), true)
		}
		return panicking(cbc)
	}
	for name, test := range map[string]struct {
		backend   func(int) fake
		available time.Duration // 0 means 1 s
		opens     bool
		cause     string
	}{
		"a missing program": {always(failing(cbc, fmt.Errorf("%w: no such file", solver.ErrUnavailable))), 0, true, "no such file"},
		"a crash":           {always(failing(cbc, errors.New("signal: killed"))), 0, true, "signal: killed"},
		"a panic":           {always(panicking(cbc)), 0, true, "panic: a step of -1"},
		"a claim of infeasibility": {
			always(failing(cbc, fmt.Errorf("%w: Infeasible", solver.ErrInvalidPlan))), 0, true, "backend has no valid plan: Infeasible",
		},
		"an illegal plan": {always(illegal), 0, true, "plan uses 4 nodes in step 1; the pool has 3"},
		"a refuted claim": {
			always(claiming(cbc, greedyPlan(), true)), 0, true, "from the solver; refuted: the claimed optimum is 2.3, but exact has a plan of 2.4",
		},
		"a timeout": {always(hanging(cbc)), 0, true, "backend has no plan in time: no solution file"},
		"a timeout after the minimum time": {
			always(hanging(cbc)), 450 * time.Millisecond, true, "backend has no plan in time: no solution file",
		},

		"a timeout after less time": {backend: always(hanging(cbc)), available: 449 * time.Millisecond},
		"a crash after less time":   {always(panicking(cbc)), 30 * time.Millisecond, true, "panic: a step of -1"},
		"a confirmed claim":         {backend: always(claiming(cbc, bestPlan(), true))},
		"an incomplete search": {
			backend: always(returning(cbc, problem.Result{Plan: bestPlan(), Limit: solver.LimitTime, Bound: bestObjective})),
		},
		"a problem that is too large":          {backend: always(failing(cbc, fmt.Errorf("%w: too many columns", solver.ErrUnsuited)))},
		"failures that are not consecutive":    {backend: alternate},
		"a plan without a claim of optimality": {backend: always(claiming(cbc, bestPlan(), false))},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if test.available == 0 {
					test.available = time.Second
				}
				c := newBreakerChain(BreakerConfig{MinAttemptTime: 450 * time.Millisecond}, test.backend)
				for range 3 * FailureThreshold {
					c.decide(t.Context(), t, test.available)
				}
				state := c.breaker.State()
				if state.Up == test.opens || state.Up != (c.calls == 3*FailureThreshold) || test.opens && c.calls != FailureThreshold {
					t.Errorf("after %d attempts the state is %+v; want open: %t", c.calls, state, test.opens)
				}
				if test.opens && !strings.Contains(state.Cause, test.cause) {
					t.Errorf("cause %q; want %q", state.Cause, test.cause)
				}
			})
		})
	}
}

// TestOpenAndClose checks the states of a breaker from the first failure of its backend until it closes
// again.
func TestOpenAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		works := false
		c := newBreakerChain(BreakerConfig{}, func(int) fake {
			if works {
				return claiming(solver.BackendCBC, bestPlan(), true)
			}
			return failing(solver.BackendCBC, errors.New("no license"))
		})
		for range FailureThreshold {
			if a := c.decide(t.Context(), t, time.Second); a.Outcome != solver.OutcomeCrashed {
				t.Fatalf("attempt %+v; want a crash", a)
			}
		}
		opened := time.Now()
		// The detail has the time of the next trial and the cause.
		want := solver.Attempt{
			Backend: solver.BackendCBC, Outcome: solver.OutcomeUnavailable,
			Detail: "backend is unavailable: circuit open until " + opened.Add(OpenDuration).UTC().Format(time.RFC3339) +
				": 5 consecutive failures, last: no license",
		}
		if diff := cmp.Diff(want, c.decide(t.Context(), t, time.Second)); diff != "" {
			t.Errorf("attempt (-want +got):\n%s", diff)
		}
		time.Sleep(OpenDuration + 1)
		c.decide(t.Context(), t, time.Second) // The trial fails.
		time.Sleep(OpenDuration)
		c.decide(t.Context(), t, time.Second) // The breaker is still open.
		if c.calls != FailureThreshold+1 {
			t.Errorf("%d calls; want %d and one trial", c.calls, FailureThreshold)
		}
		works = true
		time.Sleep(time.Nanosecond)
		for range 3 {
			if a := c.decide(t.Context(), t, time.Second); a.Outcome != solver.OutcomeAnswered {
				t.Errorf("attempt %+v; want a plan", a)
			}
		}
		reopened := opened.Add(OpenDuration + 1)
		closed := reopened.Add(OpenDuration + 1)
		wantChanges := []BackendState{
			{Since: opened, OpenUntil: opened.Add(OpenDuration), Failures: 5, Cause: "no license"},
			{Since: opened, OpenUntil: reopened.Add(OpenDuration), Failures: 6, Cause: "no license"},
			{Up: true, Since: closed},
		}
		if diff := cmp.Diff(wantChanges, c.changes); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(wantChanges[2], c.breaker.State()); diff != "" {
			t.Errorf("state (-want +got):\n%s", diff)
		}
	})
}

// TestInitialError checks that a breaker with an initial error is open before the first decision and closes
// after a success.
func TestInitialError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newBreakerChain(BreakerConfig{InitialError: fmt.Errorf("%w: no such file", solver.ErrUnavailable)},
			always(claiming(solver.BackendCBC, bestPlan(), true)))
		start := time.Now()
		want := BackendState{NeverUp: true, Since: start, OpenUntil: start.Add(OpenDuration), Cause: "no such file"}
		if diff := cmp.Diff(want, c.breaker.State()); diff != "" {
			t.Errorf("state (-want +got):\n%s", diff)
		}
		detail := "backend is unavailable: circuit open until " + want.OpenUntil.UTC().Format(time.RFC3339) + ": no such file"
		if a := c.decide(t.Context(), t, time.Second); a.Detail != detail || c.calls != 0 {
			t.Errorf("attempt %+v after %d calls; want detail %q", a, c.calls, detail)
		}
		time.Sleep(OpenDuration + 1)
		if c.breaker.State().Up {
			t.Error("the backend is up before the trial")
		}
		if a := c.decide(t.Context(), t, time.Second); a.Outcome != solver.OutcomeAnswered || !c.breaker.State().Up || c.breaker.State().NeverUp {
			t.Errorf("attempt %+v, state %+v; want a plan and an up backend", a, c.breaker.State())
		}
	})
}

// ignoredTrial makes a trial that does not count, because its caller cancels or has too little time. It checks
// that no other decision makes one meanwhile and that the state is the same afterwards.
func (c *breakerChain) ignoredTrial(t *testing.T, available time.Duration, cancels bool) {
	t.Helper()
	before := c.breaker.State()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.decide(ctx, t, available)
	}()
	synctest.Wait()
	want := before
	want.HalfOpen = true
	if diff := cmp.Diff(want, c.breaker.State()); diff != "" {
		t.Errorf("state during the trial (-want +got):\n%s", diff)
	}
	a := c.decide(t.Context(), t, time.Minute)
	if a.Detail != "backend is unavailable: circuit half-open, trial call in progress: it hung" {
		t.Errorf("attempt during the trial: %+v", a)
	}
	if cancels {
		cancel()
	}
	<-done
	if diff := cmp.Diff(before, c.breaker.State()); diff != "" {
		t.Errorf("state after the trial (-want +got):\n%s", diff)
	}
}

// TestIgnoredTrials checks that a trial that does not count is repeated by the next decision.
func TestIgnoredTrials(t *testing.T) {
	for name, test := range map[string]struct {
		available time.Duration
		cancel    bool
	}{
		"canceled":        {time.Hour, true},
		"too little time": {100 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newBreakerChain(BreakerConfig{MinAttemptTime: time.Second, InitialError: errors.New("it hung")}, func(n int) fake {
					if n <= 3 {
						return hanging(solver.BackendCBC)
					}
					return claiming(solver.BackendCBC, bestPlan(), true)
				})
				time.Sleep(OpenDuration + 1)
				for range 3 {
					c.ignoredTrial(t, test.available, test.cancel)
				}
				if a := c.decide(t.Context(), t, time.Minute); a.Outcome != solver.OutcomeAnswered {
					t.Errorf("attempt %+v; want a plan", a)
				}
			})
		})
	}
}

// TestConcurrentDecisions checks that concurrent failures open the breaker once, and that one of many
// concurrent decisions makes the trial call.
func TestConcurrentDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const concurrency = 20
		var breaker *Breaker
		calls := make(chan struct{}, 3*concurrency)
		backend := fake{solver.BackendCBC, func(ctx context.Context, p *problem.Problem, o problem.SolveOptions) (problem.Result, error) {
			calls <- struct{}{}
			return hanging(solver.BackendCBC).solve(ctx, p, o)
		}}
		breaker = NewBreaker(backend, BreakerConfig{})
		c := newChain(greedy(), breaker, exact())
		decideConcurrently := func() {
			done := make(chan error)
			for range concurrency {
				go func() {
					_, err := c.Allocate(t.Context(), twoJobs(), options(func(o *solver.Options) {
						o.Backend, o.TimeBudget = solver.BackendCBC, time.Second
					}))
					done <- err
				}()
			}
			for range concurrency {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		decideConcurrently()
		if state := breaker.State(); len(calls) != concurrency || state.Failures != FailureThreshold {
			t.Errorf("after %d calls: %+v; want only the failures that opened the breaker", len(calls), state)
		}
		time.Sleep(OpenDuration + 1)
		decideConcurrently()
		if state := breaker.State(); len(calls) != concurrency+1 || state.Failures != FailureThreshold+1 {
			t.Errorf("after %d calls: %+v; want one trial", len(calls)-concurrency, state)
		}
	})
}

// TestPanicDuringTrial checks that a panic of the chain during a trial does not leave the breaker half-open.
func TestPanicDuringTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newBreakerChain(BreakerConfig{InitialError: errors.New("it hung")}, always(returning(solver.BackendCBC, problem.Result{})))
		time.Sleep(OpenDuration + 1)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("execute() does not propagate the panic")
				}
			}()
			_, _ = c.breaker.execute(t.Context(), time.Time{}, func() attempt { panic("a bug") })
		}()
		if state := c.breaker.State(); state.HalfOpen || state.Cause != "the attempt panicked" {
			t.Errorf("state %+v; want a trial that failed", state)
		}
	})
}

func TestCauseOf(t *testing.T) {
	for name, test := range map[string]struct{ detail, want string }{
		"short":                    {"signal: killed", "signal: killed"},
		"without the prefix":       {"backend is unavailable: no such file", "no such file"},
		"long":                     {strings.Repeat("x", maxCauseBytes+1), strings.Repeat("x", maxCauseBytes) + "…"},
		"truncated in a character": {"x" + strings.Repeat("é", maxCauseBytes), "x" + strings.Repeat("é", maxCauseBytes/2-1) + "…"},
		"not UTF-8":                {strings.Repeat("\x80", 2*maxCauseBytes), "…"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, shortCause(test.detail)); diff != "" {
				t.Errorf("shortCause (-want +got):\n%s", diff)
			}
		})
	}
}
