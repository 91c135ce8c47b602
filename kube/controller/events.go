package controller

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/elastalloc/elastalloc/kube/plan"
	"github.com/elastalloc/elastalloc/kube/world"
)

const (
	normal  = corev1.EventTypeNormal
	warning = corev1.EventTypeWarning
	// maxNote is the maximum length of the text of an event, in bytes.
	maxNote = 1024
)

// postedEvents contains what events were last posted about, so that an event is posted once.
type postedEvents struct {
	pins   map[types.UID]string // reasons of pins by job
	nodes  map[string]string    // states of nodes by name
	types  map[types.UID]bool   // jobs that keep their node type
	queued map[types.UID]bool   // jobs that wait, and for which an event explained why
}

// noRemainingTime is the reason of events about jobs whose remaining time is unknown.
const noRemainingTime = "NoRemainingTime"

// postPinEvents posts an event on every job that is pinned for another reason than before.
func (l *Loop) postPinEvents(w *world.ClusterState) {
	posted := make(map[types.UID]string, len(w.Jobs))
	for _, j := range w.Jobs {
		pinned := string(j.Pinned)
		if j.Pinned == world.BadAnnotations || j.Pinned == world.NotElastic {
			pinned += j.Message // Other messages contain times and change often.
		}
		if j.Pinned == "" && j.FallbackReason != "" {
			if pinned = noRemainingTime; l.posted.pins[j.UID] != pinned {
				l.event(j, warning, noRemainingTime, "%s; its remaining time on one %s is estimated as %v from completed jobs",
					j.FallbackReason, l.pool.BaseName(), j.Estimate.Remaining.Round(time.Second))
			}
		}
		if j.Pinned == world.Retained && j.Transient {
			pinned = "" // The node may accept pods again soon.
		}
		reason := j.Pinned
		if j.GrowsOnly {
			reason, pinned = world.Retained, string(world.Retained)
		}
		notify := pinned != "" && reason != "" && reason != world.Deleting && reason != world.Paused
		if notify && l.posted.pins[j.UID] != pinned {
			l.event(j, warning, string(reason), "keeps its %d %ss: %s", j.Nodes(), l.pool.UnitName(), j.Message)
			if j.Pinned == world.Stuck {
				l.Metrics.stuck.WithLabelValues(l.pool.Name).Inc()
			}
		}
		posted[j.UID] = pinned
	}
	l.posted.pins = posted
}

// keepsType is the reason of events about jobs that cannot move to another node type.
const keepsType = "KeepsType"

// postTypeEvents posts an event on every job whose kind cannot move to another node type, in a pool with several types.
func (l *Loop) postTypeEvents(w *world.ClusterState) {
	posted := make(map[types.UID]bool)
	for _, j := range w.Jobs {
		if len(w.Pool.NodeTypes) < 2 || j.Shape.Finished || j.Pinned != "" || j.Shape.CanSelect() && !j.Kueue {
			continue
		}
		if posted[j.UID] = true; l.posted.types[j.UID] {
			continue
		}
		why := "the pod template of a " + j.Kind.Name + " cannot change"
		if j.Kueue {
			why = "Kueue selects its nodes"
		}
		l.event(j, warning, keepsType, "does not move to another node type: %s", why)
	}
	l.posted.types = posted
}

// postNodeEvents posts an event on every node that has not been accepting for longer than the pool's
// NodeGracePeriod and is not starting, if the reason changed.
func (l *Loop) postNodeEvents(w *world.ClusterState) {
	posted := make(map[string]string, len(w.NodeStatuses))
	for i := range w.NodeStatuses {
		s := &w.NodeStatuses[i]
		if s.State == world.Accepting || s.Transient || s.Starting || s.Reason == world.Foreign {
			continue
		}
		note := string(s.State) + ": " + s.Message
		if posted[s.Node.Name] = note; l.posted.nodes[s.Node.Name] == note {
			continue
		}
		kind := normal
		if s.Reason == world.Odd {
			kind = warning // The pool's configuration or the node is wrong.
		}
		l.Recorder.Eventf(s.Node, nil, kind, eventReason(s.State), "Classify", "%s (pool %s)", s.Message, l.pool.Name)
	}
	l.posted.nodes = posted
}

// eventReason returns the event reason for a state of a node.
func eventReason(state world.NodeState) string {
	if state == world.Gone {
		return "Gone"
	}
	return "Retaining"
}

// postQueuedEvents posts an event on jobs that have to wait, once per wait.
func (l *Loop) postQueuedEvents(r plan.Request, response plan.Response) {
	queued := make(map[types.UID]bool)
	for i, j := range r.Jobs {
		if response.GetAllocations()[i].GetNodes() > 0 || j.Nodes() > 0 {
			continue
		}
		queued[j.UID] = l.posted.queued[j.UID] || l.decision.why[j.ID] != ""
		if !l.posted.queued[j.UID] && queued[j.UID] {
			l.event(j, normal, "Queued", "%s", l.inUnits(l.decision.why[j.ID]))
		}
	}
	l.posted.queued = queued
}

// postUnusedEvents posts an event on jobs that do not use their nodes, with the reason that the cluster reports
// for their pods.
func (l *Loop) postUnusedEvents(ctx context.Context, unused []*world.Job) {
	for _, j := range unused {
		why := cmp.Or(j.Pods.Trouble, j.Pods.Unschedulable, "the reason is unknown")
		var events corev1.EventList
		err := l.Live.List(ctx, &events, client.InNamespace(j.Object.GetNamespace()),
			client.MatchingFields{"involvedObject.name": j.Object.GetName()})
		if err != nil {
			l.Log.WarnContext(ctx, "cannot list events about pods that do not run", "job", j.ID, "error", err)
		}
		for _, event := range events.Items {
			if event.Reason == "FailedCreate" {
				why = event.Message
			}
		}
		l.Metrics.unused.WithLabelValues(l.pool.Name).Inc()
		if j.Kueue && j.Nodes() == 0 {
			l.event(j, warning, string(plan.Unused), "Kueue did not start it on its %d nodes; it gets no nodes for a while: %s", j.Target, why)
			continue
		}
		l.event(j, warning, string(plan.Unused), "%d of its %d pods run; for a while it gets only the %ss that it uses: %s",
			j.PodsOf(j.Pods.Running), j.PodsOf(j.Nodes()), l.pool.UnitName(), why)
	}
}

// event posts an event on a job.
func (l *Loop) event(j *world.Job, kind, reason, text string, args ...any) {
	note := fmt.Sprintf(text, args...)
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote-3], "") + "..."
	}
	l.Recorder.Eventf(j.Object, nil, kind, reason, "Allocate", "%s", note)
}
