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

// ownKubelet is the annotation of pods that this kubelet runs instead of kwok.
const ownKubelet = "test/by-hand"

// kubelet runs the annotated pods of a namespace as processes of this machine. Like a real kubelet, it starts bound
// pods, sends SIGTERM to deleted pods and SIGKILL after their grace period, and sets their phase. A pod has one
// container. Its command runs in a shared folder with JOB_COMPLETION_INDEX, and its output is in the file "log" there.
type kubelet struct {
	namespace, folder string
	running           sync.WaitGroup
	started           map[types.UID]context.CancelFunc // terminates a pod within its grace period
}

// startKubelet starts a kubelet that stops with all its processes at the end of the test.
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

// sync starts bound pods and terminates deleted pods.
func (k *kubelet) sync(ctx context.Context) error {
	list, err := kube.Client.CoreV1().Pods(k.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if _, annotated := pod.Annotations[ownKubelet]; !annotated || ended(pod) {
			continue
		}
		terminate, started := k.started[pod.UID]
		switch {
		case pod.DeletionTimestamp != nil && started:
			terminate()
		case pod.DeletionTimestamp != nil && pod.Spec.NodeName != "":
			k.setPhase(pod, corev1.PodFailed)
		case pod.DeletionTimestamp == nil && !started && pod.Spec.NodeName != "":
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
	k.setPhase(pod, corev1.PodRunning)
	go func() {
		defer k.running.Done()
		defer end()
		defer log.Close()
		phase := corev1.PodSucceeded
		if command.Wait() != nil {
			phase = corev1.PodFailed
		}
		// Its child processes are killed too, as in a container.
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		k.setPhase(pod, phase)
	}()
	return nil
}

// setPhase writes the phase of a pod. It ignores errors, because the pod may have been removed.
func (k *kubelet) setPhase(pod *corev1.Pod, phase corev1.PodPhase) {
	ready := corev1.ConditionFalse
	if phase == corev1.PodRunning {
		ready = corev1.ConditionTrue
	}
	patch := fmt.Sprintf(`{"status":{"phase":%q,"conditions":[{"type":"Ready","status":%q}]}}`, phase, ready)
	_, _ = kube.Client.CoreV1().Pods(pod.Namespace).Patch(context.Background(), pod.Name, types.StrategicMergePatchType,
		[]byte(patch), metav1.PatchOptions{}, "status")
}
