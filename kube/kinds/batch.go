package kinds

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// readJob reads an Indexed batch/v1 Job: parallelism and completions are its size, equal
// and changed together. The highest indexes go first.
func readJob(job, _ *unstructured.Unstructured, unit corev1.ResourceName) (Shape, error) {
	s := Shape{
		Suspended: boolean(job.Object, "spec", "suspend"),
		Finished:  condition(job, "Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"),
		Started:   moment(job.Object, "status", "startTime"),
		Selector:  map[string]string{"batch.kubernetes.io/job-name": job.GetName()},
		suspend:   "/spec/suspend",
	}
	err := s.indexed(job.Object, "/spec", "spec")
	s.pods(job.Object, unit, "spec", "template")
	if by := text(job.Object, "spec", "managedBy"); by != "" && by != "kubernetes.io/job-controller" {
		err = notElastic("spec.managedBy is %q: another controller makes its pods", by)
	}
	return s, err
}

// indexed reads the size of the specification of a Job at a path, which pointer is too.
func (s *Shape) indexed(object map[string]any, pointer string, path ...string) error {
	spec, _, _ := unstructured.NestedMap(object, path...)
	parallelism, hasParallelism := number(spec, "parallelism")
	if !hasParallelism {
		parallelism = 1
	}
	s.Size = parallelism
	completions, hasCompletions := number(spec, "completions")
	mode := text(spec, "completionMode")
	s.sizes = []string{pointer + "/parallelism", pointer + "/completions"}
	if mode != "Indexed" || !hasCompletions || completions != parallelism || parallelism < 1 {
		was := "unset"
		if hasCompletions {
			was = fmt.Sprint(completions)
		}
		return notElastic("completionMode is %q, parallelism %d and completions %s; want Indexed and two equal numbers of at least 1",
			mode, parallelism, was)
	}
	return s.leastCompletions(spec)
}

// leastCompletions reads the fields of a Job that the API server takes no fewer completions for.
func (s *Shape) leastCompletions(spec map[string]any) error {
	if most, set := number(spec, "maxFailedIndexes"); set {
		s.Min = max(s.Min, most)
	}
	for _, rule := range entries(spec, "successPolicy", "rules") {
		if count, set := number(rule, "succeededCount"); set {
			s.Min = max(s.Min, count)
		}
		if indexes := text(rule, "succeededIndexes"); indexes != "" {
			// Ascending, as 0,2-5.
			last, err := strconv.Atoi(indexes[strings.LastIndexAny(indexes, ",-")+1:])
			if err != nil {
				return notElastic("successPolicy has the indexes %q; want numbers and ranges", indexes)
			}
			s.Min = max(s.Min, last+1)
		}
	}
	return nil
}

// readJobSet reads a JobSet: the replicated job whose pods request the unit, which has one
// replica, is resized as a Job is. It takes JobSet 0.12 with the gate ElasticJobSet.
func readJobSet(job, _ *unstructured.Unstructured, unit corev1.ResourceName) (Shape, error) {
	s := Shape{
		Suspended: boolean(job.Object, "spec", "suspend"),
		Finished:  text(job.Object, "status", "terminalState") != "" || condition(job, "Completed", "Failed"),
		Selector:  map[string]string{"jobset.sigs.k8s.io/jobset-name": job.GetName()},
		suspend:   "/spec/suspend",
	}
	jobs := entries(job.Object, "spec", "replicatedJobs")
	elastic, err := s.elastic(jobs, unit, "replicated job", "template", "spec", "template")
	if err != nil {
		return s, err
	}
	replicated := jobs[elastic]
	s.Selector["jobset.sigs.k8s.io/replicatedjob-name"] = text(replicated, "name")
	pointer := fmt.Sprintf("/spec/replicatedJobs/%d/template/spec", elastic)
	err = s.indexed(replicated, pointer, "template", "spec")
	if replicas, set := number(replicated, "replicas"); set && replicas != 1 {
		s.Size *= replicas
		err = notElastic("replicated job %q has %d replicas; want 1", text(replicated, "name"), replicas)
	}
	return s, err
}

// readTrainJob reads a TrainJob of Kubeflow Trainer v2, which resizes through its JobSet
// while it runs. Its own number of nodes cannot be changed, and the trainer writes it into
// the JobSet whenever the job is suspended: it starts and resumes at that number.
func readTrainJob(job, jobSet *unstructured.Unstructured, unit corev1.ResourceName) (Shape, error) {
	suspended, finished := boolean(job.Object, "spec", "suspend"), condition(job, "Complete", "Failed")
	if jobSet == nil {
		s := Shape{Suspended: suspended, Finished: finished}
		s.Size, _ = number(job.Object, "spec", "trainer", "numNodes")
		return s, notElastic("it has no JobSet yet")
	}
	s, err := readJobSet(jobSet, nil, unit)
	s.Suspended, s.Finished, s.suspend = suspended, finished, "/spec/suspend"
	s.Started = moment(job.Object, "metadata", "creationTimestamp")
	nodes, set := number(job.Object, "spec", "trainer", "numNodes")
	if s.StartSize = nodes; !set && err == nil {
		err = notElastic("spec.trainer.numNodes is unset")
	}
	if suspended {
		s.Size = nodes
	}
	// A JobSet that is suspended and given its number of nodes back at once has its Job grow
	// before it is suspended.
	s.NoPause = s.Size < nodes
	status, _, _ := unstructured.NestedMap(job.Object, "status", "trainerStatus")
	if updated := moment(status, "lastUpdatedTime"); !updated.IsZero() {
		s.Report = &Report{Time: updated}
		if seconds, known := number(status, "estimatedRemainingSeconds"); known && seconds >= 0 {
			s.Report.Remaining = new(time.Duration(seconds) * time.Second)
		}
		if percent, known := number(status, "progressPercentage"); known {
			s.Report.Progress = new(float64(percent) / 100)
		}
	}
	return s, err
}
