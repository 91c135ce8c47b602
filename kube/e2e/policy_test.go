//go:build linux

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

// account contains clients of a service account.
type account struct {
	kubernetes.Interface
	dynamic dynamic.Interface
	pool    string
}

func (a account) patch(resource schema.GroupVersionResource, name, patch string, subresources ...string) error {
	patchType := types.MergePatchType
	if strings.HasPrefix(patch, "[") {
		patchType = types.JSONPatchType
	}
	_, err := a.dynamic.Resource(resource).Namespace(a.pool).Patch(context.Background(), name, patchType, []byte(patch),
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
	return err
}

// workers is a JSON patch of the replicated job of a JobSet.
func workers(op, path, value string) string {
	return fmt.Sprintf(`[{"op":%q,"path":"/spec/replicatedJobs/0%s","value":%s}]`, op, path, value)
}

// TestRights checks which requests the accounts of the controller may make, and which they must not.
func TestRights(t *testing.T) {
	const pool = "rights"
	newPool(t, pool, 1)
	annotations := map[string]string{"elastalloc.dev/work": "1h", "team": "vision"}
	job{name: "mine", size: 2, annotations: annotations}.submit(t, pool)
	job{name: "foreign", size: 2, unlabelled: true}.submit(t, pool)
	job{name: "others", size: 2}.submit(t, pool)
	_, err := kube.Client.BatchV1().Jobs(pool).Patch(t.Context(), "others", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"elastalloc.dev/pool":"another-release"}}}`), metav1.PatchOptions{})
	must(t, err)
	job{name: "set", size: 2, annotations: annotations}.submitJobSet(t, pool)
	job{name: "foreign-set", size: 2, unlabelled: true}.submitJobSet(t, pool)

	jobs := batchv1.SchemeGroupVersion.WithResource("jobs")
	ctx := t.Context()
	size := `{"spec":{"parallelism":4,"completions":4}}`
	start := `{"metadata":{"annotations":{"elastalloc.dev/target":"4","elastalloc.dev/decision":"{}"}},` +
		`"spec":{"parallelism":4,"completions":4,"suspend":false}}`
	resizeSet := `[{"op":"replace","path":"/spec/replicatedJobs/0/template/spec/parallelism","value":4},` +
		`{"op":"replace","path":"/spec/replicatedJobs/0/template/spec/completions","value":4},` +
		`{"op":"replace","path":"/spec/suspend","value":false},{"op":"add","path":"/metadata/annotations/elastalloc.dev~1target","value":"4"}]`
	note := `{"metadata":{"annotations":{"elastalloc.dev/target":"4","elastalloc.dev/decision":"{}"}}}`

	type act struct {
		name string
		do   func(a account) error
	}
	patch := func(resource schema.GroupVersionResource, object, body string) act {
		return act{resource.Resource + " " + object + " " + body, func(a account) error { return a.patch(resource, object, body) }}
	}
	notes := []act{patch(jobs, "mine", note), patch(jobSets, "set", note)}
	// Both are suspended.
	onType := func(selector string) string {
		return `{"spec":{"template":{"spec":{"nodeSelector":` + selector + `}}}}`
	}
	resizes := []act{
		patch(jobs, "mine", onType(`{"gpu":"h100"}`)),
		patch(jobSets, "set", workers("add", "/template/spec/template/spec/nodeSelector/gpu", `"h100"`)),
		patch(jobs, "mine", size), patch(jobs, "mine", start), patch(jobs, "mine", `{"spec":{"suspend":false}}`),
		patch(jobSets, "set", resizeSet), patch(jobSets, "set", `{"spec":{"suspend":false}}`),
	}
	both := []act{
		{"event", func(a account) error {
			_, err := a.EventsV1().Events(pool).Create(ctx, &eventsv1.Event{
				ObjectMeta: metav1.ObjectMeta{Name: "e"}, EventTime: metav1.NowMicro(), Reason: "ScaledUp", Action: "Resize", Type: "Normal",
				ReportingController: "elastalloc-controller", ReportingInstance: "x",
				Regarding: corev1.ObjectReference{Kind: "Job", Namespace: pool, Name: "mine"},
			}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}},
		{"list nodes", func(a account) error { _, err := a.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); return err }},
		{"list events", func(a account) error { _, err := a.CoreV1().Events(pool).List(ctx, metav1.ListOptions{}); return err }},
		{"list pods", func(a account) error { _, err := a.CoreV1().Pods("").List(ctx, metav1.ListOptions{}); return err }},
	}

	// Requests that no mode allows.
	forbidden := []act{
		patch(jobs, "foreign", size), patch(jobs, "foreign", note), patch(jobs, "foreign", `{"spec":{"suspend":false}}`),
		patch(jobs, "mine", `{"spec":{"ttlSecondsAfterFinished":1}}`),
		patch(jobs, "mine", `{"spec":{"activeDeadlineSeconds":1}}`),
		patch(jobs, "mine", `{"spec":{"backoffLimit":0}}`),
		patch(jobs, "mine", `{"spec":{"template":{"metadata":{"labels":{"x":"y"}}}}}`),
		patch(jobs, "mine", `{"spec":{"template":{"spec":{"nodeSelector":{"pool":"other"}}}}}`),
		patch(jobs, "mine", onType(`{"gpu":"tpu"}`)), patch(jobs, "mine", onType(`{"gpu":"h100","zone":"b"}`)),
		patch(jobs, "mine", onType(`{"gpu":"h100","pool":null}`)),
		patch(jobs, "mine", onType(`{"gpu":"h100"},"tolerations":[{"operator":"Exists"}]`)),
		patch(jobSets, "set", workers("add", "/template/spec/template/spec/nodeSelector/gpu", `"tpu"`)),
		patch(jobs, "mine", `{"spec":{"parallelism":4}}`),
		patch(jobs, "mine", `{"spec":{"parallelism":100000,"completions":100000}}`),
		patch(jobs, "mine", `{"spec":{"parallelism":0,"completions":0}}`),
		patch(jobs, "others", size), patch(jobs, "others", note),
		patch(jobs, "mine", `{"metadata":{"labels":{"elastalloc.dev/pool":"other"}}}`),
		patch(jobs, "mine", `{"metadata":{"labels":{"x":"y"}}}`),
		patch(jobs, "mine", `{"metadata":{"annotations":{"elastalloc.dev/work":"2h"}}}`),
		patch(jobs, "mine", `{"metadata":{"annotations":{"elastalloc.dev/work":null}}}`),
		patch(jobs, "mine", `{"metadata":{"annotations":{"elastalloc.dev/paused":"true"}}}`),
		patch(jobs, "mine", `{"metadata":{"annotations":{"team":"mine"}}}`),
		patch(jobs, "mine", `{"metadata":{"annotations":{"team":null}}}`),
		patch(jobs, "mine", `{"metadata":{"annotations":null}}`),
		patch(jobs, "mine", `{"metadata":{"finalizers":["example.com/keep"]}}`),
		patch(jobs, "mine", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"x"}]}}`),
		patch(jobSets, "foreign-set", `{"spec":{"suspend":false}}`), patch(jobSets, "foreign-set", note),
		patch(jobSets, "set", workers("replace", "/template/spec/parallelism", "4")),
		patch(jobSets, "set", workers("add", "/template/spec/activeDeadlineSeconds", "1")),
		patch(jobSets, "set", workers("add", "/template/metadata", `{"labels":{"x":"y"}}`)),
		patch(jobSets, "set", workers("replace", "/template/spec/template/spec/containers/0/image", `"evil"`)),
		patch(jobSets, "set", workers("replace", "/replicas", "2")),
		patch(jobSets, "set", `{"spec":{"ttlSecondsAfterFinished":1}}`),
		patch(jobSets, "set", `{"metadata":{"annotations":{"elastalloc.dev/nodes":"1-64"}}}`),
		patch(jobSets, "set", `{"metadata":{"labels":{"elastalloc.dev/pool":null}}}`),
		{"status of a job", func(a account) error { return a.patch(jobs, "mine", `{"status":{"active":1}}`, "status") }},
		{"update a job", func(a account) error {
			mine, err := kube.Client.BatchV1().Jobs(pool).Get(ctx, "mine", metav1.GetOptions{})
			if err == nil {
				_, err = a.BatchV1().Jobs(pool).Update(ctx, mine, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			}
			return err
		}},
		{"create a job", func(a account) error {
			_, err := a.BatchV1().Jobs(pool).Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "new"}},
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}},
		{"delete a job", func(a account) error {
			return a.BatchV1().Jobs(pool).Delete(ctx, "mine", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		}},
		{"delete all jobs", func(a account) error {
			return a.BatchV1().Jobs(pool).DeleteCollection(ctx, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, metav1.ListOptions{})
		}},
		{"delete a JobSet", func(a account) error {
			return a.dynamic.Resource(jobSets).Namespace(pool).Delete(ctx, "set", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		}},
		{"delete a pod", func(a account) error { return a.CoreV1().Pods(pool).Delete(ctx, "x", metav1.DeleteOptions{}) }},
		{"evict a pod", func(a account) error {
			return a.CoreV1().RESTClient().Post().Namespace(pool).Resource("pods").Name("x").SubResource("eviction").
				Body([]byte(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"x"}}`)).Do(ctx).Error()
		}},
		{"exec into a pod", func(a account) error {
			return a.CoreV1().RESTClient().Post().Namespace(pool).Resource("pods").Name("x").SubResource("exec").Do(ctx).Error()
		}},
		{"create a pod", func(a account) error {
			_, err := a.CoreV1().Pods(pool).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
			return err
		}},
		{"patch a pod", func(a account) error { return a.patch(corev1.SchemeGroupVersion.WithResource("pods"), "x", note) }},
		{"cordon a node", func(a account) error {
			_, err := a.CoreV1().Nodes().Patch(ctx, "rights-000", types.MergePatchType,
				[]byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
			return err
		}},
		{"delete a node", func(a account) error { return a.CoreV1().Nodes().Delete(ctx, "rights-000", metav1.DeleteOptions{}) }},
		{"read secrets", func(a account) error { _, err := a.CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); return err }},
		{"read its own secrets", func(a account) error {
			_, err := a.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
			return err
		}},
		{"write a ConfigMap", func(a account) error {
			_, err := a.CoreV1().ConfigMaps(namespace).Create(ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
			return err
		}},
		{"make a token", func(a account) error {
			_, err := a.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			return err
		}},
		{"a Lease of another namespace", func(a account) error {
			_, err := a.CoordinationV1().Leases("kube-system").Create(ctx,
				&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
			return err
		}},
		{"a Lease of another name", func(a account) error {
			_, err := a.CoordinationV1().Leases(namespace).Get(ctx, "other", metav1.GetOptions{})
			return err
		}},
		{"its own role", func(a account) error {
			_, err := a.RbacV1().ClusterRoles().Patch(ctx, release+"."+namespace,
				types.MergePatchType, []byte(`{"rules":[]}`), metav1.PatchOptions{})
			return err
		}},
		{"its own policy", func(a account) error {
			return a.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(ctx, "jobs."+release+"."+namespace, metav1.DeleteOptions{})
		}},
		{"its own deployment", func(a account) error {
			_, err := a.AppsV1().Deployments(namespace).Patch(ctx, release,
				types.MergePatchType, []byte(`{"spec":{"replicas":9}}`), metav1.PatchOptions{})
			return err
		}},
	}

	// The policies do not apply to other accounts.
	admin := account{kube.Client, dynamicClient(t, kube.Config), pool}
	for _, try := range []act{
		patch(jobs, "foreign", `{"spec":{"suspend":false}}`), patch(jobs, "mine", `{"spec":{"ttlSecondsAfterFinished":1}}`),
		patch(jobs, "mine", `{"metadata":{"labels":{"elastalloc.dev/pool":null}}}`), patch(jobSets, "set", `{"metadata":{"annotations":null}}`),
	} {
		if err := try.do(admin); err != nil {
			t.Errorf("the administrator: %s: %v", try.name, err)
		}
	}

	for name, mode := range map[string]struct{ allowed, forbidden []act }{
		release:     {append(append(append([]act{}, both...), notes...), resizes...), forbidden},
		recommender: {append(append([]act{}, both...), notes...), append(append([]act{}, forbidden...), resizes...)},
	} {
		t.Run(name, func(t *testing.T) {
			config := asAccount(t, name)
			a := account{clientOf(t, config), dynamicClient(t, config), pool}
			// Policies take effect some time after they are created.
			wait.Until(t, "policies in force", func() bool {
				return a.patch(jobs, "foreign", note) != nil && a.patch(jobSets, "foreign-set", note) != nil
			})
			for _, try := range mode.allowed {
				if err := try.do(a); err != nil {
					t.Errorf("%s: %v", try.name, err)
				}
			}
			for _, try := range mode.forbidden {
				err := try.do(a)
				// The policy returns Invalid, and RBAC returns Forbidden. With any other error, the request was
				// allowed but failed.
				rejected := apierrors.IsForbidden(err) || apierrors.IsInvalid(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
				if !rejected {
					t.Errorf("%s: the request is not rejected: %v", try.name, err)
				}
			}
		})
	}
}
