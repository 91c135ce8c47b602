package world_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/world"
)

// TestLabeledParts checks that a job whose owner has the label as well has no pods, occupies no nodes, and that its
// owner is decided as if only the owner had the label.
func TestLabeledParts(t *testing.T) {
	t.Parallel()
	owned := func(job *unstructured.Unstructured, kind string, owner types.UID) *unstructured.Unstructured {
		job.SetOwnerReferences([]metav1.OwnerReference{{Kind: kind, UID: owner, Controller: new(true)}})
		return job
	}
	set := func(name string) *unstructured.Unstructured {
		job := worldtest.Job(name, 4, map[string]string{"work": "10h"})
		job.SetKind("JobSet")
		template := job.Object["spec"]
		job.Object["spec"] = map[string]any{"replicatedJobs": []any{map[string]any{"name": "node", "template": map[string]any{"spec": template}}}}
		return job
	}
	object := func(kind string, job, child *unstructured.Unstructured) world.Object {
		return world.Object{Kind: kinds.Named([]string{kind})[0], Job: job, Child: child}
	}
	train := worldtest.Job("a", 4, map[string]string{"work": "10h"})
	train.Object["spec"] = map[string]any{"trainer": map[string]any{"numNodes": int64(4)}}
	for name, objects := range map[string][]world.Object{
		"JobSet": {
			object("JobSet", set("a"), nil), object("Job", owned(worldtest.Job("a-node-0", 4, nil), "JobSet", "uid-a"), nil),
		},
		"TrainJob": {
			object("TrainJob", train, owned(set("a"), "TrainJob", "uid-a")),
			object("JobSet", owned(set("a"), "TrainJob", "uid-a"), nil),
			object("Job", owned(worldtest.Job("a-node-0", 4, nil), "JobSet", "uid-a"), nil),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := world.Input{Now: worldtest.Begin(), Pool: worldtest.Pool(), Jobs: objects, ETAs: new(eta.Estimator)}
			for i := range 4 {
				in.Nodes = append(in.Nodes, worldtest.Node(fmt.Sprint("node-", i)))
				in.Pods = append(in.Pods, worldtest.Pod(fmt.Sprint("a-", i), fmt.Sprint("node-", i), map[string]string{
					"jobset.sigs.k8s.io/jobset-name": "a", "jobset.sigs.k8s.io/replicatedjob-name": "node", "batch.kubernetes.io/job-name": "a-node-0",
				}))
			}
			for range 20 { // The result must not depend on the order of a map.
				w := world.Observe(in)
				for _, j := range w.Jobs {
					part := j.Kind.Name != name
					switch {
					case part && (j.Pinned != world.Owned || j.OccupiedNodes() != 0 || j.Pods.Seen != 0):
						t.Fatalf("%s: pinned %q, occupies %d nodes; want Owned and none", j.ID, j.Pinned, j.OccupiedNodes())
					case !part && (j.Pinned != "" || j.Pods.Running != 4):
						t.Fatalf("%s: pinned %q, %d pods run; want 4", j.ID, j.Pinned, j.Pods.Running)
					}
				}
				if w.Free() != 0 {
					t.Fatalf("%d nodes are free; want none", w.Free())
				}
			}
		})
	}
}

// TestPodsOfTwoJobs checks that a pod whose labels fit two jobs belongs to the job that owns it, otherwise to the
// older one.
func TestPodsOfTwoJobs(t *testing.T) {
	t.Parallel()
	torch := worldtest.Job("a", 1, map[string]string{"work": "10h"})
	torch.SetUID("uid-torch")
	torch.Object["spec"] = map[string]any{
		"elasticPolicy": map[string]any{"minReplicas": int64(1), "maxReplicas": int64(4), "maxRestarts": int64(10)},
		"pytorchReplicaSpecs": map[string]any{
			"Worker": map[string]any{"replicas": int64(1), "template": map[string]any{"spec": worldtest.PodSpec(8)}},
		},
	}
	for owner, want := range map[types.UID]string{"uid-a": "Job", "uid-torch": "PyTorchJob", "": "Job"} {
		pod := worldtest.Pod("a-0", "node", map[string]string{
			"batch.kubernetes.io/job-name": "a", "training.kubeflow.org/job-name": "a", "training.kubeflow.org/replica-type": "worker",
		})
		pod.OwnerReferences[0].UID = owner
		for range 20 {
			w := world.Observe(world.Input{
				Now: worldtest.Begin(), Pool: worldtest.Pool(), Nodes: []*corev1.Node{worldtest.Node("node")},
				Pods: []*corev1.Pod{pod}, ETAs: new(eta.Estimator),
				Jobs: []world.Object{
					{Kind: kinds.Named([]string{"Job"})[0], Job: worldtest.Job("a", 1, map[string]string{"work": "10h"})},
					{Kind: kinds.Named([]string{"PyTorchJob"})[0], Job: torch},
				},
			})
			for _, j := range w.Jobs {
				if (j.Pods.Seen == 1) != (j.Kind.Name == want) {
					t.Fatalf("owner %q: %s has %d pods; want the pod in the %s", owner, j.ID, j.Pods.Seen, want)
				}
			}
		}
	}
}
