package controller_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/kinds"
)

// TestMidway changes jobs while a decision is applied: the long job has been shrunk, its pods are terminating, and
// the short job waits for their nodes. A job that left the pool is not written again. A new job with the name and
// the annotations of a deleted one starts without its history. The other jobs go on, and every pod has a node.
func TestMidway(t *testing.T) {
	t.Parallel()
	label := func(pool string) func(c *cluster, name string) {
		return func(c *cluster, name string) {
			body := `{"metadata":{"labels":{"elastalloc.dev/pool":` + pool + `}}}`
			if err := c.client.Patch(t.Context(), worldtest.Job(name, 1, nil), client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
				t.Fatal(err)
			}
		}
	}
	again := func(c *cluster, name string) {
		var job unstructured.Unstructured
		job.SetGroupVersionKind(kinds.Named([]string{"Job"})[0].GVK)
		if err := c.client.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: name}, &job); err != nil {
			t.Fatal(err)
		}
		if err := c.client.Delete(t.Context(), &job); err != nil {
			t.Fatal(err)
		}
		job.SetResourceVersion("")
		job.SetUID("another")
		if err := unstructured.SetNestedField(job.Object, true, "spec", "suspend"); err != nil {
			t.Fatal(err)
		}
		if err := c.client.Create(t.Context(), &job); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		change      func(c *cluster, name string)
		victim      string
		long, short int
		left        bool
	}{
		"the long one leaves":         {label("null"), "long", 4, 4, true},
		"the short one leaves":        {label("null"), "short", 8, 0, true},
		"the long one changes pools":  {label(`"other"`), "long", 4, 4, true},
		"the short one changes pools": {label(`"other"`), "short", 8, 0, true},
		"the long job is replaced":    {again, "long", 4, 4, false},
		"the short job is replaced":   {again, "short", 4, 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 8, busy()...)
			c.linger, c.pool.MinInterval = true, 0
			c.start()
			c.passes(4)
			c.want(map[string]int{"long": 4, "short": 0})
			test.change(c, test.victim)
			c.onPatch = func(patch, name string) error {
				if test.left && name == test.victim {
					t.Errorf("%s of %s, which left the pool", patch, name)
				}
				return nil
			}
			c.passes(4)
			c.linger = false
			c.kubelet()
			c.passes(60)
			c.want(map[string]int{"long": test.long, "short": test.short})
			if posted := c.events(); strings.Contains(posted, "Stuck") {
				t.Errorf("events are %s", posted)
			}
		})
	}
}
