//go:build linux

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

// TestCharts installs, upgrades, rolls back and removes each chart. At every event of its
// deployment, the number of replicas is at least the minimum. Once this number is available, it remains available until
// the chart is removed.
func TestCharts(t *testing.T) {
	pools := `--set-json=config={"kinds":["Job"],"pools":[{"name":"none","nodeSelector":{"pool":"none"}}]}`
	for chart, test := range map[string]struct {
		min      int32
		install  []string
		upgrades [][]string
	}{
		"elastalloc-controller": {2, []string{pools}, [][]string{
			{"--set=image.tag=next"},
			{"--set=mode=apply"},
		}},
		// Autoscaling is disabled and enabled again. Its minimum is the initial number of replicas.
		"elastalloc": {3, nil, [][]string{
			{"--set=image.tag=next"},
			{"--set=autoscaling.enabled=false,replicas=4"},
			{"--set=autoscaling.enabled=true"},
		}},
	} {
		t.Run(chart, func(t *testing.T) {
			ctx := t.Context()
			const name = "release"
			space := "charts-" + chart
			_, err := kube.Client.CoreV1().Namespaces().Create(ctx,
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}}, metav1.CreateOptions{})
			must(t, err)
			t.Cleanup(func() {
				_ = kube.Client.CoreV1().Namespaces().Delete(context.Background(), space, metav1.DeleteOptions{})
			})
			seen := watchDeployment(t, space, name)

			steps := [][]string{append([]string{"install", name, "deploy/helm/" + chart}, test.install...)}
			for _, flags := range test.upgrades {
				steps = append(steps, append([]string{"upgrade", name, "deploy/helm/" + chart, "--reuse-values"}, flags...))
			}
			steps = append(steps, []string{"rollback", name, "1"}, []string{"rollback", name})
			for _, step := range steps {
				must(t, helm(ctx, append(step, "--namespace", space, "--wait", "--timeout=5m")...))
				// Helm waits for ready pods of the replica set. The status of the deployment has them a little later.
				wait.For(t, "available pods after helm "+strings.Join(step, " "), func() (bool, string) {
					d, err := kube.Client.AppsV1().Deployments(space).Get(ctx, name, metav1.GetOptions{})
					must(t, err)
					return *d.Spec.Replicas >= test.min && d.Status.AvailableReplicas >= test.min,
						fmt.Sprintf("%d pods are requested and %d available; want %d", *d.Spec.Replicas, d.Status.AvailableReplicas, test.min)
				})
			}
			must(t, helm(ctx, "uninstall", name, "--namespace", space, "--wait", "--timeout=5m"))
			wait.Until(t, "the deployment is deleted", func() bool {
				_, err := kube.Client.AppsV1().Deployments(space).Get(ctx, name, metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			})
			had := false
			for _, s := range seen() {
				had = had || s.available >= test.min
				if s.requested < test.min || had && s.available < test.min {
					t.Fatalf("%d pods were requested and %d available; want %d", s.requested, s.available, test.min)
				}
			}
			if !had {
				t.Error("its pods were never available")
			}
			if left := leftovers(t, space, name); left != "" {
				t.Errorf("objects that remain: %s", left)
			}
		})
	}
}

// deploymentState is the number of requested and of available pods of a deployment.
type deploymentState struct{ requested, available int32 }

// watchDeployment records the states of a deployment until it is deleted. The returned
// function waits for this and returns the states.
func watchDeployment(t *testing.T, space, name string) func() []deploymentState {
	t.Helper()
	watcher, err := kube.Client.AppsV1().Deployments(space).Watch(t.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(),
	})
	must(t, err)
	t.Cleanup(watcher.Stop)
	done := make(chan []deploymentState, 1)
	go func() {
		var states []deploymentState
		for event := range watcher.ResultChan() {
			d, ok := event.Object.(*appsv1.Deployment)
			if !ok || event.Type == "DELETED" || d.DeletionTimestamp != nil {
				break
			}
			states = append(states, deploymentState{*d.Spec.Replicas, d.Status.AvailableReplicas})
		}
		done <- states
	}()
	return func() []deploymentState {
		select {
		case states := <-done:
			return states
		case <-time.After(wait.Timeout):
			t.Fatal("the deployment is not deleted")
			return nil
		}
	}
}

// leftovers returns the names of objects that remain after a release was removed.
func leftovers(t *testing.T, space, name string) string {
	t.Helper()
	selector := "app.kubernetes.io/instance=" + name
	namespaced, err := kubectl(t.Context(), kube, "", "get", "-n", space, "-l", selector, "-o", "name",
		"deployments,services,serviceaccounts,configmaps,secrets,poddisruptionbudgets,"+
			"networkpolicies,horizontalpodautoscalers,roles,rolebindings")
	must(t, err)
	clusterWide, err := kubectl(t.Context(), kube, "", "get", "-l", selector, "-o", "name",
		"clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings")
	must(t, err)
	return strings.TrimSpace(fmt.Sprint(namespaced, clusterWide))
}
