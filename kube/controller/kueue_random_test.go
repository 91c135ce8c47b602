package controller_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// kueueModel is a model of Kueue with two ClusterQueues of one cohort, one for elastic and one for urgent jobs, and with quota of
// another flavor, which is for nodes of another pool. It admits waiting jobs in the order of their submission, and also
// a later job if an earlier one does not fit. It admits elastic jobs that grow, and preempts elastic jobs for urgent jobs,
// which the controller does not manage.
type kueueModel struct {
	*cluster
	*rand.Rand
	quota   int // in units
	jobs    []*queuedJob
	created int
	history []string
	// ungrouped states that decisions have no groups for the ClusterQueues, because the pool has groups of its own or
	// another objective. Each job then follows the quota that is left, so that several can grow into it at once.
	ungrouped bool
	// event is the time of the last event, other than a decision of the controller. decided is the time of the last decision.
	event, decided time.Time
}

// queuedJob is a job in the ClusterQueue.
type queuedJob struct {
	name      string
	urgent    bool
	units     int   // of each pod
	sizes     []int // legal sizes
	suspended bool
	size      int    // size that the model has last seen
	admitted  int    // pods for which quota is reserved
	workloads string // state of the Workloads
	training  training
	// undeclared is true if the job takes longer than its annotation declares. Then it does not grow any more.
	undeclared bool
}

// happens records an event.
func (k *kueueModel) happens(format string, args ...any) {
	k.event = k.now
	k.history = append(k.history, k.now.Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

// fatal fails the test with the events and the jobs.
func (k *kueueModel) fatal(format string, args ...any) {
	k.t.Helper()
	var jobs []string
	for _, q := range k.jobs {
		jobs = append(jobs,
			fmt.Sprintf("%s: size %d, admitted %d, suspended %v, %v left", q.name, q.size, q.admitted, q.suspended, q.training.left))
	}
	k.t.Fatalf("%s: %s\nevents:\n%s\njobs:\n%s", k.now.Format("15:04:05"),
		fmt.Sprintf(format, args...), strings.Join(k.history, "\n"), strings.Join(jobs, "\n"))
}

// kueuePools are the kinds of pools with jobs of Kueue.
var kueuePools = []struct {
	name   string
	change func(*config.Pool)
}{
	{"default", func(*config.Pool) {}},
	{"groups", func(p *config.Pool) {
		p.Groups = []config.Group{{Name: "team", Namespaces: []string{"default"}, Quota: 4}}
	}},
	{"progress", func(p *config.Pool) { p.Objective = config.Progress }},
	{"units", func(p *config.Pool) { p.Count = config.CountUnits }},
	{"units and groups", func(p *config.Pool) {
		p.Count = config.CountUnits
		p.Groups = []config.Group{{Name: "team", Namespaces: []string{"default"}, Quota: 32}}
	}},
}

// newKueueModel returns a model with a quota for some pods of whole nodes, in a cluster of some nodes and a pool of a kind.
func newKueueModel(t *testing.T, nodes, quota int, random *rand.Rand, pool int) *kueueModel {
	t.Helper()
	k := &kueueModel{cluster: newCluster(t, nodes), Rand: random, quota: quota * worldtest.PerNode}
	kueuePools[pool].change(&k.pool)
	k.ungrouped = k.pool.Groups != nil || k.pool.Objective == config.Progress
	k.kueue, k.scales, k.step = true, true, 5*time.Minute
	for _, object := range []map[string]any{
		{"kind": "LocalQueue", "metadata": map[string]any{"name": "team", "namespace": "default"},
			"spec": map[string]any{"clusterQueue": "shared"}},
		{"kind": "LocalQueue", "metadata": map[string]any{"name": "urgent", "namespace": "default"},
			"spec": map[string]any{"clusterQueue": "urgent"}},
		{"kind": "ResourceFlavor", "metadata": map[string]any{"name": "here"},
			"spec": map[string]any{"nodeLabels": map[string]any{"pool": "training"}}},
		{"kind": "ResourceFlavor", "metadata": map[string]any{"name": "away"},
			"spec": map[string]any{"nodeLabels": map[string]any{"pool": "other"}}},
		clusterQueueOf("shared", quota/2), clusterQueueOf("urgent", quota-quota/2),
	} {
		object["apiVersion"] = "kueue.x-k8s.io/v1beta2"
		if err := k.client.Create(t.Context(), &unstructured.Unstructured{Object: object}); err != nil {
			t.Fatal(err)
		}
	}
	k.allocator = &altering{Allocator: k.allocator, change: func(r *elastallocv1.AllocateResponse) (*elastallocv1.AllocateResponse, error) {
		k.decided = k.now
		return r, nil
	}}
	k.start()
	return k
}

// clusterQueueOf returns a ClusterQueue of the cohort with quota for some pods.
func clusterQueueOf(name string, pods int) map[string]any {
	flavor := func(name string, pods int) any {
		return map[string]any{
			"name": name, "resources": []any{map[string]any{"name": worldtest.Unit, "nominalQuota": fmt.Sprint(pods * worldtest.PerNode)}},
		}
	}
	return map[string]any{"kind": "ClusterQueue", "metadata": map[string]any{"name": name}, "spec": map[string]any{
		"cohortName": "all", "resourceGroups": []any{map[string]any{"flavors": []any{flavor("here", pods), flavor("away", 100)}}},
	}}
}

// submit creates a suspended job with the given sizes and annotations. The pods of urgent jobs belong to no pool.
func (k *kueueModel) submit(q *queuedJob, annotations map[string]string) *queuedJob {
	q.name, q.suspended, q.units = fmt.Sprint("job-", k.created), true, cmp.Or(q.units, worldtest.PerNode)
	k.created++
	job := worldtest.SmallJob(q.name, 0, q.units, annotations)
	for _, field := range []string{"parallelism", "completions"} {
		_ = unstructured.SetNestedField(job.Object, int64(q.size), "spec", field)
	}
	if q.urgent {
		job.SetLabels(nil)
	}
	worldtest.Queued(job, !q.urgent)
	job.SetCreationTimestamp(metav1.NewTime(k.now))
	job.SetResourceVersion("")
	if err := k.client.Create(k.t.Context(), job); err != nil {
		k.t.Fatal(err)
	}
	k.jobs = append(k.jobs, q)
	k.happens("%s is submitted with the size %d, urgent %v, %v", q.name, q.size, q.urgent, annotations)
	return q
}

// submitUrgent submits a random urgent job.
func (k *kueueModel) submitUrgent() {
	k.submit(&queuedJob{urgent: true, size: 1 + k.IntN(k.quota/worldtest.PerNode)}, nil)
}

// submitElastic submits a random elastic job.
func (k *kueueModel) submitElastic() {
	work := time.Duration(1+k.IntN(6)) * time.Hour
	q := &queuedJob{training: training{left: work}, undeclared: k.IntN(3) == 0}
	annotations := map[string]string{"work": work.String(), "restart": "1m"}
	if q.undeclared {
		annotations["work"] = (work / 4).String()
	}
	switch k.IntN(4) {
	case 0:
		annotations["nodes"], q.sizes = "1-8", []int{1, 2, 4, 8}
	case 1:
		annotations["nodes"], q.sizes = "1,2,3,5", []int{1, 2, 3, 5}
	case 2:
		annotations["nodes"], q.sizes = "2,4,6", []int{2, 4, 6}
	case 3:
		annotations["nodes"], annotations["speeds"], q.sizes = "1,2,4", "1,1.9,3.5", []int{1, 2, 4}
	}
	q.size = q.sizes[k.IntN(len(q.sizes))]
	if k.IntN(4) == 0 {
		q.size += k.IntN(3) // Users may submit other sizes.
	}
	if k.pool.CountsUnits() {
		q.units = 1 << k.IntN(4)
	}
	q.size = min(q.size, k.quota/worldtest.PerNode)
	k.submit(q, annotations)
}

// complete completes a job.
func (k *kueueModel) complete(q *queuedJob) {
	k.end(q.name)
	q.size, q.admitted = 0, 0
	k.write(q)
	k.jobs = slices.DeleteFunc(k.jobs, func(other *queuedJob) bool { return other == q })
	k.happens("%s completes", q.name)
}

// read reads the jobs, and checks what the controller wrote on them.
func (k *kueueModel) read() map[string]*batchv1.Job {
	var list batchv1.JobList
	if err := k.client.List(k.t.Context(), &list); err != nil {
		k.t.Fatal(err)
	}
	jobs := make(map[string]*batchv1.Job)
	for i := range list.Items {
		jobs[list.Items[i].Name] = &list.Items[i]
	}
	for _, q := range k.jobs {
		job := jobs[q.name]
		size := int(*job.Spec.Parallelism)
		switch {
		case *job.Spec.Suspend != q.suspended:
			k.fatal("the controller sets the suspension of %s to %v", q.name, *job.Spec.Suspend)
		case size == q.size:
			continue
		case !slices.Contains(q.sizes, size):
			k.fatal("the controller sets the size of %s to %d; must be one of %v", q.name, size, q.sizes)
		case q.suspended && size > q.size:
			k.fatal("the controller increases the size of %s to %d while it waits", q.name, size)
		}
		k.history = append(k.history,
			fmt.Sprintf("%s %s is resized from %d to %d, suspended %v", k.now.Format("15:04:05"), q.name, q.size, size, q.suspended))
		q.size = size
	}
	return jobs
}

// suspend suspends or resumes a job.
func (k *kueueModel) suspend(job *batchv1.Job, q *queuedJob, suspended bool) {
	job.Spec.Suspend, q.suspended = &suspended, suspended
	if !suspended {
		job.Status.StartTime = &metav1.Time{Time: k.now}
	}
	if err := k.client.Update(k.t.Context(), job); err != nil {
		k.t.Fatal(err)
	}
	k.happens("Kueue sets the suspension of %s to %v", q.name, suspended)
}

// requested returns the number of units that the jobs request which are not suspended.
func (k *kueueModel) requested() (units int) {
	for _, q := range k.jobs {
		if !q.suspended {
			units += q.size * q.units
		}
	}
	return units
}

// reserved returns the quota in use.
func (k *kueueModel) reserved() (units int) {
	for _, q := range k.jobs {
		units += q.admitted * q.units
	}
	return units
}

// admit follows the sizes of the jobs, and admits and preempts jobs.
func (k *kueueModel) admit() {
	objects := k.read()
	for _, q := range k.jobs {
		q.admitted = min(q.admitted, q.size)
	}
	queue := slices.Clone(k.jobs)
	slices.SortStableFunc(queue, func(a, b *queuedJob) int {
		switch {
		case a.urgent == b.urgent:
			return 0
		case a.urgent:
			return -1
		}
		return 1
	})
	for _, q := range queue {
		free := k.quota - k.reserved()
		switch {
		case q.admitted == q.size:
		case (q.size-q.admitted)*q.units <= free:
			if q.admitted = q.size; q.suspended {
				k.suspend(objects[q.name], q, false)
			}
		case q.urgent:
			for _, victim := range slices.Backward(queue) {
				if !victim.urgent && victim.admitted > 0 && k.quota-k.reserved() < q.size*q.units {
					victim.admitted = 0
					k.suspend(objects[victim.name], victim, true)
				}
			}
			if q.size*q.units <= k.quota-k.reserved() {
				q.admitted = q.size
				k.suspend(objects[q.name], q, false)
			}
		}
	}
	k.cluster.quota = make(map[string]int)
	for _, q := range k.jobs {
		k.cluster.quota[q.name] = q.admitted
		k.write(q)
	}
}

// write writes the Workloads of a job.
func (k *kueueModel) write(q *queuedJob) {
	now := fmt.Sprint(q.size, q.admitted)
	if now == q.workloads {
		return
	}
	q.workloads = now
	queue, clusterQueue := "team", "shared"
	if q.urgent {
		queue, clusterQueue = "urgent", "urgent"
	}
	object := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
			"metadata": map[string]any{
				"name": q.name + name, "namespace": "default",
				"ownerReferences": []any{
					map[string]any{"apiVersion": "batch/v1", "kind": "Job", "name": q.name, "uid": "uid-" + q.name, "controller": true},
				},
			},
			"spec": map[string]any{"queueName": queue},
		}}
	}
	for _, name := range []string{"", "-next"} {
		_ = k.client.Delete(k.t.Context(), object(name))
	}
	create := func(name string, pods int, condition, status string, assignment map[string]any) {
		workload := object(name)
		workload.Object["spec"].(map[string]any)["podSets"] = []any{map[string]any{"name": "main", "count": int64(pods)}}
		workload.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": condition, "status": status}}}
		if assignment != nil {
			workload.Object["status"].(map[string]any)["admission"] = assignment
		}
		if err := k.client.Create(k.t.Context(), workload); err != nil {
			k.t.Fatal(err)
		}
	}
	if q.admitted > 0 {
		create("", q.admitted, "QuotaReserved", "True", map[string]any{"clusterQueue": clusterQueue, "podSetAssignments": []any{map[string]any{
			"name": "main", "count": int64(q.admitted), "flavors": map[string]any{worldtest.Unit: "here"},
			"resourceUsage": map[string]any{worldtest.Unit: fmt.Sprint(q.admitted * q.units)},
		}}})
	}
	if q.size > q.admitted {
		create("-next", q.size, "QuotaReserved", "False", nil)
	}
}

// idle returns a description of quota and nodes that are idle although a job could use them, "" if there are none.
func (k *kueueModel) idle(nodes int) string {
	free := make(map[string]int)
	for i := range nodes {
		free[fmt.Sprintf("node-%03d", i)] = worldtest.PerNode
	}
	for _, pod := range k.listPods() {
		free[pod.Spec.NodeName] -= units(&pod)
	}
	for _, q := range k.jobs {
		pods := 0
		for _, units := range free {
			pods += max(0, units) / q.units
		}
		pods = min(pods, (k.quota-k.reserved())/q.units)
		for _, n := range append(slices.Clone(q.sizes), q.size) {
			switch {
			case q.suspended && n <= min(q.size, pods):
				return fmt.Sprintf("%s waits, but its size %d fits; there is room for %d pods", q.name, n, pods)
			case !q.suspended && !q.undeclared && slices.Contains(q.sizes, n) && n > q.size && n-q.size <= pods && q.training.left > 2*time.Hour:
				return fmt.Sprintf("%s does not grow from %d to %d pods, but has room for %d more", q.name, q.size, n, pods)
			}
		}
	}
	return ""
}

// pass calls Reconcile once, and lets the jobs train.
func (k *kueueModel) pass() {
	before, began := k.requested(), k.now
	// Kueue may act between a decision and its writes.
	var races sync.Mutex
	race := k.IntN(4) == 0
	k.onPatch = func(patch, _ string) error {
		races.Lock()
		defer races.Unlock()
		if race && patch == string(types.JSONPatchType) {
			race = false
			k.admit()
		}
		return nil
	}
	k.follow = func() {
		k.onPatch = nil
		k.read()
		// Kueue does not admit the growth of a decision that is older than the last event, if the quota is in use since.
		if now := k.requested(); !k.ungrouped && now > max(k.quota, before) && k.event.Before(k.decided) {
			k.fatal("the controller requests %d units, more than the quota of %d", now, k.quota)
		}
		k.admit()
		k.kubelet()
	}
	k.passes(1)
	pods := make(map[string]int)
	for _, pod := range k.listPods() {
		if pod.Status.Phase == corev1.PodRunning && pod.Spec.NodeName != "" {
			pods[pod.Labels["batch.kubernetes.io/job-name"]]++
		}
	}
	for _, q := range slices.Clone(k.jobs) {
		if !q.urgent && q.training.advance(k.now, k.now.Sub(began), pods[q.name], time.Minute) {
			k.complete(q)
		}
	}
}

// urgent returns the urgent job, nil if there is none. There is never more than one.
func (k *kueueModel) urgent() *queuedJob {
	for _, q := range k.jobs {
		if q.urgent {
			return q
		}
	}
	return nil
}

// randomEvent submits an elastic job, submits or completes the urgent job, or restarts the controller.
func (k *kueueModel) randomEvent() {
	switch urgent := k.urgent(); k.IntN(6) {
	case 0, 1, 2:
		if len(k.jobs) < 6 {
			k.submitElastic()
		}
	case 3, 4:
		if urgent != nil {
			k.complete(urgent)
		} else {
			k.submitUrgent()
		}
	case 5:
		k.start()
	}
}

// completeUrgent completes the urgent job, if there is one.
func (k *kueueModel) completeUrgent() {
	if urgent := k.urgent(); urgent != nil {
		k.complete(urgent)
	}
}

// passUntilComplete calls Reconcile until all elastic jobs have completed. Two hours after the last event nothing may be
// idle; then the urgent job completes.
func (k *kueueModel) passUntilComplete(nodes int) {
	k.t.Helper()
	for began := k.now; slices.ContainsFunc(k.jobs, func(q *queuedJob) bool { return !q.urgent }); {
		k.pass()
		if k.now.Sub(k.event) >= 2*time.Hour {
			if idle := k.idle(nodes); idle != "" {
				k.fatal("%s", idle)
			}
			k.completeUrgent()
		}
		if k.now.Sub(began) > 200*time.Hour {
			k.fatal("jobs have not completed after %v", k.now.Sub(began))
		}
	}
}

// TestKueueRandom runs the controller with a model of Kueue while jobs arrive and complete, urgent jobs preempt others and
// leave, and the controller restarts. The controller must not write the suspension of a job, or a size that is not legal,
// and must not increase the size of a job that waits. Two hours after the last event no quota may be idle that a job could
// use. In the end all jobs must complete.
func TestKueueRandom(t *testing.T) {
	t.Parallel()
	for seed := range seeds(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 2))
			nodes := 8 + 8*random.IntN(2)
			k := newKueueModel(t, nodes, 6+random.IntN(3), random, int(seed)%len(kueuePools))
			for range 12 {
				k.randomEvent()
				for range 1 + k.IntN(12) {
					k.pass()
				}
			}
			// The last urgent job leaves a part of the quota, and stays until the others have settled.
			k.completeUrgent()
			k.submitElastic()
			k.pass()
			k.submitUrgent()
			k.passUntilComplete(nodes)
		})
	}
}
