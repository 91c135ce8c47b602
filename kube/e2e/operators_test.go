//go:build linux

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
)

// operatedKind is a kind of jobs with its own controller.
type operatedKind struct {
	operator string
	// kind is the kind of its jobs; "" means its name in operatedKinds.
	kind string
	// before is a manifest to apply first. job is the manifest of a suspended job with SIZE nodes and the pod template
	// POD.
	before, job string
	// container is the name of the container that the operator requires.
	container string
	// sizes are the sizes of the two jobs.
	sizes [2]int
	// invalid is the name of a job that its webhooks reject; "" means none.
	invalid string
	// nodes is the value of PET_NNODES that the operator sets for torchrun.
	nodes string
	// queue is the LocalQueue of Kueue for elastic jobs; "" means none.
	queue string
	// forbidden contains patches of its specification that the account of the controller must not make. Trainer
	// rejects such patches of a TrainJob from all accounts.
	forbidden []string
}

// rayForbidden are the forbidden patches of a RayCluster.
var rayForbidden = []string{
	`{"spec":{"enableInTreeAutoscaling":true}}`, `{"spec":{"headGroupSpec":{"rayStartParams":{"x":"y"}}}}`,
	`[{"op":"replace","path":"/spec/workerGroupSpecs/0/maxReplicas","value":64}]`,
	`[{"op":"add","path":"/spec/workerGroupSpecs/0/template/metadata","value":{"labels":{"x":"y"}}}]`,
	`[{"op":"copy","from":"/spec/workerGroupSpecs/0","path":"/spec/workerGroupSpecs/1"}]`,
	`[{"op":"add","path":"/spec/workerGroupSpecs/0/scaleStrategy","value":{"workersToDelete":["first-0"]}}]`,
}

var operatedKinds = map[string]operatedKind{
	"PyTorchJob": {
		operator: trainingOperator, invalid: "1st", container: "pytorch", sizes: [2]int{8, 4}, nodes: "1:8",
		forbidden: []string{
			`{"spec":{"elasticPolicy":{"maxReplicas":64}}}`, `{"spec":{"runPolicy":{"cleanPodPolicy":"All"}}}`,
			`{"spec":{"pytorchReplicaSpecs":{"Worker":{"restartPolicy":"Never"}}}}`,
			`{"spec":{"pytorchReplicaSpecs":{"Worker":{"template":{"metadata":{"labels":{"x":"y"}}}}}}}`,
		},
		job: `
apiVersion: kubeflow.org/v1
spec:
  runPolicy: {suspend: true}
  elasticPolicy: {minReplicas: 1, maxReplicas: 8, maxRestarts: 100, rdzvBackend: c10d}
  pytorchReplicaSpecs: {Worker: {replicas: SIZE, restartPolicy: OnFailure, template: POD}}`,
	},
	"RayCluster": {
		operator: kubeRay, container: "worker", sizes: [2]int{4, 2},
		forbidden: rayForbidden,
		job: `
apiVersion: ray.io/v1
spec:
  suspend: true
  headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: head, image: head}]}}}
  workerGroupSpecs: [{groupName: gpu, replicas: SIZE, numOfHosts: 2, minReplicas: 0, maxReplicas: 4, rayStartParams: {}, template: POD}]`,
	},
	"RayClusterOfOneHost": {
		operator: kubeRay, kind: "RayCluster", container: "worker", sizes: [2]int{8, 4},
		forbidden: rayForbidden,
		job: `
apiVersion: ray.io/v1
spec:
  suspend: true
  headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: head, image: head}]}}}
  workerGroupSpecs: [{groupName: gpu, replicas: SIZE, minReplicas: 0, maxReplicas: 8, rayStartParams: {}, template: POD}]`,
	},
	// It starts with this number of nodes, and is resized while it runs.
	"TrainJob": {
		operator: trainer, invalid: "earlier-than-its-runtime", container: "node", sizes: [2]int{4, 4}, nodes: "4",
		before: `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
spec:
  mlPolicy: {torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
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

// operatedPool returns the pool of an entry of operatedKinds.
func operatedPool(name string) string { return strings.ToLower(name) + "s" }

// start starts the controller of the kind, until the test ends.
func (o operatedKind) start(t *testing.T) {
	t.Helper()
	operator, err := startOperator(t.Context(), kube, o.operator)
	must(t, err)
	t.Cleanup(func() {
		operator.Kill()
		if t.Failed() {
			t.Logf("%s:\n%s", o.operator, operator.Tail())
		}
	})
}

// prepare waits for the webhooks of the kind, if it has any, and creates the object that its jobs need.
func (o operatedKind) prepare(t *testing.T, pool, kind string) {
	t.Helper()
	if o.invalid != "" {
		wait.For(t, "a webhook that rejects "+o.invalid, func() (bool, string) {
			err := o.create(t, pool, kind, o.invalid, 1, 1, metav1.DryRunAll)
			return err != nil && strings.Contains(err.Error(), `admission webhook "validator.`), fmt.Sprint(err)
		})
	}
	if o.before != "" {
		must(t, o.create(t, pool, "", "runtime", 0, 0))
	}
}

// checkShortJobs leaves one of the two jobs little work, three times, and checks that this job gets most of the nodes.
// Each time, it kills the controller, of which process is the first, and kills another one after its first writes.
func checkShortJobs(t *testing.T, c controller, process *cluster.Process, nodes int) {
	t.Helper()
	for round, short := range []string{"second", "first", "second"} {
		process.Kill()
		setRemaining(t, c.kinds, c.pool, short)
		g := newKillingProxy(t, c.pool, round+1)
		g.start(t, c)
		wait.Until(t, "the controller is killed", g.killed)
		process = c.start(t)
		var got map[string]int
		wait.For(t, "nodes for the job with little work left", func() (bool, string) {
			setRemaining(t, c.kinds, c.pool, short)
			got = untilDecided(t, c.pool, 2, nodes)
			return got[short] > nodes/2, fmt.Sprint(got)
		})
		t.Logf("%s has little work left: %v", short, got)
	}
}

// checkPodReplaced checks that a deleted pod is replaced.
func checkPodReplaced(t *testing.T, pool string, nodes int) {
	t.Helper()
	list, err := kube.Client.CoreV1().Pods(pool).List(t.Context(), metav1.ListOptions{FieldSelector: "status.phase=Running"})
	must(t, err)
	must(t, kube.Client.CoreV1().Pods(pool).Delete(t.Context(), list.Items[0].Name, metav1.DeleteOptions{}))
	wait.For(t, "the pods after one was deleted", func() (bool, string) {
		byJob, running := pods(t, pool)
		return running == nodes, fmt.Sprint(byJob)
	})
}

// checkStatusSource checks that an event names the status as the source of the remaining time of the first job.
func checkStatusSource(t *testing.T, pool string) {
	t.Helper()
	events := eventsOf(t, pool, "first")
	if !slices.ContainsFunc(events, func(e string) bool { return strings.Contains(e, "remaining time by status") }) {
		t.Errorf("no event names the status as the source of the remaining time: %q", events)
	}
}

// checkForbidden checks that the policy rejects the forbidden patches of the first job.
func (o operatedKind) checkForbidden(t *testing.T, pool, kind string) {
	t.Helper()
	config := asAccount(t, release)
	a := account{clientOf(t, config), dynamicClient(t, config), pool}
	for _, patch := range append([]string{`{"metadata":{"labels":{"x":"y"}}}`,
		`{"metadata":{"annotations":{"elastalloc.dev/work":"2h"}}}`}, o.forbidden...) {
		if err := a.patch(resourceOf(kind), "first", patch); err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			t.Errorf("the policy does not reject %s of its account: %v", patch, err)
		}
	}
}

// TestOperators checks that the real controllers of other kinds of jobs apply decisions. Two jobs of a kind share a pool
// whose nodes are drained and uncordoned, and alternately have little work left. The controller of elastalloc is killed
// after its first writes.
func TestOperators(t *testing.T) {
	for name, test := range operatedKinds {
		t.Run(name, func(t *testing.T) {
			const nodes = 8
			kind, pool := cmp.Or(test.kind, name), operatedPool(name)
			test.start(t)
			newPool(t, pool, nodes)
			test.prepare(t, pool, kind)
			before := auditLength(t)
			h := record(t, pool)
			c := controller{pool: pool, account: release, kinds: kind}
			process := c.start(t)

			must(t, test.create(t, pool, kind, "first", test.sizes[0], 10))
			if got := untilDecided(t, pool, 1, nodes); got["first"] != nodes {
				t.Errorf("a single job gets %v; want all nodes", got)
			}
			must(t, test.create(t, pool, kind, "second", test.sizes[1], 12))
			untilDecided(t, pool, 2, nodes)
			drain(t, pool, true)
			untilDecided(t, pool, 2, nodes/2)
			drain(t, pool, false)
			checkShortJobs(t, c, process, nodes)
			// KubeRay replaces all hosts of a group before all of them have terminated. After a drain, it creates pods of a
			// replica before all of its old pods have terminated.
			if name != "RayCluster" {
				checkPodReplaced(t, pool, nodes)
				t.Log(h.check(t))
			}
			t.Logf("%d writes of jobs", checkWrites(t, before, release, pool))
			checkEnvironment(t, pool, test.nodes)
			if kind == "TrainJob" {
				checkStatusSource(t, pool)
			}
			test.checkForbidden(t, pool, kind)
		})
	}
}

// create creates a job with the given size and hours of work, or the object that it needs if kind is "".
func (o operatedKind) create(t *testing.T, pool, kind, name string, size, hours int, dryRun ...string) error {
	t.Helper()
	template := job{pods: map[string]string{"test/stop-delay": "1s"}}.template(pool)
	template.Spec.RestartPolicy, template.Spec.Containers[0].Name = "", o.container
	pod, err := json.Marshal(template)
	must(t, err)
	text, resource := o.before, schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainingruntimes"}
	if kind != "" {
		text, resource = o.job+"\nkind: "+kind, resourceOf(kind)
	}
	text = strings.NewReplacer("POD", string(pod), "SIZE", fmt.Sprint(size)).Replace(text)
	var object unstructured.Unstructured
	must(t, yaml.Unmarshal([]byte(text), &object.Object))
	object.SetName(name)
	if kind != "" {
		annotations := elastic(hours)
		delete(annotations, "elastalloc.dev/nodes") // The kind defines the sizes.
		labels := map[string]string{poolLabel: pool}
		if o.queue != "" {
			annotations["kueue.x-k8s.io/elastic-job"], labels["kueue.x-k8s.io/queue-name"] = "true", o.queue
		}
		object.SetAnnotations(annotations)
		object.SetLabels(labels)
	}
	_, err = dynamicClient(t, kube.Config).Resource(resource).Namespace(pool).
		Create(t.Context(), &object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun})
	return err
}

// setRemaining sets the remaining work of one of the two jobs to one hour and of the other to 300 hours: in the status of
// TrainJobs, as a trainer does, and otherwise in annotations. The short job has the weight 10, since the fair share of the
// long job is worth more to one of weight 1.
func setRemaining(t *testing.T, kind, pool, short string) {
	t.Helper()
	jobs := dynamicClient(t, kube.Config).Resource(resourceOf(kind)).Namespace(pool)
	for _, name := range []string{"first", "second"} {
		hours, weight := 300, 1
		if name == short {
			hours, weight = 1, 10
		}
		annotations := fmt.Sprintf(`"elastalloc.dev/weight":"%d"`, weight)
		if kind == "TrainJob" {
			reportStatus(t, jobs, name, hours)
		} else {
			annotations += fmt.Sprintf(`,"elastalloc.dev/work":"%dh"`, hours)
		}
		_, err := jobs.Patch(t.Context(), name, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{`+annotations+`}}}`), metav1.PatchOptions{})
		must(t, err)
	}
}

// reportStatus writes the status that the status server of Trainer writes after a report of a trainer. The server itself
// cannot run here, because it reads the token of its pod.
func reportStatus(t *testing.T, jobs dynamic.ResourceInterface, name string, hours int) {
	t.Helper()
	_, err := jobs.ApplyStatus(t.Context(), name, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
		"metadata": map[string]any{"name": name},
		"status": map[string]any{"trainerStatus": map[string]any{
			"estimatedRemainingSeconds": int64(hours) * 3600, "lastUpdatedTime": time.Now().UTC().Format(time.RFC3339),
		}},
	}}, metav1.ApplyOptions{FieldManager: "trainer-status", Force: true})
	must(t, err)
}

// checkEnvironment checks the number of nodes in the environment of torchrun in the pods of a pool.
func checkEnvironment(t *testing.T, pool, want string) {
	t.Helper()
	list, err := kube.Client.CoreV1().Pods(pool).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for i := range list.Items {
		env := list.Items[i].Spec.Containers[0].Env
		at := slices.IndexFunc(env, func(v corev1.EnvVar) bool { return v.Name == "PET_NNODES" })
		if at < 0 && want != "" || at >= 0 && env[at].Value != want {
			t.Errorf("%s has the environment %v; want PET_NNODES %q", list.Items[i].Name, env, want)
		}
	}
}
