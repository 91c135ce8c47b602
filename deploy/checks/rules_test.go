package checks

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

const (
	rulesFile  = "elastalloc.rules.yaml"
	runbookURL = "https://github.com/elastalloc/elastalloc/blob/main/deploy/runbook.md#"
)

// rules returns the rules, checked as Prometheus checks them.
func rules(t *testing.T) *rulefmt.RuleGroups {
	t.Helper()
	groups, errs := rulefmt.Parse(readFile(t, "deploy", "helm", "elastalloc", "files", rulesFile), false,
		model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return groups
}

// alerts returns the rules that are alerts.
func alerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	var all []rulefmt.Rule
	for _, group := range rules(t).Groups {
		for _, rule := range group.Rules {
			if rule.Alert != "" {
				all = append(all, rule)
			}
		}
	}
	if len(all) == 0 {
		t.Fatal("there are no alerts")
	}
	return all
}

// TestAlertsTellWhatToDo checks that the person an alert wakes knows how bad it is, what
// it is and where to read on.
func TestAlertsTellWhatToDo(t *testing.T) {
	headings := map[string]string{} // by anchor
	for line := range strings.Lines(string(readFile(t, "deploy", "runbook.md"))) {
		if title, ok := strings.CutPrefix(strings.TrimSpace(line), "## "); ok {
			headings[strings.ReplaceAll(strings.ToLower(title), " ", "-")] = title
		}
	}
	chapter := string(readFile(t, "docs", "operators", "monitor.md"))
	named := map[string]bool{}
	for _, alert := range alerts(t) {
		t.Run(alert.Alert, func(t *testing.T) {
			if severity := alert.Labels["severity"]; severity != "critical" && severity != "warning" {
				t.Errorf("the severity is %q; want critical or warning", severity)
			}
			if alert.For == 0 {
				t.Error("it fires at the first sample")
			}
			for _, annotation := range []string{"summary", "description"} {
				if text := alert.Annotations[annotation]; !strings.HasSuffix(text, ".") {
					t.Errorf("the %s is %q; want a sentence", annotation, text)
				}
			}
			anchor, ok := strings.CutPrefix(alert.Annotations["runbook_url"], runbookURL)
			if !ok || headings[anchor] != alert.Alert {
				t.Errorf("%s leads to no entry of the runbook", alert.Annotations["runbook_url"])
			}
			if !strings.Contains(chapter, alert.Alert) {
				t.Error("docs/operators/monitor.md does not list it")
			}
		})
		named[alert.Alert] = true
	}
	for _, title := range headings {
		if strings.HasPrefix(title, "Elastalloc") && !named[title] {
			t.Errorf("the runbook has a heading %s, which is not an alert", title)
		}
	}
}

// TestRules runs the unit tests of the rules and checks that every alert is seen to
// fire in one and not to fire in another.
func TestRules(t *testing.T) {
	files, err := filepath.Glob(atRoot(t, "deploy", "prometheus", "tests", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("unit tests %v, %v", files, err)
	}
	fires, keepsQuiet := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var suite struct {
			Tests []struct {
				AlertRuleTest []struct {
					Alertname string `json:"alertname"`
					ExpAlerts []any  `json:"exp_alerts"`
				} `json:"alert_rule_test"`
			} `json:"tests"`
		}
		if err := yaml.Unmarshal(content, &suite); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, test := range suite.Tests {
			for _, alert := range test.AlertRuleTest {
				if len(alert.ExpAlerts) > 0 {
					fires[alert.Alertname] = true
				} else {
					keepsQuiet[alert.Alertname] = true
				}
			}
		}
	}
	for _, alert := range alerts(t) {
		if !fires[alert.Alert] || !keepsQuiet[alert.Alert] {
			t.Errorf("%s: a test sees it fire: %t, keep quiet: %t", alert.Alert, fires[alert.Alert], keepsQuiet[alert.Alert])
		}
	}
	output(t, program(t, "promtool"), append([]string{"test", "rules"}, files...)...)
}
