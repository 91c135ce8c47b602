package server

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elastalloc/elastalloc/internal/text"
	"github.com/elastalloc/elastalloc/solver"
)

// What a history keeps of decisions, at most. Its memory is bounded whatever ids and
// details there are.
const (
	keptDecisions = 50
	keptFailures  = 8 // tries of a decision that gave no answer
)

// history remembers what the status page shows of the decisions of a server: the last
// ones, and how often each backend answered. It is safe for concurrent use, and a nil
// one remembers nothing.
type history struct {
	mutex   sync.Mutex
	last    [keptDecisions]pastDecision // a ring that ends before next
	next    int
	decided int // since the start, calls that got no decision left out
	tallies map[solver.BackendName]tally
}

// pastDecision is what is remembered of a valid request.
type pastDecision struct {
	at, ended             time.Time
	requestID, snapshotID string
	jobs, nodes           int
	filling               bool // idle nodes only, without a search
	// report says what was decided; of its attempts only failures are kept.
	report solver.Report
	// code is OK where a decision was made, and otherwise that of the call.
	code codes.Code
}

// tally is how often a backend did what since the start.
type tally struct {
	answered int
	failed   int // no plan in time, a crash, an invalid plan
	notAsked int // as it is missing, rests, or does not take the problem
}

// remember takes note of what became of a valid request that came at a time: of a
// report, or of the error of the call.
func (h *history) remember(ctx context.Context, at time.Time, c call, report *solver.Report, err error) {
	if h == nil {
		return
	}
	d := pastDecision{
		at: at, ended: time.Now(),
		requestID: requestID(ctx), snapshotID: strings.Clone(text.Shorten(c.snapshot.ID)),
		jobs: len(c.snapshot.Jobs), nodes: c.snapshot.TotalNodes, filling: c.filling,
	}
	if err != nil {
		d.code = status.Code(err)
	} else {
		d.report = *report
		d.report.Attempts = keptAttempts(report.Attempts)
	}

	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.last[h.next%keptDecisions] = d
	h.next++
	if err == nil {
		h.decided++
		h.count(report.Attempts)
	}
}

// count adds attempts to the tallies, under the lock.
func (h *history) count(attempts []solver.Attempt) {
	if h.tallies == nil {
		h.tallies = make(map[solver.BackendName]tally)
	}
	for _, attempt := range attempts {
		t := h.tallies[attempt.Backend]
		switch attempt.Outcome {
		case solver.OutcomeAnswered:
			t.answered++
		case solver.OutcomeUnavailable:
			t.notAsked++
		default:
			t.failed++
		}
		h.tallies[attempt.Backend] = t
	}
}

// keptAttempts returns the attempts that gave no answer, in brief.
func keptAttempts(attempts []solver.Attempt) []solver.Attempt {
	var kept []solver.Attempt
	for _, attempt := range attempts {
		if attempt.Outcome != solver.OutcomeAnswered && len(kept) < keptFailures {
			attempt.Detail = strings.Clone(text.Shorten(attempt.Detail))
			kept = append(kept, attempt)
		}
	}
	return kept
}

// recall returns the last decisions, newest first, how many there were since the
// start, and how often a backend did what.
func (h *history) recall() (last []pastDecision, decided int, tallies map[solver.BackendName]tally) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	last = make([]pastDecision, 0, keptDecisions)
	for i := h.next - 1; i >= max(0, h.next-keptDecisions); i-- {
		last = append(last, h.last[i%keptDecisions])
	}
	tallies = make(map[solver.BackendName]tally, len(h.tallies))
	for name, t := range h.tallies {
		tallies[name] = t
	}
	return last, h.decided, tallies
}
