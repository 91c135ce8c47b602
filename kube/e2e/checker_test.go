//go:build linux

package e2e

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
)

// TestCheckEvents checks what checkEvents reports after the eviction of a pod from a lost node. The job of the pod then
// needs the only usable node, and another job grows. The controller may have decided before it observed the eviction, but
// not once maxLag has passed, and not if the pod has a replacement.
func TestCheckEvents(t *testing.T) {
	for name, test := range map[string]struct {
		lag         time.Duration // between the eviction and the growth
		replacement bool
		wrong       bool
	}{
		"not observed":     {lag: time.Second},
		"long ago":         {lag: maxLag + time.Second, wrong: true},
		"with replacement": {lag: time.Second, replacement: true, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recording{now: time.Now()}
			r.add(0, "Node", "kept", nodeOf(true))
			r.add(0, "Node", "lost", nodeOf(true))
			r.add(0, "Job", "idle", jobOfSize(0))
			r.add(0, "Job", "growing", jobOfSize(0))
			r.add(0, "Job", "running", jobOfSize(1))
			r.add(0, "Pod", "running-0-old", podOf("running", "old", "lost", false))
			r.add(time.Second, "Node", "lost", nodeOf(false))
			r.add(time.Minute, "Job", "idle", jobOfSize(0))
			r.add(0, "Pod", "running-0-old", podOf("running", "old", "lost", true))
			if test.replacement {
				r.add(0, "Pod", "running-0-old", nil)
				r.add(0, "Pod", "running-0-new", podOf("running", "new", "", false))
			}
			r.add(test.lag, "Job", "growing", jobOfSize(1))
			sum, err := checkEvents(r.events, false)
			if (err != nil) != test.wrong || sum.grows != 2 {
				t.Errorf("%d jobs grew, and the error is %v", sum.grows, err)
			}
			if err == nil {
				return
			}
			// The message has the last events of the jobs that request nodes.
			lines := strings.Split(err.Error(), "\n")
			if !strings.HasSuffix(lines[1], " 0s Job growing: size 1, 0 pods have succeeded") || strings.Contains(err.Error(), "idle") ||
				strings.Contains(err.Error(), "lost: usable") || test.replacement != strings.Contains(err.Error(), `Pod running-0-old: deleted`) {
				t.Errorf("the message is %q", lines)
			}
		})
	}
}

// TestMostUsable checks that a controller may have decided by the number of nodes of up to maxLag ago.
func TestMostUsable(t *testing.T) {
	now := time.Now()
	counts := []usableCount{{now.Add(-time.Hour), 9}, {now.Add(-maxLag - time.Second), 7}, {now.Add(-time.Second), 5}, {now, 6}}
	if most := mostUsable(counts, now); most != 7 {
		t.Errorf("%d nodes were usable; want 7", most)
	}
}

// TestUsableNode checks that a node that is ready again is usable although it still has the NoExecute taint of a lost node:
// the scheduler binds pods to it. It is not usable while it has the NoSchedule taint.
func TestUsableNode(t *testing.T) {
	for effect, want := range map[corev1.TaintEffect]bool{
		corev1.TaintEffectNoExecute: true, corev1.TaintEffectPreferNoSchedule: true, corev1.TaintEffectNoSchedule: false,
	} {
		node := nodeOf(true)
		node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: effect}}
		if got := cluster.Usable(node); got != want {
			t.Errorf("a ready node with the taint %v is usable: %v; want %v", effect, got, want)
		}
	}
}

// recording is a history of events at given times.
type recording struct {
	now    time.Time
	events []event
}

// add adds an event, a duration after the event before. A nil object is a deletion.
func (r *recording) add(after time.Duration, kind, name string, object runtime.Object) {
	r.now = r.now.Add(after)
	r.events = append(r.events, event{revision: int64(len(r.events)), at: r.now, kind: kind, name: name, object: object})
}

func nodeOf(ready bool) *corev1.Node {
	status := corev1.ConditionUnknown
	if ready {
		status = corev1.ConditionTrue
	}
	return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}}}
}

// jobOfSize returns a Job; with size 0 it is suspended.
func jobOfSize(size int32) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{poolLabel: "storm"}},
		Spec:       batchv1.JobSpec{Parallelism: &size, Suspend: new(size == 0)},
	}
}

// podOf returns a running pod of a job on a node.
func podOf(job string, uid types.UID, node string, deleted bool) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: uid, Labels: map[string]string{"batch.kubernetes.io/job-name": job}},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if deleted {
		pod.DeletionTimestamp = new(metav1.Now())
	}
	return pod
}
