package plan_test

import (
	"encoding/json"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/plan"
	"github.com/elastalloc/elastalloc/kube/world"
)

// kueueObjects returns objects of YAML documents.
func kueueObjects(t *testing.T, documents ...string) (objects []*unstructured.Unstructured) {
	t.Helper()
	for _, text := range documents {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, &object)
	}
	return objects
}

// TestKueue checks that a decision frees nodes for jobs that Kueue will start, within its quota, and that its steps start
// and suspend none of them. A job that waits gets the size of the decision while it is suspended.
func TestKueue(t *testing.T) {
	t.Parallel()
	allocator, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	if err != nil {
		t.Fatal(err)
	}
	jobs := []*unstructured.Unstructured{
		worldtest.Job("runs", 8, map[string]string{"work": "1000h", "nodes": "1-8"}),
		worldtest.Job("waits", 0, map[string]string{"work": "1h"}),
		worldtest.Job("own", 0, map[string]string{"work": "1h", "nodes": "1,2"}), // Not Kueue's.
	}
	for _, job := range jobs[:2] {
		worldtest.Queued(job, true)
	}
	for _, field := range []string{"parallelism", "completions"} {
		_ = unstructured.SetNestedField(jobs[1].Object, int64(3), "spec", field)
	}
	c := worldtest.New(8, jobs...)
	c.Now = c.Now.Add(time.Hour)
	c.Kueue = &world.Kueue{
		LocalQueues: kueueObjects(t, `{metadata: {name: team, namespace: default}, spec: {clusterQueue: shared}}`),
		ClusterQueues: kueueObjects(t,
			`{metadata: {name: shared}, spec: {resourceGroups: [{flavors: [{resources: [{name: nvidia.com/gpu, nominalQuota: 56}]}]}]}}`),
		Workloads: kueueObjects(t,
			`{metadata: {name: r, namespace: default, ownerReferences: [{uid: uid-runs, controller: true}]}, spec: {queueName: team},
				status: {admission: {clusterQueue: shared, podSetAssignments: [{resourceUsage: {nvidia.com/gpu: 64}}]},
				conditions: [{type: QuotaReserved, status: "True"}, {type: Admitted, status: "True"}]}}`,
			`{metadata: {name: w, namespace: default, ownerReferences: [{uid: uid-waits, controller: true}]}, spec: {queueName: team}}`),
	}
	w := c.ClusterState()
	r := plan.Snapshot(w, "id", nil)
	answer, err := apiconv.InProcess{Allocator: allocator}.Allocate(t.Context(), r.Allocate)
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Check(r, answer); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int)
	for _, target := range plan.Targets(w, plan.Decision{ID: "id", Mode: plan.ModeApply}, r, answer) {
		got[target.Job.Object.GetName()] = target.Nodes
		write(c, target)
	}
	if got["runs"] != 4 || got["waits"] != 2 || got["own"] != 2 {
		t.Errorf("targets are %v; want 4 and 2 within the quota of 7, and 2 for the job that is not Kueue's", got)
	}
	for range 4 {
		p := plan.Steps(c.ClusterState(), "")
		for _, step := range append(p.Ready, p.Waiting...) {
			if step.Job.Kueue && !step.Queued && (step.From == 0 || step.To == 0) {
				t.Errorf("step %v of %s", step, step.Job.ID)
			}
		}
		for _, step := range p.Ready {
			if err := take(c, step); err != nil {
				t.Fatal(err)
			}
		}
		c.Reconcile()
		c.RemoveDeletedPods()
	}
	p := plan.Steps(c.ClusterState(), "")
	if j := c.ClusterState().Jobs; !p.Done() || j[1].Nodes() != 4 || j[2].Nodes() != 0 || j[2].Shape.Size != 2 {
		t.Errorf("jobs have %d and %d nodes, and the waiting one the size %d; want 4, 0 and 2", j[1].Nodes(), j[2].Nodes(), j[2].Shape.Size)
	}
	// Not even where the decision takes all nodes of a job that runs.
	annotations := c.Jobs["runs"].GetAnnotations()
	annotations[world.TargetAnnotation] = "0"
	record := c.ClusterState().Jobs[1].NextRecord(4, c.Now)
	record.ID, record.At, record.Mode, record.Jobs, record.From = "late", c.Now, plan.ModeApply, 1, 4
	annotations[world.DecisionAnnotation] = record.String()
	c.Jobs["runs"].SetAnnotations(annotations)
	if p = plan.Steps(c.ClusterState(), "late"); p.ID != "late" || len(p.Ready)+len(p.Waiting)+len(p.Conflicts) > 0 {
		t.Errorf("plan is %+v; want nothing to do", p)
	}
}

// TestQueuedStep checks the patches that reduce the size of a job that waits for Kueue: they write pods or replicas, not
// units or hosts, and never the suspension.
func TestQueuedStep(t *testing.T) {
	t.Parallel()
	const rayCluster = `{apiVersion: ray.io/v1, kind: RayCluster,
  metadata: {name: a, namespace: default, uid: uid-a}, spec: {suspend: true, workerGroupSpecs: [
		{groupName: gpu, replicas: 4, minReplicas: 1, maxReplicas: 8, numOfHosts: 2,
			template: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: 8}}}]}}}]}}`
	small := worldtest.SmallJob("a", 4, 2, nil)
	_ = unstructured.SetNestedField(small.Object, true, "spec", "suspend")
	for name, test := range map[string]struct {
		object *unstructured.Unstructured
		kind   string
		units  bool
		to     int
		want   string
	}{
		"units": {
			small, "Job", true, 4, `[{"op":"add","path":"/spec/parallelism","value":2},{"op":"add","path":"/spec/completions","value":2}]`,
		},
		"several hosts": {
			kueueObjects(t, rayCluster)[0], "RayCluster", false, 4, `[{"op":"add","path":"/spec/workerGroupSpecs/0/replicas","value":2}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind := kinds.Named([]string{test.kind})[0]
			shape, err := kind.Read(test.object, nil, worldtest.Unit)
			if err == nil && test.units {
				shape, err = shape.InUnits()
			}
			if err != nil || shape.Size != 8 || !shape.Suspended {
				t.Fatalf("shape is %+v, error %v; want a suspended job of the size 8", shape, err)
			}
			patches, nodes := plan.Step{Job: &world.Job{Kind: kind, Object: test.object, Shape: shape}, From: 8, To: test.to, Queued: true}.Patches()
			got, err := json.Marshal(patches[0].Operations)
			if err != nil || len(patches) != 1 || string(got) != test.want || nodes != 0 {
				t.Errorf("patches are %s for %d nodes, error %v; want %s for 0 nodes", got, nodes, err, test.want)
			}
		})
	}
}
