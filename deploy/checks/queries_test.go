package checks

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// query is a query and where it is from.
type query struct{ where, expr string }

// dashboard is what matters here of a Grafana dashboard.
type dashboard struct {
	Panels     []panel
	Templating struct {
		List []struct {
			Name, Type string
			Query      any
		}
	}
	Annotations struct {
		List []struct{ Name, Expr string }
	}
}

// panel is a panel or a row of panels.
type panel struct {
	ID          int
	Type, Title string
	Description string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct {
		Expr         string
		LegendFormat string
		Datasource   struct{ UID string }
	}
	Panels []panel
}

func parseDashboard(t *testing.T, content []byte) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal(content, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// dashboardQueries returns every query of the dashboard.
func dashboardQueries(t *testing.T) []query {
	t.Helper()
	return queriesOf(t, readFile(t, "deploy", "helm", "elastalloc", "files", "elastalloc.dashboard.json"))
}

// queriesOf returns every query of a dashboard: of its panels, of its annotations and
// of its variables.
func queriesOf(t *testing.T, content []byte) []query {
	t.Helper()
	d := parseDashboard(t, content)
	var all []query
	var walk func([]panel)
	walk = func(panels []panel) {
		for _, p := range panels {
			for _, target := range p.Targets {
				all = append(all, query{"panel " + p.Title, fillIn(target.Expr)})
			}
			walk(p.Panels)
		}
	}
	walk(d.Panels)
	for _, annotation := range d.Annotations.List {
		all = append(all, query{"annotation " + annotation.Name, fillIn(annotation.Expr)})
	}
	labelValues := regexp.MustCompile(`^label_values\((.+), [a-z_]+\)$`)
	for _, variable := range d.Templating.List {
		if variable.Type != "query" {
			continue
		}
		text := variable.Query.(map[string]any)["query"].(string)
		matches := labelValues.FindStringSubmatch(text)
		if matches == nil {
			t.Errorf("variable %s: the series of %s are unknown", variable.Name, text)
			continue
		}
		all = append(all, query{"variable " + variable.Name, fillIn(matches[1])})
	}
	if len(all) == 0 {
		t.Fatal("the dashboard has no queries")
	}
	return all
}

// fillIn gives the variables of a dashboard's query the values that Grafana would.
func fillIn(expr string) string {
	return strings.NewReplacer("$job", "elastalloc", "$namespace", ".*", "$instance", ".*", "$__rate_interval", "1m").Replace(expr)
}

// ruleQueries returns every query of the rules. The query of an alert returns nothing while
// the alert is inactive, so it is replaced by the series that the alert uses.
func ruleQueries(t *testing.T) []query {
	t.Helper()
	var all []query
	for _, group := range rules(t).Groups {
		for _, rule := range group.Rules {
			if rule.Record != "" {
				all = append(all, query{"rule " + rule.Record, rule.Expr})
				continue
			}
			for _, selector := range selectors(t, rule.Expr) {
				all = append(all, query{"alert " + rule.Alert, selector})
			}
		}
	}
	return all
}

// selectors returns the selectors of series in a query.
func selectors(t *testing.T, expr string) []string {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	var all []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			all = append(all, selector.String())
		}
		return nil
	})
	return all
}

// TestQueriesParse checks the dashboard's queries with the parser of Prometheus, and
// that each looks at elastalloc and nothing else. Those of the rules are checked when
// the rules are read.
func TestQueriesParse(t *testing.T) {
	for _, q := range dashboardQueries(t) {
		if strings.Contains(q.expr, "$") {
			t.Errorf("%s: a variable is unknown in %s", q.where, q.expr)
		}
		for _, selector := range selectors(t, q.expr) {
			own := strings.Contains(selector, `job="elastalloc"`) || strings.HasPrefix(selector, "elastalloc_build_info") ||
				strings.HasPrefix(selector, "ALERTS{")
			if !own {
				t.Errorf("%s: %s selects series of others", q.where, selector)
			}
		}
	}
}

// checkDocumented checks that docs/reference/metrics.md has the series of a query. Tests of both programs
// compare the page with the exported metrics.
func checkDocumented(t *testing.T, where, expr string) {
	t.Helper()
	page := string(readFile(t, "docs", "reference", "metrics.md"))
	suffix := regexp.MustCompile(`_(bucket|sum|count)$`)
	for _, selector := range selectors(t, expr) {
		name, _, _ := strings.Cut(selector, "{")
		if strings.HasPrefix(name, "elastalloc") && !strings.Contains(page, "`"+suffix.ReplaceAllString(name, "")+"`") {
			t.Errorf("%s: docs/reference/metrics.md has no %s", where, name)
		}
	}
}

// TestMetricsPage checks that the page of metrics has all that the server's dashboard and rules
// look at, and names every alert.
func TestMetricsPage(t *testing.T) {
	page := string(readFile(t, "docs", "reference", "metrics.md"))
	for _, q := range dashboardQueries(t) {
		checkDocumented(t, q.where, q.expr)
	}
	for _, group := range rules(t).Groups {
		for _, rule := range group.Rules {
			checkDocumented(t, rule.Record+rule.Alert, rule.Expr)
			if !strings.Contains(page, rule.Record+rule.Alert) {
				t.Errorf("docs/reference/metrics.md does not name %s", rule.Record+rule.Alert)
			}
		}
	}
}

// TestDashboardLayout checks that panels have a name, a word of explanation, the
// chosen data source, an id of their own, and do not cover each other.
func TestDashboardLayout(t *testing.T) {
	seen := map[int]bool{}
	taken := map[[2]int]string{}
	for _, p := range parseDashboard(t, readFile(t, "deploy", "helm", "elastalloc", "files", "elastalloc.dashboard.json")).Panels {
		if seen[p.ID] {
			t.Errorf("%s: the id %d is taken", p.Title, p.ID)
		}
		seen[p.ID] = true
		if p.Title == "" || p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("panel %d has no title, explanation or query: %+v", p.ID, p)
		}
		for _, target := range p.Targets {
			if target.Datasource.UID != "${datasource}" {
				t.Errorf("%s uses the data source %s", p.Title, target.Datasource.UID)
			}
			if target.LegendFormat == "" {
				t.Errorf("%s: %s has no legend", p.Title, target.Expr)
			}
		}
		if p.GridPos.X < 0 || p.GridPos.W < 1 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s does not fit the grid: %+v", p.Title, p.GridPos)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("%s covers %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// TestDashboardShowsEveryMetric checks that no metric of the contract is left out.
func TestDashboardShowsEveryMetric(t *testing.T) {
	var asked []string
	for _, q := range append(dashboardQueries(t), ruleQueries(t)...) {
		asked = append(asked, q.expr)
	}
	for _, metric := range []string{
		"elastalloc_solve_duration_seconds_", "elastalloc_relative_gap_", "elastalloc_gain_over_greedy_ratio_",
		"elastalloc_fallbacks_total", "elastalloc_snapshot_jobs_", "elastalloc_snapshot_nodes_",
		"elastalloc_inflight_requests", "elastalloc_shed_total", "elastalloc_backend_up", "elastalloc_build_info",
		"grpc_server_handled_total", "grpc_server_handling_seconds_", "go_goroutines", "process_resident_memory_bytes",
	} {
		if !slices.ContainsFunc(asked, func(expr string) bool { return strings.Contains(expr, metric) }) {
			t.Errorf("no query uses %s", metric)
		}
	}
}
