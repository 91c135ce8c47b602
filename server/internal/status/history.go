package status

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/elastalloc/elastalloc/internal/text"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server/internal/guard"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
	"github.com/elastalloc/elastalloc/solver"
)

// What a history keeps, at most: less than 8 MiB whatever callers send.
const (
	keptCalls    = 50 // answered calls, and as many that were not
	keptAttempts = 8  // failed attempts of a decision
	keptJobs     = 50 // jobs of the last decision
	keptWarned   = 3  // jobs of a kind of warning

	keptAllocations = 1000    // of the last decision, until its jobs are looked at
	keptRequest     = 4 << 20 // bytes of its request, decoded
)

// history remembers the last calls, and how often each backend answered. It is an
// observer of calls.
type history struct {
	explaining        sync.Mutex
	mutex             sync.Mutex // locked last
	answered, refused ring
	tallies           map[solver.BackendName]tally
	past              past
	decided           *lastDecision // nil before the first
}

// lastDecision is what is remembered of the last decision's jobs.
type lastDecision struct {
	SnapshotID string
	jobs       func() []decidedJob
	More       int  // jobs that are not kept
	Explained  bool // reasons were looked for
	decided    Decided
}

// Decided is what was decided, and by what.
type Decided struct {
	// Request is nil if it is too large to keep. Its size is Size.
	Request *elastallocv1.AllocateRequest
	Size    guard.Size
	Backend solver.BackendName
}

// Jobs returns the jobs that are kept.
func (d *lastDecision) Jobs() []decidedJob { return d.jobs() }

// TooLarge says that no reasons will be found, because the request is not kept.
func (d *lastDecision) TooLarge() bool { return !d.Explained && d.decided.Request == nil }

// decidedJob is what the last decision means for a job, and why it has no nodes.
type decidedJob struct {
	index          int // in the snapshot
	ID             string
	Current, Nodes int
	NodeType       string // "" where the nodes are alike
	Change         solver.Change
	Wait           solver.WaitReason
	Behind         string
	Reason         *Reason // why it has these nodes and no others, nil where that was not found
	// Starts and Ends are forecasts from the decision on, nil where there is none, and 80 % of
	// the ends are forecast between endsLow and endsHigh.
	Starts, Ends      *time.Duration
	endsLow, endsHigh *time.Duration
}

// Insight is what is found out about a decision when the page is shown.
type Insight struct {
	Reasons  map[string]Reason    // by the ids of jobs
	Forecast []solver.JobForecast // in the order of the snapshot; empty where there was no time
}

// Reason is why a job of a decision has its nodes.
type Reason struct {
	Nodes     int
	Why       solver.Why
	Text      string
	Estimated bool // there was no time to find out what every size would cost
}

// newLastDecision returns what to remember of a decision. Most are followed by another before
// anybody looks, so that its jobs wait for that unless they are many.
func newLastDecision(snapshotID string, d *solver.Decision) *lastDecision {
	allocations := d.Allocations
	last := &lastDecision{
		SnapshotID: snapshotID, decided: Decided{Backend: d.Report.Backend},
		jobs: sync.OnceValue(func() []decidedJob { return decidedJobs(allocations) }), More: max(0, len(allocations)-keptJobs),
	}
	if len(allocations) > keptAllocations {
		last.jobs()
	}
	return last
}

// decidedJobs returns the jobs of a decision to remember: first those that change or hold no
// nodes, in the order of the snapshot, then the others.
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

// ring holds the last calls.
type ring struct {
	calls [keptCalls]pastCall
	count int // since the start
}

// add adds a call, which replaces the oldest.
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

// pastCall is what is remembered of a call.
type pastCall struct {
	Ended                                 time.Time
	Age                                   string // when the page is shown
	Took                                  time.Duration
	Method, Caller, RequestID, SnapshotID string
	HasSnapshot                           bool
	Jobs, Nodes                           int
	Report                                *solver.Report // without lists but for failed attempts, or nil
	Warnings                              []warnings
	Code                                  codes.Code // with Error: why there was no answer
	Error                                 string
}

// warnings are those of a decision that have the same code.
type warnings struct {
	Code  solver.WarningCode
	Count int
	Jobs  []string // the first jobs that they are about
}

// countWarnings counts warnings by code, in the order in which the codes come.
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

// tally is how often a backend did what since the start.
type tally struct {
	Answered int
	Failed   int // no plan in time, a crash, an invalid plan
	NotAsked int // missing, its breaker open, or not suited to the problem
}

// Observe remembers a call.
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

// tally counts attempts, under the lock.
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
			t.NotAsked++
		default:
			t.Failed++
		}
		h.tallies[attempt.Backend] = t
	}
}

// failedAttempts returns the attempts that gave no answer, in brief.
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

// explain finds out, once, why the jobs of the last decision have their nodes, and when they
// start and end. Where ask has no answer now, it is asked again the next time; while it is
// asked, no one else asks or waits.
func (h *history) explain(ask func(Decided, []string) (Insight, bool)) {
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
	asked, jobs := last.decided.Request.GetSnapshot().GetJobs(), slices.Clone(last.Jobs())
	var ids []string
	for i := range jobs {
		ids = append(ids, asked[jobs[i].index].GetId())
	}
	insight, ok := ask(last.decided, ids)
	if !ok {
		return
	}
	for i := range jobs {
		// With another time limit the decision may be another.
		if reason, known := insight.Reasons[ids[i]]; known && reason.Nodes == jobs[i].Nodes && reason.Why != "" {
			jobs[i].Reason = &reason
		}
		if index := jobs[i].index; index < len(insight.Forecast) {
			of := &insight.Forecast[index]
			jobs[i].Starts, jobs[i].Ends = of.Start, of.End
			jobs[i].endsLow, jobs[i].endsHigh = of.EndLow, of.EndHigh
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

// recall fills in what the page shows of the calls.
func (h *history) recall(v *view) map[solver.BackendName]tally {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	v.Answered, v.AnsweredCount = h.answered.last(v.Now), h.answered.count
	v.Refused, v.RefusedCount = h.refused.last(v.Now), h.refused.count
	v.Decided, v.past = h.decided, h.past.copied()
	return maps.Clone(h.tallies)
}
