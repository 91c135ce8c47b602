package controller_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
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
			var found []time.Time
			c.step = 20 * time.Second
			for began, last := c.now, c.now; c.now.Sub(began) < 10*time.Hour; last = c.now {
				c.passes(1)
				given += c.now.Sub(last)
				if int(c.count("unused_total", "")) > len(found) {
					found = append(found, c.now)
				}
				if n, _ := c.job("limited"); n > test.quota {
					had += c.now.Sub(last)
				}
				if test.quota == 0 {
					for _, j := range c.loop.Report().State.Jobs {
						if j.Pinned == world.PastItsEnd {
							t.Fatalf("%s: %s", j.ID, j.Message)
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
			posted := c.events()
			if !strings.Contains(posted, "Warning Unused ") || !strings.Contains(posted, "exceeded quota: team") {
				t.Errorf("events are %s", posted)
			}
			// It is tried again after 10, 20 and 40 minutes, and then each hour, plus a few minutes until its pods are missed.
			const late = 5 * time.Minute
			if len(found) < 2 || c.now.Sub(found[len(found)-1]) > time.Hour+late {
				t.Errorf("it was found at %v, and now is %v; want it to be tried again", found, c.now)
			}
			for i := 1; i < len(found); i++ {
				gap, least := found[i].Sub(found[i-1]), min(time.Hour, 10*time.Minute<<(i-1))
				if gap < least || gap > min(time.Hour, 2*least)+late {
					t.Errorf("attempt %d follows the one before by %v; want at least %v", i, gap, least)
				}
			}
			// It gets its nodes once its pods may run and the other job may be changed again.
			c.quota = nil
			c.start()
			c.passUntil(c.pool.MinInterval + time.Minute)
			c.want(map[string]int{"limited": 4})
		})
	}
}

// TestNodesTakenAndGivenBack checks that a job whose pods had no node for long does not count as a job that leaves
// nodes unused, even if its pods start late once the nodes are back.
func TestNodesTakenAndGivenBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, half()...)
	c.scales = true
	c.passes(4)
	pods := c.listPods()
	var drained []string
	for _, job := range []string{"a", "b"} {
		drained = append(drained, c.nodesOf(job)[:2]...)
	}
	for _, node := range drained {
		c.changeNode(node, cordon)
	}
	for i := range pods {
		if slices.Contains(drained, pods[i].Spec.NodeName) {
			if err := c.client.Delete(t.Context(), &pods[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.passUntil(5 * time.Minute) // An outage for three cadences: nothing is resized.
	c.want(map[string]int{"a": 4, "b": 4})
	for _, node := range drained {
		c.changeNode(node, heal)
	}
	c.quota = map[string]int{"a": 2, "b": 2} // Their controller is slow.
	c.passUntil(30 * time.Second)
	c.quota = nil
	c.passUntil(5 * time.Minute)
	c.want(map[string]int{"a": 4, "b": 4})
	if posted := c.events(); strings.Contains(posted, "Unused") || strings.Contains(posted, "Scaled") {
		t.Errorf("events are %s", posted)
	}
}

// TestPinnedWithoutPods checks that other jobs get the nodes that a pinned job requests and does not use, because
// its pods are not created.
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

// TestPodsThatCannotRun checks that the nodes of pods whose image cannot be pulled go to other jobs after a while,
// and that the nodes of pods that are still being prepared do not.
func TestPodsThatCannotRun(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]int{"ImagePullBackOff": 0, "PodInitializing": 4} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 8, worldtest.Job("waits", 0, map[string]string{"work": "1h", "nodes": "4"}),
				worldtest.Job("other", 0, map[string]string{"work": "1000h", "nodes": "4,8"}))
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

// TestCrashLoop checks that pods whose containers crash repeatedly count as doing no work, although they run between
// crashes. After a while their nodes go to other jobs, and the event names the container and its last exit code.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, worldtest.Job("crashes", 0, map[string]string{"work": "1h", "nodes": "4"}),
		worldtest.Job("other", 0, map[string]string{"work": "1000h", "nodes": "4,8"}))
	c.step = 10 * time.Second
	began := c.now
	crash := func() {
		for _, pod := range c.listPods() {
			if pod.Labels["batch.kubernetes.io/job-name"] != "crashes" {
				continue
			}
			status := corev1.ContainerStatus{
				Name: "train", RestartCount: int32(1 + c.now.Sub(began)/time.Minute),
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}},
			}
			if c.now.Sub(began)/(30*time.Second)%2 == 0 {
				status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.Time{Time: c.now}}
			} else {
				status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
			}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
			if err := c.client.Status().Update(t.Context(), &pod); err != nil {
				t.Fatal(err)
			}
		}
	}
	for c.now.Sub(began) < 9*time.Minute {
		c.passes(1)
		crash()
	}
	c.want(map[string]int{"crashes": 4, "other": 4})
	for c.now.Sub(began) < 20*time.Minute {
		c.passes(1)
		crash()
	}
	c.want(map[string]int{"crashes": 0, "other": 8})
	if posted := c.events(); !strings.Contains(posted, "Warning Unused") ||
		!strings.Contains(posted, "container train of pod crashes-") || !strings.Contains(posted, "last exit code 137 (OOMKilled)") {
		t.Errorf("events are %s", posted)
	}
	for _, j := range c.loop.Report().State.Jobs {
		if j.ID == "Job/default/crashes" && j.WorkDone() > 20*time.Minute {
			t.Errorf("its work done is estimated as %v", j.WorkDone())
		}
	}
}

// TestSucceededPods checks that a job of which some pods have succeeded gets no new pods, and that the nodes of the
// succeeded pods go to other jobs.
func TestSucceededPods(t *testing.T) {
	t.Parallel()
	for _, inStatus := range []bool{false, true} {
		c := newCluster(t, 8, worldtest.Job("ends", 4, map[string]string{"work": "1000h", "nodes": "1-8"}),
			worldtest.Job("other", 4, map[string]string{"work": "1000h", "nodes": "4"}))
		c.passes(4)
		c.end("other")
		c.submit("waits", map[string]string{"work": "1000h", "nodes": "7"})
		succeeded := 0
		for _, pod := range c.listPods() {
			if pod.Labels["batch.kubernetes.io/job-name"] == "ends" && succeeded < 3 {
				succeeded++
				pod.Status.Phase = corev1.PodSucceeded
				if err := c.client.Status().Update(t.Context(), &pod); err != nil {
					t.Fatal(err)
				}
				if inStatus { // And their pods are gone.
					c.succeeded["ends"]++
					if err := c.client.Delete(t.Context(), &pod); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if inStatus {
			var job batchv1.Job
			if err := c.client.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "ends"}, &job); err != nil {
				t.Fatal(err)
			}
			job.Status.CompletedIndexes = "0,2-3"
			if err := c.client.Status().Update(t.Context(), &job); err != nil {
				t.Fatal(err)
			}
		}
		c.step = 20 * time.Second
		c.passUntil(30 * time.Minute)
		c.want(map[string]int{"ends": 4, "waits": 7})
		if posted := c.events(); !strings.Contains(posted, "Warning Completing keeps its 4 nodes: 3 of its 4 pods have succeeded") {
			t.Errorf("events are %s", posted)
		}
	}
}
