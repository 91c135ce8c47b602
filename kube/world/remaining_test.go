package world_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/world"
)

// TestRemaining observes one job of 2 nodes (speed 1.6) for an hour, unless a case changes them.
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
			r.UID = j.GetUID()
			annotations[world.DecisionAnnotation] = r.String()
			j.SetAnnotations(annotations)
		}
	}
	both := func(a, b func(*unstructured.Unstructured, *world.Input)) func(*unstructured.Unstructured, *world.Input) {
		return func(j *unstructured.Unstructured, i *world.Input) { a(j, i); b(j, i) }
	}
	changed, lately := hour.Add(-10*time.Minute), hour.Add(-5*time.Minute)
	tests := map[string]struct {
		annotations map[string]string
		change      func(*unstructured.Unstructured, *world.Input)
		want        time.Duration
		source      world.Source
		age         time.Duration
	}{
		"declared work": {map[string]string{"work": "10h"}, nil, 10*time.Hour - 96*time.Minute, world.SourceWork, time.Hour},
		"remaining": {
			map[string]string{"work": "10h", "remaining": "4h"}, managed("remaining", 5*time.Minute),
			4*time.Hour - 8*time.Minute, world.SourceRemaining, 5 * time.Minute,
		},
		"old remaining": {
			map[string]string{"work": "10h", "remaining": "4h"}, managed("remaining", 11*time.Minute),
			10*time.Hour - 96*time.Minute, world.SourceWork, time.Hour,
		},
		"progress of work": {
			map[string]string{"work": "10h", "progress": "0.5"}, managed("progress", 5*time.Minute),
			5*time.Hour - 8*time.Minute, world.SourceProgress, 5 * time.Minute,
		},
		"progress alone": {map[string]string{"progress": "0.2"}, managed("progress", 0), 4 * 96 * time.Minute, world.SourceProgress, 0},
		"query in seconds": {
			map[string]string{"work": "10h"}, query(3600, time.Minute, config.Seconds),
			96*time.Minute - 96*time.Second, world.SourceQuery, time.Minute,
		},
		"query in ratio": {map[string]string{"work": "10h"}, query(0.75, 0, config.Ratio), 150 * time.Minute, world.SourceQuery, 0},
		"old query": {
			map[string]string{"work": "10h"}, query(3600, 20*time.Minute, config.Seconds),
			10*time.Hour - 96*time.Minute, world.SourceWork, time.Hour,
		},
		"annotation wins": {map[string]string{"remaining": "4h"}, func(j *unstructured.Unstructured, i *world.Input) {
			managed("remaining", 0)(j, i)
			query(1, 0, config.Seconds)(j, i)
		}, 4 * time.Hour, world.SourceRemaining, 0},
		"since a change": {
			map[string]string{"work": "10h"},
			record(world.Record{Since: changed, Nodes: 2, Done: metav1.Duration{Duration: 2 * time.Hour},
				Trained: metav1.Duration{Duration: time.Hour}}), 8*time.Hour - 16*time.Minute, world.SourceWork, 10 * time.Minute,
		},
		"since a restart": {
			map[string]string{"work": "10h", "restart": "5m"},
			record(world.Record{Since: changed, Changed: &changed, Nodes: 2, Done: metav1.Duration{Duration: 2 * time.Hour},
				Trained: metav1.Duration{Duration: time.Hour}}), 8*time.Hour - 8*time.Minute, world.SourceWork, 10 * time.Minute,
		},
		"carried on": {
			nil, record(world.Record{Since: changed, Nodes: 2, Remaining: metav1.Duration{Duration: 3 * time.Hour}, Source: world.SourceQuery}),
			3*time.Hour - 16*time.Minute, world.SourceQuery, 10 * time.Minute,
		},
		"paused for long": {
			nil, record(world.Record{Since: changed.Add(-time.Hour), Nodes: 0, Trained: metav1.Duration{Duration: 1},
				Remaining: metav1.Duration{Duration: 3 * time.Hour}, Source: world.SourceQuery, Age: metav1.Duration{Duration: time.Minute}}),
			3 * time.Hour, world.SourceQuery, time.Minute,
		},
		"nothing is left": {map[string]string{"work": "10h"}, query(0, 0, config.Seconds), 0, world.SourceQuery, 0},
		// Queued jobs do not age, so only the time of the sample shows that it is of another job.
		"queued, and one of its name ran before": {
			map[string]string{"work": "10h"}, query(60, 2*time.Hour, config.Seconds), 10 * time.Hour, world.SourceWork, 0,
		},
		// The 1000 s were reported on 8 nodes, which are 6000 s on one node in the record.
		"reported before a resize": {map[string]string{"work": "10h"}, both(query(1000, 6*time.Minute, config.Seconds), record(world.Record{
			Since: lately, Changed: &lately, Nodes: 2, Trained: metav1.Duration{Duration: time.Hour},
			Remaining: metav1.Duration{Duration: 6000 * time.Second}, Source: world.SourceQuery, Age: metav1.Duration{Duration: time.Minute},
		})), 6000*time.Second - 8*time.Minute, world.SourceQuery, 6 * time.Minute},
		"first reported before a resize": {map[string]string{"work": "10h"}, both(query(1000, 6*time.Minute, config.Seconds), record(world.Record{
			Since: lately, Changed: &lately, Nodes: 2, Trained: metav1.Duration{Duration: time.Hour}, Done: metav1.Duration{Duration: time.Hour},
		})), 9*time.Hour - 8*time.Minute, world.SourceWork, 5 * time.Minute},
		"reported again after a resize": {map[string]string{"work": "10h"}, both(query(1000, time.Minute, config.Seconds), record(world.Record{
			Since: lately, Changed: &lately, Nodes: 2, Trained: metav1.Duration{Duration: time.Hour},
			Remaining: metav1.Duration{Duration: 6000 * time.Second}, Source: world.SourceQuery, Age: metav1.Duration{Duration: time.Minute},
		})), 1600*time.Second - 96*time.Second, world.SourceQuery, time.Minute},
		"reported before it was recorded": {map[string]string{"work": "10h", "remaining": "200m"},
			both(managed("remaining", 9*time.Minute), record(world.Record{
				Since: hour.Add(-5 * time.Minute), Nodes: 2, Trained: metav1.Duration{Duration: time.Hour},
				Remaining: metav1.Duration{Duration: 3 * time.Hour}, Source: world.SourceRemaining, Age: metav1.Duration{Duration: 4 * time.Minute},
			})), 3*time.Hour - 8*time.Minute, world.SourceRemaining, 9 * time.Minute},
		"a record of somebody": {
			map[string]string{"work": "10h", "decision": "{"}, nil, 10*time.Hour - 96*time.Minute, world.SourceWork, time.Hour,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := 2
			if name == "paused for long" || strings.HasPrefix(name, "queued") {
				nodes = 0
			}
			j := worldtest.Job("a", nodes, test.annotations)
			in := world.Input{Now: hour, Pool: worldtest.Pool()}
			in.Pool.Restart = 0
			if test.change != nil {
				test.change(j, &in)
			}
			in.Jobs = []world.Object{{Kind: kinds.Named([]string{"Job"})[0], Job: j}}
			got := world.Observe(in).Jobs[0]
			e := got.Estimate
			if (e.Remaining-test.want).Abs() > time.Second || e.Source != test.source || e.Age != test.age {
				t.Errorf("estimate %v by %s, %v old; want %v by %s, %v old (pinned %q: %s)",
					e.Remaining, e.Source, e.Age, test.want, test.source, test.age, got.Pinned, got.Message)
			}
		})
	}
}

// TestRecordGoesOn resizes a job a few times. The work done in its record must be the work that it did, and the
// restarts must be those of the last three resizes to sizes above 0.
func TestRecordGoesOn(t *testing.T) {
	t.Parallel()
	c := worldtest.New(8, worldtest.Job("a", 2, map[string]string{"work": "100h", "restart": "0s"}))
	done, trained := time.Duration(0), time.Duration(0)
	var restarted []time.Duration // values of trained, newest first
	for _, nodes := range []int{4, 0, 8, 8, 1, 2} {
		before := c.ClusterState().Jobs[0]
		c.Now = c.Now.Add(time.Hour)
		done += time.Duration(float64(time.Hour) * before.Speed(before.Nodes()))
		if before.Nodes() > 0 {
			trained += time.Hour
		}
		j := c.ClusterState().Jobs[0]
		if want := 100*time.Hour - done; (j.Estimate.Remaining-want).Abs() > 10*time.Second || (j.Trained-trained).Abs() > 10*time.Second {
			t.Fatalf("at %v with %d nodes %v remain after %v of training; want %v after %v",
				c.Now, j.Nodes(), j.Estimate.Remaining, j.Trained, want, trained)
		}
		near := func(since, at time.Duration) bool { return (since - trained + at).Abs() < 10*time.Second }
		if !slices.EqualFunc(j.RecentRestarts(), restarted, near) {
			t.Errorf("with %d nodes after %v of training, the restarts are %v; want restarts after %v of training",
				j.Nodes(), trained, j.RecentRestarts(), restarted)
		}
		if nodes > 0 && nodes != j.Nodes() {
			restarted = append([]time.Duration{trained}, restarted[:min(len(restarted), 2)]...)
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
		if cooling := c.ClusterState().Jobs[0].Cooling; !cooling && nodes != j.Nodes() {
			t.Errorf("after a change to %d nodes the job does not cool down", nodes)
		}
	}
}

// TestRecentRestarts derives the restarts of a job from its record of 10 min ago and from its nodes now.
func TestRecentRestarts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		recorded int // nodes
		trained  time.Duration
		restarts []int // in minutes
		nodes    int
		want     []int // in minutes
	}{
		"none":                            {2, time.Hour, nil, 2, nil},
		"the same size":                   {2, time.Hour, []int{1, 2}, 2, []int{11, 12}},
		"resized by another writer":       {4, time.Hour, []int{1, 2, 3}, 2, []int{0, 11, 12}},
		"first resized by another writer": {4, 0, nil, 2, []int{0}},
		"resumed by another writer":       {0, time.Hour, []int{1, 2}, 2, []int{0, 1, 2}},
		"paused by another writer":        {2, time.Hour, []int{1, 2}, 0, []int{11, 12}},
		"paused":                          {0, time.Hour, []int{1, 2}, 0, []int{1, 2}},
		"started for the first time":      {0, 0, nil, 2, nil},
		"too many":                        {2, time.Hour, []int{1, 2, 3, 4}, 2, nil},
		"descending":                      {2, time.Hour, []int{2, 1}, 2, nil},
		"negative":                        {2, time.Hour, []int{-1}, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := worldtest.New(8, worldtest.Job("a", test.nodes, map[string]string{"work": "100h"}))
			record := world.Record{UID: c.Jobs["a"].GetUID(), Since: c.Now, Nodes: test.recorded, Trained: metav1.Duration{Duration: test.trained}}
			for _, minutes := range test.restarts {
				record.Restarts = append(record.Restarts, metav1.Duration{Duration: time.Duration(minutes) * time.Minute})
			}
			c.Jobs["a"].SetAnnotations(map[string]string{world.WorkAnnotation: "100h", world.DecisionAnnotation: record.String()})
			c.Now = c.Now.Add(10 * time.Minute)
			var got []int
			for _, since := range c.ClusterState().Jobs[0].RecentRestarts() {
				got = append(got, int(since.Minutes()))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("the restarts are %v min ago; want %v", got, test.want)
			}
		})
	}
}

// TestShortTraining checks that a job that had nodes for less than a second counts as trained. Otherwise it would
// count as never started and be the first of the queued jobs.
func TestShortTraining(t *testing.T) {
	t.Parallel()
	c := worldtest.New(8, worldtest.Job("a", 4, map[string]string{"work": "100h"}))
	first := c.ClusterState().Jobs[0]
	annotations := c.Jobs["a"].GetAnnotations()
	annotations[world.DecisionAnnotation] = new(first.NextRecord(4, c.Now)).String()
	c.Jobs["a"].SetAnnotations(annotations)
	before := c.ClusterState().Jobs[0].Trained
	c.Now = c.Now.Add(300 * time.Millisecond)
	annotations[world.DecisionAnnotation] = new(c.ClusterState().Jobs[0].NextRecord(0, c.Now)).String()
	c.Jobs["a"].SetAnnotations(annotations)
	if got := c.ClusterState().Jobs[0].Trained - before; got != 300*time.Millisecond {
		t.Errorf("the job has trained for %v; want 300ms", got)
	}
}

// TestCopiedManifest: a job made from the YAML of another one begins anew.
func TestCopiedManifest(t *testing.T) {
	t.Parallel()
	c := worldtest.New(8, worldtest.Job("a", 4, map[string]string{"work": "100h"}))
	c.Now = c.Now.Add(time.Hour)
	record := c.ClusterState().Jobs[0].NextRecord(4, c.Now)
	annotations := c.Jobs["a"].GetAnnotations()
	annotations[world.TargetAnnotation], annotations[world.DecisionAnnotation] = "4", record.String()
	c.Jobs["b"] = worldtest.Job("b", 0, nil)
	c.Jobs["b"].SetAnnotations(annotations)
	j := c.ClusterState().Jobs[1]
	if j.ID != "Job/default/b" || j.Record != nil || j.HasTarget || j.Estimate.Remaining != 100*time.Hour || j.Trained != 0 {
		t.Errorf("%s has record %v, target %d and %v left after %v; want none, none and 100h",
			j.ID, j.Record, j.Target, j.Estimate.Remaining, j.Trained)
	}
}

// TestTrainJobSays reads statuses of a TrainJob of 2 nodes (speed 1.6).
func TestTrainJobSays(t *testing.T) {
	t.Parallel()
	set := worldtest.Job("a", 2, nil)
	spec, _, _ := unstructured.NestedMap(set.Object, "spec")
	set.Object["spec"] = map[string]any{"replicatedJobs": []any{map[string]any{"name": "node", "template": map[string]any{"spec": spec}}}}
	for name, test := range map[string]struct {
		status map[string]any
		want   time.Duration
		source world.Source
	}{
		"remaining": {
			map[string]any{"estimatedRemainingSeconds": int64(3600), "progressPercentage": int64(1)}, 96 * time.Minute, world.SourceStatus,
		},
		"progress":       {map[string]any{"progressPercentage": int64(40)}, 6 * time.Hour, world.SourceStatus},
		"just begun":     {map[string]any{"progressPercentage": int64(0)}, 10 * time.Hour, world.SourceStatus},
		"nothing left":   {map[string]any{"estimatedRemainingSeconds": int64(0)}, 0, world.SourceStatus},
		"metrics only":   {map[string]any{"metrics": []any{}}, 10*time.Hour - 96*time.Minute, world.SourceWork},
		"less than none": {map[string]any{"estimatedRemainingSeconds": int64(-5)}, 10*time.Hour - 96*time.Minute, world.SourceWork},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := worldtest.Begin().Add(time.Hour)
			job := worldtest.Job("a", 2, map[string]string{"work": "10h"})
			test.status["lastUpdatedTime"] = now.Format(time.RFC3339)
			job.Object["spec"] = map[string]any{"trainer": map[string]any{"numNodes": int64(2)}}
			job.Object["status"] = map[string]any{"trainerStatus": test.status}
			in := world.Input{
				Now: now, Pool: worldtest.Pool(), Jobs: []world.Object{{Kind: kinds.Named([]string{"TrainJob"})[0], Job: job, Child: set}},
			}
			got := world.Observe(in).Jobs[0]
			if e := got.Estimate; (e.Remaining-test.want).Abs() > time.Second || e.Source != test.source {
				t.Errorf("estimate %v by %s; want %v by %s (pinned %q: %s)", e.Remaining, e.Source, test.want, test.source, got.Pinned, got.Message)
			}
		})
	}
}
