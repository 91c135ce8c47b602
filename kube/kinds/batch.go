package kinds

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// readJob reads an Indexed batch/v1 Job. Its size is parallelism and completions, which are equal and
// change together. When the Job shrinks, the pods with the highest indexes are deleted.
func readJob(object, _ *unstructured.Unstructured, unit corev1.ResourceName) (Shape, error) {
	job, err := read[struct {
		Spec   batchv1.JobSpec
		Status struct {
			Conditions       conditions
			StartTime        metav1.Time
			Active           int
			Succeeded        int
			CompletedIndexes string
			FailedIndexes    string
		}
	}](object)
	s := Shape{
		Done:      max(job.Status.Succeeded, countIndexes(job.Status.CompletedIndexes)) + countIndexes(job.Status.FailedIndexes),
		Suspended: ptr.Deref(job.Spec.Suspend, false),
		Finished:  job.Status.Conditions.anyTrue("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"),
		Completed: job.Status.Conditions.anyTrue("Complete", "SuccessCriteriaMet"),
		Started:   job.Status.StartTime.Time,
		Selector:  map[string]string{"batch.kubernetes.io/job-name": object.GetName()},
		Index:     batchv1.JobCompletionIndexAnnotation,
		suspend:   "/spec/suspend",
		selector:  "/spec/template/spec/nodeSelector",
		// As in the validation of the API server.
		fixed: job.Status.Active > 0 || !job.Status.StartTime.IsZero() && !job.Status.Conditions.anyTrue("Suspended"),
	}
	if err != nil {
		return s, err
	}
	s.setPods(&job.Spec.Template, unit)
	err = s.setIndexed(&job.Spec, 1, "/spec")
	return s, err
}

// countIndexes returns the number of indexes in a list such as 0,2-5. It ignores invalid entries.
func countIndexes(list string) int {
	sum := 0
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		to := from
		if err == nil && isRange {
			to, err = strconv.Atoi(last)
		}
		if err == nil && to >= from {
			sum += to - from + 1
		}
	}
	return sum
}

// setIndexed sets the size fields for a number of identical Jobs. pointer is the JSON pointer to their specification.
func (s *Shape) setIndexed(spec *batchv1.JobSpec, jobs int, pointer string) error {
	parallelism := ptr.Deref(spec.Parallelism, 1)
	s.Size, s.Multiple = jobs*int(parallelism), jobs
	s.sizes = []string{pointer + "/parallelism", pointer + "/completions"}
	mode := ptr.Deref(spec.CompletionMode, "")
	if mode != batchv1.IndexedCompletion || parallelism < 1 || !ptr.Equal(spec.Completions, &parallelism) {
		completions := "unset"
		if spec.Completions != nil {
			completions = fmt.Sprint(*spec.Completions)
		}
		return notElastic("completionMode is %q, parallelism %d and completions %s; "+
			"completionMode must be Indexed, and the numbers must be equal and at least 1",
			mode, parallelism, completions)
	}
	// The API server rejects fewer completions than these fields need.
	minimum := ptr.Deref(spec.MaxFailedIndexes, 0)
	if s := spec.Scheduling; s != nil && s.SchedulingPolicy != nil && s.SchedulingPolicy.Gang != nil {
		minimum = max(minimum, ptr.Deref(s.SchedulingPolicy.Gang.MinCount, 0)) // If unset, the gang has the size of the Job.
	}
	for _, rule := range ptr.Deref(spec.SuccessPolicy, batchv1.SuccessPolicy{}).Rules {
		minimum = max(minimum, ptr.Deref(rule.SucceededCount, 0))
		if indexes := ptr.Deref(rule.SucceededIndexes, ""); indexes != "" {
			// The indexes are in ascending order, such as 0,2-5.
			last, err := strconv.ParseInt(indexes[strings.LastIndexAny(indexes, ",-")+1:], 10, 32)
			if err != nil {
				return notElastic("successPolicy: has the indexes %q; must be numbers and ranges", indexes)
			}
			minimum = max(minimum, int32(last)+1)
		}
	}
	s.Min = jobs * int(minimum)
	return nil
}

// jobSet has the fields of a JobSet that are read.
type jobSet struct {
	Spec struct {
		Suspend        bool
		StartupPolicy  struct{ StartupPolicyOrder string }
		ReplicatedJobs []replicatedJob
	}
	Status struct {
		Conditions           conditions
		TerminalState        string
		ReplicatedJobsStatus []struct {
			Name                     string
			Ready, Succeeded, Failed int
		}
	}
}

// replicatedJob is a replicated job of a JobSet.
type replicatedJob struct {
	Name      string
	Replicas  *int
	DependsOn []struct{ Name, Status string }
	Template  struct{ Spec batchv1.JobSpec }
}

// dependencyComplete is the status of a dependency that must complete. Other dependencies must be ready.
const dependencyComplete = "Complete"

// awaits returns why the JobSet controller does not create the pods of a replicated job yet, "" if it does. Trainer
// starts its initializers in the same way.
func (s *jobSet) awaits(index int) string {
	waiting := &s.Spec.ReplicatedJobs[index]
	for _, d := range waiting.DependsOn {
		if !s.reached(d.Name, d.Status) {
			return fmt.Sprintf("replicated job %q waits until %q is %s", waiting.Name, d.Name, strings.ToLower(d.Status))
		}
	}
	if s.Spec.StartupPolicy.StartupPolicyOrder != "InOrder" {
		return ""
	}
	for _, earlier := range s.Spec.ReplicatedJobs[:index] {
		if !s.reached(earlier.Name, "Ready") {
			return fmt.Sprintf("replicated job %q starts after %q", waiting.Name, earlier.Name)
		}
	}
	return ""
}

// reached reports whether a replicated job has the status of a dependency.
func (s *jobSet) reached(name, status string) bool {
	replicas := 1
	for _, r := range s.Spec.ReplicatedJobs {
		if r.Name == name {
			replicas = ptr.Deref(r.Replicas, 1)
		}
	}
	for _, r := range s.Status.ReplicatedJobsStatus {
		if r.Name == name {
			return r.Succeeded >= replicas || status != dependencyComplete && r.Ready+r.Succeeded+r.Failed >= replicas
		}
	}
	return false
}

// readJobSet reads a JobSet. The replicated job whose pods request the unit is resized like a Job, and
// all its replicas have the same size. This needs JobSet 0.12 with the feature gate ElasticJobSet.
func readJobSet(object, _ *unstructured.Unstructured, unit corev1.ResourceName) (Shape, error) {
	set, err := read[jobSet](object)
	s := Shape{
		Suspended: set.Spec.Suspend,
		Finished:  set.Status.TerminalState != "" || set.Status.Conditions.anyTrue("Completed", "Failed"),
		Completed: set.Status.TerminalState == "Completed" || set.Status.Conditions.anyTrue("Completed"),
		Selector:  map[string]string{"jobset.sigs.k8s.io/jobset-name": object.GetName()},
		Index:     batchv1.JobCompletionIndexAnnotation,
		suspend:   "/spec/suspend",
	}
	if err != nil {
		return s, err
	}
	var templates []corev1.PodTemplateSpec
	for _, replicated := range set.Spec.ReplicatedJobs {
		templates = append(templates, replicated.Template.Spec.Template)
	}
	elastic, err := s.setElastic(templates, unit, "replicated job")
	if err != nil {
		return s, err
	}
	replicated := set.Spec.ReplicatedJobs[elastic]
	s.Selector["jobset.sigs.k8s.io/replicatedjob-name"] = replicated.Name
	s.selector = fmt.Sprintf("/spec/replicatedJobs/%d/template/spec/template/spec/nodeSelector", elastic)
	s.Awaits = set.awaits(elastic)
	replicas := ptr.Deref(replicated.Replicas, 1)
	if replicas < 1 {
		return s, notElastic("replicated job %q has no replicas", replicated.Name)
	}
	err = s.setIndexed(&replicated.Template.Spec, replicas, fmt.Sprintf("/spec/replicatedJobs/%d/template/spec", elastic))
	return s, err
}

// readTrainJob reads a TrainJob of Kubeflow Trainer v2. While it runs, it is resized through its JobSet.
// Its own field numNodes cannot be changed. When the job is suspended, Trainer resets the JobSet to
// numNodes, so the job starts and resumes at that size.
func readTrainJob(object, jobSet *unstructured.Unstructured, unit corev1.ResourceName) (Shape, error) {
	job, err := read[struct {
		Spec struct {
			Suspend bool
			Trainer struct{ NumNodes *int }
		}
		Status struct {
			Conditions    conditions
			TrainerStatus struct {
				ProgressPercentage, EstimatedRemainingSeconds *int
				LastUpdatedTime                               metav1.Time
			}
		}
	}](object)
	nodes, finished := ptr.Deref(job.Spec.Trainer.NumNodes, 0), job.Status.Conditions.anyTrue("Complete", "Failed")
	completed := job.Status.Conditions.anyTrue("Complete")
	if jobSet == nil && err == nil {
		err = notElastic("it has no JobSet yet")
	}
	if err != nil {
		return Shape{Size: nodes, Suspended: job.Spec.Suspend, Finished: finished, Completed: completed}, err
	}
	s, err := readJobSet(jobSet, nil, unit)
	s.Suspended, s.Finished, s.Completed, s.suspend = job.Spec.Suspend, finished, completed, "/spec/suspend"
	s.selector = "" // Trainer resets the JobSet.
	s.Started = object.GetCreationTimestamp().Time
	if s.StartSize = nodes; job.Spec.Trainer.NumNodes == nil && err == nil {
		err = notElastic("spec.trainer.numNodes is unset")
	}
	if s.Suspended {
		s.Size = nodes
	}
	// If a JobSet is suspended and reset to numNodes at the same time, its Job grows before it is
	// suspended. So the job must not be paused below numNodes.
	s.NoPause = s.Size < nodes
	if status := job.Status.TrainerStatus; !status.LastUpdatedTime.IsZero() {
		s.Report = &Report{Time: status.LastUpdatedTime.UTC()}
		if seconds := status.EstimatedRemainingSeconds; seconds != nil && *seconds >= 0 {
			s.Report.Remaining = new(time.Duration(*seconds) * time.Second)
		}
		if percent := status.ProgressPercentage; percent != nil {
			s.Report.Progress = new(float64(*percent) / 100)
		}
	}
	return s, err
}
