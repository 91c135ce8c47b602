package controller_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestKueueDoesNotStart: nodes that were left to a job which Kueue then does not start are used again,
// and the job is tried ever more rarely.
func TestKueueDoesNotStart(t *testing.T) {
	t.Parallel()
	jobs := []*unstructured.Unstructured{
		worldtest.Job("long", 8, map[string]string{"work": "1000h", "nodes": "4,8"}),
		worldtest.Job("waits", 0, map[string]string{"work": "1h"}),
	}
	for _, field := range []string{"parallelism", "completions"} {
		_ = unstructured.SetNestedField(jobs[1].Object, int64(4), "spec", field)
	}
	for _, job := range jobs {
		worldtest.Queued(job, true)
	}
	c := newCluster(t, 8, jobs...)
	c.kueue = true
	for _, text := range []string{
		`{kind: LocalQueue, metadata: {name: team, namespace: default}, spec: {clusterQueue: shared}}`,
		`{kind: Workload, metadata: {name: l, namespace: default,
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: long, uid: uid-long, controller: true}]}, spec: {queueName: team},
			status: {admission: {podSetAssignments: [{resourceUsage: {nvidia.com/gpu: 64}}]}, conditions: [{type: Admitted, status: "True"}]}}`,
		`{kind: Workload, metadata: {name: w, namespace: default,
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: waits, uid: uid-waits, controller: true}]}, spec: {queueName: team},
			status: {conditions: [{type: QuotaReserved, status: "False", message: "a check has yet to pass"}]}}`,
	} {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		object.SetAPIVersion("kueue.x-k8s.io/v1beta2")
		if err := c.client.Create(t.Context(), &object); err != nil {
			t.Fatal(err)
		}
	}
	c.start()
	c.step = 20 * time.Second
	c.passes(20)
	c.want(map[string]int{"long": 4, "waits": 0})
	c.step = time.Minute
	var left time.Duration
	for began, last := c.now, c.now; c.now.Sub(began) < 10*time.Hour; last = c.now {
		c.passes(1)
		if n, _ := c.job("long"); n == 4 {
			left += c.now.Sub(last)
		}
	}
	c.want(map[string]int{"long": 8, "waits": 0})
	if posted := c.events(); !strings.Contains(posted, "Kueue did not start it on its 4 nodes") ||
		!strings.Contains(posted, "a check has yet to pass") {
		t.Errorf("events are %s", posted)
	}
	if left > 2*time.Hour {
		t.Errorf("for %v of 10 h nodes were left to it", left)
	}
}

// TestKueuePreempts checks that an elastic job which Kueue preempts several times waits each time for the quota that is
// left, also if it takes longer than declared, and in all kinds of pools. The cohort has no borrowing limits.
func TestKueuePreempts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		annotations map[string]string
		until       time.Duration // time until the first preemption
		times       int
	}{
		"often":        {map[string]string{"work": "1000h", "nodes": "1-8"}, 20 * time.Minute, 5},
		"past its end": {map[string]string{"work": "3h", "nodes": "1-8"}, 2 * time.Hour, 1},
		"other size":   {map[string]string{"work": "1000h", "nodes": "1,2,4", "speeds": "1,1.9,3.6"}, 20 * time.Minute, 1},
	} {
		for n := range 2 * len(kueuePools) {
			pool, nodes := n/2, 8+8*(n%2) // As many nodes as quota, and more nodes.
			t.Run(fmt.Sprintf("%s, %s, %d nodes", name, kueuePools[pool].name, nodes), func(t *testing.T) {
				t.Parallel()
				k := newKueueModel(t, nodes, 8, rand.New(rand.NewPCG(0, 0)), pool)
				q := k.submit(&queuedJob{size: 7, sizes: []int{1, 2, 4, 8}, training: training{left: 1000 * time.Hour}}, test.annotations)
				pass := func(d time.Duration) {
					for began := k.now; k.now.Sub(began) < d; {
						k.pass()
					}
				}
				pass(test.until)
				for range test.times {
					urgent := k.submit(&queuedJob{urgent: true, size: 6}, nil)
					if pass(30 * time.Minute); q.size != 2 || q.admitted != 2 {
						k.fatal("the preempted job has the size %d, of which %d are admitted; want 2", q.size, q.admitted)
					}
					k.complete(urgent)
					pass(20 * time.Minute)
				}
			})
		}
	}
}

// TestKueueWaitingIsNoWork checks that a job does no work while Kueue suspends it and no decision succeeds.
func TestKueueWaitingIsNoWork(t *testing.T) {
	t.Parallel()
	k := newKueueModel(t, 8, 8, rand.New(rand.NewPCG(0, 0)), 0)
	k.submit(&queuedJob{size: 8, sizes: []int{1, 2, 4, 8}, training: training{left: 1000 * time.Hour}},
		map[string]string{"work": "20h", "nodes": "1-8"})
	for range 10 {
		k.pass()
	}
	k.allocator = &altering{Allocator: k.allocator, change: func(*elastallocv1.AllocateResponse) (*elastallocv1.AllocateResponse, error) {
		return nil, errors.New("unavailable")
	}}
	k.start()
	k.pass()
	remaining := func() time.Duration { return k.loop.Report().State.Jobs[0].Estimate.Remaining }
	k.submit(&queuedJob{urgent: true, size: 6}, nil)
	k.pass()
	k.pass()
	before := remaining()
	for range 20 {
		k.pass()
	}
	// Each observation counts the time until the one before it.
	if after := remaining(); before-after > 5*k.step || before <= 0 {
		t.Errorf("%v of its work remain after %v without nodes; want about %v", after, 20*k.step, before)
	}
}
