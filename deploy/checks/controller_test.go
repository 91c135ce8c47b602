package checks

import (
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	corev1 "k8s.io/api/core/v1"
)

const controllerPool = "--values=deploy/helm/elastalloc-controller/ci/pool-values.yaml"

// TestControllerChart checks that the controller's chart renders objects that Kubernetes
// knows, in each way to install it, and that its pod is restricted.
func TestControllerChart(t *testing.T) {
	var kinds []string
	for _, kind := range regexp.MustCompile(`(?m)^(\w+): {group: `).FindAllSubmatch(readFile(t,
		"deploy", "helm", "elastalloc-controller", "templates", "_helpers.tpl"), -1) {
		kinds = append(kinds, string(kind[1]))
	}
	all := `--set-json=config={"kinds":["` + strings.Join(kinds, `","`) + `"],` +
		`"prometheus":"http://prometheus:9090","pools":[{"name":"training","nodeSelector":{"pool":"training"},"cadence":"2m"}]}`
	for name, flags := range map[string][]string{
		"defaults":   {controllerPool},
		"apply":      {controllerPool, "--set=mode=apply"},
		"all kinds":  {all, "--set=mode=apply"},
		"monitoring": {controllerPool, "--set=serviceMonitor.enabled=true,prometheusRule.enabled=true,grafanaDashboard.enabled=true"},
		"TLS": {
			controllerPool,
			"--set=server=dns:///elastalloc.elastalloc.svc:50051,tls.secretName=client,tls.clientCertificate=true,tls.serverName=elastalloc",
		},
		"recording":  {controllerPool, "--set=recording.claim=history"},
		"unrecorded": {controllerPool, "--set=recording.enabled=false"},
		"Prometheus": {
			controllerPool, "--set=prometheusSecret=prometheus",
			`--set-json=config.prometheus={"address":"https://a","bearerTokenFile":"/etc/elastalloc/prometheus/token",` +
				`"tls":{"caFile":"/etc/elastalloc/prometheus/ca.crt"}}`,
		},
		"least": {controllerPool, "--set=admissionPolicy.enabled=false,podDisruptionBudget.enabled=false,networkPolicy.enabled=false,replicas=1"},
	} {
		t.Run(name, func(t *testing.T) {
			helm := program(t, "helm")
			chart := "deploy/helm/elastalloc-controller"
			output(t, helm, append([]string{"lint", "--strict", kubeVersion, chart}, flags...)...)
			objects := decode(t, output(t, helm, append([]string{"template", "release", chart, "--namespace=somewhere", kubeVersion}, flags...)...))
			if len(objects.deployments) != 1 {
				t.Fatalf("%d deployments; want one", len(objects.deployments))
			}
			checkRestricted(t, &objects.deployments[0].Spec.Template)
		})
	}
	out, err := command(t, program(t, "helm"), "template", "deploy/helm/elastalloc-controller", kubeVersion).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "pools") {
		t.Errorf("without a pool the schema does not refuse it: %v\n%s", err, out)
	}
}

// TestControllerChartRefuses checks that values which would start no controller, or another one
// than meant, are refused.
func TestControllerChartRefuses(t *testing.T) {
	for bad, want := range map[string]string{
		"--set=config.kinds={Jobs}": `unknown kind "Jobs" (want one of Job, `,
		`--set-json=config.pools=[{"name":"a","nodeSelector":{"a":"b"}},` +
			`{"name":"a","nodeSelector":{"a":"c"}}]`: "config.pools[1].name",
		"--set=recording.enabled=false,recording.claim=history":                              "recording",
		"--set=server=a:1,tls.clientCertificate=true":                                        "tls.clientCertificate: needs tls.secretName",
		`--set=podLabels.app\.kubernetes\.io/name=x`:                                         "podLabels",
		`--set-json=server="a:1\n- --mode=apply"`:                                            "server",
		`--set-json=config.pools=[{"name":"a","nodeSelector":{"a":"b"},"maxShrink":"400%"}]`: "maxShrink",
		`--set-json=config.pools=[{"name":"a","nodeSelector":{"a":"b"},"cadence":"0s"}]`:     "cadence",
	} {
		out, err := command(t, program(t, "helm"), "template",
			"deploy/helm/elastalloc-controller", kubeVersion, controllerPool, bad).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s is not refused: %v\n%.300s", bad, err, out)
		}
	}
}

// TestControllerAlerts checks that each alert has a severity and an entry of the
// runbook, that tests see it fire and keep quiet, and that its series, as those of the
// dashboard, are some that the controller has.
func TestControllerAlerts(t *testing.T) {
	groups, errs := rulefmt.Parse(readFile(t, "deploy", "helm", "elastalloc-controller", "files", "controller.rules.yaml"), false,
		model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	runbook := string(readFile(t, "deploy", "runbook-controller.md"))
	tests := string(readFile(t, "deploy", "prometheus", "tests", "controller.yaml"))
	for _, alert := range groups.Groups[0].Rules {
		if severity := alert.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s: the severity is %q; want critical or warning", alert.Alert, severity)
		}
		if alert.For == 0 {
			t.Errorf("%s fires at the first sample", alert.Alert)
		}
		for _, annotation := range []string{"summary", "description"} {
			if text := alert.Annotations[annotation]; !strings.HasSuffix(text, ".") {
				t.Errorf("%s: the %s is %q; want a sentence", alert.Alert, annotation, text)
			}
		}
		if !strings.Contains(runbook, "\n## "+alert.Alert+"\n") ||
			!strings.HasSuffix(alert.Annotations["runbook_url"], "/deploy/runbook-controller.md#"+strings.ToLower(alert.Alert)) {
			t.Errorf("%s leads to no entry of the runbook", alert.Alert)
		}
		if !strings.Contains(tests, "alertname: "+alert.Alert+", exp_alerts: []") || !strings.Contains(tests, "alertname: "+alert.Alert+"\n") {
			t.Errorf("%s: no test sees it fire and keep quiet", alert.Alert)
		}
		checkDocumented(t, alert.Alert, alert.Expr)
		if !strings.Contains(string(readFile(t, "docs", "reference", "metrics.md")), alert.Alert) {
			t.Errorf("docs/reference/metrics.md does not name %s", alert.Alert)
		}
	}
	if headings := strings.Count(runbook, "\n## Elastalloc"); headings != len(groups.Groups[0].Rules) {
		t.Errorf("the runbook has %d entries for %d alerts", headings, len(groups.Groups[0].Rules))
	}
	for _, q := range queriesOf(t, readFile(t, "deploy", "helm", "elastalloc-controller", "files", "controller.dashboard.json")) {
		expr := strings.ReplaceAll(q.expr, "$pool", ".*")
		if _, err := parser.NewParser(parser.Options{}).ParseExpr(expr); err != nil {
			t.Errorf("%s: %v", q.where, err)
		}
		checkDocumented(t, q.where, expr)
	}
}

// TestRecordingClaim checks that pods record into folders of their own on a claim, which they
// are let write to.
func TestRecordingClaim(t *testing.T) {
	for chart, flags := range map[string][]string{"elastalloc": nil, "elastalloc-controller": {controllerPool}} {
		args := append([]string{"template", "release", "deploy/helm/" + chart, kubeVersion, "--set=recording.claim=history"}, flags...)
		pod := decode(t, output(t, program(t, "helm"), args...)).deployments[0].Spec.Template.Spec
		container := pod.Containers[0]
		if !slices.Contains(container.Args, "--record=/recordings/$(POD_NAME)") ||
			!slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool {
				return v.Name == "POD_NAME" && v.ValueFrom != nil && v.ValueFrom.FieldRef.FieldPath == "metadata.name"
			}) {
			t.Errorf("%s records with %v, %v", chart, container.Args, container.Env)
		}
		mounted := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == "recordings" && m.MountPath == "/recordings" && !m.ReadOnly
		})
		claimed := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
			return v.Name == "recordings" && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "history"
		})
		if !mounted || !claimed || pod.SecurityContext.FSGroup == nil {
			t.Errorf("%s: mounted %t, claimed %t, group %v", chart, mounted, claimed, pod.SecurityContext.FSGroup)
		}
	}
}

// TestControllerRecording checks that controllers record by default, within a size limit that their
// volume has room for, and that they can be kept from it.
func TestControllerRecording(t *testing.T) {
	for flag, want := range map[string]struct{ maxBytes, sizeLimit string }{
		"replicas=2":                {"1073741824", "1152Mi"},
		"recording.maxBytes=300MiB": {"314572800", "428Mi"},
		"recording.claim=history":   {"1073741824", ""},
		"recording.enabled=false":   {},
	} {
		args := []string{"template", "release", "deploy/helm/elastalloc-controller", kubeVersion, controllerPool, "--set=" + flag}
		pod := decode(t, output(t, program(t, "helm"), args...)).deployments[0].Spec.Template.Spec
		sizeLimit := ""
		recordings := false
		for _, volume := range pod.Volumes {
			if volume.Name == "recordings" {
				recordings = true
				if volume.EmptyDir != nil {
					sizeLimit = volume.EmptyDir.SizeLimit.String()
				}
			}
		}
		got := flagOf(pod.Containers[0].Args, "record-max-bytes")
		if got != want.maxBytes || sizeLimit != want.sizeLimit || recordings != (want.maxBytes != "") {
			t.Errorf("%s: --record-max-bytes is %q, the volume is there: %t, its size limit is %q; want %+v", flag, got, recordings, sizeLimit, want)
		}
	}
}

// TestRunbookBase checks that alerts link to the runbooks that the values name.
func TestRunbookBase(t *testing.T) {
	for chart, flags := range map[string][]string{"elastalloc": nil, "elastalloc-controller": {controllerPool}} {
		args := append([]string{
			"template", "release", "deploy/helm/" + chart, kubeVersion,
			"--set=prometheusRule.enabled=true,prometheusRule.runbookBase=https://wiki.example/elastalloc",
		}, flags...)
		links := 0
		for _, group := range decode(t, output(t, program(t, "helm"), args...)).rules[0].Spec.Groups {
			for _, rule := range group.Rules {
				if url := rule.Annotations["runbook_url"]; url != "" {
					links++
					if !strings.HasPrefix(url, "https://wiki.example/elastalloc/runbook") {
						t.Errorf("%s links to %s", rule.Alert, url)
					}
				}
			}
		}
		if links == 0 {
			t.Errorf("%s: no alert links to a runbook", chart)
		}
	}
}
