//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// byHand marks pods that kwok leaves to a kubelet of ours.
const byHand = "test/by-hand"

// kubelet runs the pods of a namespace marked with byHand as processes of this machine, as
// a kubelet does: one that is bound starts, one that is deleted gets SIGTERM and, when its
// grace is over, SIGKILL, and what becomes of it is its phase. A pod has one container, whose
// command runs in the folder of all with its place in the job, JOB_COMPLETION_INDEX, and
// writes to the file "log" there.
type kubelet struct {
	namespace, folder string
	running           sync.WaitGroup
	started           map[types.UID]context.CancelFunc // ends a pod within its grace
}

// startKubelet starts a kubelet that ends, with all its processes, when the test does.
func startKubelet(t *testing.T, namespace, folder string) {
	t.Helper()
	k := &kubelet{namespace: namespace, folder: folder, started: map[types.UID]context.CancelFunc{}}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := k.sync(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("kubelet: %v", err)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
		k.running.Wait()
	})
}

// sync starts the pods that are bound and ends those that are deleted.
func (k *kubelet) sync(ctx context.Context) error {
	list, err := kube.Client.CoreV1().Pods(k.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if _, ours := pod.Annotations[byHand]; !ours || ended(pod) {
			continue
		}
		end, begun := k.started[pod.UID]
		switch {
		case pod.DeletionTimestamp != nil && begun:
			end()
		case pod.DeletionTimestamp != nil && pod.Spec.NodeName != "":
			k.tell(pod, corev1.PodFailed)
		case pod.DeletionTimestamp == nil && !begun && pod.Spec.NodeName != "":
			if err := k.start(ctx, pod); err != nil {
				return err
			}
		}
	}
	return nil
}

// start runs a pod.
func (k *kubelet) start(ctx context.Context, pod *corev1.Pod) error {
	index := pod.Annotations["batch.kubernetes.io/job-completion-index"]
	log, err := os.OpenFile(filepath.Join(k.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	container := pod.Spec.Containers[0]
	command := exec.CommandContext(ctx, container.Command[0], container.Command[1:]...)
	command.Dir, command.Stdout, command.Stderr = k.folder, log, log
	command.Env = append(os.Environ(), "JOB_COMPLETION_INDEX="+index)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
	if err := command.Start(); err != nil {
		end()
		return err
	}
	k.started[pod.UID] = end
	k.running.Add(1)
	k.tell(pod, corev1.PodRunning)
	go func() {
		defer k.running.Done()
		defer end()
		defer log.Close()
		phase := corev1.PodSucceeded
		if command.Wait() != nil {
			phase = corev1.PodFailed
		}
		// What it started is gone with it, as with a container.
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		k.tell(pod, phase)
	}()
	return nil
}

// tell writes the phase of a pod. A pod that is gone needs none.
func (k *kubelet) tell(pod *corev1.Pod, phase corev1.PodPhase) {
	ready := corev1.ConditionFalse
	if phase == corev1.PodRunning {
		ready = corev1.ConditionTrue
	}
	patch := fmt.Sprintf(`{"status":{"phase":%q,"conditions":[{"type":"Ready","status":%q}]}}`, phase, ready)
	_, _ = kube.Client.CoreV1().Pods(pod.Namespace).Patch(context.Background(), pod.Name, types.StrategicMergePatchType,
		[]byte(patch), metav1.PatchOptions{}, "status")
}
