package controller_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/world"
)

// stagedSet is a cluster with the elastic JobSet "set", whose workers start after the pod of its driver, and a Job
// "other", which can use all nodes.
type stagedSet struct {
	*cluster
	// created reports whether the JobSet controller creates the worker with an index now.
	created func(index int) bool
	// suspensions counts how often the JobSet was suspended after its start, and running is the number of workers.
	started              bool
	suspensions, running int
}

// newStagedSet returns a cluster of 8 nodes with legal sizes of both jobs. The JobSet is submitted with 4 workers.
func newStagedSet(t *testing.T, sizes, other string) *stagedSet {
	t.Helper()
	s := &stagedSet{cluster: newCluster(t, 8), created: func(int) bool { return true }}
	s.kinds, s.step, s.scales = kinds.Named([]string{"Job", "JobSet"}), 20*time.Second, true
	var set unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(`
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: set, namespace: default, uid: uid-set, labels: {elastalloc.dev/pool: training}}
spec:
  suspend: true
  replicatedJobs:
  - {name: driver, template: {spec: {template: {spec: {containers: [{name: a}]}}}}}
  - name: node
    dependsOn: [{name: driver, status: Complete}]
    template:
      spec: {completionMode: Indexed, parallelism: 4, completions: 4,
        template: {spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: "8"}}}]}}}
`), &set.Object); err != nil {
		t.Fatal(err)
	}
	set.SetCreationTimestamp(metav1.Time{Time: s.now})
	set.SetAnnotations(map[string]string{world.WorkAnnotation: "500h", world.NodesAnnotation: sizes, world.RestartAnnotation: "1m"})
	if err := s.client.Create(t.Context(), &set); err != nil {
		t.Fatal(err)
	}
	s.submit("other", map[string]string{"work": "1000h", "nodes": other, "restart": "1m"})
	s.follow = s.reconcile
	s.start()
	return s
}

// set returns the JobSet.
func (s *stagedSet) set() *unstructured.Unstructured {
	s.t.Helper()
	var set unstructured.Unstructured
	set.SetGroupVersionKind(kinds.Named([]string{"JobSet"})[0].GVK)
	if err := s.client.Get(s.t.Context(), types.NamespacedName{Namespace: "default", Name: "set"}, &set); err != nil {
		s.t.Fatal(err)
	}
	return &set
}

// reconcile simulates the JobSet controller and the scheduler.
func (s *stagedSet) reconcile() {
	s.t.Helper()
	s.kubelet()
	shape, err := kinds.Named([]string{"JobSet"})[0].Read(s.set(), nil, worldtest.Unit)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.started && shape.Suspended {
		s.suspensions++
	}
	s.started = !shape.Suspended
	pods := make(map[string]*corev1.Pod)
	for _, pod := range s.listPods() {
		if pod.Labels["jobset.sigs.k8s.io/jobset-name"] != "" {
			pods[pod.Name] = &pod
		}
	}
	idle := s.idleNodes()
	s.running = 0
	for index := -1; index < 8; index++ {
		name, replicated, node := fmt.Sprint("set-", index), "node", ""
		wanted := !shape.Suspended && index < shape.Size && (index < 0 || s.created(index))
		pod := pods[name]
		if index < 0 {
			replicated, node = "driver", "processors"
		} else if len(idle) > 0 && pod == nil && wanted {
			node, idle = idle[0], idle[1:]
		}
		switch {
		case wanted && pod == nil:
			pod = worldtest.Pod(name, node, map[string]string{
				"jobset.sigs.k8s.io/jobset-name": "set", "jobset.sigs.k8s.io/replicatedjob-name": replicated,
				"batch.kubernetes.io/job-completion-index": strconv.Itoa(max(0, index)),
			})
			if index < 0 {
				pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
			}
			if err := s.client.Create(s.t.Context(), pod); err != nil {
				s.t.Fatal(err)
			}
		case pod != nil && wanted == (pod.Status.Phase == corev1.PodFailed): // A failed pod is created again.
			if err := s.client.Delete(s.t.Context(), pod); err != nil {
				s.t.Fatal(err)
			}
		}
		if wanted && index >= 0 && pod.Status.Phase == corev1.PodRunning {
			s.running++
		}
	}
}

// complete reports in the status of the JobSet that its driver is complete.
func (s *stagedSet) complete() {
	s.t.Helper()
	set := s.set()
	_ = unstructured.SetNestedSlice(set.Object,
		[]any{map[string]any{"name": "driver", "succeeded": int64(1)}}, "status", "replicatedJobsStatus")
	if err := s.client.Update(s.t.Context(), set); err != nil {
		s.t.Fatal(err)
	}
}

// TestPodsThatStartLater checks that a JobSet is not suspended while its workers wait for its driver, that another job
// uses their nodes meanwhile, also after a restart of the controller, and that the workers get nodes once they exist.
func TestPodsThatStartLater(t *testing.T) {
	t.Parallel()
	for _, sizes := range []string{"4", "2,4"} {
		t.Run(sizes, func(t *testing.T) {
			t.Parallel()
			s := newStagedSet(t, sizes, "4,8")
			began := s.now
			s.created = func(int) bool { return s.now.Sub(began) >= 40*time.Minute }
			s.passUntil(15 * time.Minute)
			s.want(map[string]int{"other": 8})
			s.start()
			writes := s.writes.Load()
			s.passUntil(15 * time.Minute)
			s.want(map[string]int{"other": 8})
			if n := s.writes.Load() - writes; n > 2 { // The new controller writes the records of a first decision.
				t.Errorf("%d writes after a restart", n)
			}
			s.passUntil(10 * time.Minute)
			s.complete()
			s.passUntil(15 * time.Minute)
			if s.suspensions > 0 || s.running < 2 {
				t.Errorf("the JobSet was suspended %d times, and %d of its workers run\n%s", s.suspensions, s.running, s.events())
			}
			posted := s.events()
			if !strings.Contains(posted,
				`Warning Lending keeps its 4 nodes: its other pods do not exist yet, and other jobs `+
					`may use their nodes: replicated job "node" waits until "driver" is complete`) {
				t.Errorf("events are %s", posted)
			}
		})
	}
}

// TestMissingIndex checks that a job of which a pod with a low index does not exist keeps its other pods, and lends
// the node. If a pod with a high index does not exist, the job is resized.
func TestMissingIndex(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sizes          string
		missing, size  int
		running, other int
	}{{"1,2,4", 0, 4, 3, 5}, {"1,2,4", 2, 4, 3, 5}, {"1,2,3,4", 3, 3, 3, 5}, {"4", 3, 4, 3, 5}} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			t.Parallel()
			s := newStagedSet(t, test.sizes, "4,5")
			s.complete()
			s.passUntil(10 * time.Minute)
			s.created = func(index int) bool { return index != test.missing }
			s.passUntil(3 * time.Hour)
			shape, _ := kinds.Named([]string{"JobSet"})[0].Read(s.set(), nil, worldtest.Unit)
			if shape.Size != test.size || s.running != test.running || s.suspensions > 0 {
				t.Errorf("the JobSet has %d nodes and %d workers, and was suspended %d times; want %d, %d and none",
					shape.Size, s.running, s.suspensions, test.size, test.running)
			}
			s.want(map[string]int{"other": test.other})
		})
	}
}

// TestPodBackOff checks that a job whose pods all failed keeps its size while its controller delays the new pods, that
// another job uses the nodes meanwhile, and that the new pods get nodes.
func TestPodBackOff(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{80 * time.Second, 10 * time.Minute} {
		t.Run(delay.String(), func(t *testing.T) {
			t.Parallel()
			s := newStagedSet(t, "4", "4,8")
			s.complete()
			s.passUntil(30 * time.Minute)
			s.want(map[string]int{"other": 4})
			failed := s.now
			s.created = func(int) bool { return s.now.Sub(failed) >= delay }
			for _, pod := range s.listPods() {
				if pod.Labels["jobset.sigs.k8s.io/replicatedjob-name"] == "node" {
					pod.Spec.NodeName = "processors" // The other stand-ins expect no failed pods on nodes of the pool.
					if err := s.client.Update(t.Context(), &pod); err != nil {
						t.Fatal(err)
					}
					pod.Status.Phase = corev1.PodFailed
					pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, LastTransitionTime: metav1.Time{Time: failed}}}
					if err := s.client.Status().Update(t.Context(), &pod); err != nil {
						t.Fatal(err)
					}
				}
			}
			s.passUntil(delay - 20*time.Second)
			if lent := delay > 2*time.Minute; lent {
				s.want(map[string]int{"other": 8})
			}
			s.passUntil(25 * time.Minute)
			s.want(map[string]int{"other": 4})
			if s.suspensions > 0 || s.running != 4 {
				t.Errorf("the JobSet was suspended %d times, and %d of its workers run\n%s", s.suspensions, s.running, s.events())
			}
		})
	}
}
