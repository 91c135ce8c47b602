package chain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/elastalloc/elastalloc/solver"
)

// Defaults of a BreakerConfig.
const (
	DefaultFailures    = 5
	DefaultOpenTime    = 30 * time.Second
	DefaultMaxOpenTime = 5 * time.Minute
)

// longestCause is how many bytes of a failure's detail a breaker keeps.
const longestCause = 300

// BreakerConfig is when a breaker opens, and for how long.
type BreakerConfig struct {
	// Failures in a row open the breaker; 0 means DefaultFailures.
	Failures int
	// OpenTime is how long it stays open first, and MaxOpenTime the longest: each try
	// of the half-open breaker that fails doubles it. 0 means DefaultOpenTime and
	// DefaultMaxOpenTime; an OpenTime beyond MaxOpenTime is capped.
	OpenTime, MaxOpenTime time.Duration
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
// decisions no time: while it is open, it refuses at once, with an error wrapping
// solver.ErrUnavailable. Half-open, it lets a single try through and refuses all others
// until that try has ended.
//
// It is for backends that depend on something outside of this process: a program
// that is missing, hangs or crashes. A backend of our own fails fast and for a
// reason that lies in the snapshot, and one bad snapshot must not shut it out for all.
//
// A chain tells its breakers what became of a try in the end, so a plan that is
// illegal or whose claim is refuted is a failure as well. A try counts for nothing
// if the caller left, if it had no time (BreakerConfig.MinAttemptTime), or if the problem
// does not suit the backend (solver.ErrUnsuited). It is safe for concurrent use.
type Breaker struct {
	backend        solver.Backend
	minAttemptTime time.Duration
	onChange       func(BackendState)

	mutex   sync.Mutex
	circuit circuit
	wasUp   bool // ever
}

// NewBreaker returns a breaker for a backend.
func NewBreaker(backend solver.Backend, config BreakerConfig) *Breaker {
	b := &Breaker{
		backend: backend, minAttemptTime: config.MinAttemptTime, onChange: config.OnChange,
		circuit: circuit{
			allowed:  cmp.Or(config.Failures, DefaultFailures),
			shortest: cmp.Or(config.OpenTime, DefaultOpenTime),
			longest:  cmp.Or(config.MaxOpenTime, DefaultMaxOpenTime),
		},
	}
	b.wasUp = config.Down == nil
	if config.Down != nil {
		b.circuit.cause = causeOf(config.Down.Error())
		b.circuit.trip(time.Now())
	}
	return b
}

// Name returns the name of the backend.
func (b *Breaker) Name() solver.BackendName { return b.backend.Name() }

// Solve asks the backend unless the breaker is open. It cannot know whether the plan is legal;
// a chain of this package, which does, asks the backend itself.
func (b *Breaker) Solve(
	ctx context.Context, p *solver.Problem, options solver.SolveOptions,
) (result solver.Result, err error) {
	end, _ := ctx.Deadline()
	_, refused := b.guard(ctx, end, func() answer {
		if result, err = solve(ctx, b.backend, p, options); err != nil {
			return failure(b.Name(), err)
		}
		return answer{Attempt: solver.Attempt{Backend: b.Name(), Outcome: solver.OutcomeAnswered}}
	})
	if refused != nil {
		return solver.Result{}, refused
	}
	return result, err
}

// State returns what is known of the backend now.
func (b *Breaker) State() BackendState {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.state()
}

// guard makes a try unless the breaker is open, and records its outcome. The try has
// until end; the zero time is without limit. The error, which wraps
// solver.ErrUnavailable, says why no try is made now.
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

// admit returns a ticket for a try, or why none is made now.
func (b *Breaker) admit(now time.Time) (ticket int, err error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	ticket, admitted := b.circuit.admit(now)
	if admitted {
		return ticket, nil
	}
	when := "circuit open until " + b.circuit.until.UTC().Format(time.RFC3339)
	if b.circuit.trial {
		when = "circuit half-open, another decision is trying it"
	}
	switch cause := b.circuit.cause; b.circuit.failures {
	case 0:
		return 0, fmt.Errorf("%w: %s: %s", solver.ErrUnavailable, when, cause)
	case 1:
		return 0, fmt.Errorf("%w: %s: 1 failure: %s", solver.ErrUnavailable, when, cause)
	default:
		return 0, fmt.Errorf("%w: %s: %d failures in a row, the last: %s", solver.ErrUnavailable, when, b.circuit.failures, cause)
	}
}

// verdictOn returns what a try of the given time says of the backend.
func (b *Breaker) verdictOn(ctx context.Context, given time.Duration, a *answer) verdict {
	switch {
	case errors.Is(ctx.Err(), context.Canceled), a.unsuited:
		return saysNothing
	case a.Outcome == solver.OutcomeAnswered:
		return saysWorks
	case a.Outcome == solver.OutcomeTimedOut && (given <= 0 || given < b.minAttemptTime):
		return saysNothing
	default:
		return saysFails
	}
}

// settle takes note of what a try says and calls OnChange where that changes
// something: under the lock, so that changes are told in the order of their coming.
func (b *Breaker) settle(ticket int, says verdict, detail string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	changed := b.circuit.settle(ticket, time.Now(), says, causeOf(detail))
	b.wasUp = b.wasUp || !b.circuit.open()
	if changed && b.onChange != nil {
		b.onChange(b.state())
	}
}

// state returns what is known of the backend, under the lock.
func (b *Breaker) state() BackendState {
	c := &b.circuit
	s := BackendState{
		Up: !c.open(), NeverUp: c.open() && !b.wasUp,
		Since: c.since, HalfOpen: c.trial, Failures: c.failures, Cause: c.cause,
	}
	if !s.Up {
		s.OpenUntil = c.until
	}
	return s
}

// causeOf returns a failure's detail in brief, without what goes without saying.
func causeOf(detail string) string {
	detail = strings.TrimPrefix(detail, solver.ErrUnavailable.Error()+": ")
	if len(detail) <= longestCause {
		return detail
	}
	end := longestCause
	for end > 0 && !utf8.RuneStart(detail[end]) {
		end--
	}
	return detail[:end] + "…"
}
