//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
)

// elastic returns the annotations of a job with the given hours of work on one node and the sizes 1, 2, 4 and 8.
func elastic(hours int) map[string]string {
	return map[string]string{
		"elastalloc.dev/work": fmt.Sprintf("%dh", hours), "elastalloc.dev/nodes": "1-8", "elastalloc.dev/doubling-efficiency": "0.9",
	}
}

// untilDecided waits until the given number of jobs of a pool have targets with the given sum of nodes, and matching
// pods.
func untilDecided(t *testing.T, pool string, jobs, nodes int) map[string]int {
	t.Helper()
	var want map[string]int
	wait.For(t, "the pods of a decision", func() (bool, string) {
		want = targets(t, pool)
		byJob, running := pods(t, pool)
		sum := 0
		for _, n := range want {
			sum += n
		}
		nonzero := maps.Clone(want)
		maps.DeleteFunc(nonzero, func(_ string, n int) bool { return n == 0 })
		applied := len(want) == jobs && sum == nodes && running == sum && maps.Equal(byJob, nonzero)
		return applied, fmt.Sprintf("targets %v, pods %v of which %d run; want %d jobs on %d nodes", want, byJob, running, jobs, nodes)
	})
	return want
}

// TestDecisions submits Jobs and JobSets and checks that their pods match the decisions.
func TestDecisions(t *testing.T) {
	const pool, nodes = "decisions", 8
	newPool(t, pool, nodes)
	slowStop := map[string]string{"test/stop-delay": "1s"} // time for the last checkpoint
	job{name: "foreign", size: 3, unlabelled: true}.submit(t, pool)
	before := auditLength(t)
	h := record(t, pool)
	controller{pool: pool, account: release}.start(t)

	job{name: "first", size: 1, annotations: elastic(10), pods: slowStop}.submit(t, pool)
	if got := untilDecided(t, pool, 1, nodes); got["first"] != 8 {
		t.Errorf("a single job gets %d nodes; want all 8", got["first"])
	}
	job{name: "set", size: 2, annotations: elastic(12), pods: slowStop}.submitJobSet(t, pool)
	if got := untilDecided(t, pool, 2, nodes); got["set"] == 0 && got["first"] == 0 {
		t.Errorf("no job runs: %v", got)
	}
	for i := range 4 {
		job{name: fmt.Sprintf("short-%d", i), size: 1, annotations: elastic(1), pods: slowStop}.submit(t, pool)
	}
	untilDecided(t, pool, 6, nodes)

	drain(t, pool, true)
	untilDecided(t, pool, 6, nodes-4)
	drain(t, pool, false)
	untilDecided(t, pool, 6, nodes)

	// An invalid annotation leads to an event on its job, and does not affect other jobs.
	_, err := kube.Client.BatchV1().Jobs(pool).Patch(t.Context(), "first", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"elastalloc.dev/work":"ten hours"}}}`), metav1.PatchOptions{})
	must(t, err)
	wait.For(t, "an event BadAnnotations", func() (bool, string) {
		all := eventsOf(t, pool, "first")
		return slices.ContainsFunc(all, func(e string) bool {
			return strings.HasPrefix(e, "BadAnnotations") && strings.Contains(e, "ten hours")
		}), strings.Join(all, "\n")
	})
	job{name: "late", size: 1, annotations: elastic(1), pods: slowStop}.submit(t, pool)
	wait.For(t, "a target for the job submitted after the invalid annotation", func() (bool, string) {
		got := targets(t, pool)
		_, found := got["late"]
		return found, fmt.Sprint(got)
	})

	t.Log(h.check(t))
	t.Log("writes of jobs:", checkWrites(t, before, release, pool))
	foreign, err := kube.Client.BatchV1().Jobs(pool).Get(t.Context(), "foreign", metav1.GetOptions{})
	must(t, err)
	if !*foreign.Spec.Suspend || *foreign.Spec.Parallelism != 3 || len(foreign.Annotations) > 0 {
		t.Errorf("the job without the label was changed: %+v", foreign.Spec)
	}
}

// drain cordons the first four nodes of a pool and deletes their pods, or uncordons the nodes.
func drain(t *testing.T, pool string, out bool) {
	t.Helper()
	for i := range 4 {
		must(t, setCordoned(t.Context(), cluster.NodeName(pool, i), out))
	}
	for i := range 4 {
		if on := "spec.nodeName=" + cluster.NodeName(pool, i); out {
			must(t, kube.Client.CoreV1().Pods(pool).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: on}))
		}
	}
}

// eventsOf returns the events of a job, each as its reason and message.
func eventsOf(t *testing.T, pool, job string) []string {
	t.Helper()
	list, err := kube.Client.CoreV1().Events(pool).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + job})
	must(t, err)
	var all []string
	for i := range list.Items {
		all = append(all, list.Items[i].Reason+": "+list.Items[i].Message)
	}
	return all
}

// TestRecommend checks that recommendations are annotations of the jobs and that nothing else changes.
func TestRecommend(t *testing.T) {
	const pool = "recommend"
	newPool(t, pool, 8)
	job{name: "running", size: 2, running: true, annotations: elastic(10)}.submit(t, pool)
	job{name: "waiting", size: 2, annotations: elastic(1)}.submit(t, pool)
	job{name: "set", size: 2, running: true, annotations: elastic(5)}.submitJobSet(t, pool)
	want := map[string]int{"running": 2, "set": 2}
	untilPods(t, pool, want)
	specs := specsOf(t, pool)
	before := auditLength(t)
	controller{pool: pool, account: recommender}.start(t)
	wait.For(t, "recommendations", func() (bool, string) {
		found := targets(t, pool)
		sum := 0
		for _, n := range found {
			sum += n
		}
		return len(found) == 3 && sum == 8, fmt.Sprint(found)
	})
	sleep(t.Context(), 12*time.Second) // two more cadences
	untilPods(t, pool, want)
	if after := specsOf(t, pool); after != specs {
		t.Errorf("specifications changed from\n%s\nto\n%s", specs, after)
	}
	t.Log("writes of annotations:", checkWrites(t, before, recommender, pool))
}

// specsOf returns the specifications of all jobs and JobSets of a pool.
func specsOf(t *testing.T, pool string) string {
	t.Helper()
	jobs, err := kube.Client.BatchV1().Jobs(pool).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	specs := map[string]any{}
	for i := range jobs.Items {
		specs["job "+jobs.Items[i].Name] = jobs.Items[i].Spec
	}
	sets, err := dynamicClient(t, kube.Config).Resource(jobSets).Namespace(pool).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for i := range sets.Items {
		specs["set "+sets.Items[i].GetName()] = sets.Items[i].Object["spec"]
	}
	text, err := json.MarshalIndent(specs, "", " ")
	must(t, err)
	return string(text)
}
