// Package metricsdoc compares docs/reference/metrics.md with the metrics that a program exports; for tests.
package metricsdoc

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// row is a line of a table: a metric, its type, its labels, what it means and its alerts, if any.
var row = regexp.MustCompile("(?m)^\\| `(elastalloc_[a-z_]+)` \\| ([a-z]+) \\| ([^|]*) \\| [^|]+ \\| (?:Elastalloc[A-Za-z, ]+ )?\\|$")

// label is a label in a row, `name` or `name`: value, value.
var label = regexp.MustCompile("^`([a-z_]+)`(?:: (.+))?$")

// Check fails where a section of the page and the metrics of a registry differ: in their names,
// types, labels or, for a label whose values the page lists, in a value.
func Check(t testing.TB, path, section string, registry prometheus.Gatherer) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\n## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %q", path, section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	rows := make(map[string][]string)
	for _, match := range row.FindAllStringSubmatch(text, -1) {
		rows[match[1]] = match
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		name := family.GetName()
		if !strings.HasPrefix(name, "elastalloc_") {
			continue
		}
		match, known := rows[name]
		if !known {
			t.Errorf("%s, %s: no row of %s", path, section, name)
			continue
		}
		delete(rows, name)
		if kind := strings.ToLower(family.GetType().String()); kind != match[2] {
			t.Errorf("%s is a %s; the page has %s", name, kind, match[2])
		}
		checkLabels(t, path, family, match[3])
	}
	for name := range rows {
		t.Errorf("%s, %s: %s is not exported; create its series at start", path, section, name)
	}
}

// checkLabels fails if the labels of a metric differ from those of its row on a page.
func checkLabels(t testing.TB, path string, family *dto.MetricFamily, labels string) {
	t.Helper()
	name := family.GetName()
	listed := make(map[string][]string) // values by label; nil for any
	for part := range strings.SplitSeq(labels, "; ") {
		if of := label.FindStringSubmatch(part); of != nil {
			listed[of[1]] = nil
			if of[2] != "" {
				listed[of[1]] = strings.Split(of[2], ", ")
			}
		} else if part != "" && part != " " {
			t.Errorf("%s: cannot read the label %q", name, part)
		}
	}
	for _, metric := range family.GetMetric() {
		if len(metric.GetLabel()) != len(listed) {
			t.Errorf("%s has the labels %v; the page has %v", name, metric.GetLabel(), listed)
			break
		}
		for _, pair := range metric.GetLabel() {
			values, known := listed[pair.GetName()]
			if !known || values != nil && !slices.Contains(values, pair.GetValue()) {
				t.Errorf("%s has %s=%q, which its row in %s lacks", name, pair.GetName(), pair.GetValue(), path)
			}
		}
	}
}
