//go:build linux

package e2e

import (
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

// TestThousandNodes runs 300 jobs on 1,000 nodes, and logs the time until the first decision is applied, which is less
// than a minute on an idle machine.
func TestThousandNodes(t *testing.T) {
	const (
		pool  = "thousand"
		nodes = 1000
		jobs  = 300
	)
	newPool(t, pool, nodes)
	var submits sync.WaitGroup
	for worker := range 10 {
		submits.Go(func() {
			for i := worker; i < jobs; i += 10 {
				job{name: fmt.Sprintf("job-%03d", i), size: 1, annotations: elastic(1 + i%40)}.submit(t, pool)
			}
		})
	}
	submits.Wait()
	h := record(t, pool)
	before := auditLength(t)
	start := time.Now()
	process := controller{pool: pool, account: release, cadence: "5m"}.start(t)
	want := 0
	wait.For(t, "the pods of 300 jobs", func() (bool, string) {
		list, err := kube.Client.BatchV1().Jobs(pool).List(t.Context(), metav1.ListOptions{LabelSelector: poolLabel})
		must(t, err)
		want = 0
		for i := range list.Items {
			want += jobSize(&list.Items[i])
		}
		_, running := pods(t, pool)
		sleep(t.Context(), 500*time.Millisecond) // The lists are long.
		return want >= nodes*9/10 && running == want, fmt.Sprintf("%d pods run; jobs request %d", running, want)
	})
	took := time.Since(start)
	process.Kill()
	cpu, memory := process.Used()
	t.Logf("%d pods of %d jobs run on %d nodes after %.1f s; the controller used %.1f s of CPU time and at most %d MB",
		want, jobs, nodes, took.Seconds(), cpu.Seconds(), memory>>20)
	t.Logf("%v; %d writes of jobs", h.check(t), checkWrites(t, before, release, pool))
}
