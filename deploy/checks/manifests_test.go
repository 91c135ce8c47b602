package checks

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kubeVersion is the Kubernetes that the chart is rendered for. A helm that Go built
// knows none of its own.
const kubeVersion = "--kube-version=1.33.0"

// variants are ways to install the chart, each as helm's flags.
func variants() map[string][]string {
	return map[string][]string{
		"defaults": nil,
		"monitoring": {
			"--set=serviceMonitor.enabled=true,prometheusRule.enabled=true,grafanaDashboard.enabled=true",
			"--set=serviceMonitor.labels.release=prometheus,prometheusRule.labels.release=prometheus",
		},
		"TLS": {"--set=tls.secretName=elastalloc-tls"},
		"client certificates": {
			"--set=tls.secretName=elastalloc-tls,tls.clientCertificates=true,tls.clientNames={scheduler.example,spiffe://cluster/backup}",
		},
		"least": {
			"--set=autoscaling.enabled=false,podDisruptionBudget.enabled=false,networkPolicy.enabled=false",
			"--set=serviceAccount.create=false,replicas=1",
		},
		"recording":     {"--set=recording.claim=history"},
		"no recording":  {"--set=recording.enabled=false"},
		"closed to all": {"--set=networkPolicy.clients=null,networkPolicy.monitoring=null"},
		"all backends":  {"--set=server.backends={exact,highs,cbc},server.longestDeadlineSeconds=60,server.drainDelaySeconds=20"},
		"everything else": {
			"--set=image.repository=registry.example/elastalloc,image.digest=sha256:" + strings.Repeat("0", 64),
			"--set=fullnameOverride=allocator,priorityClassName=system-cluster-critical,imagePullSecrets[0].name=registry",
			"--set=podLabels.team=ml,podAnnotations.note=x,nodeSelector.pool=system,tolerations[0].operator=Exists",
			"--set=server.extraEnv[0].name=OTEL_EXPORTER_OTLP_ENDPOINT,server.extraEnv[0].value=http://otel:4317",
			"--set=server.extraArgs[0]=--log-level=debug,serviceAccount.annotations.note=x",
			"--set=networkPolicy.egress[0].to[0].podSelector.matchLabels.app=otel",
			"--set=affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=1",
			"--set=affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].key=gpu",
			"--set=affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].operator=DoesNotExist",
		},
	}
}

// render returns the manifests of the chart.
func render(t *testing.T, flags ...string) []byte {
	t.Helper()
	args := append([]string{"template", "release", "deploy/helm/elastalloc", "--namespace=somewhere", kubeVersion}, flags...)
	return output(t, program(t, "helm"), args...)
}

func TestChart(t *testing.T) {
	for name, flags := range variants() {
		t.Run(name, func(t *testing.T) {
			output(t, program(t, "helm"), append([]string{"lint", "--strict", kubeVersion, "deploy/helm/elastalloc"}, flags...)...)
			checkObjects(t, decode(t, render(t, flags...)))
		})
	}
}

// TestRecording checks that servers record by default, within a size limit that their volume has room
// for, and that they can be kept from it.
func TestRecording(t *testing.T) {
	for flag, want := range map[string]struct{ maxBytes, sizeLimit string }{
		"replicas=3":                {"1GiB", "1152Mi"},
		"recording.maxBytes=300MiB": {"300MiB", "428Mi"},
		"recording.claim=history":   {"1GiB", ""},
		"recording.enabled=false":   {},
	} {
		pod := decode(t, render(t, "--set="+flag)).deployments[0].Spec.Template.Spec
		container := pod.Containers[0]
		dir := ""
		if want.maxBytes != "" {
			dir = "/recordings/$(POD_NAME)"
		}
		if got := flagOf(container.Args, "record"); got != dir {
			t.Errorf("%s: --record is %q; want %q", flag, got, dir)
		}
		if got := flagOf(container.Args, "record-max-bytes"); got != want.maxBytes {
			t.Errorf("%s: --record-max-bytes is %q; want %q", flag, got, want.maxBytes)
		}
		sizeLimit := ""
		for _, volume := range pod.Volumes {
			if volume.Name == "recordings" && volume.EmptyDir != nil {
				sizeLimit = volume.EmptyDir.SizeLimit.String()
			}
		}
		if sizeLimit != want.sizeLimit {
			t.Errorf("%s: the size limit of the volume is %q; want %q", flag, sizeLimit, want.sizeLimit)
		}
	}
}

// TestDocumentedValues checks that the values in docs/operators are values of the chart. Those of the controller are
// checked in its own module.
func TestDocumentedValues(t *testing.T) {
	pages, err := filepath.Glob(atRoot(t, "docs", "operators", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks [][][]byte
	for _, page := range pages {
		if filepath.Base(page) == "kubernetes-controller.md" {
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)...)
	}
	if len(blocks) < 3 {
		t.Fatalf("found %d blocks of values; must be at least 3", len(blocks))
	}
	for _, block := range blocks {
		values := filepath.Join(t.TempDir(), "values.yaml")
		if err := os.WriteFile(values, block[1], 0o600); err != nil {
			t.Fatal(err)
		}
		checkObjects(t, decode(t, render(t, "--values="+values)))
	}
}

// TestChartRefusesBadValues checks that the schema rejects invalid values.
func TestChartRefusesBadValues(t *testing.T) {
	helm := program(t, "helm")
	for _, bad := range []string{
		"server.backends={exakt}", "server.backends=null", "server.defaultBudget=900", "server.maxInflight=0",
		"server.longestDeadlineSeconds=-1", "image.repository=", "replica=3", "image.digest=latest",
		"podDisruptionBudget.maxUnavailable=0", "tls.clientCertificates=true", "autoscaling.minReplicas=0",
		"server.maxMemory=a lot", "prometheusRule.runbookBase=runbooks", "tls.clientNames={a\\,b}",
		"recording.enabled=yes", "recording.maxBytes=1Gi", "recording.maxBytes=0MiB", "recording.enabled=false,recording.claim=history",
	} {
		t.Run(bad, func(t *testing.T) {
			t.Parallel()
			out, err := command(t, helm, "template", "deploy/helm/elastalloc", kubeVersion, "--set="+bad).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "don't meet the specifications of the schema") {
				t.Errorf("the schema does not refuse it: %v\n%s", err, out)
			}
		})
	}
}

// TestPlainManifests checks the manifests as they are, which takes no helm, and what
// kustomize makes of them.
func TestPlainManifests(t *testing.T) {
	plain := decode(t, readFile(t, "deploy", "kubernetes", "elastalloc.yaml"))
	checkObjects(t, plain)
	if n := len(plain.deployments) * len(plain.services) * len(plain.budgets) * len(plain.autoscalers) * len(plain.networkPolicies); n != 1 {
		t.Errorf("there is not one of each kind: %+v", plain)
	}
	monitoring := decode(t, readFile(t, "deploy", "kubernetes", "monitoring.yaml"))
	monitoring.services = plain.services
	checkMonitoring(t, monitoring)
	if plain.deployments[0].Spec.Replicas != nil {
		t.Error("the deployment has replicas of its own, and to apply it again would undo what the autoscaler has done")
	}
	if len(monitoring.monitors) != 1 || len(monitoring.rules) != 1 || len(monitoring.configMaps) != 1 {
		t.Errorf("there is not one of each kind: %+v", monitoring)
	}

	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), atRoot(t, "deploy", "kubernetes"))
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	customized := decode(t, manifests)
	checkObjects(t, customized)
	if len(customized.namespaces) != 1 || customized.namespaces[0].Name != customized.deployments[0].Namespace {
		t.Error("the namespace is not the one that the objects are in")
	}
}

// TestPlainManifestsAreRendered checks that they are what the chart renders now.
func TestPlainManifestsAreRendered(t *testing.T) {
	t.Setenv("HELM", program(t, "helm"))
	output(t, "scripts/deploy-render.sh", "--check")
}

// checkObjects checks that the objects of an installation fit together.
func checkObjects(t *testing.T, all objects) {
	t.Helper()
	if len(all.deployments) != 1 || len(all.services) != 1 {
		t.Fatalf("%d deployments and %d services; want one each", len(all.deployments), len(all.services))
	}
	deployment := all.deployments[0]
	template := &deployment.Spec.Template
	container := &template.Spec.Containers[0]
	checkSelects(t, "the deployment", deployment.Spec.Selector, template.Labels)
	checkPod(t, template)
	for _, service := range all.services {
		checkSelects(t, "the service", &metav1.LabelSelector{MatchLabels: service.Spec.Selector}, template.Labels)
		checkService(t, &service.Spec, container)
	}
	for _, constraint := range template.Spec.TopologySpreadConstraints {
		checkSelects(t, "the spread over "+constraint.TopologyKey, constraint.LabelSelector, template.Labels)
	}
	for _, budget := range all.budgets {
		checkSelects(t, "the disruption budget", budget.Spec.Selector, template.Labels)
	}
	for _, autoscaler := range all.autoscalers {
		checkAutoscaler(t, &autoscaler.Spec, deployment)
	}
	for _, network := range all.networkPolicies {
		checkSelects(t, "the network policy", &network.Spec.PodSelector, template.Labels)
		checkIngress(t, network.Spec.Ingress, container)
	}
	for _, account := range all.accounts {
		if account.Name != template.Spec.ServiceAccountName {
			t.Errorf("no pod uses the service account %s", account.Name)
		}
		if account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken {
			t.Error("the service account's token is mounted")
		}
	}
	checkMonitoring(t, all)
}

// checkSelects checks that a selector is not empty and matches the labels.
func checkSelects(t *testing.T, what string, selector *metav1.LabelSelector, labelled labels.Set) {
	t.Helper()
	matcher, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Errorf("%s: %v", what, err)
	} else if matcher.Empty() || !matcher.Matches(labelled) {
		t.Errorf("%s selects %v, and the labels are %v", what, matcher, labelled)
	}
}

// checkService checks that a service is headless and that its ports lead to ports of the container.
func checkService(t *testing.T, service *corev1.ServiceSpec, container *corev1.Container) {
	t.Helper()
	if service.ClusterIP != corev1.ClusterIPNone {
		t.Error("the service is not headless; clients would stick to one server")
	}
	for _, port := range service.Ports {
		if n := portNumber(container, port.TargetPort); n != port.Port {
			t.Errorf("the service's port %d leads to the container's port %d", port.Port, n)
		}
	}
}

// checkAutoscaler checks that an autoscaler scales the deployment, whose replicas it does not change on a fresh
// install, and that the utilization is a share of a request.
func checkAutoscaler(t *testing.T, autoscaler *autoscalingv2.HorizontalPodAutoscalerSpec, deployment *appsv1.Deployment) {
	t.Helper()
	target := autoscaler.ScaleTargetRef
	if target.APIVersion != "apps/v1" || target.Kind != "Deployment" || target.Name != deployment.Name {
		t.Errorf("the autoscaler scales %+v", target)
	}
	if own := deployment.Spec.Replicas; own != nil && *own != *autoscaler.MinReplicas {
		t.Errorf("a fresh install has %d servers; want %d", *own, *autoscaler.MinReplicas)
	}
	if deployment.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().IsZero() {
		t.Error("no request of CPU that utilization could be a share of")
	}
}

// checkIngress checks that every rule of a network policy names pods, and ports that the container has.
func checkIngress(t *testing.T, rules []networkingv1.NetworkPolicyIngressRule, container *corev1.Container) {
	t.Helper()
	for _, rule := range rules {
		if len(rule.From) == 0 || len(rule.Ports) == 0 {
			t.Error("a rule of the network policy lets every pod in, or to every port")
		}
		for _, port := range rule.Ports {
			if portNumber(container, *port.Port) == 0 {
				t.Errorf("the network policy names port %v, which no container has", port.Port)
			}
		}
	}
}

// checkMonitoring checks that monitors find services and that the rules in the
// cluster are those that are tested.
func checkMonitoring(t *testing.T, all objects) {
	t.Helper()
	for _, monitor := range all.monitors {
		service := all.services[0]
		matcher, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
		if err != nil || matcher.Empty() || !matcher.Matches(labels.Set(service.Labels)) {
			t.Errorf("the monitor selects %v, %v; the service's labels are %v", matcher, err, service.Labels)
		}
		if job := service.Labels[monitor.Spec.JobLabel]; job != "elastalloc" {
			t.Errorf("the job is %q, and the rules and the dashboard know elastalloc", job)
		}
		for _, endpoint := range monitor.Spec.Endpoints {
			if !slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == endpoint.Port }) {
				t.Errorf("the service has no port %s", endpoint.Port)
			}
		}
	}
	for _, object := range all.rules {
		tested := rules(t)
		if len(object.Spec.Groups) != len(tested.Groups) {
			t.Fatalf("%d groups of rules; want %d", len(object.Spec.Groups), len(tested.Groups))
		}
		for i, group := range tested.Groups {
			for j, rule := range group.Rules {
				got := object.Spec.Groups[i].Rules[j]
				if got.Record != rule.Record || got.Alert != rule.Alert || got.Expr.StrVal != rule.Expr {
					t.Errorf("rule %d of %s is %+v; want %+v", j, group.Name, got, rule)
				}
			}
		}
	}
	for _, object := range all.configMaps {
		if got, want := queriesOf(t, []byte(object.Data["elastalloc.json"])), dashboardQueries(t); !slices.Equal(got, want) {
			t.Errorf("the dashboard in the cluster is %v; want %v", got, want)
		}
	}
}

// checkPod checks what a pod may and that it ends in peace.
func checkPod(t *testing.T, template *corev1.PodTemplateSpec) {
	t.Helper()
	checkRestricted(t, template)

	spec := &template.Spec
	if len(spec.Containers) != 1 {
		t.Fatalf("%d containers; want one", len(spec.Containers))
	}
	container := &spec.Containers[0]
	if only := container.SecurityContext.ReadOnlyRootFilesystem; only == nil || !*only {
		t.Error("the root file system can be written to")
	}
	if mount := spec.AutomountServiceAccountToken; mount == nil || *mount {
		t.Error("the service account's token is mounted")
	}
	if links := spec.EnableServiceLinks; links == nil || *links {
		t.Error("service links would set variables that begin with ELASTALLOC_")
	}
	if container.Resources.Requests.Memory().IsZero() || container.Resources.Limits.Memory().IsZero() {
		t.Error("memory has no request or no limit")
	}
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe} {
		switch {
		case probe == nil:
			t.Error("a probe is missing")
		case probe.GRPC != nil && portNumber(container, intstr.FromString("grpc")) == probe.GRPC.Port:
		case probe.HTTPGet != nil && portNumber(container, probe.HTTPGet.Port) != 0:
		default:
			t.Errorf("a probe uses no port of the container: %+v", probe)
		}
		withTLS := flagOf(container.Args, "tls-cert") != ""
		if probe != nil && probe.GRPC != nil && withTLS {
			t.Error("a gRPC probe speaks plain text to a server with TLS")
		}
	}
	mounts := map[string]string{}
	for _, mount := range container.VolumeMounts {
		mounts[mount.MountPath] = mount.Name
	}
	for _, flag := range []string{"tls-cert", "tls-key", "client-ca"} {
		if file := flagOf(container.Args, flag); file != "" && mounts["/etc/elastalloc/tls"] != "tls" {
			t.Errorf("--%s is %s, where nothing is mounted", flag, file)
		}
	}
	if recorded := flagOf(container.Args, "record") != ""; recorded != (mounts["/recordings"] == "recordings") {
		t.Errorf("the server records: %t, and the mounts are %v", recorded, mounts)
	}
	if mounts["/tmp"] == "" {
		t.Error("no room for the external solvers")
	}

	var drain time.Duration
	for _, flag := range []string{"drain-delay", "drain-timeout"} {
		wait, err := time.ParseDuration(flagOf(container.Args, flag))
		if err != nil {
			t.Errorf("--%s: %v", flag, err)
		}
		drain += wait
		if flag == "drain-timeout" {
			drain += wait // Admin HTTP has as much.
		}
	}
	if grace := time.Duration(*spec.TerminationGracePeriodSeconds) * time.Second; grace <= drain {
		t.Errorf("the grace period is %v, and draining may take %v", grace, drain)
	}
}

// flagOf returns the value of the last flag of a name, and "" where it is not set.
func flagOf(args []string, name string) string {
	for _, arg := range slices.Backward(args) {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value
		}
	}
	return ""
}

// portNumber returns the number of a container's port, and 0 where it has none such.
func portNumber(container *corev1.Container, port intstr.IntOrString) int32 {
	for _, p := range container.Ports {
		if port.StrVal == p.Name || port.IntVal == p.ContainerPort {
			return p.ContainerPort
		}
	}
	return 0
}

// checkRestricted checks that a pod keeps to the strictest of the Pod Security Standards.
func checkRestricted(t *testing.T, template *corev1.PodTemplateSpec) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	if result := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &template.ObjectMeta, &template.Spec)); !result.Allowed {
		t.Errorf("the pod is not restricted: %s, %s", result.ForbiddenReason(), result.ForbiddenDetail())
	}
}
