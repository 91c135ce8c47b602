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

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

var update = flag.Bool("update", false, "write testdata/plans.json anew")

var errNoAnswer = errors.New("no answer")

const (
	turn     = 10 * time.Second
	patience = time.Minute
	backoff  = 20 * time.Second
)

// toy is a simulated cluster with individual nodes and the job on each of them. It shares no code with Plan.
type toy struct {
	draw func(below int) int
	fail func(format string, args ...any)
	now  time.Time
	plan client.Plan

	typed bool
	nodes []*toyNode
	jobs  []*toyJob
	came  int
	calm  bool // Steps take no more than two turns, and nothing fails or happens.

	answer  *elastallocv1.AllocateResponse // on its way
	decided map[string]string              // by the last decision
	moved   time.Time                      // the last decision, or when a step of it was carried out
	lost    time.Time                      // since when too many nodes are missing
	missed  bool                           // something happened meanwhile
	turns   []planCall
}

type toyNode struct {
	nodeType string
	job      *toyJob
}

type toyJob struct {
	id   string
	step *client.Step // under way
	// turns is the number of turns until the step is applied or fails.
	turns int
	fails bool
	// hangs reports that the step never completes by itself.
	hangs bool // until somebody looks at it
	begun time.Time
	// alone is the time until which the job gets no step, after consecutive failures.
	alone    time.Time
	failures int
	// inUse is the number of nodes that the job occupied at the last request for a decision, or has got
	// since.
	inUse int
}

// planCase is a run in the golden file, with times in seconds.
type planCase struct {
	Cadence   float64    `json:"cadence,omitempty"`
	Patience  float64    `json:"patience"`
	CoolDown  float64    `json:"cool_down"`
	Backoff   float64    `json:"backoff"`
	MaxShrink float64    `json:"max_shrink,omitempty"`
	Turns     []planCall `json:"turns"`
}

// planCall is one call of Reconcile.
type planCall struct {
	At      float64         `json:"at"`
	Observe json.RawMessage `json:"observe"`
	Late    json.RawMessage `json:"late,omitempty"`    // the answer to an earlier one
	Refused string          `json:"refused,omitempty"` // the error of a pool that lost too many nodes
	Due     bool            `json:"due"`
	Sent    json.RawMessage `json:"sent,omitempty"`
	Decide  json.RawMessage `json:"decide,omitempty"`
	Next    []string        `json:"next,omitempty"`
	Failed  []string        `json:"failed,omitempty"`
	Overdue []string        `json:"overdue,omitempty"`
}

func newToy(seed uint64, fail func(string, ...any)) *toy {
	draw := rand.New(rand.NewPCG(seed, 0)).IntN
	c := &toy{draw: draw, fail: fail, now: time.Unix(1e9, 0), typed: draw(3) == 0, plan: client.Plan{Patience: patience, Backoff: backoff}}
	if draw(2) == 0 {
		c.plan.Cadence = 4 * turn
	}
	if draw(2) == 0 {
		c.plan.CoolDown = 30 * time.Second
	}
	if draw(3) == 0 {
		c.plan.MaxShrink = 1
	}
	for range 1 + draw(16) {
		c.addNode()
	}
	return c
}

func (c *toy) addNode() {
	n := &toyNode{}
	if c.typed {
		n.nodeType = []string{"a", "b"}[c.draw(2)]
	}
	c.nodes = append(c.nodes, n)
}

// on returns the nodes of a job.
func (c *toy) on(j *toyJob) []*toyNode {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(n *toyNode) bool { return n.job != j })
}

// free returns the free nodes of a type.
func (c *toy) free(nodeType string) []*toyNode {
	return slices.DeleteFunc(c.on(nil), func(n *toyNode) bool { return n.nodeType != nodeType })
}

// snapshot returns the snapshot of the cluster.
func (c *toy) snapshot() *elastallocv1.Snapshot {
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
	for _, j := range c.jobs {
		described := &elastallocv1.Job{Id: j.id}
		if on := c.on(j); len(on) > 0 {
			described.CurrentNodes, described.CurrentNodeType = int32(len(on)), on[0].nodeType
		}
		s.Jobs = append(s.Jobs, described)
	}
	return s
}

// happens adds and removes jobs and nodes at random, and reports whether anything changed.
func (c *toy) happens() bool {
	switch c.draw(12) {
	case 0, 1, 2:
		c.came++
		c.jobs = append(c.jobs, &toyJob{id: fmt.Sprintf("job-%d", c.came)})
	case 3:
		if len(c.jobs) == 0 {
			return false
		}
		i := c.draw(len(c.jobs))
		for _, n := range c.on(c.jobs[i]) {
			n.job = nil
		}
		c.jobs = slices.Delete(c.jobs, i, i+1)
	case 4:
		if len(c.nodes) == 0 {
			return false
		}
		for range min(len(c.nodes), 1+c.draw(4)) {
			i := c.draw(len(c.nodes))
			c.nodes = slices.Delete(c.nodes, i, i+1)
		}
	case 5:
		for range 1 + c.draw(4) {
			c.addNode()
		}
	default:
		return false
	}
	return true
}

// begin starts a step. It fails the test if another job may still use one of its nodes.
func (c *toy) begin(s client.Step) {
	j := c.jobs[slices.IndexFunc(c.jobs, func(j *toyJob) bool { return j.id == s.JobID })]
	if j.step != nil {
		c.fail("%s is told %+v while %+v is under way", j.id, s, *j.step)
	}
	if want := fmt.Sprint(s.Nodes, s.NodeType); want != c.decided[j.id] && s.Nodes > 0 {
		c.fail("%s is told %s; decided was %s", j.id, want, c.decided[j.id])
	}
	if c.now.Before(j.alone) || c.now.Sub(c.moved) > patience {
		c.fail("%+v is told at %v, after a failure until %v and with no progress since %v", s, c.now, j.alone, c.moved)
	}
	on := c.on(j)
	if s.Frees() != (int(s.Nodes) < len(on)) || int(s.Nodes) == len(on) {
		c.fail("%+v is told to a job on %d nodes", s, len(on))
	}
	if s.Nodes > 0 && len(on) > 0 && on[0].nodeType != s.NodeType {
		c.fail("%+v is told to a job on nodes of type %s", s, on[0].nodeType)
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
	}
	j.step, j.begun, j.turns, j.fails, j.hangs = &s, c.now, c.draw(5), false, false
	if !c.calm {
		j.fails, j.hangs = c.draw(5) == 0, c.draw(8) == 0
	}
}

// pass advances all steps and returns the jobs whose steps failed.
func (c *toy) pass() (failed []string) {
	for _, j := range c.jobs {
		if j.step == nil || j.hangs {
			continue
		}
		if j.turns--; j.turns >= 0 {
			// The job may already have got a node.
			if on, free := c.on(j), c.free(j.step.NodeType); c.draw(2) == 0 && len(on) < int(j.step.Nodes)-1 && len(free) > 0 {
				free[0].job = j
			}
			continue
		}
		on, free := c.on(j), c.free(j.step.NodeType)
		switch more := int(j.step.Nodes) - len(on); {
		case j.fails || more > len(free): // For example because one of its nodes was removed.
			failed = append(failed, j.id)
			j.alone = c.now.Add(min(backoff<<j.failures, client.MaxBackoff))
			j.failures++
		case more < 0:
			for _, n := range on[j.step.Nodes:] {
				n.job = nil
			}
			c.moved, j.failures = c.now, 0
		default:
			for _, n := range free[:more] {
				n.job = j
			}
			c.moved, j.failures = c.now, 0
		}
		j.step = nil
	}
	return failed
}

// decide returns a random legal decision.
func (c *toy) decide(s *elastallocv1.Snapshot) *elastallocv1.AllocateResponse {
	left := map[string]int32{"": s.GetTotalNodes()}
	types := []string{""}
	if c.typed {
		types = []string{"a", "b"}
		left = map[string]int32{"a": s.GetNodeTypes()[0].GetNodes(), "b": s.GetNodeTypes()[1].GetNodes()}
	}
	response := &elastallocv1.AllocateResponse{}
	for _, j := range s.GetJobs() {
		a := &elastallocv1.Allocation{JobId: j.GetId(), NodeType: types[c.draw(len(types))]}
		if most := min(8, left[a.GetNodeType()]); j.MinNodes == nil && most > 0 {
			a.Nodes = int32(c.draw(int(most) + 1))
		} else if j.MinNodes != nil && left[j.GetCurrentNodeType()] >= j.GetMinNodes() && c.draw(4) > 0 {
			a.Nodes, a.NodeType = j.GetMinNodes(), j.GetCurrentNodeType()
		}
		if a.GetNodes() == 0 {
			a.NodeType = ""
		}
		left[a.GetNodeType()] -= a.GetNodes()
		response.Allocations = append(response.Allocations, a)
	}
	return response
}

// asks checks the snapshot of a request for a decision.
func (c *toy) asks(sent *elastallocv1.Snapshot, overdue []string) {
	left, asked := make(map[string]int), make(map[string]string)
	for _, n := range c.nodes {
		left[n.nodeType]++
	}
	for _, j := range sent.GetJobs() {
		asked[j.GetId()] = fmt.Sprint(j.GetCurrentNodes(), j.GetCurrentNodeType())
	}
	for _, j := range c.jobs {
		holds, nodeType, on := c.holds(j), "", c.on(j)
		if len(on) > 0 {
			nodeType = on[0].nodeType
		}
		if j.step != nil {
			holds = fmt.Sprint(j.step.Nodes, j.step.NodeType)
			if len(on) == 0 {
				nodeType = j.step.NodeType
			}
		}
		switch out := slices.Contains(overdue, j.id) || c.now.Before(j.alone); {
		case out && asked[j.id] != "":
			c.fail("asks about %s", j.id)
		case out && j.step != nil:
			left[nodeType] -= max(len(on), int(j.step.Nodes))
		case out:
			left[nodeType] -= len(on)
		case asked[j.id] != holds:
			c.fail("asks about %s with %s nodes; want %s", j.id, asked[j.id], holds)
		}
	}
	total := max(0, left[""]) + max(0, left["a"]) + max(0, left["b"])
	if int(sent.GetTotalNodes()) != total {
		c.fail("asks about %d nodes; want %d", sent.GetTotalNodes(), total)
	}
}

// tooSmall reports whether the pool lost too many of the nodes in use for a decision.
func (c *toy) tooSmall() bool {
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
		c.lost = time.Time{}
		return false
	}
	if c.lost.IsZero() {
		c.lost = c.now
	}
	return c.now.Before(c.lost.Add(3 * cadence))
}

// holds describes the nodes of a job.
func (c *toy) holds(j *toyJob) string {
	on := c.on(j)
	if len(on) == 0 {
		return "0"
	}
	return fmt.Sprint(len(on), on[0].nodeType)
}

// takes records the response that the plan gets.
func (c *toy) takes() json.RawMessage {
	answer := c.answer
	c.answer, c.moved, c.decided = nil, c.now, make(map[string]string)
	for _, a := range answer.GetAllocations() {
		c.decided[a.GetJobId()] = fmt.Sprint(a.GetNodes(), a.GetNodeType())
	}
	return marshal(answer)
}

// turn makes one call of Reconcile, as a scheduler does.
func (c *toy) turn() {
	c.now = c.now.Add(turn)
	onTheirWay := slices.Clone(c.jobs)
	onTheirWay = slices.DeleteFunc(onTheirWay, func(j *toyJob) bool { return j.step == nil })
	event := !c.calm && c.happens() || c.missed
	for _, j := range c.jobs {
		event = event || j.step != nil && !j.hangs && j.turns == 0 && c.now.Sub(j.begun) > patience // Completed late.
		if j.step != nil && j.step.Frees() && len(c.on(j)) <= int(j.step.Nodes) {
			j.step, j.failures, c.moved = nil, 0, c.now // The nodes were removed.
		}
	}
	failed := c.pass()
	event = event || len(failed) > 0
	for _, j := range c.jobs {
		if on := len(c.on(j)); on > j.inUse || slices.Contains(onTheirWay, j) {
			j.inUse = on
		}
	}
	tooSmall := c.tooSmall()
	s := c.snapshot()
	c.plan.Observe(c.now, s)
	record := planCall{At: c.now.Sub(time.Unix(1e9, 0)).Seconds(), Observe: marshal(s), Failed: failed}
	for _, id := range failed {
		c.plan.Failed(c.now, id)
	}
	record.Overdue = c.plan.Overdue(c.now)
	for _, j := range c.jobs {
		late := j.step != nil && c.now.Sub(j.begun) > patience
		if late != slices.Contains(record.Overdue, j.id) {
			c.fail("%s is overdue: %t; told are %v", j.id, late, record.Overdue)
		}
		event = event || late && c.now.Sub(j.begun) <= patience+turn || !c.now.Before(j.alone) && c.now.Sub(j.alone) < turn
		if late && (c.calm || c.draw(3) == 0) {
			j.hangs, j.turns = false, 0
		}
	}
	if c.answer != nil {
		c.plan.Decide(c.now, c.answer)
		record.Late = c.takes()
	}
	steps, _, err := c.plan.Reconcile(c.now, s, func(sent *elastallocv1.Snapshot) (client.Decision, error) {
		c.asks(sent, record.Overdue)
		for _, j := range c.jobs {
			j.inUse = len(c.on(j))
		}
		record.Due, record.Sent = true, marshal(sent)
		if c.calm || c.draw(5) > 0 { // Otherwise the call fails.
			c.answer = c.decide(sent)
		}
		if c.answer == nil || !c.calm && c.draw(2) > 0 {
			return nil, errNoAnswer
		}
		answer := c.answer
		record.Decide = c.takes()
		return answer, nil
	})
	if refused := new(client.PoolError); errors.As(err, &refused) != tooSmall || tooSmall && record.Due {
		c.fail("%v: %d nodes: %v, asks: %t; want the pool refused: %t", c.now, len(c.nodes), err, record.Due, tooSmall)
	} else if tooSmall {
		record.Refused = refused.Error()
	}
	if c.missed = event && tooSmall; event && !tooSmall && !record.Due {
		c.fail("%v: no decision is due, whatever happened", c.now)
	}
	if err != nil {
		steps = c.plan.Next(c.now) // Those of the last decision go on, unless the pool is refused.
	}
	if tooSmall && len(steps) > 0 {
		c.fail("%v: %v while the pool is refused", c.now, steps)
	}
	for _, step := range steps {
		c.begin(step)
		record.Next = append(record.Next, fmt.Sprint(step.JobID, " ", step.Nodes, " ", step.NodeType))
	}
	c.turns = append(c.turns, record)
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
// nothing fails anymore, every job is part of a decision, and each decision is applied completely
// before the next one.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newToy(rapid.Uint64().Draw(t, "seed"), t.Fatalf)
		for range rapid.IntRange(1, 40).Draw(t, "turns") {
			c.turn()
		}
		c.calm = true
		for _, j := range c.jobs {
			j.fails = false
		}
		// Hanging steps become overdue, and the wait after six consecutive failures expires.
		for end := c.now.Add(patience + backoff<<6); c.now.Before(end); {
			c.turn()
		}
		settled := 0
		for range 400 {
			before := c.decided
			c.turn()
			if last := c.turns[len(c.turns)-1]; !last.Due {
				continue
			}
			if settled++; len(c.decided) != len(c.jobs) {
				t.Fatalf("a decision on %d of %d jobs", len(c.decided), len(c.jobs))
			}
			if settled == 1 {
				continue
			}
			var was elastallocv1.Snapshot
			if err := protojson.Unmarshal(c.turns[len(c.turns)-1].Observe, &was); err != nil {
				t.Fatal(err)
			}
			for _, j := range was.GetJobs() {
				if got := fmt.Sprint(j.GetCurrentNodes(), j.GetCurrentNodeType()); got != before[j.GetId()] {
					t.Fatalf("%s holds %s; decided was %s", j.GetId(), got, before[j.GetId()])
				}
			}
		}
		if settled < 3 {
			t.Fatalf("%d decisions in the end; want more", settled)
		}
	})
}

// TestPlanGolden compares calls of Reconcile with a golden file, which the tests of the Python client
// use too.
func TestPlanGolden(t *testing.T) {
	const path = "testdata/plans.json"
	text := []byte("[\n")
	refused, believed := 0, 0 // turns, and those after it
	for _, seed := range []uint64{0, 1, 2, 3, 4, 5, 6, 7, 32, 41} {
		c := newToy(seed, t.Fatalf)
		for range 30 {
			c.turn()
		}
		for n := range c.turns {
			if c.turns[n].Refused != "" {
				refused++
			} else if n > 0 && c.turns[n-1].Refused != "" {
				believed++
			}
		}
		line, err := json.Marshal(planCase{
			Cadence: c.plan.Cadence.Seconds(), Patience: c.plan.Patience.Seconds(),
			CoolDown: c.plan.CoolDown.Seconds(), Backoff: c.plan.Backoff.Seconds(), MaxShrink: c.plan.MaxShrink, Turns: c.turns,
		})
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, line...), ",\n"...)
	}
	text = append(text[:len(text)-2], "\n]\n"...)
	if refused == 0 || believed == 0 {
		t.Errorf("the pool is refused in %d turns and believed again after %d; want some", refused, believed)
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
	start := time.Unix(1e9, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	snapshot := func(nodes int32, held ...int32) *elastallocv1.Snapshot {
		s := &elastallocv1.Snapshot{TotalNodes: nodes}
		for i, n := range held {
			s.Jobs = append(s.Jobs, &elastallocv1.Job{Id: string(rune('a' + i)), CurrentNodes: n})
		}
		return s
	}
	decision := func(nodes ...int32) *elastallocv1.AllocateResponse {
		response := &elastallocv1.AllocateResponse{}
		for i, n := range nodes {
			response.Allocations = append(response.Allocations, &elastallocv1.Allocation{JobId: string(rune('a' + i)), Nodes: n})
		}
		return response
	}
	sends := func(p *client.Plan, seconds int, s *elastallocv1.Snapshot) *elastallocv1.Snapshot {
		t.Helper()
		sent, err := p.Snapshot(at(seconds), s)
		if err != nil {
			t.Fatal(err)
		}
		return sent
	}
	next := func(p *client.Plan, seconds int, want ...string) {
		t.Helper()
		var got []string
		for _, s := range p.Next(at(seconds)) {
			got = append(got, fmt.Sprint(s.JobID, s.Nodes))
		}
		if !slices.Equal(got, want) {
			t.Errorf("steps at %d s are %v; want %v", seconds, got, want)
		}
	}
	t.Run("patience", func(t *testing.T) {
		p := client.Plan{Patience: patience}
		sends(&p, 0, snapshot(8, 4, 4, 0, 0))
		p.Decide(at(0), decision(0, 0, 6, 2))
		next(&p, 0, "a0", "b0")
		p.Observe(at(50), snapshot(8, 0, 4, 0, 0))
		next(&p, 50, "d2") // It takes nothing that c waits for: both fit.
		p.Observe(at(100), snapshot(8, 0, 4, 0, 2))
		if late := p.Overdue(at(100)); !slices.Equal(late, []string{"b"}) || !p.Due(at(100)) {
			t.Errorf("%v are overdue; want b, and a decision due", late)
		}
		p.Observe(at(155), snapshot(8, 0, 0, 0, 2))
		next(&p, 155, "c6") // Something has moved.
		p.Failed(at(156), "c")
		p.Decide(at(160), decision(8, 0, 0, 2))
		next(&p, 160)
		p.Observe(at(221), snapshot(16, 0, 0, 0, 2))
		next(&p, 221) // The nodes come too late for it.
	})
	t.Run("cool-down", func(t *testing.T) {
		p := client.Plan{CoolDown: time.Minute}
		sends(&p, 0, snapshot(8, 4, 2))
		p.Decide(at(0), decision(6, 2))
		next(&p, 0, "a6")
		for seconds, pinned := range map[int]bool{10: true, 20: true, 79: true, 80: false} {
			q := p // After it was carried out at 20 s.
			held := snapshot(8, 4, 2)
			if seconds >= 20 {
				q.Observe(at(20), snapshot(8, 6, 2))
				held = snapshot(8, 6, 2)
			}
			held.Jobs[1].AllowedNodes = []int32{1, 2, 4}
			sent := sends(&q, seconds, held).GetJobs()
			if sent[0].GetCurrentNodes() != 6 || (sent[0].GetMinNodes() == 6 && sent[0].GetMaxNodes() == 6) != pinned || len(sent[1].GetAllowedNodes()) != 3 {
				t.Errorf("after %d s asks about %v; pinned: %t", seconds, sent, pinned)
			}
		}
		if sent := sends(&p, 30, snapshot(6, 6, 2)).GetJobs(); sent[0].MinNodes != nil {
			t.Errorf("pins %v though jobs hold more than the pool has", sent[0])
		}
	})
	t.Run("back-off and groups", func(t *testing.T) {
		p := client.Plan{Backoff: 10 * time.Second}
		s := snapshot(8, 4, 2)
		s.Groups = []*elastallocv1.Group{{Id: "all", Limit: proto.Int32(6)}, {Id: "team", ParentId: "all", Quota: 3}, {Id: "other", ParentId: "all", Quota: 1}}
		s.Jobs[0].GroupId, s.Jobs[1].GroupId = "team", "other"
		for failures, wait := range []int{10, 20, 40} {
			begun := 100 * failures
			sends(&p, begun, s)
			p.Decide(at(begun), decision(6, 2))
			next(&p, begun, "a6")
			p.Failed(at(begun), "a")
			p.Failed(at(begun), "a") // Once is enough.
			if sent := sends(&p, begun+wait-1, s); len(sent.GetJobs()) != 1 || sent.GetTotalNodes() != 4 ||
				sent.GetGroups()[0].GetLimit() != 2 || sent.GetGroups()[1].GetQuota() != 0 || sent.GetGroups()[2].GetQuota() != 1 {
				t.Errorf("after %d failures asks about %v; want a left out with its nodes", failures+1, sent)
			}
			if sent := sends(&p, begun+wait, s); len(sent.GetJobs()) != 2 || sent.GetTotalNodes() != 8 {
				t.Errorf("%d s after %d failures asks about %v", wait, failures+1, sent)
			}
		}
	})
	t.Run("lost nodes", func(t *testing.T) {
		asked := 0
		turn := func(p *client.Plan, seconds int, s *elastallocv1.Snapshot, want string, nodes ...int32) {
			t.Helper()
			before := asked
			steps, _, err := p.Reconcile(at(seconds), s, func(*elastallocv1.Snapshot) (client.Decision, error) {
				asked++
				return decision(nodes...), nil
			})
			if want == "" && (err != nil || asked == before) || want != "" && (err == nil || !strings.Contains(err.Error(), want) || asked > before || len(steps) > 0) {
				t.Errorf("at %d s steps %v, %v, asks: %t; want the error %q", seconds, steps, err, asked > before, want)
			}
		}
		p := client.Plan{}
		turn(&p, 0, snapshot(10, 6, 4, 0), "", 6, 4, 0)
		turn(&p, 10, snapshot(7, 6, 4, 0), "", 6, 0, 0) // 30 %: a job pauses.
		turn(&p, 20, snapshot(6, 6, 0, 0), "", 6, 0, 0)
		for seconds := 30; seconds < 930; seconds += 100 {
			turn(&p, seconds, snapshot(4, 6, 0, 0), "has 4 nodes, but jobs occupied 6 at the last decision; it may lose at most 30%")
		}
		turn(&p, 930, snapshot(4, 6, 0, 0), "", 4, 0, 0) // Three cadences are over.
		turn(&p, 940, snapshot(8, 4, 0, 0), "", 8, 0, 0) // Nodes return.
		p.Observe(at(950), snapshot(8, 8, 0, 0))
		turn(&p, 960, snapshot(2, 2, 0, 0), "has 2 nodes, but jobs occupied 8") // The job is not on lost nodes any more.
		turn(&p, 970, snapshot(2), "")                                          // All jobs completed, so that no nodes are lost.
		q := client.Plan{MaxShrink: 1, Cadence: time.Minute}
		turn(&q, 0, snapshot(10, 6, 4), "", 6, 4)
		turn(&q, 10, snapshot(1, 6, 4), "", 1, 0)
		for seconds := 20; seconds < 1000; seconds += 100 {
			turn(&q, seconds, snapshot(0, 6, 4), "has 0 nodes, but jobs occupy 10; total_nodes or node_types must be the usable nodes")
		}
		turn(&q, 1000, snapshot(0, 0, 0), "", 0, 0) // No job is running.
		r := client.Plan{}
		turn(&r, 0, snapshot(0, 0, 0), "", 0, 0)
		late := client.Plan{}
		sends(&late, 0, snapshot(8, 4, 4))
		late.Observe(at(10), snapshot(4, 4, 4))
		late.Decide(at(10), decision(2, 2)) // on the pool as it was
		next(&late, 10)
		late.Observe(at(20), snapshot(8, 4, 4))
		next(&late, 20, "a2", "b2")
	})
	t.Run("warnings", func(t *testing.T) {
		p := client.Plan{}
		answer := decision(4)
		answer.Report = &elastallocv1.SolveReport{Warnings: []*elastallocv1.Warning{{Message: "look here"}}}
		for n, want := range []int{1, 0} { // The second call requests no decision.
			seconds := 10 * n
			_, warnings, err := p.Reconcile(at(seconds), snapshot(8, 4), func(*elastallocv1.Snapshot) (client.Decision, error) { return answer, nil })
			if err != nil || len(warnings) != want {
				t.Errorf("at %d s warnings %v, %v; want %d", seconds, warnings, err, want)
			}
		}
		idle := &elastallocv1.FillIdleResponse{} // It has no report.
		_, warnings, err := p.Reconcile(at(500), snapshot(8, 4), func(*elastallocv1.Snapshot) (client.Decision, error) { return idle, nil })
		if err != nil || len(warnings) > 0 {
			t.Errorf("warnings %v, %v; want none", warnings, err)
		}
	})
	t.Run("pins are legal", func(t *testing.T) {
		allocator, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
		if err != nil {
			t.Fatal(err)
		}
		table := &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: &elastallocv1.SpeedTable{Speeds: []float64{1, 1.8, 3}}}}
		a, b := &elastallocv1.TypeSpeed{NodeType: "a", Factor: proto.Float64(2)}, &elastallocv1.TypeSpeed{NodeType: "b", AllowedNodes: []int32{2, 8}}
		for name, c := range map[string]struct {
			job    *elastallocv1.Job
			typed  bool
			pinned bool
		}{
			"plain":                       {&elastallocv1.Job{}, false, true},
			"sizes":                       {&elastallocv1.Job{AllowedNodes: []int32{1, 2, 4}}, false, true},
			"a table of all sizes":        {&elastallocv1.Job{AllowedNodes: []int32{1, 2, 4}, Scaling: table}, false, true},
			"a table of powers of two":    {&elastallocv1.Job{MaxNodes: proto.Int32(4), Scaling: table}, false, false},
			"a table of sizes in range":   {&elastallocv1.Job{MaxNodes: proto.Int32(4), AllowedNodes: []int32{1, 2, 4, 8}, Scaling: table}, false, false},
			"node types":                  {&elastallocv1.Job{}, true, true},
			"a table on node types":       {&elastallocv1.Job{AllowedNodes: []int32{1, 2, 4}, Scaling: table}, true, true},
			"speeds of node types":        {&elastallocv1.Job{Speeds: []*elastallocv1.TypeSpeed{a, {NodeType: "b"}}}, true, true},
			"sizes of their own of types": {&elastallocv1.Job{Speeds: []*elastallocv1.TypeSpeed{a, b}}, true, false},
		} {
			s := &elastallocv1.Snapshot{TotalNodes: 16, Jobs: []*elastallocv1.Job{c.job}}
			if c.typed {
				s.NodeTypes = []*elastallocv1.NodeType{{Id: "a", Nodes: 8}, {Id: "b", Nodes: 8}}
				c.job.CurrentNodeType = "a"
			}
			c.job.Id, c.job.RemainingEta, c.job.CurrentNodes = "a", durationpb.New(time.Hour), 2
			p := client.Plan{CoolDown: time.Hour}
			sends(&p, 0, s)
			p.Decide(at(0), &elastallocv1.AllocateResponse{Allocations: []*elastallocv1.Allocation{{JobId: "a", Nodes: 4, NodeType: c.job.GetCurrentNodeType()}}})
			p.Next(at(0))
			c.job.CurrentNodes = 4
			sent := sends(&p, 10, s)
			answer, err := apiconv.InProcess{Allocator: allocator}.Allocate(t.Context(), &elastallocv1.AllocateRequest{
				Snapshot: sent, Options: &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME},
			})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			got := answer.GetAllocations()[0]
			if pinned := sent.GetJobs()[0].GetMinNodes() == 4; pinned != c.pinned || pinned && (got.GetNodes() != 4 || got.GetNodeType() != c.job.GetCurrentNodeType()) {
				t.Errorf("%s: pinned: %t, and gets %v", name, pinned, got)
			}
		}
	})
}
