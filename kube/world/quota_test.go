package world_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/world"
)

// quotaOf returns the resource groups of a ClusterQueue or Cohort: "flavor nodes" entries, with limits in nodes.
func quotaOf(entries ...string) string {
	var flavors []string
	for _, entry := range entries {
		name, resource, _ := strings.Cut(entry, " ")
		flavors = append(flavors, fmt.Sprintf("{name: %s, resources: [{name: nvidia.com/gpu, %s}]}", name, resource))
	}
	return "resourceGroups: [{flavors: [" + strings.Join(flavors, ", ") + "]}]"
}

// TestQueueGroups checks the limits of ClusterQueues and Cohorts: only flavors of the pool's nodes count, and what others
// use is subtracted from a ClusterQueue and from its Cohorts.
func TestQueueGroups(t *testing.T) {
	t.Parallel()
	queue := func(name, spec string) *unstructured.Unstructured {
		return fromYAML(t, "{metadata: {name: "+name+"}, spec: {"+spec+"}}")
	}
	// uses returns a Workload of another owner that uses some nodes of a flavor in a ClusterQueue.
	uses := func(name, flavor string, nodes int) *unstructured.Unstructured {
		return fromYAML(t, fmt.Sprintf(`{metadata: {name: x, namespace: default, uid: %s},
  status: {conditions: [{type: QuotaReserved, status: "True"}],
			admission: {clusterQueue: %s,
			podSetAssignments: [{flavors: {nvidia.com/gpu: %s}, resourceUsage: {nvidia.com/gpu: %d}}]}}}`, name+flavor, name, flavor, 8*nodes))
	}
	flavors := []*unstructured.Unstructured{
		queue("here", "nodeLabels: {pool: training}"), queue("spot", "nodeLabels: {pool: training, spot: yes}"),
		queue("any", ""), queue("away", "nodeLabels: {pool: other}"),
	}
	for name, test := range map[string]struct {
		queues, cohorts, workloads, flavors []*unstructured.Unstructured
		want                                string
	}{
		"flavors of the pool": {
			queues: []*unstructured.Unstructured{
				queue("a", quotaOf("here nominalQuota: 16", "spot nominalQuota: 8", "any nominalQuota: 8", "away nominalQuota: 80")),
			},
			workloads: []*unstructured.Unstructured{
				uses("a", "here", 1), uses("a", "away", 3),
			},
			flavors: flavors, want: "ClusterQueue/a 3",
		},
		"unknown flavor": {
			queues: []*unstructured.Unstructured{queue("a", quotaOf("new nominalQuota: 16"))}, want: "ClusterQueue/a 2",
		},
		"cohort": {
			queues: []*unstructured.Unstructured{
				queue("a", "cohortName: all, "+quotaOf("here nominalQuota: 16, borrowingLimit: 48")),
				queue("b", "cohortName: all, "+quotaOf("here nominalQuota: 48")),
			},
			workloads: []*unstructured.Unstructured{uses("b", "here", 4)}, flavors: flavors,
			want: "ClusterQueue/a<Cohort/all 8, ClusterQueue/b<Cohort/all -, Cohort/all 4",
		},
		"lending limit": {
			queues: []*unstructured.Unstructured{
				queue("a", "cohortName: all, "+quotaOf("here nominalQuota: 16")),
				queue("b", "cohortName: all, "+quotaOf("here nominalQuota: 48, lendingLimit: 8")),
			},
			flavors: flavors, want: "ClusterQueue/a<Cohort/all 3, ClusterQueue/b<Cohort/all -, Cohort/all 8",
		},
		"nested cohorts": {
			queues: []*unstructured.Unstructured{
				queue("a", "cohortName: team, "+quotaOf("here nominalQuota: 16")), queue("b", "cohortName: all, "+quotaOf("here nominalQuota: 16")),
			},
			cohorts:   []*unstructured.Unstructured{queue("team", "parentName: all, "+quotaOf("here nominalQuota: 8, borrowingLimit: 8"))},
			workloads: []*unstructured.Unstructured{uses("b", "here", 1)}, flavors: flavors,
			want: "ClusterQueue/a<Cohort/team -, ClusterQueue/b<Cohort/all -, Cohort/all 4, Cohort/team<Cohort/all 4",
		},
		"a cohort that contains itself": {
			queues:  []*unstructured.Unstructured{queue("a", "cohortName: x, "+quotaOf("here nominalQuota: 16"))},
			cohorts: []*unstructured.Unstructured{queue("x", "parentName: x")}, flavors: flavors, want: "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := worldtest.New(8, worldtest.Job("own", 1, map[string]string{"work": "100h"}))
			c.Kueue = &world.Kueue{ClusterQueues: test.queues, Cohorts: test.cohorts, Workloads: test.workloads, ResourceFlavors: test.flavors}
			var groups []string
			for _, g := range c.ClusterState().Queues {
				text, limit := g.Name, "-"
				if g.Parent != "" {
					text += "<" + g.Parent
				}
				if g.Limit != nil {
					limit = fmt.Sprint(*g.Limit)
				}
				groups = append(groups, text+" "+limit)
			}
			if got := strings.Join(groups, ", "); got != test.want && test.want != "" {
				t.Errorf("groups are %s; want %s", got, test.want)
			}
		})
	}
}

// TestQueuesInUnits checks that quotas count units in a pool that counts units. Of the quota of 21 units, a Workload that is
// not of the pool uses 5, a job of 3 pods of 1 unit runs, and a job that is paused uses 4, which its Workload exceeds by 2.
func TestQueuesInUnits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		groups []config.Group
		limit  int // 0 for no group of the queue
		sizes  []int
	}{
		"default": {limit: 21 - 5 - 2, sizes: []int{1, 2, 4, 8, 16}},
		// 3 units are in use by the job, and 21 - 5 - 3 - 6 more may be.
		"groups": {groups: []config.Group{{Name: "all", Namespaces: []string{"default"}}}, sizes: []int{1, 2, 4, 8}},
	} {
		pool := worldtest.UnitPool()
		pool.Groups = test.groups
		c := worldtest.NewOf(pool, 4,
			worldtest.Queued(worldtest.SmallJob("runs", 3, 1, map[string]string{"work": "100h", "nodes": "1-16"}), true),
			worldtest.Queued(worldtest.SmallJob("paused", 2, 2, map[string]string{"work": "100h", "paused": "true"}), true),
		)
		c.Now = c.Now.Add(time.Hour)
		c.Kueue = &world.Kueue{
			LocalQueues:   []*unstructured.Unstructured{fromYAML(t, `{metadata: {name: team, namespace: default}, spec: {clusterQueue: shared}}`)},
			ClusterQueues: []*unstructured.Unstructured{fromYAML(t, `{metadata: {name: shared}, spec: {`+quotaOf("x nominalQuota: 21")+`}}`)},
			Workloads:     []*unstructured.Unstructured{workload(t, "runs", 3), workload(t, "paused", 6), workload(t, "", 5)},
		}
		w := c.ClusterState()
		limit := 0
		for _, g := range w.Queues {
			limit = *g.Limit
		}
		if limit != test.limit {
			t.Errorf("%s: the limit of the queue is %d units; want %d", name, limit, test.limit)
		}
		j := w.Jobs[slices.IndexFunc(w.Jobs, func(j *world.Job) bool { return j.UID == "uid-runs" })]
		if got := slices.DeleteFunc(slices.Clone(j.Sizes), func(n int) bool { return !j.AllowsSize(n) }); !slices.Equal(got, test.sizes) {
			t.Errorf("%s: the job may have %v units; want %v", name, got, test.sizes)
		}
	}
}

// TestQueueHolds checks which queues keep jobs from growing or starting: stopped queues, and queues in which a Workload
// waits that Kueue may admit.
func TestQueueHolds(t *testing.T) {
	t.Parallel()
	waits := func(resources string) *unstructured.Unstructured {
		return fromYAML(t,
			`{metadata: {name: x, namespace: default, uid: other}, spec: {queueName: team, podSets: [{count: `+
				`2, template: {spec: {containers: [{name: x, resources: {requests: `+resources+`}}]}}}]}}`)
	}
	for name, test := range map[string]struct {
		local, cluster string
		other          *unstructured.Unstructured
		ceiling        int
		pinned         world.Reason // of the waiting job
	}{
		"open":                       {},
		"stopped ClusterQueue":       {cluster: ", stopPolicy: HoldAndDrain", ceiling: 2, pinned: world.KueueOwned},
		"stopped LocalQueue":         {local: ", stopPolicy: HoldAndDrain", ceiling: 2, pinned: world.KueueOwned},
		"explicitly open":            {local: ", stopPolicy: None", cluster: ", stopPolicy: None"},
		"a Workload waits":           {other: waits("{nvidia.com/gpu: 16}"), ceiling: 2},
		"a Workload of processors":   {other: waits("{cpu: 64}")},
		"a Workload beyond all":      {other: waits("{nvidia.com/gpu: 40}")},
		"a Workload of unknown size": {other: workload(t, "", 0), ceiling: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := worldtest.New(8, worldtest.Queued(worldtest.Job("runs", 2, map[string]string{"work": "100h"}), true),
				worldtest.Queued(worldtest.Job("waits", 0, map[string]string{"work": "100h"}), true))
			c.Now = c.Now.Add(time.Hour)
			c.Kueue = &world.Kueue{
				LocalQueues: []*unstructured.Unstructured{
					fromYAML(t, `{metadata: {name: team, namespace: default}, spec: {clusterQueue: shared`+test.local+`}}`),
				},
				ClusterQueues: []*unstructured.Unstructured{
					fromYAML(t, `{metadata: {name: shared}, spec: {`+quotaOf("x nominalQuota: 64")+test.cluster+`}}`),
				},
				Workloads: []*unstructured.Unstructured{workload(t, "runs", 16)},
			}
			if test.other != nil {
				c.Kueue.Workloads = append(c.Kueue.Workloads, test.other)
			}
			for _, j := range c.ClusterState().Jobs {
				if runs := j.Nodes() > 0; runs && j.Ceiling != test.ceiling || !runs && j.Pinned != test.pinned {
					t.Errorf("%s has the ceiling %d and is pinned %q: %s", j.ID, j.Ceiling, j.Pinned, j.Message)
				}
			}
		})
	}
}

// TestCeilingWithoutQueueGroups checks that in pools whose decisions have no groups for queues, a waiting job gets only sizes
// that its queue can admit now, and a running job grows only into quota that is not in use.
func TestCeilingWithoutQueueGroups(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*config.Pool){
		func(p *config.Pool) { p.Objective = config.Progress },
		func(p *config.Pool) { p.Groups = []config.Group{{Name: "all", Namespaces: []string{"default"}}} },
	} {
		waits := worldtest.Queued(worldtest.Job("waits", 0, map[string]string{"work": "100h", "nodes": "1-8"}), true)
		for _, field := range []string{"parallelism", "completions"} {
			_ = unstructured.SetNestedField(waits.Object, int64(8), "spec", field)
		}
		pool := worldtest.Pool()
		change(&pool)
		c := worldtest.NewOf(pool, 16, worldtest.Queued(worldtest.Job("runs", 2, map[string]string{"work": "100h"}), true), waits)
		c.Now = c.Now.Add(time.Hour)
		c.Kueue = &world.Kueue{
			LocalQueues: []*unstructured.Unstructured{fromYAML(t, `{metadata: {name: team, namespace: default}, spec: {clusterQueue: shared}}`)},
			ClusterQueues: []*unstructured.Unstructured{
				fromYAML(t, `{metadata: {name: shared}, spec: {cohortName: all, `+quotaOf("x nominalQuota: 16")+`}}`),
				fromYAML(t, `{metadata: {name: lender}, spec: {cohortName: all, `+quotaOf("x nominalQuota: 64")+`}}`),
			},
			Workloads: []*unstructured.Unstructured{workload(t, "runs", 16), workload(t, "", 40)},
		}
		for _, j := range c.ClusterState().Jobs {
			want := []int{1, 2} // 3 of 10 nodes are not in use.
			if j.Nodes() > 0 {
				want = []int{1, 2, 4}
			} else {
				j.Sizes = j.QueuedSizes
			}
			if got := slices.DeleteFunc(slices.Clone(j.Sizes), func(n int) bool { return !j.AllowsSize(n) }); !slices.Equal(got, want) {
				t.Errorf("%s may have %v nodes; want %v", j.ID, got, want)
			}
		}
	}
}
