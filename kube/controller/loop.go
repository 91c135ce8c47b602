// Package controller requests decisions for the pools of a cluster and applies them. It runs one loop per
// pool. A loop observes the cluster, requests a decision when one is due, and resizes jobs step by step.
package controller

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/plan"
	"github.com/elastalloc/elastalloc/kube/world"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// Allocator makes decisions. It is a client of a server, or an allocator in this process.
type Allocator interface {
	Allocate(context.Context, *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error)
	FillIdle(context.Context, *elastallocv1.FillIdleRequest) (*elastallocv1.FillIdleResponse, error)
	Explain(context.Context, *elastallocv1.ExplainRequest) (*elastallocv1.ExplainResponse, error)
}

// Options are the dependencies of a loop, apart from its pool.
type Options struct {
	Mode  string // plan.ModeRecommend or plan.ModeApply
	Kinds []kinds.Kind
	Kueue bool // Kueue is installed and admits jobs
	// Client reads from caches and writes to the API server; Live reads from the API server.
	Client    client.Client
	Live      client.Reader
	Allocator Allocator
	Querier   Querier // nil without Prometheus
	Recorder  events.EventRecorder
	Calls     CallRecorder // nil records no decisions
	Metrics   *Metrics
	Log       *slog.Logger
	Now       func() time.Time
}

// Loop is the control loop of one pool. Reconcile must not be called concurrently.
type Loop struct {
	Options
	pool config.Pool

	// The fields below can be lost at any time: a new loop continues from the state of the cluster.

	writes    writeCache
	pins      pins
	usage     usageTracker
	estimates estimates
	inputs    *inputs // at the last Reconcile, nil after the start
	// typesFixed is true if the API server has refused to change the node selector of a job that ran before.
	typesFixed bool
	// nodeHistory is the history of the nodes by name, nil after the start.
	nodeHistory map[string]world.NodeHistory
	schedule    schedule
	decision    decision
	// pinEvents and nodeEvents are the last pins and node states for which events were posted. queued are the
	// jobs for which an event explained why they wait.
	pinEvents  map[types.UID]string
	nodeEvents map[string]string
	queued     map[types.UID]bool
	// typeEvents are the jobs for which an event was posted because they keep their node type.
	typeEvents map[types.UID]bool

	report sharedReport
}

// NewLoop returns the loop of a pool.
func NewLoop(pool config.Pool, o Options) *Loop {
	if o.Calls != nil {
		o.Allocator = recorded{o.Allocator, o.Calls, pool.Name, o.Now}
	}
	return &Loop{
		Options: o, pool: pool,
		schedule: schedule{cadence: pool.Cadence, debounce: pool.Debounce},
		writes:   writeCache{objects: make(map[types.UID]*unstructured.Unstructured)},
		pins:     pins{byJob: make(map[types.UID]world.Pin), conflicts: make(map[types.UID]int), refusals: make(map[types.UID]refusal)},
		report:   sharedReport{report: Report{Pool: pool.Name, Mode: o.Mode}},
	}
}

// The triggers of a decision, as metrics name them.
const (
	triggerStart   = "start"
	triggerCadence = "cadence"
	triggerJob     = "job"
	triggerNode    = "node"
	triggerLost    = "node-lost"
	triggerStuck   = "stuck"
	triggerRetry   = "retry"
)

const (
	// soon is the time until the next Reconcile after a write.
	soon = 100 * time.Millisecond
	// settling is the maximum time between two Reconciles while a decision is being applied.
	settling = 5 * time.Second
)

// Reconcile observes the cluster once. If a decision is due, it requests and writes it; otherwise it takes the
// next steps of the current decision. It returns the maximum time until the next call.
func (l *Loop) Reconcile(ctx context.Context) (time.Duration, error) {
	if l.schedule.rewind(l.Now()) {
		l.pins.rewind()
		l.usage.rewind(l.Now())
	}
	if l.schedule.started.IsZero() && !l.pool.Paused {
		l.schedule.started = l.Now()
		l.Metrics.begin(l.pool.Name, l.Kinds)
		l.Metrics.lastDecision.WithLabelValues(l.pool.Name).Set(float64(l.Now().Unix()))
	}
	w, err := l.observe(ctx)
	if err != nil {
		return 0, err
	}
	l.writes.retain(w.Jobs)
	l.pins.retain(w.Jobs)
	l.publish(w)
	p := plan.Steps(w, l.decision.current)
	l.postPinEvents(w)
	l.postNodeEvents(w)
	l.postTypeEvents(w)
	if l.pool.Paused {
		return l.pool.Cadence, nil
	}
	trigger, due := l.nextDecision(w, p)
	if !due.After(w.Now) {
		return soon, l.decide(ctx, w, trigger)
	}
	again := due.Sub(w.Now)
	if slices.ContainsFunc(w.NodeStatuses, func(s world.NodeStatus) bool { return s.Transient }) {
		again = min(again, settling)
	}
	if l.Mode == plan.ModeApply && p.ID != "" {
		if l.apply(ctx, w, p) {
			return min(again, soon), nil
		}
		if !p.Done() {
			again = min(again, settling)
			if left := p.Expires.Sub(w.Now); left > 0 { // Later steps need another decision.
				again = min(again, max(soon, left))
			}
		}
	}
	return again, nil
}

// nextDecision returns the time and the trigger of the next decision.
func (l *Loop) nextDecision(w *world.ClusterState, p plan.Plan) (trigger string, due time.Time) {
	before := l.inputs
	l.inputs = inputsOf(w)
	lost := false
	if before != nil {
		lost = l.inputs.lost(before, len(p.Waiting) > 0)
		switch {
		case lost:
			l.schedule.lose(w.Now)
		case l.inputs.available(before, w.Pool.MaxNodes > 0):
			l.schedule.change(w.Now, triggerNode)
		case !maps.Equal(l.inputs.jobs, before.jobs):
			l.schedule.change(w.Now, triggerJob)
		}
	}
	next := condition{
		failed:   l.schedule.failures > 0,
		decided:  !l.schedule.attempted.IsZero(),
		applying: p.ID != "" && len(p.Conflicts) == 0 && !w.Now.After(p.Expires) && !p.Done(),
		stuck:    p.ID != "" && p.ID != l.decision.settled && !lost && w.Now.After(p.Expires) && len(p.Waiting) > 0,
	}.phase()
	if next == phaseStuck {
		l.giveUp(w, p)
	}
	return l.schedule.next(next, w.Now, p.Expires)
}

// giveUp gives up the waiting steps of a decision whose nodes did not become free in time.
func (l *Loop) giveUp(w *world.ClusterState, p plan.Plan) {
	l.decision.settle(p.ID)
	if !slices.ContainsFunc(w.Jobs, func(j *world.Job) bool { return j.Pinned == world.Stuck }) {
		l.Metrics.stuck.WithLabelValues(l.pool.Name).Inc() // A job that is Stuck is counted when it is pinned.
	}
	for _, step := range p.Waiting {
		l.event(step.Job, warning, "Stuck", "gave up %s of decision %s: the nodes did not become free in time", l.inUnits(step.String()), p.ID)
	}
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
			if pinned = noRemainingTime; l.pinEvents[j.UID] != pinned {
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
		if notify && l.pinEvents[j.UID] != pinned {
			l.event(j, warning, string(reason), "keeps its %d %ss: %s", j.Nodes(), l.pool.UnitName(), j.Message)
			if j.Pinned == world.Stuck {
				l.Metrics.stuck.WithLabelValues(l.pool.Name).Inc()
			}
		}
		posted[j.UID] = pinned
	}
	l.pinEvents = posted
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
		if posted[j.UID] = true; l.typeEvents[j.UID] {
			continue
		}
		why := "the pod template of a " + j.Kind.Name + " cannot change"
		if j.Kueue {
			why = "Kueue selects its nodes"
		}
		l.event(j, warning, keepsType, "does not move to another node type: %s", why)
	}
	l.typeEvents = posted
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
		if posted[s.Node.Name] = note; l.nodeEvents[s.Node.Name] == note {
			continue
		}
		kind := normal
		if s.Reason == world.Odd {
			kind = warning // The pool's configuration or the node is wrong.
		}
		l.Recorder.Eventf(s.Node, nil, kind, eventReason(s.State), "Classify", "%s (pool %s)", s.Message, l.pool.Name)
	}
	l.nodeEvents = posted
}

// eventReason returns the event reason for a state of a node.
func eventReason(state world.NodeState) string {
	if state == world.Gone {
		return "Gone"
	}
	return "Retaining"
}
