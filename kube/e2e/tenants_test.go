//go:build linux

package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

// TestTenants checks that a tenant that sets every annotation to its advantage gets at most the limit of its group, and
// that the sample policy rejects such jobs.
func TestTenants(t *testing.T) {
	const pool, greedy, nodes = "tenants", "tenants-greedy", 8
	newPool(t, pool, nodes)
	_, err := kube.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: greedy}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { _, _ = kubectl(context.Background(), kube, "", "delete", "namespace", greedy, "--wait=false") })
	controller{
		pool: pool, account: release,
		more: fmt.Sprintf(", groups: [{name: modest, namespaces: [%s]}, {name: greedy, namespaces: [%s], limit: 2, maxWeight: 10}]",
			pool, greedy),
	}.start(t)
	for _, name := range []string{"first", "second"} {
		annotations := elastic(100)
		annotations["elastalloc.dev/nodes"] = "1,2,3,4"
		job{name: name, size: 1, annotations: annotations}.submit(t, pool)
	}
	untilPods(t, pool, map[string]int{"first": 4, "second": 4})

	with := func(annotation, value string) map[string]string {
		annotations := elastic(1)
		annotations["elastalloc.dev/"+annotation] = value
		return annotations
	}
	greed := []job{
		{name: "heavy", size: 8, annotations: with("weight", "1e12")},
		{name: "nearly-complete", size: 8, annotations: with("work", "1s"), running: true},
		{name: "paused", size: 8, annotations: with("paused", "true"), running: true},
		{name: "unreadable", size: 8, annotations: with("nodes", "all"), running: true},
	}
	for _, j := range greed {
		j.namespace = greedy
		j.submit(t, pool)
	}
	// The first job may temporarily have some of the nodes that become free.
	wait.For(t, "the limit of the group", func() (bool, string) {
		modest, running := pods(t, pool)
		theirs, bound := pods(t, greedy)
		return running == nodes-2 && bound == 2, fmt.Sprintf("%v (%d run) and %v (%d run)", modest, running, theirs, bound)
	})
	sleep(t.Context(), 12*time.Second) // two more cadences
	if _, bound := pods(t, greedy); bound > 2 {
		t.Errorf("later the group has %d nodes; want its limit of 2", bound)
	}

	_, err = kubectl(t.Context(), kube, "", "apply", "-f", root+"/examples/tenants.yaml")
	must(t, err)
	t.Cleanup(func() { _, _ = kubectl(context.Background(), kube, "", "delete", "-f", root+"/examples/tenants.yaml") })
	forged := elastic(1)
	maps.Copy(forged, map[string]string{"elastalloc.dev/decision": "{}"})
	for annotation, annotations := range map[string]map[string]string{
		"weight": with("weight", "1e12"), "work": with("work", "1s"), "decision": forged,
	} {
		wait.For(t, "a rejection because of its "+annotation, func() (bool, string) {
			err := job{name: "another", size: 1, namespace: greedy, annotations: annotations}.create(t,
				pool, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err != nil && strings.Contains(err.Error(), "'elastalloc-tenants'") &&
				strings.Contains(err.Error(), "elastalloc.dev/"+annotation), fmt.Sprint(err)
		})
	}
	// Other jobs and the controller are not affected.
	job{name: "third", size: 1, annotations: with("weight", "10")}.submit(t, pool)
	wait.For(t, "a decision on a job within bounds", func() (bool, string) {
		got := targets(t, pool)
		return got["third"] > 0, fmt.Sprint(got)
	})
}
