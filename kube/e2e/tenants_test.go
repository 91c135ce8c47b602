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

// TestTenants: a tenant who asks for everything, by every annotation that there is for it, gets the
// limit of its group and no more, and the sample policy refuses such jobs.
func TestTenants(t *testing.T) {
	const pool, greedy, nodes = "tenants", "tenants-greedy", 8
	newPool(t, pool, nodes)
	_, err := kube.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: greedy}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { _, _ = kubectl(context.Background(), kube, "", "delete", "namespace", greedy, "--wait=false") })
	controller{
		pool: pool, account: release,
		more: fmt.Sprintf(", groups: [{name: modest, namespaces: [%s]}, {name: greedy, namespaces: [%s], limit: 2, maxWeight: 10}]", pool, greedy),
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
		{name: "ended", size: 8, annotations: with("work", "1s"), running: true},
		{name: "paused", size: 8, annotations: with("paused", "true"), running: true},
		{name: "unreadable", size: 8, annotations: with("nodes", "all"), running: true},
	}
	for _, j := range greed {
		j.namespace = greedy
		j.submit(t, pool)
	}
	// Of nodes that become free, the first to come has some for a moment.
	wait.For(t, "the limit of the group and no more", func() (bool, string) {
		modest, running := pods(t, pool)
		theirs, bound := pods(t, greedy)
		return running == nodes-2 && bound == 2, fmt.Sprintf("%v (%d run) beside %v (%d run)", modest, running, theirs, bound)
	})
	sleep(t.Context(), 12*time.Second) // Two more cadences.
	if _, bound := pods(t, greedy); bound > 2 {
		t.Errorf("later it has %d nodes; want its limit of 2", bound)
	}

	_, err = kubectl(t.Context(), kube, "", "apply", "-f", root+"/examples/tenants.yaml")
	must(t, err)
	t.Cleanup(func() { _, _ = kubectl(context.Background(), kube, "", "delete", "-f", root+"/examples/tenants.yaml") })
	forged := elastic(1)
	maps.Copy(forged, map[string]string{"elastalloc.dev/decision": "{}"})
	for annotation, annotations := range map[string]map[string]string{
		"weight": with("weight", "1e12"), "work": with("work", "1s"), "decision": forged,
	} {
		wait.For(t, "a refusal by its "+annotation, func() (bool, string) {
			err := job{name: "another", size: 1, namespace: greedy, annotations: annotations}.create(t, pool, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err != nil && strings.Contains(err.Error(), "'elastalloc-tenants'") && strings.Contains(err.Error(), "elastalloc.dev/"+annotation), fmt.Sprint(err)
		})
	}
	// Others, and the controller, go on.
	job{name: "third", size: 1, annotations: with("weight", "10")}.submit(t, pool)
	wait.For(t, "a decision on a job within bounds", func() (bool, string) {
		got := targets(t, pool)
		return got["third"] > 0, fmt.Sprint(got)
	})
}
