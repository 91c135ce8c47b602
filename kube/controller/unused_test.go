package controller_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elastalloc/elastalloc/kube/internal/worldtest"
	"github.com/elastalloc/elastalloc/kube/world"
)

// TestUnused: what a job is given and does not use, because a quota keeps its pods from being
// made, goes to other jobs, and the job is tried with more ever more rarely. The time without pods
// is no work.
func TestUnused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ quota, limited, other int }{
		"some pods": {2, 2, 4}, "no pods": {0, 0, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 8,
				worldtest.Job("limited", 0, map[string]string{"work": "1h", "nodes": "1,2,4"}),
				worldtest.Job("other", 0, map[string]string{"work": "1000h", "nodes": "1-8"}),
			)
			c.quota = map[string]int{"limited": test.quota}
			event := &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Name: "told", Namespace: "default"}, InvolvedObject: corev1.ObjectReference{Name: "limited"},
				Reason: "FailedCreate", Message: "exceeded quota: team",
			}
			if err := c.client.Create(t.Context(), event); err != nil {
				t.Fatal(err)
			}
			// Hardly any of the time has it as many nodes as it does not use.
			var given, had time.Duration
			c.step = 20 * time.Second
			for began, last := c.now, c.now; c.now.Sub(began) < 10*time.Hour; last = c.now {
				c.passes(1)
				given += c.now.Sub(last)
				if n, _ := c.job("limited"); n > test.quota {
					had += c.now.Sub(last)
				}
				if test.quota == 0 {
					for _, j := range c.loop.Report().World.Jobs {
						if j.Pinned == world.PastItsEnd {
							t.Fatalf("%s: %s", j.ID, j.Why)
						}
					}
				}
				if test.quota > 0 && c.now.Sub(began) > 25*time.Minute {
					break // It trains, and will end.
				}
			}
			c.want(map[string]int{"limited": test.limited, "other": test.other})
			if had > given/8 {
				t.Errorf("for %v of %v it had more nodes than it used", had, given)
			}
			told := c.told()
			if !strings.Contains(told, "Warning Unused ") || !strings.Contains(told, "exceeded quota: team") {
				t.Errorf("events are %s", told)
			}
			if n := c.count("unused_total", ""); n < 1 || n > 12 {
				t.Errorf("it was found %v times; want it to be tried ever more rarely", n)
			}
			// It gets its nodes once its pods may run.
			c.quota = nil
			c.start()
			c.passes(12)
			c.want(map[string]int{"limited": 4})
		})
	}
}

// TestPinnedWithoutPods: nodes that a job asks for which is left alone, and whose pods do not
// come, are there for others.
func TestPinnedWithoutPods(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8)
	for _, job := range []struct {
		name, wish, value string
		nodes             int
	}{{"empty", "paused", "true", 6}, {"other", "work", "1000h", 0}} {
		object := worldtest.Job(job.name, job.nodes, map[string]string{job.wish: job.value})
		object.SetResourceVersion("")
		if err := c.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	c.quota = map[string]int{"empty": 0}
	for began := c.now; c.now.Sub(began) < 20*time.Minute; {
		c.passes(1)
	}
	c.want(map[string]int{"empty": 6, "other": 8})
}

// TestPodsThatCannotRun: nodes of pods whose image is not to be had go to others, in time; those of
// pods that are still being prepared do not.
func TestPodsThatCannotRun(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]int{"ImagePullBackOff": 0, "PodInitializing": 4} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 8, worldtest.Job("waits", 0, map[string]string{"work": "1h", "nodes": "4"}), worldtest.Job("other", 0, map[string]string{"work": "1000h", "nodes": "4,8"}))
			c.waits, c.step = map[string]string{"waits": reason}, 10*time.Second
			for began := c.now; c.now.Sub(began) < 9*time.Minute; {
				c.passes(1)
			}
			c.want(map[string]int{"waits": 4, "other": 4})
			for began := c.now; c.now.Sub(began) < 6*time.Minute; {
				c.passes(1)
			}
			c.want(map[string]int{"waits": want, "other": 8 - want})
		})
	}
}
