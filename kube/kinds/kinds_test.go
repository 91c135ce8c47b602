package kinds_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	resourcehelper "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/kinds"
)

// parse returns an object of YAML in which POD stands for a pod template of one node.
func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	if text == "" {
		return nil
	}
	text = strings.ReplaceAll(text, "POD",
		`{spec: {terminationGracePeriodSeconds: 45, containers: [{name: a, resources: {limits: {nvidia.com/gpu: "8"}}}]}}`)
	var u unstructured.Unstructured
	if err := yaml.Unmarshal([]byte("metadata: {name: train, namespace: default, resourceVersion: \"7\"}\n"+text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return &u
}

const jobSet = `
kind: JobSet
spec:
  replicatedJobs:
  - {name: driver, replicas: 1, template: {spec: {template: {spec: {containers: [{name: a}]}}}}}
  - {name: node, replicas: 1, template: {spec: {completionMode: Indexed, parallelism: 4, completions: 4, template: POD}}}
`

func TestKinds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind, job, child string
		// want describes the shape. resized and paused are the expected values in the object and its child, by
		// path, after the job is resized to 2 nodes and after it is paused.
		size            int
		suspended       bool
		min, max        int
		multiple, start int
		selector        string
		resized, paused map[string]any
	}{
		"Job": {
			kind: "Job", job: "kind: Job\nspec: {completionMode: Indexed, parallelism: 4, completions: 4, template: POD}",
			size: 4, multiple: 1, selector: "batch.kubernetes.io/job-name",
			resized: map[string]any{"spec.parallelism": int64(2), "spec.completions": int64(2)},
			paused:  map[string]any{"spec.suspend": true, "spec.parallelism": int64(4)},
		},
		"suspended Job": {
			kind: "Job", job: "kind: Job\nspec: {suspend: true, completionMode: Indexed, parallelism: 4, completions: 4, template: POD}",
			size: 4, suspended: true, multiple: 1, selector: "batch.kubernetes.io/job-name",
			resized: map[string]any{"spec.parallelism": int64(2), "spec.suspend": false},
			paused:  map[string]any{"spec.suspend": true},
		},
		"Job with least completions": {
			kind: "Job", job: `
kind: Job
spec:
  completionMode: Indexed
  parallelism: 8
  completions: 8
  maxFailedIndexes: 1
  successPolicy: {rules: [{succeededIndexes: "0,2-4", succeededCount: 2}, {succeededCount: 3}]}
  template: POD
`,
			size: 8, min: 5, multiple: 1, selector: "batch.kubernetes.io/job-name",
			resized: map[string]any{"spec.parallelism": int64(2)}, paused: map[string]any{"spec.suspend": true},
		},
		"Job that is a gang": {
			kind: "Job", job: `
kind: Job
spec: {completionMode: Indexed, parallelism: 8, completions: 8, scheduling: {schedulingPolicy: {gang: {minCount: 4}}}, template: POD}
`,
			size: 8, min: 4, multiple: 1, selector: "batch.kubernetes.io/job-name",
			resized: map[string]any{"spec.parallelism": int64(2)}, paused: map[string]any{"spec.suspend": true},
		},
		"Job that is a gang of any size": {
			kind: "Job", job: `
kind: Job
spec: {completionMode: Indexed, parallelism: 8, completions: 8, scheduling: {schedulingPolicy: {gang: {}}}, template: POD}
`,
			size: 8, multiple: 1, selector: "batch.kubernetes.io/job-name",
			resized: map[string]any{"spec.parallelism": int64(2)}, paused: map[string]any{"spec.suspend": true},
		},
		"JobSet": {
			kind: "JobSet", job: jobSet, size: 4, multiple: 1, selector: "jobset.sigs.k8s.io/replicatedjob-name",
			resized: map[string]any{
				"spec.replicatedJobs.1.template.spec.parallelism": int64(2), "spec.replicatedJobs.1.template.spec.completions": int64(2),
			},
			paused: map[string]any{"spec.suspend": true},
		},
		"JobSet of replicas": {
			kind: "JobSet", job: strings.ReplaceAll(jobSet, "node, replicas: 1", "node, replicas: 2"),
			size: 8, multiple: 2, selector: "jobset.sigs.k8s.io/replicatedjob-name",
			resized: map[string]any{
				"spec.replicatedJobs.1.template.spec.parallelism": int64(1), "spec.replicatedJobs.1.template.spec.completions": int64(1),
			},
			paused: map[string]any{"spec.suspend": true},
		},
		"RayCluster": {
			kind: "RayCluster",
			job: `
kind: RayCluster
spec:
  workerGroupSpecs:
  - {groupName: cpu, replicas: 3, template: {spec: {containers: [{name: a}]}}}
  - {groupName: gpu, replicas: 2, minReplicas: 1, maxReplicas: 8, numOfHosts: 2, template: POD}
`,
			size: 4, min: 2, max: 16, multiple: 2, selector: "ray.io/group",
			resized: map[string]any{"spec.workerGroupSpecs.1.replicas": int64(1)},
			paused: map[string]any{
				"spec.suspend": "<nil>", "spec.workerGroupSpecs.0.replicas": int64(3), "spec.workerGroupSpecs.1.replicas": int64(0),
			},
		},
		"suspended RayCluster": {
			kind: "RayCluster",
			job:  "kind: RayCluster\nspec: {suspend: true, workerGroupSpecs: [{groupName: gpu, replicas: 4, template: POD}]}",
			size: 4, suspended: true, multiple: 1, selector: "ray.io/group",
			resized: map[string]any{"spec.suspend": false, "spec.workerGroupSpecs.0.replicas": int64(2)},
			paused:  map[string]any{"spec.suspend": true, "spec.workerGroupSpecs.0.replicas": int64(4)},
		},
		"PyTorchJob of a gang": {
			kind: "PyTorchJob",
			job: `
kind: PyTorchJob
spec:
  runPolicy: {schedulingPolicy: {minAvailable: 4}}
  elasticPolicy: {minReplicas: 1, maxReplicas: 8, maxRestarts: 10}
  pytorchReplicaSpecs: {Master: {template: {spec: {containers: [{name: a}]}}}, Worker: {replicas: 4, template: POD}}
`,
			size: 4, min: 3, max: 8, multiple: 1, selector: "training.kubeflow.org/job-name",
			resized: map[string]any{"spec.pytorchReplicaSpecs.Worker.replicas": int64(2)},
			paused:  map[string]any{"spec.runPolicy.suspend": true},
		},
		"PyTorchJob": {
			kind: "PyTorchJob",
			job: `
kind: PyTorchJob
spec:
  elasticPolicy: {minReplicas: 1, maxReplicas: 8, maxRestarts: 10}
  pytorchReplicaSpecs: {Worker: {replicas: 4, template: POD}}
`,
			size: 4, min: 1, max: 8, multiple: 1, selector: "training.kubeflow.org/job-name",
			resized: map[string]any{"spec.pytorchReplicaSpecs.Worker.replicas": int64(2)},
			paused:  map[string]any{"spec.runPolicy.suspend": true},
		},
		"PyTorchJob with a run policy": {
			kind: "PyTorchJob",
			job: `
kind: PyTorchJob
spec:
  runPolicy: {suspend: true, cleanPodPolicy: None}
  elasticPolicy: {minReplicas: 1, maxReplicas: 4, maxRestarts: 10}
  pytorchReplicaSpecs: {Worker: {template: POD}}
`,
			size: 1, suspended: true, min: 1, max: 4, multiple: 1, selector: "training.kubeflow.org/job-name",
			resized: map[string]any{
				"spec.pytorchReplicaSpecs.Worker.replicas": int64(2), "spec.runPolicy.suspend": false, "spec.runPolicy.cleanPodPolicy": "None",
			},
			paused: map[string]any{"spec.runPolicy.suspend": true},
		},
		"TrainJob": {
			kind: "TrainJob", job: "kind: TrainJob\nspec: {trainer: {numNodes: 8}}", child: jobSet,
			size: 4, multiple: 1, start: 8, selector: "jobset.sigs.k8s.io/jobset-name",
			resized: map[string]any{"child.spec.replicatedJobs.1.template.spec.parallelism": int64(2), "spec.trainer.numNodes": int64(8)},
			paused:  map[string]any{"spec.suspend": true, "child.spec.replicatedJobs.1.template.spec.parallelism": int64(4)},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind := kinds.Named([]string{test.kind})[0]
			job, child := parse(t, test.job), parse(t, test.child)
			s, err := kind.Read(job, child, worldtest.Unit)
			if err != nil {
				t.Fatal(err)
			}
			if s.Size != test.size || s.Suspended != test.suspended || s.Min != test.min || s.Max != test.max ||
				s.Multiple != test.multiple || s.StartSize != test.start || s.Finished || s.Unit != 8 || s.Grace != 45*time.Second {
				t.Errorf("shape is %+v", s)
			}
			if s.Selector[test.selector] == "" {
				t.Errorf("selector is %v; want %s in it", s.Selector, test.selector)
			}
			units, err := s.InUnits()
			if err != nil || units.Size != 8*test.size || units.Min != 8*test.min || units.Max != 8*test.max ||
				units.Multiple != 8*test.multiple || units.StartSize != 8*test.start || units.PerPod != 8 {
				t.Errorf("in units the shape is %+v, error %v", units, err)
			}
			check(t, kind, units, job.DeepCopy(), child.DeepCopy(), 16, test.resized)
			check(t, kind, units, job.DeepCopy(), child.DeepCopy(), 0, test.paused)
			check(t, kind, s, job, child, 2, test.resized)
			check(t, kind, s, job, child, 0, test.paused)
		})
	}
}

// check resizes a job and compares fields then.
func check(t *testing.T, kind kinds.Kind, s kinds.Shape, job, child *unstructured.Unstructured, nodes int, want map[string]any) {
	t.Helper()
	patches := kind.Resize(s, nodes)
	if child == nil && len(patches) != 1 {
		t.Fatalf("%d patches; want size and suspension in one", len(patches))
	}
	for _, patch := range patches {
		of := &job
		if patch.Child {
			of = &child
		}
		patched, err := worldtest.Patch(*of, patch)
		if err != nil {
			t.Fatal(err)
		}
		*of = patched
	}
	for path, value := range want {
		object := job
		path, ofChild := strings.CutPrefix(path, "child.")
		if ofChild {
			object = child
		}
		if got := at(object.Object, strings.Split(path, ".")); fmt.Sprint(got) != fmt.Sprint(value) {
			t.Errorf("at %d nodes %s is %v; want %v", nodes, path, got, value)
		}
	}
}

// at returns what is at a path through objects and lists.
func at(value any, path []string) any {
	for _, key := range path {
		switch v := value.(type) {
		case map[string]any:
			value = v[key]
		case []any:
			value = v[key[0]-'0']
		}
	}
	return value
}

// TestAwaits checks that a JobSet creates the pods of its elastic replicated job only once the replicated jobs before
// it have the status that its dependencies or its startup policy name.
func TestAwaits(t *testing.T) {
	t.Parallel()
	complete, ready := "[{name: driver, status: Complete}]", "[{name: driver, status: Ready}]"
	for name, test := range map[string]struct {
		dependsOn, order, status string
		awaits                   bool
	}{
		"no order":            {"[]", "AnyOrder", "{ready: 0}", false},
		"not complete":        {complete, "AnyOrder", "{ready: 1}", true},
		"complete":            {complete, "AnyOrder", "{succeeded: 1}", false},
		"not ready":           {ready, "AnyOrder", "{ready: 0}", true},
		"ready":               {ready, "AnyOrder", "{ready: 1}", false},
		"ready and complete":  {ready, "AnyOrder", "{succeeded: 1}", false},
		"in order, not ready": {"[]", "InOrder", "{ready: 0}", true},
		"in order, ready":     {"[]", "InOrder", "{ready: 1}", false},
	} {
		text := strings.Replace(jobSet, "{name: node,", "{name: node, dependsOn: "+test.dependsOn+",", 1) +
			"  startupPolicy: {startupPolicyOrder: " + test.order + "}\n" +
			"status: {replicatedJobsStatus: [" + strings.Replace(test.status, "{", "{name: driver, ", 1) + "]}\n"
		for _, kind := range []string{"JobSet", "TrainJob"} {
			job, child := parse(t, text), (*unstructured.Unstructured)(nil)
			if kind == "TrainJob" {
				job, child = parse(t, "kind: TrainJob\nspec: {trainer: {numNodes: 4}}"), job
			}
			s, err := kinds.Named([]string{kind})[0].Read(job, child, worldtest.Unit)
			if err != nil {
				t.Fatal(err)
			}
			if (s.Awaits != "") != test.awaits {
				t.Errorf("%s, %s: awaits %q; want something: %v", name, kind, s.Awaits, test.awaits)
			}
		}
	}
}

func TestNotElastic(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ kind, job, child, want string }{
		"Job not indexed": {"Job", "kind: Job\nspec: {parallelism: 4, template: POD}", "", "must be Indexed"},
		"Job of other tasks": {
			"Job", "kind: Job\nspec: {completionMode: Indexed, parallelism: 4, completions: 100, template: POD}", "", "the numbers must be equal",
		},
		"Job without the unit": {
			"Job", "kind: Job\nspec: {completionMode: Indexed, parallelism: 1, completions: 1, template: {}}", "", "request no nvidia.com/gpu",
		},
		"Job of MultiKueue": {
			"Job", "kind: Job\nspec: {managedBy: kueue.x-k8s.io/multikueue, completionMode: Indexed, " +
				"parallelism: 1, completions: 1, template: POD}", "", "another controller creates its pods",
		},
		"JobSet of two": {
			"JobSet", strings.ReplaceAll(jobSet, "{spec: {containers: [{name: a}]}}", "POD"), "", "several replicated jobs",
		},
		"JobSet of none":       {"JobSet", "kind: JobSet\nspec: {}", "", "no replicated job"},
		"JobSet with replicas": {"JobSet", strings.ReplaceAll(jobSet, "node, replicas: 1", "node, replicas: 0"), "", "no replicas"},
		"TrainJob so far":      {"TrainJob", "kind: TrainJob\nspec: {}", "", "no JobSet yet"},
		"TrainJob of any size": {"TrainJob", "kind: TrainJob\nspec: {}", jobSet, "numNodes is unset"},
		"Ray's own autoscaler": {
			"RayCluster", "kind: RayCluster\nspec: {enableInTreeAutoscaling: true, " +
				"workerGroupSpecs: [{groupName: a, replicas: 1, template: POD}]}", "", "autoscaler",
		},
		"suspended group": {
			"RayCluster", "kind: RayCluster\nspec: {workerGroupSpecs: [{groupName: a, suspend: true, replicas: 1, template: POD}]}",
			"", "suspended separately",
		},
		"Ray of two": {
			"RayCluster", "kind: RayCluster\nspec: {workerGroupSpecs: [{template: POD}, {template: POD}]}", "", "several worker groups",
		},
		"Ray of billions": {
			"RayCluster", "kind: RayCluster\nspec: {workerGroupSpecs: [{groupName: a, replicas: 65536, numOfHosts: 65536, template: POD}]}",
			"", "requests 4294967296 pods",
		},
		"Ray of none": {"RayCluster", "kind: RayCluster\nspec: {}", "", "no worker group"},
		"PyTorchJob of a size": {
			"PyTorchJob", "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Worker: {template: POD}}}", "", "elasticPolicy: is unset",
		},
		"PyTorchJob with HPA": {
			"PyTorchJob", "kind: PyTorchJob\nspec: {elasticPolicy: {minReplicas: 1, maxReplicas: 8, maxRestarts: " +
				"10, metrics: [{}]}, pytorchReplicaSpecs: {Worker: {template: POD}}}", "", "HorizontalPodAutoscaler",
		},
		"PyTorchJob that ends": {
			"PyTorchJob", "kind: PyTorchJob\nspec: {elasticPolicy: {minReplicas: 1, maxReplicas: " +
				"8}, pytorchReplicaSpecs: {Worker: {template: POD}}}", "", "maxRestarts: is 0",
		},
		"PyTorchJob with half": {
			"PyTorchJob", "kind: PyTorchJob\nspec: {elasticPolicy: {maxReplicas: 8}, pytorchReplicaSpecs: {Worker: {template: POD}}}",
			"", "must set both",
		},
		"PyTorchJob led": {
			"PyTorchJob", "kind: PyTorchJob\nspec: {elasticPolicy: {}, pytorchReplicaSpecs: {Master: {template: POD}, Worker: {template: POD}}}",
			"", "its master requests",
		},
		"Ray's head": {
			"RayCluster", "kind: RayCluster\nspec: {headGroupSpec: {template: POD}, workerGroupSpecs: " +
				"[{groupName: a, replicas: 1, template: POD}]}", "", "its head requests",
		},
		"PyTorchJob of masters": {
			"PyTorchJob", "kind: PyTorchJob\nspec: {elasticPolicy: {}, pytorchReplicaSpecs: {Master: {template: POD}}}", "", "no workers",
		},
		"nonsense": {"RayCluster", "kind: RayCluster\nspec: {workerGroupSpecs: [1, {template: 3}]}", "", "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := kinds.Named([]string{test.kind})[0].Read(parse(t, test.job), parse(t, test.child), worldtest.Unit)
			if !errors.As(err, new(kinds.NotElasticError)) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v; want %q", err, test.want)
			}
		})
	}
}

// TestTooManyUnits: a number of units that would exceed the sizes of the API is refused.
func TestTooManyUnits(t *testing.T) {
	t.Parallel()
	s := kinds.Shape{Size: 2, Multiple: 1, PerPod: 1, Unit: kinds.MaxPerPod + 1}
	if got, err := s.InUnits(); err == nil || got.Size != 2 || got.PerPod != 1 {
		t.Errorf("it is %+v, error %v", got, err)
	}
}

func TestFinished(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind, status string
		completed    bool
	}{
		{"Job", "conditions: [{type: Failed, status: 'True'}]", false},
		{"Job", "conditions: [{type: SuccessCriteriaMet, status: 'True'}]", true},
		{"JobSet", "terminalState: Completed", true},
		{"JobSet", "terminalState: Failed", false},
		{"PyTorchJob", "conditions: [{type: Running, status: 'False'}, {type: Succeeded, status: 'True'}]", true},
		{"PyTorchJob", "conditions: [{type: Failed, status: 'True'}]", false},
		{"TrainJob", "conditions: [{type: Complete, status: 'True'}]", true},
		{"TrainJob", "conditions: [{type: Failed, status: 'True'}]", false},
	} {
		job := parse(t, "kind: "+test.kind+"\nspec: {}\nstatus: {"+test.status+"}")
		if s, _ := kinds.Named([]string{test.kind})[0].Read(job, nil, worldtest.Unit); !s.Finished || s.Completed != test.completed {
			t.Errorf("%s with status %s: finished %v, completed %v; want true, %v", test.kind, test.status, s.Finished, s.Completed, test.completed)
		}
	}
}

func TestTrainJobReport(t *testing.T) {
	t.Parallel()
	job := parse(t, `
kind: TrainJob
spec: {trainer: {numNodes: 8}}
status: {trainerStatus: {progressPercentage: 40, estimatedRemainingSeconds: 795, lastUpdatedTime: "2026-03-01T12:00:00Z"}}`)
	s, err := kinds.Named([]string{"TrainJob"})[0].Read(job, parse(t, jobSet), worldtest.Unit)
	if err != nil {
		t.Fatal(err)
	}
	want := &kinds.Report{Remaining: new(795 * time.Second), Progress: new(0.4), Time: worldtest.Begin()}
	if !reflect.DeepEqual(s.Report, want) {
		t.Errorf("report is %+v; want %+v", s.Report, want)
	}
}

// TestRayLimits reads sizes that KubeRay does not let stand.
func TestRayLimits(t *testing.T) {
	t.Parallel()
	for limits, want := range map[string]int{
		"replicas: 1, minReplicas: 2": 4, "replicas: 9, maxReplicas: 3": 6, "minReplicas: 1": 2, "maxReplicas: 3": 0,
	} {
		job := parse(t, "kind: RayCluster\nspec: {workerGroupSpecs: [{groupName: a, numOfHosts: 2, "+limits+", template: POD}]}")
		s, err := kinds.Named([]string{"RayCluster"})[0].Read(job, nil, worldtest.Unit)
		if err != nil || s.Size != want || s.Suspended != (want == 0) {
			t.Errorf("with %s shape is %+v, error %v; want size %d", limits, s, err, want)
		}
	}
}

// TestTrainJobIsNotPausedBelow reads TrainJobs whose JobSets run with 4 nodes: pausing one
// that starts with more would first give it these.
func TestTrainJobIsNotPausedBelow(t *testing.T) {
	t.Parallel()
	for numNodes, want := range map[int]bool{2: false, 4: false, 8: true} {
		job := parse(t, fmt.Sprintf("kind: TrainJob\nspec: {trainer: {numNodes: %d}}", numNodes))
		if s, err := kinds.Named([]string{"TrainJob"})[0].Read(job, parse(t, jobSet), worldtest.Unit); err != nil || s.NoPause != want {
			t.Errorf("with numNodes %d shape is %+v, error %v; want NoPause %t", numNodes, s, err, want)
		}
	}
}

func TestRayJobIsNotPaused(t *testing.T) {
	t.Parallel()
	job := parse(t, "kind: RayCluster\nspec: {workerGroupSpecs: [{groupName: a, replicas: 1, template: POD}]}")
	job.Object["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"kind": "RayJob", "name": "train"}}
	if s, err := kinds.Named([]string{"RayCluster"})[0].Read(job, nil, worldtest.Unit); err != nil || !s.NoPause {
		t.Errorf("shape is %+v, error %v; want one that is not paused", s, err)
	}
}

// TestChart checks that the controller's chart has the API group and resource of every kind, and what may change in its
// objects.
func TestChart(t *testing.T) {
	t.Parallel()
	helpers, err := os.ReadFile("../../deploy/helm/elastalloc-controller/templates/_helpers.tpl")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, line := range strings.Split(string(helpers), "\n") {
		if strings.Contains(line, ": {group: ") {
			got = append(got, line)
		}
	}
	for _, k := range kinds.All() {
		if !strings.Contains(string(helpers), fmt.Sprintf("if eq $kind %q", k.Name)) {
			t.Errorf("controller.specification in _helpers.tpl has no case of a %s", k.Name)
		}
		parent := ""
		if k.Parent != nil {
			parent = fmt.Sprintf(", parent: %ss", strings.ToLower(k.Parent.Kind))
		}
		want = append(want, fmt.Sprintf("%s: {group: %s, resource: %ss%s}", k.Name, k.GVK.Group, strings.ToLower(k.Name), parent))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the chart has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestTenantsExample checks that the policy of examples/tenants.yaml applies to every kind.
func TestTenantsExample(t *testing.T) {
	t.Parallel()
	example := read(t, "examples/tenants.yaml")
	for _, k := range kinds.All() {
		if resource := strings.ToLower(k.Name) + "s"; !regexp.MustCompile(`(?m)^ *resources: \[.*\b`+resource+`\b`).MatchString(example) ||
			!regexp.MustCompile(`(?m)^ *- apiGroups: \[.*\b`+regexp.QuoteMeta(k.GVK.Group)+`\b`).MatchString(example) {
			t.Errorf("examples/tenants.yaml does not match %s of %s", resource, k.GVK.Group)
		}
	}
}

// TestRequests counts what pods request as the scheduler does.
func TestRequests(t *testing.T) {
	t.Parallel()
	always := corev1.ContainerRestartPolicyAlways
	rapid.Check(t, func(t *rapid.T) {
		containers := func(name string, sidecars bool) []corev1.Container {
			all := make([]corev1.Container, rapid.IntRange(0, 4).Draw(t, name))
			for i := range all {
				units := corev1.ResourceList{worldtest.Unit: *resource.NewQuantity(int64(rapid.IntRange(0, 8).Draw(t, "units")), resource.DecimalSI)}
				if all[i].Resources.Requests = units; rapid.Bool().Draw(t, "limits") {
					all[i].Resources = corev1.ResourceRequirements{Limits: units}
				}
				if sidecars && rapid.Bool().Draw(t, "sidecar") {
					all[i].RestartPolicy = &always
				}
			}
			return all
		}
		spec := corev1.PodSpec{InitContainers: containers("init", true), Containers: containers("containers", false)}
		got := kinds.Requests(&spec, worldtest.Unit)
		for _, all := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
			for i := range all {
				if all[i].Resources.Requests == nil { // As the API server does.
					all[i].Resources.Requests = all[i].Resources.Limits
				}
			}
		}
		want := resourcehelper.PodRequests(&corev1.Pod{Spec: spec}, resourcehelper.PodResourcesOptions{})[worldtest.Unit]
		if got != want.Value() {
			t.Fatalf("%d; want %d", got, want.Value())
		}
	})
}

// TestManagedBy: a job that another controller manages is left alone, whatever its kind.
func TestManagedBy(t *testing.T) {
	t.Parallel()
	for kind, test := range map[string]struct{ own, job string }{
		"Job": {
			"kubernetes.io/job-controller", "spec: {managedBy: BY, completionMode: Indexed, parallelism: 4, completions: 4, template: POD}",
		},
		"JobSet":     {"jobset.sigs.k8s.io/jobset-controller", strings.Replace(jobSet, "spec:", "spec:\n  managedBy: BY", 1)},
		"RayCluster": {"ray.io/kuberay-operator", "spec: {managedBy: BY, workerGroupSpecs: [{groupName: gpu, replicas: 2, template: POD}]}"},
		"PyTorchJob": {
			"kubeflow.org/training-operator",
			"spec: {runPolicy: {managedBy: BY}, elasticPolicy: {minReplicas: 1, maxReplicas: " +
				"8, maxRestarts: 3}, pytorchReplicaSpecs: {Worker: {template: POD}}}",
		},
		"TrainJob": {"trainer.kubeflow.org/trainjob-controller", "spec: {managedBy: BY, trainer: {numNodes: 8}}"},
	} {
		for by, elsewhere := range map[string]bool{test.own: false, "kueue.x-k8s.io/multikueue": true} {
			s, err := kinds.Named([]string{kind})[0].Read(parse(t, strings.ReplaceAll(test.job, "BY", by)), parse(t, jobSet), worldtest.Unit)
			if s.Elsewhere != elsewhere || elsewhere != (err != nil && strings.Contains(err.Error(), "another controller creates its pods")) {
				t.Errorf("%s managed by %s: elsewhere %t, error %v", kind, by, s.Elsewhere, err)
			}
		}
	}
}

// TestTable: the table of the documentation is that of the code.
func TestTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "\n"+kinds.Table()+"\n") {
		t.Errorf("docs/reference/kubernetes.md lacks the table\n%s", kinds.Table())
	}
}
