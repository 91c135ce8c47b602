//go:build linux

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
	"github.com/elastalloc/elastalloc/kube/kinds"
)

// Labels and annotations of the controller; see docs/schedulers/kubernetes.md.
const (
	poolLabel        = "elastalloc.dev/pool"
	targetAnnotation = "elastalloc.dev/target"
)

var jobSets = resourceOf("JobSet")

// resourceOf returns the API resource of a kind of jobs.
func resourceOf(name string) schema.GroupVersionResource {
	return kinds.Named([]string{name})[0].GVK.GroupVersion().WithResource(strings.ToLower(name) + "s")
}

// newPool creates nodes and a namespace with the given name, and removes them at the end of the test. If the test
// failed, their state is logged.
func newPool(t *testing.T, name string, nodes int) {
	t.Helper()
	must(t, kube.AddNodes(t.Context(), name, nodes))
	_, err := kube.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		ctx := context.Background()
		if t.Failed() {
			t.Log(describe(ctx, name))
		}
		background := metav1.DeletePropagationBackground
		_ = kube.Client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
		_ = kube.Client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "pool=" + name})
	})
}

// job is a job to submit.
type job struct {
	name string
	size int
	// running jobs start immediately with their size. Others are submitted suspended.
	running     bool
	annotations map[string]string
	pods        map[string]string // annotations of its pods
	unlabelled  bool
	// queue is the LocalQueue of Kueue, and priority its WorkloadPriorityClass; "" means none. managedBy is the
	// controller that creates the pods; nil means the Job controller.
	queue     string
	priority  string
	managedBy *string
	// evictAfter is the time until its pods are evicted from a lost node.
	evictAfter time.Duration
	// namespace is the namespace; "" means the name of the pool.
	namespace string
}

func (j job) template(pool string) corev1.PodTemplateSpec {
	gpus := corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(cluster.GPUs, resource.DecimalSI)}
	spec := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		NodeSelector:  map[string]string{"pool": pool},
		Containers: []corev1.Container{{
			Name: "train", Image: "train", Resources: corev1.ResourceRequirements{Requests: gpus, Limits: gpus},
		}},
	}
	if j.evictAfter > 0 {
		seconds := int64(j.evictAfter.Seconds())
		for _, key := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
			spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
			})
		}
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: j.pods}, Spec: spec}
}

func (j job) metadata(pool string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: j.name, Namespace: cmp.Or(j.namespace, pool), Annotations: j.annotations}
	m.Labels = make(map[string]string)
	if !j.unlabelled {
		m.Labels[poolLabel] = pool
	}
	if j.queue != "" {
		m.Labels["kueue.x-k8s.io/queue-name"] = j.queue
	}
	if j.priority != "" {
		m.Labels["kueue.x-k8s.io/priority-class"] = j.priority
	}
	return m
}

// indexed returns the specification of an Indexed Job. A pod is replaced after it has terminated,
// so that the job never needs more nodes than its size.
func (j job) indexed(pool string) batchv1.JobSpec {
	size, suspend, backoff := int32(j.size), !j.running, int32(1000)
	mode, replace := batchv1.IndexedCompletion, batchv1.Failed
	return batchv1.JobSpec{
		Parallelism: &size, Completions: &size, Suspend: &suspend, CompletionMode: &mode,
		PodReplacementPolicy: &replace, BackoffLimit: &backoff, Template: j.template(pool), ManagedBy: j.managedBy,
	}
}

// submit creates a batch/v1 Job.
func (j job) submit(t *testing.T, pool string) {
	t.Helper()
	must(t, j.create(t, pool, metav1.CreateOptions{}))
}

func (j job) create(t *testing.T, pool string, options metav1.CreateOptions) error {
	t.Helper()
	metadata := j.metadata(pool)
	_, err := kube.Client.BatchV1().Jobs(metadata.Namespace).Create(t.Context(),
		&batchv1.Job{ObjectMeta: metadata, Spec: j.indexed(pool)}, options)
	return err
}

// submitJobSet creates a JobSet with one replicated job.
func (j job) submitJobSet(t *testing.T, pool string) {
	t.Helper()
	spec := j.indexed(pool)
	spec.Suspend = nil
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&batchv1.JobTemplateSpec{Spec: spec})
	must(t, err)
	m := j.metadata(pool)
	metadata, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&m)
	must(t, err)
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata,
		"spec": map[string]any{
			"suspend":        !j.running,
			"replicatedJobs": []any{map[string]any{"name": "workers", "replicas": int64(1), "template": template}},
		},
	}}
	_, err = dynamicClient(t, kube.Config).Resource(jobSets).Namespace(pool).Create(t.Context(), set, metav1.CreateOptions{})
	must(t, err)
}

func dynamicClient(t *testing.T, config *rest.Config) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(config)
	must(t, err)
	return c
}

// asAccount returns the configuration of a service account of the namespace elastalloc.
func asAccount(t *testing.T, name string) *rest.Config {
	t.Helper()
	token, err := serviceAccountToken(t.Context(), name)
	must(t, err)
	config := rest.AnonymousClientConfig(kube.Config)
	config.BearerToken, config.QPS = token, -1
	return config
}

func clientOf(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	must(t, err)
	return c
}

// pods returns the number of pods that have not completed by the name of their job, and the total number of running
// pods.
func pods(t *testing.T, pool string) (byJob map[string]int, running int) {
	t.Helper()
	list, err := kube.Client.CoreV1().Pods(pool).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	byJob = map[string]int{}
	for i := range list.Items {
		pod := &list.Items[i]
		if ended(pod) {
			continue
		}
		if jobOf(pod) == "" {
			continue // The head of a RayCluster.
		}
		byJob[jobOf(pod)]++
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			running++
		}
	}
	return byJob, running
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// untilPods waits until the jobs of a pool have exactly the given numbers of running pods.
func untilPods(t *testing.T, pool string, want map[string]int) {
	t.Helper()
	sum := 0
	for _, n := range want {
		sum += n
	}
	wait.For(t, "the pods of the jobs", func() (bool, string) {
		byJob, running := pods(t, pool)
		matches := running == sum && len(byJob) == len(want)
		for name, n := range want {
			matches = matches && byJob[name] == n
		}
		return matches, fmt.Sprintf("%v, %d of them running; want %v", byJob, running, want)
	})
}

// targets returns the target annotations of the jobs of a pool.
func targets(t *testing.T, pool string) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, name := range kinds.Names() {
		list, err := dynamicClient(t, kube.Config).Resource(resourceOf(name)).Namespace(pool).List(t.Context(),
			metav1.ListOptions{LabelSelector: poolLabel})
		if apierrors.IsNotFound(err) {
			continue // No test has started the controller of this kind.
		}
		must(t, err)
		for i := range list.Items {
			if n, err := strconv.Atoi(list.Items[i].GetAnnotations()[targetAnnotation]); err == nil {
				found[list.Items[i].GetName()] = n
			}
		}
	}
	return found
}

// describe returns a description of the state of a pool.
func describe(ctx context.Context, pool string) string {
	var text strings.Builder
	commands := [][]string{
		{"get", "pods", "-n", pool, "-o", "wide"},
		{"get", "events", "-n", pool, "--field-selector", "reportingComponent=elastalloc-controller"},
	}
	for _, name := range kinds.Names() {
		commands = append(commands, []string{
			"get", resourceOf(name).GroupResource().String(), "-n", pool, "--ignore-not-found", "-o",
			"custom-columns=KIND:.kind,NAME:.metadata.name,SIZE:.spec.parallelism,SUSPEND:.spec.suspend,NOTED:.metadata.annotations",
		})
	}
	for _, args := range commands {
		output, _ := kubectl(ctx, kube, "", args...)
		fmt.Fprintln(&text, output)
	}
	return text.String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
