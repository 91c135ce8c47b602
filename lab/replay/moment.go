// Package replay reads the recording of a server and works out what really happened to the
// jobs. That is a workload, on which policies can be simulated, and the run of the policy
// recorded, which they are set beside. What snapshots cannot tell is counted, see Unknown.
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

// Moment is a recorded call: the cluster as its scheduler described it, and what the server
// answered.
type Moment struct {
	// At is whole seconds from the first call of the recording.
	At   time.Duration
	Time time.Time
	// Snapshot is valid and has its defaults.
	Snapshot *solver.Snapshot
	// Decision says that it asked for a decision, with Options, and not to fill idle nodes.
	Decision bool
	Options  solver.Options
	// Answer is what each job is given, by its id; nil for a call that got none.
	Answer map[string]Held
}

// Held is the nodes of a job, and their type in a pool of several.
type Held struct {
	Nodes    int
	NodeType string
}

// String returns the nodes with their type, "" for no answer.
func (h Held) String() string {
	if h.Nodes == unanswered {
		return ""
	}
	return strings.TrimSpace(fmt.Sprint(h.Nodes, " ", h.NodeType))
}

// held returns nodes of the moment's pool.
func (m *Moment) held(nodes int, nodeType string) Held {
	if nodes == 0 || !m.Snapshot.Typed() {
		nodeType = ""
	}
	return Held{nodes, nodeType}
}

type isAnswer interface {
	GetAllocations() []*elastallocv1.Allocation
}

// newMoment returns the moment of a call that describes the cluster, or nil.
func newMoment(e *recording.Entry) *Moment {
	m := &Moment{Time: e.Time}
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
	if m.Options.BadJobs == solver.BadJobsHold {
		m.Snapshot, _ = m.Snapshot.FreezeBadJobs()
	}
	if len(solver.Validate(m.Snapshot, m.Options, math.MaxInt32, []solver.BackendName{m.Options.Backend})) > 0 {
		return nil
	}
	if m.Snapshot.Typed() {
		m.Snapshot = m.Snapshot.WithReferenceETAs()
	}
	if answer, ok := e.Response.(isAnswer); ok {
		m.Answer = make(map[string]Held)
		for _, a := range answer.GetAllocations() {
			m.Answer[a.GetJobId()] = m.held(int(a.GetNodes()), a.GetNodeType())
		}
	}
	return m
}

// Source says which calls a replay is made of. Field names are those of replay.json.
type Source struct {
	// Begin and End are the times of the first and the last call.
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`
	// Calls is the number of calls in the recording, Decisions how many of them asked for a
	// decision and Fills how many filled idle nodes.
	Calls     int `json:"calls"`
	Decisions int `json:"decisions"`
	Fills     int `json:"fills"`
	// Refused is the number of these calls that were no valid request, and Unanswered of
	// those that got no answer. OtherMethods ask about what might be.
	Refused      int `json:"refused"`
	Unanswered   int `json:"unanswered"`
	OtherMethods int `json:"other_methods"`
	OtherCallers int `json:"other_callers"`
	// Cut names the files that cannot be read to their end, and ClockSetBack those in which
	// times go back.
	Cut          []string `json:"cut,omitempty"`
	ClockSetBack []string `json:"clock_set_back,omitempty"`
}

// calls are those of the callers of one cluster. Messages are not kept: they take several times
// as much memory.
type calls struct {
	chosen []string
	source Source
	list   []Moment
	by     map[string]int // decisions and fills
}

// newCalls returns the calls of some callers, all for none.
func newCalls(chosen ...string) *calls { return &calls{chosen: chosen, by: make(map[string]int)} }

// add takes the next call of a recording.
func (c *calls) add(e *recording.Entry) {
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
	m := newMoment(e)
	switch {
	case m == nil:
		c.source.Refused++
		return
	case m.Decision:
		c.source.Decisions++
	default:
		c.source.Fills++
	}
	if m.Answer == nil {
		c.source.Unanswered++
	}
	c.list = append(c.list, *m)
}

// moments returns the moments in the order of time, of a recording with these cuts.
func (c *calls) moments(cuts []recording.Cut) ([]Moment, Source, error) {
	source, list, chosen, callers := c.source, c.list, c.chosen, c.by
	for _, cut := range cuts {
		if errors.Is(cut.Err, recording.ErrClockSetBack) {
			source.ClockSetBack = append(source.ClockSetBack, cut.Path)
		} else {
			source.Cut = append(source.Cut, cut.Path)
		}
	}
	slices.SortStableFunc(list, func(a, b Moment) int { return a.Time.Compare(b.Time) })
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
	// It begins with a decision, for the simulations decide at its pace.
	begin := slices.IndexFunc(list, func(m Moment) bool { return m.Decision && len(m.Snapshot.Jobs) > 0 })
	if begin < 0 {
		return nil, source, fmt.Errorf("the recording has %d calls, and no decision on jobs", source.Calls)
	}
	list = list[begin:]
	if len(list) < 2 {
		return nil, source, errors.New("the recording has one snapshot; must have at least 2")
	}
	for i := range list {
		if s, first := list[i].Snapshot, list[0].Snapshot; (s.Typed() || first.Typed()) && !slices.Equal(s.NodeTypes, first.NodeTypes) {
			return nil, source, fmt.Errorf("the node types at %s are not those at %s; must be the same throughout, because the simulated pool does not change",
				list[i].Time.UTC().Format(time.RFC3339), list[0].Time.UTC().Format(time.RFC3339))
		}
	}
	source.Begin, source.End = list[0].Time, list[len(list)-1].Time
	for i := range list {
		list[i].At = list[i].Time.Sub(source.Begin).Round(time.Second)
	}
	return list, source, nil
}
