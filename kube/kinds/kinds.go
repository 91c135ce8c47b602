// Package kinds knows the kinds of elastic jobs: where each keeps its size, how it is
// suspended, and which pods are its own. A kind is a function that reads a Shape.
package kinds

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is a kind of elastic jobs.
type Kind struct {
	Name string
	GVK  schema.GroupVersionKind
	// Child, where set, is the kind of the object of the same name that keeps the size.
	Child *schema.GroupVersionKind
	// read returns the shape of a job; child is nil for a kind without, and where it does
	// not exist.
	read func(job, child *unstructured.Unstructured, unit corev1.ResourceName) (Shape, error)
}

// Shape is what matters of a job's specification and status.
type Shape struct {
	// Size is how many pods the job asks for while it is not suspended.
	Size int
	// Suspended says that it asks for none.
	Suspended bool
	// Finished jobs never get pods again.
	Finished bool
	// Started is when it began to run, or zero.
	Started time.Time
	// Min and Max limit its size; 0 means unlimited.
	Min, Max int
	// Multiple divides every legal size.
	Multiple int
	// StartSize, where not 0, is the only size that it can be resumed at.
	StartSize int
	// NoPause says that it must not be suspended.
	NoPause bool
	// Selector are the labels of its pods.
	Selector map[string]string
	// Unit is how much of the pool's unit each of its pods requests.
	Unit int64
	// Pod is what its pods are made from.
	Pod corev1.PodSpec
	// Grace is how long a deleted pod may take to go.
	Grace time.Duration
	// Report is what the job itself says of its progress, or nil.
	Report *Report

	// sizes are the JSON pointers to the fields of the size, in the child if the kind has
	// one, and suspend that of the suspension, or of an object to make with the field
	// suspendIn where there is none.
	sizes              []string
	suspend, suspendIn string
}

// Report is what a job says of its progress; nil is not known.
type Report struct {
	// Remaining is the time to its end at its present size.
	Remaining *time.Duration
	// Progress is the share of its work that is done.
	Progress *float64
	Time     time.Time
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
	return []Kind{
		{Name: "Job", GVK: schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, read: readJob},
		{Name: "JobSet", GVK: jobSetGVK, read: readJobSet},
		{Name: "RayCluster", GVK: schema.GroupVersionKind{Group: "ray.io", Version: "v1", Kind: "RayCluster"}, read: readRayCluster},
		{Name: "PyTorchJob", GVK: schema.GroupVersionKind{Group: "kubeflow.org", Version: "v1", Kind: "PyTorchJob"}, read: readPyTorchJob},
		{
			Name: "TrainJob", GVK: schema.GroupVersionKind{Group: "trainer.kubeflow.org", Version: "v1alpha1", Kind: "TrainJob"},
			Child: &jobSetGVK, read: readTrainJob,
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

// Read returns the shape of a job in a pool of the given unit. The error, a
// NotElasticError, says why the job cannot be resized; the shape then holds at least what
// tells which pods are the job's, and its size where it has one.
func (k Kind) Read(job, child *unstructured.Unstructured, unit corev1.ResourceName) (Shape, error) {
	s, err := k.read(job, child, unit)
	s.Multiple = max(s.Multiple, 1)
	if err == nil && s.Unit == 0 {
		err = notElastic("its pods request no %s", unit)
	}
	return s, err
}

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

// Resize returns the patches, in order, that make a job of the given shape hold so many
// nodes: 0 suspends it, and anything else resumes a suspended one. A kind without a child
// takes one patch.
func (k Kind) Resize(s Shape, nodes int) []Patch {
	var job, size []Operation
	if suspend := nodes == 0; suspend != s.Suspended {
		var value any = suspend
		if s.suspendIn != "" {
			value = map[string]any{s.suspendIn: suspend}
		}
		job = append(job, Operation{"add", s.suspend, value})
	}
	if nodes > 0 && nodes != s.Size {
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

// number returns the integer at a path, and whether there is one.
func number(object map[string]any, path ...string) (int, bool) {
	value, found, err := unstructured.NestedFieldNoCopy(object, path...)
	if !found || err != nil {
		return 0, false
	}
	switch n := value.(type) {
	case int64:
		return int(n), true
	case float64:
		return int(n), float64(int(n)) == n
	}
	return 0, false
}

// boolean returns the boolean at a path, false where there is none.
func boolean(object map[string]any, path ...string) bool {
	b, _, _ := unstructured.NestedBool(object, path...)
	return b
}

// text returns the string at a path, "" where there is none.
func text(object map[string]any, path ...string) string {
	s, _, _ := unstructured.NestedString(object, path...)
	return s
}

// moment returns the time at a path, zero where there is none.
func moment(object map[string]any, path ...string) time.Time {
	t, err := time.Parse(time.RFC3339, text(object, path...))
	if err != nil {
		return time.Time{}
	}
	return t
}

// entries returns the objects of the list at a path.
func entries(object map[string]any, path ...string) []map[string]any {
	value, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	list, _ := value.([]any)
	var found []map[string]any
	for _, entry := range list {
		m, _ := entry.(map[string]any)
		found = append(found, m) // A nil map reads as an empty one.
	}
	return found
}

// condition reports whether a condition of one of the types is true.
func condition(job *unstructured.Unstructured, types ...string) bool {
	return slices.ContainsFunc(entries(job.Object, "status", "conditions"), func(c map[string]any) bool {
		return text(c, "status") == "True" && slices.Contains(types, text(c, "type"))
	})
}

// pods reads the pod template at a path: how much of the unit a pod requests, and the time
// that it has to end.
func (s *Shape) pods(object map[string]any, unit corev1.ResourceName, path ...string) {
	s.Grace = corev1.DefaultTerminationGracePeriodSeconds * time.Second
	template, _, _ := unstructured.NestedMap(object, append(path, "spec")...)
	var spec corev1.PodSpec
	if runtime.DefaultUnstructuredConverter.FromUnstructured(template, &spec) != nil {
		return
	}
	s.Pod, s.Unit = spec, Requests(&spec, unit)
	if seconds := spec.TerminationGracePeriodSeconds; seconds != nil {
		s.Grace = time.Duration(*seconds) * time.Second
	}
}

// elastic reads the pods of the one part of a job that requests the unit, and returns its
// index. The parts have their pod templates at a path; what names one.
func (s *Shape) elastic(parts []map[string]any, unit corev1.ResourceName, what string, path ...string) (int, error) {
	elastic := -1
	for i, part := range parts {
		var pods Shape
		switch pods.pods(part, unit, path...); {
		case pods.Unit == 0:
		case elastic >= 0:
			return 0, notElastic("several %ss request %s; want one", what, unit)
		default:
			elastic, s.Pod, s.Unit, s.Grace = i, pods.Pod, pods.Unit, pods.Grace
		}
	}
	if elastic < 0 {
		return 0, notElastic("no %s requests %s", what, unit)
	}
	return elastic, nil
}

// Requests returns how much of a unit a pod requests.
func Requests(spec *corev1.PodSpec, unit corev1.ResourceName) int64 {
	var sum int64
	for i := range spec.Containers {
		resources := &spec.Containers[i].Resources
		quantity, found := resources.Requests[unit]
		if !found {
			quantity = resources.Limits[unit] // The API server's default.
		}
		sum += quantity.Value()
	}
	return sum
}
