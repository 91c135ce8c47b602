//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
)

// clusterQueue is a ClusterQueue, and the LocalQueue with the same name in the namespace of the test.
const clusterQueue = `
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: gpus}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %[1]s}
spec:
  namespaceSelector: {}
%[2]s
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors: [{name: gpus, resources: [{name: nvidia.com/gpu, nominalQuota: %[3]d%[4]s}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: %[1]s, namespace: kueue}
spec: {clusterQueue: %[1]s}
`

// admitted returns the number of admitted pods with GPUs of each job in the namespace.
func admitted(t *testing.T) map[string]int {
	t.Helper()
	resource := schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}
	list, err := dynamicClient(t, kube.Config).Resource(resource).Namespace(kueue).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	counts := make(map[string]int)
	for i := range list.Items {
		conditions, _, _ := unstructured.NestedSlice(list.Items[i].Object, "status", "conditions")
		is := func(name string) bool {
			return slices.ContainsFunc(conditions, func(c any) bool {
				return c.(map[string]any)["type"] == name && c.(map[string]any)["status"] == "True"
			})
		}
		if is("Admitted") && !is("Finished") {
			assigned, _, _ := unstructured.NestedSlice(list.Items[i].Object, "status", "admission", "podSetAssignments")
			sets, _, _ := unstructured.NestedSlice(list.Items[i].Object, "spec", "podSets")
			last := len(sets) - 1 // The head of a RayCluster is the first of two.
			count, _, _ := unstructured.NestedInt64(assigned[last].(map[string]any), "count")
			now, _, _ := unstructured.NestedInt64(sets[last].(map[string]any), "count") // smaller after a scale-down
			counts[metav1.GetControllerOf(&list.Items[i]).Name] += int(min(count, now))
		}
	}
	return counts
}

// setQueue applies a ClusterQueue with a quota of nodes. With borrows it is in a cohort; the value is its borrowing limit
// in GPUs, and "" means no limit.
func setQueue(t *testing.T, name string, nodes int, borrows ...string) {
	t.Helper()
	cohort, limit := "", ""
	if len(borrows) > 0 {
		if cohort = "  cohortName: all"; borrows[0] != "" {
			limit = ", borrowingLimit: " + borrows[0]
		}
	}
	wait.For(t, "Kueue's webhooks", func() (bool, string) {
		_, err := kubectl(t.Context(), kube, fmt.Sprintf(clusterQueue, name, cohort, cluster.GPUs*nodes, limit),
			"apply", "--server-side", "-f", "-")
		return err == nil, fmt.Sprint(err)
	})
}

// untilAdmitted waits until jobs have the given numbers of running pods, and Kueue has admitted the same numbers.
func untilAdmitted(t *testing.T, what string, want map[string]int) {
	t.Helper()
	untilPods(t, kueue, want)
	wait.For(t, what, func() (bool, string) {
		got := admitted(t)
		return maps.Equal(got, want), fmt.Sprintf("Kueue admitted %v; want %v", got, want)
	})
}

// untilEvent waits for an event on a job.
func untilEvent(t *testing.T, job, reason, text string) {
	t.Helper()
	wait.For(t, "an event on "+job, func() (bool, string) {
		list := eventsOf(t, kueue, job)
		return slices.ContainsFunc(list, func(e string) bool { return strings.HasPrefix(e, reason+": ") && strings.Contains(e, text) }),
			fmt.Sprint(list)
	})
}

// requestedSize matches the size in a write of a Job by the controller.
var requestedSize = regexp.MustCompile(`"/spec/parallelism","value":(\d+)`)

// checkRequested fails the test if the controller has requested more nodes for a Job since the audit log had the given
// length, whether or not Kueue admitted them.
func checkRequested(t *testing.T, before int64, name string, most int) {
	t.Helper()
	for _, w := range writesSince(t, before, release) {
		if size := requestedSize.FindStringSubmatch(string(w.RequestObject)); w.ObjectRef.Name == name && size != nil {
			if n, err := strconv.Atoi(size[1]); err != nil || n > most {
				t.Errorf("the controller requests %s nodes for %s, with a quota of %d: %s", size[1], name, most, w.RequestObject)
			}
		}
	}
}

// remove deletes a job and its pods.
func remove(t *testing.T, name string) {
	t.Helper()
	background := metav1.DeletePropagationBackground
	must(t, kube.Client.BatchV1().Jobs(kueue).Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &background}))
}

// elasticInKueue returns the annotations of a job that is elastic in Kueue.
func elasticInKueue(hours int) map[string]string {
	annotations := elastic(hours)
	annotations["kueue.x-k8s.io/elastic-job"] = "true"
	return annotations
}

// TestKueue runs the controller with a real Kueue.
func TestKueue(t *testing.T) {
	const pool = kueue
	ray, err := startOperator(t.Context(), kube, kubeRay)
	must(t, err)
	t.Cleanup(ray.Kill)
	_, err = startOperator(t.Context(), kube, kueue)
	must(t, err)
	newPool(t, pool, 8)
	before := auditLength(t)
	for _, test := range []struct {
		name, settle, more string
		run                func(t *testing.T)
	}{
		{"quota", "", "", kueueQuota}, {"cohort", "", "", kueueCohort},
		{"cohort quota", "", "", kueueCohortQuota}, {"not ours", "10s", "", kueueNotOurs},
		{"RayCluster", "", "", kueueRayCluster}, {"RayJob", "", "", kueueRayJob}, {"preemption", "", "", kueuePreemption},
		{"GPUs", "", ", count: units", kueueGPUs}, {"example", "", "", kueueExample}, {"flavors", "", "", kueueFlavors},
		{"node types", "", twoTypes, kueueTypes},
	} {
		t.Run(test.name, func(t *testing.T) {
			controller{pool: pool, account: release, kinds: "Job, RayCluster", kueue: true, settle: test.settle, more: test.more}.start(t)
			test.run(t)
			must(t, kube.Client.BatchV1().Jobs(pool).DeleteCollection(t.Context(),
				metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}, metav1.ListOptions{}))
			untilAdmitted(t, "nothing", map[string]int{})
		})
	}
	t.Logf("%d writes of jobs", checkWrites(t, before, release, pool))
	for _, w := range writesSince(t, before, release) {
		if w.ObjectRef.Namespace == pool && strings.Contains(string(w.RequestObject), "/spec/suspend") {
			t.Errorf("the controller started or suspended %s: %s", w.ObjectRef.Name, w.RequestObject)
		}
	}
	setQueue(t, "team", 8)
	job{name: "mine", size: 2, queue: "team", annotations: elasticInKueue(100)}.submit(t, pool)
	untilAdmitted(t, "a running job", map[string]int{"mine": 2})
	config := asAccount(t, release)
	a := account{clientOf(t, config), dynamicClient(t, config), pool}
	for _, patch := range []string{`{"spec":{"suspend":true}}`, `{"metadata":{"labels":{"kueue.x-k8s.io/queue-name":null}}}`} {
		if err := a.patch(resourceOf("Job"), "mine", patch); err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			t.Errorf("the policy does not reject %s of its account: %v", patch, err)
		}
	}
}

// kueueQuota checks that elastic Jobs use idle quota by slices of their Workload, and shrink for waiting jobs, which Kueue
// then starts. They do not grow beyond the quota, or while a job waits that cannot start.
func kueueQuota(t *testing.T) {
	t.Helper()
	setQueue(t, "team", 8)
	job{name: "first", size: 2, queue: "team", annotations: elasticInKueue(100)}.submit(t, kueue)
	untilAdmitted(t, "the first job uses the whole quota", map[string]int{"first": 8})
	job{name: "second", size: 4, queue: "team", annotations: elasticInKueue(90)}.submit(t, kueue)
	untilAdmitted(t, "room for a waiting job", map[string]int{"first": 4, "second": 4})

	// A job outside the pool requests more than is free. No job grows while it waits.
	job{name: "stranger", size: 6, queue: "team", unlabelled: true}.submit(t, kueue)
	untilEvent(t, "stranger", "CreatedWorkload", "")
	remove(t, "second")
	untilAdmitted(t, "the quota of the second job is released", map[string]int{"first": 4})
	sleep(t.Context(), 12*time.Second) // two cadences
	untilAdmitted(t, "the first job is unchanged", map[string]int{"first": 4})
	remove(t, "stranger")
	untilAdmitted(t, "the first job uses the whole quota when no job waits", map[string]int{"first": 8})

	// A job that is not elastic gets its requested size, and the controller does not change it.
	job{name: "rigid", size: 4, queue: "team", annotations: elastic(1)}.submit(t, kueue)
	untilAdmitted(t, "room for a job that is not elastic", map[string]int{"first": 4, "rigid": 4})
	untilEvent(t, "rigid", "KueueOwned", "")
	// Kueue suspends it if its size changes, as the event states.
	_, err := kubectl(t.Context(), kube, "", "-n", kueue, "patch", "job",
		"rigid", "--type=merge", `-p={"spec":{"parallelism":2,"completions":2}}`)
	must(t, err)
	wait.For(t, "Kueue stops it", func() (bool, string) {
		list := eventsOf(t, kueue, "rigid")
		return slices.ContainsFunc(list, func(e string) bool { return strings.Contains(e, "No matching Workload") }), fmt.Sprint(list)
	})
	remove(t, "rigid")
	untilAdmitted(t, "only the first job", map[string]int{"first": 8})

	// The controller does not request more than the quota.
	remove(t, "first")
	setQueue(t, "team", 5)
	job{name: "third", size: 2, queue: "team", annotations: elasticInKueue(100)}.submit(t, kueue)
	untilAdmitted(t, "the largest size within the quota", map[string]int{"third": 4})
}

// kueueGPUs checks that quotas count GPUs in a pool that counts them. Jobs with pods of 1 and 2 GPUs share a quota of 8 GPUs,
// and a job that waits gets GPUs of the running job.
func kueueGPUs(t *testing.T) {
	t.Helper()
	setQueue(t, "team", 1)
	submitGPUs(t, kueue, job{name: "ones", size: 1, queue: "team", annotations: elasticInKueue(100)}, 1)
	untilAdmitted(t, "the job in the whole quota", map[string]int{"ones": cluster.GPUs})
	submitGPUs(t, kueue, job{name: "twos", size: 2, queue: "team", annotations: elasticInKueue(90)}, 2)
	untilAdmitted(t, "room for a job with pods of 2 GPUs", map[string]int{"ones": 4, "twos": 2})
}

// kueueCohort checks that a ClusterQueue uses idle quota of its cohort up to its borrowing limit, and releases it for a
// waiting job of the lender.
func kueueCohort(t *testing.T) {
	t.Helper()
	setQueue(t, "team", 2, fmt.Sprint(2*cluster.GPUs))
	setQueue(t, "lender", 6, "")
	job{name: "borrower", size: 2, queue: "team", annotations: elasticInKueue(100)}.submit(t, kueue)
	untilAdmitted(t, "the quota and the borrowing limit", map[string]int{"borrower": 4})
	setQueue(t, "team", 2, "")
	untilAdmitted(t, "the whole cohort", map[string]int{"borrower": 8})
	job{name: "owner", size: 4, queue: "lender", annotations: elasticInKueue(90)}.submit(t, kueue)
	untilAdmitted(t, "room for a job of the lender", map[string]int{"borrower": 4, "owner": 4})
}

// kueueCohortQuota checks that a job that may borrow without limit requests no more than the quota of its cohort.
func kueueCohortQuota(t *testing.T) {
	t.Helper()
	before := auditLength(t)
	setQueue(t, "team", 2, "")
	setQueue(t, "lender", 4, "")
	job{name: "borrower", size: 4, queue: "team", annotations: elasticInKueue(100)}.submit(t, kueue)
	untilAdmitted(t, "the quota of the cohort", map[string]int{"borrower": 4})
	sleep(t.Context(), 12*time.Second) // two cadences
	untilAdmitted(t, "the quota of the cohort", map[string]int{"borrower": 4})
	checkRequested(t, before, "borrower", 4)
}

// kueueNotOurs checks that a job with partial admission keeps its nodes, and that a job whose pods run in another cluster
// keeps its quota.
func kueueNotOurs(t *testing.T) {
	t.Helper()
	setQueue(t, "lender", 0)
	setQueue(t, "team", 4)
	partial := elastic(1)
	partial["kueue.x-k8s.io/job-min-parallelism"], partial["kueue.x-k8s.io/job-completions-equal-parallelism"] = "2", "true"
	job{name: "partial", size: 8, queue: "team", annotations: partial}.submit(t, kueue)
	untilAdmitted(t, "a job started with fewer pods", map[string]int{"partial": 4})
	untilEvent(t, "partial", "KueueOwned", "without partial admission")
	job{name: "first", size: 1, queue: "team", annotations: elasticInKueue(100)}.submit(t, kueue)
	sleep(t.Context(), 12*time.Second) // two cadences
	untilAdmitted(t, "the job is unchanged", map[string]int{"partial": 4})
	remove(t, "partial")
	untilAdmitted(t, "the next job", map[string]int{"first": 4})
	partial["kueue.x-k8s.io/job-min-parallelism"] = "1"
	job{name: "whole", size: 2, queue: "team", annotations: partial}.submit(t, kueue)
	untilAdmitted(t, "room for all pods of a job", map[string]int{"first": 2, "whole": 2})
	remove(t, "whole")
	remove(t, "first")

	before := auditLength(t)
	setQueue(t, "team", 8)
	job{name: "far", size: 4, queue: "team", annotations: elasticInKueue(1), managedBy: new("kueue.x-k8s.io/multikueue")}.submit(t, kueue)
	untilEvent(t, "far", "NotElastic", "another controller creates its pods")
	wait.For(t, "its quota", func() (bool, string) { got := admitted(t); return got["far"] == 4, fmt.Sprint(got) })
	job{name: "near", size: 2, queue: "team", annotations: elasticInKueue(100)}.submit(t, kueue)
	untilPods(t, kueue, map[string]int{"near": 4})
	sleep(t.Context(), 25*time.Second) // longer than the timeout for its pods, and two cadences
	untilPods(t, kueue, map[string]int{"near": 4})
	checkRequested(t, before, "near", 4)
}

// kueueRayCluster checks that an elastic RayCluster with one or two hosts per replica uses idle quota and shrinks for a
// waiting job by slices of its Workload, while its head keeps running. A waiting RayCluster gets nodes of a running Job,
// and Kueue starts it.
func kueueRayCluster(t *testing.T) {
	t.Helper()
	setQueue(t, "team", 8)
	rays := dynamicClient(t, kube.Config).Resource(resourceOf("RayCluster")).Namespace(kueue)
	for _, hosts := range []int{1, 2} {
		ray := operatedKind{container: "worker", queue: "team", job: fmt.Sprintf(`
apiVersion: ray.io/v1
spec:
  headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: head, image: head}]}}}
  workerGroupSpecs: [{groupName: gpu, replicas: SIZE, numOfHosts: %d, minReplicas: 0,
    maxReplicas: %d, rayStartParams: {}, template: POD}]`, hosts, 8/hosts)}
		must(t, ray.create(t, kueue, "RayCluster", "ray", 2/hosts, 100))
		untilAdmitted(t, "the RayCluster uses the whole quota", map[string]int{"ray": 8})
		before := runningHead(t)
		if before == "" {
			t.Error("its head is not running")
		}
		job{name: "second", size: 4, queue: "team", annotations: elasticInKueue(90)}.submit(t, kueue)
		untilAdmitted(t, "room for a waiting job", map[string]int{"ray": 4, "second": 4})
		remove(t, "second")
		untilAdmitted(t, "the RayCluster uses the whole quota again", map[string]int{"ray": 8})
		if after := runningHead(t); after != before {
			t.Errorf("its head changed from %q to %q", before, after)
		}
		must(t, rays.Delete(t.Context(), "ray", metav1.DeleteOptions{}))

		job{name: "first", size: 2, queue: "team", annotations: elasticInKueue(100)}.submit(t, kueue)
		untilAdmitted(t, "the job uses the whole quota", map[string]int{"first": 8})
		must(t, ray.create(t, kueue, "RayCluster", "ray", 4/hosts, 90))
		untilAdmitted(t, "room for a waiting RayCluster", map[string]int{"first": 4, "ray": 4})
		must(t, rays.Delete(t.Context(), "ray", metav1.DeleteOptions{}))
		remove(t, "first")
		untilAdmitted(t, "nothing", map[string]int{})
	}
}

// runningHead returns the UID of the running head of a RayCluster.
func runningHead(t *testing.T) (uid types.UID) {
	t.Helper()
	list, err := kube.Client.CoreV1().Pods(kueue).List(t.Context(), metav1.ListOptions{
		LabelSelector: "ray.io/node-type=head", FieldSelector: "status.phase=Running",
	})
	must(t, err)
	for i := range list.Items {
		uid = list.Items[i].UID
	}
	return uid
}

// kueueRayJob checks that the RayCluster of a RayJob keeps its size, because Kueue admits the workers of the RayJob, and that
// another elastic Job grows into the rest of the quota.
func kueueRayJob(t *testing.T) {
	t.Helper()
	setQueue(t, "team", 8)
	template := job{}.template(kueue)
	template.Spec.RestartPolicy = ""
	pod, err := json.Marshal(template)
	must(t, err)
	_, err = kubectl(t.Context(), kube, fmt.Sprintf(`
apiVersion: ray.io/v1
kind: RayJob
metadata:
  {name: rayjob, namespace: kueue, labels: {kueue.x-k8s.io/queue-name: team, %s: kueue}, annotations: {elastalloc.dev/work: 100h}}
spec:
  submissionMode: HTTPMode
  shutdownAfterJobFinishes: true
  entrypoint: train
  rayClusterSpec:
    headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: head, image: head}]}}}
    workerGroupSpecs: [{groupName: gpu, replicas: 2, minReplicas: 2, maxReplicas: 8,
      rayStartParams: {}, template: %s}]`, poolLabel, pod), "apply", "--server-side", "-f", "-")
	must(t, err)
	wait.For(t, "the workers of the RayJob", func() (bool, string) {
		byJob, running := pods(t, kueue)
		return running == 2, fmt.Sprint(byJob)
	})
	job{name: "first", size: 1, queue: "team", annotations: elasticInKueue(100)}.submit(t, kueue)
	wait.For(t, "the job in the rest of the quota", func() (bool, string) {
		byJob, running := pods(t, kueue)
		return running == 6 && byJob["first"] == 4, fmt.Sprint(byJob)
	})
	rays := dynamicClient(t, kube.Config).Resource(resourceOf("RayCluster")).Namespace(kueue)
	list, err := rays.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	untilEvent(t, list.Items[0].GetName(), "KueueOwned", "in its RayJob")
	rayJobs := schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayjobs"}
	must(t, dynamicClient(t, kube.Config).Resource(rayJobs).Namespace(kueue).Delete(t.Context(), "rayjob", metav1.DeleteOptions{}))
	untilAdmitted(t, "the job in all of the quota", map[string]int{"first": 8})
}

// kueuePreemption checks that an elastic Job that has grown is started again after Kueue preempted it, at a size that fits
// the quota that the other job leaves.
func kueuePreemption(t *testing.T) {
	t.Helper()
	setQueue(t, "team", 8)
	_, err := kubectl(t.Context(), kube, "", "patch", "clusterqueue", "team",
		"--type=merge", `-p={"spec":{"preemption":{"withinClusterQueue":"LowerPriority"}}}`)
	must(t, err)
	_, err = kubectl(t.Context(), kube, `
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 1000`, "apply", "--server-side", "-f", "-")
	must(t, err)
	job{name: "first", size: 2, queue: "team", annotations: elasticInKueue(100)}.submit(t, kueue)
	untilAdmitted(t, "the job in all of the quota", map[string]int{"first": 8})
	job{name: "urgent", size: 6, queue: "team", unlabelled: true, priority: "urgent"}.submit(t, kueue)
	untilAdmitted(t, "the urgent job, and the other in the rest of the quota", map[string]int{"first": 2, "urgent": 6})
	remove(t, "urgent")
	untilAdmitted(t, "the job in all of the quota again", map[string]int{"first": 8})
}

// kueueExample checks that the API server and the webhooks of Kueue accept the manifests in examples/whole-cluster, and the chart
// accepts its values.
func kueueExample(t *testing.T) {
	t.Helper()
	const manifests = "/examples/whole-cluster/"
	must(t, helm(t.Context(), "install", "whole-cluster", "deploy/helm/elastalloc-controller", "--namespace",
		"whole-cluster", "--create-namespace", "--dry-run=server", "-f", root+manifests+"values.yaml"))
	for _, team := range []string{"vision", "language"} {
		_, err := kubectl(t.Context(), kube, "", "create", "namespace", team)
		must(t, err)
		t.Cleanup(func() { _, _ = kubectl(context.Background(), kube, "", "delete", "namespace", team, "--wait=false") })
	}
	wait.For(t, "Kueue's webhooks", func() (bool, string) {
		_, err := kubectl(t.Context(), kube, "", "apply", "--server-side", "-f", root+manifests+"kueue.yaml", "-f", root+manifests+"jobs.yaml")
		return err == nil, fmt.Sprint(err)
	})
	t.Cleanup(func() {
		_, _ = kubectl(context.Background(), kube, "", "delete", "--wait=false",
			"-f", root+manifests+"kueue.yaml", "-f", root+manifests+"jobs.yaml")
	})
}
