package controller_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/controller"
	"github.com/elastalloc/elastalloc/kube/internal/worldtest"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/world"
)

// woken are the pools that are to be looked at.
type woken struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	pools []string
}

func (w *woken) AddAfter(r reconcile.Request, _ time.Duration) { w.pools = append(w.pools, r.Name) }

// TestWhichPoolsAreWoken: a job wakes the pool that it names; a node or a pod wakes all,
// whatever its labels say.
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

// TestUnknownPool: a job whose pool no controller has is told so once, a while after it came.
func TestUnknownPool(t *testing.T) {
	t.Parallel()
	elsewhere := func(name string, annotations map[string]string) *unstructured.Unstructured {
		job := worldtest.Job(name, 1, annotations)
		job.SetLabels(map[string]string{world.PoolLabel: "a100"})
		return job
	}
	c := newCluster(t, 16, append(busy(), elsewhere("misspelt", nil), elsewhere("decided", map[string]string{"decision": "{}"}))...)
	c.now = worldtest.Begin().Add(time.Minute)
	recorder, told := events.NewFakeRecorder(10), make(map[types.UID]string)
	o := controller.Options{Kinds: kinds.Named([]string{"Job"}), Client: c.client, Recorder: recorder, Now: func() time.Time { return c.now }}
	for _, want := range []string{"", `Warning UnknownPool no controller has decided on it: this one has no pool "a100"; want one of training`, ""} {
		controller.TellUnknown(t.Context(), []config.Pool{c.pool}, o, told)
		got := ""
		if len(recorder.Events) > 0 {
			got = <-recorder.Events
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" || len(recorder.Events) > 0 {
			t.Errorf("told %q; want %q", got, want)
		}
		c.now = worldtest.Begin().Add(10 * time.Minute)
	}
}
