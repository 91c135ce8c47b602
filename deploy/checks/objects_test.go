package checks

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// objects are decoded manifests by kind.
type objects struct {
	namespaces      []*corev1.Namespace
	accounts        []*corev1.ServiceAccount
	configMaps      []*corev1.ConfigMap
	services        []*corev1.Service
	deployments     []*appsv1.Deployment
	budgets         []*policyv1.PodDisruptionBudget
	autoscalers     []*autoscalingv2.HorizontalPodAutoscaler
	networkPolicies []*networkingv1.NetworkPolicy
	monitors        []*monitoringv1.ServiceMonitor
	rules           []*monitoringv1.PrometheusRule
}

// decoder returns what decodes manifests into the types of Kubernetes and of the
// Prometheus operator, and takes no field that those do not have.
func decoder(t *testing.T) runtime.Decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, autoscalingv2.AddToScheme,
		networkingv1.AddToScheme, monitoringv1.AddToScheme, rbacv1.AddToScheme, admissionv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}

// decode returns the objects of manifests; one that does not decode is an error of
// the test.
func decode(t *testing.T, manifests []byte) objects {
	t.Helper()
	var all objects
	into := decoder(t)
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if isEmpty(document) {
			continue
		}
		object, _, err := into.Decode(document, nil, nil)
		if err != nil {
			t.Errorf("%v in\n%s", err, document)
			continue
		}
		switch object := object.(type) {
		case *corev1.Namespace:
			all.namespaces = append(all.namespaces, object)
		case *corev1.ServiceAccount:
			all.accounts = append(all.accounts, object)
		case *corev1.ConfigMap:
			all.configMaps = append(all.configMaps, object)
		case *corev1.Service:
			all.services = append(all.services, object)
		case *appsv1.Deployment:
			all.deployments = append(all.deployments, object)
		case *policyv1.PodDisruptionBudget:
			all.budgets = append(all.budgets, object)
		case *autoscalingv2.HorizontalPodAutoscaler:
			all.autoscalers = append(all.autoscalers, object)
		case *networkingv1.NetworkPolicy:
			all.networkPolicies = append(all.networkPolicies, object)
		case *monitoringv1.ServiceMonitor:
			all.monitors = append(all.monitors, object)
		case *monitoringv1.PrometheusRule:
			all.rules = append(all.rules, object)
		case *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding, *rbacv1.Role, *rbacv1.RoleBinding,
			*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding:
			// `make check-kube` tries what these allow.
		default:
			t.Errorf("unexpected %T", object)
		}
	}
}

// isEmpty returns whether a document has only comments and separators.
func isEmpty(document []byte) bool {
	for line := range bytes.Lines(document) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return false
		}
	}
	return true
}

// TestDecodingIsStrict checks the check: what a type does not have is refused.
func TestDecodingIsStrict(t *testing.T) {
	for name, manifest := range map[string]string{
		"unknown field":        "apiVersion: v1\nkind: Service\nspec: {clusterIPP: None}\n",
		"field of other case":  "apiVersion: v1\nkind: Service\nspec: {clusterip: None}\n",
		"field twice":          "apiVersion: v1\nkind: ServiceAccount\nautomountServiceAccountToken: false\nautomountServiceAccountToken: true\n",
		"wrong type":           "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: three}\n",
		"unknown field of CRD": "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nspec: {endpoints: [{prot: admin}]}\n",
		"unknown kind":         "apiVersion: v1\nkind: Servise\n",
	} {
		t.Run(name, func(t *testing.T) {
			if object, _, err := decoder(t).Decode([]byte(manifest), nil, nil); err == nil {
				t.Errorf("it decodes to %v", object)
			}
		})
	}
}
