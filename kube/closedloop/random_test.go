package closedloop

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The number of seeds by default, and the variables that set the first seed and the number of seeds.
const (
	fewSeeds   = 10
	firstSeed  = "LOOP_FIRST"
	seedsToRun = "LOOP_SEEDS"
)

// seeds returns the first seed and the number of seeds to test.
func seeds(t *testing.T) (first, count uint64) {
	t.Helper()
	count = fewSeeds
	if testing.Short() {
		count = 2
	}
	for name, value := range map[string]*uint64{firstSeed: &first, seedsToRun: &count} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 32)
			if err != nil {
				t.Fatalf("%s: is %q; must be a number", name, text)
			}
			*value = n
		}
	}
	return first, count
}

// random is a cluster with random events.
type random struct {
	*cluster
	*rand.Rand
	history []string
	foreign int
	units   bool // the pool counts units
	// limits are the units that the jobs of some namespaces may have together, by the names of the namespaces.
	limits map[string]int
}

func (r *random) log(format string, args ...any) {
	r.history = append(r.history, r.now.Format("02 15:04:05 ")+fmt.Sprintf(format, args...))
}

// fatal fails the test with the history.
func (r *random) fatal(format string, args ...any) {
	r.t.Helper()
	var jobs []string
	for _, j := range r.loop.Report().State.Jobs {
		jobs = append(jobs, fmt.Sprintf("%s: %d nodes, %+v, pinned %q %s, usage %+v", j.ID, j.Nodes(), j.Pods, j.Pinned, j.Message, j.Usage))
	}
	r.t.Fatalf("%s: %s\n%s\njobs:\n%s", r.now.Format("02 15:04:05"),
		fmt.Sprintf(format, args...), strings.Join(r.history, "\n"), strings.Join(jobs, "\n"))
}

// open returns the jobs that are not done.
func (r *random) open() (open []*job) {
	for _, name := range r.names() {
		if j := r.jobs[name]; !j.done {
			open = append(open, j)
		}
	}
	return open
}

// arrive submits a random job with some work.
func (r *random) arrive(work time.Duration) {
	j := &job{
		name: fmt.Sprint("j", len(r.jobs)), namespace: "default", units: perNode,
		kind: []string{"Job", "JobSet"}[r.IntN(2)], left: work, missing: -1, efficiency: 0.7 + 0.3*r.Float64(),
		sizes:   [][]int{{1, 2, 4, 8}, {2, 4}, {4}, {1}, {1, 2}}[r.IntN(5)],
		restart: []time.Duration{30 * time.Second, 2 * time.Minute, 5 * time.Minute}[r.IntN(3)],
	}
	if j.kind == "JobSet" && r.IntN(2) == 0 {
		j.initialize = []time.Duration{30 * time.Second, 20 * time.Minute}[r.IntN(2)]
	}
	factors := []float64{0.2, 0.5, 1, 1.5, 3}
	declared := time.Duration(float64(work) * factors[r.IntN(len(factors))]).Round(time.Second)
	suspended := r.IntN(5) > 0
	if r.units {
		j.units = 1 << r.IntN(4)
	}
	if len(r.limits) > 0 { // Jobs that their users start exceed a limit until the next decision.
		j.namespace, suspended = []string{"red", "blue", "green"}[r.IntN(3)], true
	}
	if r.typed() { // The pods of a running job must select a type.
		j.selects = []string{"", "slow", "fast"}[r.IntN(3)]
		suspended = suspended || j.selects == ""
	}
	r.submit(j, suspended, map[string]string{
		"work": declared.String(), "nodes": strings.Trim(strings.ReplaceAll(fmt.Sprint(j.sizes), " ", ","), "[]"),
		"doubling-efficiency": fmt.Sprintf("%.2f", j.efficiency), "restart": j.restart.String(), "weight": fmt.Sprint(1 + r.IntN(3)),
	})
	r.log("%s %s/%s arrives, sizes %v of %d units, work %v declared as %v, driver %v, suspended %v, type %q",
		j.kind, j.namespace, j.name, j.sizes, j.units, work, declared, j.initialize, suspended, j.selects)
}

// edit changes the object of a job, as its user does.
func (r *random) edit(j *job, what string, change func(o *unstructured.Unstructured)) {
	if o := r.object(j); o != nil {
		change(o)
		r.must(r.api.Update(r.t.Context(), o))
		r.log("the user of %s %s", j.name, what)
	}
}

// node changes a random node.
func (r *random) node(what string, change func(*corev1.Node)) {
	nodes := r.nodes()
	var names []string
	for name := range nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	name := names[r.IntN(len(names))]
	r.changeNode(nodes[name], change)
	r.log("node %s %s", name, what)
}

// happen makes a random event happen.
func (r *random) happen() {
	open := r.open()
	if len(open) < 2 || len(open) < 6 && r.IntN(4) == 0 {
		r.arrive(time.Duration(20+r.IntN(400)) * time.Minute)
		return
	}
	j := open[r.IntN(len(open))]
	taint := func(effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: effect}} }
	}
	events := []func(){
		func() {
			if nodes := r.nodes(); len(nodes) > 4 {
				r.node("is deleted", func(*corev1.Node) {})
				name := strings.Fields(r.history[len(r.history)-1])[3]
				r.must(r.api.Delete(r.t.Context(), nodes[name]))
			}
		},
		func() {
			if len(r.nodes()) < 12 {
				name := fmt.Sprint("new", len(r.history))
				r.addNode(name)
				r.log("node %s is added", name)
			}
		},
		func() { r.node("is cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }) },
		func() { r.node("is not ready", r.ready(corev1.ConditionUnknown)) },
		func() { r.node("lacks units", allocatable(7)) },
		func() { r.node("is tainted", taint(corev1.TaintEffectNoSchedule)) },
		func() { r.node("is tainted and evicts", taint(corev1.TaintEffectNoExecute)) },
		func() {
			for _, node := range r.nodes() {
				r.heal(node)
			}
			r.log("all nodes are healthy")
		},
		func() { r.killPods(j, corev1.PodRunning, 0) },
		func() { r.killPods(j, corev1.PodFailed, 0) },
		func() { r.killPods(j, corev1.PodFailed, time.Duration(20+r.IntN(580))*time.Second) },
		func() {
			j.missing = r.IntN(4)
			r.killPods(j, corev1.PodRunning, 0)
		},
		func() { j.missing = -1 },
		func() {
			r.edit(j, "suspends it", func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, true, "spec", "suspend") })
		},
		func() {
			if len(r.limits) > 0 {
				return // Users may exceed a limit until the next decision.
			}
			size := int64(j.sizes[r.IntN(len(j.sizes))])
			r.edit(j, fmt.Sprintf("sets its size to %d", size), func(o *unstructured.Unstructured) {
				workers := workersOf(o)
				workers["parallelism"], workers["completions"] = size, size
			})
		},
		func() {
			weight := fmt.Sprint(1 + r.IntN(5))
			r.edit(j, "changes its weight", func(o *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(o.Object, weight, "metadata", "annotations", "elastalloc.dev/weight")
			})
		},
		func() {
			r.must(r.api.Delete(r.t.Context(), r.object(j)))
			j.done = true
			r.log("the user of %s deletes it", j.name)
		},
		func() { r.failWrites(j) },
		func() {
			r.restart()
			r.log("the controller restarts")
		},
		r.placeForeign,
	}
	events[r.IntN(len(events))]()
}

// killPods deletes the pods of a job or lets them fail. No new pods are created for a time.
func (r *random) killPods(j *job, phase corev1.PodPhase, delay time.Duration) {
	for _, pod := range r.pods() {
		if pod.Labels[jobLabel] != j.name || pod.Labels[partLabel] != "worker" || pod.Spec.NodeName == "" || r.IntN(2) == 0 {
			continue
		}
		if phase == corev1.PodRunning {
			r.terminate(&pod)
			continue
		}
		pod.Status.Phase = phase
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Time{Time: r.now}},
		}
		r.must(r.api.Status().Update(r.t.Context(), &pod))
	}
	j.holdUntil = r.now.Add(delay)
	r.log("pods of %s become %s, new ones after %v, index %d is missing", j.name, phase, delay, j.missing)
}

// failWrites lets some writes of the controller fail, on one job or on all jobs.
func (r *random) failWrites(j *job) {
	jobs := schema.GroupResource{Resource: "jobs"}
	failure := []error{
		apierrors.NewTimeoutError("webhook", 0), apierrors.NewServiceUnavailable("unavailable"), apierrors.NewTooManyRequests("busy", 1),
		apierrors.NewForbidden(jobs, j.name, errors.New("a policy")),
		apierrors.NewConflict(jobs, j.name, errors.New("changed")), errors.New("connection lost"),
	}[r.IntN(6)]
	left, all := 1+r.IntN(8), r.IntN(2) == 0
	applied := !apierrors.IsForbidden(failure) && !apierrors.IsConflict(failure) && r.IntN(2) == 0
	r.fail = func(name string) (error, bool) {
		if left == 0 || !all && name != j.name {
			return nil, false
		}
		left--
		return failure, applied
	}
	r.log("%d writes on %s (all jobs: %v) fail, applied %v: %v", left, j.name, all, applied, failure)
}

// placeForeign places a pod of somebody else on a node, or removes it. Unless the pool counts units, the pod takes a whole
// idle node.
func (r *random) placeForeign() {
	pods, nodes := r.pods(), r.nodes()
	for i := range pods {
		if pods[i].Labels[jobLabel] == "" {
			r.remove(&pods[i])
			r.log("a foreign pod leaves %s", pods[i].Spec.NodeName)
			return
		}
	}
	free := r.free(nodes)
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		units := perNode
		if r.units {
			units = 1 + r.IntN(perNode)
		}
		if free[name] >= units {
			r.foreign++
			pod := &corev1.Pod{
				Spec: corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "x"}}}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
			}
			pod.Name, pod.Namespace = fmt.Sprint("foreign-", r.foreign), "default"
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", UID: "x", Controller: new(true)}}
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{gpu: *resource.NewQuantity(int64(units), resource.DecimalSI)}
			r.must(r.api.Create(r.t.Context(), pod))
			r.log("a foreign pod of %d units is on %s", units, name)
			return
		}
	}
}

// within returns the units of the jobs of some namespaces, at sizes by name. A job with more pods on usable nodes, also
// terminating ones, and a job that lends units counts with its pods.
func (r *random) within(namespaces string, sizes map[string]int) (sum int) {
	lends, bound, nodes := make(map[string]int), make(map[string]int), r.nodes()
	for _, j := range r.loop.Report().State.Jobs {
		if j.Pinned != "" {
			lends[j.Object.GetName()] = j.RetainedNodes()
		}
	}
	for _, pod := range r.pods() {
		node, phase := nodes[pod.Spec.NodeName], pod.Status.Phase
		if node != nil && usable(node) && phase != corev1.PodFailed && phase != corev1.PodSucceeded {
			bound[pod.Labels[jobLabel]]++
		}
	}
	for _, j := range r.open() {
		if !strings.Contains(namespaces, j.namespace) {
			continue
		}
		if units, does := lends[j.name]; does {
			sum += units
		} else {
			sum += max(sizes[j.name], bound[j.name]) * j.units
		}
	}
	return sum
}

// pass calls Reconcile once, checks what it did, and lets at most step pass.
func (r *random) pass(step time.Duration) {
	r.t.Helper()
	before, after, idle := make(map[string]int), make(map[string]int), make(map[string]int) // idle units by node type
	for _, j := range r.open() {
		before[j.name] = r.size(j)
	}
	nodes := r.nodes()
	for name, units := range r.free(nodes) {
		if node := nodes[name]; node != nil && (r.units || units == perNode) {
			idle[typeOf(node.Labels)] += max(0, units)
		}
	}
	clear(r.posted)
	again, err := r.loop.Reconcile(r.t.Context())
	if err != nil {
		again = time.Second
	}
	if len(r.strangers) > 0 {
		r.fatal("the controller writes on objects without the label: %v", r.strangers)
	}
	if len(r.templates) > 0 {
		r.fatal("the controller changes pod templates that must not change: %v", r.templates)
	}
	grown := make(map[string]int)
	for _, j := range r.open() {
		was, size := before[j.name], r.size(j)
		if after[j.name] = size; size == was {
			continue
		}
		r.log("%s is resized from %d to %d: %s", j.name, was, size, strings.Join(r.posted[j.name], "; "))
		selected := typeOf(selectorOf(r.object(j)))
		grown[selected] += max(0, size-was) * j.units
		if j.selects != "" && selected != j.selects {
			r.fatal("%s gets nodes of type %q; its user selected %q", j.name, selected, j.selects)
		}
		lost := r.fail != nil // Without the response to a write there is no event.
		switch {
		case size > 0 && !slices.Contains(j.sizes, size):
			r.fatal("%s gets %d nodes; must be one of %v", j.name, size, j.sizes)
		case !lost && !slices.ContainsFunc(r.posted[j.name], func(text string) bool {
			return strings.Contains(text, "node") || r.units && strings.Contains(text, "GPU")
		}):
			r.fatal("%s is resized from %d to %d without an event", j.name, was, size)
		}
	}
	for nodeType, n := range grown {
		if n > idle[nodeType] {
			r.fatal("jobs grow by %d units of type %q with %d idle usable units", n, nodeType, idle[nodeType])
		}
	}
	for namespaces, limit := range r.limits {
		if was, is := r.within(namespaces, before), r.within(namespaces, after); is > max(limit, was) {
			r.fatal("jobs of %s get %d units, before %d; their limit is %d", namespaces, is, was, limit)
		}
	}
	r.follow()
	again = min(max(again, 100*time.Millisecond), step)
	r.now = r.now.Add(again)
	r.train(again)
}

// passUntil makes passes for a time, or until something is true.
func (r *random) passUntil(limit, step time.Duration, done func() bool) bool {
	r.t.Helper()
	for began := r.now; r.now.Sub(began) < limit; {
		if done() {
			return true
		}
		r.pass(step)
	}
	return done()
}

func never() bool { return false }

// quiet ends all problems, and all jobs that their users wrote to keep theirs.
func (r *random) quiet() {
	r.fail = nil
	for _, node := range r.nodes() {
		r.heal(node)
	}
	for _, pod := range r.pods() {
		if pod.Labels[jobLabel] == "" {
			r.remove(&pod)
		}
	}
	for _, j := range r.open() {
		j.missing = -1
	}
	for r.lacksNodes() {
		r.addNode(fmt.Sprint("last", len(r.nodes())))
	}
	r.log("the events end")
}

// lacksNodes reports whether the cluster has fewer than eight nodes, or fewer than four of a type. Some jobs need four nodes,
// and their users may select the type.
func (r *random) lacksNodes() bool {
	nodes, ofType := r.nodes(), make(map[string]int)
	for _, node := range nodes {
		ofType[typeOf(node.Labels)]++
	}
	return len(nodes) < 8 || r.typed() && min(ofType["slow"], ofType["fast"]) < 4
}

// workers returns the pods with their nodes.
func (r *random) workers() string {
	var names []string
	for _, pod := range r.pods() {
		names = append(names, pod.Name+" on "+pod.Spec.NodeName)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// waiting reports whether a job has no nodes.
func (r *random) waiting() bool {
	return slices.ContainsFunc(r.open(), func(j *job) bool { return r.size(j) == 0 })
}

// settle checks that nothing is written and no pod changes hours after two long jobs have arrived, also after a restart of
// the controller. If a job waits, aging lets it change places with a job of about the same value: after 2 h or more, because its
// weight doubles in 8 h and a change must gain more than it costs. Two jobs are resized then, each with a write of its target
// and one of its size.
func (r *random) settle() {
	r.t.Helper()
	for range 2 {
		r.arrive(5000 * time.Hour)
	}
	r.passUntil(6*time.Hour, slow, never)
	quiet := func(limit time.Duration, restarted bool) {
		r.t.Helper()
		pods, writes, allowed := r.workers(), r.writes, 0
		if r.waiting() {
			allowed = 4 * int(limit/(2*time.Hour))
		}
		if restarted {
			r.restart()
		}
		r.passUntil(limit, slow, never)
		if n := r.writes - writes; !restarted && n > allowed || allowed == 0 && r.workers() != pods {
			r.fatal("%d writes in %v without events, restarted %v; pods before %s, after %s", n, limit, restarted, pods, r.workers())
		}
	}
	quiet(6*time.Hour, false)
	quiet(3*time.Hour, true)
}

// The maximum time between two passes during and after the events.
const (
	fast = 45 * time.Second
	slow = 5 * time.Minute
)

// TestClosedLoop lets random events happen and checks that
//
//  1. each resize is to a legal size and has an event that explains it, so no job loses nodes without a decision,
//  2. jobs grow by at most the idle usable nodes,
//  3. every job completes after the events, with work that is declared too high or too low,
//  4. no object without the label is written,
//  5. after the events, writes stop, and no job is resized any more unless a job waits, and
//  6. the same after a restart of the controller.
func TestClosedLoop(t *testing.T) {
	t.Parallel()
	testLoop(t, "", nil)
}

// TestClosedLoopUnits is TestClosedLoop in a pool that counts units.
func TestClosedLoopUnits(t *testing.T) {
	t.Parallel()
	testLoop(t, countUnits, nil)
}

// TestClosedLoopTypes is TestClosedLoop in a pool with two node types. Jobs grow by at most the idle usable nodes of their type,
// and no pod template changes that the API server would not let change.
func TestClosedLoopTypes(t *testing.T) {
	t.Parallel()
	testLoop(t, twoTypes, nil)
}

// TestClosedLoopUnitGroups is TestClosedLoop in a pool that counts units and has groups. No resize may make a group
// exceed its limit.
func TestClosedLoopUnitGroups(t *testing.T) {
	t.Parallel()
	const groups = `, groups: [{name: research, quota: 40, limit: 52}, {name: red, parent: research, namespaces: [red], quota: 20, limit: 33},
		{name: blue, parent: research, namespaces: [blue], quota: 16}, {name: green, namespaces: [green], quota: 20, limit: 39}]`
	testLoop(t, countUnits+groups, map[string]int{"red blue": 52, "red": 33, "green": 39})
}

// The settings of a pool that counts units, and of a pool with two node types.
const (
	countUnits = ", count: units"
	twoTypes   = ", nodeTypes: [{name: a, labels: {gpu: slow}}, {name: b, labels: {gpu: fast}, speed: 2}]"
)

// testLoop runs TestClosedLoop in a pool with some settings. limits are as in random.
func testLoop(t *testing.T, pool string, limits map[string]int) {
	t.Helper()
	first, count := seeds(t)
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := &random{
				cluster: newCluster(t, pool), Rand: rand.New(rand.NewPCG(seed, 7)), units: strings.HasPrefix(pool, countUnits), limits: limits,
			}
			for range 40 {
				r.happen()
				r.passUntil(time.Duration(r.IntN(600))*time.Second, fast, never)
			}
			r.quiet()
			if !r.passUntil(150*time.Hour, slow, func() bool { return len(r.open()) == 0 }) {
				r.fatal("%d jobs are not complete 150 h after the last event", len(r.open()))
			}
			r.pass(slow)
			writes := r.writes
			if r.passUntil(time.Hour, slow, never); r.writes > writes {
				r.fatal("%d writes after all jobs are complete", r.writes-writes)
			}
			r.settle()
			t.Logf("%d moves to another node type", strings.Count(strings.Join(r.history, "\n"), "Moving"))
		})
	}
}

// TestWrites lets jobs arrive for 8 h in which all nodes, pods and writes are healthy. The controller writes the target and the
// size of a job that it resizes, and the target of a job at most once more.
func TestWrites(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	r := &random{cluster: newCluster(t, ""), Rand: rand.New(rand.NewPCG(0, 3))}
	for end := r.now.Add(8 * time.Hour); r.now.Before(end); {
		r.arrive(time.Duration(20+r.IntN(400)) * time.Minute)
		r.passUntil(time.Duration(r.ExpFloat64()*float64(40*time.Minute)), fast, never)
	}
	resizes := 0
	for _, line := range r.history {
		if strings.Contains(line, " is resized ") {
			resizes++
		}
	}
	if t.Logf("%d writes for %d resizes of %d jobs", r.writes, resizes, len(r.jobs)); resizes < 10 || r.writes > 2*resizes+len(r.jobs) {
		t.Errorf("%d writes for %d resizes of %d jobs; want at most two for each resize and one for each job", r.writes, resizes, len(r.jobs))
	}
}

// TestLentType lends the node of a JobSet, whose driver runs for 20 min, to a Job that moves to its faster nodes. Once the driver
// has completed, the JobSet gets its node back, because the Job can use other nodes.
func TestLentType(t *testing.T) {
	t.Parallel()
	r := &random{cluster: newCluster(t, twoTypes), Rand: rand.New(rand.NewPCG(0, 7))}
	moves := &job{name: "moves", namespace: "default", units: perNode, kind: "Job", left: 5000 * time.Hour, missing: -1, sizes: []int{4}}
	lends := &job{
		name: "waits", namespace: "default", units: perNode, kind: jobSets.Kind, left: 5000 * time.Hour, missing: -1,
		sizes: []int{1}, initialize: 20 * time.Minute, selects: "fast",
	}
	for _, j := range []*job{moves, lends} {
		j.efficiency, j.restart = 0.9, 2*time.Minute
		r.submit(j, true, map[string]string{
			"work": "2500h", "nodes": fmt.Sprint(j.sizes[0]), "doubling-efficiency": "0.9", "restart": "2m", "weight": fmt.Sprint(j.sizes[0]),
		})
	}
	on := func(j *job, nodeType string) (count int) {
		nodes := r.nodes()
		for _, pod := range r.pods() {
			if node := nodes[pod.Spec.NodeName]; node != nil && pod.Labels[jobLabel] == j.name && typeOf(node.Labels) == nodeType {
				count++
			}
		}
		return count
	}
	if !r.passUntil(20*time.Minute, fast, func() bool { return on(moves, "fast") == 4 }) {
		r.fatal("the Job does not move to the lent node")
	}
	if !r.passUntil(15*time.Minute, fast, func() bool { return on(lends, "fast") == 1 && on(moves, "slow") == 4 }) {
		r.fatal("the JobSet does not get its node back, while four nodes of the other type are idle")
	}
}
