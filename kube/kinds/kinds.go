// Package kinds knows the kinds of elastic jobs: where each keeps its size, how it is
// suspended, and which pods are its own. A kind is a function that reads a Shape.
package kinds

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// Kind is a kind of elastic jobs.
type Kind struct {
	Name string
	GVK  schema.GroupVersionKind
	// Child, where set, is the kind of the object of the same name that keeps the size.
	Child *schema.GroupVersionKind
	// Support says how the kind is resized.
	Support Support
	// read returns the shape of a job; child is nil for a kind without, and where it does
	// not exist.
	read func(job, child *unstructured.Unstructured, unit corev1.ResourceName) (Shape, error)
}

// Support says how jobs of a kind are resized. It is the table in docs/schedulers/kubernetes.md.
type Support struct {
	Versions string // that were tested
	Size     string // the fields that keep the size
	Pause    string // how a job is paused
	Smallest string // what bounds its sizes from below
	Fixed    string // why a job is not resized
	// managedBy is the path of the field that names the controller of a job, and controller the name of
	// the kind's own.
	managedBy  []string
	controller string
}

// otherController returns the value of the field managedBy of a job whose pods the controller of its
// kind does not make, "" for all others.
func (s *Support) otherController(job *unstructured.Unstructured) string {
	by, _, _ := unstructured.NestedString(job.Object, s.managedBy...)
	if by == s.controller {
		return ""
	}
	return by
}

// Table returns the table of all kinds in Markdown.
func Table() string {
	var text strings.Builder
	text.WriteString("| kind | its size is | paused by | smallest size | not resized if |\n|---|---|---|---|---|\n")
	for _, k := range All() {
		s := k.Support
		fmt.Fprintf(&text, "| `%s` %s | %s | %s | %s | `%s` names another controller; %s |\n",
			k.Name, s.Versions, s.Size, s.Pause, s.Smallest, strings.Join(s.managedBy, "."), s.Fixed)
	}
	return text.String()
}

// Shape is what matters of a job's specification and status.
type Shape struct {
	Size      int       // in pods, while it is not suspended
	Suspended bool      // it asks for no pods
	Finished  bool      // it never gets pods again
	Started   time.Time // when it began to run, or zero
	Succeeded int       // how many of its pods have succeeded, as its status says
	Min, Max  int       // of its size; 0 means unlimited
	Multiple  int       // divides every legal size
	StartSize int       // the only size that it can be resumed at, if not 0
	NoPause   bool      // it must not be suspended
	// FillsGaps says that its controller makes pods of all indexes below the highest there is,
	// whatever the size: until a deleted pod is gone, its node is not free, though it has failed.
	FillsGaps bool
	Selector  map[string]string // the labels of its pods
	Unit      int64             // how much of the pool's unit each of its pods requests
	Pod       corev1.PodSpec    // what its pods are made from
	Grace     time.Duration     // that a deleted pod has to go, at most MaxGrace
	// Elsewhere is true if another controller makes its pods, maybe in another cluster.
	Elsewhere bool
	Report    *Report // of the job itself, or nil

	// sizes are the JSON pointers to the fields of the size, in the child if the kind has
	// one, and suspend that of the suspension, or of an object to make with the field
	// suspendIn where there is none. Without suspend it is paused at a size of 0.
	sizes              []string
	suspend, suspendIn string
}

// Report is what a job says of its progress; nil is not known.
type Report struct {
	Remaining *time.Duration // the time to its end at its present size
	Progress  *float64       // the share of its work that is done
	Time      time.Time
}

// NotElasticError says why a job cannot be resized.
type NotElasticError string

func (e NotElasticError) Error() string { return string(e) }

// notElastic returns a NotElasticError.
func notElastic(format string, args ...any) error {
	return NotElasticError(fmt.Sprintf(format, args...))
}

// All returns all kinds.
func All() []Kind {
	jobSetGVK := schema.GroupVersionKind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"}
	managedBy := []string{"spec", "managedBy"}
	return []Kind{
		{
			Name: "Job", GVK: schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, read: readJob,
			Support: Support{
				Versions: "(batch/v1), Indexed",
				Size:     "`parallelism` and `completions`, equal; the highest indexes go first",
				Pause:    "`suspend`",
				Smallest: "what `successPolicy`, `maxFailedIndexes` and the `minCount` of a gang need",
				Fixed:    "some of its indexes have succeeded, or the API server refuses it as a [gang](#beside-other-schedulers)",

				managedBy: managedBy, controller: batchv1.JobControllerName,
			},
		},
		{
			Name: "JobSet", GVK: jobSetGVK, read: readJobSet,
			Support: Support{
				Versions: "0.12 with the gate `ElasticJobSet`",
				Size:     "as of a Job, of the one replicated job that requests the unit, times its replicas",
				Pause:    "`suspend`",
				Smallest: "as of a Job",
				Fixed:    "several replicated jobs request the unit, or some of its pods have succeeded",

				managedBy: managedBy, controller: "jobset.sigs.k8s.io/jobset-controller",
			},
		},
		{
			Name: "RayCluster", GVK: schema.GroupVersionKind{Group: "ray.io", Version: "v1", Kind: "RayCluster"}, read: readRayCluster,
			Support: Support{
				Versions: "(KubeRay 1.6.0)",
				Size:     "`replicas` × `numOfHosts` of the one worker group that requests the unit, up to `maxReplicas`",
				Pause:    "`replicas: 0`, the head stays; never with `minReplicas` above 0 or as part of a RayJob",
				Smallest: "`minReplicas`",
				Fixed:    "in-tree autoscaling is on, or the head requests the unit",

				managedBy: managedBy, controller: "ray.io/kuberay-operator",
			},
		},
		{
			Name: "PyTorchJob", GVK: schema.GroupVersionKind{Group: "kubeflow.org", Version: "v1", Kind: "PyTorchJob"}, read: readPyTorchJob,
			Support: Support{
				Versions: "v1 (training-operator 1.8.1)",
				Size:     "`Worker.replicas`, up to `maxReplicas` of its `elasticPolicy`",
				Pause:    "`runPolicy.suspend`",
				Smallest: "`minReplicas`, and `runPolicy.schedulingPolicy.minAvailable` less its masters",
				Fixed:    "`elasticPolicy` has no `maxRestarts` of at least 1, since a resize would end it, or has `metrics`; a master requests the unit; or some of its pods have succeeded",

				managedBy: []string{"spec", "runPolicy", "managedBy"}, controller: "kubeflow.org/training-operator",
			},
		},
		{
			Name: "TrainJob", GVK: schema.GroupVersionKind{Group: "trainer.kubeflow.org", Version: "v1alpha1", Kind: "TrainJob"},
			Child: &jobSetGVK, read: readTrainJob,
			Support: Support{
				Versions: "(Trainer 2.2.0)",
				Size:     "its JobSet's while it runs; it starts at `numNodes`",
				Pause:    "`suspend`; never with fewer nodes than `numNodes`",
				Smallest: "as of its JobSet",
				Fixed:    "`numNodes` is unset, or some of its pods have succeeded",

				managedBy: managedBy, controller: "trainer.kubeflow.org/trainjob-controller",
			},
		},
	}
}

// Names returns the names of all kinds.
func Names() []string {
	var names []string
	for _, k := range All() {
		names = append(names, k.Name)
	}
	return names
}

// Named returns the kinds of the given names, which exist.
func Named(names []string) []Kind {
	return slices.DeleteFunc(All(), func(k Kind) bool { return !slices.Contains(names, k.Name) })
}

// Owner returns the kind of the controller that resizes and suspends the job, "" where
// there is none.
func Owner(job *unstructured.Unstructured) string {
	// Others than ours do so as well.
	if r := metav1.GetControllerOf(job); r != nil && slices.Contains(append(Names(), "MPIJob", "AppWrapper"), r.Kind) {
		return r.Kind
	}
	return ""
}

// Read returns the shape of a job in a pool of the given unit. The error, a NotElasticError,
// says why the job cannot be resized; the shape then tells at least its pods and size.
func (k Kind) Read(job, child *unstructured.Unstructured, unit corev1.ResourceName) (Shape, error) {
	s, err := k.read(job, child, unit)
	s.Multiple = max(s.Multiple, 1)
	by := k.Support.otherController(job)
	s.Elsewhere = by != ""
	switch {
	case s.Elsewhere:
		err = notElastic("%s is %q: another controller makes its pods", strings.Join(k.Support.managedBy, "."), by)
	case err != nil:
	case s.Unit == 0:
		err = notElastic("its pods request no %s", unit)
	case s.Size > MaxSize || s.Multiple > MaxSize:
		err = notElastic("it asks for %d pods and grows by %d; want at most %d", s.Size, s.Multiple, MaxSize)
	}
	return s, err
}

// MaxSize is the largest size that a decision takes.
const MaxSize = 1 << 20

// Operation is one of a JSON patch.
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Patch is a JSON patch of a job or its child.
type Patch struct {
	Child      bool
	Operations []Operation
}

// Resize returns the patches, in order, that make a job of the given shape hold the given
// nodes: 0 suspends it, and anything else resumes it. A kind without a child takes one patch.
func (k Kind) Resize(s Shape, nodes int) []Patch {
	var job, size []Operation
	if suspend := nodes == 0; suspend != s.Suspended && s.suspend != "" {
		var value any = suspend
		if s.suspendIn != "" {
			value = map[string]any{s.suspendIn: suspend}
		}
		job = append(job, Operation{"add", s.suspend, value})
	}
	if nodes != s.Size && (nodes > 0 || s.suspend == "") {
		for _, path := range s.sizes {
			size = append(size, Operation{"add", path, nodes / s.Multiple})
		}
	}
	if k.Child == nil {
		return []Patch{{Operations: append(size, job...)}}
	}
	var patches []Patch
	if len(size) > 0 {
		patches = append(patches, Patch{Child: true, Operations: size})
	}
	// Also where there is nothing to do but to say so in annotations.
	return append(patches, Patch{Operations: job})
}

// JSON returns the patch, under the condition that the object still has the given resource
// version; otherwise the API server answers with a conflict.
func (p Patch) JSON(resourceVersion string) ([]byte, error) {
	condition := Operation{"replace", "/metadata/resourceVersion", resourceVersion}
	return json.Marshal(append([]Operation{condition}, p.Operations...))
}

// read returns the fields of an object's specification and status that matter to a kind.
func read[T any](object *unstructured.Unstructured) (fields T, err error) {
	text, err := json.Marshal(map[string]any{"spec": object.Object["spec"], "status": object.Object["status"]})
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		err = notElastic("it cannot be read: %v", err)
	}
	return fields, err
}

// conditions are those of a job's status.
type conditions []struct{ Type, Status string }

// oneOf reports whether a condition of one of the types is true.
func (c conditions) oneOf(types ...string) bool {
	for _, condition := range c {
		if condition.Status == string(metav1.ConditionTrue) && slices.Contains(types, condition.Type) {
			return true
		}
	}
	return false
}

// setPods notes what pods are made from, how much of the unit one requests, and the time that it
// has to end.
func (s *Shape) setPods(template *corev1.PodTemplateSpec, unit corev1.ResourceName) {
	s.Pod, s.Unit = template.Spec, Requests(&template.Spec, unit)
	for _, containers := range [][]corev1.Container{s.Pod.InitContainers, s.Pod.Containers} {
		for i := range containers {
			// The API server does so with pods, but not with what they are made from.
			requests := maps.Clone(containers[i].Resources.Limits)
			if requests != nil {
				maps.Copy(requests, containers[i].Resources.Requests)
				containers[i].Resources.Requests = requests
			}
		}
	}
	s.Grace = Grace(template.Spec.TerminationGracePeriodSeconds)
}

// MaxGrace is how long pods are waited for at most, whatever grace period their users set.
const MaxGrace = time.Hour

// Grace returns how long a pod of the given grace period is waited for.
func Grace(seconds *int64) time.Duration {
	return time.Duration(min(ptr.Deref(seconds, corev1.DefaultTerminationGracePeriodSeconds), int64(MaxGrace/time.Second))) * time.Second
}

// setElastic notes the pods of the one part of a job that requests the unit, and returns its index;
// what names one.
func (s *Shape) setElastic(templates []corev1.PodTemplateSpec, unit corev1.ResourceName, what string) (int, error) {
	elastic := -1
	for i := range templates {
		switch {
		case Requests(&templates[i].Spec, unit) == 0:
		case elastic >= 0:
			return 0, notElastic("several %ss request %s; want one", what, unit)
		default:
			elastic = i
			s.setPods(&templates[i], unit)
		}
	}
	if elastic < 0 {
		return 0, notElastic("no %s requests %s", what, unit)
	}
	return elastic, nil
}

// Requests returns how much of a unit a pod requests, as kube-scheduler counts it: its containers run
// together with its sidecars, and each init container together with the sidecars before it.
func Requests(spec *corev1.PodSpec, unit corev1.ResourceName) int64 {
	var running, sidecars, starting int64
	for i := range spec.Containers {
		running += request(&spec.Containers[i], unit)
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		amount := request(c, unit)
		starting = max(starting, sidecars+amount)
		if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			sidecars += amount
		}
	}
	return max(running+sidecars, starting)
}

// request returns how much of a unit a container requests.
func request(c *corev1.Container, unit corev1.ResourceName) int64 {
	quantity, found := c.Resources.Requests[unit]
	if !found {
		quantity = c.Resources.Limits[unit] // The API server's default.
	}
	return quantity.Value()
}
