//go:build linux

package e2e

import (
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/elastalloc/elastalloc/internal/wait"
	"github.com/elastalloc/elastalloc/kube/kinds"
)

// TestDefinitions resizes, pauses and resumes objects of the kinds whose controllers do not
// run here, by their real definitions on the real API server, which refuses fields that they
// do not have, values of other types and what their rules forbid.
func TestDefinitions(t *testing.T) {
	const pool = "definitions"
	newPool(t, pool, 1)
	template := job{}.template(pool)
	pods, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&template)
	must(t, err)
	unstructured.RemoveNestedField(pods, "metadata", "creationTimestamp")
	for name, test := range map[string]struct {
		resource, object string
		// template is where the pods' goes.
		template func(spec map[string]any) map[string]any
	}{
		"RayCluster": {"rayclusters", `
apiVersion: ray.io/v1
spec:
  headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: head, image: head}]}}}
  workerGroupSpecs: [{groupName: gpu, replicas: 4, minReplicas: 1, maxReplicas: 8, numOfHosts: 2, rayStartParams: {}}]`,
			func(spec map[string]any) map[string]any { return spec["workerGroupSpecs"].([]any)[0].(map[string]any) }},
		"PyTorchJob": {"pytorchjobs", `
apiVersion: kubeflow.org/v1
spec:
  elasticPolicy: {minReplicas: 1, maxReplicas: 8}
  pytorchReplicaSpecs: {Worker: {replicas: 8}}`,
			func(spec map[string]any) map[string]any {
				return spec["pytorchReplicaSpecs"].(map[string]any)["Worker"].(map[string]any)
			}},
		// Its size is that of a real JobSet.
		"TrainJob": {"trainjobs", `
apiVersion: trainer.kubeflow.org/v1alpha1
spec:
  runtimeRef: {name: torch-distributed}
  trainer: {numNodes: 8}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			kind := kinds.Named([]string{name})[0]
			definition := filepath.Join(root, ".tools", "kube", "manifests", test.resource+"-crd.yaml")
			_, err := kube.Kubectl(ctx, "", "apply", "--server-side", "-f", definition)
			must(t, err)
			client := dynamicClient(t, kube.Config).Resource(kind.GVK.GroupVersion().WithResource(test.resource)).Namespace(pool)
			sets := dynamicClient(t, kube.Config).Resource(jobSets).Namespace(pool)
			var object unstructured.Unstructured
			must(t, yaml.Unmarshal([]byte(test.object), &object.Object))
			object.SetKind(name)
			object.SetName("train")
			if test.template != nil {
				test.template(object.Object["spec"].(map[string]any))["template"] = pods
			} else {
				job{name: "train", size: 8, running: true}.submitJobSet(t, pool)
			}
			wait.For(t, name+" served", func() (bool, string) {
				_, err = client.Create(ctx, &object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
				return !apierrors.IsNotFound(err), "its definition is not in force yet"
			})
			must(t, err)

			// read returns its shape as it is now, and the objects that say so.
			read := func() (s kinds.Shape, job, child *unstructured.Unstructured) {
				job, err := client.Get(ctx, "train", metav1.GetOptions{})
				must(t, err)
				if kind.Child != nil {
					child, err = sets.Get(ctx, "train", metav1.GetOptions{})
					must(t, err)
				}
				s, err = kind.Read(job, child, "nvidia.com/gpu")
				must(t, err)
				return s, job, child
			}
			for _, nodes := range []int{4, 0, 8, 2} {
				// JobSet's controller writes to its objects at the same time.
				wait.For(t, name+" resized", func() (bool, string) {
					s, job, child := read()
					for _, patch := range kind.Resize(s, nodes) {
						of, to := client, job
						if patch.Child {
							of, to = sets, child
						}
						body, err := patch.JSON(to.GetResourceVersion())
						must(t, err)
						_, err = of.Patch(ctx, "train", types.JSONPatchType, body, metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict})
						if apierrors.IsConflict(err) {
							return false, err.Error()
						}
						if err != nil {
							t.Fatalf("%d nodes: %s: %v", nodes, body, err)
						}
					}
					return true, ""
				})
				if kind.Child != nil && nodes == 0 {
					// What Trainer does: a suspended job has its own number of nodes again.
					_, err := sets.Patch(ctx, "train", types.JSONPatchType, []byte(`[
						{"op": "replace", "path": "/spec/replicatedJobs/0/template/spec/parallelism", "value": 8},
						{"op": "replace", "path": "/spec/replicatedJobs/0/template/spec/completions", "value": 8}]`), metav1.PatchOptions{})
					must(t, err)
				}
				if s, _, _ := read(); s.Suspended != (nodes == 0) || nodes != 0 && s.Size != nodes {
					t.Errorf("resized to %d nodes it has %d, suspended %t", nodes, s.Size, s.Suspended)
				}
			}
			if name != "TrainJob" {
				return
			}
			_, err = client.Patch(ctx, "train", types.MergePatchType, []byte(
				`{"status":{"trainerStatus":{"progressPercentage":40,"estimatedRemainingSeconds":795,"lastUpdatedTime":"2026-03-01T12:00:00Z"}}}`),
				metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}, "status")
			must(t, err)
			if s, _, _ := read(); s.Report == nil || !s.Report.Known || s.Report.Remaining.Seconds() != 795 || s.Report.Progress != 0.4 {
				t.Errorf("its report is %+v", s.Report)
			}
		})
	}
}
