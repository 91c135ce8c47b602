package plan_test

import (
	"maps"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/plan"
	"github.com/elastalloc/elastalloc/kube/world"
)

// write writes a target on its job.
func write(c *worldtest.Cluster, t plan.Target) {
	annotate(c, c.Jobs[t.Job.Object.GetName()].DeepCopy(), map[string]string{
		world.TargetAnnotation:     strconv.Itoa(t.Job.PodsOf(t.Nodes)),
		world.TargetTypeAnnotation: t.Type, world.DecisionAnnotation: t.Record.String(),
	})
}

// take takes a step as the API server would.
func take(c *worldtest.Cluster, s plan.Step) error {
	job := c.Jobs[s.Job.Object.GetName()]
	patches, _ := s.Patches()
	record := s.Record(c.Now)
	for _, patch := range patches {
		patched, err := worldtest.Patch(job, patch)
		if err != nil {
			return err
		}
		job = patched
	}
	annotate(c, job, map[string]string{world.DecisionAnnotation: record.String()})
	return nil
}

// annotate puts a job with further annotations in its place.
func annotate(c *worldtest.Cluster, job *unstructured.Unstructured, more map[string]string) {
	annotations := job.GetAnnotations()
	maps.Copy(annotations, more)
	job.SetAnnotations(annotations)
	c.Jobs[job.GetName()] = job
}
