package controller_test

import (
	"context"
	"math"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/controller"
	"github.com/elastalloc/elastalloc/kube/internal/worldtest"
	"github.com/elastalloc/elastalloc/kube/world"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// percent is a Prometheus to which the job "a" tells its progress in whole percents, as often
// as it is asked, while it runs 40 h of work at an efficiency of 0.9.
type percent struct {
	t    *testing.T
	c    *cluster
	last time.Time
	done float64
}

func (p *percent) Query(_ context.Context, _ string, now time.Time) (map[types.NamespacedName]world.Sample, error) {
	nodes, _ := p.c.job("a")
	if !p.last.IsZero() && nodes > 0 {
		p.done += now.Sub(p.last).Hours() * float64(nodes) * math.Pow(0.9, math.Log2(float64(nodes))) / 40
	}
	p.last = now
	return map[types.NamespacedName]world.Sample{
		{Namespace: "default", Name: "a"}: {Value: math.Floor(100*p.done) / 100, Time: now},
	}, nil
}

// sizing is an allocator that gives the job the sizes of its list in turn, each for some
// decisions, and notes the efficiencies that it is told.
type sizing struct {
	controller.Allocator
	decisions int
	told      []float64
}

func (s *sizing) Allocate(_ context.Context, r *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	job := r.GetSnapshot().GetJobs()[0]
	nodes := []int32{2, 8, 4}[s.decisions/100%3]
	s.decisions++
	s.told = append(s.told, job.GetScaling().GetDoublingEfficiency())
	return &elastallocv1.AllocateResponse{
		SnapshotId: r.GetSnapshot().GetId(), Allocations: []*elastallocv1.Allocation{{JobId: job.GetId(), Nodes: nodes}},
	}, nil
}

func (s *sizing) Explain(context.Context, *elastallocv1.ExplainRequest) (*elastallocv1.ExplainResponse, error) {
	return &elastallocv1.ExplainResponse{}, nil
}

// TestSpeedsAreLearnt from progress in whole percents, which mostly stands still between two
// reports. What is learnt is no event that takes a decision of its own.
func TestSpeedsAreLearnt(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, worldtest.Job("a", 2, map[string]string{"work": "40h", "nodes": "2,4,8"}))
	s := &sizing{Allocator: c.allocator}
	c.allocator, c.querier = s, &percent{t: t, c: c}
	c.pool.RemainingQuery, c.pool.RemainingIn, c.pool.LearnSpeeds = "progress", config.Ratio, true
	c.pool.Cadence, c.pool.Debounce, c.pool.MinInterval, c.step = time.Minute, time.Second, 0, time.Minute
	c.start()
	began := c.now
	for c.now.Sub(began) < 8*time.Hour {
		c.passes(1)
	}
	cadences := c.count("moments_total", "cadence")
	if others := c.moments("decided") - cadences; others > 1 {
		t.Errorf("%v decisions beside %v cadences; want that of the start only", others, cadences)
	}
	if first, last := s.told[0], s.told[len(s.told)-1]; first != 0 || math.Abs(last-0.9) > 0.05 {
		t.Errorf("the allocator was told an efficiency of %v at first and %v at last; want none and 0.9", first, last)
	}
}
