package chain

import (
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
	DefaultRest        = 30 * time.Second
	DefaultLongestRest = 5 * time.Minute
)

// longestCause is how many bytes of a failure's detail a breaker keeps.
const longestCause = 300

// BreakerConfig is when a breaker rests its backend, and for how long.
type BreakerConfig struct {
	// Failures in a row send the backend to rest; 0 means DefaultFailures.
	Failures int
	// Rest is how long it rests first, and LongestRest the most: each trial that
	// fails doubles the rest. 0 means DefaultRest and DefaultLongestRest; a Rest that
	// is longer than LongestRest is as long as that.
	Rest, LongestRest time.Duration
	// Patience is the time that a backend must have had for a time-out to count as
	// a failure: callers with tiny budgets say nothing about it. 0 means any.
	Patience time.Duration
	// Down says why the backend does not work from the start, such as that its
	// program is missing: it begins with a rest. nil is none.
	Down error
	// OnChange, where set, is called each time that the backend is sent to rest,
	// also when a trial fails, and when it is up again. Calls come one at a time and
	// in order. It must not call the breaker.
	OnChange func(BackendState)
}

// BackendState is what a breaker knows of its backend.
type BackendState struct {
	// Up says that the backend is asked as usual. One whose rest is over is not up
	// before a trial has succeeded.
	Up bool
	// NeverUp says that it was down from the start and has not worked since.
	NeverUp bool
	// Since is when it was sent to rest or, if it is up, when its last rest ended;
	// zero if it never rested.
	Since time.Time
	// RestsUntil is when the next try may be made; zero if it is up.
	RestsUntil time.Time
	// OnTrial says that this one try is under way.
	OnTrial bool
	// Failures is how often it has failed since it last worked.
	Failures int
	// Cause is the last of these failures, or why it never worked; "" is none.
	Cause string
}

// Breaker is a backend that rests another one that keeps failing, so that it costs
// decisions no time: it refuses at once, with an error wrapping
// solver.ErrUnavailable. A rest over, it lets a single try through and refuses all
// others until that try has shown how the backend is.
//
// It is for backends that depend on something outside of this process: a program
// that is missing, hangs or crashes. A backend of our own fails fast and for a
// reason that lies in the snapshot, and one bad snapshot must not rest it for all.
//
// A chain tells its breakers what became of a try in the end, so a plan that is
// illegal or whose claim is refuted is a failure as well. A try counts for nothing
// if the caller left, if it had no time (BreakerConfig.Patience), or if the problem
// does not suit the backend (solver.ErrUnsuited). It is safe for concurrent use.
type Breaker struct {
	backend  solver.Backend
	patience time.Duration
	onChange func(BackendState)

	mutex   sync.Mutex
	circuit circuit
	wasUp   bool // ever
}

// NewBreaker returns a breaker for a backend.
func NewBreaker(backend solver.Backend, config BreakerConfig) *Breaker {
	b := &Breaker{
		backend: backend, patience: config.Patience, onChange: config.OnChange,
		circuit: circuit{
			allowed:  orDefault(config.Failures, DefaultFailures),
			shortest: orDefault(config.Rest, DefaultRest),
			longest:  orDefault(config.LongestRest, DefaultLongestRest),
		},
	}
	b.wasUp = config.Down == nil
	if config.Down != nil {
		b.circuit.cause = causeOf(config.Down.Error())
		b.circuit.sendToRest(time.Now())
	}
	return b
}

// Name returns the name of the backend.
func (b *Breaker) Name() solver.BackendName { return b.backend.Name() }

// Solve asks the backend unless it rests. It cannot know whether the plan is legal;
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

// guard has a try made and takes note of what became of it. The try has until end;
// the zero time is without limit. The error, which wraps solver.ErrUnavailable, is
// why no try is made now.
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
	// This stands should the try panic: a trial must not stay under way for ever.
	a := answer{Attempt: solver.Attempt{Outcome: solver.OutcomeCrashed, Detail: "the try panicked"}}
	defer func() { b.settle(ticket, b.judge(ctx, given, &a), a.Detail) }()
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
	when := "resting until " + b.circuit.until.UTC().Format(time.RFC3339)
	if b.circuit.trial {
		when = "another decision is trying it out"
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

// judge returns what a try of the given time says of the backend.
func (b *Breaker) judge(ctx context.Context, given time.Duration, a *answer) verdict {
	switch {
	case errors.Is(ctx.Err(), context.Canceled), a.unsuited:
		return saysNothing
	case a.Outcome == solver.OutcomeAnswered:
		return saysWorks
	case a.Outcome == solver.OutcomeTimedOut && (given <= 0 || given < b.patience):
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
	b.wasUp = b.wasUp || !b.circuit.resting()
	if changed && b.onChange != nil {
		b.onChange(b.state())
	}
}

// state returns what is known of the backend, under the lock.
func (b *Breaker) state() BackendState {
	c := &b.circuit
	s := BackendState{
		Up: !c.resting(), NeverUp: c.resting() && !b.wasUp,
		Since: c.since, OnTrial: c.trial, Failures: c.failures, Cause: c.cause,
	}
	if !s.Up {
		s.RestsUntil = c.until
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

// orDefault returns a setting, or its default where it is 0.
func orDefault[T int | time.Duration](set, byDefault T) T {
	if set == 0 {
		return byDefault
	}
	return set
}
