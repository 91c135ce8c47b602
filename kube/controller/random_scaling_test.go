package controller_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/world"
)

// lags returns random lags of a Job controller, of up to maxLag.
func lags(seed uint64) func() time.Duration {
	random := rand.New(rand.NewPCG(seed, 1))
	return func() time.Duration { return time.Duration(random.Int64N(int64(maxLag) + 1)) }
}

// autoscaled is a cluster with an autoscaler that creates nodes for pods that wait and removes idle nodes. It enforces no
// maximum, unless the pool counts units: then pods that the scheduler does not move can need more nodes.
type autoscaled struct {
	*cluster
	*rand.Rand
	jobs    []string       // that have neither completed nor been deleted
	units   map[string]int // of each pod, by job
	created int
	ready   map[string]time.Time // when a new node becomes ready
	idle    map[string]time.Time // since when a node has no pods
	history []string
}

// leavingTaint marks nodes that the autoscaler removes, and spotTaint nodes that the cloud provider removes.
const (
	leavingTaint = "ToBeDeletedByClusterAutoscaler"
	spotTaint    = "aws-node-termination-handler/spot-itn"
)

func (a *autoscaled) list() (nodes []corev1.Node, used map[string]int, waiting []int) {
	var list corev1.NodeList
	if err := a.client.List(a.t.Context(), &list); err != nil {
		a.t.Fatal(err)
	}
	used = make(map[string]int)
	for _, pod := range a.listPods() {
		if used[pod.Spec.NodeName] += units(&pod); pod.Spec.NodeName == "" {
			waiting = append(waiting, units(&pod))
		}
	}
	return list.Items, used, waiting
}

// autoscale starts nodes, makes them ready later, and removes nodes that have been idle for half a minute.
func (a *autoscaled) autoscale() {
	nodes, used, waiting := a.list()
	// place places the pods that wait on a node with some units in use, as far as they fit.
	place := func(used int) (placed bool) {
		waiting = slices.DeleteFunc(waiting, func(units int) bool {
			fits := used+units <= worldtest.PerNode
			if fits {
				used, placed = used+units, true
			}
			return fits
		})
		return placed
	}
	remaining := 0
	for i := range nodes {
		node := &nodes[i]
		leaves := len(node.Spec.Taints) > 0
		if due, starting := a.ready[node.Name]; starting && !due.After(a.now) {
			delete(a.ready, node.Name)
			a.changeNode(node.Name, func(n *corev1.Node) {
				n.Status.Conditions[0] = corev1.NodeCondition{
					Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(a.now),
				}
			})
		}
		if !leaves {
			remaining++
		}
		switch {
		case used[node.Name] > 0:
			a.idle[node.Name] = a.now
			if !leaves && a.pool.CountsUnits() {
				place(used[node.Name])
			}
		case leaves:
			if a.now.Sub(a.idle[node.Name]) > 40*time.Second {
				if err := a.client.Delete(a.t.Context(), node); err != nil {
					a.t.Fatal(err)
				}
			}
		case place(0):
		case a.now.Sub(a.idle[node.Name]) > 30*time.Second:
			a.changeNode(node.Name, func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: leavingTaint, Effect: corev1.TaintEffectNoSchedule}}
			})
		}
	}
	for ; len(waiting) > 0 && (!a.pool.CountsUnits() || remaining < a.pool.MaxNodes); remaining++ {
		place(0)
		a.created++
		node := worldtest.Node(fmt.Sprintf("node-%03d", a.created))
		node.CreationTimestamp.Time = a.now
		node.Status.Conditions[0] = corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(a.now),
		}
		a.ready[node.Name], a.idle[node.Name] = a.now.Add(time.Duration(a.IntN(60))*time.Second), a.now
		if err := a.client.Create(a.t.Context(), node); err != nil {
			a.t.Fatal(err)
		}
	}
}

// run reconciles for a time and fails if the sizes of the jobs, or the nodes that are not leaving, exceed
// the maximum of the pool.
func (a *autoscaled) run(duration time.Duration) {
	a.t.Helper()
	for end := a.now.Add(duration); a.now.Before(end); {
		a.passes(1)
		a.autoscale()
		granted := 0
		for _, name := range a.jobs {
			pods, _ := a.job(name)
			granted += pods * a.units[name]
		}
		nodes, _, _ := a.list()
		nodes = slices.DeleteFunc(nodes, func(n corev1.Node) bool { return len(n.Spec.Taints) > 0 })
		if granted > a.pool.MaxNodes*worldtest.PerNode || len(nodes) > a.pool.MaxNodes {
			a.t.Fatalf("%d units are granted and %d nodes exist; must be at most those of %d nodes after %s",
				granted, len(nodes), a.pool.MaxNodes, strings.Join(a.history, ", "))
		}
	}
}

// random does something random to the cluster.
func (a *autoscaled) random() {
	annotate := func(name, value string) {
		var job batchv1.Job
		if err := a.client.Get(a.t.Context(), types.NamespacedName{Namespace: "default", Name: a.jobs[a.IntN(len(a.jobs))]}, &job); err != nil {
			a.t.Fatal(err)
		}
		job.Annotations[name] = value
		if err := a.client.Update(a.t.Context(), &job); err != nil {
			a.t.Fatal(err)
		}
	}
	remove := func() string {
		i := a.IntN(len(a.jobs))
		name := a.jobs[i]
		a.jobs = slices.Delete(a.jobs, i, i+1)
		return name
	}
	nodes, _, _ := a.list()
	event := a.IntN(8)
	if event > 0 && len(a.jobs) == 0 || event > 5 && len(nodes) == 0 {
		event = 0
	}
	switch event {
	case 0, 1:
		name := fmt.Sprintf("job-%d", len(a.history))
		a.units[name] = worldtest.PerNode
		if a.pool.CountsUnits() {
			a.units[name] = 1 << a.IntN(4)
		}
		a.submitSmall(name, a.units[name], map[string]string{
			"work": fmt.Sprintf("%dh", 1+a.IntN(100)), "nodes": []string{"1-8", "4", "2,3,5", "1"}[a.IntN(4)],
		})
		a.jobs = append(a.jobs, name)
		a.history = append(a.history, "a job")
	case 2:
		a.end(remove())
		a.history = append(a.history, "a job completes")
	case 3:
		if err := a.client.Delete(a.t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: remove()}}); err != nil {
			a.t.Fatal(err)
		}
		a.history = append(a.history, "a job is deleted")
	case 4:
		paused := fmt.Sprint(a.IntN(2) == 0)
		annotate(world.PausedAnnotation, paused)
		a.history = append(a.history, "paused "+paused)
	case 5:
		a.start()
		a.history = append(a.history, "a new leader")
	case 6:
		name := nodes[a.IntN(len(nodes))].Name
		a.changeNode(name, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: spotTaint, Effect: corev1.TaintEffectNoSchedule}}
		})
		a.run(time.Duration(a.IntN(20)) * time.Second)
		a.evict(name)
		a.history = append(a.history, "a spot node is drained")
	case 7:
		if name := nodes[a.IntN(len(nodes))].Name; a.ready[name].IsZero() {
			a.changeNode(name, func(n *corev1.Node) {
				n.Status.Conditions[0] = corev1.NodeCondition{
					Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(a.now),
				}
			})
			a.ready[name] = a.now.Add(time.Duration(a.IntN(60)) * time.Second)
			a.history = append(a.history, "a node is not ready")
		}
	}
}

// TestRandomScaling checks that neither the sizes of the jobs nor the nodes that an autoscaler adds for their
// pods exceed the maximum of the pool, although the Job controller, the autoscaler and the nodes lag. Once
// all other jobs are gone, one that can use all nodes gets them. Every other pool counts units.
func TestRandomScaling(t *testing.T) {
	t.Parallel()
	for seed := range seeds(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 2))
			c := newCluster(t, 0)
			c.scales, c.lag, c.step = true, lags(seed), time.Second
			c.pool.MaxNodes, c.pool.NodePrice = 4+random.IntN(8), []float64{0, 0.5, 1.5}[random.IntN(3)]
			c.pool.MinInterval, c.pool.Debounce = []time.Duration{0, time.Minute}[random.IntN(2)],
				[]time.Duration{time.Second / 2, 10 * time.Second}[random.IntN(2)]
			c.pool.Cadence = time.Minute
			if seed%2 == 1 {
				c.pool.Count = config.CountUnits
			}
			c.start()
			a := &autoscaled{
				cluster: c, Rand: random, units: map[string]int{"last": worldtest.PerNode},
				ready: make(map[string]time.Time), idle: make(map[string]time.Time),
			}
			for range 30 {
				a.random()
				a.run(time.Duration(random.IntN(20)) * time.Second)
			}
			for _, name := range a.jobs {
				if err := c.client.Delete(t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}); err != nil {
					t.Fatal(err)
				}
			}
			a.jobs, c.pool.NodePrice, c.step = []string{"last"}, 0, 5*time.Second
			c.start()
			a.submit("last", map[string]string{"work": "100h", "nodes": fmt.Sprint(c.pool.MaxNodes)})
			a.run(10 * time.Minute)
			c.want(map[string]int{"last": c.pool.MaxNodes})
		})
	}
}
