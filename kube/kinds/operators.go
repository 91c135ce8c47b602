package kinds

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// readRayCluster reads a RayCluster of KubeRay, and the RayJob that owns it, if any. The worker group whose pods
// request the unit is resized.
func readRayCluster(object, rayJob *unstructured.Unstructured, unit corev1.ResourceName) (Shape, error) {
	ray, err := read[struct {
		Spec struct {
			Suspend, EnableInTreeAutoscaling bool
			HeadGroupSpec                    struct{ Template corev1.PodTemplateSpec }
			WorkerGroupSpecs                 []struct {
				GroupName                                      string
				Suspend                                        bool
				Replicas, MinReplicas, MaxReplicas, NumOfHosts int
				Template                                       corev1.PodTemplateSpec
			}
		}
	}](object)
	s := Shape{
		Suspended: ray.Spec.Suspend,
		Selector:  map[string]string{"ray.io/cluster": object.GetName()},
	}
	if ray.Spec.Suspend {
		// The controller pauses a RayCluster at a size of 0 and only clears this field: suspending it would
		// delete the head and all work that was submitted to it.
		s.suspend = "/spec/suspend"
	}
	if rayJob != nil {
		// KubeRay keeps the RayCluster after the end of its RayJob, unless shutdownAfterJobFinishes is true.
		status, _, _ := unstructured.NestedString(rayJob.Object, "status", "jobDeploymentStatus")
		s.Over = status == "Complete" || status == "Failed"
	}
	for _, owner := range object.GetOwnerReferences() {
		// The driver of a RayJob may fail without workers.
		s.NoPause = s.NoPause || owner.Kind == "RayJob" && !s.Over
	}
	if err != nil {
		return s, err
	}
	var templates []corev1.PodTemplateSpec
	for _, group := range ray.Spec.WorkerGroupSpecs {
		templates = append(templates, group.Template)
	}
	elastic, err := s.setElastic(templates, unit, "worker group")
	if err != nil {
		return s, err
	}
	group := ray.Spec.WorkerGroupSpecs[elastic]
	s.Selector["ray.io/group"] = group.GroupName
	s.sizes = []string{fmt.Sprintf("/spec/workerGroupSpecs/%d/replicas", elastic)}
	s.Multiple = max(1, group.NumOfHosts)
	// KubeRay clamps replicas to the limits.
	replicas := max(group.Replicas, group.MinReplicas)
	if group.MaxReplicas > 0 {
		replicas = min(replicas, group.MaxReplicas)
	}
	s.Size, s.Min, s.Max = replicas*s.Multiple, group.MinReplicas*s.Multiple, group.MaxReplicas*s.Multiple
	s.Suspended = s.Suspended || s.Size == 0
	s.NoPause = s.NoPause || group.MinReplicas > 0
	switch {
	case Requests(&ray.Spec.HeadGroupSpec.Template.Spec, unit) > 0:
		return s, notElastic("its head requests %s, so it occupies a node in addition to its workers", unit)
	case ray.Spec.EnableInTreeAutoscaling:
		return s, notElastic("spec.enableInTreeAutoscaling: is true, so the autoscaler of Ray sets its size")
	case group.Suspend:
		return s, notElastic("worker group %q is suspended separately", group.GroupName)
	}
	return s, nil
}

// readPyTorchJob reads a PyTorchJob of training-operator v1 with an elastic policy. Its workers are
// resized.
func readPyTorchJob(object, _ *unstructured.Unstructured, unit corev1.ResourceName) (Shape, error) {
	type replicas struct {
		Replicas *int
		Template corev1.PodTemplateSpec
	}
	job, err := read[struct {
		Spec struct {
			RunPolicy *struct {
				Suspend          bool
				SchedulingPolicy struct{ MinAvailable int }
			}
			ElasticPolicy *struct {
				MinReplicas, MaxReplicas, MaxRestarts *int
				Metrics                               []any
			}
			PytorchReplicaSpecs struct {
				Master *replicas
				Worker *replicas
			}
		}
		Status struct {
			Conditions      conditions
			StartTime       metav1.Time
			ReplicaStatuses map[string]struct{ Succeeded int }
		}
	}](object)
	s := Shape{
		Done:      job.Status.ReplicaStatuses["Worker"].Succeeded,
		Suspended: job.Spec.RunPolicy != nil && job.Spec.RunPolicy.Suspend,
		Finished:  job.Status.Conditions.anyTrue("Succeeded", "Failed"),
		Completed: job.Status.Conditions.anyTrue("Succeeded"),
		Started:   job.Status.StartTime.Time,
		Selector: map[string]string{
			"training.kubeflow.org/job-name":     object.GetName(),
			"training.kubeflow.org/replica-type": "worker",
		},
		Index:     "training.kubeflow.org/replica-index",
		FillsGaps: true,
		Size:      1,
		sizes:     []string{"/spec/pytorchReplicaSpecs/Worker/replicas"},
		suspend:   "/spec/runPolicy/suspend",
	}
	if job.Spec.RunPolicy == nil {
		s.suspend, s.suspendIn = "/spec/runPolicy", "suspend"
	}
	if err != nil {
		return s, err
	}
	worker, policy := job.Spec.PytorchReplicaSpecs.Worker, job.Spec.ElasticPolicy
	if worker == nil {
		return s, notElastic("it has no workers")
	}
	s.Size = ptr.Deref(worker.Replicas, 1)
	s.setPods(&worker.Template, unit)
	if policy != nil {
		s.Min, s.Max = ptr.Deref(policy.MinReplicas, 0), ptr.Deref(policy.MaxReplicas, 0)
	}
	masters, master := 0, job.Spec.PytorchReplicaSpecs.Master
	if master != nil {
		masters = ptr.Deref(master.Replicas, 1)
	}
	if job.Spec.RunPolicy != nil {
		// A gang scheduler does not place fewer pods than minAvailable.
		s.Min = max(s.Min, job.Spec.RunPolicy.SchedulingPolicy.MinAvailable-masters)
	}
	switch {
	case master != nil && Requests(&master.Template.Spec, unit) > 0:
		return s, notElastic("its master requests %s, so it occupies a node in addition to its workers; torchrun needs no master", unit)
	case policy == nil:
		return s, notElastic("spec.elasticPolicy: is unset, so its processes expect a fixed number of nodes")
	case policy.MinReplicas == nil || policy.MaxReplicas == nil:
		return s, notElastic("spec.elasticPolicy: must set both minReplicas and maxReplicas; " +
			"otherwise the operator uses one for both, and its processes expect that number of nodes")
	case ptr.Deref(policy.MaxRestarts, 0) < 1:
		return s, notElastic("spec.elasticPolicy.maxRestarts: is %d, so a resize would fail "+
			"the job; must be at least 1 per resize, such as 100", ptr.Deref(policy.MaxRestarts, 0))
	case len(policy.Metrics) > 0:
		return s, notElastic("spec.elasticPolicy.metrics: is set, so a HorizontalPodAutoscaler sets its size")
	}
	return s, nil
}
