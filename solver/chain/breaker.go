package chain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

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

// Breaker is a circuit breaker around a backend, so that one that keeps failing costs
// decisions of a chain no time: five failures in a row open it for 30 s, and then it is not
// asked. Half-open, it lets a single try through, which closes it or opens it for twice as
// long, up to 5 min. Its Solve, as that of any backend, asks whatever the state.
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
	config BreakerConfig

	mutex   sync.Mutex
	circuit circuit
}

// NewBreaker returns a breaker for a backend.
func NewBreaker(backend solver.Backend, config BreakerConfig) *Breaker {
	b := &Breaker{Backend: backend, config: config, circuit: circuit{BackendState: BackendState{Up: true}}}
	if config.Down != nil {
		b.circuit.NeverUp, b.circuit.Cause = true, causeOf(config.Down.Error())
		b.circuit.trip(time.Now())
	}
	return b
}

// State returns what is known of the backend now.
func (b *Breaker) State() BackendState {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.circuit.BackendState
}

// guard makes a try, which has until end unless that is the zero time, and records its
// outcome. The error, which wraps solver.ErrUnavailable, says why no try is made now.
func (b *Breaker) guard(ctx context.Context, end time.Time, try func() answer) (answer, error) {
	now := time.Now()
	ticket, err := b.admit(now)
	if err != nil {
		return answer{}, err
	}
	given := time.Duration(math.MaxInt64)
	if !end.IsZero() {
		given = end.Sub(now)
	}
	// This stands should the try panic: a half-open circuit must not wait for ever.
	a := answer{Attempt: solver.Attempt{Outcome: solver.OutcomeCrashed, Detail: "the try panicked"}}
	defer func() { b.settle(ticket, b.verdictOn(ctx, given, &a), a.Detail) }()
	a = try()
	return a, nil
}

func (b *Breaker) admit(now time.Time) (ticket int, err error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	ticket, admitted := b.circuit.admit(now)
	if admitted {
		return ticket, nil
	}
	when := "circuit open until " + b.circuit.OpenUntil.UTC().Format(time.RFC3339)
	if b.circuit.HalfOpen {
		when = "circuit half-open, another decision is trying it"
	}
	switch cause := b.circuit.Cause; b.circuit.Failures {
	case 0:
		return 0, fmt.Errorf("%w: %s: %s", solver.ErrUnavailable, when, cause)
	case 1:
		return 0, fmt.Errorf("%w: %s: 1 failure: %s", solver.ErrUnavailable, when, cause)
	default:
		return 0, fmt.Errorf("%w: %s: %d failures in a row, the last: %s", solver.ErrUnavailable, when, b.circuit.Failures, cause)
	}
}

// verdictOn returns what a try of the given time says of the backend.
func (b *Breaker) verdictOn(ctx context.Context, given time.Duration, a *answer) verdict {
	switch {
	case errors.Is(ctx.Err(), context.Canceled), a.unsuited:
		return saysNothing
	case a.Outcome == solver.OutcomeAnswered:
		return saysWorks
	case a.Outcome == solver.OutcomeTimedOut && (given <= 0 || given < b.config.MinAttemptTime):
		return saysNothing
	default:
		return saysFails
	}
}

// settle takes note of what a try says and calls OnChange where that changes
// something: under the lock, so that changes are told in order.
func (b *Breaker) settle(ticket int, says verdict, detail string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	changed := b.circuit.settle(ticket, time.Now(), says, causeOf(detail))
	if changed && b.config.OnChange != nil {
		b.config.OnChange(b.circuit.BackendState)
	}
}

// causeOf returns a failure's detail in brief, without what goes without saying.
func causeOf(detail string) string {
	return legible(strings.TrimPrefix(detail, solver.ErrUnavailable.Error()+": "), longestCause)
}
