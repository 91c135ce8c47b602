//go:build linux

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
)

var stormSeed = flag.Uint64("storm-seed", 1, "seed of the random events of TestStorm")

// storm makes random events happen in a pool.
type storm struct {
	*rand.Rand
	t             *testing.T
	pool          string
	nodes         int
	lost, drained map[int]bool // nodes by index
	submitted     int
}

// event makes a random event happen.
func (s *storm) event() {
	s.t.Helper()
	node := s.IntN(s.nodes)
	switch s.IntN(10) {
	default:
		s.submit()
	case 0, 1: // Delete a job, if it exists and is a Job.
		background := metav1.DeletePropagationBackground
		_ = kube.Client.BatchV1().Jobs(s.pool).Delete(s.t.Context(), s.job(), metav1.DeleteOptions{PropagationPolicy: &background})
	case 2: // Change the work of a job.
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"elastalloc.dev/work":"%dh"}}}`, 1+s.IntN(200))
		_, _ = kube.Client.BatchV1().Jobs(s.pool).Patch(s.t.Context(), s.job(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	case 3:
		s.loseOrRestore(node)
	case 4:
		s.drainOrRestore(node)
	case 5:
		s.deletePod()
	}
}

// job returns the name of a job that was submitted, or will be next.
func (s *storm) job() string { return fmt.Sprintf("job-%03d", 1+s.IntN(s.submitted+1)) }

// submit submits a Job or a JobSet, which may complete.
func (s *storm) submit() {
	s.t.Helper()
	s.submitted++
	annotations := map[string]string{"test/stop-delay": fmt.Sprintf("%dms", s.IntN(2000))}
	if s.IntN(2) == 0 {
		annotations["test/run-for"] = fmt.Sprintf("%ds", 2+s.IntN(20))
	}
	j := job{
		name: fmt.Sprintf("job-%03d", s.submitted), size: 1 + s.IntN(4), annotations: elastic(1 + s.IntN(50)),
		pods: annotations, evictAfter: 2 * time.Second,
	}
	if s.IntN(3) == 0 {
		j.submitJobSet(s.t, s.pool)
	} else {
		j.submit(s.t, s.pool)
	}
}

// mayTakeNode reports whether another node may be lost or drained: at most a third of the nodes is.
func (s *storm) mayTakeNode() bool { return len(s.lost)+len(s.drained) < s.nodes/3 }

// loseOrRestore loses a node, or restores it if it is lost.
func (s *storm) loseOrRestore(node int) {
	s.t.Helper()
	switch {
	case s.lost[node]:
		delete(s.lost, node)
	case s.mayTakeNode():
		s.lost[node] = true
	default:
		return
	}
	must(s.t, setLost(s.t.Context(), cluster.NodeName(s.pool, node), s.lost[node]))
}

// drainOrRestore drains a node, or restores it if it is drained.
func (s *storm) drainOrRestore(node int) {
	s.t.Helper()
	ctx, name := s.t.Context(), cluster.NodeName(s.pool, node)
	switch {
	case s.drained[node]:
		delete(s.drained, node)
		must(s.t, setCordoned(ctx, name, false))
	case s.mayTakeNode():
		s.drained[node] = true
		must(s.t, setCordoned(ctx, name, true))
		_ = kube.Client.CoreV1().Pods(s.pool).DeleteCollection(ctx, metav1.DeleteOptions{},
			metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
	}
}

// deletePod deletes any pod.
func (s *storm) deletePod() {
	s.t.Helper()
	list, err := kube.Client.CoreV1().Pods(s.pool).List(s.t.Context(), metav1.ListOptions{})
	must(s.t, err)
	if len(list.Items) > 0 {
		_ = kube.Client.CoreV1().Pods(s.pool).Delete(s.t.Context(), list.Items[s.IntN(len(list.Items))].Name, metav1.DeleteOptions{})
	}
}

// TestStorm submits, deletes and changes jobs, and loses, restores and drains nodes at random for a minute, and on until
// jobs have grown often enough. The watches of the controller lag. At no time may there be more pods than nodes, and the
// controller must not write to foreign jobs.
func TestStorm(t *testing.T) {
	const (
		pool     = "storm"
		nodes    = 12
		duration = time.Minute
		// On a busy machine, the controller may start late.
		maxDuration = 5 * time.Minute
		minGrows    = 15
	)
	newPool(t, pool, nodes)
	job{name: "foreign", size: 3, unlabelled: true, annotations: elastic(1)}.submit(t, pool)
	foreign := annotatedSpec(t, pool, "foreign")
	before := auditLength(t)
	h := record(t, pool)
	controller{pool: pool, account: release, proxy: newLaggingProxy(t)}.start(t)

	// The events depend on the seed; their effects depend on the timing of the cluster.
	random := rand.New(rand.NewPCG(*stormSeed, 2))
	ctx := t.Context()
	s := &storm{Rand: random, t: t, pool: pool, nodes: nodes, lost: make(map[int]bool), drained: make(map[int]bool)}
	goesOn := func(after time.Duration) bool { return after < duration || after < maxDuration && h.grows() < minGrows }
	for began := time.Now(); goesOn(time.Since(began)); sleep(ctx, time.Duration(100+random.IntN(700))*time.Millisecond) {
		s.event()
	}
	for node := range nodes {
		must(t, setLost(ctx, cluster.NodeName(pool, node), false))
		must(t, setCordoned(ctx, cluster.NodeName(pool, node), false))
	}

	sum := h.check(t)
	t.Logf("%d jobs; %v; %d writes of jobs", s.submitted, sum, checkWrites(t, before, release, pool))
	if sum.grows < minGrows {
		t.Errorf("%d jobs grew, of %d that were submitted, so the test checked little", sum.grows, s.submitted)
	}
	if after := annotatedSpec(t, pool, "foreign"); after != foreign {
		t.Errorf("the job without a label was\n%s\nand is\n%s", foreign, after)
	}
}

// annotatedSpec returns the specification, the annotations and the labels of a job as JSON.
func annotatedSpec(t *testing.T, pool, name string) string {
	t.Helper()
	job, err := kube.Client.BatchV1().Jobs(pool).Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	text, err := json.Marshal([]any{job.Spec, job.Annotations, job.Labels})
	must(t, err)
	return string(text)
}
