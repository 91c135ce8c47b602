// Package controller carries decisions out on a cluster: one loop per pool, which looks at
// the cluster, decides when it is time to, and takes the steps that are left.
package controller

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/plan"
	"github.com/elastalloc/elastalloc/kube/world"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// Allocator makes decisions: a client of a server, or an allocator in this process.
type Allocator interface {
	Allocate(context.Context, *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error)
	FillIdle(context.Context, *elastallocv1.FillIdleRequest) (*elastallocv1.FillIdleResponse, error)
	Explain(context.Context, *elastallocv1.ExplainRequest) (*elastallocv1.ExplainResponse, error)
}

// Options are what a loop needs beside its pool.
type Options struct {
	Mode  string // plan.ModeRecommend or plan.ModeApply
	Kinds []kinds.Kind
	Kueue bool // Kueue admits jobs here.
	// Client reads from caches and writes to the API server; Live reads from the API server.
	Client    client.Client
	Live      client.Reader
	Allocator Allocator
	Querier   Querier // nil without a Prometheus
	Recorder  events.EventRecorder
	Calls     CallRecorder // nil keeps no decisions
	Metrics   *Metrics
	Log       *slog.Logger
	Now       func() time.Time
}

// Loop is the loop of one pool. Its passes are made one at a time.
type Loop struct {
	Options
	pool config.Pool

	// Everything below can be lost at any time: the cluster has what is needed to go on.

	writes  *ledger
	query   map[types.NamespacedName]world.Sample
	etas    eta.Estimator               // what the jobs took that have ended
	running map[types.UID]time.Duration // the work that the others have done

	// facts are what a decision depends on beside the time, as the last pass saw them.
	facts   map[types.UID]uint64
	nodes   world.NodeCounts
	missing int // of the nodes in use
	// nodeHistory is what the last pass saw of the nodes, by name, nil at the start.
	nodeHistory map[string]world.NodeHistory
	// dirty is when the first event since the last decision happened, and why; zero is never.
	dirty       time.Time
	dirtyReason string
	// begun is when the first pass was: the age of the last decision counts from it where none
	// follows. seen is when the last one was.
	begun, seen time.Time
	last        time.Time // when the last decision was tried
	failures    int       // of decisions in a row
	outage      time.Time // since when too many nodes are missing
	// current is the decision that was written to its end, "" before there is one, and
	// undecided after one that was not.
	current string
	wanted  int               // nodes that the last decision was made for, where the pool can have more
	settled string            // the last decision that is known to be carried out or given up
	why     map[string]string // why the current decision changes a job
	// told are the pins and the states of nodes that events told of, and queued the jobs that were told
	// why they wait.
	told      map[types.UID]string
	toldNodes map[string]string
	queued    map[types.UID]bool

	status sync.Mutex
	report Report
}

// NewLoop returns the loop of a pool.
func NewLoop(pool config.Pool, o Options) *Loop {
	if o.Calls != nil {
		o.Allocator = recorded{o.Allocator, o.Calls, pool.Name, o.Now}
	}
	return &Loop{
		Options: o, pool: pool, writes: newLedger(),
		report: Report{Pool: pool.Name, Mode: o.Mode},
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
	// soon is when to look again after something was written.
	soon = 100 * time.Millisecond
	// settling is when to look again at a decision that is being carried out.
	settling = 5 * time.Second
)

// Pass looks at the cluster once and does what is due. It returns when to look
// again at the latest.
func (l *Loop) Pass(ctx context.Context) (time.Duration, error) {
	l.rewind(l.Now())
	if l.begun.IsZero() && !l.pool.Paused {
		l.begun = l.Now()
		l.Metrics.begin(l.pool.Name, l.Kinds)
		l.Metrics.lastDecision.WithLabelValues(l.pool.Name).Set(float64(l.Now().Unix()))
	}
	w, err := l.observe(ctx)
	if err != nil {
		return 0, err
	}
	l.show(w)
	p := plan.Steps(w, l.current)
	l.tellPins(w)
	l.tellNodes(w)
	if l.pool.Paused {
		return l.pool.Cadence, nil
	}
	trigger, due := l.moment(w, p)
	if !due.After(w.Now) {
		return soon, l.decide(ctx, w, trigger)
	}
	again := due.Sub(w.Now)
	if slices.ContainsFunc(w.NodeStatuses, func(s world.NodeStatus) bool { return s.Transient }) {
		again = min(again, settling)
	}
	if l.Mode == plan.ModeApply && p.ID != "" {
		acted, err := l.carryOut(ctx, w, p)
		if err != nil || acted {
			return min(again, soon), err
		}
		if !p.Done() {
			again = min(again, settling)
			if left := p.Expires.Sub(w.Now); left > 0 { // It may stay as it is for long after that, as in an outage.
				again = min(again, max(soon, left))
			}
		}
	}
	return again, nil
}

// rewind begins to count anew where the clock was set back.
func (l *Loop) rewind(now time.Time) {
	if now.Before(l.seen) {
		for _, t := range []*time.Time{&l.begun, &l.last, &l.dirty, &l.outage} {
			if t.After(now) {
				*t = now
			}
		}
		l.writes.rewind(now)
	}
	l.seen = now
}

// moment returns when the next decision is due and what brings it about.
func (l *Loop) moment(w *world.ClusterState, p plan.Plan) (trigger string, due time.Time) {
	facts := factsOf(w)
	// Nodes that are in use, or that the last decision counts on, are there no more.
	lost := l.facts != nil && (w.Missing > l.missing || w.Nodes.Serving < l.nodes.Serving && len(p.Waiting) > 0)
	// When a node that left is gone, another one may come.
	came := l.facts != nil && (w.Nodes.Serving != l.nodes.Serving || w.Pool.MaxNodes > 0 && w.Nodes.Leaving < l.nodes.Leaving)
	changed := l.facts != nil && !maps.Equal(facts, l.facts)
	l.facts, l.nodes, l.missing = facts, w.Nodes, w.Missing
	if l.dirty.IsZero() && (changed || came) {
		l.dirty, l.dirtyReason = w.Now, triggerJob
		if came {
			l.dirtyReason = triggerNode
		}
	}
	if lost {
		// As if the event were old enough.
		l.dirty, l.dirtyReason = w.Now.Add(-l.pool.Debounce), triggerLost
	}

	switch {
	case l.failures > 0:
		wait := min(l.pool.Cadence, time.Second<<min(l.failures, 10))
		return triggerRetry, l.last.Add(wait)
	case l.last.IsZero() && p.ID != "" && len(p.Conflicts) == 0 && !w.Now.After(p.Expires) && !p.Done():
		// An earlier leader's decision is under way.
		trigger, due = triggerStart, l.begun.Add(l.pool.Cadence)
		if p.Expires.Before(due) {
			due = p.Expires
		}
	case l.last.IsZero():
		return triggerStart, w.Now
	case p.ID != "" && p.ID != l.settled && !lost && w.Now.After(p.Expires) && len(p.Waiting) > 0:
		l.stuck(w, p)
		return triggerStuck, w.Now
	default:
		trigger, due = triggerCadence, l.last.Add(l.pool.Cadence)
	}
	if !l.dirty.IsZero() && l.dirty.Add(l.pool.Debounce).Before(due) {
		trigger, due = l.dirtyReason, l.dirty.Add(l.pool.Debounce)
	}
	return trigger, due
}

// factsOf returns what a decision depends on that is neither time nor our own doing, by job. What
// jobs report changes all the time and waits for the next decision.
func factsOf(w *world.ClusterState) map[types.UID]uint64 {
	facts := make(map[types.UID]uint64, len(w.Jobs))
	for _, j := range w.Jobs {
		h, pinned, left := fnv.New64a(), j.Pinned, 0
		switch pinned {
		case world.Conflict, world.Refused, world.Retained:
			pinned = ""
		}
		if j.Shape.Finished {
			left = j.RetainedNodes()
		}
		_, _ = fmt.Fprintln(h, j.Capped(), j.Usage.Cap, j.Ceiling > 0, j.Kueue && j.Shape.Suspended, j.Shape.Finished, j.Shape.StartSize, left, pinned, j.Sizes, j.Speeds, j.Efficiency, j.Weight, j.Restart, j.Work)
		facts[j.UID] = h.Sum64()
	}
	return facts
}

// stuck gives up a decision some of whose nodes did not become free in time.
func (l *Loop) stuck(w *world.ClusterState, p plan.Plan) {
	l.settled = p.ID
	if !slices.ContainsFunc(w.Jobs, func(j *world.Job) bool { return j.Pinned == world.Stuck }) {
		l.Metrics.stuck.WithLabelValues(l.pool.Name).Inc() // Otherwise that one is counted.
	}
	for _, step := range p.Waiting {
		l.event(step.Job, warning, "Stuck", "gave up %v of decision %s: the nodes did not become free in time", step, p.ID)
	}
}

// noRemainingTime is why what is left of a job is guessed, as events name it.
const noRemainingTime = "NoRemainingTime"

// tellPins posts an event on every job that is pinned for another reason than before.
func (l *Loop) tellPins(w *world.ClusterState) {
	told := make(map[types.UID]string, len(w.Jobs))
	for _, j := range w.Jobs {
		pinned := string(j.Pinned)
		if j.Pinned == world.BadAnnotations || j.Pinned == world.NotElastic {
			pinned += j.Message // Others have times in it.
		}
		if j.Pinned == "" && j.FallbackReason != "" {
			if pinned = noRemainingTime; l.told[j.UID] != pinned {
				l.event(j, warning, noRemainingTime, "%s; it is taken for %v on one node, as jobs that have ended took", j.FallbackReason, j.Estimate.Remaining.Round(time.Second))
			}
		}
		if j.Pinned == world.Retained && j.Transient {
			pinned = "" // It may be over before anybody reads of it.
		}
		news := pinned != "" && j.Pinned != "" && j.Pinned != world.Deleting && j.Pinned != world.Paused // to the job's user
		if news && l.told[j.UID] != pinned {
			l.event(j, warning, string(j.Pinned), "keeps its %d nodes: %s", j.Nodes(), j.Message)
			if j.Pinned == world.Stuck {
				l.Metrics.stuck.WithLabelValues(l.pool.Name).Inc()
			}
		}
		told[j.UID] = pinned
	}
	l.told = told
	l.writes.forget(w.Jobs)
}

// tellNodes posts an event on every node that is not accepting for another reason than before, and
// for longer than the pool's NodeGracePeriod.
func (l *Loop) tellNodes(w *world.ClusterState) {
	told := make(map[string]string, len(w.NodeStatuses))
	for i := range w.NodeStatuses {
		s := &w.NodeStatuses[i]
		if s.State == world.Accepting || s.Transient || s.Reason == world.Foreign {
			continue
		}
		note := string(s.State) + ": " + s.Message
		if told[s.Node.Name] = note; l.toldNodes[s.Node.Name] == note {
			continue
		}
		kind := normal
		if s.Reason == world.Odd {
			kind = warning // Of the pool's configuration.
		}
		l.Recorder.Eventf(s.Node, nil, kind, eventReason(s.State), "Classify", "%s (pool %s)", s.Message, l.pool.Name)
	}
	l.toldNodes = told
}

// eventReason names a state of a node as events do.
func eventReason(state world.NodeState) string {
	if state == world.Gone {
		return "Gone"
	}
	return "Retaining"
}
