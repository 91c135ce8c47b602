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
	"github.com/elastalloc/elastalloc/solver/problem"
)

// maxCauseBytes is the maximum length of BackendState.Cause, without the ellipsis.
const maxCauseBytes = 300

// BreakerConfig configures a Breaker.
type BreakerConfig struct {
	// MinAttemptTime is the minimum time that a backend must have had for a timeout to count as a
	// failure, because a timeout after a very short time does not show that the backend is broken. 0
	// means that every timeout counts.
	MinAttemptTime time.Duration
	// InitialError is the reason why the backend does not work at the start, for example a missing
	// program. The breaker is then open at first. Nil means that it is closed.
	InitialError error
	// OnChange is called each time that the breaker opens, including the times that a trial call
	// fails, and when it closes. Calls are made one at a time and in order. OnChange must not call
	// the breaker. It may be nil.
	OnChange func(BackendState)
}

// BackendState is the state of a backend behind a breaker.
type BackendState struct {
	// Up reports that the breaker is closed, so that calls reach the backend.
	Up bool
	// NeverUp reports that the backend was unavailable at the start and has not worked since.
	NeverUp bool
	// Since is the time when the breaker opened or, if it is closed, when it closed again. It is zero
	// if the breaker has never been open.
	Since time.Time
	// OpenUntil is the time when the breaker becomes half-open, zero if it is closed.
	OpenUntil time.Time
	// HalfOpen reports that the trial call of a half-open breaker is in progress.
	HalfOpen bool
	// Failures is the number of failures since the last success.
	Failures int
	// Cause is the detail of the last of these failures, or the reason why the backend never worked. ""
	// means that there was no failure.
	Cause string
}

// Thresholds of a Breaker.
const (
	// FailureThreshold is the number of consecutive failures that opens a breaker.
	FailureThreshold = 5
	// OpenDuration is the time that a breaker remains open before it allows a trial call.
	OpenDuration = time.Minute
)

// Errors that the circuit of a Breaker counts.
var (
	errFailure = errors.New("the attempt failed")
	// errIgnored marks an attempt that shows neither that the backend works nor that it fails, for
	// example because the caller canceled it.
	errIgnored = errors.New("the attempt does not count")
)

// Breaker is a circuit breaker around a backend, so that a backend that keeps failing costs decisions
// no time. After FailureThreshold consecutive failures it opens, and the chain does not call the backend.
// After OpenDuration it becomes half-open and allows one trial call, which closes it or opens it again.
// A chain applies the breaker; the method Solve calls the backend in every state.
//
// A breaker is for backends that depend on something outside this process, such as a program that can
// be missing, hang or crash. An embedded backend fails fast and because of the snapshot, and one bad
// snapshot must not disable it for all others.
//
// Illegal plans and refuted claims are failures too. These attempts do not count: the caller canceled
// them, they had less time than BreakerConfig.MinAttemptTime, or the backend does not support the problem
// (solver.ErrUnsuited). A Breaker is safe for concurrent use.
type Breaker struct {
	problem.Backend
	config  BreakerConfig
	circuit *gobreaker.CircuitBreaker[attempt]

	mu    sync.Mutex // Locked after the lock of circuit, never before it.
	state BackendState
}

// NewBreaker returns a breaker around a backend.
func NewBreaker(backend problem.Backend, config BreakerConfig) *Breaker {
	b := &Breaker{Backend: backend, state: BackendState{Up: true}}
	b.circuit = gobreaker.NewCircuitBreaker[attempt](gobreaker.Settings{
		Timeout:       OpenDuration,
		ReadyToTrip:   func(counts gobreaker.Counts) bool { return counts.ConsecutiveFailures >= FailureThreshold },
		IsExcluded:    func(err error) bool { return errors.Is(err, errIgnored) },
		OnStateChange: func(_ string, from, to gobreaker.State) { b.onStateChange(from, to) },
	})
	if config.InitialError != nil {
		for range FailureThreshold {
			_, _ = b.circuit.Execute(func() (attempt, error) { return attempt{}, errFailure })
		}
		b.state.NeverUp, b.state.Failures, b.state.Cause = true, 0, shortCause(config.InitialError.Error())
	}
	b.config = config
	return b
}

// State returns the current state of the backend.
func (b *Breaker) State() BackendState {
	failures := int(b.circuit.Counts().ConsecutiveFailures)
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.state
	if state.Up {
		if state.Failures = failures; failures == 0 {
			state.Cause = ""
		}
	}
	return state
}

// execute makes an attempt and records its outcome. The attempt has until deadline; the zero time means
// that it has no deadline. If the breaker allows no attempt now, the error wraps solver.ErrUnavailable.
func (b *Breaker) execute(ctx context.Context, deadline time.Time, try func() attempt) (attempt, error) {
	available := time.Duration(math.MaxInt64)
	if !deadline.IsZero() {
		available = time.Until(deadline)
	}
	a, err := b.circuit.Execute(func() (a attempt, verdict error) {
		// This value remains if try panics, so that the circuit does not stay half-open for ever.
		a = attempt{Attempt: solver.Attempt{Outcome: solver.OutcomeCrashed, Detail: "the attempt panicked"}}
		trial := b.beginAttempt()
		defer func() {
			verdict = b.judge(ctx, available, &a)
			b.endAttempt(trial, verdict, a.Detail)
		}()
		return try(), nil
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return attempt{}, b.unavailableError()
	}
	return a, nil
}

// beginAttempt reports whether an attempt is the trial call of a half-open circuit.
func (b *Breaker) beginAttempt() (trial bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state.HalfOpen = !b.state.Up
	return b.state.HalfOpen
}

// endAttempt records the verdict of an attempt. It is called before the circuit counts the verdict.
func (b *Breaker) endAttempt(trial bool, verdict error, detail string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if trial {
		b.state.HalfOpen = false
	}
	if errors.Is(verdict, errFailure) {
		b.state.Cause = shortCause(detail)
	}
}

// onStateChange records a change of the circuit. The circuit calls it while it is locked, so that
// changes are reported in order.
func (b *Breaker) onStateChange(from, to gobreaker.State) {
	b.mu.Lock()
	switch now := time.Now(); to {
	case gobreaker.StateClosed:
		b.state = BackendState{Up: true, Since: now}
	case gobreaker.StateOpen:
		b.state.Failures++
		if from == gobreaker.StateClosed {
			b.state.Up, b.state.Since, b.state.Failures = false, now, FailureThreshold
		}
		b.state.OpenUntil = now.Add(OpenDuration)
	}
	state := b.state
	b.mu.Unlock()
	if to != gobreaker.StateHalfOpen && b.config.OnChange != nil {
		b.config.OnChange(state)
	}
}

// unavailableError returns the reason why the breaker allows no attempt now.
func (b *Breaker) unavailableError() error {
	state := b.State()
	circuit := "circuit open until " + state.OpenUntil.UTC().Format(time.RFC3339)
	if state.HalfOpen {
		circuit = "circuit half-open, trial call in progress"
	}
	switch state.Failures {
	case 0:
		return fmt.Errorf("%w: %s: %s", solver.ErrUnavailable, circuit, state.Cause)
	case 1:
		return fmt.Errorf("%w: %s: 1 failure: %s", solver.ErrUnavailable, circuit, state.Cause)
	default:
		return fmt.Errorf("%w: %s: %d consecutive failures, last: %s", solver.ErrUnavailable, circuit, state.Failures, state.Cause)
	}
}

// judge returns nil, errFailure or errIgnored for an attempt that had the available time.
func (b *Breaker) judge(ctx context.Context, available time.Duration, a *attempt) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled), a.unsuited:
		return errIgnored
	case a.Outcome == solver.OutcomeAnswered:
		return nil
	case a.Outcome == solver.OutcomeTimedOut && (available <= 0 || available < b.config.MinAttemptTime):
		return errIgnored
	default:
		return errFailure
	}
}

// shortCause returns the detail of a failure without the prefix of solver.ErrUnavailable, sanitized and
// truncated.
func shortCause(detail string) string {
	return sanitize(strings.TrimPrefix(detail, solver.ErrUnavailable.Error()+": "), maxCauseBytes)
}
