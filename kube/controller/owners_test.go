package controller_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/kinds"
)

// create creates objects of YAML in the namespace default, in which POD stands for a pod template of one node.
func (c *cluster) create(manifests ...string) {
	c.t.Helper()
	for _, text := range manifests {
		var object unstructured.Unstructured
		text = strings.ReplaceAll(text, "POD", `{spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: "8"}}}]}}`)
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			c.t.Fatal(err)
		}
		object.SetNamespace("default")
		if err := c.client.Create(c.t.Context(), &object); err != nil {
			c.t.Fatal(err)
		}
	}
}

// field returns a field of an object of the namespace default.
func (c *cluster) field(apiVersion, kind, name string, path ...string) any {
	c.t.Helper()
	var object unstructured.Unstructured
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &object); err != nil {
		c.t.Fatal(err)
	}
	var value any = object.Object
	for _, key := range path {
		if list, isList := value.([]any); isList {
			value = list[0]
		}
		value = value.(map[string]any)[key]
	}
	return value
}

// TestChildOfAnother checks that a TrainJob is resized through the JobSet that it owns, and not through a JobSet of the
// same name that belongs to somebody else.
func TestChildOfAnother(t *testing.T) {
	t.Parallel()
	const jobSet = `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a, uid: uid-set, OWNER},
		spec: {replicatedJobs: [{name: node, template: {spec: {completionMode: Indexed, parallelism: 1, completions: 1, template: POD}}}]}}`
	for owner, resized := range map[string]bool{
		"":                     false,
		"TrainJob, uid: uid-x": false,
		"JobSet, uid: uid-x":   false,
		"TrainJob, uid: uid-a": true,
	} {
		t.Run(owner, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 8)
			c.kinds = kinds.Named([]string{"TrainJob"})
			references := "labels: {}"
			if owner != "" {
				references = fmt.Sprintf("ownerReferences: [{kind: %s, name: a, controller: true}]", owner)
			}
			c.create(`{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, spec: {trainer: {numNodes: 1}},
				metadata: {name: a, uid: uid-a, labels: {elastalloc.dev/pool: training},
				annotations: {elastalloc.dev/work: 1000h, elastalloc.dev/nodes: 1-8}}}`,
				strings.Replace(jobSet, "OWNER", references, 1))
			c.start()
			c.passes(10)
			size := c.field("jobset.x-k8s.io/v1alpha2", "JobSet", "a", "spec", "replicatedJobs", "template", "spec", "parallelism")
			if (fmt.Sprint(size) != "1") != resized {
				t.Errorf("the JobSet has %v nodes; want a resize: %v", size, resized)
			}
		})
	}
}

// TestRayJobOver checks that the workers of a RayCluster are given up once its RayJob has completed or failed, and not
// while it runs or retries.
func TestRayJobOver(t *testing.T) {
	t.Parallel()
	for _, minimum := range []int{0, 1} {
		for status, want := range map[string]int{"Running": 2, "Retrying": 2, "Complete": minimum, "Failed": minimum} {
			t.Run(fmt.Sprint(status, minimum), func(t *testing.T) {
				t.Parallel()
				c := newCluster(t, 2)
				c.kinds, c.step = kinds.Named([]string{"RayCluster"}), 20*time.Second
				c.create(`{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: job, uid: uid-job}, status: {jobDeploymentStatus: `+status+`}}`,
					fmt.Sprintf(`{apiVersion: ray.io/v1, kind: RayCluster,
  spec: {workerGroupSpecs: [{groupName: gpu, replicas: 2, minReplicas: %d, maxReplicas: 2, template: POD}]},
					metadata: {name: a, uid: uid-a, labels: {elastalloc.dev/pool: training},
					annotations: {elastalloc.dev/work: 1000h, elastalloc.dev/nodes: "1,2"},
						creationTimestamp: "2026-03-01T12:00:00Z", ownerReferences: [{kind: RayJob, name: job, uid: uid-job, controller: true}]}}`, minimum))
				for i := range 2 {
					pod := worldtest.Pod(fmt.Sprint("a-", i), fmt.Sprintf("node-%03d", i), map[string]string{"ray.io/cluster": "a", "ray.io/group": "gpu"})
					if err := c.client.Create(t.Context(), pod); err != nil {
						t.Fatal(err)
					}
				}
				c.start()
				c.passUntil(30 * time.Minute)
				replicas := c.field("ray.io/v1", "RayCluster", "a", "spec", "workerGroupSpecs", "replicas")
				if fmt.Sprint(replicas) != fmt.Sprint(want) {
					t.Errorf("it has %v workers; want %d\n%s", replicas, want, c.events())
				}
			})
		}
	}
}
