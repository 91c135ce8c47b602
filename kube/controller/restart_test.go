package controller_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/world"
)

// TestCrash ends the controller after every number of writes; the end is the same.
func TestCrash(t *testing.T) {
	t.Parallel()
	for crash := range int64(5) {
		t.Run(fmt.Sprint(crash), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 8, busy()...)
			dead := errors.New("the process is dead")
			c.onPatch = func(string, string) error {
				if c.writes.Load() >= crash {
					return dead
				}
				return nil
			}
			c.passes(4)
			c.onPatch = nil
			c.start()
			c.passes(12)
			c.want(map[string]int{"long": 4, "short": 4})
		})
	}
}

// TestForgedRecordAtStart: what a user writes into the record of his job keeps a new controller
// from no decision, and a job from changing for no longer than a cooldown.
func TestForgedRecordAtStart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, append(busy(), worldtest.Job("forged", 0, map[string]string{"work": "1000h", "nodes": "2"}))...)
	forge := func(r world.Record) {
		var job batchv1.Job
		if err := c.client.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "forged"}, &job); err != nil {
			t.Fatal(err)
		}
		r.UID, r.Since = job.UID, c.now
		job.Annotations[world.TargetAnnotation], job.Annotations[world.DecisionAnnotation] = "2", r.String()
		job.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(10 * 365 * 24 * 60 * 60))
		if err := c.client.Update(t.Context(), &job); err != nil {
			t.Fatal(err)
		}
		c.start()
		for began := c.now; c.now.Sub(began) < 7*time.Minute; {
			c.passes(1)
		}
	}
	forge(world.Record{ID: "z", At: c.now.Add(-time.Second), Mode: "apply", Jobs: 1})
	if n := c.decisions("decided"); n == 0 {
		t.Error("nothing is decided within a cadence")
	}
	c.end("long")
	c.kubelet()
	ahead := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	forge(world.Record{Changed: &ahead})
	c.want(map[string]int{"forged": 2})
}

// TestClockSetBack checks that decisions go on after the clock was set back, and that a new job gets nodes of other
// jobs after their usual cooldown.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	for _, back := range []time.Duration{2 * time.Hour, 48 * time.Hour} {
		for _, restarted := range []bool{false, true} {
			c := newCluster(t, 8, worldtest.Job("long", 8, map[string]string{"work": "10000h", "nodes": "2,4,8"}), busy()[1])
			c.passes(8)
			c.want(map[string]int{"long": 4, "short": 4})
			c.now, c.step = c.now.Add(-back), 30*time.Second
			if restarted {
				c.start()
			}
			decided := c.decisions("decided")
			for began := c.now; c.now.Sub(began) < 4*c.pool.Cadence; {
				c.passes(1)
			}
			if n := c.decisions("decided") - decided; n < 3 {
				t.Errorf("the clock went back by %v, restarted: %t: %v decisions in four cadences", back, restarted, n)
			}
			job := worldtest.Job("new", 0, map[string]string{"work": "20m", "nodes": "2"})
			job.SetResourceVersion("")
			if err := c.client.Create(t.Context(), job); err != nil {
				t.Fatal(err)
			}
			for began := c.now; c.now.Sub(began) < 20*time.Minute; {
				c.passes(1)
			}
			if n, _ := c.job("new"); n != 2 {
				t.Errorf("the clock went back by %v, restarted: %t: a new job has %d nodes 20 minutes later", back, restarted, n)
			}
		}
	}
}
