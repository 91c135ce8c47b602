package world_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/world"
)

// typedQuota is the quota of a ClusterQueue, in nodes of one flavor.
type typedQuota struct{ nominal, borrowing, lending, used int } // -1 means no limit

// drawQuota returns a random quota. If others is true, workloads of other owners use a part of it.
func drawQuota(t *rapid.T, name string, others bool) typedQuota {
	q := typedQuota{nominal: rapid.IntRange(0, 6).Draw(t, name), borrowing: rapid.IntRange(-1, 4).Draw(t, name+" borrowing"), lending: -1}
	if others {
		q.used = rapid.IntRange(0, q.nominal).Draw(t, name+" used")
	} else {
		q.lending = rapid.IntRange(-1, 4).Draw(t, name+" lending")
	}
	return q
}

// free returns the number of nodes that the jobs of the first of several ClusterQueues of a cohort can get, by taking one node
// after the other: first of its own quota, then of what others lend.
func free(quotas []typedQuota) int {
	own, got, borrowed := quotas[0], 0, 0
	lent := make([]int, len(quotas))
	for {
		switch {
		case own.used+got-borrowed < own.nominal:
			got++
			continue
		case own.borrowing >= 0 && borrowed >= own.borrowing:
			return got
		}
		from := -1
		for i, q := range quotas[1:] {
			if left := q.nominal - q.used - lent[i+1]; left > 0 && (q.lending < 0 || lent[i+1] < q.lending) {
				from = i + 1
			}
		}
		if from < 0 {
			return got
		}
		lent[from]++
		borrowed++
		got++
	}
}

// entry returns the quota of a flavor as an entry for quotaOf.
func (q typedQuota) entry(flavor string) string {
	entry := fmt.Sprintf("%s nominalQuota: %d", flavor, 8*q.nominal)
	if q.borrowing >= 0 {
		entry += fmt.Sprint(", borrowingLimit: ", 8*q.borrowing)
	}
	if q.lending >= 0 {
		entry += fmt.Sprint(", lendingLimit: ", 8*q.lending)
	}
	return entry
}

// drawQueues returns up to three ClusterQueues of a cohort with their flavors and the workloads of other owners, and the
// quotas of the ClusterQueues by flavor.
func drawQueues(t *rapid.T, flavors []string) (*world.Kueue, map[string][]typedQuota) {
	others := rapid.Bool().Draw(t, "others")
	quotas := make(map[string][]typedQuota)
	kueue := &world.Kueue{}
	for _, flavor := range flavors {
		kueue.ResourceFlavors = append(kueue.ResourceFlavors,
			parsed(t, "{metadata: {name: "+flavor+"}, spec: {nodeLabels: {pool: training, gpu: "+flavor+"}}}"))
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "queues") {
		var entries []string
		for _, flavor := range flavors {
			q := drawQuota(t, fmt.Sprint(flavor, " of queue ", i), others)
			quotas[flavor] = append(quotas[flavor], q)
			entries = append(entries, q.entry(flavor))
			kueue.Workloads = append(kueue.Workloads, parsed(t, fmt.Sprintf(`{metadata: {name: x, namespace: default, uid: "%d-%s"},
  status: {conditions: [{type: QuotaReserved, status: "True"}],
					admission: {clusterQueue: q%d,
					podSetAssignments: [{flavors: {nvidia.com/gpu: %s}, resourceUsage: {nvidia.com/gpu: %d}}]}}}`, i, flavor, i, flavor, 8*q.used)))
		}
		kueue.ClusterQueues = append(kueue.ClusterQueues,
			parsed(t, fmt.Sprintf("{metadata: {name: q%d}, spec: {cohortName: all, %s}}", i, quotaOf(entries...))))
	}
	return kueue, quotas
}

// limitsOnTypes returns the limits of the first ClusterQueue and of its cohort on each node type, and on all types.
func limitsOnTypes(w *world.ClusterState) (byType map[string][]int, all []int) {
	byType = make(map[string][]int)
	for _, g := range w.Queues {
		if g.Name != "ClusterQueue/q0" && g.Name != "Cohort/all" {
			continue
		}
		for name, limit := range g.TypeLimits {
			byType[name] = append(byType[name], limit)
		}
		if g.Limit != nil {
			all = append(all, *g.Limit)
		}
	}
	return byType, all
}

// TestTypeLimitsOfQueues compares the limits of a ClusterQueue on node types with a count of the nodes that its jobs can get,
// for random quotas of two flavors in a cohort.
func TestTypeLimitsOfQueues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		flavors := []string{"a100", "h100"}
		kueue, quotas := drawQueues(t, flavors)
		c := worldtest.NewOf(worldtest.TypedPool(), 8, worldtest.OnType(worldtest.Job("own", 1, map[string]string{"work": "100h"}), "a100"))
		c.Kueue = kueue
		limits, all := limitsOnTypes(c.ClusterState())
		sum := 0
		for _, flavor := range flavors {
			want := free(quotas[flavor])
			if got := limits[flavor]; len(got) == 0 || slices.Min(got) != want {
				t.Fatalf("the limits on %s are %v nodes; want %d as the lowest: %+v", flavor, got, want, quotas[flavor])
			}
			sum += want
		}
		if len(all) == 0 || slices.Min(all) < sum {
			t.Fatalf("the limits on all types are %v nodes; must be at least the %d of the single types", all, sum)
		}
	})
}

// parsed decodes an object.
func parsed(t *rapid.T, text string) *unstructured.Unstructured {
	t.Helper()
	var object unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return &object
}

// TestTypesOfJobs checks which types a decision may choose for a job.
func TestTypesOfJobs(t *testing.T) {
	t.Parallel()
	with := func(annotations ...string) map[string]string {
		all := map[string]string{"work": "100h", "nodes": "1"}
		for _, a := range annotations {
			name, value, _ := strings.Cut(a, ": ")
			all[name] = value
		}
		return all
	}
	const both = "speeds: a100=1; h100=3"
	affinity := func(job *unstructured.Unstructured, gpu string) *unstructured.Unstructured {
		term := map[string]any{"matchExpressions": []any{map[string]any{"key": "gpu", "operator": "In", "values": []any{gpu}}}}
		_ = unstructured.SetNestedSlice(job.Object, []any{term}, "spec", "template", "spec", "affinity",
			"nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
		return job
	}
	for name, test := range map[string]struct {
		job    *unstructured.Unstructured
		change func(*worldtest.Cluster)
		want   string // types, and the reason of a pin
	}{
		"waits":                    {job: worldtest.Job("a", 0, with()), want: "[a100 h100] "},
		"waits on its type":        {job: worldtest.OnType(worldtest.Job("a", 0, with()), "h100"), want: "[h100] "},
		"waits with an affinity":   {job: affinity(worldtest.Job("a", 0, with()), "h100"), want: "[h100] "},
		"waits, listed":            {job: worldtest.Job("a", 0, with("speeds: h100=3")), want: "[h100] "},
		"waits, moved by its list": {job: worldtest.OnType(worldtest.Job("a", 0, with(both)), "h100"), want: "[a100 h100] "},
		"contradiction":            {job: affinity(worldtest.Job("a", 0, with("speeds: h100=3")), "a100"), want: "[] NoType"},
		"unknown type":             {job: worldtest.Job("a", 0, with("speeds: h200=3")), want: "[] BadAnnotations"},
		"runs":                     {job: worldtest.OnType(worldtest.Job("a", 1, with()), "h100"), want: "[h100] "},
		"runs, may move":           {job: worldtest.OnType(worldtest.Job("a", 1, with(both)), "h100"), want: "[a100 h100] "},
		"runs on no type":          {job: worldtest.Job("a", 1, with(both)), want: "[a100 h100] NoType"},
		"pods of the job may not be stopped": {job: worldtest.OnType(worldtest.Job("a", 1, with(both)), "h100"),
			want: "[h100] ", change: func(c *worldtest.Cluster) {
				for _, node := range c.Nodes[2:] { // An outage.
					node.Status.Conditions[0].Status = corev1.ConditionFalse
				}
			}},
		"no nodes of its type": {job: worldtest.OnType(worldtest.Job("a", 0, with(both)), "h100"),
			want: "[a100 h100] ", change: func(c *worldtest.Cluster) {
				c.Nodes = slices.DeleteFunc(c.Nodes, func(n *corev1.Node) bool { return n.Labels["gpu"] == "h100" })
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := worldtest.NewOf(worldtest.TypedPool(), 6, test.job)
			c.Now = c.Now.Add(time.Hour)
			if test.change != nil {
				test.change(c)
			}
			j := c.ClusterState().Jobs[0]
			if got := fmt.Sprint(j.Types, " ", j.Pinned); got != test.want {
				t.Errorf("types and reason are %s (%s); want %s", got, j.Message, test.want)
			}
		})
	}
}

// TestUntypedNode checks that a node with the labels of no type does not count, and that the counts of the types add up.
func TestUntypedNode(t *testing.T) {
	t.Parallel()
	c := worldtest.NewOf(worldtest.TypedPool(), 5, worldtest.OnType(worldtest.Job("a", 2, map[string]string{"work": "1h"}), "a100"))
	delete(c.Nodes[4].Labels, "gpu")
	w := c.ClusterState()
	if w.Nodes.Accepting != 4 || w.NodesBy(world.Odd) != 1 || w.NodesOf("a100").Accepting != 2 || w.NodesOf("h100").Accepting != 2 ||
		w.IdleOf("a100") != 0 || w.IdleOf("h100") != 2 {
		t.Errorf("nodes are %+v, by type %+v; %d and %d are idle", w.Nodes, w.TypeNodes, w.IdleOf("a100"), w.IdleOf("h100"))
	}
	if s := w.NodeStatuses[4]; s.State != world.Retaining || !strings.Contains(s.Message, "[a100 h100]") {
		t.Errorf("the node is %s", s.String())
	}
}

// TestSpeedOnTypes checks the speed, and so the work, of a job on a node type.
func TestSpeedOnTypes(t *testing.T) {
	t.Parallel()
	for annotation, want := range map[string]time.Duration{
		"doubling-efficiency: 1": 94 * time.Hour, "speeds: a100=1,2; h100=2.5,4.5": 91 * time.Hour,
	} {
		name, value, _ := strings.Cut(annotation, ": ")
		c := worldtest.NewOf(worldtest.TypedPool(), 6,
			worldtest.OnType(worldtest.Job("a", 2, map[string]string{"work": "100h", "nodes": "1,2", name: value}), "h100"))
		c.Now = c.Now.Add(90 * time.Minute)
		if name == "speeds" {
			c.Now = worldtest.Begin().Add(2 * time.Hour)
		}
		if got := c.ClusterState().Jobs[0].RemainingWork(); got != want {
			t.Errorf("%s: %v are left; want %v", annotation, got, want)
		}
	}
}
