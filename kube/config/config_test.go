package config_test

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"
	"sigs.k8s.io/yaml"

	"github.com/elastalloc/elastalloc/kube/config"
)

func known() []string { return []string{"Job", "JobSet"} }

func TestDefaults(t *testing.T) {
	t.Parallel()
	got, err := config.Parse([]byte("pools: [{name: training, nodeSelector: {pool: training}}]"), known())
	if err != nil {
		t.Fatal(err)
	}
	want := &config.Config{Kinds: []string{"Job"}, Pools: []config.Pool{{
		Name: "training", NodeSelector: map[string]string{"pool": "training"}, Unit: "nvidia.com/gpu", Count: config.CountNodes,
		Cadence: 5 * time.Minute, Debounce: 10 * time.Second, MinInterval: 10 * time.Minute, Restart: 2 * time.Minute, SettleTimeout: time.Minute,
		NodeGracePeriod: 2 * time.Minute,
		MaxShrink:       0.3, MaxShrinkNodes: 2, Objective: config.TotalTime, RemainingIn: config.Seconds,
	}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v; want %+v", got, want)
	}
}

// everyField is a configuration that sets all there is.
const everyField = `
kinds: [Job, JobSet]
prometheus: http://prometheus:9090
pools:
  - name: training
    nodeSelector: {pool: training}
    tolerations: [{key: gpu, operator: Exists}]
    unit: amd.com/gpu
    count: nodes
    cadence: 2m
    debounce: 0s
    minInterval: 0s
    restart: 45s
    settleTimeout: 90s
    nodeGracePeriod: 3m
    maxShrink: 50%
    maxShrinkNodes: 0
    objective: total-time
    remainingQuery: training_progress_ratio
    remainingIn: ratio
    paused: true
    namespaces: [vision, speech]
    maxNodes: 64
    nodePrice: 0.5
    groups: [{name: research, limit: 8}, {name: vision, parent: research, namespaces: [vision], quota: 2, limit: 4, maxWeight: 10}]
`

func TestEveryField(t *testing.T) {
	t.Parallel()
	got, err := config.Parse([]byte(everyField), known())
	if err != nil {
		t.Fatal(err)
	}
	p := got.Pools[0]
	if p.Unit != "amd.com/gpu" || p.Cadence != 2*time.Minute || p.Debounce != 0 || p.MinInterval != 0 || p.Restart != 45*time.Second ||
		p.SettleTimeout != 90*time.Second || p.MaxShrink != 0.5 || p.MaxShrinkNodes != 0 ||
		p.Objective != config.TotalTime || len(p.Namespaces) != 2 || *p.Groups[1].Limit != 4 ||
		p.RemainingQuery != "training_progress_ratio" || p.RemainingIn != config.Ratio || !p.Paused || p.MaxNodes != 64 || p.NodePrice != 0.5 ||
		p.Tolerations[0].Key != "gpu" || got.Prometheus != "http://prometheus:9090" || len(got.Kinds) != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestOneErrorNamesEveryBadField(t *testing.T) {
	t.Parallel()
	_, err := config.Parse([]byte(`
kinds: [Job, CronJob, Job]
prometheus: prometheus:9090
color: red
pools:
  - name: training
    nodeSelector: {pool: training, "a b": c}
    cadence: 5
    debounce: -1s
    minInterval: soon
    restart: -1s
    settleTimeout: 0s
    maxShrink: 130%
    maxShrinkNodes: -1
    objective: fairness
    remainingIn: minutes
    minIntervall: 5m
    count: gpus
    unit: a/b/c
    tolerations: [{key: gpu, operator: Exist, effect: NoRun}]
  - name: training
    maxShrink: NaN
    remainingQuery: up
  - nodeSelector: {pool: other}
    nodePrice: 1
    groups:
    - {name: a, parent: b, namespaces: [x]}
    - {name: b, parent: a, namespaces: [z]}
    - {name: b, parent: nobody, namespaces: [x], quota: -1}
    - {maxWeight: -1}
`), known())
	if err == nil {
		t.Fatal("it is read without an error")
	}
	want := []string{
		`"color"`, `"pools[0].minIntervall"`, `kinds[1]: unknown kind "CronJob"; must be one of Job, JobSet`, "kinds[2]:", "prometheus:",
		"pools[0].cadence:", "pools[0].debounce:", "pools[0].minInterval:", "pools[0].restart:",
		"pools[0].settleTimeout:", "pools[0].maxShrink:", "pools[0].maxShrinkNodes:",
		`pools[0].nodeSelector["a b"]:`, "pools[0].unit:", "pools[0].count:", "pools[0].tolerations[0].operator:",
		"pools[0].tolerations[0].effect:", "pools[0].objective:", "pools[0].remainingIn:",
		"pools[1].maxShrink:", "pools[1].nodeSelector:", "pools[1].name:", "pools[2].name:", "pools[2].maxNodes:",
		"pools[2].groups[0].namespaces: is set; must be empty", "pools[2].groups[0].parent: is nested more",
		"pools[2].groups[1].namespaces: is set; must be empty",
		"pools[2].groups[1].parent: is nested more", "pools[2].groups[2].name:", "pools[2].groups[2].namespaces: is set; must be empty",
		`pools[2].groups[2].namespaces: "x" is also in group "a"`, "pools[2].groups[2].parent: unknown", "pools[2].groups[2]: has",
		"pools[2].groups[3].name:", "pools[2].groups[3]: has",
	}
	for _, field := range want {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("error does not name %s: %v", field, err)
		}
	}
	if all := 1 + strings.Count(err.Error(), "; ") - strings.Count(err.Error(), "; must"); all != len(want) {
		t.Errorf("%d bad fields; want %d: %v", all, len(want), err)
	}
}

// TestCountUnits: a pool may count units if its decisions may have size limits.
func TestCountUnits(t *testing.T) {
	t.Parallel()
	for more, want := range map[string]string{
		"":                               "",
		"objective: progress":            "pools[0].count: is units; needs the objective total-time and a unit",
		"groups: [{name: a}]":            "",
		"maxNodes: 8":                    "",
		"unit: cpu":                      "pools[0].count: is units; needs",
		"paused: false}]\nkueue: true #": "",
	} {
		c, err := config.Parse([]byte("pools: [{name: a, nodeSelector: {pool: x}, count: units, "+more+"}]"), known())
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: error %v; want %q", more, err, want)
		case want == "" && (err != nil || !c.Pools[0].CountsUnits() || c.Pools[0].UnitName() != "GPU"):
			t.Errorf("%q: %+v, error %v", more, c, err)
		}
	}
}

// TestNodeTypes checks the errors about node types, and what the types of a pool are.
func TestNodeTypes(t *testing.T) {
	t.Parallel()
	const both = "{name: a100, labels: {gpu: a100}}, {name: h100, labels: {gpu: h100, link: fast}, speed: 2.2}"
	for more, want := range map[string]string{
		"nodeTypes: [" + both + "]":                                             "",
		"nodeTypes: [" + both + "], count: units":                               "",
		"nodeTypes: [" + both + "], groups: [{name: a, typeLimits: {h100: 0}}]": "",
		"nodeTypes: [" + both +
			"], groups: [{name: a, typeLimits: {tpu: 1}}]": `pools[0].groups[0].typeLimits["tpu"]: is no node type of the pool`,
		"nodeTypes: [" + both +
			"], groups: [{name: a, typeLimits: {h100: -1}}]": `pools[0].groups[0].typeLimits["h100"]: is -1; must be at least 0`,
		"groups: [{name: a, typeLimits: {h100: 1}}]": `pools[0].groups[0].typeLimits["h100"]: ` +
			`is no node type of the pool`,
		"nodeTypes: [" + both + "], maxNodes: 8":         "pools[0].nodeTypes: is set together with maxNodes",
		"nodeTypes: [" + both + "], objective: progress": "pools[0].nodeTypes: needs the objective total-time",
		"nodeTypes: [" + both +
			", {name: h100, labels: {gpu: x}}]": `pools[0].nodeTypes[2].name: is "h100"; must be a unique name`,
		"nodeTypes: [{labels: {gpu: x}}]": `pools[0].nodeTypes[0].name: ` +
			`is ""; must be a unique name`,
		`nodeTypes: [{name: "a=b", labels: {gpu: x}}]`: `pools[0].nodeTypes[0].name: is "a=b": a valid label must`,
		"nodeTypes: [{name: a}]":                       "pools[0].nodeTypes[0].labels: is empty",
		`nodeTypes: [{name: a, labels: {"b c": x}}]`:   `pools[0].nodeTypes[0].labels["b c"]: name part must`,
		"nodeTypes: [{name: a, labels: {pool: z}}]": `pools[0].nodeTypes[0].labels["pool"]: ` +
			`is in nodeSelector, too`,
		"nodeTypes: [{name: a, labels: {gpu: " +
			"x}, speed: 0}]": "pools[0].nodeTypes[0].speed: is 0; must be greater than 0",
		"nodeTypes: [{name: a, labels: {gpu: x}}, {name: b, labels: {gpu: x, link: z}}]": "pools[0].nodeTypes[1].labels: " +
			"is map[gpu:x link:z], which selects nodes of pools[0].nodeTypes[0]",
		"nodeTypes: [{name: a, labels: {gpu: x}}, {name: b, labels: {link: z}}]":  "pools[0].nodeTypes[1].labels: is map[link:z], which selects",
		"nodeTypes: [" + strings.Repeat("{name: a, labels: {gpu: x}}, ", 9) + "]": "pools[0].nodeTypes: has 9 types; must have at most 8",
		"nodeTypes: [{name: a, labels: {gpu: x}, color: red}]":                    `unknown field "pools[0].nodeTypes[0].color"`,
	} {
		_, err := config.Parse([]byte("pools: [{name: a, nodeSelector: {pool: x}, "+more+"}]"), known())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: error %v; want %q", more, err, want)
		}
	}
	c, err := config.Parse([]byte("pools: [{name: a, nodeSelector: {pool: x}, nodeTypes: ["+both+"]}]"), known())
	if err != nil {
		t.Fatal(err)
	}
	p := &c.Pools[0]
	if p.SpeedOf("a100") != 1 || p.SpeedOf("h100") != 2.2 || !slices.Equal(p.TypeNames(), []string{"a100", "h100"}) {
		t.Errorf("the types are %+v", p.NodeTypes)
	}
	for _, test := range []struct {
		labels map[string]string
		want   string
	}{
		{map[string]string{"gpu": "a100", "link": "fast"}, "a100"}, {map[string]string{"gpu": "h100"}, ""},
		{map[string]string{"gpu": "h100", "link": "fast", "zone": "b"}, "h100"}, {nil, ""},
	} {
		if got := p.TypeOf(test.labels); got != test.want {
			t.Errorf("the type of %v is %q; want %q", test.labels, got, test.want)
		}
	}
	from := map[string]string{"gpu": "h100", "link": "fast", "zone": "b"}
	if got := p.Select(from, "a100"); !maps.Equal(got, map[string]string{"gpu": "a100", "zone": "b"}) || len(from) != 3 {
		t.Errorf("the selector is %v, and the original %v", got, from)
	}
}

// TestPoolsApart: a node that two pools count would be given away twice.
func TestPoolsApart(t *testing.T) {
	t.Parallel()
	pools := func(a, b string) error {
		_, err := config.Parse([]byte("pools: [{name: a, "+a+"}, {name: b, "+b+"}]"), known())
		return err
	}
	for _, b := range []string{"nodeSelector: {pool: x}", "nodeSelector: {pool: x, zone: z}"} {
		for _, err := range []error{pools("nodeSelector: {pool: x}", b), pools(b, "nodeSelector: {pool: x}")} {
			if err == nil || !strings.Contains(err.Error(), "pools[1].nodeSelector: ") {
				t.Errorf("pools of %q and of {pool: x}: error %v", b, err)
			}
		}
	}
	for _, b := range []string{"nodeSelector: {pool: w, zone: z}", "nodeSelector: {zone: z}", "nodeSelector: {pool: x}, unit: amd.com/gpu"} {
		if err := pools("nodeSelector: {pool: x}", b); err != nil {
			t.Errorf("pools of %q and of {pool: x}: %v", b, err)
		}
	}
}

// TestChartKnowsEveryField: the chart's values refuse the same fields of a pool.
func TestChartKnowsEveryField(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/helm/elastalloc-controller/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Definitions struct {
			Pool struct {
				AdditionalProperties *bool
				Properties           map[string]any
			}
		}
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	pool := schema.Definitions.Pool
	if pool.AdditionalProperties == nil || *pool.AdditionalProperties {
		t.Error("the schema takes unknown fields")
	}
	var file struct{ Pools []map[string]any }
	if err := yaml.Unmarshal([]byte(everyField), &file); err != nil {
		t.Fatal(err)
	}
	file.Pools[0]["nodeTypes"] = nil // They exclude maxNodes.
	got, want := slices.Sorted(maps.Keys(pool.Properties)), slices.Sorted(maps.Keys(file.Pools[0]))
	if !slices.Equal(got, want) {
		t.Errorf("the schema has %q; want %q", got, want)
	}
	if n := reflect.TypeFor[config.Pool]().NumField(); n != len(want) {
		t.Errorf("this test knows %d fields of a pool; it has %d", len(want), n)
	}
}

func TestNoConfiguration(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "kinds: []", "pools: 3", "- 1", "pools: [", "a: 1\na: 2"} {
		if c, err := config.Parse([]byte(text), known()); err == nil {
			t.Errorf("%q gives %+v", text, c)
		}
	}
}

// TestWrongTypes checks that the error names the field if a value has the wrong type, for example if YAML reads the
// namespace n as false.
func TestWrongTypes(t *testing.T) {
	t.Parallel()
	for more, want := range map[string]string{
		"groups: [{name: t, namespaces: [n]}]":     "pools.groups.namespaces: is a bool; must be text in quotes",
		"groups: [{name: t, quota: many}]":         "pools.groups.quota: is a string; must be a number",
		"nodeTypes: [{name: a, labels: {gpu: 3}}]": "pools.nodeTypes.labels: is a number; must be text in quotes",
		"paused: 2": "pools.paused: is a number; must be true or false",
	} {
		_, err := config.Parse([]byte("pools: [{name: a, nodeSelector: {pool: x}, "+more+"}]"), known())
		if err == nil || err.Error() != "parse configuration: "+want {
			t.Errorf("%s: %v; want %q", more, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("pools: [{name: a, nodeSelector: {b: c}, maxShrink: 0.5, cadence: 5m}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Parse(data, known())
		if err != nil {
			return
		}
		for _, p := range c.Pools {
			if p.Name == "" || p.Cadence < time.Second || p.MaxShrink < 0 || p.MaxShrink > 1 {
				t.Errorf("%q gives %+v", data, p)
			}
		}
	})
}

// TestPrometheus reads the credentials and the TLS settings for a Prometheus.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	parse := func(prometheus string) (*config.Config, error) {
		return config.Parse([]byte("prometheus: "+prometheus+"\npools: [{name: training, nodeSelector: {pool: training}}]"), known())
	}
	for text, check := range map[string]func(promconfig.HTTPClientConfig) bool{
		"{address: 'https://a', bearerTokenFile: /t}": func(c promconfig.HTTPClientConfig) bool {
			return c.Authorization.CredentialsFile == "/t"
		},
		"{address: 'https://a', basicAuth: {username: u, passwordFile: /p}}": func(c promconfig.HTTPClientConfig) bool {
			return c.BasicAuth.Username == "u" && c.BasicAuth.PasswordFile == "/p"
		},
		"{address: 'https://a', tls: {caFile: /ca, certFile: /c, keyFile: /k, serverName: prom}}": func(c promconfig.HTTPClientConfig) bool {
			return c.TLSConfig.CAFile == "/ca" && c.TLSConfig.ServerName == "prom"
		},
		"https://a": func(c promconfig.HTTPClientConfig) bool { return c.Authorization == nil && c.BasicAuth == nil },
	} {
		got, err := parse(text)
		if err != nil || got.Prometheus != "https://a" || !check(got.PrometheusClient) {
			t.Errorf("%s is %+v, error %v", text, got, err)
		}
		if err == nil && got.PrometheusClient.Validate() != nil {
			t.Errorf("%s: %v", text, got.PrometheusClient.Validate())
		}
	}
	for text, want := range map[string]string{
		"{bearerTokenFile: /t}": "prometheus.address: is missing",
		"{address: 'https://a', bearerTokenFile: /t, basicAuth: {username: u}}": "both bearerTokenFile and basicAuth",
		"{address: 'https://a', basicAuth: {password: p}}":                      "must have exactly one of username and usernameFile",
		"{address: 'https://a', tls: {certFile: /c}}":                           "must have both or neither",
		"{address: 'https://a', tls_config: {}}":                                "tls_config",
		"{address: a}":                                                          `is "a"`,
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v; want %q", text, err, want)
		}
	}
}
