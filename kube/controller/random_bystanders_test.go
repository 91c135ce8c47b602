package controller_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/controller"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/world"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// witness is an allocator that checks requests and stores the last allocation, in nodes by job.
type witness struct {
	controller.Allocator
	check     func(*elastallocv1.Snapshot)
	allocated map[string]int
}

func (a *witness) Allocate(ctx context.Context, r *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	a.check(r.GetSnapshot())
	response, err := a.Allocator.Allocate(ctx, r)
	clear(a.allocated)
	for _, j := range response.GetAllocations() {
		a.allocated[j.GetJobId()] = int(j.GetNodes())
	}
	return response, err
}

// randomEvents is a cluster with random events that affect its nodes and the jobs of a tenant.
type randomEvents struct {
	*cluster
	*rand.Rand
	tenants int
	gone    map[string]bool // deleted nodes; the API server may still have pods on them
	history []string        // what happened
}

// node returns a random node of the pool on which no bystander has a pod, "" if there is none.
func (d *randomEvents) node() string {
	var nodes []string
	for name, pods := range d.onNodes() {
		if !strings.Contains(pods, "bystander") && strings.HasPrefix(name, "node-") && !d.gone[name] {
			nodes = append(nodes, name)
		}
	}
	if len(nodes) == 0 {
		return ""
	}
	slices.Sort(nodes)
	return nodes[d.IntN(len(nodes))]
}

// onNodes returns the names of the jobs with pods on each node.
func (d *randomEvents) onNodes() map[string]string {
	var nodes corev1.NodeList
	var pods corev1.PodList
	if err := d.client.List(d.t.Context(), &nodes); err != nil {
		d.t.Fatal(err)
	}
	if err := d.client.List(d.t.Context(), &pods); err != nil {
		d.t.Fatal(err)
	}
	on := make(map[string]string)
	for _, node := range nodes.Items {
		on[node.Name] = ""
	}
	for _, pod := range pods.Items {
		on[pod.Spec.NodeName] += pod.Labels["batch.kubernetes.io/job-name"] + " "
	}
	return on
}

// healthy reports whether a node has accepted pods for a minute, and has all its units.
func (d *randomEvents) healthy(name string) bool {
	var node corev1.Node
	if name == "" || d.client.Get(d.t.Context(), types.NamespacedName{Name: name}, &node) != nil {
		return false
	}
	has, back := node.Status.Allocatable[worldtest.Unit], node.Status.Conditions[0].LastTransitionTime
	return schedulable(&node, has) && has.Value() == worldtest.PerNode && d.now.Sub(back.Time) >= time.Minute
}

// tenant changes a random job of the tenant, if there is one.
func (d *randomEvents) tenant(change func(*batchv1.Job)) {
	if d.tenants == 0 {
		return
	}
	var job batchv1.Job
	err := d.client.Get(d.t.Context(), types.NamespacedName{Namespace: "default", Name: fmt.Sprint("tenant-", d.IntN(d.tenants))}, &job)
	if err != nil {
		d.t.Fatal(err)
	}
	change(&job)
	if err := d.client.Update(d.t.Context(), &job); err != nil {
		d.t.Fatal(err)
	}
}

// again deletes a job and creates another one with the same name.
func (d *randomEvents) again(name string, uid types.UID) error {
	var job batchv1.Job
	if err := d.client.Get(d.t.Context(), types.NamespacedName{Namespace: "default", Name: name}, &job); err != nil {
		return err
	}
	if err := d.client.Delete(d.t.Context(), &job); err != nil {
		return err
	}
	job.UID, job.ResourceVersion = uid, ""
	return d.client.Create(d.t.Context(), &job)
}

// conflict has another writer write a job of the tenant first a few times, or replace it.
func (d *randomEvents) conflict() {
	job, left, uid := fmt.Sprint("tenant-", d.IntN(max(1, d.tenants))), d.IntN(8), types.UID(fmt.Sprint("uid-", d.Uint64()))
	d.onPatch = func(_, name string) error {
		if name != job || left == 0 {
			return nil
		}
		if left--; left%4 == 0 {
			if err := d.again(job, types.UID(fmt.Sprint(uid, left))); err != nil {
				return err
			}
		}
		return apierrors.NewConflict(batchv1.Resource("jobs"), name, errors.New("it was changed"))
	}
}

// renameNode replaces a node by one with another name.
func (d *randomEvents) renameNode() {
	name := d.node()
	if name == "" {
		return
	}
	var node corev1.Node
	if err := d.client.Get(d.t.Context(), types.NamespacedName{Name: name}, &node); err != nil {
		d.t.Fatal(err)
	}
	if err := d.client.Delete(d.t.Context(), &node); err != nil {
		d.t.Fatal(err)
	}
	d.gone[name] = true
	node.Name, node.ResourceVersion = name+"-renamed", ""
	if err := d.client.Create(d.t.Context(), &node); err != nil {
		d.t.Fatal(err)
	}
}

// happens makes a random event happen, and returns its name.
func (d *randomEvents) happens() string {
	name := fmt.Sprint("tenant-", d.tenants)
	size := 1 + d.IntN(6)
	changed := func(change func(*corev1.Node)) {
		if node := d.node(); node != "" {
			d.changeNode(node, change)
		}
	}
	submit := func(wishes map[string]string, units int) {
		job := worldtest.Job(name, size*d.IntN(2), wishes)
		if err := unstructured.SetNestedMap(job.Object, worldtest.PodSpec(units), "spec", "template", "spec"); err != nil {
			d.t.Fatal(err)
		}
		job.SetResourceVersion("")
		if err := d.client.Create(d.t.Context(), job); err != nil {
			d.t.Fatal(err)
		}
		d.tenants++
	}
	ready := func(status corev1.ConditionStatus) func(*corev1.Node) {
		return func(node *corev1.Node) {
			node.CreationTimestamp.Time = worldtest.Begin()
			if c := &node.Status.Conditions[0]; c.Status != status {
				c.Status, c.LastTransitionTime.Time = status, d.now
			}
		}
	}
	events := []struct {
		name string
		do   func()
	}{
		{"a cordon", func() { changed(func(n *corev1.Node) { n.Spec.Unschedulable = true }) }},
		{"an uncordon", func() { changed(func(n *corev1.Node) { n.Spec.Unschedulable = false }) }},
		{"a lost node", func() { changed(ready(corev1.ConditionUnknown)) }},
		{"a node returns", func() { changed(ready(corev1.ConditionTrue)) }},
		{"an odd node", func() {
			changed(func(n *corev1.Node) {
				n.Status.Allocatable[worldtest.Unit] = resource.MustParse([]string{"7", "16", "8"}[d.IntN(3)])
			})
		}},
		{"a spot notice", func() {
			changed(func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "aws-node-termination-handler/spot-itn", Effect: corev1.TaintEffectNoSchedule}}
			})
		}},
		{"a pinned job", func() { submit(map[string]string{"paused": "true"}, worldtest.PerNode) }},
		{"a job of processors", func() { submit(map[string]string{"work": "1h"}, 0) }},
		{"a job of large pods", func() { submit(map[string]string{"work": "1h"}, 16) }},
		{"a job of small pods", func() { submit(map[string]string{"work": "1h"}, 2) }},
		{"a job", func() { submit(map[string]string{"work": "20m", "nodes": "1-8"}, worldtest.PerNode) }},
		{"a job past its end", func() { submit(map[string]string{"work": "1s"}, worldtest.PerNode) }},
		{"a forged record", func() {
			d.tenant(func(j *batchv1.Job) {
				r := world.Record{
					UID: j.UID, ID: "zz", At: d.now.Add(time.Duration(d.IntN(3)-1) * time.Hour),
					Mode: "apply", Jobs: 1, Since: d.now.Add(-time.Hour), Nodes: d.IntN(64), From: d.IntN(64),
				}
				j.Annotations[world.DecisionAnnotation], j.Annotations[world.TargetAnnotation] = r.String(), fmt.Sprint(d.IntN(20))
			})
		}},
		{"a pin by hand", func() {
			d.tenant(func(j *batchv1.Job) { j.Annotations[world.PausedAnnotation] = fmt.Sprint(d.IntN(2) == 0) })
		}},
		{"a size by hand", func() {
			d.tenant(func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = new(int32(size)), new(int32(size)) })
		}},
		{"a suspension by hand", func() { d.tenant(func(j *batchv1.Job) { j.Spec.Suspend = new(d.IntN(2) == 0) }) }},
		{"another pool", func() {
			d.tenant(func(j *batchv1.Job) { j.Labels[world.PoolLabel] = []string{"training", "other"}[d.IntN(2)] })
		}},
		{"a quota", func() { d.quota = map[string]int{fmt.Sprint("tenant-", d.IntN(max(1, d.tenants))): d.IntN(4)} }},
		{"no image", func() {
			d.waits = map[string]string{fmt.Sprint("tenant-", d.IntN(max(1, d.tenants))): "ImagePullBackOff"}
		}},
		{"a completed job", func() {
			if d.tenants > 0 {
				d.end(fmt.Sprint("tenant-", d.IntN(d.tenants)))
			}
		}},
		{"a new leader", func() { d.start() }},
		{"a clock set back", func() { d.now = d.now.Add(-[]time.Duration{30 * time.Second, 90 * time.Second, time.Hour}[d.IntN(3)]) }},
		{"pods that ignore SIGTERM", func() { d.leaving = d.IntN(2) == 0 }},
		{"no Job controller", func() { d.linger = d.IntN(2) == 0 }},
		{"another writer", d.conflict},
		{"a node renamed", d.renameNode},
		{"a node of another pool", func() {
			changed(func(n *corev1.Node) { n.Labels["pool"] = []string{"training", "other"}[d.IntN(2)] })
		}},
	}
	event := events[d.IntN(len(events))]
	event.do()
	return event.name
}

// heal ends all troubles, and the tenant leaves but for one short job.
func (d *randomEvents) heal() {
	d.leaving, d.linger, d.onPatch, d.quota, d.waits = false, false, nil, nil, nil
	var nodes corev1.NodeList
	if err := d.client.List(d.t.Context(), &nodes); err != nil {
		d.t.Fatal(err)
	}
	for _, node := range nodes.Items {
		d.changeNode(node.Name, func(n *corev1.Node) {
			heal(n)
			n.Labels = worldtest.Node(n.Name).Labels
		})
		d.ready(node.Name, corev1.ConditionTrue)
	}
	for i := range d.tenants {
		err := d.client.Delete(d.t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("tenant-", i)}})
		if err != nil {
			d.t.Fatal(err)
		}
	}
	last := worldtest.Job("last", 0, map[string]string{"work": "20m", "nodes": "1"})
	last.SetResourceVersion("")
	if err := d.client.Create(d.t.Context(), last); err != nil {
		d.t.Fatal(err)
	}
}

// TestBystanders makes random events happen to other jobs than two bystanders, and to nodes without pods of the
// bystanders. Each request must have at least the healthy nodes with pods of bystanders, and bystanders may be
// resized only by decisions. After the events, a new job must start.
func TestBystanders(t *testing.T) {
	t.Parallel()
	for seed := range seeds(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 12,
				worldtest.Job("bystander-0", 4, map[string]string{"work": "10000h", "nodes": "1-8"}),
				worldtest.Job("bystander-1", 2, map[string]string{"work": "10000h", "nodes": "1,2,3", "restart": "5m"}),
			)
			c.scales = true
			c.lag = lags(seed)
			d := &randomEvents{cluster: c, Rand: rand.New(rand.NewPCG(seed, 0)), gone: make(map[string]bool)}
			w := &witness{Allocator: c.allocator, allocated: make(map[string]int), check: d.checkNodes}
			c.allocator, c.step = w, time.Minute
			c.start()
			for range 40 {
				d.history = append(d.history, d.happens())
				for range 1 + d.IntN(6) {
					d.checkedPass(w.allocated)
				}
			}
			d.heal()
			c.step = 30 * time.Second
			for began := c.now; c.now.Sub(began) < 45*time.Minute; {
				c.passes(1)
			}
			if n, _ := c.job("last"); n == 0 {
				t.Fatalf("a job has not started within 45 minutes without events, after %s; jobs %v, nodes %v\n%+v",
					strings.Join(d.history, ", "), d.bystanders(), d.onNodes(), c.loop.Report().Decision)
			}
			for node := range d.onNodes() {
				if !d.healthy(node) {
					t.Errorf("%s is not as it was at first", node)
				}
			}
		})
	}
}

// bystanders returns the nodes of each bystander.
func (d *randomEvents) bystanders() map[string]int {
	sizes := make(map[string]int)
	for i := range 2 {
		name := fmt.Sprint("bystander-", i)
		sizes["Job/default/"+name], _ = d.job(name)
	}
	return sizes
}

// checkNodes checks that a request has the healthy nodes with pods of bystanders, except those of jobs that keep theirs.
func (d *randomEvents) checkNodes(snapshot *elastallocv1.Snapshot) {
	running, on, total := 0, d.onNodes(), int(snapshot.GetTotalNodes())
	for _, j := range snapshot.GetJobs() {
		name, current := strings.TrimPrefix(j.GetId(), "Job/default/"), int(j.GetCurrentNodes())
		switch {
		case j.GetKeep():
			total -= current
		case strings.HasPrefix(name, "bystander"):
			healthy := 0
			for node, pods := range on {
				if strings.Contains(pods, name) && d.healthy(node) {
					healthy++
				}
			}
			running += min(current, healthy) // Further pods of the job are to terminate.
		}
	}
	if total < running {
		d.t.Fatalf("a request has %d nodes, but bystanders are on %d, after %s; nodes %v", total, running, strings.Join(d.history, ", "), on)
	}
}

// checkedPass makes a pass, and checks that bystanders are resized only to what is decided.
func (d *randomEvents) checkedPass(allocated map[string]int) {
	d.t.Helper()
	before := d.bystanders()
	d.passes(1)
	for id, now := range d.bystanders() {
		if was := before[id]; now != was && now != allocated[id] {
			d.t.Fatalf("%s is resized from %d nodes to %d; the decision has %d, after %s",
				id, was, now, allocated[id], strings.Join(d.history, ", "))
		}
	}
}
