package controller_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
)

// newTypedCluster returns a cluster with a number of nodes of the types a100 and h100 each.
func newTypedCluster(t *testing.T, nodes int, jobs ...*unstructured.Unstructured) *cluster {
	t.Helper()
	c := newCluster(t, 0)
	c.pool = worldtest.TypedPool()
	for i := range 2 * nodes {
		node := worldtest.Node(fmt.Sprintf("node-%03d", i))
		node.Labels["gpu"] = []string{"a100", "h100"}[i%2]
		if err := c.client.Create(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	for _, job := range jobs {
		job.SetResourceVersion("")
		if err := c.client.Create(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	c.kubelet()
	c.start()
	return c
}

// on returns the node types of the pods of a job, "4 h100" for example.
func (c *cluster) on(job string) string {
	c.t.Helper()
	var pods corev1.PodList
	if err := c.client.List(c.t.Context(), &pods, client.MatchingLabels{"batch.kubernetes.io/job-name": job}); err != nil {
		c.t.Fatal(err)
	}
	counts := make(map[string]int)
	for i := range pods.Items {
		var node corev1.Node
		if err := c.client.Get(c.t.Context(), types.NamespacedName{Name: pods.Items[i].Spec.NodeName}, &node); err != nil {
			c.t.Fatal(err)
		}
		counts[node.Labels["gpu"]]++
	}
	var all []string
	for nodeType, n := range counts {
		all = append(all, fmt.Sprint(n, " ", nodeType))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// wantOn fails the test if the pods of jobs are on other node types.
func (c *cluster) wantOn(when string, want map[string]string) {
	c.t.Helper()
	for job, nodes := range want {
		if got := c.on(job); got != nodes {
			c.t.Errorf("%s: %s has %q; want %q\n%s", when, job, got, nodes, c.events())
		}
	}
}

// mayMove are the annotations of a job that runs twice as fast on h100 nodes.
func mayMove() map[string]string {
	return map[string]string{"work": "1000h", "nodes": "4", "speeds": "a100=3; h100=6", "restart": "1m"}
}

// TestMove checks that a running job moves to faster nodes: it is suspended, starts on the other type with another node
// selector, and stays there. A job without speeds whose pod template selects a type does not move.
func TestMove(t *testing.T) {
	t.Parallel()
	c := newTypedCluster(t, 5, worldtest.OnType(worldtest.Job("moves", 4, mayMove()), "a100"),
		worldtest.OnType(worldtest.Job("stays", 1, map[string]string{"work": "1000h", "nodes": "1"}), "a100"))
	c.step = time.Second
	c.passes(30)
	c.wantOn("after a decision", map[string]string{"moves": "4 h100", "stays": "1 a100"})
	events := c.events()
	for _, want := range []string{
		"Moving suspend, freeing 4 nodes of type a100, to move to type h100", "Started start with 4 nodes of type h100",
	} {
		if strings.Count(events, want) != 1 {
			t.Errorf("events are %s; want one %q", events, want)
		}
	}
	var job batchv1.Job
	if err := c.client.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "moves"}, &job); err != nil {
		t.Fatal(err)
	}
	if got := job.Annotations["elastalloc.dev/target-type"]; got != "h100" {
		t.Errorf("the target is on type %q; want h100", got)
	}
	if n := c.gauge("type_nodes", "h100"); n < 1 || n > 5 {
		t.Errorf("the gauge of h100 nodes is %v", n)
	}
	if n := c.count("changes_total", "move"); n != 1 {
		t.Errorf("%v jobs moved; want 1", n)
	}
	c.step = time.Minute
	c.passes(120)
	c.wantOn("two hours later", map[string]string{"moves": "4 h100", "stays": "1 a100"})
	if text := c.events(); strings.Contains(text, "Moving") {
		t.Errorf("the job moved twice: %s", text)
	}
}

// TestMoveOfStartedJob checks that the controller chooses the type of a job that selects none, and that the job can move
// later, because its user did not select the type.
func TestMoveOfStartedJob(t *testing.T) {
	t.Parallel()
	free := map[string]string{"work": "1000h", "nodes": "4", "restart": "1m"}
	c := newTypedCluster(t, 4,
		worldtest.OnType(worldtest.Job("short", 4, map[string]string{"work": "40h", "nodes": "4", "paused": "true"}), "h100"),
		worldtest.Job("free", 0, free))
	c.step = time.Second
	c.passes(30)
	c.wantOn("while the faster nodes are in use", map[string]string{"short": "4 h100", "free": "4 a100"})
	c.end("short")
	c.step = time.Minute
	c.passes(60)
	c.wantOn("once the faster nodes are free", map[string]string{"short": "", "free": "4 h100"})
}

// TestRefusedMove checks that a job starts on its type again if the API server refuses another node selector of a job that
// ran, as Kubernetes before 1.36 does. No job that ran moves after that, also not after a restart and one more attempt.
func TestRefusedMove(t *testing.T) {
	t.Parallel()
	c := newTypedCluster(t, 4, worldtest.OnType(worldtest.Job("moves", 4, mayMove()), "a100"))
	refused := 0
	c.onPatch = func(patchType, name string) error {
		var job batchv1.Job
		if err := c.client.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: name}, &job); err != nil {
			t.Fatal(err)
		}
		decision := job.Annotations["elastalloc.dev/target-type"]
		if patchType == string(types.JSONPatchType) && *job.Spec.Suspend && decision == "h100" {
			refused++
			return apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), name,
				field.ErrorList{field.Invalid(field.NewPath("spec", "template"), "x", "field is immutable")})
		}
		return nil
	}
	c.step = time.Second
	c.passes(60)
	c.wantOn("after the refusal", map[string]string{"moves": "4 a100"})
	if events := c.events(); refused != 1 || strings.Count(events, "KeepsType") != 1 {
		t.Errorf("%d writes were refused; events are %s; want one KeepsType", refused, events)
	}
	c.step = time.Minute
	c.passes(120)
	if c.wantOn("later", map[string]string{"moves": "4 a100"}); refused != 1 {
		t.Errorf("%d writes were refused; want 1", refused)
	}
}

// TestTooManySizeLimits checks that a pool whose jobs need more size limits than a request may have gets no decision and an
// error that states what to change, and gets a decision once it needs fewer.
func TestTooManySizeLimits(t *testing.T) {
	t.Parallel()
	const types, units = 8, 512
	c := newCluster(t, 0)
	c.pool = worldtest.UnitPool()
	for i := range types {
		name := fmt.Sprint("type-", i)
		c.pool.NodeTypes = append(c.pool.NodeTypes, config.NodeType{Name: name, Labels: map[string]string{"gpu": name}})
		node := worldtest.Node(name)
		node.Labels["gpu"] = name
		node.Status.Allocatable[worldtest.Unit] = *resource.NewQuantity(units, resource.DecimalSI)
		foreign := worldtest.Pod("foreign-"+name, name, nil) // With one unit in use, no limit follows from another one.
		foreign.Spec.Containers[0].Resources.Requests[worldtest.Unit] = *resource.NewQuantity(1, resource.DecimalSI)
		for _, object := range []client.Object{node, foreign} {
			if err := c.client.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	for size := 1; size <= units; size *= 2 {
		job := worldtest.SmallJob(fmt.Sprint("job-", size), 0, size, map[string]string{"work": "1h", "nodes": "1"})
		job.SetResourceVersion("")
		if err := c.client.Create(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	c.start()
	c.passes(1)
	want := "size limits: are 72 for 8 node types; must be at most 64: use fewer node types"
	if d := c.loop.Report().Decision; d == nil || d.Result != "failed" || !strings.Contains(d.Detail, want) {
		t.Fatalf("the decision is %+v; want the error %q", d, want)
	}
	c.end("job-512")
	c.passes(10)
	if d := c.loop.Report().Decision; d.Result != "decided" {
		t.Errorf("the decision with 64 size limits is %+v", d)
	}
}
