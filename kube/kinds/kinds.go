// Package kinds describes the supported kinds of elastic jobs. For each kind it defines which fields
// set the size, how a job is suspended, and which labels select its pods. A kind is a function that
// reads a Shape.
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

// Kind describes a kind of elastic job.
type Kind struct {
	Name string
	GVK  schema.GroupVersionKind
	// Child is the kind of the object that the job owns and that sets the size, or nil if the job itself sets
	// the size.
	Child *schema.GroupVersionKind
	// Parent is the kind of an object that may own the job and that reports when its work is over, or nil.
	Parent *schema.GroupVersionKind
	// Support documents how jobs of the kind are resized.
	Support Support
	// read returns the shape of a job. related is its child or its parent, nil if the kind has neither or the object
	// does not exist.
	read func(job, related *unstructured.Unstructured, unit corev1.ResourceName) (Shape, error)
}

// Support documents how jobs of a kind are resized. Table prints it for docs/reference/kubernetes.md.
type Support struct {
	Versions string // tested versions
	Size     string // fields that set the size
	Pause    string // how a job is paused
	Smallest string // lower bounds of the size
	Fixed    string // conditions under which a job is not resized
	// managedBy is the path of the field that names the controller of a job. controller is the name of
	// the kind's default controller.
	managedBy  []string
	controller string
}

// otherController returns the managedBy field of a job if another controller creates its pods, and ""
// otherwise.
func (s *Support) otherController(job *unstructured.Unstructured) string {
	by, _, _ := unstructured.NestedString(job.Object, s.managedBy...)
	if by == s.controller {
		return ""
	}
	return by
}

// Table returns a Markdown table of all kinds.
func Table() string {
	var text strings.Builder
	text.WriteString("| kind | size | paused by | smallest size | not resized if |\n|---|---|---|---|---|\n")
	for _, k := range All() {
		s := k.Support
		fmt.Fprintf(&text, "| `%s` %s | %s | %s | %s | `%s` names another controller; %s |\n",
			k.Name, s.Versions, s.Size, s.Pause, s.Smallest, strings.Join(s.managedBy, "."), s.Fixed)
	}
	return text.String()
}

// Shape contains the parts of a job's specification and status that decisions depend on.
type Shape struct {
	Size      int       // requested pods while the job is not suspended
	Suspended bool      // the job requests no pods now
	Finished  bool      // the job has completed or failed
	Completed bool      // the job has completed
	Over      bool      // the job's work is over, although its controller keeps its pods
	Started   time.Time // start time, zero if unknown
	Done      int       // pods that have succeeded, or failed for good, according to the job's status
	Min, Max  int       // limits of Size; 0 means unlimited
	Multiple  int       // common divisor of all legal sizes, at least 1
	StartSize int       // the only size at which the job can be resumed, 0 for any
	NoPause   bool      // the job must not be suspended
	// FillsGaps is true if the job's controller creates pods for all indexes below the highest existing
	// one, regardless of the size. The node of a failed pod is then free only once the pod is deleted.
	FillsGaps bool
	// Awaits is the reason why the job's controller creates no pods yet, "" if it creates them.
	Awaits   string
	Selector map[string]string // labels of the job's pods
	// Index is the label with the index of a pod, if the pods with the highest indexes go first, or "".
	Index string
	Unit  int64 // amount of the pool's unit that each pod requests
	// PerPod is the number by which each pod counts in Size, Min, Max, Multiple, StartSize and Done: 1,
	// or Unit after InUnits.
	PerPod int
	Pod    corev1.PodSpec // template of the pods that request the unit
	Grace  time.Duration  // termination grace period of a pod, at most MaxGrace
	// Elsewhere is true if another controller creates the pods, possibly in another cluster.
	Elsewhere bool
	Report    *Report // progress according to the job's status, or nil

	// sizes are JSON pointers to the size fields, in the child if the kind has one. suspend is the JSON
	// pointer to the suspend field. If the parent object of that field is missing, suspend points to the
	// parent and suspendIn names the field. If suspend is "", the job is paused by setting its size to 0.
	sizes              []string
	suspend, suspendIn string
	// selector is the JSON pointer to the node selector of the pods that request the unit, "" if it cannot change.
	selector string
	// fixed is true while the API server refuses to change the node selector of a suspended job.
	fixed bool
}

// CanSelect reports whether a suspended job of the kind can be started on nodes with other labels.
func (s *Shape) CanSelect() bool { return s.selector != "" }

// MaySelect reports whether the node selector of the job can change now.
func (s *Shape) MaySelect() bool { return s.selector != "" && s.Suspended && !s.fixed }

// Select returns the operation that changes the node selector of the job.
func (s *Shape) Select(nodeSelector map[string]string) Operation {
	return Operation{"add", s.selector, nodeSelector}
}

// Report is the progress that a job reports; nil fields are unknown.
type Report struct {
	Remaining *time.Duration // time until completion at the current size
	Progress  *float64       // completed fraction of the work, 0 to 1
	Time      time.Time      // time of the report
}

// NotElasticError explains why a job cannot be resized.
type NotElasticError string

func (e NotElasticError) Error() string { return string(e) }

// notElastic formats a NotElasticError.
func notElastic(format string, args ...any) error {
	return NotElasticError(fmt.Sprintf(format, args...))
}

// All returns all supported kinds.
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
				Smallest: "the minimum that `successPolicy`, `maxFailedIndexes` and the `minCount` of a gang need",
				Fixed:    "some of its indexes have succeeded or failed for good, or the API server refuses it as a [gang](#gangs)",

				managedBy: managedBy, controller: batchv1.JobControllerName,
			},
		},
		{
			Name: "JobSet", GVK: jobSetGVK, read: readJobSet,
			Support: Support{
				Versions: "0.12 with the gate `ElasticJobSet`",
				Size:     "as for a Job, in the one replicated job that requests the unit, times its replicas",
				Pause:    "`suspend`",
				Smallest: "as for a Job",
				Fixed:    "several replicated jobs request the unit, or some of its pods have succeeded",

				managedBy: managedBy, controller: "jobset.sigs.k8s.io/jobset-controller",
			},
		},
		{
			Name: "RayCluster", GVK: schema.GroupVersionKind{Group: "ray.io", Version: "v1", Kind: "RayCluster"}, read: readRayCluster,
			Parent: &schema.GroupVersionKind{Group: "ray.io", Version: "v1", Kind: "RayJob"},
			Support: Support{
				Versions: "(KubeRay 1.6.0)",
				Size:     "`replicas` × `numOfHosts` of the one worker group that requests the unit, up to `maxReplicas`",
				Pause:    "`replicas: 0`, the head stays; never with `minReplicas` above 0, or as part of a RayJob before that has completed or failed",
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
				Fixed: "`maxRestarts` of `elasticPolicy` is below 1, because a resize would fail it; " +
					"`elasticPolicy` has `metrics`; a master requests the unit; or some of its pods have succeeded",

				managedBy: []string{"spec", "runPolicy", "managedBy"}, controller: "kubeflow.org/training-operator",
			},
		},
		{
			Name: "TrainJob", GVK: schema.GroupVersionKind{Group: "trainer.kubeflow.org", Version: "v1alpha1", Kind: "TrainJob"},
			Child: &jobSetGVK, read: readTrainJob,
			Support: Support{
				Versions: "(Trainer 2.2.0)",
				Size:     "the size of its JobSet while it runs; it starts at `numNodes`",
				Pause:    "`suspend`; never with fewer nodes than `numNodes`",
				Smallest: "as for its JobSet",
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

// Named returns the kinds with the given names. It ignores unknown names.
func Named(names []string) []Kind {
	return slices.DeleteFunc(All(), func(k Kind) bool { return !slices.Contains(names, k.Name) })
}

// Owner returns the kind of the object that owns the job and sets its size and suspension, and "" if
// the job has no such owner.
func Owner(job *unstructured.Unstructured) string {
	// MPIJob and AppWrapper are not supported here but resize and suspend their jobs, too.
	if r := metav1.GetControllerOf(job); r != nil && slices.Contains(append(Names(), "MPIJob", "AppWrapper"), r.Kind) {
		return r.Kind
	}
	return ""
}

// Read returns the shape of a job in a pool of the given unit. related is its child or its parent, if any. If the job
// cannot be resized, it returns a NotElasticError and a shape that has at least the selector and the size.
func (k Kind) Read(job, related *unstructured.Unstructured, unit corev1.ResourceName) (Shape, error) {
	s, err := k.read(job, related, unit)
	s.Multiple, s.PerPod = max(s.Multiple, 1), 1
	by := k.Support.otherController(job)
	s.Elsewhere = by != ""
	switch {
	case s.Elsewhere:
		err = notElastic("%s: is %q, so another controller creates its pods", strings.Join(k.Support.managedBy, "."), by)
	case err != nil:
	case s.Unit == 0:
		err = notElastic("its pods request no %s", unit)
	case s.Size > MaxSize || s.Multiple > MaxSize:
		err = notElastic("it requests %d pods in multiples of %d; both must be at most %d", s.Size, s.Multiple, MaxSize)
	}
	return s, err
}

// InUnits returns the shape with all numbers of pods as the units that these pods request. It returns a
// NotElasticError and an unchanged shape if a pod requests too many of them.
func (s Shape) InUnits() (Shape, error) {
	if s.Unit > MaxPerPod {
		return s, notElastic("its pods request %d units; must be at most %d", s.Unit, MaxPerPod)
	}
	s.PerPod = int(max(1, s.Unit))
	for _, n := range []*int{&s.Size, &s.Min, &s.Max, &s.Multiple, &s.StartSize, &s.Done} {
		*n *= s.PerPod
	}
	return s, nil
}

// MaxSize is the largest supported size of a job, in pods, and MaxPerPod the largest number of units that a
// pod may request if they are counted. Both together fit in the sizes of the API.
const (
	MaxSize   = 1 << 20
	MaxPerPod = 1 << 10
)

// Operation is an operation of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Patch is a JSON patch of a job or, if Child is true, of its child.
type Patch struct {
	Child      bool
	Operations []Operation
}

// Resize returns the patches, in order, that resize a job of the given shape to the given size. With size 0
// they suspend the job; otherwise they resume it if it is suspended. A kind without a child needs
// one patch.
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
	// The job is always patched, because the caller adds annotations.
	return append(patches, Patch{Operations: job})
}

// JSON encodes the patch. If the object no longer has the given resource version, the API server
// rejects the patch with a conflict.
func (p Patch) JSON(resourceVersion string) ([]byte, error) {
	condition := Operation{"replace", "/metadata/resourceVersion", resourceVersion}
	return json.Marshal(append([]Operation{condition}, p.Operations...))
}

// read decodes the specification and status of an object into T.
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

// conditions are the conditions of a job's status.
type conditions []struct{ Type, Status string }

// anyTrue reports whether a condition of one of the types is true.
func (c conditions) anyTrue(types ...string) bool {
	for _, condition := range c {
		if condition.Status == string(metav1.ConditionTrue) && slices.Contains(types, condition.Type) {
			return true
		}
	}
	return false
}

// setPods sets the pod template, the amount of the unit that a pod requests, and the grace period.
func (s *Shape) setPods(template *corev1.PodTemplateSpec, unit corev1.ResourceName) {
	s.Pod, s.Unit = template.Spec, Requests(&template.Spec, unit)
	for _, containers := range [][]corev1.Container{s.Pod.InitContainers, s.Pod.Containers} {
		for i := range containers {
			// The API server defaults requests to limits in pods, but not in pod templates.
			requests := maps.Clone(containers[i].Resources.Limits)
			if requests != nil {
				maps.Copy(requests, containers[i].Resources.Requests)
				containers[i].Resources.Requests = requests
			}
		}
	}
	s.Grace = Grace(template.Spec.TerminationGracePeriodSeconds)
}

// MaxGrace limits how long the controller waits for pods to terminate, regardless of their grace period.
const MaxGrace = time.Hour

// Grace converts a termination grace period in seconds to a duration of at most MaxGrace. The default
// is 30 s.
func Grace(seconds *int64) time.Duration {
	return time.Duration(min(ptr.Deref(seconds, corev1.DefaultTerminationGracePeriodSeconds), int64(MaxGrace/time.Second))) * time.Second
}

// setElastic sets the pods to the one template that requests the unit, and returns its index. part is
// what messages call a template, such as "worker group".
func (s *Shape) setElastic(templates []corev1.PodTemplateSpec, unit corev1.ResourceName, part string) (int, error) {
	elastic := -1
	for i := range templates {
		switch {
		case Requests(&templates[i].Spec, unit) == 0:
		case elastic >= 0:
			return 0, notElastic("several %ss request %s; exactly one must request it", part, unit)
		default:
			elastic = i
			s.setPods(&templates[i], unit)
		}
	}
	if elastic < 0 {
		return 0, notElastic("no %s requests %s", part, unit)
	}
	return elastic, nil
}

// Requests returns how much of a unit a pod requests. It follows kube-scheduler: containers run together
// with all sidecars, and each init container runs together with the sidecars before it.
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
