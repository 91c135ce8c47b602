package status

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/elastalloc/elastalloc/internal/text"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server/internal/guard"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
	"github.com/elastalloc/elastalloc/solver"
)

// Limits of a history. It uses less than 8 MiB for any requests.
const (
	keptCalls     = 50   // successful calls, and as many failed calls
	keptAttempts  = 8    // failed attempts per decision
	keptJobs      = 5000 // jobs of the last decision, for the search
	explainedJobs = 50   // of them, which are shown without a search
	keptWarned    = 3    // jobs per warning code

	keptAllocations = 1000    // allocations of the last decision, until its jobs are shown
	keptRequest     = 4 << 20 // size of the last decision's request, encoded and decoded, in bytes
)

// history keeps the last calls and counts the attempts of each backend. It is an observer of calls.
type history struct {
	explaining        sync.Mutex
	mutex             sync.Mutex // locked after explaining
	answered, refused ring
	tallies           map[solver.BackendName]tally
	past              past
	decided           *lastDecision // nil before the first
}

// lastDecision is the jobs of the last decision.
type lastDecision struct {
	SnapshotID string
	jobs       func() []decidedJob
	notKept    int  // jobs that are not kept
	Explained  bool // explanations were requested
	decided    Decided
}

// Decided is a decided request and the backend that decided it.
type Decided struct {
	// Request is nil if it is too large to keep. Size is its size.
	Request *elastallocv1.AllocateRequest
	Size    guard.Size
	Backend solver.BackendName
}

// maxFound is the maximum number of jobs that a search shows.
const maxFound = 200

// find returns the jobs to show, and the number of others: the first jobs or, if part is not "", the jobs whose ids
// contain it, regardless of case. Jobs that are not kept are not found.
func (d *lastDecision) find(part string) (shown []decidedJob, more int) {
	jobs := d.jobs()
	if part == "" {
		shown = jobs[:min(explainedJobs, len(jobs))]
		return shown, len(jobs) - len(shown) + d.notKept
	}
	part = strings.ToLower(part)
	for i := range jobs {
		switch {
		case !strings.Contains(strings.ToLower(jobs[i].ID), part):
		case len(shown) == maxFound:
			more++
		default:
			shown = append(shown, jobs[i])
		}
	}
	return shown, more
}

// TooLarge reports whether there are no explanations because the request was too large to keep.
func (d *lastDecision) TooLarge() bool { return !d.Explained && d.decided.Request == nil }

// decidedJob is the allocation of a job in the last decision.
type decidedJob struct {
	index          int // in the snapshot
	ID             string
	Current, Nodes int
	NodeType       string // "" if the pool has no node types
	Change         solver.Change
	Wait           solver.WaitReason
	Behind         string
	Reason         *Reason // why it has these nodes, nil if unknown
	// Starts and Ends are forecasts of the times from the decision to the start and to the completion.
	// They are nil if there is no forecast. The 80% interval of the completion is from endsLow to
	// endsHigh.
	Starts, Ends      *time.Duration
	endsLow, endsHigh *time.Duration
}

// Insight is the explanation and the forecast of a decision.
type Insight struct {
	Reasons  map[string]Reason    // by the ids of jobs
	Forecast []solver.JobForecast // in the order of the snapshot; empty if there was not enough time
}

// Reason is why a job of a decision has its nodes.
type Reason struct {
	Nodes     int
	Why       solver.Why
	Text      string
	Estimated bool // there was not enough time to prove the loss of every size
}

// newLastDecision returns the last decision. It converts the jobs when they are first shown, because most
// decisions are replaced before that. It converts many jobs at once, so that it does not keep their
// allocations.
func newLastDecision(snapshotID string, d *solver.Decision) *lastDecision {
	allocations := d.Allocations
	last := &lastDecision{
		SnapshotID: snapshotID, decided: Decided{Backend: d.Report.Backend},
		jobs: sync.OnceValue(func() []decidedJob { return decidedJobs(allocations) }), notKept: max(0, len(allocations)-keptJobs),
	}
	if len(allocations) > keptAllocations {
		last.jobs()
	}
	return last
}

// decidedJobs returns the jobs of a decision to show, in the order of the snapshot. Jobs that change or wait
// are first.
func decidedJobs(allocations []solver.Allocation) []decidedJob {
	jobs := make([]decidedJob, 0, min(keptJobs, len(allocations)))
	for _, keeps := range []bool{false, true} {
		for i := range allocations {
			a := &allocations[i]
			if len(jobs) < cap(jobs) && keeps == (a.Change == solver.ChangeKeep) {
				jobs = append(jobs, decidedJob{
					index: i, ID: text.Shorten(a.JobID), Current: a.Current, Nodes: a.Nodes,
					NodeType: text.Shorten(a.NodeType),
					Change:   a.Change, Wait: a.WaitReason, Behind: text.Shorten(a.BehindJobID),
				})
			}
		}
	}
	return jobs
}

// ring is a ring buffer of the last calls.
type ring struct {
	calls [keptCalls]pastCall
	count int // since the start
}

// add adds a call. It replaces the oldest call.
func (r *ring) add(c pastCall) {
	r.calls[r.count%keptCalls] = c
	r.count++
}

// last returns the calls, newest first.
func (r *ring) last(now time.Time) []pastCall {
	var last []pastCall
	for i := r.count - 1; i >= max(0, r.count-keptCalls); i-- {
		call := r.calls[i%keptCalls]
		call.Age = span(call.Ended, now)
		last = append(last, call)
	}
	return last
}

// pastCall is a completed call.
type pastCall struct {
	Ended                                 time.Time
	Age                                   string // when the page is shown
	Took                                  time.Duration
	Method, Caller, RequestID, SnapshotID string
	HasSnapshot                           bool
	Jobs, Nodes                           int
	Report                                *solver.Report // without lists, except failed attempts; may be nil
	Warnings                              []warnings
	Code                                  codes.Code // with Error: why the call failed
	Error                                 string
}

// warnings is the warnings of a decision with the same code.
type warnings struct {
	Code  solver.WarningCode
	Count int
	Jobs  []string // ids of the first jobs
}

// countWarnings counts warnings by code, in the order of the first warning with each code.
func countWarnings(all []solver.Warning) []warnings {
	var counted []warnings
	for _, warning := range all {
		i := slices.IndexFunc(counted, func(w warnings) bool { return w.Code == warning.Code })
		if i < 0 {
			i = len(counted)
			counted = append(counted, warnings{Code: warning.Code})
		}
		counted[i].Count++
		if warning.JobID != "" && len(counted[i].Jobs) < keptWarned {
			counted[i].Jobs = append(counted[i].Jobs, text.Shorten(warning.JobID))
		}
	}
	return counted
}

// tally is the numbers of attempts of a backend since the start.
type tally struct {
	Answered int
	Failed   int // no plan in time, a crash, or an invalid plan
	Skipped  int // missing, circuit breaker open, or not suited to the problem
}

// Observe keeps a call.
func (h *history) Observe(_ context.Context, event *ingress.Event) {
	call := pastCall{
		Ended: event.Began.Add(event.Total), Took: event.Total,
		Method: event.Method, Caller: event.Caller, RequestID: event.RequestID, SnapshotID: text.Shorten(event.SnapshotID),
		HasSnapshot: event.HasSnapshot, Jobs: event.Jobs, Nodes: event.Nodes,
	}
	if event.Decision != nil {
		call.Warnings = countWarnings(event.Decision.Report.Warnings)
	}
	if event.Report != nil {
		report := *event.Report
		report.Attempts = failedAttempts(event.Report.Attempts)
		report.Warnings, report.Groups, report.NodePrices, report.Certificate = nil, nil, nil, nil
		call.Report = &report
	}

	var decided *lastDecision
	if event.Decision != nil && event.Report != nil && len(event.Decision.Allocations) > 0 {
		decided = newLastDecision(call.SnapshotID, event.Decision)
		if event.Size.Bytes+event.RequestBytes <= keptRequest {
			decided.decided.Request, _ = event.Request.(*elastallocv1.AllocateRequest)
			decided.decided.Size = event.Size
		}
	}

	h.mutex.Lock()
	defer h.mutex.Unlock()
	if decided != nil {
		h.decided = decided
	}
	if event.Decision != nil && event.Err == nil {
		h.past.add(call.Ended, event)
	}
	if event.Err != nil {
		call.Code, call.Error = event.Code(), "internal error, see the log"
		if call.Code != codes.Internal {
			call.Error = text.Shorten(event.Err.Error())
		}
		h.refused.add(call)
		return
	}
	h.answered.add(call)
	if event.Report != nil {
		h.tally(event.Report.Attempts)
	}
}

// tally counts attempts. The caller has locked mutex.
func (h *history) tally(attempts []solver.Attempt) {
	if h.tallies == nil {
		h.tallies = make(map[solver.BackendName]tally)
	}
	for _, attempt := range attempts {
		t := h.tallies[attempt.Backend]
		switch attempt.Outcome {
		case solver.OutcomeAnswered:
			t.Answered++
		case solver.OutcomeUnavailable:
			t.Skipped++
		default:
			t.Failed++
		}
		h.tallies[attempt.Backend] = t
	}
}

// failedAttempts returns the first attempts that returned no plan, with shortened details.
func failedAttempts(attempts []solver.Attempt) []solver.Attempt {
	var failed []solver.Attempt
	for _, attempt := range attempts {
		if attempt.Outcome != solver.OutcomeAnswered && len(failed) < keptAttempts {
			attempt.Detail = text.Shorten(attempt.Detail)
			failed = append(failed, attempt)
		}
	}
	return failed
}

// explain adds explanations and forecasts to the jobs of the last decision, once. If find returns false, a
// later call tries again. Concurrent calls return at once.
func (h *history) explain(find func(Decided, []string) (Insight, bool)) {
	if !h.explaining.TryLock() {
		return
	}
	defer h.explaining.Unlock()
	h.mutex.Lock()
	last := h.decided
	h.mutex.Unlock()
	if last == nil || last.Explained || last.decided.Request == nil {
		return
	}
	snapshotJobs, jobs := last.decided.Request.GetSnapshot().GetJobs(), slices.Clone(last.jobs())
	var ids []string
	for i := range min(explainedJobs, len(jobs)) {
		ids = append(ids, snapshotJobs[jobs[i].index].GetId())
	}
	insight, ok := find(last.decided, ids)
	if !ok {
		return
	}
	for i, id := range ids {
		// With another time budget the decision may differ.
		if reason, known := insight.Reasons[id]; known && reason.Nodes == jobs[i].Nodes && reason.Why != "" {
			jobs[i].Reason = &reason
		}
	}
	for i := range jobs {
		if index := jobs[i].index; index < len(insight.Forecast) {
			forecast := &insight.Forecast[index]
			jobs[i].Starts, jobs[i].Ends = forecast.Start, forecast.End
			jobs[i].endsLow, jobs[i].endsHigh = forecast.EndLow, forecast.EndHigh
		}
	}
	explained := *last
	explained.Explained, explained.decided.Request, explained.jobs = true, nil, func() []decidedJob { return jobs }
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.decided == last {
		h.decided = &explained
	}
}

// recall adds the calls and decisions to v, and returns the attempts of each backend.
func (h *history) recall(v *view) map[solver.BackendName]tally {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	v.Answered, v.AnsweredCount = h.answered.last(v.Now), h.answered.count
	v.Refused, v.RefusedCount = h.refused.last(v.Now), h.refused.count
	v.Decided, v.past = h.decided, h.past.copied()
	return maps.Clone(h.tallies)
}
