package controller_test

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
)

// TestGrowsIntoIdleNodes: a job with weeks to go takes idle nodes, whatever a restart costs.
func TestGrowsIntoIdleNodes(t *testing.T) {
	t.Parallel()
	for _, restart := range []string{"4m", "5m", "10m", "20m"} {
		c := newCluster(t, 8,
			worldtest.Job("a", 2, map[string]string{"work": "1000h", "nodes": "1-4", "restart": restart}),
			worldtest.Job("b", 4, map[string]string{"work": "1000h", "nodes": "1-4", "restart": restart}),
		)
		c.step = time.Minute
		c.passUntil(time.Hour)
		c.want(map[string]int{"a": 4, "b": 4})
	}
}

// training is a job that makes progress while its pods run.
type training struct {
	nodes int
	since time.Time // when it got its nodes
	ever  bool      // it has trained before
	left  time.Duration
}

// advance lets time pass for the job, which has the given pods, and reports whether it is complete.
func (j *training) advance(now time.Time, passed time.Duration, pods int, restart time.Duration) bool {
	if pods != j.nodes {
		j.ever = j.ever || j.nodes > 0 && j.left < time.Hour
		j.nodes, j.since = pods, now
	}
	if pods > 0 && (!j.ever || now.Sub(j.since) >= restart) {
		j.left -= time.Duration(float64(passed) * eta.Speed(pods, 0.8))
	}
	return j.left <= 0
}

// sweep is a cluster with identical jobs, some of which have not completed.
type sweep struct {
	*cluster
	restart time.Duration
	running map[string]*training
}

// newSweep returns a cluster with a number of jobs that take an hour on one node.
func newSweep(t *testing.T, nodes, n int, restart time.Duration) *sweep {
	t.Helper()
	var jobs []*unstructured.Unstructured
	running := make(map[string]*training)
	for i := range n {
		name := fmt.Sprintf("trial-%02d", i)
		running[name] = &training{left: time.Hour}
		jobs = append(jobs, worldtest.Job(name, 0, map[string]string{"work": "1h", "nodes": "1-4", "restart": restart.String()}))
	}
	s := &sweep{newCluster(t, nodes, jobs...), restart, running}
	s.step = time.Minute
	return s
}

// train has the jobs make progress since a time on the pods that they have now.
func (s *sweep) train(since time.Time) {
	s.t.Helper()
	pods := make(map[string]int)
	for _, pod := range s.listPods() {
		if pod.Status.Phase == corev1.PodRunning {
			pods[pod.Labels["batch.kubernetes.io/job-name"]]++
		}
	}
	for name, j := range s.running {
		if j.advance(s.now, s.now.Sub(since), pods[name], s.restart) {
			s.end(name)
			delete(s.running, name)
		}
	}
}

// TestSweep: identical jobs all complete, whose restarts take as long as the time between decisions,
// or longer, and none is resized over and over.
func TestSweep(t *testing.T) {
	t.Parallel()
	for _, restart := range []time.Duration{5 * time.Minute, 10 * time.Minute} {
		for _, nodes := range []int{1, 4} {
			t.Run(fmt.Sprintf("restart %v on %d nodes", restart, nodes), func(t *testing.T) {
				t.Parallel()
				const n = 20
				s := newSweep(t, nodes, n, restart)
				began := s.now
				for last := s.now; len(s.running) > 0; last = s.now {
					s.passes(1)
					s.train(last)
					// Alone, one after the other on all nodes, they would take 20 hours or less.
					if s.now.Sub(began) > 30*time.Hour {
						t.Fatalf("after %v %d of %d jobs have not completed", s.now.Sub(began), len(s.running), n)
					}
				}
				changes := s.count("changes_total", "")
				if changes > 6*n {
					t.Errorf("%v changes of %d jobs", changes, n)
				}
				t.Logf("%d jobs completed after %v with %v changes", n, s.now.Sub(began), changes)
			})
		}
	}
}

// TestPastItsEndStarts checks that a job that takes longer than declared is started again after it lost its nodes, and
// after its user suspended it.
func TestPastItsEndStarts(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"lost nodes", "its user"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 6,
				worldtest.Job("late", 2, map[string]string{"work": "100m", "nodes": "2"}),
				worldtest.Job("other", 4, map[string]string{"work": "1000h", "nodes": "4"}))
			c.scales, c.step = true, 20*time.Second
			c.passUntil(3 * time.Hour)
			c.want(map[string]int{"late": 2, "other": 4})
			nodes := c.nodesOf("late")
			if by == "its user" {
				var job batchv1.Job
				if err := c.client.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "late"}, &job); err != nil {
					t.Fatal(err)
				}
				job.Spec.Suspend = new(true)
				if err := c.client.Update(t.Context(), &job); err != nil {
					t.Fatal(err)
				}
			} else {
				for _, node := range nodes {
					c.ready(node, corev1.ConditionUnknown)
					c.evict(node)
				}
				c.passUntil(time.Hour)
				for _, node := range nodes {
					c.ready(node, corev1.ConditionTrue)
				}
			}
			c.passUntil(time.Hour)
			c.want(map[string]int{"late": 2, "other": 4})
			if n := len(c.nodesOf("late")); n != 2 {
				t.Errorf("it runs on %d nodes; want 2\n%s", n, c.events())
			}
		})
	}
}
