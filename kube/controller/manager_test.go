package controller_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/controller"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/world"
)

// woken are the pools that are to be looked at.
type woken struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	pools []string
}

func (w *woken) AddAfter(r reconcile.Request, _ time.Duration) { w.pools = append(w.pools, r.Name) }

// TestWhichPoolsAreWoken checks that a job wakes the pool in its label, and that a node or a pod wakes all pools,
// whatever its labels.
func TestWhichPoolsAreWoken(t *testing.T) {
	t.Parallel()
	labels := map[string]string{world.PoolLabel: "a100"}
	node, child, elsewhere := worldtest.Node("b"), worldtest.Job("child", 1, nil), worldtest.Job("elsewhere", 1, nil)
	node.SetLabels(labels)
	elsewhere.SetLabels(labels)
	child.SetLabels(nil)
	all := []string{"other", "training"}
	for name, test := range map[string]struct {
		object client.Object
		want   []string
	}{
		"a job":                     {worldtest.Job("job", 1, nil), []string{"training"}},
		"a job of other pools":      {elsewhere, nil},
		"a child of a job":          {child, all},
		"a node":                    {worldtest.Node("a"), all},
		"a node with a pool label":  {node, all},
		"a pod with a pool's label": {worldtest.Pod("pod", "b", labels), all},
	} {
		var queue woken
		controller.ToPools([]config.Pool{{Name: "training"}, {Name: "other"}}).Create(t.Context(), event.CreateEvent{Object: test.object}, &queue)
		if slices.Sort(queue.pools); !slices.Equal(queue.pools, test.want) {
			t.Errorf("%s wakes %q; want %q", name, queue.pools, test.want)
		}
	}
}

// TestUnknownPool posts one event on a job whose pool no controller has, a while after its submission.
func TestUnknownPool(t *testing.T) {
	t.Parallel()
	elsewhere := func(name string, annotations map[string]string) *unstructured.Unstructured {
		job := worldtest.Job(name, 1, annotations)
		job.SetLabels(map[string]string{world.PoolLabel: "a100"})
		return job
	}
	c := newCluster(t, 16, append(busy(), elsewhere("misspelt", nil), elsewhere("decided", map[string]string{"decision": "{}"}))...)
	c.now = worldtest.Begin().Add(time.Minute)
	recorder, posted := events.NewFakeRecorder(10), make(map[types.UID]string)
	o := controller.Options{Kinds: kinds.Named([]string{"Job"}), Client: c.client, Recorder: recorder, Now: func() time.Time { return c.now }}
	for _, want := range []string{
		"", `Warning UnknownPool no controller has decided on it: pool "a100" is unknown to this controller; must be one of training`, "",
	} {
		controller.PostUnknownPoolEvents(t.Context(), []config.Pool{c.pool}, o, posted)
		got := ""
		if len(recorder.Events) > 0 {
			got = <-recorder.Events
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" || len(recorder.Events) > 0 {
			t.Errorf("events are %q; want %q", got, want)
		}
		c.now = worldtest.Begin().Add(10 * time.Minute)
	}
}

// TestSlimObjects: what the caches drop of pods and nodes makes no difference.
func TestSlimObjects(t *testing.T) {
	t.Parallel()
	c := worldtest.New(4, worldtest.Job("a", 4, map[string]string{"work": "10h"}), worldtest.Job("waits", 2, map[string]string{"work": "10h"}))
	always := corev1.ContainerRestartPolicyAlways
	gpus := c.Pods[0].Spec.Containers[0].Resources
	for i, pod := range c.Pods {
		pod.Annotations, pod.Spec.ServiceAccountName = map[string]string{"x": "y"}, "default"
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "example.com/gpu", Operator: corev1.TolerationOpExists}}
		switch i {
		case 0:
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
			pod.Spec.InitContainers = []corev1.Container{{Name: "sidecar", RestartPolicy: &always, Resources: gpus}}
		case 1:
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "train", RestartCount: 5,
				State:                corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Time{Time: c.Now}}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}},
			}}
		case 2:
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{
				{Name: "data", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}},
			}
		case 4:
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no room"}}
		}
	}
	for _, node := range c.Nodes {
		node.Spec.Taints = []corev1.Taint{{Key: "example.com/gpu", Effect: corev1.TaintEffectNoSchedule}}
	}
	full := c.ClusterState()
	slim := func(object any, drop func(any) (any, error)) {
		if _, err := drop(object); err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range c.Pods {
		slim(pod, controller.SlimPod)
	}
	for _, node := range c.Nodes {
		slim(node, controller.SlimNode)
	}
	got := c.ClusterState()
	for i, j := range full.Jobs {
		if got.Jobs[i].Pods != j.Pods || j.Pods.Seen == 0 {
			t.Errorf("%s has pods %+v; want %+v", j.ID, got.Jobs[i].Pods, j.Pods)
		}
	}
	if got.Nodes != full.Nodes || full.Nodes.Accepting != 4 || full.Jobs[0].Pods.Broken != 2 {
		t.Errorf("nodes are %+v; want %+v of 4 that are accepting, and two broken pods", got.Nodes, full.Nodes)
	}
}
