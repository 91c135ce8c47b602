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

	writes    writeCache   // results of writes that the caches do not have yet
	pins      pins         // jobs on which writes failed
	usage     usageTracker // nodes that jobs use
	estimates estimates    // of remaining times
	inputs    *inputs      // of a decision, at the last Reconcile; nil after the start
	schedule  schedule     // of the next decision
	decision  decision     // the last one
	posted    postedEvents
	report    sharedReport // for the admin page
	// typesFixed is true if the API server has refused to change the node selector of a job that ran before.
	typesFixed bool
	// nodeHistory is the history of the nodes by name, nil after the start.
	nodeHistory map[string]world.NodeHistory
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
