package client_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/client/placement"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

var update = flag.Bool("update", false, "rewrite testdata/plans.json")

var errNoResponse = errors.New("no response")

const (
	interval = 10 * time.Second // between calls of Reconcile
	patience = time.Minute
	backoff  = 20 * time.Second
)

// fakeCluster simulates a cluster with individual nodes and the job on each node. It shares no code with Plan.
type fakeCluster struct {
	intN func(n int) int
	fail func(format string, args ...any)
	now  time.Time
	plan client.Plan

	typed  bool
	limits []fakeLimit
	nodes  []*fakeNode
	jobs   []*fakeJob
	// submitted is the number of jobs that were submitted.
	submitted int
	// quiet reports that steps do not fail or hang, and that jobs and nodes do not change.
	quiet bool

	pending *elastallocv1.AllocateResponse // not yet passed to the plan
	decided map[string]string              // by the last decision
	// progressed is the time of the last decision, or of the last step of it that was applied.
	progressed  time.Time
	shrunkSince time.Time // too many nodes are missing since then
	// eventPending reports that jobs or nodes changed while the pool was rejected.
	eventPending bool
	calls        []planCall
}

type fakeNode struct {
	nodeType string
	job      *fakeJob
}

// fakeLimit is a limit on the nodes of all jobs of some groups, of one node type or of all.
type fakeLimit struct {
	groups   []string
	nodeType string
	nodes    int
}

type fakeJob struct {
	id    string
	group string
	step  *client.Step // in progress
	// callsLeft is the number of calls of Reconcile until the step is applied or fails.
	callsLeft int
	fails     bool
	// hangs reports that the step does not complete before it is overdue.
	hangs   bool
	started time.Time
	// excluded reports that another program resizes the job, or that the snapshot has it twice.
	excluded, twice bool
	// retryAt is the time until which the job gets no step, after consecutive failures.
	retryAt  time.Time
	failures int
	// inUse is the number of nodes that the job occupied at the last request for a decision, or received
	// since then.
	inUse int
	// settled has the nodes of the job at each call at which no step was in progress.
	settled []settledNodes
}

// settledNodes are the nodes of a job at a time, as describe returns them.
type settledNodes struct {
	at    time.Time
	nodes string
}

// planCase is a sequence of calls in the golden file, with times in seconds.
type planCase struct {
	Cadence   float64    `json:"cadence,omitempty"`
	Patience  float64    `json:"patience"`
	CoolDown  float64    `json:"cool_down"`
	Backoff   float64    `json:"backoff"`
	MaxShrink float64    `json:"max_shrink,omitempty"`
	Calls     []planCall `json:"calls"`
	// Restarts is the state of the restarts after the calls.
	Restarts json.RawMessage `json:"restarts"`
}

// planCall is one call of Reconcile.
type planCall struct {
	At float64 `json:"at"`
	// Machines are the arguments of ObserveMachines.
	Machines *planMachines    `json:"machines,omitempty"`
	Observe  json.RawMessage  `json:"observe"`
	Late     json.RawMessage  `json:"late,omitempty"`    // the response to an earlier request
	Refused  string           `json:"refused,omitempty"` // the error if the pool lost too many nodes
	Due      bool             `json:"due"`
	Sent     json.RawMessage  `json:"sent,omitempty"`
	Decide   json.RawMessage  `json:"decide,omitempty"`
	Next     []string         `json:"next,omitempty"`
	On       []map[string]int `json:"on,omitempty"` // the machines of each step
	Failed   []string         `json:"failed,omitempty"`
	Overdue  []string         `json:"overdue,omitempty"`
	Reason   client.Reason    `json:"reason,omitempty"`
	Warnings []string         `json:"warnings,omitempty"`
}

func newFakeCluster(seed uint64, fail func(string, ...any)) *fakeCluster {
	intN := rand.New(rand.NewPCG(seed, 0)).IntN
	c := &fakeCluster{
		intN: intN, fail: fail, now: time.Unix(1e9, 0), typed: intN(3) == 0, plan: client.Plan{Patience: patience, Backoff: backoff},
	}
	if intN(2) == 0 {
		c.plan.Cadence = 4 * interval
	}
	if intN(2) == 0 {
		c.plan.CoolDown = 30 * time.Second
	}
	if intN(3) == 0 {
		c.plan.MaxShrink = 1
	}
	for range 1 + intN(16) {
		c.addNode()
	}
	if intN(2) == 0 {
		c.limits = []fakeLimit{{groups: []string{"parent", "child"}, nodes: intN(12)}, {groups: []string{"child"}, nodes: intN(6)}}
		if c.typed {
			c.limits = append(c.limits, fakeLimit{groups: []string{"parent", "child"}, nodeType: "a", nodes: intN(6)})
		}
	}
	return c
}

func (c *fakeCluster) addNode() {
	n := &fakeNode{}
	if c.typed {
		n.nodeType = []string{"a", "b"}[c.intN(2)]
	}
	c.nodes = append(c.nodes, n)
}

// on returns the nodes of a job.
func (c *fakeCluster) on(j *fakeJob) []*fakeNode {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(n *fakeNode) bool { return n.job != j })
}

// free returns the free nodes of a type.
func (c *fakeCluster) free(nodeType string) []*fakeNode {
	return slices.DeleteFunc(c.on(nil), func(n *fakeNode) bool { return n.nodeType != nodeType })
}

// snapshot returns the snapshot of the cluster.
func (c *fakeCluster) snapshot() *elastallocv1.Snapshot {
	s := &elastallocv1.Snapshot{}
	if c.typed {
		s.NodeTypes = []*elastallocv1.NodeType{{Id: "a"}, {Id: "b"}}
	}
	for _, n := range c.nodes {
		s.TotalNodes++
		for _, t := range s.GetNodeTypes() {
			if t.GetId() == n.nodeType {
				t.Nodes++
			}
		}
	}
	if len(c.limits) > 0 {
		parent := &elastallocv1.Group{Id: "parent", Limit: proto.Int32(int32(c.limits[0].nodes))}
		if c.typed {
			parent.TypeLimits = []*elastallocv1.GroupTypeLimit{{NodeType: "a", Limit: int32(c.limits[2].nodes)}}
		}
		child := &elastallocv1.Group{Id: "child", ParentId: "parent", Limit: proto.Int32(int32(c.limits[1].nodes))}
		s.Groups = []*elastallocv1.Group{parent, child}
	}
	for _, j := range c.jobs {
		described := &elastallocv1.Job{Id: j.id, GroupId: j.group, Keep: j.excluded && !j.twice}
		if on := c.on(j); len(on) > 0 {
			described.CurrentNodes, described.CurrentNodeType = int32(len(on)), on[0].nodeType
		}
		if j.excluded && j.twice {
			s.Jobs = append(s.Jobs, &elastallocv1.Job{Id: j.id, GroupId: j.group})
		}
		s.Jobs = append(s.Jobs, described)
	}
	return s
}

// changeRandomly adds and removes jobs and nodes at random, and reports whether anything changed.
func (c *fakeCluster) changeRandomly() bool {
	switch c.intN(12) {
	case 0, 1, 2:
		c.submitted++
		j := &fakeJob{id: fmt.Sprintf("job-%d", c.submitted)}
		if len(c.limits) > 0 {
			j.group = []string{"", "parent", "child"}[c.intN(3)]
		}
		c.jobs = append(c.jobs, j)
	case 3:
		if len(c.jobs) == 0 {
			return false
		}
		i := c.intN(len(c.jobs))
		for _, n := range c.on(c.jobs[i]) {
			n.job = nil
		}
		c.jobs = slices.Delete(c.jobs, i, i+1)
	case 4:
		if len(c.nodes) == 0 {
			return false
		}
		for range min(len(c.nodes), 1+c.intN(4)) {
			i := c.intN(len(c.nodes))
			c.nodes = slices.Delete(c.nodes, i, i+1)
		}
	case 5:
		for range 1 + c.intN(4) {
			c.addNode()
		}
	case 6:
		if len(c.jobs) == 0 {
			return false
		}
		j := c.jobs[c.intN(len(c.jobs))]
		j.excluded, j.twice = !j.excluded, c.intN(2) == 0
	case 7:
		if len(c.limits) > 0 {
			c.limits[c.intN(len(c.limits))].nodes = c.intN(12)
		}
		return false
	default:
		return false
	}
	return true
}

// start starts a step. It fails the test if another job may still use one of its nodes.
func (c *fakeCluster) start(s client.Step) {
	j := c.jobs[slices.IndexFunc(c.jobs, func(j *fakeJob) bool { return j.id == s.JobID })]
	if j.excluded {
		c.fail("%s gets %+v although another program resizes it", j.id, s)
	}
	if j.step != nil {
		c.fail("%s gets %+v while %+v is in progress", j.id, s, *j.step)
	}
	if want := fmt.Sprint(s.Nodes, s.NodeType); want != c.decided[j.id] && s.Nodes > 0 {
		c.fail("%s gets %s; the decision is %s", j.id, want, c.decided[j.id])
	}
	if c.now.Before(j.retryAt) || c.now.Sub(c.progressed) > patience {
		c.fail("%+v starts at %v; the job may retry at %v, and the last progress was at %v", s, c.now, j.retryAt, c.progressed)
	}
	on := c.on(j)
	if s.Frees() != (int(s.Nodes) < len(on)) || int(s.Nodes) == len(on) {
		c.fail("%+v is a step of a job on %d nodes", s, len(on))
	}
	if s.Nodes > 0 && len(on) > 0 && on[0].nodeType != s.NodeType {
		c.fail("%+v is a step of a job on nodes of type %s", s, on[0].nodeType)
	}
	if !s.Frees() {
		free := len(c.free(s.NodeType)) - int(s.Nodes) + len(on)
		for _, other := range c.jobs {
			if other.step != nil && !other.step.Frees() && other.step.NodeType == s.NodeType {
				free -= max(0, int(other.step.Nodes)-len(c.on(other)))
			}
		}
		if free < 0 {
			c.fail("%+v takes %d nodes more than are free", s, -free)
		}
		c.checkLimits(s)
	}
	j.step, j.started, j.callsLeft, j.fails, j.hangs = &s, c.now, c.intN(5), false, false
	if !c.quiet {
		j.fails, j.hangs = c.intN(5) == 0, c.intN(8) == 0
	}
}

// checkLimits fails the test if jobs may exceed a limit because of a step that takes nodes.
func (c *fakeCluster) checkLimits(s client.Step) {
	for _, limit := range c.limits {
		most, counts := 0, false // nodes that the jobs have or may still receive
		for _, j := range c.jobs {
			if !slices.Contains(limit.groups, j.group) {
				continue
			}
			on, step := c.on(j), j.step
			if j.id == s.JobID {
				step, counts = &s, limit.counts(j.group, s.NodeType)
			}
			if len(on) > 0 && limit.counts(j.group, on[0].nodeType) {
				most += len(on)
			}
			if step != nil && limit.counts(j.group, step.NodeType) {
				most += max(0, int(step.Nodes)-len(on))
			}
		}
		if counts && most > limit.nodes {
			c.fail("after %+v the jobs of %v may have %d nodes of type %q; their limit is %d", s, limit.groups, most, limit.nodeType, limit.nodes)
		}
	}
}

// advance advances all steps and returns the jobs whose steps failed.
func (c *fakeCluster) advance() (failed []string) {
	for _, j := range c.jobs {
		if j.step == nil || j.hangs {
			continue
		}
		if j.callsLeft--; j.callsLeft >= 0 {
			// The job may already have received a node.
			if on, free := c.on(j), c.free(j.step.NodeType); c.intN(2) == 0 && len(on) < int(j.step.Nodes)-1 && len(free) > 0 {
				free[0].job = j
			}
			continue
		}
		on, free := c.on(j), c.free(j.step.NodeType)
		switch more := int(j.step.Nodes) - len(on); {
		case j.fails || more > len(free): // For example because one of its nodes was removed.
			failed = append(failed, j.id)
			j.retryAt = c.now.Add(min(backoff<<j.failures, client.MaxBackoff))
			j.failures++
		case more < 0:
			for _, n := range on[j.step.Nodes:] {
				n.job = nil
			}
			c.progressed, j.failures = c.now, 0
		default:
			for _, n := range free[:more] {
				n.job = j
			}
			c.progressed, j.failures = c.now, 0
		}
		j.step = nil
	}
	return failed
}

// decide returns a random legal decision.
func (c *fakeCluster) decide(s *elastallocv1.Snapshot) *elastallocv1.AllocateResponse {
	left := map[string]int32{"": s.GetTotalNodes()}
	types := []string{""}
	if c.typed {
		types = []string{"a", "b"}
		left = map[string]int32{"a": s.GetNodeTypes()[0].GetNodes(), "b": s.GetNodeTypes()[1].GetNodes()}
	}
	limits := slices.Clone(c.limits)
	take := func(group, nodeType string, nodes int32) {
		left[nodeType] -= nodes
		for i := range limits {
			if limits[i].counts(group, nodeType) {
				limits[i].nodes -= int(nodes)
			}
		}
	}
	jobs := slices.CompactFunc(slices.Clone(s.GetJobs()), func(a, b *elastallocv1.Job) bool { return a.GetId() == b.GetId() })
	for _, j := range jobs {
		if j.GetKeep() {
			take(j.GetGroupId(), j.GetCurrentNodeType(), j.GetCurrentNodes())
		}
	}
	response := &elastallocv1.AllocateResponse{}
	for _, j := range jobs {
		if j.GetKeep() {
			response.Allocations = append(response.Allocations, &elastallocv1.Allocation{
				JobId: j.GetId(), Nodes: j.GetCurrentNodes(), NodeType: j.GetCurrentNodeType(),
			})
			continue
		}
		a := &elastallocv1.Allocation{JobId: j.GetId(), NodeType: types[c.intN(len(types))]}
		highest := min(8, left[a.GetNodeType()])
		for _, limit := range limits {
			if limit.counts(j.GetGroupId(), a.GetNodeType()) {
				highest = min(highest, int32(limit.nodes))
			}
		}
		if highest > 0 {
			a.Nodes = int32(c.intN(int(highest) + 1))
		}
		if a.GetNodes() == 0 {
			a.NodeType = ""
		}
		take(j.GetGroupId(), a.GetNodeType(), a.GetNodes())
		response.Allocations = append(response.Allocations, a)
	}
	return response
}

// counts reports whether nodes of a type count for the limit if a job of a group has them.
func (l fakeLimit) counts(group, nodeType string) bool {
	return slices.Contains(l.groups, group) && (l.nodeType == "" || l.nodeType == nodeType)
}

// checkRequest checks the snapshot of a request for a decision.
func (c *fakeCluster) checkRequest(sent *elastallocv1.Snapshot, overdue []string) {
	sentNodes, kept, restarts := make(map[string]string), make(map[string]bool), make(map[string][]time.Duration)
	for _, j := range sent.GetJobs() {
		sentNodes[j.GetId()], kept[j.GetId()] = fmt.Sprint(j.GetCurrentNodes(), j.GetCurrentNodeType()), j.GetKeep()
		restarts[j.GetId()] = nil
		for _, since := range j.GetRecentRestarts() {
			restarts[j.GetId()] = append(restarts[j.GetId()], since.AsDuration())
		}
	}
	left := make(map[string]int)
	for _, n := range c.nodes {
		left[n.nodeType]++
	}
	for _, j := range c.jobs {
		if on := c.on(j); len(on) > 0 {
			left[on[0].nodeType] -= len(on)
		}
		if j.step != nil {
			left[j.step.NodeType] -= max(0, int(j.step.Nodes)-len(c.on(j)))
		}
	}
	for _, j := range c.jobs {
		late := j.excluded || slices.Contains(overdue, j.id)
		keeps := late || c.now.Before(j.retryAt) || j.step != nil && j.step.Nodes > 0 && left[j.step.NodeType] >= 0
		cools := c.plan.CoolDown > 0 && j.step == nil
		want := c.describe(j)
		if j.step != nil && (!late || int(j.step.Nodes) > len(c.on(j))) {
			want = fmt.Sprint(j.step.Nodes, j.step.NodeType)
		}
		switch {
		case kept[j.id] != keeps && !cools:
			c.fail("the request states that %s keeps its nodes: %t; want %t", j.id, kept[j.id], keeps)
		case sentNodes[j.id] != want:
			c.fail("the request contains %s with %s nodes; want %s", j.id, sentNodes[j.id], want)
		case !slices.Equal(restarts[j.id], c.recentRestarts(j)):
			c.fail("the request contains %s with the restarts %v; want %v", j.id, restarts[j.id], c.recentRestarts(j))
		}
	}
	if int(sent.GetTotalNodes()) != len(c.nodes) {
		c.fail("the request has %d nodes; want %d", sent.GetTotalNodes(), len(c.nodes))
	}
}

// recentRestarts returns the times with nodes since the last three restarts of a job, newest first.
func (c *fakeCluster) recentRestarts(j *fakeJob) (recent []time.Duration) {
	trained, next := time.Duration(0), c.now
	for i, now := range slices.Backward(j.settled) {
		if now.nodes != "0" {
			trained += next.Sub(now.at)
		}
		hadNodes := slices.ContainsFunc(j.settled[:i], func(before settledNodes) bool { return before.nodes != "0" })
		if now.nodes != "0" && hadNodes && now.nodes != j.settled[i-1].nodes && len(recent) < 3 {
			recent = append(recent, trained)
		}
		next = now.at
	}
	return recent
}

// restoreRestarts restarts the plan's Restarts from its state.
func (c *fakeCluster) restoreRestarts() {
	state, err := json.Marshal(&c.plan.Restarts)
	if err != nil {
		c.fail("%v", err)
	}
	c.plan.Restarts = client.Restarts{}
	if err := json.Unmarshal(state, &c.plan.Restarts); err != nil {
		c.fail("%v", err)
	}
}

// tooSmall reports whether the pool lost too many of the nodes in use for a decision.
func (c *fakeCluster) tooSmall() bool {
	inUse, share, cadence := 0, 0.3, 5*time.Minute
	for _, j := range c.jobs {
		inUse += j.inUse
	}
	if c.plan.MaxShrink > 0 {
		share = c.plan.MaxShrink
	}
	if c.plan.Cadence > 0 {
		cadence = c.plan.Cadence
	}
	if float64(len(c.nodes)) >= (1-share)*float64(inUse) {
		c.shrunkSince = time.Time{}
		return false
	}
	if c.shrunkSince.IsZero() {
		c.shrunkSince = c.now
	}
	return c.now.Before(c.shrunkSince.Add(3 * cadence))
}

// describe describes the nodes of a job.
func (c *fakeCluster) describe(j *fakeJob) string {
	on := c.on(j)
	if len(on) == 0 {
		return "0"
	}
	return fmt.Sprint(len(on), on[0].nodeType)
}

// record returns the response that is passed to the plan, and remembers its allocations.
func (c *fakeCluster) record() json.RawMessage {
	response := c.pending
	c.pending, c.progressed, c.decided = nil, c.now, make(map[string]string)
	for _, a := range response.GetAllocations() {
		c.decided[a.GetJobId()] = fmt.Sprint(a.GetNodes(), a.GetNodeType())
	}
	return marshal(response)
}

// reconcile makes one call of Reconcile, as a scheduler does.
func (c *fakeCluster) reconcile() {
	c.now = c.now.Add(interval)
	failed, event := c.change()
	tooSmall := c.tooSmall()
	s := c.snapshot()
	c.plan.Observe(c.now, s)
	record := planCall{At: c.now.Sub(time.Unix(1e9, 0)).Seconds(), Observe: marshal(s), Failed: failed}
	for _, id := range failed {
		c.plan.Failed(c.now, id)
	}
	record.Overdue = c.plan.Overdue(c.now)
	event = c.checkOverdue(record.Overdue) || event
	if c.pending != nil {
		c.plan.Decide(c.now, c.pending)
		record.Late = c.record()
	}
	for _, j := range c.jobs {
		if j.step == nil {
			j.settled = append(j.settled, settledNodes{c.now, c.describe(j)})
		}
	}
	c.restoreRestarts()
	steps, warnings, err := c.plan.Reconcile(c.now, s, func(sent *elastallocv1.Snapshot) (client.Decision, error) {
		return c.request(sent, &record)
	})
	record.Warnings = messages(warnings)
	record.Refused = c.checkPool(err, tooSmall, record.Due)
	if c.eventPending = event && tooSmall; event && !tooSmall && !record.Due {
		c.fail("%v: no decision is due after an event", c.now)
	}
	if err != nil {
		steps = c.plan.Next(c.now) // Steps of the last decision continue, unless the pool is rejected.
	}
	if tooSmall && len(steps) > 0 {
		c.fail("%v: steps %v while the pool is rejected", c.now, steps)
	}
	for _, step := range steps {
		c.start(step)
		record.Next = append(record.Next, fmt.Sprint(step.JobID, " ", step.Nodes, " ", step.NodeType))
	}
	c.calls = append(c.calls, record)
}

// change changes the cluster at random, lets steps advance, and returns the jobs whose steps failed and whether
// something happened after which a decision is due.
func (c *fakeCluster) change() (failed []string, event bool) {
	inProgress := slices.Clone(c.jobs)
	inProgress = slices.DeleteFunc(inProgress, func(j *fakeJob) bool { return j.step == nil })
	event = !c.quiet && c.changeRandomly() || c.eventPending
	for _, j := range c.jobs {
		event = event || j.step != nil && !j.hangs && j.callsLeft == 0 && c.isLate(j) // Completed late.
		if j.step != nil && j.step.Frees() && len(c.on(j)) <= int(j.step.Nodes) {
			j.step, j.failures, c.progressed = nil, 0, c.now // The nodes were removed.
		}
	}
	failed = c.advance()
	for _, j := range c.jobs {
		if on := len(c.on(j)); on > j.inUse || slices.Contains(inProgress, j) {
			j.inUse = on
		}
	}
	return failed, event || len(failed) > 0
}

// isLate reports whether the last step of a job started longer ago than the patience.
func (c *fakeCluster) isLate(j *fakeJob) bool { return c.now.Sub(j.started) > patience }

// checkOverdue checks which jobs are overdue, and reports whether one became overdue or the back-off of one expired.
// Some of them continue.
func (c *fakeCluster) checkOverdue(overdue []string) (event bool) {
	for _, j := range c.jobs {
		late := j.step != nil && c.isLate(j)
		if late != slices.Contains(overdue, j.id) {
			c.fail("%s is overdue: %t; Overdue returned %v", j.id, late, overdue)
		}
		event = event || late && c.now.Sub(j.started) <= patience+interval || !c.now.Before(j.retryAt) && c.now.Sub(j.retryAt) < interval
		if late && (c.quiet || c.intN(3) == 0) {
			j.hangs, j.callsLeft = false, 0
		}
	}
	return event
}

// request decides the snapshot that the plan sends. The call may fail, or its response may arrive after the call.
func (c *fakeCluster) request(sent *elastallocv1.Snapshot, record *planCall) (client.Decision, error) {
	record.Reason = c.plan.Reason
	c.checkRequest(sent, record.Overdue)
	for _, j := range c.jobs {
		j.inUse = len(c.on(j))
	}
	record.Due, record.Sent = true, marshal(sent)
	if c.quiet || c.intN(5) > 0 { // Otherwise the call fails.
		c.pending = c.decide(sent)
	}
	if c.pending == nil || !c.quiet && c.intN(2) > 0 {
		return nil, errNoResponse
	}
	response := c.pending
	record.Decide = c.record()
	return response, nil
}

// checkPool checks that the pool is rejected without a request if it is too small, and returns the message.
func (c *fakeCluster) checkPool(err error, tooSmall, requested bool) (message string) {
	rejected := new(client.PoolError)
	if errors.As(err, &rejected) != tooSmall || tooSmall && requested {
		c.fail("%v: %d nodes: error %v, requests a decision: %t; want the pool rejected: %t", c.now, len(c.nodes), err, requested, tooSmall)
	}
	if tooSmall {
		return rejected.Error()
	}
	return ""
}

// messages returns the messages of warnings.
func messages(warnings []*elastallocv1.Warning) (messages []string) {
	for _, warning := range warnings {
		messages = append(messages, warning.GetMessage())
	}
	return messages
}

func marshal(m proto.Message) json.RawMessage {
	text, err := protojson.Marshal(m)
	if err != nil {
		panic(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		panic(err)
	}
	return compact.Bytes()
}

// TestPlan applies random decisions on clusters with one and two node types, in which steps are slow,
// fail and hang, calls fail, and jobs and nodes change: no step takes a node that may be in use. When
// faults stop, every job is part of a decision, and each decision is applied completely
// before the next one.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newFakeCluster(rapid.Uint64().Draw(t, "seed"), t.Fatalf)
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			c.reconcile()
		}
		c.quiet = true
		for _, j := range c.jobs {
			j.fails, j.excluded = false, false
		}
		// Hanging steps become overdue, and the wait after six consecutive failures expires.
		for end := c.now.Add(patience + backoff<<6); c.now.Before(end); {
			c.reconcile()
		}
		quietDecisions := 0
		for range 400 {
			before := c.decided
			c.reconcile()
			if last := c.calls[len(c.calls)-1]; !last.Due {
				continue
			}
			if quietDecisions++; len(c.decided) != len(c.jobs) {
				t.Fatalf("the decision contains %d of %d jobs", len(c.decided), len(c.jobs))
			}
			if quietDecisions == 1 {
				continue
			}
			var observed elastallocv1.Snapshot
			if err := protojson.Unmarshal(c.calls[len(c.calls)-1].Observe, &observed); err != nil {
				t.Fatal(err)
			}
			for _, j := range observed.GetJobs() {
				if got := fmt.Sprint(j.GetCurrentNodes(), j.GetCurrentNodeType()); got != before[j.GetId()] {
					t.Fatalf("%s occupies %s; the decision was %s", j.GetId(), got, before[j.GetId()])
				}
			}
		}
		if quietDecisions < 3 {
			t.Fatalf("%d decisions without faults; want at least 3", quietDecisions)
		}
	})
}

// TestRestartsState checks which texts are no state of restarts.
func TestRestartsState(t *testing.T) {
	for _, text := range []string{
		``, `[]`, `{"at": 1, "jobs": {"a": 1}}`, `{"at": 1, "jobs": {}, "more": 1}`, `{"at": 1, "jobs": {"a": {"nodes": 1, "since": [2, 1]}}}`,
		`{"at": 1, "jobs": {"a": {"nodes": 1, "since": [-1]}}}`, `{"at": 1, "jobs": {"a": {"nodes": 1, "since": [1, 2, 3, 4]}}}`,
		`null`, `{}`, `{"at": 1}`, `{"jobs": {}}`, `{"at": 1, "jobs": {}} {}`, `{"at": 1e400, "jobs": {}}`, `{"at": 1.5, "jobs": {}}`,
		`{"at": 9223372036854775808, "jobs": {}}`, `{"at": 1, "jobs": {"a": {"nodes": 1, "since": [9223372036854775808]}}}`,
		`{"at": 1, "jobs": {"a": {"nodes": "1"}}}`, `{"at": 1, "jobs": {"a": {"nodes": 2147483648}}}`,
		`{"at": 1, "jobs": {"a": {"nodes": 1, "started": "yes"}}}`, `{"at": 1, "jobs": {"a": {"nodes": 1, "node_type": 1}}}`,
		`{"at": 1, "jobs": {"a": {"nodes": 1, "more": 1}}}`,
	} {
		var r client.Restarts
		r.Observe(time.Unix(1, 0), []*elastallocv1.Job{{Id: "a", CurrentNodes: 1}}, nil)
		before, err := json.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		err = r.UnmarshalJSON([]byte(text))
		after, _ := json.Marshal(&r)
		if err == nil || !strings.HasPrefix(err.Error(), "parse state of restarts: ") || !bytes.Equal(before, after) {
			t.Errorf("%s: error %v, and the state is %s; want an error and %s", text, err, after, before)
		}
	}
	for text, want := range map[string]string{ // A state, and its state 10 s later.
		`{"at": 1000000000000000000, "jobs": {"a": {"nodes": 1, "since": [5000000000]}}}`: "15s",
		`{"at": 2000000000000000000, "jobs": {"a": {"nodes": 1, "since": [5000000000]}}}`: "5s", // The clock went back.
		// Times do not exceed the range of their type.
		`{"at": -9223372036854775808, "jobs": {"a": {"nodes": 1, "since": [5]}}}`: "2562047h47m16.854775807s",
		`{"at": 0, "jobs": {"a": {"nodes": 1, "since": [9223372036854775807]}}}`:  "2562047h47m16.854775807s",
	} {
		p := client.Plan{}
		if err := json.Unmarshal([]byte(text), &p.Restarts); err != nil {
			t.Fatal(err)
		}
		p.Observe(at(10), poolOf(8, 1))
		state, err := json.Marshal(p.Restarts) // by value
		if err != nil {
			t.Fatal(err)
		}
		var r client.Restarts
		if err := json.Unmarshal(state, &r); err != nil {
			t.Fatal(err)
		}
		if got := r.Recent("a"); len(got) != 1 || got[0].AsDuration().String() != want {
			t.Errorf("%s: %v after 10 s; want %s", text, got, want)
		}
	}
	state, err := json.Marshal(client.Restarts{})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(state, new(client.Restarts)); err != nil {
		t.Errorf("the state of no jobs, %s: %v", state, err)
	}
}

// TestPlanGolden compares calls of Reconcile with a golden file, which the tests of the Python client
// use too.
func TestPlanGolden(t *testing.T) {
	const path = "testdata/plans.json"
	text := []byte("[\n")
	rejected, accepted := 0, 0 // calls, and calls that accept the pool again
	seen := make(map[string]int)
	write := func(plan *client.Plan, calls []planCall) {
		for n, call := range calls {
			if call.Refused != "" {
				rejected++
			} else if n > 0 && calls[n-1].Refused != "" {
				accepted++
			}
			seen[string(call.Reason)]++
			seen["warning"] += len(call.Warnings)
			seen["place"] += len(call.On)
		}
		state, err := json.Marshal(&plan.Restarts)
		if err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(planCase{
			Cadence: plan.Cadence.Seconds(), Patience: plan.Patience.Seconds(),
			CoolDown: plan.CoolDown.Seconds(), Backoff: plan.Backoff.Seconds(), MaxShrink: plan.MaxShrink, Calls: calls, Restarts: state,
		})
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, line...), ",\n"...)
	}
	for _, seed := range []uint64{0, 1, 2, 3, 4, 5, 6, 7, 32, 41} {
		c := newFakeCluster(seed, t.Fatalf)
		for range 30 {
			c.reconcile()
		}
		write(&c.plan, c.calls)
	}
	for seed := range uint64(5) {
		c := newGPUCluster(seed, t.Fatalf)
		c.recording = true
		for range 30 {
			c.reconcile()
		}
		write(&c.plan, c.calls)
	}
	for _, what := range []string{"event", "cadence", "retry", "warning", "place"} {
		if seen[what] == 0 {
			t.Errorf("no %s", what)
		}
	}
	text = append(text[:len(text)-2], "\n]\n"...)
	if rejected == 0 || accepted == 0 {
		t.Errorf("the pool is rejected in %d calls and accepted again in %d; want some", rejected, accepted)
	}
	if *update {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		t.Error(diff)
	}
}

// TestPlanRules checks the documented rules of Plan, one case each.
func TestPlanRules(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"patience":      testPatience,
		"cool-down":     testCoolDown,
		"back-off":      testBackoff,
		"lost nodes":    testLostNodes,
		"failed calls":  testFailedCalls,
		"overdue steps": testOverdueSteps,
		"warnings":      testWarnings,
		"restarts":      testRestarts,
		"lost units":    testLostUnits,
		"node types":    testNodeTypes,
	} {
		t.Run(name, test)
	}
}

// at returns the time some seconds after the start of a case.
func at(seconds int) time.Time { return time.Unix(1e9, 0).Add(time.Duration(seconds) * time.Second) }

// poolOf returns a snapshot of the jobs a, b and so on, each with its current nodes.
func poolOf(nodes int32, current ...int32) *elastallocv1.Snapshot {
	s := &elastallocv1.Snapshot{TotalNodes: nodes}
	for i, n := range current {
		s.Jobs = append(s.Jobs, &elastallocv1.Job{Id: string(rune('a' + i)), CurrentNodes: n})
	}
	return s
}

// decisionOf returns the allocations of the jobs a, b and so on.
func decisionOf(nodes ...int32) *elastallocv1.AllocateResponse {
	response := &elastallocv1.AllocateResponse{}
	for i, n := range nodes {
		response.Allocations = append(response.Allocations, &elastallocv1.Allocation{JobId: string(rune('a' + i)), Nodes: n})
	}
	return response
}

// requestOf returns the snapshot that the plan sends for a decision.
func requestOf(t *testing.T, p *client.Plan, seconds int, s *elastallocv1.Snapshot) *elastallocv1.Snapshot {
	t.Helper()
	sent, err := p.Snapshot(at(seconds), s)
	if err != nil {
		t.Fatal(err)
	}
	return sent
}

// checkSteps checks the steps that are next, such as "a4".
func checkSteps(t *testing.T, p *client.Plan, seconds int, want ...string) {
	t.Helper()
	var got []string
	for _, s := range p.Next(at(seconds)) {
		got = append(got, fmt.Sprint(s.JobID, s.Nodes))
	}
	if !slices.Equal(got, want) {
		t.Errorf("steps at %d s are %v; want %v", seconds, got, want)
	}
}

func testPatience(t *testing.T) {
	t.Helper()
	p := client.Plan{Patience: patience}
	requestOf(t, &p, 0, poolOf(8, 4, 4, 0, 0))
	p.Decide(at(0), decisionOf(0, 0, 6, 2))
	checkSteps(t, &p, 0, "a0", "b0")
	p.Observe(at(50), poolOf(8, 0, 4, 0, 0))
	checkSteps(t, &p, 50, "d2") // It does not take nodes that c waits for, because both fit.
	p.Observe(at(100), poolOf(8, 0, 4, 0, 2))
	if late := p.Overdue(at(100)); !slices.Equal(late, []string{"b"}) || !p.Due(at(100)) {
		t.Errorf("%v are overdue; want b, and a decision due", late)
	}
	p.Observe(at(155), poolOf(8, 0, 0, 0, 2))
	checkSteps(t, &p, 155, "c6") // A step was applied in time.
	p.Failed(at(156), "c")
	p.Decide(at(160), decisionOf(8, 0, 0, 2))
	checkSteps(t, &p, 160)
	p.Observe(at(221), poolOf(16, 0, 0, 0, 2))
	checkSteps(t, &p, 221) // The nodes are added after the patience has expired.
}

func testCoolDown(t *testing.T) {
	t.Helper()
	p := client.Plan{CoolDown: time.Minute}
	requestOf(t, &p, 0, poolOf(8, 4, 2))
	p.Decide(at(0), decisionOf(6, 2))
	checkSteps(t, &p, 0, "a6")
	for seconds, kept := range map[int]bool{10: true, 20: true, 79: true, 80: false} {
		q := p
		current := poolOf(8, 4, 2)
		if seconds >= 20 {
			q.Observe(at(20), poolOf(8, 6, 2)) // The step is applied at 20 s.
			current = poolOf(8, 6, 2)
		}
		sent := requestOf(t, &q, seconds, current).GetJobs()
		if sent[0].GetCurrentNodes() != 6 || sent[0].GetKeep() != kept || sent[1].GetKeep() {
			t.Errorf("after %d s the request is %v; want the first job kept: %t", seconds, sent, kept)
		}
	}
	if sent := requestOf(t, &p, 30, poolOf(6, 6, 2)).GetJobs(); sent[0].GetKeep() {
		t.Errorf("keeps %v although jobs occupy more nodes than the pool has", sent[0])
	}
}

func testBackoff(t *testing.T) {
	t.Helper()
	p := client.Plan{Backoff: 10 * time.Second}
	s := poolOf(8, 4, 2)
	s.Groups = []*elastallocv1.Group{
		{Id: "all", Limit: proto.Int32(8)}, {Id: "team", ParentId: "all", Quota: 3}, {Id: "other", ParentId: "all", Quota: 1},
	}
	s.Jobs[0].GroupId, s.Jobs[1].GroupId = "team", "other"
	for failures, wait := range []int{10, 20, 40} {
		offset := 100 * failures
		requestOf(t, &p, offset, s)
		p.Decide(at(offset), decisionOf(6, 2))
		checkSteps(t, &p, offset, "a6")
		p.Failed(at(offset), "a")
		p.Failed(at(offset), "a") // The second report of a failure has no effect.
		if sent := requestOf(t, &p, offset+wait-1, s); !sent.GetJobs()[0].GetKeep() ||
			sent.GetJobs()[0].GetCurrentNodes() != 4 || sent.GetJobs()[1].GetKeep() ||
			!proto.Equal(sent.GetGroups()[0], s.GetGroups()[0]) || sent.GetTotalNodes() != 8 {
			t.Errorf("after %d failures the request is %v; want that a keeps its nodes", failures+1, sent)
		}
		if sent := requestOf(t, &p, offset+wait, s); sent.GetJobs()[0].GetKeep() || sent.GetJobs()[1].GetKeep() {
			t.Errorf("%d s after %d failures the request is %v; want no job to keep its nodes", wait, failures+1, sent)
		}
	}
}

func testLostNodes(t *testing.T) {
	t.Helper()
	requests := 0
	reconcile := func(p *client.Plan, seconds int, s *elastallocv1.Snapshot, want string, nodes ...int32) {
		t.Helper()
		before := requests
		steps, _, err := p.Reconcile(at(seconds), s, func(*elastallocv1.Snapshot) (client.Decision, error) {
			requests++
			return decisionOf(nodes...), nil
		})
		if want == "" && (err != nil || requests == before) || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want) || requests > before || len(steps) > 0) {
			t.Errorf("at %d s: steps %v, error %v, requests a decision: %t; want the error %q", seconds, steps, err, requests > before, want)
		}
	}
	p := client.Plan{}
	reconcile(&p, 0, poolOf(10, 6, 4, 0), "", 6, 4, 0)
	reconcile(&p, 10, poolOf(7, 6, 4, 0), "", 6, 0, 0) // 30%: a job pauses.
	reconcile(&p, 20, poolOf(6, 6, 0, 0), "", 6, 0, 0)
	for seconds := 30; seconds < 930; seconds += 100 {
		reconcile(&p, seconds, poolOf(4, 6, 0, 0), "has 4 nodes, but jobs occupied 6 at the last decision; it may lose at most 30%")
	}
	reconcile(&p, 930, poolOf(4, 6, 0, 0), "", 4, 0, 0) // After three cadences.
	reconcile(&p, 940, poolOf(8, 4, 0, 0), "", 8, 0, 0) // Nodes return.
	p.Observe(at(950), poolOf(8, 8, 0, 0))
	reconcile(&p, 960, poolOf(2, 2, 0, 0), "has 2 nodes, but jobs occupied 8") // The job does not occupy removed nodes.
	reconcile(&p, 970, poolOf(2), "")                                          // All jobs completed, so that no nodes are lost.
	q := client.Plan{MaxShrink: 1, Cadence: time.Minute}
	reconcile(&q, 0, poolOf(10, 6, 4), "", 6, 4)
	reconcile(&q, 10, poolOf(1, 6, 4), "", 1, 0)
	for seconds := 20; seconds < 1000; seconds += 100 {
		reconcile(&q, seconds, poolOf(0, 6, 4), "has 0 nodes, but jobs occupy 10; total_nodes or node_types must be the usable nodes")
	}
	reconcile(&q, 1000, poolOf(0, 0, 0), "", 0, 0) // No job is running.
	r := client.Plan{}
	reconcile(&r, 0, poolOf(0, 0, 0), "", 0, 0)
	stale := client.Plan{}
	requestOf(t, &stale, 0, poolOf(8, 4, 4))
	stale.Observe(at(10), poolOf(4, 4, 4))
	stale.Decide(at(10), decisionOf(2, 2)) // on the pool before it lost nodes
	checkSteps(t, &stale, 10)
	stale.Observe(at(20), poolOf(8, 4, 4))
	checkSteps(t, &stale, 20, "a2", "b2")
}

func testFailedCalls(t *testing.T) {
	t.Helper()
	p, fail := client.Plan{Cadence: time.Minute}, true
	var calls []string
	for second := range 300 {
		if second == 210 {
			fail = false
		}
		_, _, err := p.Reconcile(at(second), poolOf(8, 4), func(*elastallocv1.Snapshot) (client.Decision, error) {
			calls = append(calls, fmt.Sprint(second, p.Reason))
			if fail {
				return nil, errNoResponse
			}
			return decisionOf(4), nil
		})
		if err != nil && !errors.Is(err, errNoResponse) {
			t.Fatal(err)
		}
	}
	want := []string{"0event", "10retry", "30retry", "70retry", "130retry", "190retry", "250retry"}
	if !slices.Equal(calls, want) {
		t.Errorf("calls at %v; want %v", calls, want)
	}
}

func testOverdueSteps(t *testing.T) {
	t.Helper()
	p := client.Plan{Patience: patience}
	var warned []string
	for second := range 200 {
		_, warnings, err := p.Reconcile(at(second), poolOf(8, 8, 0), func(*elastallocv1.Snapshot) (client.Decision, error) {
			return decisionOf(0, 8), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, warning := range warnings {
			warned = append(warned, fmt.Sprint(second, warning.GetJobId()))
		}
		if second == 100 {
			p.Failed(at(second), "a")
		}
	}
	// a is paused again after its back-off.
	if want := []string{"61a"}; !slices.Equal(warned, want) {
		t.Errorf("warnings at %v; want %v", warned, want)
	}
}

func testWarnings(t *testing.T) {
	t.Helper()
	p := client.Plan{}
	response := decisionOf(4)
	response.Report = &elastallocv1.SolveReport{Warnings: []*elastallocv1.Warning{{Message: "a warning"}}}
	for n, want := range []int{1, 0} { // The second call requests no decision.
		seconds := 10 * n
		_, warnings, err := p.Reconcile(at(seconds), poolOf(8, 4),
			func(*elastallocv1.Snapshot) (client.Decision, error) { return response, nil })
		if err != nil || len(warnings) != want {
			t.Errorf("at %d s warnings %v, %v; want %d", seconds, warnings, err, want)
		}
	}
	idle := &elastallocv1.FillIdleResponse{} // It has no report.
	_, warnings, err := p.Reconcile(at(500), poolOf(8, 4), func(*elastallocv1.Snapshot) (client.Decision, error) { return idle, nil })
	if err != nil || len(warnings) > 0 {
		t.Errorf("warnings %v, %v; want none", warnings, err)
	}
}

func testRestarts(t *testing.T) {
	t.Helper()
	p := client.Plan{}
	s := poolOf(8, 0, 0, 2, 1)
	s.Jobs[0].TrainingTime = durationpb.New(time.Hour)
	s.Jobs[2].RecentRestarts = []*durationpb.Duration{durationpb.New(time.Minute)}
	p.Observe(at(0), s)
	s.Jobs[0].CurrentNodes, s.Jobs[1].CurrentNodes, s.Jobs[2].CurrentNodes, s.Jobs[3].CurrentNodeType = 2, 2, 4, "a"
	p.Observe(at(0), s)
	q := p
	q.Observe(at(5), s) // A copy is independent.
	var got []string
	for _, job := range requestOf(t, &p, 10, s).GetJobs() {
		for _, since := range job.GetRecentRestarts() {
			got = append(got, fmt.Sprint(job.GetId(), since.AsDuration()))
		}
	}
	// The first job resumes, the second starts for the first time, the third has restarts in the snapshot, and the
	// fourth moves to another node type.
	if want := []string{"a10s", "c1m0s", "d10s"}; !slices.Equal(got, want) {
		t.Errorf("the request has the restarts %v; want %v", got, want)
	}
}

// testNodeTypes adds and removes node types without nodes: the pool changed.
func testNodeTypes(t *testing.T) {
	t.Helper()
	p, types := client.Plan{}, []*elastallocv1.NodeType{{Id: "a", Nodes: 8}, {Id: "b", Nodes: 4}, {Id: "c"}}
	for step, number := range []int{2, 2, 3, 2, 1} {
		s := &elastallocv1.Snapshot{NodeTypes: types[:number]}
		p.Observe(at(step), s)
		if want := step != 1; p.Due(at(step)) != want {
			t.Errorf("step %d, %d node types: a decision is due: %t; want %t", step, number, !want, want)
		}
		requestOf(t, &p, step, s)
	}
}

// testLostUnits takes units of a machine after the request for a decision that pauses one of two jobs. The other job has no
// place any more, but the pause needs none.
func testLostUnits(t *testing.T) {
	t.Helper()
	p := client.Plan{MaxShrink: 1}
	observe := func(free int) {
		if err := p.ObserveMachines([]placement.Node{{ID: "m", Units: 8, Free: free}}, []int{1, 2, 4, 8}, []placement.Job{
			{ID: "a", On: map[string]int{"m": 4}}, {ID: "b", On: map[string]int{"m": 4}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	observe(8)
	requestOf(t, &p, 0, poolOf(8, 4, 4))
	observe(2)
	p.Observe(at(1), poolOf(2, 4, 4))
	p.Decide(at(1), decisionOf(0, 4))
	checkSteps(t, &p, 1, "a0")
}
