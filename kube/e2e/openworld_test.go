//go:build linux

package e2e

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

// stagedJobs are jobs whose 4 workers start after another replicated job has completed.
var stagedJobs = map[string]operatedKind{
	"JobSet": {
		container: "node",
		job: `
apiVersion: jobset.x-k8s.io/v1alpha2
spec:
  suspend: true
  replicatedJobs:
  - name: init
    template: {spec: {template: {metadata: {annotations: {test/run-for: 40s}},
      spec: {restartPolicy: OnFailure, containers: [{name: init, image: init}]}}}}
  - name: node
    dependsOn: [{name: init, status: Complete}]
    template: {spec: {completionMode: Indexed, parallelism: SIZE, completions: SIZE, podReplacementPolicy: Failed, template: POD}}`,
	},
	"TrainJob": {
		operator: trainer, container: "node",
		before: `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
spec:
  mlPolicy: {torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: dataset-initializer
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}
          spec: {template: {metadata: {annotations: {test/run-for: 40s}}, spec: {containers: [{name: dataset-initializer, image: init}]}}}
      - name: node
        dependsOn: [{name: dataset-initializer, status: Complete}]
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {podReplacementPolicy: Failed, template: POD}`,
		job: `
apiVersion: trainer.kubeflow.org/v1alpha1
spec:
  suspend: true
  runtimeRef: {kind: TrainingRuntime, name: runtime}
  trainer: {numNodes: SIZE}`,
	},
}

// TestPodsThatStartLater checks that a JobSet with dependsOn, and a TrainJob with an initializer, are not suspended while
// their workers do not exist, that another job uses the nodes meanwhile, and that the workers run afterwards.
func TestPodsThatStartLater(t *testing.T) {
	for kind, test := range stagedJobs {
		t.Run(kind, func(t *testing.T) {
			if test.operator != "" {
				operator, err := startOperator(t.Context(), kube, test.operator)
				must(t, err)
				t.Cleanup(operator.Kill)
			}
			pool := "later-" + strings.ToLower(kind)
			newPool(t, pool, 8)
			if test.before != "" {
				wait.For(t, "a TrainingRuntime", func() (bool, string) {
					err := test.create(t, pool, "", "runtime", 4, 0)
					return err == nil, fmt.Sprint(err)
				})
			}
			before := auditLength(t)
			wait.For(t, "a job that starts later", func() (bool, string) {
				err := test.create(t, pool, kind, "later", 4, 50)
				return err == nil, fmt.Sprint(err)
			})
			job{name: "other", size: 4, annotations: elastic(100)}.submit(t, pool)
			controller{pool: pool, account: release, kinds: "Job, " + kind, settle: "5s"}.start(t)
			wait.For(t, "the other job on all nodes", func() (bool, string) {
				byJob, running := pods(t, pool)
				return byJob["other"] == 8, fmt.Sprintf("%v, %d run", byJob, running)
			})
			wait.For(t, "the workers", func() (bool, string) {
				list, err := kube.Client.CoreV1().Pods(pool).List(t.Context(), metav1.ListOptions{
					LabelSelector: "jobset.sigs.k8s.io/replicatedjob-name=node", FieldSelector: "status.phase=Running",
				})
				must(t, err)
				return len(list.Items) > 0, fmt.Sprintf("%d workers run", len(list.Items))
			})
			for _, w := range writesSince(t, before, release) {
				if w.ObjectRef.Namespace == pool && w.ObjectRef.Name == "later" &&
					strings.Contains(string(w.RequestObject), `"/spec/suspend","value":true`) {
					t.Errorf("the controller suspended it: %s", w.RequestObject)
				}
			}
		})
	}
}

// TestFailedIndex checks that a Job keeps its other pods if an index fails for good.
func TestFailedIndex(t *testing.T) {
	const pool = "index"
	newPool(t, pool, 4)
	j := job{name: "indexed", size: 4, running: true, annotations: elastic(100)}
	spec := j.indexed(pool)
	spec.BackoffLimitPerIndex, spec.MaxFailedIndexes = new(int32(0)), new(int32(1))
	_, err := kube.Client.BatchV1().Jobs(pool).Create(t.Context(),
		&batchv1.Job{ObjectMeta: j.metadata(pool), Spec: spec}, metav1.CreateOptions{})
	must(t, err)
	untilPods(t, pool, map[string]int{"indexed": 4})
	controller{pool: pool, account: release, settle: "5s"}.start(t)
	list, err := kube.Client.CoreV1().Pods(pool).List(t.Context(), metav1.ListOptions{
		LabelSelector: batchv1.JobCompletionIndexAnnotation + "=0",
	})
	must(t, err)
	pod := &list.Items[0]
	pod.Status.Phase = corev1.PodFailed
	_, err = kube.Client.CoreV1().Pods(pool).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	must(t, err)
	wait.For(t, "an event Completing", func() (bool, string) {
		list := eventsOf(t, pool, "indexed")
		return slices.ContainsFunc(list,
			func(e string) bool { return strings.HasPrefix(e, "Completing: keeps its 4 nodes: 1 of its 4 pods") }), strings.Join(list, "\n")
	})
	sleep(t.Context(), 20*time.Second)
	untilPods(t, pool, map[string]int{"indexed": 3})
}

// TestSlowWebhook checks that other jobs start although an admission webhook does not respond to writes on one job.
func TestSlowWebhook(t *testing.T) {
	const pool = "webhook"
	newPool(t, pool, 8)
	closed := make(chan struct{})
	webhook := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-closed:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		close(closed)
		webhook.Close()
	})
	job{name: "slow", size: 2, annotations: elastic(50)}.submit(t, pool)
	_, err := kube.Client.BatchV1().Jobs(pool).Patch(t.Context(), "slow", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"test/slow":"true"}}}`), metav1.PatchOptions{})
	must(t, err)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw})
	_, err = kubectl(t.Context(), kube, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: slow}
webhooks:
  - name: slow.example.com
    clientConfig: {url: %q, caBundle: %s}
    rules: [{apiGroups: [batch], apiVersions: [v1], operations: [UPDATE], resources: [jobs]}]
    objectSelector: {matchLabels: {test/slow: "true"}}
    timeoutSeconds: 30
    failurePolicy: Fail
    sideEffects: None
    admissionReviewVersions: [v1]
`, webhook.URL, base64.StdEncoding.EncodeToString(authority)), "create", "-f", "-")
	must(t, err)
	t.Cleanup(func() {
		_, _ = kubectl(t.Context(), kube, "", "delete", "validatingwebhookconfiguration", "slow")
	})
	job{name: "other", size: 2, annotations: elastic(50)}.submit(t, pool)
	controller{pool: pool, account: release}.start(t)
	wait.For(t, "the other job", func() (bool, string) {
		byJob, running := pods(t, pool)
		return byJob["other"] == 8, fmt.Sprintf("%v, %d run", byJob, running)
	})
	wait.For(t, "an event Refused", func() (bool, string) {
		list := eventsOf(t, pool, "slow")
		return slices.ContainsFunc(list, func(e string) bool { return strings.HasPrefix(e, "Refused: ") }), strings.Join(list, "\n")
	})
}

// kueueFlavors checks that a job grows within the quota of its flavor and its cohort, and that it waits with a size that is
// admitted when the rest of the cohort takes its quota back.
func kueueFlavors(t *testing.T) {
	t.Helper()
	const queues = `
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: here}
spec: {nodeLabels: {pool: kueue}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: away}
spec: {nodeLabels: {pool: away}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: borrower}
spec:
  namespaceSelector: {}
  cohortName: flavors
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors:
        - {name: here, resources: [{name: nvidia.com/gpu, nominalQuota: 16}]}
        - {name: away, resources: [{name: nvidia.com/gpu, nominalQuota: 64}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: lender}
spec:
  namespaceSelector: {}
  cohortName: flavors
  preemption: {reclaimWithinCohort: Any}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors: [{name: here, resources: [{name: nvidia.com/gpu, nominalQuota: 32}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: borrower, namespace: kueue}
spec: {clusterQueue: borrower}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lender, namespace: kueue}
spec: {clusterQueue: lender}
`
	wait.For(t, "Kueue's webhooks", func() (bool, string) {
		_, err := kubectl(t.Context(), kube, queues, "apply", "--server-side", "-f", "-")
		return err == nil, fmt.Sprint(err)
	})
	before := auditLength(t)
	job{name: "first", size: 2, queue: "borrower", annotations: elasticInKueue(100)}.submit(t, kueue)
	untilAdmitted(t, "the first job borrows", map[string]int{"first": 4})
	sleep(t.Context(), 12*time.Second) // two cadences
	for _, w := range writesSince(t, before, release) {
		if w.ObjectRef.Name == "first" && strings.Contains(string(w.RequestObject), `"/spec/parallelism","value":8`) {
			t.Errorf("the controller requests 8 nodes with a quota of 6: %s", w.RequestObject)
		}
	}
	job{name: "reclaims", size: 4, queue: "lender", unlabelled: true}.submit(t, kueue)
	untilAdmitted(t, "the first job waits with a size that is admitted", map[string]int{"first": 2, "reclaims": 4})
	remove(t, "reclaims")
	remove(t, "first")
}
