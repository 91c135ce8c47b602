package kinds

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// readRayCluster reads a RayCluster of KubeRay: the worker group whose pods request the
// unit is resized. Which of its pods go is not ours to choose.
func readRayCluster(job, _ *unstructured.Unstructured, unit corev1.ResourceName) (Shape, error) {
	s := Shape{
		Suspended: boolean(job.Object, "spec", "suspend"),
		Selector:  map[string]string{"ray.io/cluster": job.GetName()},
		suspend:   "/spec/suspend",
	}
	for _, owner := range job.GetOwnerReferences() {
		// Its driver runs on the head, which a pause would end.
		s.NoPause = s.NoPause || owner.Kind == "RayJob"
	}
	groups := entries(job.Object, "spec", "workerGroupSpecs")
	elastic, err := s.elastic(groups, unit, "worker group", "template")
	if err != nil {
		return s, err
	}
	group := groups[elastic]
	s.Selector["ray.io/group"] = text(group, "groupName")
	s.sizes = []string{fmt.Sprintf("/spec/workerGroupSpecs/%d/replicas", elastic)}
	s.Multiple = 1
	if hosts, set := number(group, "numOfHosts"); set {
		s.Multiple = max(1, hosts)
	}
	least, _ := number(group, "minReplicas")
	most, _ := number(group, "maxReplicas")
	replicas, _ := number(group, "replicas")
	// KubeRay keeps to the limits whatever replicas says.
	if replicas = max(replicas, least); most > 0 {
		replicas = min(replicas, most)
	}
	s.Size, s.Min, s.Max = replicas*s.Multiple, least*s.Multiple, most*s.Multiple
	s.Suspended = s.Suspended || s.Size == 0
	var head Shape
	head.pods(job.Object, unit, "spec", "headGroupSpec", "template")
	switch {
	case head.Unit > 0:
		return s, notElastic("its head requests %s, and so takes a node beside its workers", unit)
	case boolean(job.Object, "spec", "enableInTreeAutoscaling"):
		return s, notElastic("spec.enableInTreeAutoscaling is true: Ray's own autoscaler sets its size")
	case boolean(group, "suspend"):
		return s, notElastic("worker group %q is suspended by itself", text(group, "groupName"))
	}
	return s, nil
}

// readPyTorchJob reads a PyTorchJob of training-operator v1 with an elastic policy: its
// workers are resized.
func readPyTorchJob(job, _ *unstructured.Unstructured, unit corev1.ResourceName) (Shape, error) {
	s := Shape{
		Suspended: boolean(job.Object, "spec", "runPolicy", "suspend"),
		Finished:  condition(job, "Succeeded", "Failed"),
		Started:   moment(job.Object, "status", "startTime"),
		Selector: map[string]string{
			"training.kubeflow.org/job-name":     job.GetName(),
			"training.kubeflow.org/replica-type": "worker",
		},
		sizes:   []string{"/spec/pytorchReplicaSpecs/Worker/replicas"},
		suspend: "/spec/runPolicy/suspend",
	}
	size, set := number(job.Object, "spec", "pytorchReplicaSpecs", "Worker", "replicas")
	if s.Size = size; !set {
		s.Size = 1
	}
	s.pods(job.Object, unit, "spec", "pytorchReplicaSpecs", "Worker", "template")
	if _, found, _ := unstructured.NestedMap(job.Object, "spec", "runPolicy"); !found {
		s.suspend, s.suspendIn = "/spec/runPolicy", "suspend"
	}
	policy, found, _ := unstructured.NestedMap(job.Object, "spec", "elasticPolicy")
	var hasMin, hasMax bool
	s.Min, hasMin = number(policy, "minReplicas")
	s.Max, hasMax = number(policy, "maxReplicas")
	metrics := entries(policy, "metrics")
	var master Shape
	master.pods(job.Object, unit, "spec", "pytorchReplicaSpecs", "Master", "template")
	switch _, worker, _ := unstructured.NestedMap(job.Object, "spec", "pytorchReplicaSpecs", "Worker"); {
	case !worker:
		return s, notElastic("it has no workers")
	case master.Unit > 0:
		return s, notElastic("its master requests %s, and so takes a node beside its workers; torchrun needs none", unit)
	case !found:
		return s, notElastic("spec.elasticPolicy is unset, so its processes expect a fixed number of nodes")
	case !hasMin || !hasMax:
		return s, notElastic("spec.elasticPolicy lacks minReplicas or maxReplicas; want both: the operator takes one for the other, and its processes expect that number of nodes")
	case len(metrics) > 0:
		return s, notElastic("spec.elasticPolicy.metrics makes a HorizontalPodAutoscaler set its size")
	}
	return s, nil
}
