package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/plan"
	"github.com/elastalloc/elastalloc/kube/world"
)

// apply takes the ready steps of a plan, and reports whether there were any. It takes steps that free nodes
// first.
func (l *Loop) apply(ctx context.Context, w *world.ClusterState, p plan.Plan) (acted bool) {
	for _, step := range p.Conflicts {
		l.pins.byJob[step.Job.UID] = world.Pin{Reason: world.Conflict, Message: "another writer resized it while a decision was carried out"}
	}
	for _, frees := range []bool{true, false} {
		steps := slices.DeleteFunc(slices.Clone(p.Ready), func(s plan.Step) bool { return s.Frees() != frees })
		errs := parallel(steps, func(step plan.Step) error { return l.resize(ctx, step, w.Now) })
		for i, step := range steps {
			l.resized(ctx, step, w.Now, errs[i])
		}
	}
	if p.Done() && len(p.Conflicts) == 0 && l.decision.settle(p.ID) {
		for _, j := range w.Jobs {
			if j.Record != nil && j.Record.ID == p.ID {
				took := w.Now.Sub(j.Record.At)
				l.Metrics.settle.WithLabelValues(l.pool.Name).Observe(took.Seconds())
				l.Log.InfoContext(ctx, "settled", "pool", l.pool.Name, "decision", p.ID, "after", took)
				break
			}
		}
	}
	// Failed steps are retried later.
	taken := func(step plan.Step) bool { return l.pins.refusals[step.Job.UID].since.IsZero() }
	return slices.ContainsFunc(p.Ready, taken) || len(p.Conflicts) > 0
}

// resize writes a step. If the kind has no child, it writes the size, the suspension and the record with one
// patch. Patches fail with a conflict if the object changed since the step was planned.
func (l *Loop) resize(ctx context.Context, step plan.Step, now time.Time) error {
	j := step.Job
	patches, _ := step.Patches()
	record := step.Record(now)
	for _, patch := range patches {
		object := j.Object
		if patch.Child {
			object = j.Child
		} else {
			patch.Operations = append(patch.Operations, kinds.Operation{
				Op: "add", Path: "/metadata/annotations/elastalloc.dev~1decision", Value: record.String(),
			})
		}
		body, err := patch.JSON(object.GetResourceVersion())
		if err != nil {
			return err
		}
		if err := l.patch(ctx, object.DeepCopy(), client.RawPatch(types.JSONPatchType, body)); err != nil {
			return err
		}
	}
	return nil
}

// resized records the result of a step.
func (l *Loop) resized(ctx context.Context, step plan.Step, now time.Time, err error) {
	j := step.Job
	switch {
	case err == nil:
		delete(l.pins.refusals, j.UID)
		if !step.Queued {
			l.usage.resized(j.UID, step.To, !step.Frees(), now)
		}
		change, reason := changeOf(step)
		l.Metrics.changes.WithLabelValues(l.pool.Name, j.Kind.Name, change).Inc()
		l.event(j, normal, reason, "%s", l.describe(step, j.Record.Gap))
		l.Log.InfoContext(ctx, "resized", "pool", l.pool.Name, "job", j.ID, "from", step.From, "to", step.To, "decision", j.Record.ID)
	case apierrors.IsNotFound(err): // The job was deleted, so its nodes become free.
	case apierrors.IsConflict(err):
		l.pins.conflict(j.UID)
	case refusedAsGang(err):
		l.pins.byJob[j.UID] = world.Pin{Reason: world.Gang, Message: err.Error(), Until: now.Add(maxForeign)}
	case refusedSelector(step, err):
		l.typesFixed = true
		l.schedule.retry(now)
		l.event(j, warning, keepsType,
			"keeps the node type %s that it ran on, like all jobs that ran: the API server "+
				"does not let a job that ran select other nodes; Kubernetes 1.36 does", j.Type)
	case l.pins.refusal(j.UID, now, refusedPatience):
		l.Log.InfoContext(ctx, "write failed and will be retried", "pool", l.pool.Name, "job", j.ID, "error", err)
	default:
		l.leaveOut(ctx, j, now, err)
		l.event(j, warning, string(world.Refused), "%v: %v", step, err)
	}
}

// The kinds of resizes, as metrics name them.
const (
	changeStart     = "start"
	changeScaleUp   = "scale_up"
	changeScaleDown = "scale_down"
	changePreempt   = "preempt"
	changeMove      = "move"
)

// changeOf returns the kind of a step for metrics, and the reason of its event.
func changeOf(s plan.Step) (change, reason string) {
	switch {
	case s.From == 0:
		return changeStart, "Started"
	case s.MovesTo != "":
		return changeMove, "Moving"
	case s.To == 0:
		return changePreempt, "Preempted"
	case s.Frees():
		return changeScaleDown, "ScaledDown"
	}
	return changeScaleUp, "ScaledUp"
}

// inUnits returns a text about numbers of nodes with the name of the pool's unit of allocation.
func (l *Loop) inUnits(text string) string { return format.InUnits(text, l.pool.UnitName()) }

// describe describes the effect of a step on its job.
func (l *Loop) describe(step plan.Step, gap *float64) string {
	j, text := step.Job, l.inUnits(step.String())
	completion := func(nodes int, nodeType string) time.Duration {
		return time.Duration(float64(j.RemainingWork()) / j.SpeedOn(nodes, nodeType)).Round(time.Second)
	}
	restart := j.Restart
	if j.Trained == 0 {
		restart = 0
	}
	switch {
	case step.Queued, step.MovesTo != "":
	case j.Shape.Over:
		return text + " because the work of its " + j.Kind.Parent.Kind + " is over"
	case step.To == 0 && j.Capped():
		return text + " that its pods do not use"
	case step.To == 0:
		text += " for other jobs"
	case step.From == 0:
		text += fmt.Sprintf("; completes in %v", restart+completion(step.To, step.Type))
	default:
		text += fmt.Sprintf("; completes in %v instead of %v", restart+completion(step.To, step.Type), completion(step.From, j.Type))
	}
	text += fmt.Sprintf(" (remaining time by %s)", j.Estimate.Source)
	if gap != nil {
		if *gap <= 1e-9 {
			text += "; no allocation of the pool is better"
		} else {
			text += fmt.Sprintf("; the best allocation is at most %.2g%% better", 100**gap)
		}
	}
	if why := l.decision.why[j.ID]; why != "" {
		text += ". " + l.inUnits(why)
	}
	return text
}
