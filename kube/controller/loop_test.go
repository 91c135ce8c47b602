package controller_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/controller"
	"github.com/elastalloc/elastalloc/kube/internal/worldtest"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/plan"
	"github.com/elastalloc/elastalloc/kube/world"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// cluster is an API server in memory with what the Job controller, the scheduler and the
// kubelets do, and a loop upon it.
type cluster struct {
	t         *testing.T
	client    client.WithWatch
	now       time.Time
	pool      config.Pool
	mode      string
	allocator controller.Allocator
	querier   controller.Querier
	recorder  *events.FakeRecorder
	registry  *prometheus.Registry
	loop      *controller.Loop
	// onPatch, where set, is asked before each write.
	onPatch func(patch string, name string) error
	writes  atomic.Int64
	pods    int
	linger  bool // Deleted pods stay.
	// step is the longest time between two passes.
	step time.Duration
}

// newCluster returns a cluster of so many nodes in apply mode that decides in process.
func newCluster(t *testing.T, nodes int, jobs ...*unstructured.Unstructured) *cluster {
	t.Helper()
	allocator, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, now: worldtest.Begin(), step: 5 * time.Second, pool: worldtest.Pool(), mode: plan.ModeApply, allocator: apiconv.InProcess{Allocator: allocator}}
	builder := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, under client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if c.onPatch != nil {
				if err := c.onPatch(string(p.Type()), o.GetName()); err != nil {
					return err
				}
			}
			c.writes.Add(1)
			return under.Patch(ctx, o, p, options...)
		},
	})
	for i := range nodes {
		builder.WithObjects(worldtest.Node(fmt.Sprintf("node-%03d", i)))
	}
	for _, job := range jobs {
		job.SetResourceVersion("")
		builder.WithObjects(job)
	}
	c.client = builder.Build()
	c.kubelet()
	c.now = c.now.Add(time.Hour)
	c.start()
	return c
}

// start starts the controller, as after a crash.
func (c *cluster) start() {
	c.recorder, c.registry = events.NewFakeRecorder(1000), prometheus.NewRegistry()
	c.loop = controller.NewLoop(c.pool, controller.Options{
		Mode: c.mode, Kinds: kinds.Named([]string{"Job"}), Client: c.client, Live: c.client, Allocator: c.allocator, Querier: c.querier,
		Recorder: c.recorder, Metrics: controller.NewMetrics(c.registry, c.mode), Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return c.now },
	})
}

// kubelet makes the pods of every job as many as it asks for, on nodes that are free.
func (c *cluster) kubelet() {
	c.t.Helper()
	ctx := c.t.Context()
	var jobs batchv1.JobList
	var pods corev1.PodList
	var nodes corev1.NodeList
	for _, list := range []client.ObjectList{&jobs, &pods, &nodes} {
		if err := c.client.List(ctx, list); err != nil {
			c.t.Fatal(err)
		}
	}
	busy, of := make(map[string]bool), make(map[string][]*corev1.Pod)
	for i := range pods.Items {
		busy[pods.Items[i].Spec.NodeName] = true
		name := pods.Items[i].Labels["batch.kubernetes.io/job-name"]
		of[name] = append(of[name], &pods.Items[i])
	}
	for _, job := range jobs.Items {
		want := int(*job.Spec.Parallelism)
		if *job.Spec.Suspend || len(job.Status.Conditions) > 0 {
			want = 0
		}
		have := of[job.Name]
		for _, pod := range have[min(want, len(have)):] {
			if !c.linger {
				if err := c.client.Delete(ctx, pod); err != nil {
					c.t.Fatal(err)
				}
				delete(busy, pod.Spec.NodeName)
			}
		}
	}
	for _, job := range jobs.Items {
		want := int(*job.Spec.Parallelism)
		if *job.Spec.Suspend || len(job.Status.Conditions) > 0 {
			want = 0
		}
		for i := len(of[job.Name]); i < want; i++ {
			node := ""
			for _, n := range nodes.Items {
				if !busy[n.Name] {
					node = n.Name
				}
			}
			if node == "" {
				c.t.Errorf("a pod of %s has no node", job.Name)
				continue
			}
			busy[node] = true
			c.pods++
			pod := worldtest.Pod(fmt.Sprintf("%s-%d", job.Name, c.pods), node, map[string]string{"batch.kubernetes.io/job-name": job.Name})
			if err := c.client.Create(ctx, pod); err != nil {
				c.t.Fatal(err)
			}
		}
	}
}

// passes makes passes, between which time goes on as the loop wants it, up to a step, and
// pods follow.
func (c *cluster) passes(n int) {
	c.t.Helper()
	for range n {
		again, err := c.loop.Pass(c.t.Context())
		if err != nil {
			c.t.Logf("pass: %v", err)
		}
		c.kubelet()
		c.now = c.now.Add(min(again, c.step))
	}
}

// job returns the nodes of a job and its annotations.
func (c *cluster) job(name string) (nodes int, annotations map[string]string) {
	c.t.Helper()
	var job batchv1.Job
	if err := c.client.Get(c.t.Context(), types.NamespacedName{Namespace: "default", Name: name}, &job); err != nil {
		c.t.Fatal(err)
	}
	if *job.Spec.Parallelism != *job.Spec.Completions {
		c.t.Errorf("%s has parallelism %d and completions %d", name, *job.Spec.Parallelism, *job.Spec.Completions)
	}
	if *job.Spec.Suspend {
		return 0, job.Annotations
	}
	return int(*job.Spec.Parallelism), job.Annotations
}

// want fails where a job holds other nodes.
func (c *cluster) want(sizes map[string]int) {
	c.t.Helper()
	for name, want := range sizes {
		if got, _ := c.job(name); got != want {
			c.t.Errorf("%s holds %d nodes; want %d", name, got, want)
		}
	}
}

// told returns the events so far.
func (c *cluster) told() string {
	var all []string
	for len(c.recorder.Events) > 0 {
		all = append(all, <-c.recorder.Events)
	}
	return strings.Join(all, "\n")
}

// moments returns how many moments had a result.
func (c *cluster) moments(result string) float64 {
	families, err := c.registry.Gather()
	if err != nil {
		c.t.Fatal(err)
	}
	var sum float64
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if family.GetName() == "elastalloc_controller_moments_total" && label.GetName() == "result" && label.GetValue() == result {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

// busy returns jobs of a pool of 8 nodes: a long one on all of them and a short one that waits.
func busy() []*unstructured.Unstructured {
	return []*unstructured.Unstructured{
		worldtest.Job("long", 8, map[string]string{"work": "1000h", "nodes": "4,8"}),
		worldtest.Job("short", 0, map[string]string{"work": "1h", "nodes": "4"}),
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	c.passes(8)
	c.want(map[string]int{"long": 4, "short": 4})
	if _, annotations := c.job("short"); annotations[world.TargetAnnotation] != "4" {
		t.Errorf("annotations are %v", annotations)
	}
	told := c.told()
	for _, want := range []string{"Normal ScaledDown 8 -> 4 nodes; ends in", "Normal Started start with 4 nodes; ends in 23m26s", "no allocation of the pool is better", "better. Job/default/short has 4 nodes, its only size"} {
		if !strings.Contains(told, want) {
			t.Errorf("events do not say %q: %s", want, told)
		}
	}
	if n := testutil.CollectAndCount(c.registry, "elastalloc_controller_settle_seconds"); n != 1 {
		t.Errorf("%d settle times; want 1", n)
	}
	// Nothing more is to be done, and nothing more is written.
	writes := c.writes.Load()
	c.passes(30)
	if more := c.writes.Load() - writes; more != 0 {
		t.Errorf("%d more writes", more)
	}
}

// slowAllocator takes twice the cadence for a decision.
type slowAllocator struct {
	controller.Allocator
	c *cluster
}

func (s slowAllocator) Allocate(ctx context.Context, r *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	s.c.now = s.c.now.Add(2 * s.c.pool.Cadence)
	return s.Allocator.Allocate(ctx, r)
}

// TestSlowDecisionsAreCarriedOut checks that the next decision is not due before the one
// that took longer than the cadence was carried out.
func TestSlowDecisionsAreCarriedOut(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	c.pool.Cadence, c.step = 5*time.Second, time.Second
	c.allocator = slowAllocator{c.allocator, c}
	c.start()
	c.passes(8)
	c.want(map[string]int{"long": 4, "short": 4})
}

func TestRecommendWritesNoSpecification(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	c.mode = plan.ModeRecommend
	c.start()
	c.onPatch = func(patch, name string) error {
		if patch != string(types.MergePatchType) {
			t.Errorf("%s of %s", patch, name)
		}
		return nil
	}
	c.step = time.Minute
	c.passes(15)
	c.want(map[string]int{"long": 8, "short": 0})
	if _, annotations := c.job("short"); annotations[world.TargetAnnotation] != "4" {
		t.Errorf("annotations are %v; want a target of 4", annotations)
	}
	if told := c.told(); strings.Count(told, "Recommended") != 2 || !strings.Contains(told, "Normal Recommended 8 -> 4 nodes") {
		t.Errorf("events are %s; want one for each of two jobs", told)
	}
	// To apply is to decide anew.
	c.onPatch, c.mode = nil, plan.ModeApply
	c.start()
	c.passes(8)
	c.want(map[string]int{"long": 4, "short": 4})
}

// TestCrash ends the controller after every number of writes; the end is the same.
func TestCrash(t *testing.T) {
	t.Parallel()
	for crash := range int64(5) {
		t.Run(fmt.Sprint(crash), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 8, busy()...)
			dead := errors.New("the process is dead")
			c.onPatch = func(string, string) error {
				if c.writes.Load() >= crash {
					return dead
				}
				return nil
			}
			c.passes(4)
			c.onPatch = nil
			c.start()
			c.passes(12)
			c.want(map[string]int{"long": 4, "short": 4})
		})
	}
}

// answers is an allocator that answers as it is told.
type answers struct {
	controller.Allocator
	calls  atomic.Int64
	change func(*elastallocv1.AllocateResponse) (*elastallocv1.AllocateResponse, error)
}

func (a *answers) Allocate(ctx context.Context, r *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	a.calls.Add(1)
	response, err := a.Allocator.Allocate(ctx, r)
	if err != nil {
		return nil, err
	}
	return a.change(response)
}

// TestBadAllocators: allocators that fail or lie change nothing.
func TestBadAllocators(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*elastallocv1.AllocateResponse) (*elastallocv1.AllocateResponse, error)
		result string
	}{
		"fails": {func(*elastallocv1.AllocateResponse) (*elastallocv1.AllocateResponse, error) {
			return nil, errors.New("unavailable")
		}, "failed"},
		"gives more than there is": {func(r *elastallocv1.AllocateResponse) (*elastallocv1.AllocateResponse, error) {
			r.Allocations[0].Nodes = 8
			return r, nil
		}, "refused"},
		"says nothing": {func(*elastallocv1.AllocateResponse) (*elastallocv1.AllocateResponse, error) {
			return &elastallocv1.AllocateResponse{}, nil
		}, "refused"},
		"answers nil": {func(*elastallocv1.AllocateResponse) (*elastallocv1.AllocateResponse, error) { return nil, nil }, "refused"},
		"knows other jobs": {func(r *elastallocv1.AllocateResponse) (*elastallocv1.AllocateResponse, error) {
			r.Allocations[0].JobId = "Job/kube-system/etcd"
			return r, nil
		}, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 8, busy()...)
			bad := &answers{Allocator: c.allocator, change: test.change}
			c.allocator = bad
			c.start()
			c.step = 20 * time.Second
			c.passes(50)
			c.want(map[string]int{"long": 8, "short": 0})
			if c.writes.Load() != 0 || c.moments(test.result) < 2 || c.moments("decided") != 0 {
				t.Errorf("%d writes, %v moments %s; want none, and several", c.writes.Load(), c.moments(test.result), test.result)
			}
			// Not asked all the time.
			if calls := bad.calls.Load(); calls > 30 {
				t.Errorf("%d calls in %v", calls, c.now.Sub(worldtest.Begin().Add(time.Hour)))
			}
			bad.change = func(r *elastallocv1.AllocateResponse) (*elastallocv1.AllocateResponse, error) { return r, nil }
			c.passes(30)
			c.want(map[string]int{"long": 4, "short": 4})
		})
	}
}

func TestPinnedJobsAreToldWhy(t *testing.T) {
	t.Parallel()
	jobs := append(busy(), worldtest.Job("bad", 0, map[string]string{"work": "soon", "weight": "x"}), worldtest.Job("unknown", 0, nil))
	c := newCluster(t, 8, jobs...)
	c.passes(20)
	c.want(map[string]int{"long": 4, "short": 4, "bad": 0, "unknown": 0})
	told := c.told()
	if strings.Count(told, "Warning BadAnnotations") != 1 || strings.Count(told, "Warning NoRemainingTime") != 1 ||
		!strings.Contains(told, "elastalloc.dev/work") || !strings.Contains(told, "elastalloc.dev/weight") {
		t.Errorf("events are %s", told)
	}
	pinned := "elastalloc_controller_pinned"
	if n := testutil.CollectAndCount(c.registry, pinned); n != len(world.Reasons()) {
		t.Errorf("%d series of %s; want one for each reason", n, pinned)
	}
}

// TestRefusedWrites: what the API server refuses for one job is that job's alone.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	jobs := append(busy(), worldtest.Job("other", 0, map[string]string{"work": "1h", "nodes": "2"}))
	c := newCluster(t, 10, jobs...)
	c.onPatch = func(patch, name string) error {
		if name == "other" && patch == string(types.JSONPatchType) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, name, errors.New("a policy"))
		}
		return nil
	}
	c.passes(30)
	c.want(map[string]int{"long": 4, "short": 4, "other": 0})
	if told := c.told(); strings.Count(told, "Warning Refused start with 2 nodes") != 1 {
		t.Errorf("events are %s", told)
	}
}

// TestConflicts: another writer between observation and write costs another pass.
func TestConflicts(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	times := 0
	c.onPatch = func(patch, name string) error {
		if patch != string(types.JSONPatchType) || name != "long" || times == 3 {
			return nil
		}
		times++
		// What its owner does meanwhile.
		var job batchv1.Job
		key := types.NamespacedName{Namespace: "default", Name: name}
		if err := c.client.Get(t.Context(), key, &job); err != nil {
			return err
		}
		job.Annotations["someone"] = fmt.Sprint(times)
		return c.client.Update(t.Context(), &job)
	}
	c.passes(12)
	c.want(map[string]int{"long": 4, "short": 4})
	if times != 3 {
		t.Errorf("%d conflicts; want 3", times)
	}
}

// TestStuck gives a decision up whose pods do not leave, and makes another one.
func TestStuck(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	c.linger = true
	c.passes(40)
	c.want(map[string]int{"long": 4, "short": 0})
	if told := c.told(); !strings.Contains(told, "Warning Stuck gave up start with 4 nodes") {
		t.Errorf("events are %s", told)
	}
	c.linger, c.step = false, 30*time.Second
	c.passes(20)
	c.want(map[string]int{"long": 4, "short": 4})
}

// TestLostNode decides at once, and in an outage not at all.
func TestLostNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, worldtest.Job("a", 4, map[string]string{"work": "1000h", "nodes": "1,2,4"}), worldtest.Job("b", 4, map[string]string{"work": "1000h", "nodes": "1,2,4"}))
	lose := func(names ...string) {
		for _, name := range names {
			var node corev1.Node
			if err := c.client.Get(t.Context(), types.NamespacedName{Name: name}, &node); err != nil {
				t.Fatal(err)
			}
			node.Status.Conditions[0].Status = corev1.ConditionUnknown
			if err := c.client.Status().Update(t.Context(), &node); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.passes(4)
	c.want(map[string]int{"a": 4, "b": 4})
	lose("node-000")
	c.passes(4)
	a, _ := c.job("a")
	b, _ := c.job("b")
	if a+b != 6 {
		t.Errorf("after a node is lost the jobs hold %d and %d nodes; want 6 of 7", a, b)
	}
	decided := c.moments("decided")
	lose("node-001", "node-002", "node-003", "node-004")
	c.passes(20)
	if a2, _ := c.job("a"); a2 != a || c.moments("outage") == 0 || c.moments("decided") != decided {
		t.Errorf("in an outage a job goes from %d to %d nodes", a, a2)
	}
	// Time says that they are gone.
	c.step = time.Minute
	c.passes(35)
	a, _ = c.job("a")
	b, _ = c.job("b")
	if a+b > 3 {
		t.Errorf("long after an outage began the jobs hold %d and %d nodes; want 3 together", a, b)
	}
}

// TestMoments counts decisions: at the start, ten seconds after events, and every cadence.
func TestMoments(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	c.passes(8)
	decided := c.moments("decided")
	c.step = 2 * time.Second
	for i := range 3 { // Together they are one moment.
		job := worldtest.Job(fmt.Sprintf("new-%d", i), 0, map[string]string{"work": "1h", "nodes": "1"})
		job.SetResourceVersion("")
		if err := c.client.Create(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		c.passes(1)
	}
	if n := c.moments("decided") - decided; n != 0 {
		t.Errorf("%v moments within 10 s of an event; want none", n)
	}
	c.passes(6)
	if n := c.moments("decided") - decided; n != 1 {
		t.Errorf("%v moments for three events; want 1", n)
	}
	decided, c.step = c.moments("decided"), time.Minute
	for began := c.now; c.now.Sub(began) < 16*time.Minute; {
		c.passes(1)
	}
	if n := c.moments("decided") - decided; n < 3 || n > 4 {
		t.Errorf("%v moments in 16 minutes; want one every 5", n)
	}
}

func TestPausedPool(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	c.pool.Paused = true
	c.start()
	c.passes(3)
	if c.writes.Load() != 0 {
		t.Errorf("%d writes to a paused pool", c.writes.Load())
	}
}

// TestProgressFillsIdleNodes: between its decisions the objective progress leaves running
// jobs alone.
func TestProgressFillsIdleNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 12, worldtest.Job("long", 8, map[string]string{"work": "1000h", "nodes": "8"}))
	c.pool.Objective = config.Progress
	c.start()
	c.passes(4)
	job := worldtest.Job("new", 0, map[string]string{"work": "1h", "nodes": "1-16"})
	job.SetResourceVersion("")
	if err := c.client.Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	c.passes(8)
	c.want(map[string]int{"long": 8, "new": 4})
}

// TestQuery asks a Prometheus for remaining times.
func TestQuery(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(prometheusAnswers(`
		{"metric":{"namespace":"default","job_name":"long"},"value":[%d,"360000"]},
		{"metric":{"namespace":"default","job_name":"twice","pod":"0"},"value":[%d,"1"]},
		{"metric":{"namespace":"default","job_name":"twice","pod":"1"},"value":[%d,"2"]},
		{"metric":{"namespace":"default","job_name":"none"},"value":[%d,"NaN"]}`))
	defer server.Close()
	c := newCluster(t, 8, worldtest.Job("long", 4, nil), worldtest.Job("twice", 2, nil), worldtest.Job("none", 1, nil))
	querier, err := controller.NewPrometheus(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	c.querier, c.pool.RemainingQuery = querier, "training_remaining_seconds"
	c.start()
	c.passes(4)
	sources := make(map[string]string)
	for _, j := range c.loop.Report().Jobs {
		sources[j.Job] = string(j.Source) + string(j.Pinned)
	}
	want := map[string]string{"Job/default/long": "query", "Job/default/twice": "NoRemainingTime", "Job/default/none": "NoRemainingTime"}
	for job, source := range want {
		if sources[job] != source {
			t.Errorf("%s: %s; want %s", job, sources[job], source)
		}
	}
	server.Close()
	c.step = time.Minute
	c.passes(15)
	if told := c.told(); !strings.Contains(told, "NoRemainingTime") {
		t.Errorf("events are %s", told)
	}
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	c.passes(8)
	ready := errors.New("not yet")
	admin := &controller.Admin{Metrics: c.registry, Ready: func(context.Context) error { return ready }, Loops: []*controller.Loop{c.loop}}
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		admin.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		return w.Code, w.Body.String()
	}
	if code, _ := get("/readyz"); code != 503 {
		t.Errorf("not ready is %d", code)
	}
	ready = nil
	for path, want := range map[string]string{
		"/readyz": "ok", "/healthz": "ok", "/metrics": "elastalloc_controller_pool_nodes", "/": "Job/default/long",
	} {
		if code, body := get(path); code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s is %d: %s", path, code, body)
		}
	}
	var decisions struct{ Pools []controller.Report }
	if _, body := get("/decisions"); json.Unmarshal([]byte(body), &decisions) != nil || len(decisions.Pools) != 1 ||
		decisions.Pools[0].Decision.Result != "decided" || !slices.ContainsFunc(decisions.Pools[0].Jobs, func(j controller.JobReport) bool {
		return j.Job == "Job/default/short" && j.Nodes == 4 && *j.Target == 4
	}) {
		t.Errorf("decisions are %s", body)
	}
	problems, err := testutil.GatherAndLint(c.registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v, %v", problems, err)
	}
}
