package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
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
	// allocateTimeout is the timeout of a call of the allocator.
	allocateTimeout = 10 * time.Second
	// explainTimeout is the time budget of an explanation; the call times out after twice that time.
	// maxExplained is the maximum number of jobs to explain. Both are small because resizing waits for them.
	explainTimeout = time.Second
	maxExplained   = 50
	// writers is the number of parallel writes. writeTimeout is the timeout of a write. It exceeds the default
	// timeout of an admission webhook. The API server waits for slow webhooks for up to 34 s.
	writers      = 8
	writeTimeout = 15 * time.Second
)

// The results of a decision, as metrics name them.
const (
	resultDecided = "decided"
	resultEmpty   = "empty"   // no job can be resized
	resultFailed  = "failed"  // no response, or writing the targets failed
	resultRefused = "refused" // the response failed plan.Check
	resultOutage  = "outage"  // too many nodes are missing
)

// decide requests a decision and writes its targets on the jobs. If anything fails, no job is resized.
func (l *Loop) decide(ctx context.Context, w *world.ClusterState, trigger string) error {
	before := l.schedule
	l.schedule.begin(w.Now)
	l.pins.decide(w.Now)
	l.queryRemaining(ctx)
	w, err := l.observe(ctx)
	if err != nil {
		l.schedule = before
		return err
	}
	report := &DecisionReport{ID: l.pool.Name + "-" + w.Now.UTC().Format("20060102T150405.000Z"), Trigger: trigger}
	response, r, result, err := l.requestDecision(ctx, w, report.ID, trigger)
	report.Jobs, report.Left = len(r.Jobs), len(r.Omitted)
	if result == resultDecided {
		if err = l.commit(ctx, w, report, r, response); err != nil {
			result = resultFailed
		}
	}
	if report.Result = result; err != nil {
		report.Detail = err.Error()
	}
	l.schedule.end(l.Now(), err != nil)
	l.Metrics.decisions.WithLabelValues(l.pool.Name, trigger, result).Inc()
	outage := l.Metrics.outage.WithLabelValues(l.pool.Name)
	outage.Set(0)
	if result == resultOutage {
		outage.Set(1)
	}
	l.report.decided(report)
	log := l.Log.With("pool", l.pool.Name, "decision", report.ID, "trigger", trigger, "jobs", report.Jobs, "left", report.Left)
	if err != nil {
		log.WarnContext(ctx, "no decision: all jobs keep their nodes", "result", result, "error", err)
		return nil // The next attempt is scheduled by nextDecision.
	}
	l.Metrics.lastDecision.WithLabelValues(l.pool.Name).Set(float64(w.Now.Unix()))
	log.InfoContext(ctx, "decided", "result", result, "gap", report.Gap)
	return nil
}

// queryRemaining queries the remaining times of jobs.
func (l *Loop) queryRemaining(ctx context.Context) {
	if l.pool.RemainingQuery == "" || l.Querier == nil {
		return
	}
	samples, err := l.Querier.Query(ctx, l.pool.RemainingQuery, l.Now())
	if err != nil {
		// Earlier samples remain in use until they are too old.
		l.Metrics.queryFailures.WithLabelValues(l.pool.Name).Inc()
		l.Log.WarnContext(ctx, "query of remaining times failed", "pool", l.pool.Name, "error", err)
		return
	}
	l.estimates.add(samples, l.Now())
}

// requestDecision requests a decision that affects as few running jobs as possible, and checks the response.
func (l *Loop) requestDecision(
	ctx context.Context, w *world.ClusterState, id, trigger string,
) (plan.Response, plan.Request, string, error) {
	r := plan.Snapshot(w, id, nil)
	l.decision.worthwhile = 0
	outage := plan.Outage(w, r)
	if outage == nil {
		l.schedule.outage = time.Time{}
	} else if !l.schedule.lastsLong(w.Now) {
		return nil, r, resultOutage, outage
	}
	if len(r.Jobs) == 0 {
		// An autoscaler sees pods that wait, and may add nodes later.
		paused := func(o plan.Omitted) bool {
			return o.Reason == plan.Unused && o.Job.Nodes() > 0 && (l.pool.MaxNodes == 0 || o.Job.Shape.Over)
		}
		if slices.ContainsFunc(r.Omitted, paused) {
			return &elastallocv1.FillIdleResponse{SnapshotId: id}, r, resultDecided, nil
		}
		return nil, r, resultEmpty, nil
	}
	if frozen := plan.Unaffected(w, r); frozen != nil {
		// First try to resize only the jobs that lost nodes. Include the other jobs if that would pause a job.
		affected := plan.Snapshot(w, id, frozen)
		response, result, err := l.allocate(ctx, w, affected, trigger)
		if err != nil || !plan.Pauses(affected, response) && plan.ForbiddenPauses(w, affected, response, outage != nil) == nil {
			return response, affected, result, err
		}
	}
	response, result, err := l.allocate(ctx, w, r, trigger)
	if err != nil {
		return nil, r, result, err
	}
	frozen := plan.ForbiddenPauses(w, r, response, outage != nil)
	if outage == nil && slices.Contains(slices.Collect(maps.Values(frozen)), plan.NoPause) {
		// Jobs that are frozen instead could neither replace lost nodes nor use idle ones.
		if response, r, result, err = l.allocateToAll(ctx, w, id, trigger, frozen); err != nil {
			return nil, r, result, err
		}
		frozen = plan.ForbiddenPauses(w, r, response, outage != nil)
	}
	if frozen != nil {
		// Request a decision without the jobs that must not be paused.
		if r = plan.Snapshot(w, id, frozen); len(r.Jobs) == 0 {
			return nil, r, resultEmpty, nil
		}
		response, result, err = l.allocate(ctx, w, r, trigger)
	}
	return response, r, result, err
}

// allocateToAll requests a decision in which all running jobs keep at least their smallest sizes. The admission considers
// running jobs in order. Jobs that must not be paused get nodes of their type first, for which other jobs move or shrink. If
// other jobs would be paused, it requests a decision in the usual order, unless that is the same request.
func (l *Loop) allocateToAll(
	ctx context.Context, w *world.ClusterState, id, trigger string, frozen map[string]world.Reason,
) (response plan.Response, r plan.Request, result string, err error) {
	for _, first := range []bool{true, false} {
		r = plan.Snapshot(w, id, nil)
		r.Allocate.Options.Admission = elastallocv1.Admission_ADMISSION_OPTIMIZED
		reordered := first && r.First(func(j *world.Job) bool { return frozen[j.ID] == plan.NoPause })
		response, result, err = l.allocate(ctx, w, r, trigger)
		if err != nil || !reordered || !plan.Pauses(r, response) {
			break
		}
	}
	return response, r, result, err
}

// allocate calls the allocator and checks the response. With the objective progress, events between two
// cadences only fill idle nodes. If an autoscaler scales the pool, the request has the number of nodes that
// are worth their price.
func (l *Loop) allocate(
	ctx context.Context, w *world.ClusterState, r plan.Request, trigger string,
) (response plan.Response, result string, err error) {
	ctx, cancel := context.WithTimeout(ctx, allocateTimeout)
	defer cancel()
	snapshot := r.Allocate.GetSnapshot()
	if l.pool.MaxNodes > 0 {
		l.decision.worthwhile = plan.Scale(w, r)
	}
	if err := r.CheckLimits(); err != nil {
		return nil, resultFailed, err
	}
	if l.pool.Objective == config.Progress && (trigger == triggerJob || trigger == triggerNode) {
		response, err = l.Allocator.FillIdle(ctx, &elastallocv1.FillIdleRequest{Snapshot: snapshot})
	} else {
		response, err = l.Allocator.Allocate(ctx, r.Allocate)
	}
	if err != nil {
		return response, resultFailed, err
	}
	if err := plan.Check(r, response); err != nil {
		return response, resultRefused, err
	}
	return response, resultDecided, nil
}

// commit writes the targets of a decision on the jobs. The decision is valid only once all targets are
// written. A job is left out if its target cannot be written, but other targets can, or if it fails for long.
func (l *Loop) commit(ctx context.Context, w *world.ClusterState, report *DecisionReport, r plan.Request, response plan.Response) error {
	d := plan.Decision{ID: report.ID, Mode: l.Mode, Total: l.decision.worthwhile}
	l.decision.why = nil
	allocated, ok := response.(*elastallocv1.AllocateResponse)
	if ok {
		solved := allocated.GetReport()
		gap := solved.GetRelativeGap()
		d.Gap = &gap
		report.Objective, report.Greedy, report.Gap = solved.GetObjective(), solved.GetGreedyObjective(), gap
		l.Metrics.gap.WithLabelValues(l.pool.Name).Set(gap)
		l.Metrics.objective.WithLabelValues(l.pool.Name).Set(solved.GetObjective())
		l.Metrics.greedy.WithLabelValues(l.pool.Name).Set(solved.GetGreedyObjective())
	}
	targets := plan.Targets(w, d, r, response)
	if len(targets) == 0 {
		l.decision.current = report.ID // Void earlier decisions.
		return nil
	}
	errs := parallel(targets, func(t plan.Target) error {
		object := t.Job.Object.DeepCopy()
		annotations := map[string]any{
			world.TargetAnnotation:   strconv.Itoa(t.Job.PodsOf(t.Nodes)),
			world.DecisionAnnotation: t.Record.String(),
		}
		if t.Type != "" {
			annotations[world.TargetTypeAnnotation] = t.Type
		} else if t.Job.TargetType != "" {
			annotations[world.TargetTypeAnnotation] = nil // Remove it.
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			// Reject the patch if another job has the same name now.
			"uid":         t.Job.UID,
			"annotations": annotations,
		}})
		if err != nil {
			return err
		}
		err = l.patch(ctx, object, client.RawPatch(types.MergePatchType, patch))
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil // The job was deleted, so its nodes become free.
		}
		return err
	})
	accepts := slices.Contains(errs, nil)
	for i, t := range targets {
		patience := refusedPatience
		if accepts && !disconnected(errs[i]) {
			patience = acceptedPatience
		}
		switch err := errs[i]; {
		case err == nil:
		case l.pins.refusal(t.Job.UID, w.Now, patience):
			errs[i] = fmt.Errorf("%s: %w", t.Job.ID, err)
		default:
			l.leaveOut(ctx, t.Job, w.Now, err)
			errs[i] = nil
		}
	}
	if err := errors.Join(errs...); err != nil {
		l.decision.current = undecided
		return fmt.Errorf("write targets: %w", err)
	}
	l.decision.current = report.ID
	if ok {
		l.explain(ctx, r, targets)
		l.postQueuedEvents(r, response)
	}
	if l.Mode == plan.ModeRecommend {
		for _, t := range targets {
			if step := (plan.Step{Job: t.Job, From: t.Job.Nodes(), To: t.Nodes, Type: t.Type}); step.From != step.To || step.Moves() {
				l.event(t.Job, normal, "Recommended", "%s", l.describe(step, d.Gap))
			}
		}
	}
	return nil
}

// explain requests explanations of the resizes of a decision for events. If the call fails, or the response is
// about another decision, the events have no explanation.
func (l *Loop) explain(ctx context.Context, r plan.Request, targets []plan.Target) {
	request := &elastallocv1.ExplainRequest{
		Snapshot: r.Allocate.GetSnapshot(), Options: proto.CloneOf(r.Allocate.GetOptions()),
	}
	request.Options.TimeBudget = durationpb.New(explainTimeout)
	want := make(map[string]int32)
	for _, t := range targets {
		waits := t.Nodes == 0 && t.Job.Resizable() && !l.posted.queued[t.Job.UID]
		moves := t.Nodes > 0 && t.Type != t.Job.Type
		if (t.Nodes != t.Job.Nodes() || waits || moves) && len(want) < maxExplained {
			want[t.Job.ID] = int32(t.Nodes)
			request.JobIds = append(request.JobIds, t.Job.ID)
		}
	}
	if len(want) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*explainTimeout)
	defer cancel()
	response, err := l.Allocator.Explain(ctx, request)
	if err != nil {
		l.Log.InfoContext(ctx, "no explanation of a decision", "pool", l.pool.Name, "error", err)
		return
	}
	l.decision.why = make(map[string]string, len(want))
	for _, j := range response.GetJobs() {
		if nodes, found := want[j.GetJobId()]; found && nodes == j.GetNodes() {
			l.decision.why[j.GetJobId()] = j.GetText()
		}
	}
}

// refused reports whether the API server rejected a write.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}

// disconnected reports whether the connection failed, as if the API server stops between two writes. This is no
// response about the object.
func disconnected(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) && !errors.Is(err, context.DeadlineExceeded)
}

// refusedAsGang reports whether the API server refuses to resize a Job because its pods are scheduled as
// a gang, as the admission plugin JobValidation of Kubernetes 1.36 does. Later releases let its size change.
func refusedAsGang(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "gang-scheduled PodGroup")
}

// refusedSelector reports whether the API server refuses to change the node selector of a job that ran before.
// Kubernetes 1.36 accepts the change.
func refusedSelector(step plan.Step, err error) bool {
	return step.From == 0 && step.Type != "" && step.Type != step.Job.Type &&
		apierrors.IsInvalid(err) && strings.Contains(err.Error(), "spec.template")
}

// leaveOut pins a job on which writes fail, and has the others decided without it. It is retried alone, at
// increasing intervals.
func (l *Loop) leaveOut(ctx context.Context, j *world.Job, now time.Time, err error) {
	l.Log.WarnContext(ctx, "job is pinned because writes on it fail", "pool", l.pool.Name, "job", j.ID, "error", err)
	l.pins.refuse(j.UID, err.Error())
	l.schedule.retry(now)
}

// patch patches an object and stores the result.
func (l *Loop) patch(ctx context.Context, object *unstructured.Unstructured, patch client.Patch) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := l.Client.Patch(ctx, object, patch, client.FieldOwner("elastalloc-controller"))
	if err != nil {
		l.Metrics.patchErrors.WithLabelValues(l.pool.Name, object.GetKind(), string(apierrors.ReasonForError(err))).Inc()
		l.writes.failed(err)
		return err
	}
	l.writes.written(object)
	return nil
}

// parallel calls do for every item, with at most writers calls at a time, and returns the error of each call.
func parallel[T any](items []T, do func(T) error) []error {
	errs := make([]error, len(items))
	// All items are processed even if the caller's context is canceled: each write has its own context.
	workqueue.ParallelizeUntil(context.Background(), writers, len(items), func(i int) { errs[i] = do(items[i]) })
	return errs
}
