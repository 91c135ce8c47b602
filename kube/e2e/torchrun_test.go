//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
)

// agent is the command of docs/schedulers/torchrun.md for the PyTorch of Debian. Index 0 is HOST, because it is the last
// pod that a resize removes.
const agent = `exec /usr/bin/python3 -m torch.distributed.run -r 1 -t 1 --nnodes=1:3 --nproc_per_node=1 --max_restarts=100 \
  --rdzv_backend=c10d --rdzv_id=train --rdzv_endpoint=localhost:%s \
  --rdzv_conf=last_call_timeout=5,is_host=$([ "$JOB_COMPLETION_INDEX" = 0 ] && echo true || echo false) train.py`

// TestTorchrun trains with a real torchrun whose agents are the pods of a Job: the
// controller resizes it for another job and back. After each resize, the training continues from its checkpoint.
func TestTorchrun(t *testing.T) {
	const pool = "torchrun"
	if _, err := os.Stat("/usr/lib/python3/dist-packages/torch"); err != nil && os.Getenv("CI") == "" {
		t.Skip("PyTorch is not installed; scripts/torch.sh installs it")
	}
	newPool(t, pool, 3)
	folder := t.TempDir()
	program, err := os.ReadFile(filepath.Join(root, "examples", "torchrun", "train.py"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(folder, "train.py"), program, 0o600))
	startKubelet(t, pool, folder)
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(folder, "log"))
			t.Logf("%s", text[max(0, len(text)-10_000):])
		}
	})
	controller{pool: pool, account: release}.start(t)

	ports, err := cluster.FreePorts(1)
	must(t, err)
	train := job{name: "train", size: 3, pods: map[string]string{ownKubelet: ""}, annotations: map[string]string{
		"elastalloc.dev/work": "5h", "elastalloc.dev/nodes": "1,2,3", "elastalloc.dev/restart": "30s",
	}}
	spec := train.indexed(pool)
	grace := int64(60)
	spec.Template.Spec.TerminationGracePeriodSeconds = &grace
	spec.Template.Spec.Containers[0].Command = []string{"/bin/sh", "-c", fmt.Sprintf(agent, ports[0])}
	_, err = kube.Client.BatchV1().Jobs(pool).Create(t.Context(),
		&batchv1.Job{ObjectMeta: train.metadata(pool), Spec: spec}, metav1.CreateOptions{})
	must(t, err)

	training := &training{log: filepath.Join(folder, "log")}
	training.untilOn(t, 3)
	job{name: "other", size: 1, annotations: map[string]string{"elastalloc.dev/work": "1h", "elastalloc.dev/nodes": "1"}}.submit(t, pool)
	training.untilOn(t, 2)
	background := metav1.DeletePropagationBackground
	must(t, kube.Client.BatchV1().Jobs(pool).Delete(t.Context(), "other", metav1.DeleteOptions{PropagationPolicy: &background}))
	training.untilOn(t, 3)
}

// training is the state of train.py up to a line of its log.
type training struct {
	log  string
	line int
	step int     // the last step
	loss float64 // at that step
}

// untilOn waits until the training has made ten further steps on a number of nodes. No step is lost, and the loss never
// rises.
func (r *training) untilOn(t *testing.T, nodes int) {
	t.Helper()
	first := -1 // first step on these nodes
	wait.For(t, fmt.Sprintf("ten steps on %d nodes", nodes), func() (bool, string) {
		text, err := os.ReadFile(r.log)
		if err != nil {
			return false, err.Error()
		}
		lines := strings.Split(string(text), "\n")
		for ; r.line < len(lines)-1; r.line++ { // The last line may be incomplete.
			_, line, _ := strings.Cut(lines[r.line], "]:")
			var on, step int
			var loss float64
			switch {
			case scan(line, "on %d nodes from step %d", &on, &step):
				if step < r.step {
					t.Fatalf("the training continued from step %d after step %d", step, r.step)
				}
				t.Log(line)
				r.step = step
				if first = -1; on == nodes {
					first = step
				}
			case scan(line, "step %d loss %f", &step, &loss):
				if r.step > 0 && (step > r.step+1 || loss > r.loss+1e-6) {
					t.Fatalf("step %d with loss %v after step %d with %v", step, loss, r.step, r.loss)
				}
				r.step, r.loss = step, loss
			case strings.HasPrefix(line, "stopped for"):
				t.Log(line)
			}
		}
		return first >= 0 && r.step >= first+10, fmt.Sprintf("step %d", r.step)
	})
}

func scan(line, format string, values ...any) bool {
	n, err := fmt.Sscanf(line, format, values...)
	return err == nil && n == len(values)
}
