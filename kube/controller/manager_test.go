package controller_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/controller"
	"github.com/elastalloc/elastalloc/kube/internal/worldtest"
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
		var log strings.Builder
		controller.ToPools([]config.Pool{{Name: "training"}, {Name: "other"}}, controller.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}).Create(t.Context(), event.CreateEvent{Object: test.object}, &queue)
		if slices.Sort(queue.pools); !slices.Equal(queue.pools, test.want) {
			t.Errorf("%s wakes %q; want %q", name, queue.pools, test.want)
		}
		if told := strings.Contains(log.String(), "pool=a100"); told != (test.object == client.Object(elsewhere)) {
			t.Errorf("%s: the log tells of an unknown pool: %t", name, told)
		}
	}
}
