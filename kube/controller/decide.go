package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/plan"
	"github.com/elastalloc/elastalloc/kube/world"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

const (
	// allocateTimeout is how long an allocator may take for an answer.
	allocateTimeout = 10 * time.Second
	// explainTimeout is the time budget of reasons for changes, which may take twice that, and
	// maxExplained of how many jobs they are asked for: resizing waits for them.
	explainTimeout = time.Second
	maxExplained   = 50
	// writers is how many writes are under way at the same time.
	writers = 8
	// outageCadences is after how many cadences missing nodes are believed to be lost.
	outageCadences = 3
	// undecided is the ID of no decision.
	undecided = "undecided"
)

// The results of a moment, as metrics name them.
const (
	resultDecided = "decided"
	resultEmpty   = "empty"   // no job can be given other nodes
	resultFailed  = "failed"  // no answer, or it could not be written down
	resultRefused = "refused" // the answer is not one to the question
	resultOutage  = "outage"  // too many nodes are missing
)

// decide asks for a decision and writes its targets. Whatever fails, no job changes.
func (l *Loop) decide(ctx context.Context, w *world.ClusterState, trigger string) error {
	began := l.last
	l.last = w.Now
	dirty := l.dirty
	l.dirty = time.Time{}
	l.writes.decide(w.Now)
	l.ask(ctx)
	w, err := l.observe(ctx)
	if err != nil {
		l.last, l.dirty = began, dirty
		return err
	}
	report := &DecisionReport{ID: l.pool.Name + "-" + w.Now.UTC().Format("20060102T150405.000Z"), Trigger: trigger}
	answer, r, result, err := l.answer(ctx, w, report.ID, trigger)
	report.Jobs, report.Left = len(r.Jobs), len(r.Omitted)
	if result == resultDecided {
		if err = l.commit(ctx, w, report, r, answer); err != nil {
			result = resultFailed
		}
	}
	if report.Result = result; err != nil {
		report.Detail = err.Error()
	}
	// The cadence counts from here: a decision that takes longer is carried out before the
	// next one is due.
	l.last = l.Now()
	l.Metrics.moments.WithLabelValues(l.pool.Name, trigger, result).Inc()
	outage := l.Metrics.outage.WithLabelValues(l.pool.Name)
	if outage.Set(0); result == resultOutage {
		outage.Set(1)
	}
	l.status.Lock()
	l.report.Decision = report
	l.status.Unlock()
	log := l.Log.With("pool", l.pool.Name, "decision", report.ID, "trigger", trigger, "jobs", report.Jobs, "left", report.Left)
	if err != nil {
		l.failures++
		log.WarnContext(ctx, "no decision: every job keeps what it has", "result", result, "error", err)
		return nil // The next moment is set already.
	}
	l.failures = 0
	l.Metrics.lastDecision.WithLabelValues(l.pool.Name).Set(float64(w.Now.Unix()))
	log.InfoContext(ctx, "decided", "result", result, "gap", report.Gap)
	return nil
}

// ask queries the remaining times.
func (l *Loop) ask(ctx context.Context) {
	if l.pool.RemainingQuery == "" || l.Querier == nil {
		return
	}
	samples, err := l.Querier.Query(ctx, l.pool.RemainingQuery, l.Now())
	if err != nil {
		// What was known before carries on until it is too old.
		l.Metrics.queryFailures.WithLabelValues(l.pool.Name).Inc()
		l.Log.WarnContext(ctx, "remaining times are not known", "pool", l.pool.Name, "error", err)
		return
	}
	if l.query == nil {
		l.query = make(map[types.NamespacedName]world.Sample)
	}
	maps.Copy(l.query, samples)
	maps.DeleteFunc(l.query, func(_ types.NamespacedName, s world.Sample) bool { return l.Now().Sub(s.Time) > 24*time.Hour })
}

// answer asks the allocator and checks what it says.
func (l *Loop) answer(ctx context.Context, w *world.ClusterState, id, trigger string) (plan.Response, plan.Request, string, error) {
	r := plan.Snapshot(w, id, nil)
	l.wanted = 0
	outage := plan.Outage(w, r)
	if outage == nil {
		l.outage = time.Time{}
	} else {
		if l.outage.IsZero() {
			l.outage = w.Now
		}
		if w.Now.Sub(l.outage) < outageCadences*l.pool.Cadence {
			return nil, r, resultOutage, outage
		}
	}
	if len(r.Jobs) == 0 {
		return nil, r, resultEmpty, nil
	}
	if hold := plan.Unaffected(w, r); hold != nil {
		// A decision that only resizes jobs which lost nodes, and others if that pauses one of these.
		affected := plan.Snapshot(w, id, hold)
		answer, result, err := l.call(ctx, w, affected, trigger)
		if err != nil || !plan.Pauses(affected, answer) {
			return answer, affected, result, err
		}
	}
	answer, result, err := l.call(ctx, w, r, trigger)
	if err != nil {
		return nil, r, result, err
	}
	if hold := plan.ForbiddenPauses(w, r, answer, outage != nil); hold != nil {
		// The decision that pauses none of them.
		if r = plan.Snapshot(w, id, hold); len(r.Jobs) == 0 {
			return nil, r, resultEmpty, nil
		}
		answer, result, err = l.call(ctx, w, r, trigger)
	}
	return answer, r, result, err
}

// call asks the allocator and checks the answer. Between its decisions, the objective progress
// only fills what is idle. Where an autoscaler scales the pool, the decision is on as many nodes as
// are worth their price.
func (l *Loop) call(ctx context.Context, w *world.ClusterState, r plan.Request, trigger string) (answer plan.Response, result string, err error) {
	ctx, cancel := context.WithTimeout(ctx, allocateTimeout)
	defer cancel()
	snapshot := r.Allocate.GetSnapshot()
	if l.pool.MaxNodes > 0 {
		total := plan.WorthwhileNodes(w, r)
		l.wanted = w.Nodes.Accepting + w.Nodes.Expected + total - int(snapshot.GetTotalNodes())
		snapshot.TotalNodes = int32(total)
	}
	if l.pool.Objective == config.Progress && (trigger == triggerJob || trigger == triggerNode) {
		answer, err = l.Allocator.FillIdle(ctx, &elastallocv1.FillIdleRequest{Snapshot: snapshot})
	} else {
		answer, err = l.Allocator.Allocate(ctx, r.Allocate)
	}
	if err != nil {
		return answer, resultFailed, err
	}
	if err := plan.Check(r, answer); err != nil {
		return answer, resultRefused, err
	}
	return answer, resultDecided, nil
}

// commit writes the targets of a decision on the jobs. None counts until all are written.
// Jobs that refuse theirs where others do not, or refuse for long, are left alone.
func (l *Loop) commit(ctx context.Context, w *world.ClusterState, report *DecisionReport, r plan.Request, answer plan.Response) error {
	d := plan.Decision{ID: report.ID, Mode: l.Mode, Total: l.wanted}
	l.why = nil
	allocated, ok := answer.(*elastallocv1.AllocateResponse)
	if ok {
		solved := allocated.GetReport()
		gap := solved.GetRelativeGap()
		d.Gap = &gap
		report.Objective, report.Greedy, report.Gap = solved.GetObjective(), solved.GetGreedyObjective(), gap
		l.Metrics.gap.WithLabelValues(l.pool.Name).Set(gap)
		l.Metrics.objective.WithLabelValues(l.pool.Name).Set(solved.GetObjective())
		l.Metrics.greedy.WithLabelValues(l.pool.Name).Set(solved.GetGreedyObjective())
	}
	targets := plan.Targets(w, d, r, answer)
	if len(targets) == 0 {
		l.current = report.ID // So that no earlier one counts.
		return nil
	}
	var mu sync.Mutex
	failed := make(map[*world.Job]error)
	err := inParallel(targets, func(t plan.Target) error {
		object := t.Job.Object.DeepCopy()
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			// Not for another one of the same name.
			"uid": t.Job.UID,
			"annotations": map[string]string{
				world.TargetAnnotation:   strconv.Itoa(t.Nodes),
				world.DecisionAnnotation: t.Record.String(),
			},
		}})
		if err != nil {
			return err
		}
		switch err := l.patch(ctx, object, client.RawPatch(types.MergePatchType, patch)); {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			return nil // It is gone, and its nodes will be.
		case err != nil && denied(err):
			mu.Lock()
			defer mu.Unlock()
			failed[t.Job] = err
			return nil
		default:
			return err
		}
	})
	for j, refusal := range failed {
		if l.writes.mayPass(j.UID, w.Now) && len(failed) == len(targets) {
			err = errors.Join(err, fmt.Errorf("%s: %w", j.ID, refusal))
			continue
		}
		l.Log.WarnContext(ctx, "job is left alone", "job", j.ID, "error", refusal)
		l.writes.pin(j.UID, world.Refused, refusal.Error())
	}
	if err != nil {
		l.current = undecided
		return fmt.Errorf("write targets: %w", err)
	}
	l.current = report.ID
	if ok {
		l.explain(ctx, r, targets)
		l.tellQueued(r, answer)
	}
	if l.Mode == plan.ModeRecommend {
		for _, t := range targets {
			if step := (plan.Step{Job: t.Job, From: t.Job.Nodes(), To: t.Nodes}); step.From != step.To {
				l.event(t.Job, normal, "Recommended", "%s", l.gain(step, d.Gap))
			}
		}
	}
	return nil
}

// explain asks why the jobs of a decision change, for their events. Without an answer in
// time, or with one about another decision, they do not say.
func (l *Loop) explain(ctx context.Context, r plan.Request, targets []plan.Target) {
	question := &elastallocv1.ExplainRequest{
		Snapshot: r.Allocate.GetSnapshot(), Options: proto.CloneOf(r.Allocate.GetOptions()),
	}
	question.Options.TimeBudget = durationpb.New(explainTimeout)
	want := make(map[string]int32)
	for _, t := range targets {
		waits := t.Nodes == 0 && t.Job.Resizable() && !l.queued[t.Job.UID]
		if (t.Nodes != t.Job.Nodes() || waits) && len(want) < maxExplained {
			want[t.Job.ID] = int32(t.Nodes)
			question.JobIds = append(question.JobIds, t.Job.ID)
		}
	}
	if len(want) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*explainTimeout)
	defer cancel()
	answer, err := l.Allocator.Explain(ctx, question)
	if err != nil {
		l.Log.InfoContext(ctx, "no reasons for the changes of a decision", "pool", l.pool.Name, "error", err)
		return
	}
	l.why = make(map[string]string, len(want))
	for _, j := range answer.GetJobs() {
		if nodes, asked := want[j.GetJobId()]; asked && nodes == j.GetNodes() {
			l.why[j.GetJobId()] = j.GetText()
		}
	}
}

// tellQueued posts an event on jobs that are to wait, once each time.
func (l *Loop) tellQueued(r plan.Request, answer plan.Response) {
	queued := make(map[types.UID]bool)
	for i, j := range r.Jobs {
		if answer.GetAllocations()[i].GetNodes() > 0 || j.Nodes() > 0 {
			continue
		}
		queued[j.UID] = l.queued[j.UID] || l.why[j.ID] != ""
		if !l.queued[j.UID] && queued[j.UID] {
			l.event(j, normal, "Queued", "%s", l.why[j.ID])
		}
	}
	l.queued = queued
}

// refused reports whether the API server has judged a write.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}

// refusedAsGang reports whether the API server refuses to resize a Job because its pods are scheduled as
// a gang, as the admission plugin JobValidation of Kubernetes 1.36 does. Later releases let its size change.
func refusedAsGang(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "gang-scheduled PodGroup")
}

// denied reports whether a write fails for reasons of its own object, as far as one can tell: it
// is refused, or a webhook that has to judge it does not answer.
func denied(err error) bool { return refused(err) || apierrors.IsInternalError(err) }

// patch writes to an object and remembers how it came back, or that it has to be looked at.
func (l *Loop) patch(ctx context.Context, object *unstructured.Unstructured, patch client.Patch) error {
	err := l.Client.Patch(ctx, object, patch, client.FieldOwner("elastalloc-controller"))
	if err != nil {
		l.Metrics.patchErrors.WithLabelValues(l.pool.Name, object.GetKind(), string(apierrors.ReasonForError(err))).Inc()
		l.writes.failed(err)
		return err
	}
	l.writes.written(object)
	return nil
}

// inParallel does something to every item, a few at a time, and returns all errors.
func inParallel[T any](items []T, do func(T) error) error {
	errs := make([]error, len(items))
	// What is under way is not left halfway: each write has the context of its own request.
	workqueue.ParallelizeUntil(context.Background(), writers, len(items), func(i int) { errs[i] = do(items[i]) })
	return errors.Join(errs...)
}
