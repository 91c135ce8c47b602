//go:build linux

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/plan"
	"github.com/elastalloc/elastalloc/kube/world"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// crashPool creates a pool of 8 nodes with four jobs that decisions resize. setPhase selects the short jobs.
func crashPool(t *testing.T, pool string) {
	t.Helper()
	newPool(t, pool, 8)
	annotations := elastic(100)
	annotations["elastalloc.dev/nodes"] = "1-4" // Two of them run, and others in the next phase.
	for i := range 4 {
		job{name: fmt.Sprintf("job-%d", i), size: 1, annotations: annotations,
			pods: map[string]string{"test/stop-delay": "300ms"}}.submit(t, pool)
	}
}

// setPhase changes the remaining work of the jobs, so that the next decision resizes them.
func setPhase(t *testing.T, pool string, phase int) {
	t.Helper()
	for i, hours := range [][]int{{1, 2, 300, 400}, {300, 400, 1, 2}}[phase%2] {
		_, err := kube.Client.BatchV1().Jobs(pool).Patch(t.Context(), fmt.Sprintf("job-%d", i), types.MergePatchType,
			[]byte(fmt.Sprintf(`{"metadata":{"annotations":{"elastalloc.dev/work":"%dh"}}}`, hours)), metav1.PatchOptions{})
		must(t, err)
	}
}

// TestKilledAfterEveryWrite kills the controller after the first write of a decision, after
// the second, and so on, and starts another one each time. The final sizes are always the sizes without kills, or
// other sizes with the same objective.
func TestKilledAfterEveryWrite(t *testing.T) {
	const pool = "crash"
	crashPool(t, pool)
	before := auditLength(t)
	h := record(t, pool)

	// The final sizes of each phase without kills.
	var want [2]map[string]int
	for _, phase := range []int{0, 1, 0, 1} {
		setPhase(t, pool, phase)
		process := controller{pool: pool, account: release}.start(t)
		want[phase] = untilPhase(t, pool, phase)
		process.Kill()
	}
	if maps.Equal(want[0], want[1]) {
		t.Fatalf("both phases have the final sizes %v; want different ones", want[0])
	}

	for n := 1; ; n++ {
		phase := n - 1
		setPhase(t, pool, phase)
		g := newKillingProxy(t, pool, n)
		process := g.start(t, controller{pool: pool, account: release})
		ctx, cancel := context.WithCancel(t.Context())
		select {
		case <-process.Exited():
			if !g.killed() {
				t.Fatalf("the controller exited by itself:\n%s", process.Tail())
			}
			t.Logf("killed after write %d", n)
		case <-applied(ctx, t, pool, phase):
			process.Kill()
			if !g.killed() {
				t.Logf("a decision has %d writes; the controller was killed after each of them", n-1)
				t.Logf("%v; %d writes of jobs", h.check(t), checkWrites(t, before, release, pool))
				cancel()
				return
			}
		}
		cancel()
		process = controller{pool: pool, account: release}.start(t)
		got := untilPhase(t, pool, phase)
		process.Kill()
		if !maps.Equal(got, want[phase%2]) {
			objective, best := objectives(t, pool, got, want[phase%2])
			t.Logf("killed after write %d, the sizes are %v with objective %v; without kills %v with %v", n, got, objective, want[phase%2], best)
			if objective < best-1e-9*math.Abs(best) {
				t.Errorf("killed after write %d, the final sizes are worse", n)
			}
		}
	}
}

// objectives returns the objectives of two allocations in a decision on the current pool.
func objectives(t *testing.T, pool string, got, want map[string]int) (ofGot, ofWant float64) {
	t.Helper()
	settings := worldtest.Pool()
	settings.Name, settings.NodeSelector = pool, map[string]string{"pool": pool}
	in := world.Input{Now: time.Now(), Pool: settings, Apply: true}
	nodes, err := kube.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for i := range nodes.Items {
		in.Nodes = append(in.Nodes, &nodes.Items[i])
	}
	running, err := kube.Client.CoreV1().Pods(pool).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for i := range running.Items {
		in.Pods = append(in.Pods, &running.Items[i])
	}
	jobs, err := dynamicClient(t, kube.Config).Resource(resourceOf("Job")).Namespace(pool).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for i := range jobs.Items {
		in.Jobs = append(in.Jobs, world.Object{Kind: kinds.Named([]string{"Job"})[0], Job: &jobs.Items[i]})
	}
	w := world.Observe(in)
	for _, j := range w.Jobs {
		j.Cooling = false
	}
	request, err := apiconv.FromAllocateRequest(plan.Snapshot(w, "end", nil).Allocate, len(w.Jobs))
	must(t, err)
	model := problem.NewProblemFor(request.Snapshot, request.Options)
	objective := func(sizes map[string]int) float64 {
		p := problem.NewPlan(len(model.Jobs), 1)
		for i, admitted := range model.Jobs {
			p[i][0] = solver.NewOption(0, sizes[path.Base(request.Snapshot.Jobs[admitted.Index].ID)])
		}
		must(t, model.Check(p))
		return model.Objective(p)
	}
	return objective(got), objective(want)
}

// untilPhase waits until the pods match a decision of a phase.
func untilPhase(t *testing.T, pool string, phase int) map[string]int {
	t.Helper()
	var got map[string]int
	wait.For(t, "the decision of the phase", func() (bool, string) {
		got = targets(t, pool)
		return isOf(phase, got) && isApplied(t, pool, got, 8), fmt.Sprint(got)
	})
	return got
}

// isApplied reports whether the running pods match the targets and occupy all nodes.
func isApplied(t *testing.T, pool string, targets map[string]int, nodes int) bool {
	t.Helper()
	byJob, running := pods(t, pool)
	sum := 0
	nonzero := maps.Clone(targets)
	for name, n := range targets {
		if sum += n; n == 0 {
			delete(nonzero, name)
		}
	}
	return sum == nodes && running == sum && maps.Equal(byJob, nonzero)
}

// applied returns a channel that is closed when a decision of a phase is applied, or when ctx is canceled. It fails the test
// after the timeout of wait.
func applied(ctx context.Context, t *testing.T, pool string, phase int) <-chan struct{} {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for deadline := time.Now().Add(wait.Timeout); ctx.Err() == nil; sleep(ctx, 100*time.Millisecond) {
			got := targets(t, pool)
			if isOf(phase, got) && isApplied(t, pool, got, 8) {
				return
			}
			if ctx.Err() == nil && time.Now().After(deadline) {
				t.Errorf("the decision of phase %d: not within %v: %v", phase, wait.Timeout, got)
				return
			}
		}
	}()
	return done
}

// isOf reports whether targets match a phase: its shortest job has more nodes than the shortest job of the other phase.
func isOf(phase int, targets map[string]int) bool {
	short := func(phase int) string { return fmt.Sprintf("job-%d", 2*(phase%2)) }
	return targets[short(phase)] > targets[short(phase+1)]
}

// TestAPIServerRestarted kills and restarts the API server at several times during a decision. The controller continues
// and never requests more nodes than the pool has.
func TestAPIServerRestarted(t *testing.T) {
	const pool = "restarted"
	crashPool(t, pool)
	setPhase(t, pool, 0)
	before := auditLength(t)
	h := record(t, pool)
	h.duplicates = true
	controller{pool: pool, account: release}.start(t)
	untilPhase(t, pool, 0)
	for phase := 1; phase <= 3; phase++ {
		setPhase(t, pool, phase)
		sleep(t.Context(), time.Duration(phase)*600*time.Millisecond)
		must(t, kube.RestartAPIServer(t.Context(), time.Second))
		untilPhase(t, pool, phase)
	}
	// Rejections before the API server has read roles and policies must not lead to events.
	list, err := kube.Client.CoreV1().Events(pool).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=Refused"})
	must(t, err)
	for _, event := range list.Items {
		t.Errorf("%s: %s", event.InvolvedObject.Name, event.Message)
	}
	v := h.check(t)
	t.Logf("%v; %d writes of jobs; %d pods that the Job controller created twice", v, checkWrites(t, before, release, pool), v.duplicates)
}

// TestTwoControllers kills the leader of two controllers and checks that the other one takes over.
func TestTwoControllers(t *testing.T) {
	const pool = "two"
	crashPool(t, pool)
	h := record(t, pool)
	setPhase(t, pool, 0)
	start := func() *cluster.Process { return controller{pool: pool, account: release, elect: true}.start(t) }
	both := []*cluster.Process{start(), start()}
	untilPhase(t, pool, 0)
	var leader int
	wait.For(t, "a decision of one of the two", func() (bool, string) {
		var decided []int
		for i, process := range both {
			select {
			case <-process.Exited(): // It did not renew its lease in time. Restart it, as for a pod.
				both[i] = start()
				continue
			default:
			}
			if log, err := os.ReadFile(process.Log); err == nil && bytes.Contains(log, []byte(`"decided"`)) {
				decided, leader = append(decided, i), i
			}
		}
		return len(decided) == 1, fmt.Sprintf("controllers with decisions: %v", decided)
	})
	both[leader].Kill()
	both[leader] = start()
	setPhase(t, pool, 1)
	untilPhase(t, pool, 1)
	t.Log(h.check(t))
}
