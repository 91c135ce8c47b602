// Package replay reconstructs the schedule of a cluster from the recording of a server. The result
// is a workload, on which policies can be simulated, and the run of the policy "recorded", with which
// they are compared. Unknown counts the facts that snapshots do not contain.
package replay

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/internal/text"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// Call is a recorded call of Allocate or FillIdle with its response.
type Call struct {
	// At is the time since the first call of the recording, in whole seconds.
	At   time.Duration
	Time time.Time
	// Snapshot is valid and has its defaults.
	Snapshot *solver.Snapshot
	// Decision reports whether the call is Allocate, with Options, and not FillIdle.
	Decision bool
	Options  solver.Options
	// Response maps job IDs to allocations. It is nil if the call failed.
	Response map[string]Allocation
}

// Allocation is the nodes of a job, and their type in a pool with node types.
type Allocation struct {
	Nodes    int
	NodeType string
}

// String returns the nodes with their type, "" if there is no response.
func (h Allocation) String() string {
	if h.Nodes == noResponse {
		return ""
	}
	return strings.TrimSpace(fmt.Sprint(h.Nodes, " ", h.NodeType))
}

// allocation returns an Allocation, without a type for no nodes and in a pool without node types.
func (m *Call) allocation(nodes int, nodeType string) Allocation {
	if nodes == 0 || !m.Snapshot.Typed() {
		nodeType = ""
	}
	return Allocation{nodes, nodeType}
}

type allocationsResponse interface {
	GetAllocations() []*elastallocv1.Allocation
}

// newCall converts an entry of a recording. It returns nil if the request is not valid.
func newCall(e *recording.Entry) *Call {
	m := &Call{Time: e.Time}
	switch request := e.Request.(type) {
	case *elastallocv1.AllocateRequest:
		converted, err := apiconv.FromAllocateRequest(request, math.MaxInt32)
		if err != nil {
			return nil
		}
		m.Decision, m.Snapshot, m.Options = true, converted.Snapshot, converted.Options.WithDefaults()
	case *elastallocv1.FillIdleRequest:
		snapshot, err := apiconv.FromSnapshot(request.GetSnapshot(), math.MaxInt32)
		if err != nil {
			return nil
		}
		m.Snapshot, m.Options = snapshot, solver.DefaultOptions()
	default:
		return nil
	}
	m.Snapshot = m.Snapshot.WithDefaults()
	m.Snapshot, _ = m.Snapshot.Freeze(m.Options.BadJobs == solver.BadJobsHold)
	if len(solver.Validate(m.Snapshot, m.Options, math.MaxInt32, []solver.BackendName{m.Options.Backend})) > 0 {
		return nil
	}
	if m.Snapshot.Typed() {
		m.Snapshot = m.Snapshot.WithReferenceETAs()
	}
	if answer, ok := e.Response.(allocationsResponse); ok {
		m.Response = make(map[string]Allocation)
		for _, a := range answer.GetAllocations() {
			m.Response[a.GetJobId()] = m.allocation(int(a.GetNodes()), a.GetNodeType())
		}
	}
	return m
}

// Source counts the calls of a recording, as written to replay.json.
type Source struct {
	// Begin and End are the times of the first and the last call.
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`
	// Calls is the number of calls in the recording, Decisions the number of Allocate calls, and
	// Fills the number of FillIdle calls.
	Calls     int `json:"calls"`
	Decisions int `json:"decisions"`
	Fills     int `json:"fills"`
	// Refused is the number of invalid requests among these calls, and Unanswered the number of calls
	// without a successful response. OtherMethods counts calls of other methods, and OtherCallers
	// calls of callers that are not selected.
	Refused      int `json:"refused"`
	Unanswered   int `json:"unanswered"`
	OtherMethods int `json:"other_methods"`
	OtherCallers int `json:"other_callers"`
	// Cut lists incomplete or damaged files. ClockSetBack lists files with decreasing times.
	Cut          []string `json:"cut,omitempty"`
	ClockSetBack []string `json:"clock_set_back,omitempty"`
}

// callLog collects the calls of the callers of one cluster. It does not keep messages, which would need
// several times as much memory.
type callLog struct {
	chosen []string
	source Source
	list   []Call
	by     map[string]int // decisions and fills
}

// newCallLog returns an empty callLog for the given callers, by default all.
func newCallLog(chosen ...string) *callLog { return &callLog{chosen: chosen, by: make(map[string]int)} }

// add adds the next call of a recording.
func (c *callLog) add(e *recording.Entry) {
	c.source.Calls++
	if e.Method != "Allocate" && e.Method != "FillIdle" {
		c.source.OtherMethods++
		return
	}
	c.by[e.Caller]++
	if len(c.chosen) > 0 && !slices.Contains(c.chosen, e.Caller) {
		c.source.OtherCallers++
		return
	}
	m := newCall(e)
	switch {
	case m == nil:
		c.source.Refused++
		return
	case m.Decision:
		c.source.Decisions++
	default:
		c.source.Fills++
	}
	if m.Response == nil {
		c.source.Unanswered++
	}
	c.list = append(c.list, *m)
}

// ordered returns the calls in order of time, starting with the first decision. readErrors are the incomplete
// parts of the recording.
func (c *callLog) ordered(readErrors []recording.ReadError) ([]Call, Source, error) {
	source, list, chosen, callers := c.source, c.list, c.chosen, c.by
	for _, readError := range readErrors {
		if errors.Is(readError.Err, recording.ErrClockSetBack) {
			source.ClockSetBack = append(source.ClockSetBack, readError.Path)
		} else {
			source.Cut = append(source.Cut, readError.Path)
		}
	}
	slices.SortStableFunc(list, func(a, b Call) int { return a.Time.Compare(b.Time) })
	if len(chosen) == 0 && len(callers) > 1 {
		var named []string
		for _, name := range slices.Sorted(maps.Keys(callers)) {
			named = append(named, fmt.Sprintf("%s (calls: %d)", text.Shorten(name), callers[name]))
		}
		return nil, source, fmt.Errorf("the recording has calls of several callers, whose clusters may differ; choose those of one cluster: %s",
			strings.Join(named, ", "))
	}
	for _, caller := range chosen {
		if callers[caller] == 0 {
			return nil, source, fmt.Errorf("the recording has no calls of %q", caller)
		}
	}
	// Simulations start with a decision.
	begin := slices.IndexFunc(list, func(m Call) bool { return m.Decision && len(m.Snapshot.Jobs) > 0 })
	if begin < 0 {
		return nil, source, fmt.Errorf("the recording has %d calls, but no Allocate call with jobs", source.Calls)
	}
	list = list[begin:]
	if len(list) < 2 {
		return nil, source, errors.New("the recording has one snapshot; must have at least 2")
	}
	for i := range list {
		if s, first := list[i].Snapshot, list[0].Snapshot; (s.Typed() || first.Typed()) && !slices.Equal(s.NodeTypes, first.NodeTypes) {
			return nil, source,
				fmt.Errorf("the node types at %s are not those at %s; must be the same throughout, because the simulated pool does not change",
					list[i].Time.UTC().Format(time.RFC3339), list[0].Time.UTC().Format(time.RFC3339))
		}
	}
	source.Begin, source.End = list[0].Time, list[len(list)-1].Time
	for i := range list {
		list[i].At = list[i].Time.Sub(source.Begin).Round(time.Second)
	}
	return list, source, nil
}
