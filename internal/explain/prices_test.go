package explain

import (
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// TestNodePrice checks the price of an option: the sum of the prices of the rows that count it, and 0 if the
// time budget expired before prices were known.
func TestNodePrice(t *testing.T) {
	t.Parallel()
	s := &solver.Snapshot{TotalNodes: 8, Jobs: []solver.Job{solver.NewJob("a", time.Hour)}}
	o := solver.Options{Objective: solver.ObjectiveTotalTime}.WithDefaults()
	four := solver.NewOption(0, 4)
	for name, test := range map[string]struct {
		limits []solver.SizeLimit
		report solver.Report
		want   float64
	}{
		"unknown": {nil, solver.Report{}, 0},
		"unknown, with limits": {
			[]solver.SizeLimit{{Size: 2, Nodes: 4}}, solver.Report{SizeLimits: make([]solver.SizeLimitReport, 1)}, 0,
		},
		"of the pool": {nil, solver.Report{NodePrices: []float64{3}}, 3},
		"of the pool and one of 2 limits": {
			[]solver.SizeLimit{{Size: 8, Nodes: 4}, {Size: 2, Nodes: 4}},
			solver.Report{NodePrices: []float64{3}, SizeLimits: []solver.SizeLimitReport{{Price: 5}, {Price: 7}}}, 10,
		},
	} {
		limited := *s
		limited.SizeLimits = test.limits
		p := problem.NewProblemFor(limited.WithDefaults(), o)
		e := &explainer{problem: p, nodePrices: test.report.Prices(p.Rows)}
		if got := e.nodePrice(&p.Jobs[0], four); got != test.want {
			t.Errorf("%s: %v; want %v", name, got, test.want)
		}
	}
}
