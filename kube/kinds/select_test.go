package kinds_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/elastalloc/elastalloc/kube/kinds"
)

// fromFlow parses an object in one line of YAML.
func fromFlow(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	var object unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return &object
}

// TestMaySelect checks when the node selector of a job may change, as the API server and the webhook of JobSet decide it.
func TestMaySelect(t *testing.T) {
	t.Parallel()
	const (
		template = "template: {spec: {containers: [{name: x, resources: {limits: {nvidia.com/gpu: 8}}}]}}"
		workers  = "completionMode: Indexed, parallelism: 2, completions: 2, " + template
		ran      = `startTime: "2026-03-01T12:00:00Z"`
		set      = "replicatedJobs: [{name: d, template: {spec: {template: {}}}}, {name: w, template: {spec: {" + workers + "}}}]"
	)
	for name, test := range map[string]struct {
		kind, object string
		may          bool
		path         string
	}{
		"new":  {"Job", "{spec: {suspend: true, " + workers + "}}", true, "/spec/template/spec/nodeSelector"},
		"runs": {"Job", "{spec: {" + workers + "}, status: {active: 2, " + ran + "}}", false, "/spec/template/spec/nodeSelector"},
		"being suspended": {
			"Job", "{spec: {suspend: true, " + workers + "}, status: {active: 0, " + ran + "}}", false, "/spec/template/spec/nodeSelector",
		},
		"pods are active": {
			"Job", `{spec: {suspend: true, ` + workers + `}, status: {active: 1, ` + ran + `, conditions: [{type: Suspended, status: "True"}]}}`,
			false, "/spec/template/spec/nodeSelector",
		},
		"suspended": {
			"Job", `{spec: {suspend: true, ` + workers + `}, status: {` + ran + `, conditions: [{type: Suspended, status: "True"}]}}`,
			true, "/spec/template/spec/nodeSelector",
		},
		"resumed before": {
			"Job", `{spec: {suspend: true, ` + workers + `}, status: {` + ran + `, conditions: [{type: Suspended, status: "False"}]}}`,
			false, "/spec/template/spec/nodeSelector",
		},
		"JobSet": {
			"JobSet", "{spec: {suspend: true, " + set + "}}", true, "/spec/replicatedJobs/1/template/spec/template/spec/nodeSelector",
		},
		"JobSet that runs": {"JobSet", "{spec: {" + set + "}}", false, "/spec/replicatedJobs/1/template/spec/template/spec/nodeSelector"},
		"RayCluster": {
			"RayCluster", "{spec: {suspend: true, workerGroupSpecs: [{groupName: g, replicas: 1, " + template + "}]}}", false, "",
		},
		"PyTorchJob": {
			"PyTorchJob", "{spec: {runPolicy: {suspend: true}, elasticPolicy: {minReplicas: 1, maxReplicas: " +
				"2, maxRestarts: 9}, pytorchReplicaSpecs: {Worker: {replicas: 1, " + template + "}}}}", false, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := kinds.Named([]string{test.kind})[0].Read(fromFlow(t, test.object), nil, "nvidia.com/gpu")
			if err != nil {
				t.Fatal(err)
			}
			if path := s.Select(nil).Path; s.MaySelect() != test.may || path != test.path || s.CanSelect() != (path != "") {
				t.Errorf("the node selector at %q may change: %v; want %q and %v", path, s.MaySelect(), test.path, test.may)
			}
		})
	}
}

// TestTrainJobKeepsTemplate checks that the controller never changes the pods of a TrainJob, although its JobSet would allow it.
func TestTrainJobKeepsTemplate(t *testing.T) {
	t.Parallel()
	job := fromFlow(t, "{spec: {suspend: true, trainer: {numNodes: 2}}}")
	set := fromFlow(t,
		"{spec: {suspend: true, replicatedJobs: [{name: w, template: {spec: {completionMode: Indexed, parallelism: 2, "+
			"completions: 2, template: {spec: {containers: [{name: x, resources: {limits: {nvidia.com/gpu: 8}}}]}}}}}]}}")
	s, err := kinds.Named([]string{"TrainJob"})[0].Read(job, set, "nvidia.com/gpu")
	if err != nil || s.CanSelect() {
		t.Errorf("the node selector may change: %v; error %v", s.CanSelect(), err)
	}
}
