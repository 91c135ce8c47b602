package world_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/internal/worldtest"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/world"
)

func TestNodesThatCount(t *testing.T) {
	t.Parallel()
	node := func(name string, change func(*corev1.Node)) *corev1.Node {
		n := worldtest.Node(name)
		change(n)
		return n
	}
	taint := func(effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: effect}} }
	}
	smallForeign, ended := worldtest.Pod("cpu", "good", nil), worldtest.Pod("ended", "good", nil)
	smallForeign.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	ended.Status.Phase = corev1.PodSucceeded
	in := world.Input{
		Now: worldtest.Begin(), Pool: worldtest.Pool(),
		Nodes: []*corev1.Node{
			worldtest.Node("good"),
			node("tolerated", func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
			}),
			node("rather not", taint(corev1.TaintEffectPreferNoSchedule)),
			node("other pool", func(n *corev1.Node) { n.Labels = nil }),
			node("not ready", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }),
			node("no unit", func(n *corev1.Node) { n.Status.Allocatable = nil }),
			node("cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }),
			node("tainted", taint(corev1.TaintEffectNoSchedule)),
			node("evicted", taint(corev1.TaintEffectNoExecute)),
			worldtest.Node("foreign"),
		},
		Pods: []*corev1.Pod{worldtest.Pod("notebook", "foreign", nil), smallForeign, ended},
	}
	in.Pool.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	want := world.NodeCounts{Usable: 3, NotReady: 2, Cordoned: 1, Tainted: 2, Foreign: 1}
	if got := world.Observe(in).Nodes; got != want {
		t.Errorf("nodes are %+v; want %+v", got, want)
	}
}

func TestPodsThatHold(t *testing.T) {
	t.Parallel()
	c := worldtest.New(8, worldtest.Job("a", 4, map[string]string{"work": "10h"}))
	c.Pods[0].DeletionTimestamp = &metav1.Time{Time: c.Now.Add(30 * time.Second)}
	c.Pods[1].Status.Phase = corev1.PodSucceeded
	stray := worldtest.Pod("a-stray", "node-007", c.Pods[2].Labels)
	stray.Namespace = "other" // Another job of that name.
	c.Pods = append(c.Pods, stray)
	w := c.World()
	if j := w.Jobs[0]; j.Pods.Live != 2 || j.Pods.Terminating != 1 || j.Pods.Overdue != 0 || j.Held() != 5 {
		t.Errorf("pods %+v hold %d nodes; want 2 live, 1 terminating, and 5 nodes", j.Pods, j.Held())
	}
	if w.Nodes.Foreign != 1 || w.Free() != 7-5 {
		t.Errorf("%d foreign and %d free nodes; want 1 and 2", w.Nodes.Foreign, w.Free())
	}
	c.Now = c.Now.Add(30*time.Second + c.Pool.SettleTimeout + time.Second)
	if j := c.World().Jobs[0]; j.Pods.Overdue != 1 {
		t.Errorf("%d pods are overdue; want 1", j.Pods.Overdue)
	}
	c.Nodes[0].Spec.Unschedulable = true
	if j := c.World().Jobs[0]; j.Pods.Terminating != 0 {
		t.Errorf("%d pods terminate on nodes that count; want none", j.Pods.Terminating)
	}
}

func TestPinned(t *testing.T) {
	t.Parallel()
	job := func(annotations map[string]string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
		j := worldtest.Job("a", 2, annotations)
		if change != nil {
			change(j)
		}
		return j
	}
	work := map[string]string{"work": "10h"}
	set := func(value any, path ...string) func(*unstructured.Unstructured) {
		return func(j *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(j.Object, value, path...); err != nil {
				t.Error(err)
			}
		}
	}
	tests := map[string]struct {
		job  *unstructured.Unstructured
		want world.Reason
		why  string
	}{
		"fine":           {job(work, nil), "", ""},
		"bad annotation": {job(map[string]string{"work": "10"}, nil), world.BadAnnotations, "elastalloc.dev/work"},
		"paused":         {job(map[string]string{"work": "10h", "paused": "true"}, nil), world.Paused, "paused"},
		"no work":        {job(nil, nil), world.NoRemainingTime, "annotate"},
		"work is done":   {job(map[string]string{"work": "1h"}, nil), world.PastItsEnd, "would have ended"},
		"not elastic":    {job(work, set(int64(9), "spec", "completions")), world.NotElastic, "completions 9"},
		"part of a node": {job(work, set(worldtest.PodSpec(4), "spec", "template", "spec")), world.NotWholeNodes, "request 4"},
		"more than one":  {job(work, set(worldtest.PodSpec(16), "spec", "template", "spec")), world.NotWholeNodes, "request 16"},
		"part of a JobSet": {job(work, func(j *unstructured.Unstructured) {
			controls := true
			j.SetOwnerReferences([]metav1.OwnerReference{{Kind: "JobSet", Name: "set", Controller: &controls}})
		}), world.Owned, "JobSet"},
		"of Kueue": {job(work, func(j *unstructured.Unstructured) {
			j.SetLabels(map[string]string{"kueue.x-k8s.io/queue-name": "q", world.PoolLabel: "training"})
		}), world.KueueOwned, "Kueue"},
		"being deleted": {job(work, func(j *unstructured.Unstructured) {
			j.SetDeletionTimestamp(&metav1.Time{Time: worldtest.Begin()})
		}), world.Deleting, "deleted"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := worldtest.New(4, test.job)
			c.Now = c.Now.Add(time.Hour)
			j := c.World().Jobs[0]
			if j.Pinned != test.want || !strings.Contains(j.Why, test.why) || j.Movable() != (test.want == "") {
				t.Errorf("pinned %q: %s; want %q: %s", j.Pinned, j.Why, test.want, test.why)
			}
		})
	}
}

// TestKueueIsRecommendedTo: in recommend mode there is no second writer to fear.
func TestKueueIsRecommendedTo(t *testing.T) {
	t.Parallel()
	j := worldtest.Job("a", 2, map[string]string{"work": "10h"})
	j.SetLabels(map[string]string{"kueue.x-k8s.io/queue-name": "q", world.PoolLabel: "training"})
	in := world.Input{
		Now: worldtest.Begin(), Pool: worldtest.Pool(),
		Jobs: []world.Object{{Kind: kinds.Named([]string{"Job"})[0], Job: j}},
	}
	if got := world.Observe(in).Jobs[0]; !got.Movable() {
		t.Errorf("pinned %q", got.Pinned)
	}
}

// TestRemaining follows one job of 2 nodes (speed 1.6) for an hour, unless told otherwise.
func TestRemaining(t *testing.T) {
	t.Parallel()
	hour := worldtest.Begin().Add(time.Hour)
	name := types.NamespacedName{Namespace: "default", Name: "a"}
	managed := func(annotation string, ago time.Duration) func(*unstructured.Unstructured, *world.Input) {
		return func(j *unstructured.Unstructured, _ *world.Input) {
			at := metav1.NewTime(hour.Add(-ago))
			fields := fmt.Sprintf(`{"f:metadata":{"f:annotations":{"f:elastalloc.dev/%s":{}}}}`, annotation)
			entry := metav1.ManagedFieldsEntry{Manager: "kubectl", Operation: "Update", Time: &at, FieldsV1: metav1.NewFieldsV1(fields)}
			j.SetManagedFields([]metav1.ManagedFieldsEntry{entry})
		}
	}
	query := func(value float64, ago time.Duration, in config.RemainingUnit) func(*unstructured.Unstructured, *world.Input) {
		return func(_ *unstructured.Unstructured, i *world.Input) {
			i.Pool.RemainingIn = in
			i.Query = map[types.NamespacedName]world.Sample{name: {Value: value, Time: hour.Add(-ago)}}
		}
	}
	record := func(r world.Record) func(*unstructured.Unstructured, *world.Input) {
		return func(j *unstructured.Unstructured, _ *world.Input) {
			annotations := j.GetAnnotations()
			annotations[world.DecisionAnnotation] = r.String()
			j.SetAnnotations(annotations)
		}
	}
	changed := hour.Add(-10 * time.Minute)
	tests := map[string]struct {
		annotations map[string]string
		change      func(*unstructured.Unstructured, *world.Input)
		want        time.Duration
		source      world.Source
		age         time.Duration
	}{
		"declared work":    {map[string]string{"work": "10h"}, nil, 10*time.Hour - 96*time.Minute, world.SourceWork, time.Hour},
		"remaining":        {map[string]string{"work": "10h", "remaining": "4h"}, managed("remaining", 5*time.Minute), 4*time.Hour - 8*time.Minute, world.SourceRemaining, 5 * time.Minute},
		"old remaining":    {map[string]string{"work": "10h", "remaining": "4h"}, managed("remaining", 11*time.Minute), 10*time.Hour - 96*time.Minute, world.SourceWork, time.Hour},
		"progress of work": {map[string]string{"work": "10h", "progress": "0.5"}, managed("progress", 5*time.Minute), 5*time.Hour - 8*time.Minute, world.SourceProgress, 5 * time.Minute},
		"progress alone":   {map[string]string{"progress": "0.2"}, managed("progress", 0), 4 * 96 * time.Minute, world.SourceProgress, 0},
		"query in seconds": {map[string]string{"work": "10h"}, query(3600, time.Minute, config.Seconds), 96*time.Minute - 96*time.Second, world.SourceQuery, time.Minute},
		"query in ratio":   {map[string]string{"work": "10h"}, query(0.75, 0, config.Ratio), 150 * time.Minute, world.SourceQuery, 0},
		"old query":        {map[string]string{"work": "10h"}, query(3600, 20*time.Minute, config.Seconds), 10*time.Hour - 96*time.Minute, world.SourceWork, time.Hour},
		"annotation wins": {map[string]string{"remaining": "4h"}, func(j *unstructured.Unstructured, i *world.Input) {
			managed("remaining", 0)(j, i)
			query(1, 0, config.Seconds)(j, i)
		}, 4 * time.Hour, world.SourceRemaining, 0},
		"since a change":       {map[string]string{"work": "10h"}, record(world.Record{Since: changed, Nodes: 2, Done: world.Duration(2 * time.Hour), Trained: world.Duration(time.Hour)}), 8*time.Hour - 16*time.Minute, world.SourceWork, 10 * time.Minute},
		"since a restart":      {map[string]string{"work": "10h", "restart": "5m"}, record(world.Record{Since: changed, Changed: &changed, Nodes: 2, Done: world.Duration(2 * time.Hour), Trained: world.Duration(time.Hour)}), 8*time.Hour - 8*time.Minute, world.SourceWork, 10 * time.Minute},
		"carried on":           {nil, record(world.Record{Since: changed, Nodes: 2, Remaining: world.Duration(3 * time.Hour), Source: world.SourceQuery}), 3*time.Hour - 16*time.Minute, world.SourceQuery, 10 * time.Minute},
		"paused for long":      {nil, record(world.Record{Since: changed.Add(-time.Hour), Nodes: 0, Trained: 1, Remaining: world.Duration(3 * time.Hour), Source: world.SourceQuery, Age: world.Duration(time.Minute)}), 3 * time.Hour, world.SourceQuery, time.Minute},
		"a record of somebody": {map[string]string{"work": "10h", "decision": "{"}, nil, 10*time.Hour - 96*time.Minute, world.SourceWork, time.Hour},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := 2
			if name == "paused for long" {
				nodes = 0
			}
			j := worldtest.Job("a", nodes, test.annotations)
			in := world.Input{Now: hour, Pool: worldtest.Pool()}
			if test.change != nil {
				test.change(j, &in)
			}
			in.Jobs = []world.Object{{Kind: kinds.Named([]string{"Job"})[0], Job: j}}
			got := world.Observe(in).Jobs[0]
			e := got.Estimate
			if (e.Remaining-test.want).Abs() > time.Second || e.Source != test.source || e.Age != test.age {
				t.Errorf("estimate %v by %s, %v old; want %v by %s, %v old (pinned %q: %s)",
					e.Remaining, e.Source, e.Age, test.want, test.source, test.age, got.Pinned, got.Why)
			}
		})
	}
}

// TestRecordGoesOn changes a job a few times; what its record says it has done is what it did.
func TestRecordGoesOn(t *testing.T) {
	t.Parallel()
	c := worldtest.New(8, worldtest.Job("a", 2, map[string]string{"work": "100h"}))
	done, trained := time.Duration(0), time.Duration(0)
	for _, nodes := range []int{4, 0, 8, 8, 1} {
		before := c.World().Jobs[0]
		c.Now = c.Now.Add(time.Hour)
		done += time.Duration(float64(time.Hour) * before.Speed(before.Nodes()))
		if before.Nodes() > 0 {
			trained += time.Hour
		}
		j := c.World().Jobs[0]
		if want := 100*time.Hour - done; (j.Estimate.Remaining-want).Abs() > 10*time.Second || (j.Trained-trained).Abs() > 10*time.Second {
			t.Fatalf("at %v with %d nodes %v remain after %v of training; want %v after %v", c.Now, j.Nodes(), j.Estimate.Remaining, j.Trained, want, trained)
		}
		record := j.NextRecord(nodes, c.Now)
		for _, patch := range j.Kind.Resize(j.Shape, nodes) {
			patched, err := worldtest.Patch(c.Jobs["a"], patch)
			if err != nil {
				t.Fatal(err)
			}
			c.Jobs["a"] = patched
		}
		annotations := c.Jobs["a"].GetAnnotations()
		annotations[world.DecisionAnnotation] = record.String()
		c.Jobs["a"].SetAnnotations(annotations)
		if cooling := c.World().Jobs[0].Cooling; !cooling && nodes != j.Nodes() {
			t.Errorf("after a change to %d nodes the job does not cool down", nodes)
		}
	}
}

// TestFitSpeeds recovers the efficiency that noisy samples were drawn with, and says that
// it is not sure where it cannot be.
func TestFitSpeeds(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	draw := func(n int, noise float64, sizes ...int) []world.SpeedSample {
		var samples []world.SpeedSample
		for i := range n {
			k := sizes[i%len(sizes)]
			rate := 1e-4 * float64(k) * math.Pow(0.9, math.Log2(float64(k))) * math.Exp(noise*random.NormFloat64())
			samples = append(samples, world.SpeedSample{Nodes: k, Rate: rate})
		}
		return samples
	}
	if fit := world.FitSpeeds(draw(40, 0.03, 1, 2, 8)); !fit.Sure() || math.Abs(fit.Efficiency-0.9) > 3*fit.Error {
		t.Errorf("fit %+v; want 0.9, and sure of it", fit)
	}
	for name, samples := range map[string][]world.SpeedSample{
		"nothing": nil, "one size": draw(40, 0.01, 4), "few": draw(4, 0.01, 1, 2), "noise": draw(10, 1, 1, 2),
	} {
		if fit := world.FitSpeeds(samples); fit.Sure() || math.IsNaN(fit.Efficiency) {
			t.Errorf("%s: sure of %+v", name, fit)
		}
	}
}

func TestDifferentNodes(t *testing.T) {
	t.Parallel()
	c := worldtest.New(3, worldtest.Job("a", 1, map[string]string{"work": "10h"}))
	c.Nodes[2].Status.Allocatable[worldtest.Unit] = resource.MustParse("16")
	if j := c.World().Jobs[0]; j.Pinned != world.NotWholeNodes {
		t.Errorf("pinned %q in a pool in which two of its pods share a node", j.Pinned)
	}
}
