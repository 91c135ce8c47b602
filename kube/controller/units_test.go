package controller_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/world"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// jobLabel is the label with the name of a pod's job.
const jobLabel = "batch.kubernetes.io/job-name"

// unitCluster is a cluster whose pool counts units. Its scheduler never moves a pod.
type unitCluster struct {
	*cluster
	// most is true if the scheduler scores nodes as MostAllocated does, otherwise as LeastAllocated.
	most bool
	// waits is since when each pod has had no node, and worst the longest time so far for which one had none
	// although as many units were free as it requests.
	waits    map[string]time.Time
	worst    time.Duration
	unplaced map[string]bool          // decisions after which a pod had no node although no pod was leaving
	done     map[string]time.Duration // work of each job, as time on one pod
	at       time.Time                // when done was observed
}

func newUnitCluster(t *testing.T, most bool, nodes int, jobs ...*unstructured.Unstructured) *unitCluster {
	t.Helper()
	c := newCluster(t, nodes)
	u := &unitCluster{
		cluster: c, most: most, waits: make(map[string]time.Time),
		unplaced: make(map[string]bool), done: make(map[string]time.Duration), at: c.now,
	}
	c.pool, c.follow = worldtest.UnitPool(), u.followJobs
	for _, job := range jobs {
		u.submit(job)
	}
	u.followJobs()
	c.start()
	return u
}

// submit creates a job.
func (u *unitCluster) submit(job *unstructured.Unstructured) {
	u.t.Helper()
	job.SetResourceVersion("")
	job.SetCreationTimestamp(metav1.Time{Time: u.now})
	u.must(unstructured.SetNestedField(job.Object, u.now.UTC().Format(time.RFC3339), "status", "startTime"))
	if err := u.client.Create(u.t.Context(), job); err != nil {
		u.t.Fatal(err)
	}
}

// free returns the units of each node that accepts pods and that no pod uses, and the number of pods that are leaving.
func (u *unitCluster) free() (free map[string]int, leaving int) {
	var nodes corev1.NodeList
	var pods corev1.PodList
	u.must(u.client.List(u.t.Context(), &nodes))
	u.must(u.client.List(u.t.Context(), &pods))
	free = make(map[string]int)
	for i := range nodes.Items {
		if n := &nodes.Items[i]; schedulable(n, resource.Quantity{}) {
			has := n.Status.Allocatable[worldtest.Unit]
			free[n.Name] = int(has.Value())
		}
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if _, accepts := free[pod.Spec.NodeName]; accepts {
			free[pod.Spec.NodeName] -= units(pod)
		}
		if pod.DeletionTimestamp != nil {
			leaving++
		}
	}
	return free, leaving
}

func (u *unitCluster) must(err error) {
	u.t.Helper()
	if err != nil {
		u.t.Fatal(err)
	}
}

func units(pod *corev1.Pod) int {
	quantity := pod.Spec.Containers[0].Resources.Requests[worldtest.Unit]
	return int(quantity.Value())
}

// place returns the node on which the scheduler puts a pod, "" for none.
func (u *unitCluster) place(free map[string]int, units int) string {
	best := ""
	for _, name := range slices.Sorted(maps.Keys(free)) {
		better := free[name] > free[best]
		if u.most {
			better = free[name] < free[best]
		}
		if free[name] >= units && (best == "" || better) {
			best = name
		}
	}
	if best != "" {
		free[best] -= units
	}
	return best
}

// followJobs does what the Job controller, the scheduler and the kubelets do: a deleted pod leaves until the
// next call, and pods get nodes in the order in which they were created.
func (u *unitCluster) followJobs() {
	ctx := u.t.Context()
	var jobs batchv1.JobList
	var pods corev1.PodList
	u.must(u.client.List(ctx, &jobs))
	u.must(u.client.List(ctx, &pods))
	of := make(map[string][]*corev1.Pod)
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp != nil {
			pod.Finalizers = nil
			u.must(u.client.Update(ctx, pod))
		} else if name := pod.Labels[jobLabel]; name != "" {
			of[name] = append(of[name], pod)
		}
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		want := int(*job.Spec.Parallelism)
		if *job.Spec.Suspend || len(job.Status.Conditions) > 0 {
			want = 0
		}
		have := of[job.Name]
		slices.SortFunc(have, func(a, b *corev1.Pod) int { return cmp.Compare(number(a), number(b)) })
		if len(have) == want && want > 0 && !slices.ContainsFunc(have, func(p *corev1.Pod) bool { return p.Spec.NodeName == "" }) {
			speed := (&world.JobAnnotations{}).Speed(want)
			u.done[job.Name] += time.Duration(float64(u.now.Sub(u.at)) * speed)
		}
		for _, pod := range have[min(want, len(have)):] {
			if pod.Spec.NodeName != "" {
				pod.Finalizers = []string{"test/stays"}
				u.must(u.client.Update(ctx, pod))
			}
			u.must(u.client.Delete(ctx, pod))
		}
		for range want - len(have) {
			u.pods++
			pod := worldtest.Pod(fmt.Sprintf("%s-%d", job.Name, u.pods), "", map[string]string{jobLabel: job.Name})
			pod.Spec.Containers[0].Resources.Requests[worldtest.Unit] = job.Spec.Template.Spec.Containers[0].Resources.Limits[worldtest.Unit]
			u.must(u.client.Create(ctx, pod))
		}
		delete(of, job.Name)
	}
	for _, orphans := range of { // Of deleted jobs.
		for _, pod := range orphans {
			u.must(u.client.Delete(ctx, pod))
		}
	}
	u.at = u.now
	u.schedule()
}

// number returns the number at the end of a pod's name.
func number(pod *corev1.Pod) (n int) {
	_, _ = fmt.Sscan(pod.Name[strings.LastIndex(pod.Name, "-")+1:], &n)
	return n
}

// schedule gives pods nodes, and notes what has none.
func (u *unitCluster) schedule() {
	var pods corev1.PodList
	u.must(u.client.List(u.t.Context(), &pods))
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return cmp.Compare(number(&a), number(&b)) })
	free, leaving := u.free()
	waits := make(map[string]time.Time)
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		if pod.Spec.NodeName = u.place(free, units(pod)); pod.Spec.NodeName != "" {
			u.must(u.client.Update(u.t.Context(), pod))
			pod.Status.Phase = corev1.PodRunning
			u.must(u.client.Status().Update(u.t.Context(), pod))
			continue
		}
		since, waited := u.waits[pod.Name]
		if !waited {
			since = u.now
		}
		sum := 0
		for _, n := range free {
			sum += max(0, n)
		}
		if sum < units(pod) || u.pinned(pod.Labels[jobLabel]) {
			since = u.now // It lacks units, not place, or its job is not resized.
		}
		waits[pod.Name] = since
		u.worst = max(u.worst, u.now.Sub(since))
		if d := u.loop.Report().Decision; leaving == 0 && d != nil {
			u.unplaced[d.ID] = true
		}
	}
	u.waits = waits
}

// pinned reports whether a job is not resized for a reason, or whether no job is because of an outage.
func (u *unitCluster) pinned(name string) bool {
	r := u.loop.Report()
	return r.State == nil || r.Decision == nil || r.Decision.Result == "outage" || slices.ContainsFunc(r.State.Jobs, func(j *world.Job) bool {
		return j.Object.GetName() == name && j.Pinned != ""
	})
}

// other creates a pod of another workload if it has a node at once, and reports whether it does.
func (u *unitCluster) other(name string, units int) bool {
	free, _ := u.free()
	node := u.place(free, units)
	if node == "" {
		return false
	}
	pod := worldtest.Pod(name, node, nil)
	pod.Spec.Containers[0].Resources.Requests[worldtest.Unit] = *resource.NewQuantity(int64(units), resource.DecimalSI)
	u.must(u.client.Create(u.t.Context(), pod))
	return true
}

// sized returns the units that the pods of a job occupy on nodes.
func (u *unitCluster) sized(name string) (n int) {
	var pods corev1.PodList
	u.must(u.client.List(u.t.Context(), &pods, client.MatchingLabels{jobLabel: name}))
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName != "" && pods.Items[i].DeletionTimestamp == nil {
			n += units(&pods.Items[i])
		}
	}
	return n
}

// TestUnplaceable: pods that have no place although units are free are given up after the time of the rule.
// Jobs that run are as before, and the job starts once there is a place.
func TestUnplaceable(t *testing.T) {
	t.Parallel()
	// The scheduler spreads the fixed jobs, and leaves 4 units on each of two nodes.
	u := newUnitCluster(t, false, 2,
		worldtest.SmallJob("fixed-a", 1, 4, map[string]string{"work": "1000h", "nodes": "1"}),
		worldtest.SmallJob("fixed-b", 1, 4, map[string]string{"work": "1000h", "nodes": "1"}),
	)
	u.passes(3)
	u.submit(worldtest.SmallJob("whole", 0, 8, map[string]string{"work": "1h", "nodes": "1"}))
	seen, paused := false, false
	for range 200 {
		u.passes(1)
		pods, _ := u.job("whole")
		seen, paused = seen || pods > 0, paused || seen && pods == 0
		for _, name := range []string{"fixed-a", "fixed-b"} {
			if n := u.sized(name); n != 4 {
				t.Fatalf("%s has %d units after %v", name, n, u.now.Sub(worldtest.Begin()))
			}
		}
	}
	if events := u.events(); !seen || !paused ||
		!strings.Contains(events, "Unused 0 of its 1 pods run; for a while it gets only the GPUs that it uses") {
		t.Errorf("whole was started: %t, given up: %t; events\n%s", seen, paused, events)
	}
	if limit := u.pool.SettleTimeout + u.pool.Debounce + 20*time.Second; u.worst > limit {
		t.Errorf("a pod had no node for %v; want at most %v", u.worst, limit)
	}
	u.end("fixed-a")
	u.step = time.Minute
	for began := u.now; u.now.Sub(began) < 2*time.Hour; {
		u.passes(1)
	}
	if n := u.sized("whole"); n != 8 {
		t.Errorf("there is a place for whole, and it has %d units; decision %+v", n, u.loop.Report().Decision)
	}
}

// TestUnplaceableAlone: a job that has no place is given up even if there is no other job to decide on.
func TestUnplaceableAlone(t *testing.T) {
	t.Parallel()
	u := newUnitCluster(t, false, 2)
	for _, name := range []string{"other-a", "other-b"} {
		if !u.other(name, 4) {
			t.Fatal("another pod has no place")
		}
	}
	u.submit(worldtest.SmallJob("whole", 1, 8, map[string]string{"work": "10h", "nodes": "1"}))
	for range 30 {
		u.passes(1)
	}
	if pods, _ := u.job("whole"); pods != 0 {
		t.Errorf("it still requests %d pods; decision %+v\n%s", pods, u.loop.Report().Decision, u.events())
	}
}

// drawnUnits is a cluster in which things happen to nodes and to the jobs of a tenant.
type drawnUnits struct {
	*unitCluster
	*rand.Rand
	tenants, others int
	// trouble is when something last happened to each node.
	trouble map[string]time.Time
	history []string // what happened
}

// changeNode changes a random node.
func (d *drawnUnits) changeNode(change func(*corev1.Node)) {
	name := fmt.Sprintf("node-%03d", d.IntN(4))
	d.trouble[name] = d.now
	d.cluster.changeNode(name, change)
}

// happens has something happen.
func (d *drawnUnits) happens() string {
	ready := func(status corev1.ConditionStatus) func(*corev1.Node) {
		return func(node *corev1.Node) {
			if c := &node.Status.Conditions[0]; c.Status != status {
				c.Status, c.LastTransitionTime.Time = status, d.now
			}
		}
	}
	arrives := func(units int) func() {
		return func() {
			pods := map[string]string{"work": "20m", "nodes": []string{"1", "1-4", "1,2,3"}[d.IntN(3)]}
			d.submit(worldtest.SmallJob(fmt.Sprint("tenant-", d.tenants), d.IntN(3), units, pods))
			d.tenants++
		}
	}
	events := []struct {
		name string
		do   func()
	}{
		{"a job of single units", arrives(1)},
		{"a job of two", arrives(2)},
		{"a job of three", arrives(3)},
		{"a job of four", arrives(4)},
		{"a job of whole nodes", arrives(8)},
		{"a job that is too large", arrives(16)},
		{"a completed job", func() {
			if d.tenants > 0 {
				d.end(fmt.Sprint("tenant-", d.IntN(d.tenants)))
			}
		}},
		{"another pod", func() {
			d.other(fmt.Sprint("other-", d.others), 1+d.IntN(6))
			d.others++
		}},
		{"another pod ends", func() {
			if d.others > 0 {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("other-", d.IntN(d.others))}}
				d.must(client.IgnoreNotFound(d.client.Delete(d.t.Context(), pod)))
			}
		}},
		{"lost units", func() {
			d.changeNode(func(n *corev1.Node) {
				n.Status.Capacity = corev1.ResourceList{worldtest.Unit: resource.MustParse("8")}
				n.Status.Allocatable[worldtest.Unit] = *resource.NewQuantity(int64(d.IntN(8)), resource.DecimalSI)
			})
		}},
		{"repaired units", func() {
			d.changeNode(func(n *corev1.Node) { n.Status.Allocatable[worldtest.Unit] = resource.MustParse("8") })
		}},
		{"a cordon", func() { d.changeNode(func(n *corev1.Node) { n.Spec.Unschedulable = true }) }},
		{"a cordon ends", func() { d.changeNode(func(n *corev1.Node) { n.Spec.Unschedulable = false }) }},
		{"a lost node", func() { d.changeNode(ready(corev1.ConditionUnknown)) }},
		{"a node returns", func() { d.changeNode(ready(corev1.ConditionTrue)) }},
		{"a new leader", func() {
			clear(d.waits) // It observes again how long they wait.
			d.start()
		}},
	}
	event := events[d.IntN(len(events))]
	event.do()
	return event.name
}

// certain returns the units of bystanders on nodes to which nothing has happened for ten minutes, by the units
// of their pods.
func (d *drawnUnits) certain() map[int]int {
	var pods corev1.PodList
	d.must(d.client.List(d.t.Context(), &pods))
	sums := make(map[int]int)
	for i := range pods.Items {
		pod := &pods.Items[i]
		last, troubled := d.trouble[pod.Spec.NodeName]
		calm := pod.Spec.NodeName != "" && (!troubled || d.now.Sub(last) > 10*time.Minute) && d.accepts(pod.Spec.NodeName)
		if calm && strings.HasPrefix(pod.Labels[jobLabel], "bystander") && pod.DeletionTimestamp == nil {
			sums[units(pod)] += units(pod)
		}
	}
	return sums
}

// accepts reports whether a node has all its units and accepts pods.
func (d *drawnUnits) accepts(name string) bool {
	var node corev1.Node
	d.must(d.client.Get(d.t.Context(), client.ObjectKey{Name: name}, &node))
	return schedulable(&node, resource.MustParse("8"))
}

// heal ends all troubles, and all other jobs and pods but for one short job.
func (d *drawnUnits) heal() {
	for i := range 4 {
		name := fmt.Sprintf("node-%03d", i)
		d.cluster.changeNode(name, func(node *corev1.Node) {
			fresh := worldtest.Node(name)
			node.Spec, node.Status = fresh.Spec, fresh.Status
		})
	}
	for i := range d.tenants {
		d.must(d.client.Delete(d.t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("tenant-", i)}}))
	}
	for i := range d.others {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("other-", i)}}
		d.must(client.IgnoreNotFound(d.client.Delete(d.t.Context(), pod)))
	}
	d.submit(worldtest.SmallJob("last", 0, 2, map[string]string{"work": "20m", "nodes": "1"}))
}

// TestRandomUnitEvents makes random events happen to the units of nodes, to other pods and to other jobs. Decisions must
// have room for the pods of bystanders, and bystanders may be resized only by decisions. No pod may wait for a node
// for longer than the rule allows, although the scheduler moves no pod. After the events, a new job must start.
func TestRandomUnitEvents(t *testing.T) {
	t.Parallel()
	for seed := range uint64(testtier.Kube.Examples(2, 20)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			u := newUnitCluster(t, seed%2 == 1, 4,
				worldtest.SmallJob("bystander-0", 4, 1, map[string]string{"work": "10000h", "nodes": "1-8"}),
				worldtest.SmallJob("bystander-1", 2, 2, map[string]string{"work": "10000h", "nodes": "1,2,3", "restart": "5m"}),
				worldtest.SmallJob("bystander-2", 1, 8, map[string]string{"work": "10000h", "nodes": "1"}),
			)
			d := &drawnUnits{unitCluster: u, Rand: rand.New(rand.NewPCG(seed, 7)), trouble: make(map[string]time.Time)}
			w := &witness{Allocator: u.allocator, allocated: make(map[string]int), check: d.checkRoom}
			u.allocator, u.step = w, time.Minute
			u.start()
			for range 40 {
				d.history = append(d.history, d.happens())
				for range 1 + d.IntN(6) {
					d.checkedPass(w.allocated)
				}
			}
			if limit := u.pool.SettleTimeout + 4*u.step; d.worst > limit {
				t.Errorf("a pod had no node for %v although as many units were free; want at most %v, after %s",
					d.worst, limit, strings.Join(d.history, ", "))
			}
			d.heal()
			u.step = 30 * time.Second
			for began := d.now; d.now.Sub(began) < 45*time.Minute; {
				d.passes(1)
			}
			if n := d.sized("last"); n != 2 {
				t.Fatalf("all is well for 45 minutes, and a job has not started, after %s; units %v\n%+v",
					strings.Join(d.history, ", "), d.bystanders(), d.loop.Report().Decision)
			}
		})
	}
}

// bystanders returns the units of the pods that each bystander requests.
func (d *drawnUnits) bystanders() map[string]int {
	sizes := make(map[string]int)
	for i, units := range []int{1, 2, 8} {
		name := fmt.Sprint("bystander-", i)
		pods, _ := d.job(name)
		sizes["Job/default/"+name] = pods * units
	}
	return sizes
}

// checkRoom checks that a request has room for the pods of bystanders, in the pool and in each size limit.
func (d *drawnUnits) checkRoom(snapshot *elastallocv1.Snapshot) {
	decided := make(map[int]int) // units of bystanders that are decided, by units per pod
	for _, j := range snapshot.GetJobs() {
		if !j.GetKeep() && strings.Contains(j.GetId(), "bystander") {
			decided[int(j.GetPieceNodes())] += int(j.GetCurrentNodes())
		}
	}
	certain := d.certain()
	check := func(least, nodes int) {
		sum := 0
		for units, n := range certain {
			if units >= least {
				sum += min(n, decided[units])
			}
		}
		if nodes-keptUnits(snapshot, least) < sum {
			d.t.Fatalf("pods of at least %d units may have %d; those of bystanders run on %d, after %s",
				least, nodes, sum, strings.Join(d.history, ", "))
		}
	}
	check(1, int(snapshot.GetTotalNodes()))
	for _, limit := range snapshot.GetSizeLimits() {
		check(int(limit.GetSize()), int(limit.GetNodes()))
	}
}

// keptUnits returns the units of the jobs that keep their nodes, with pods of at least so many units.
func keptUnits(snapshot *elastallocv1.Snapshot, least int) (sum int) {
	for _, j := range snapshot.GetJobs() {
		if j.GetKeep() && int(min(j.GetPieceNodes(), j.GetCurrentNodes())) >= least {
			sum += int(j.GetCurrentNodes())
		}
	}
	return sum
}

// checkedPass makes a pass, and checks that bystanders are resized only to what is decided. A job may also be left with
// the units that its pods use.
func (d *drawnUnits) checkedPass(allocated map[string]int) {
	d.t.Helper()
	before, used := d.bystanders(), make(map[string]int)
	for id := range before {
		used[id] = d.sized(strings.TrimPrefix(id, "Job/default/"))
	}
	d.passes(1)
	for id, now := range d.bystanders() {
		if was := before[id]; now != was && now != allocated[id] && now != used[id] {
			d.t.Fatalf("%s goes from %d units to %d; decided were %d, after %s", id, was, now, allocated[id], strings.Join(d.history, ", "))
		}
	}
}

// TestScoring measures how often a decision has a pod for which no node has place, by how the scheduler
// scores nodes: on 8 nodes of 8 units, with jobs whose pods have 1 to 8 units, and other pods.
func TestScoring(t *testing.T) {
	if testing.Short() {
		t.Skip("a simulation without concurrency, not run with -short")
	}
	t.Parallel()
	names := []string{"LeastAllocated", "MostAllocated"}
	seeds, jobs := testtier.Kube.Examples(3, 12), testtier.Kube.Examples(12, 60)
	shares := make([][]float64, len(names)) // by seed
	t.Run("scoring", func(t *testing.T) {
		for i, name := range names {
			shares[i] = make([]float64, seeds)
			for seed := range seeds {
				t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
					t.Parallel()
					shares[i][seed] = unplacedShare(t, i == 1, jobs, uint64(seed))
				})
			}
		}
	})
	sum := func(list []float64) (all float64) {
		for _, share := range list {
			all += share
		}
		return all
	}
	// In a single one of them, either may be worse by chance.
	if least, most := sum(shares[0]), sum(shares[1]); most >= least {
		t.Errorf("pods have no place after the shares %.3f of the decisions with %s, %.3f with %s", shares[0], names[0], shares[1], names[1])
	}
}

// unplacedShare returns the share of the decisions on a number of random jobs after which a pod had no place.
func unplacedShare(t *testing.T, most bool, jobs int, seed uint64) float64 {
	t.Helper()
	const gap = 6 * time.Minute // mean time between two jobs
	u := newUnitCluster(t, most, 8)
	u.step = 30 * time.Second
	random := rand.New(rand.NewPCG(seed, 1))
	arrivals := make([]time.Time, jobs)
	for i := range arrivals {
		arrivals[i] = u.now.Add(time.Duration(random.Int64N(int64(jobs) * int64(gap))))
	}
	slices.SortFunc(arrivals, time.Time.Compare)
	began, submitted, pods := u.now, 0, 0
	ids, running, others := make(map[string]bool), make(map[string]time.Duration), make(map[string]time.Time)
	for submitted < jobs || len(running) > 0 {
		if u.now.Sub(began) > 72*time.Hour {
			t.Fatalf("after three days %d jobs run; decision %+v", len(running), u.loop.Report().Decision)
		}
		for submitted < jobs && !u.now.Before(arrivals[submitted]) {
			name, units := fmt.Sprintf("job-%02d", submitted), 1<<random.IntN(4)
			work := time.Duration(float64(20*time.Minute) * math.Exp(1.5*random.NormFloat64())).Round(time.Second)
			u.submit(worldtest.SmallJob(name, 0, units, map[string]string{"work": work.String(), "nodes": "1,2,4"}))
			running[name] = work
			submitted++
		}
		if name := fmt.Sprint("other-", pods); random.IntN(40) == 0 && u.other(name, 1+random.IntN(3)) {
			others[name] = u.now.Add(time.Duration(random.ExpFloat64() * float64(time.Hour)))
			pods++
		}
		maps.DeleteFunc(others, func(name string, until time.Time) bool {
			if u.now.Before(until) {
				return false
			}
			u.must(u.client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}))
			return true
		})
		u.passes(1)
		if d := u.loop.Report().Decision; d != nil && d.Result == "decided" {
			ids[d.ID] = true
		}
		maps.DeleteFunc(running, func(name string, work time.Duration) bool {
			if u.done[name] >= work {
				u.end(name)
			}
			return u.done[name] >= work
		})
	}
	t.Logf("after %d of %d decisions a pod had no place; %.0f times a job gave units up; the last of %d jobs completed after %v",
		len(u.unplaced), len(ids), u.count("unused_total", ""), jobs, u.now.Sub(began).Round(time.Minute))
	return float64(len(u.unplaced)) / float64(len(ids))
}
