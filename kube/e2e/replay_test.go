//go:build linux

package e2e

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	listers "k8s.io/client-go/listers/core/v1"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
	"github.com/elastalloc/elastalloc/kube/internal/testing/prometheustest"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

var (
	replayTrace = flag.String("replay", "", "trace whose first day TestReplay replays; without one it is skipped")
	replayNodes = flag.Int("replay-nodes", 40, "nodes of each pool")
	replayDay   = flag.Duration("replay-day", 10*time.Minute, "real duration of the day")
)

const (
	day = 24 * time.Hour
	// replayRestart is the restart time of a job after every resize and at its start.
	replayRestart = 3 * time.Minute
	// maxInterval is the maximum simulated part of the time between two observations. If the machine is suspended for
	// longer, the day is suspended, too.
	maxInterval = 250 * time.Millisecond
)

// TestReplay replays a day of a trace as real Jobs, with time compressed, in two pools of one
// cluster at once: one that the controller resizes, and one in which jobs have their requested size
// and start in the order of submission. The trainers are simulated: a job makes progress on its
// running pods, except during a restart after their number changes, and its pods succeed when its
// work is complete. `make replay-kube` runs it.
func TestReplay(t *testing.T) {
	if *replayTrace == "" {
		t.Skip("a day takes minutes; `make replay-kube` runs it")
	}
	workload := dayOf(t, *replayTrace)
	compress := float64(day) / float64(*replayDay)
	elastic, fixed := newReplayedPool(t, "elastic", workload), newReplayedPool(t, "fixed", workload)
	// Trainers report their progress, as they do on most platforms.
	var progress atomic.Pointer[string]
	progress.Store(new(string))
	prometheus, _ := prometheustest.Start(t, "jobs", "groups: []", func() string { return *progress.Load() })
	h := record(t, elastic.pool)
	before := auditLength(t)
	shorter := func(d time.Duration) string { return time.Duration(float64(d) / compress).String() }
	controller{
		pool: elastic.pool, account: release, server: serveCompressed(t, compress), prometheus: prometheus,
		cadence:  max(time.Second, time.Duration(float64(5*time.Minute)/compress)).String(),
		debounce: shorter(10 * time.Second), minInterval: shorter(10 * time.Minute),
	}.start(t)

	last, passed, now := time.Now(), time.Duration(0), time.Duration(0)
	for now < day {
		observed := time.Now()
		passed, last = passed+min(maxInterval, observed.Sub(last)), observed
		now = time.Duration(compress * float64(passed)).Truncate(time.Second)
		elastic.observe(t, now)
		fixed.observe(t, now)
		for _, p := range elastic.jobs {
			if p.Submit <= now {
				elastic.submit(t, p, job{name: p.ID, size: p.RequestedNodes, annotations: map[string]string{
					"elastalloc.dev/work": shorter(p.Demand), "elastalloc.dev/restart": shorter(replayRestart), "elastalloc.dev/nodes": "1-16",
				}})
			}
		}
		fixed.startInOrder(t, now)
		progress.Store(new(elastic.metrics(now)))
		sleep(t.Context(), 30*time.Millisecond)
	}

	elastic.writes.Wait()
	fixed.writes.Wait()
	e, f := elastic.tally(), fixed.tally()
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tjobs completed\tsum of JCT\twork done\tGPU hours allocated\ttraining\tidle\t")
	for _, row := range []struct {
		name string
		tally
	}{
		{"fixed sizes", f},
		{"elastic", e},
		{"fixed sizes, simulated", simulated(t, workload, sim.Rule(greedy.FillIdle), sim.Terms{FixedSize: true, NoRestartBudget: true})},
		{"elastic, simulated", simulated(t, workload, sim.Request{Options: solver.Options{
			Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionStartFirst,
		}}, sim.Terms{EveryEvent: true})},
	} {
		gpuHours := func(d time.Duration) float64 { return cluster.GPUs * d.Hours() }
		fmt.Fprintf(w, "%s\t%d\t%.0f h\t%.0f\t%.0f\t%.0f\t%.0f\t\n", row.name, row.completed, row.total.Hours(), gpuHours(row.work),
			gpuHours(row.allocated), gpuHours(row.trained), gpuHours(time.Duration(*replayNodes)*day-row.allocated))
	}
	w.Flush()
	t.Logf("%d jobs, %d nodes of %d GPUs, a day in %v (%.0f times as fast)\n%s",
		len(elastic.jobs), *replayNodes, cluster.GPUs, *replayDay, compress, &table)
	t.Logf("sum of JCT: %.0f h less (%.1f%%); idle GPU hours: %.0f less", (f.total - e.total).Hours(),
		100*(f.total-e.total).Seconds()/f.total.Seconds(), cluster.GPUs*(e.allocated-f.allocated).Hours())
	if e.total >= f.total {
		t.Errorf("the sum of JCT is %v with elastic jobs and %v with fixed sizes", e.total, f.total)
	}
	t.Logf("%v; %d writes of jobs", h.check(t), checkWrites(t, before, release, elastic.pool))
}

// dayOf returns the jobs that are submitted on the first day of a trace, with valid names for Kubernetes.
func dayOf(t *testing.T, path string) sim.Workload {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	trace, err := sim.ReadTrace(file)
	must(t, err)
	workload := sim.NewWorkload("day", trace, sim.WorkloadOptions{GPUsPerNode: cluster.GPUs, MinDuration: 5 * time.Minute})
	for i := range workload.Jobs {
		if workload.Jobs[i].Submit >= day {
			workload.Jobs = workload.Jobs[:i]
			break
		}
		workload.Jobs[i].ID = fmt.Sprintf("job-%03d", i)
		workload.Jobs[i].RestartTime = replayRestart
	}
	return workload
}

// replayedPool is a pool with simulated trainers.
type replayedPool struct {
	pool      string
	pods      listers.PodLister
	jobs      []*replayedJob
	at        time.Duration
	allocated time.Duration
	// writes are asynchronous, so that they do not delay the simulated time.
	writes sync.WaitGroup
}

// replayedJob is a job with simulated trainers.
type replayedJob struct {
	*sim.WorkloadJob
	course    *sim.Progress
	result    sim.JobResult
	submitted bool
	// running is the number of running pods, alive the number of pods that have not completed.
	running, alive int
	succeed        map[types.UID]bool
}

func newReplayedPool(t *testing.T, pool string, workload sim.Workload) *replayedPool {
	t.Helper()
	newPool(t, pool, *replayNodes)
	factory := informers.NewSharedInformerFactoryWithOptions(kube.Client, 0, informers.WithNamespace(pool))
	a := &replayedPool{pool: pool, pods: factory.Core().V1().Pods().Lister()}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); factory.Shutdown() })
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	for i := range workload.Jobs {
		job := &workload.Jobs[i]
		a.jobs = append(a.jobs, &replayedJob{
			WorkloadJob: job, course: sim.NewProgress(job, nil), succeed: map[types.UID]bool{},
			result: sim.JobResult{ID: job.ID, Submit: job.Submit, End: -1},
		})
	}
	return a
}

// observe advances every job on its running pods.
func (a *replayedPool) observe(t *testing.T, now time.Duration) {
	t.Helper()
	list, err := a.pods.List(labels.Everything())
	must(t, err)
	running := map[string][]*corev1.Pod{}
	for _, p := range a.jobs {
		a.allocated += time.Duration(p.alive) * (now - a.at)
		p.alive = 0
	}
	a.at = now
	alive := map[string]int{}
	for _, pod := range list {
		if ended(pod) {
			continue
		}
		alive[jobOf(pod)]++
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			running[jobOf(pod)] = append(running[jobOf(pod)], pod)
		}
	}
	for _, p := range a.jobs {
		pods := running[p.ID]
		p.alive = alive[p.ID]
		if p.result.End < 0 && p.submitted && p.course.Served(now) >= p.Demand {
			p.result.End = now
		}
		if p.result.End >= 0 {
			a.succeed(t, p, pods)
			pods = nil
		}
		if n := len(pods); n != p.running {
			p.running = n
			p.course.Resize(sim.NodesAt{At: now, Nodes: n})
			p.result.Nodes = append(p.result.Nodes, sim.NodesAt{At: now, Nodes: n})
		}
	}
}

// metrics returns the progress of the running jobs as metrics.
func (a *replayedPool) metrics(now time.Duration) string {
	var text strings.Builder
	for _, p := range a.jobs {
		if p.running > 0 {
			fmt.Fprintf(&text, "training_progress_ratio{namespace=%q,job_name=%q} %g\n",
				a.pool, p.ID, p.course.Served(now).Seconds()/p.Demand.Seconds())
		}
	}
	return text.String()
}

// succeed sets the pods of a job to Succeeded.
func (a *replayedPool) succeed(t *testing.T, p *replayedJob, pods []*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		if p.succeed[pod.UID] {
			continue // The cache is updated later.
		}
		p.succeed[pod.UID] = true
		a.writes.Go(func() {
			wait.For(t, "the phase of a pod", func() (bool, string) {
				_, err := kube.Client.CoreV1().Pods(a.pool).Patch(t.Context(), pod.Name, types.MergePatchType,
					[]byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
				return err == nil || apierrors.IsNotFound(err), fmt.Sprint(err) // The pod may have been removed.
			})
		})
	}
}

// submit creates the Job of a job unless it exists.
func (a *replayedPool) submit(t *testing.T, p *replayedJob, j job) {
	t.Helper()
	if !p.submitted {
		p.submitted = true
		a.writes.Go(func() {
			wait.For(t, "the creation of a job", func() (bool, string) {
				_, err := kube.Client.BatchV1().Jobs(a.pool).Create(t.Context(),
					&batchv1.Job{ObjectMeta: j.metadata(a.pool), Spec: j.indexed(a.pool)}, metav1.CreateOptions{})
				return err == nil || apierrors.IsAlreadyExists(err), fmt.Sprint(err)
			})
		})
	}
}

// startInOrder starts jobs in the order of submission as long as the next one fits.
func (a *replayedPool) startInOrder(t *testing.T, now time.Duration) {
	t.Helper()
	free := *replayNodes
	for _, p := range a.jobs {
		if p.submitted && p.result.End < 0 {
			free -= max(p.RequestedNodes, p.alive)
		} else {
			free -= p.alive
		}
	}
	for _, p := range a.jobs {
		if p.Submit > now || !p.submitted && p.RequestedNodes > free {
			return
		}
		if !p.submitted {
			free -= p.RequestedNodes
			a.submit(t, p, job{name: p.ID, size: p.RequestedNodes, running: true, unlabelled: true})
		}
	}
}

// tally contains the results of the jobs within the day.
type tally struct {
	completed int
	// total is the sum of job completion times, up to the end of the day. work is run time on one node. trained and
	// allocated are node times of running pods and of all pods that have not completed.
	total, work, trained, allocated time.Duration
}

func (a *replayedPool) tally() tally {
	sum := tally{allocated: a.allocated}
	for _, p := range a.jobs {
		sum.add(p.WorkloadJob, &p.result)
	}
	return sum
}

// add adds the results of a job. A negative completion time means that it has not completed.
func (s *tally) add(job *sim.WorkloadJob, r *sim.JobResult) {
	end := day
	if r.End >= 0 && r.End < day {
		end = r.End
		s.completed++
	}
	s.total += end - r.Submit
	s.trained += sim.NodeTime(r.Nodes, 0, 0, end)
	course := sim.NewProgress(job, nil)
	for _, change := range r.Nodes {
		if change.At <= end {
			course.Resize(change)
		}
	}
	s.work += min(course.Served(end), job.Demand)
}

// simulated returns the results of a simulation of the day.
func simulated(t *testing.T, workload sim.Workload, policy sim.Policy, terms sim.Terms) tally {
	t.Helper()
	allocator, err := elastalloc.New(elastalloc.Options{})
	must(t, err)
	config := sim.DefaultConfig(*replayNodes)
	config.Terms = terms
	result, err := sim.Run(t.Context(), workload, policy, config, allocator)
	must(t, err)
	var sum tally
	for i := range result.Jobs {
		sum.add(&workload.Jobs[i], &result.Jobs[i])
	}
	sum.allocated = sum.trained
	return sum
}

// serveCompressed starts a server that converts all durations to the time of the trace before it decides. It returns its
// address.
func serveCompressed(t *testing.T, compress float64) string {
	t.Helper()
	allocator, err := elastalloc.New(elastalloc.Options{})
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := grpc.NewServer()
	elastallocv1.RegisterAllocatorServiceServer(server, &decompressed{allocator: apiconv.InProcess{Allocator: allocator}, compress: compress})
	t.Cleanup(server.Stop)
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().String()
}

type decompressed struct {
	elastallocv1.UnimplementedAllocatorServiceServer
	allocator apiconv.InProcess
	compress  float64
}

func (d *decompressed) Allocate(ctx context.Context, r *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	for _, job := range r.GetSnapshot().GetJobs() {
		err := protorange.Range(job.ProtoReflect(), func(p protopath.Values) error {
			if message, ok := p.Index(-1).Value.Interface().(protoreflect.Message); ok {
				if duration, ok := message.Interface().(*durationpb.Duration); ok {
					longer := durationpb.New(time.Duration(d.compress * float64(duration.AsDuration())))
					duration.Seconds, duration.Nanos = longer.GetSeconds(), longer.GetNanos()
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return d.allocator.Allocate(ctx, r)
}
