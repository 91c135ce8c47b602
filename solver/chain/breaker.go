package chain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/elastalloc/elastalloc/solver"
)

// longestCause is how many bytes of a failure's detail a breaker keeps.
const longestCause = 300

// BreakerConfig is what a breaker makes of tries, and who hears of it.
type BreakerConfig struct {
	// MinAttemptTime is the least time that a backend must have had for a time-out to
	// count as a failure: tiny budgets say nothing about it. 0 means any.
	MinAttemptTime time.Duration
	// Down says why the backend does not work from the start, such as that its program
	// is missing: the breaker begins open. It may be nil.
	Down error
	// OnChange, where set, is called each time that the breaker opens, also when the
	// try of a half-open one fails, and when it closes. Calls come one at a time and
	// in order. It must not call the breaker.
	OnChange func(BackendState)
}

// BackendState is what a breaker knows of its backend.
type BackendState struct {
	// Up says that the breaker is closed: the backend is asked as usual.
	Up bool
	// NeverUp says that it was down from the start and has not worked since.
	NeverUp bool
	// Since is when the breaker opened or, if it is up, when it closed again; zero if it
	// never opened.
	Since time.Time
	// OpenUntil is when the breaker becomes half-open; zero if it is up.
	OpenUntil time.Time
	// HalfOpen says that its one try is under way.
	HalfOpen bool
	// Failures is how often it has failed since it last worked.
	Failures int
	// Cause is the last of these failures, or why it never worked; "" where it did.
	Cause string
}

// MostFailures is the number of failures in a row that open a breaker, and OpenTime how long
// it stays open.
const (
	MostFailures = 5
	OpenTime     = time.Minute
)

// errFailed and errNothing are what a try says of a backend, if not that it works: a failure,
// or nothing, such as a try whose caller left.
var (
	errFailed  = errors.New("the try failed")
	errNothing = errors.New("the try says nothing")
)

// Breaker is a circuit breaker around a backend, so that one that keeps failing costs
// decisions of a chain no time: after five failures in a row it is open for a minute, and the
// backend is not asked. Then it is half-open and lets a single try through, which closes it or
// opens it again. Its Solve, as that of any backend, asks whatever the state.
//
// It is for backends that depend on something outside of this process: a program
// that is missing, hangs or crashes. A backend of our own fails fast and for a
// reason that lies in the snapshot, and one bad snapshot must not shut it out for all.
//
// A plan that is illegal or whose claim is refuted is a failure as well. A try counts for
// nothing if the caller left, if it had no time (BreakerConfig.MinAttemptTime), or if the
// problem does not suit the backend (solver.ErrUnsuited). It is safe for concurrent use.
type Breaker struct {
	solver.Backend
	config  BreakerConfig
	circuit *gobreaker.CircuitBreaker[answer]

	mutex sync.Mutex // It is locked while that of the circuit is, never the other way round.
	state BackendState
}

// NewBreaker returns a breaker for a backend.
func NewBreaker(backend solver.Backend, config BreakerConfig) *Breaker {
	b := &Breaker{Backend: backend, state: BackendState{Up: true}}
	b.circuit = gobreaker.NewCircuitBreaker[answer](gobreaker.Settings{
		Timeout:       OpenTime,
		ReadyToTrip:   func(counts gobreaker.Counts) bool { return counts.ConsecutiveFailures >= MostFailures },
		IsExcluded:    func(err error) bool { return errors.Is(err, errNothing) },
		OnStateChange: func(_ string, from, to gobreaker.State) { b.change(from, to) },
	})
	if config.Down != nil {
		for range MostFailures {
			_, _ = b.circuit.Execute(func() (answer, error) { return answer{}, errFailed })
		}
		b.state.NeverUp, b.state.Failures, b.state.Cause = true, 0, causeOf(config.Down.Error())
	}
	b.config = config
	return b
}

// State returns what is known of the backend now.
func (b *Breaker) State() BackendState {
	failures := int(b.circuit.Counts().ConsecutiveFailures)
	b.mutex.Lock()
	defer b.mutex.Unlock()
	state := b.state
	if state.Up {
		if state.Failures = failures; failures == 0 {
			state.Cause = ""
		}
	}
	return state
}

// guard makes a try, which has until end unless that is the zero time, and records its
// outcome. The error, which wraps solver.ErrUnavailable, says why no try is made now.
func (b *Breaker) guard(ctx context.Context, end time.Time, try func() answer) (answer, error) {
	given := time.Duration(math.MaxInt64)
	if !end.IsZero() {
		given = time.Until(end)
	}
	a, err := b.circuit.Execute(func() (a answer, says error) {
		// This stands should the try panic: a half-open circuit must not wait for ever.
		a = answer{Attempt: solver.Attempt{Outcome: solver.OutcomeCrashed, Detail: "the try panicked"}}
		trial := b.begin()
		defer func() {
			says = b.verdictOn(ctx, given, &a)
			b.end(trial, says, a.Detail)
		}()
		return try(), nil
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return answer{}, b.unavailable()
	}
	return a, nil
}

// begin reports whether a try is that of a half-open circuit.
func (b *Breaker) begin() (trial bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.state.HalfOpen = !b.state.Up
	return b.state.HalfOpen
}

// end takes note of what a try says, before the circuit does.
func (b *Breaker) end(trial bool, says error, detail string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if trial {
		b.state.HalfOpen = false
	}
	if errors.Is(says, errFailed) {
		b.state.Cause = causeOf(detail)
	}
}

// change takes note of a change of the circuit, whose lock is held, so that changes are told
// in order.
func (b *Breaker) change(from, to gobreaker.State) {
	b.mutex.Lock()
	switch now := time.Now(); to {
	case gobreaker.StateClosed:
		b.state = BackendState{Up: true, Since: now}
	case gobreaker.StateOpen:
		if b.state.Failures++; from == gobreaker.StateClosed {
			b.state.Up, b.state.Since, b.state.Failures = false, now, MostFailures
		}
		b.state.OpenUntil = now.Add(OpenTime)
	}
	state := b.state
	b.mutex.Unlock()
	if to != gobreaker.StateHalfOpen && b.config.OnChange != nil {
		b.config.OnChange(state)
	}
}

// unavailable returns why no try is made now.
func (b *Breaker) unavailable() error {
	state := b.State()
	when := "circuit open until " + state.OpenUntil.UTC().Format(time.RFC3339)
	if state.HalfOpen {
		when = "circuit half-open, another decision is trying it"
	}
	switch state.Failures {
	case 0:
		return fmt.Errorf("%w: %s: %s", solver.ErrUnavailable, when, state.Cause)
	case 1:
		return fmt.Errorf("%w: %s: 1 failure: %s", solver.ErrUnavailable, when, state.Cause)
	default:
		return fmt.Errorf("%w: %s: %d failures in a row, the last: %s", solver.ErrUnavailable, when, state.Failures, state.Cause)
	}
}

// verdictOn returns what a try of the given time says of the backend, nil if it works.
func (b *Breaker) verdictOn(ctx context.Context, given time.Duration, a *answer) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled), a.unsuited:
		return errNothing
	case a.Outcome == solver.OutcomeAnswered:
		return nil
	case a.Outcome == solver.OutcomeTimedOut && (given <= 0 || given < b.config.MinAttemptTime):
		return errNothing
	default:
		return errFailed
	}
}

// causeOf returns a failure's detail in brief, without what goes without saying.
func causeOf(detail string) string {
	return legible(strings.TrimPrefix(detail, solver.ErrUnavailable.Error()+": "), longestCause)
}
