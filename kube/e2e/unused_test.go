//go:build linux

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

// TestUnused checks that nodes are allocated to the job that uses them, if a ResourceQuota, a LimitRange, a node selector or
// another controller prevents pods of other jobs from running. Events name the reason.
func TestUnused(t *testing.T) {
	const pool, nodes = "unused", 8
	newPool(t, pool, nodes)
	pods2, gpus4 := resource.MustParse("2"), resource.MustParse("4")
	for _, namespace := range []string{"unused-quota", "unused-range"} {
		_, err := kube.Client.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() {
			_, _ = kubectl(context.Background(), kube, "", "delete", "namespace", namespace, "--wait=false")
		})
	}
	_, err := kube.Client.CoreV1().ResourceQuotas("unused-quota").Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "two"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: pods2}},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = kube.Client.CoreV1().LimitRanges("unused-range").Create(t.Context(), &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "half"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{"nvidia.com/gpu": gpus4},
		}}},
	}, metav1.CreateOptions{})
	must(t, err)
	withSizes := func(sizes string) map[string]string {
		annotations := elastic(50)
		annotations["elastalloc.dev/nodes"] = sizes
		return annotations
	}
	job{name: "other", size: 1, annotations: withSizes("1,2,3,4,5,6,7,8")}.submit(t, pool)
	heavy := withSizes("2,4") // with this weight it gets 4 nodes
	heavy["elastalloc.dev/weight"] = "10"
	job{name: "quota", namespace: "unused-quota", size: 4, annotations: heavy}.submit(t, pool)
	job{name: "range", namespace: "unused-range", size: 2, annotations: withSizes("2")}.submit(t, pool)
	elsewhere := "example.com/elsewhere"
	job{name: "managed", size: 2, annotations: withSizes("2"), managedBy: &elsewhere}.submit(t, pool)
	selects := job{name: "selects", size: 2, annotations: withSizes("2")}
	spec := selects.indexed(pool)
	spec.Template.Spec.NodeSelector["zone"] = "nowhere"
	_, err = kube.Client.BatchV1().Jobs(pool).Create(t.Context(),
		&batchv1.Job{ObjectMeta: selects.metadata(pool), Spec: spec}, metav1.CreateOptions{})
	must(t, err)
	controller{pool: pool, account: release, settle: "5s"}.start(t)

	wait.For(t, "all nodes to be used", func() (bool, string) {
		other, running := pods(t, pool)
		quota, limited := pods(t, "unused-quota")
		return running == 6 && other["other"] == 6 && limited == 2, fmt.Sprintf("%v (%d run) and %v (%d run)", other, running, quota, limited)
	})
	for name, want := range map[string][2]string{
		"quota": {"Unused", "exceeded quota: two"}, "range": {"Unused", "maximum nvidia.com/gpu usage per Container is 4"},
		"managed": {"NotElastic", "another controller creates its pods"}, "selects": {"Elsewhere", "matches no node of the pool"},
	} {
		wait.For(t, "an event on "+name, func() (bool, string) {
			notes, err := kubectl(t.Context(), kube, "", "get", "events", "-A", "--field-selector",
				"involvedObject.name="+name, "-o", "custom-columns=REASON:.reason,NOTE:.message,TYPE:.type")
			must(t, err)
			return strings.Contains(notes, want[0]) && strings.Contains(notes, want[1]), notes
		})
	}
}
