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

// TestUnused checks that the nodes that a job does not use go to other jobs, if a quota prevents the creation of its
// pods, and that the job is tried with more nodes at increasing intervals. The time without pods counts as no work.
func TestUnused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		quota, limited, other int
		lasts                 time.Duration
	}{
		"some pods": {quota: 2, limited: 2, other: 4, lasts: 25 * time.Minute}, // It trains, and would complete.
		"no pods":   {quota: 0, limited: 0, other: 8, lasts: 10 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLimitedJob(t, test.quota)
			l.passUntil(test.lasts)
			l.want(map[string]int{"limited": test.limited, "other": test.other})
			if l.excess > test.lasts/8 {
				t.Errorf("for %v of %v it had more nodes than it used", l.excess, test.lasts)
			}
			posted := l.events()
			if !strings.Contains(posted, "Warning Unused ") || !strings.Contains(posted, "exceeded quota: team") {
				t.Errorf("events are %s", posted)
			}
			l.checkAttempts()
			// It gets its nodes once its pods may run and the other job may be resized again.
			l.quota = nil
			l.start()
			l.cluster.passUntil(l.pool.MinInterval + time.Minute)
			l.want(map[string]int{"limited": 4})
		})
	}
}

// limitedJob is a cluster with the job "limited", which may have fewer pods than it requests, and a job "other", which
// can use all nodes.
type limitedJob struct {
	*cluster
	excess time.Duration // time for which the job had more nodes than it used
	found  []time.Time   // times at which the job was found not to use its nodes
}

// newLimitedJob returns a cluster in which a quota limits the pods of the job. An event of its controller reports this.
func newLimitedJob(t *testing.T, quota int) *limitedJob {
	t.Helper()
	c := newCluster(t, 8,
		worldtest.Job("limited", 0, map[string]string{"work": "1h", "nodes": "1,2,4"}),
		worldtest.Job("other", 0, map[string]string{"work": "1000h", "nodes": "1-8"}),
	)
	c.quota, c.step = map[string]int{"limited": quota}, 20*time.Second
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "quota", Namespace: "default"}, InvolvedObject: corev1.ObjectReference{Name: "limited"},
		Reason: "FailedCreate", Message: "exceeded quota: team",
	}
	if err := c.client.Create(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	return &limitedJob{cluster: c}
}

// passUntil calls Reconcile until a time has passed, and records when the job has too many nodes. It checks that the job
// is not past its estimated end.
func (l *limitedJob) passUntil(d time.Duration) {
	l.t.Helper()
	for began := l.now; l.now.Sub(began) < d; {
		last := l.now
		l.passes(1)
		if int(l.count("unused_total", "")) > len(l.found) {
			l.found = append(l.found, l.now)
		}
		if n, _ := l.job("limited"); n > l.quota["limited"] {
			l.excess += l.now.Sub(last)
		}
		for _, j := range l.loop.Report().State.Jobs {
			if j.Pinned == world.PastItsEnd {
				l.t.Fatalf("%s: %s", j.ID, j.Message)
			}
		}
	}
}

// checkAttempts checks the intervals at which the job was tried with more nodes: 10, 20 and 40 minutes, and then an
// hour, plus a few minutes until its pods are missed.
func (l *limitedJob) checkAttempts() {
	l.t.Helper()
	const late = 5 * time.Minute
	if n := len(l.found); n < 2 || l.now.Sub(l.found[n-1]) > time.Hour+late {
		l.t.Errorf("it was found at %v, and now is %v; want it to be tried again", l.found, l.now)
	}
	for i := 1; i < len(l.found); i++ {
		gap, least := l.found[i].Sub(l.found[i-1]), min(time.Hour, 10*time.Minute<<(i-1))
		if gap < least || gap > min(time.Hour, 2*least)+late {
			l.t.Errorf("attempt %d follows the one before by %v; want at least %v", i, gap, least)
		}
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
