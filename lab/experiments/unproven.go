package experiments

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// Unproven is a decision that was not proven optimal, with its request.
type Unproven struct {
	// File is the name of the file with the request.
	File string `json:"file"`
	// Reason and RelativeGap are those of the report.
	Reason      string  `json:"reason"`
	RelativeGap float64 `json:"relative_gap"`

	request apiconv.Request
}

// JSON returns the request in protojson, the same bytes every time.
func (u *Unproven) JSON() ([]byte, error) {
	return apiconv.JSON(apiconv.ToAllocateRequest(u.request), protojson.MarshalOptions{})
}

// unprovenList collects the unproven decisions of concurrent runs; the zero value is ready.
type unprovenList struct {
	mutex sync.Mutex
	list  []Unproven
}

// observer returns the observer of a run, nil for policies that do not optimize.
func (l *unprovenList) observer(p *planned) sim.Observer {
	if !p.task.Policy.Optimizes() {
		return nil
	}
	options := p.task.Policy.Options
	options.TimeBudget = p.task.Config.DecisionBudget
	run := fmt.Sprintf("%s-%s-%s-%03dnodes-seed%d",
		p.setting, p.source, p.task.Policy.Name, p.task.Config.Nodes, p.seed)
	number := 0
	return func(snapshot *solver.Snapshot, decision solver.Decision) {
		number++
		report := decision.Report
		if report.Reason == solver.ReasonOptimal {
			return
		}
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.list = append(l.list, Unproven{
			File:        fmt.Sprintf("%s-decision%05d.json", run, number),
			Reason:      string(report.Reason),
			RelativeGap: report.RelativeGap,
			request:     apiconv.Request{Snapshot: snapshot, Options: options},
		})
	}
}

func (l *unprovenList) sorted() []Unproven {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	slices.SortFunc(l.list, func(a, b Unproven) int { return strings.Compare(a.File, b.File) })
	return l.list
}
