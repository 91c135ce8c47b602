//go:build linux

package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
)

var scoringJobs = flag.Int("scoring", 0, "number of jobs of TestSchedulerScoring, 0 to skip it")

// schedulerConfig has a profile per pool of TestSchedulerScoring: the default, and the one of docs/operators/kubernetes-controller.md.
const schedulerConfig = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %s, qps: 1000, burst: 1000}
leaderElection: {leaderElect: false}
profiles:
- schedulerName: least-allocated
- schedulerName: most-allocated
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: nvidia.com/gpu, weight: 1}]}}
`

// TestSchedulerScoring measures how the real kube-scheduler places the pods of a pool that allocates GPUs, by how it scores
// nodes. The same jobs, whose pods request 1, 2, 4 or 8 GPUs, arrive in two pools. It reports the pods that had
// no node while their pool had enough free GPUs in total, and for how long.
func TestSchedulerScoring(t *testing.T) {
	if *scoringJobs == 0 {
		t.Skip("a measurement; -scoring=60 runs it")
	}
	config := filepath.Join(t.TempDir(), "scheduler.yaml")
	must(t, os.WriteFile(config, fmt.Appendf(nil, schedulerConfig, kube.Kubeconfig), 0o600))
	process, err := kube.Run("scoring-scheduler", kube.Program("kube-scheduler"), "--config="+config, "--secure-port=0")
	must(t, err)
	t.Cleanup(process.Kill)

	const (
		nodes   = 8
		settle  = 10 * time.Second
		arrival = 2 * time.Second // between two submissions
		poll    = 200 * time.Millisecond
	)
	pools := []*scored{newScored("least-allocated"), newScored("most-allocated")}
	for _, s := range pools {
		newPool(t, s.pool, nodes)
		for i, n := range []int{3, 2, 1} { // other workloads
			_, err := kube.Client.CoreV1().Pods(s.pool).Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("notebook-%d", i), Namespace: s.pool}, Spec: s.template(n, nil).Spec,
			}, metav1.CreateOptions{})
			must(t, err)
		}
		controller{pool: s.pool, account: release, settle: settle.String(), more: ", count: units"}.start(t)
	}
	random := rand.New(rand.NewPCG(0, 1))
	start := time.Now()
	for submitted := 0; submitted < *scoringJobs || pools[0].running()+pools[1].running() > 0; {
		if submitted < *scoringJobs && time.Since(start) >= time.Duration(submitted)*arrival {
			perPod, runs := 1<<random.IntN(4), time.Duration(5+random.IntN(26))*time.Second
			for _, s := range pools {
				s.submit(t, fmt.Sprintf("job-%03d", submitted), perPod, runs)
			}
			submitted++
		}
		for _, s := range pools {
			s.observe(t)
		}
		sleep(t.Context(), poll)
		must(t, t.Context().Err())
	}
	for _, s := range pools {
		longest, sum := time.Duration(0), time.Duration(0)
		for _, waited := range s.waited {
			longest, sum = max(longest, waited), sum+waited
		}
		t.Logf("%s: %d of %d pods had no node although enough GPUs were free, for "+
			"%.0f s in total and at most %.0f s; the last job completed after %.0f s",
			s.pool, len(s.waited), len(s.pods), sum.Seconds(), longest.Seconds(), s.completed.Sub(start).Seconds())
	}
}

// scored is a pool of TestSchedulerScoring. Its name is the name of its profile of the scheduler.
type scored struct {
	pool      string
	pods      map[types.UID]bool
	waited    map[types.UID]time.Duration // without a node although enough GPUs were free
	jobs      map[string]bool             // that have not completed
	observed  time.Time
	completed time.Time
}

func newScored(pool string) *scored {
	return &scored{pool: pool, pods: make(map[types.UID]bool), waited: make(map[types.UID]time.Duration), jobs: make(map[string]bool)}
}

func (s *scored) running() int { return len(s.jobs) }

// template returns a pod that requests GPUs, and CPUs and memory in proportion.
func (s *scored) template(perPod int, annotations map[string]string) corev1.PodTemplateSpec {
	template := job{pods: annotations}.template(s.pool)
	requests := gpus(perPod)
	requests[corev1.ResourceCPU] = *resource.NewQuantity(int64(4*perPod), resource.DecimalSI)
	requests[corev1.ResourceMemory] = *resource.NewQuantity(int64(perPod)*32<<30, resource.BinarySI)
	template.Spec.SchedulerName = s.pool
	template.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: requests, Limits: requests}
	return template
}

func (s *scored) submit(t *testing.T, name string, perPod int, runs time.Duration) {
	t.Helper()
	j := job{name: name, size: 1, annotations: map[string]string{"elastalloc.dev/work": runs.String(), "elastalloc.dev/nodes": "1,2,4"}}
	spec := j.indexed(s.pool)
	spec.Template = s.template(perPod, map[string]string{"test/run-for": runs.String(), "test/stop-delay": "1s"})
	_, err := kube.Client.BatchV1().Jobs(s.pool).Create(t.Context(),
		&batchv1.Job{ObjectMeta: j.metadata(s.pool), Spec: spec}, metav1.CreateOptions{})
	must(t, err)
	s.jobs[name] = true
}

// observe adds the time since the last observation to the pending pods for which enough GPUs are free.
func (s *scored) observe(t *testing.T) {
	t.Helper()
	list, err := kube.Client.CoreV1().Pods(s.pool).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	now, last := time.Now(), s.observed
	s.observed = now
	free := 8 * cluster.GPUs
	var without []*corev1.Pod
	requested := func(pod *corev1.Pod) int {
		quantity := pod.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"]
		return int(quantity.Value())
	}
	for i := range list.Items {
		pod := &list.Items[i]
		s.pods[pod.UID] = true
		switch {
		case ended(pod):
		case pod.Spec.NodeName != "":
			free -= requested(pod)
		case pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
		}):
			without = append(without, pod)
		}
	}
	for _, pod := range without {
		if requested(pod) <= free && !last.IsZero() {
			s.waited[pod.UID] += now.Sub(last)
		}
	}
	jobs, err := kube.Client.BatchV1().Jobs(s.pool).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, j := range jobs.Items {
		if s.jobs[j.Name] && jobSize(&j) == 0 && !*j.Spec.Suspend {
			delete(s.jobs, j.Name)
			s.completed = now
		}
	}
}
