// Package config reads the configuration file of elastalloc-controller.
package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	promconfig "github.com/prometheus/common/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Config is the configuration of the controller.
type Config struct {
	Kinds      []string // kinds of jobs to watch, such as "Job"; their CRDs must be installed
	Prometheus string   // address of the Prometheus server for the pools' queries, "" for none
	// PrometheusClient contains the credentials and TLS settings for Prometheus.
	PrometheusClient promconfig.HTTPClientConfig
	Kueue            bool // Kueue is installed and admits jobs with a queue
	Pools            []Pool
}

// Objective is the objective that the decisions of a pool optimize.
type Objective string

// The objectives of a pool.
const (
	TotalTime Objective = "total-time" // OBJECTIVE_TOTAL_TIME of the API
	Progress  Objective = "progress"   // OBJECTIVE_PROGRESS of the API
)

// Count is what the decisions of a pool count.
type Count string

// The values of Count.
const (
	CountNodes Count = "nodes" // nodes, each of which runs one pod that requests all of its units
	CountUnits Count = "units" // units of the pool's nodes; pods request one to all units of a node
)

// Pool is a set of identical nodes that elastic jobs share. The configuration file has durations and
// fractions as text with a unit, such as 5m and 30%.
type Pool struct {
	Name         string            `json:"name"`         // value of the label elastalloc.dev/pool on the pool's jobs
	NodeSelector map[string]string `json:"nodeSelector"` // labels of the pool's nodes
	// Tolerations are the taints that the pool's jobs tolerate. Nodes with other taints do not accept pods.
	Tolerations []corev1.Toleration `json:"tolerations"`
	// Unit is the resource that pods request to occupy a node. The default is nvidia.com/gpu.
	Unit string `json:"unit"`
	// Count is what a decision allocates: whole nodes, or units of Unit. The default is nodes.
	Count       Count         `json:"count"`
	Cadence     time.Duration `json:"-"` // maximum time between two decisions
	Debounce    time.Duration `json:"-"` // time between an event and a decision
	MinInterval time.Duration `json:"-"` // minimum time between two resizes of one job
	// Restart is the training time that a resize costs a job without the annotation restart.
	Restart       time.Duration `json:"-"`
	SettleTimeout time.Duration `json:"-"` // time for pods to start, and to terminate after their grace period
	// NodeGracePeriod is the time for which a node that stopped accepting pods is expected to return.
	NodeGracePeriod time.Duration `json:"-"`
	// MaxShrink is the fraction of the nodes in use that may be lost at once, and MaxShrinkNodes a number of nodes that
	// may be lost in any case, unless they are all nodes in use. If more nodes are lost, the controller assumes an
	// outage.
	MaxShrink      float64   `json:"-"`
	MaxShrinkNodes int       `json:"-"`
	Objective      Objective `json:"objective"`
	// RemainingQuery is a PromQL query for the jobs' remaining time, "" for none.
	RemainingQuery string        `json:"remainingQuery"`
	RemainingIn    RemainingUnit `json:"remainingIn"` // unit of the query's results
	Paused         bool          `json:"paused"`      // make no decisions and no writes
	Namespaces     []string      `json:"namespaces"`  // namespaces whose jobs may use the pool, nil for all
	// Groups share the pool, nil for none. If the pool has groups, a job belongs to the group that lists
	// its namespace.
	Groups    []Group `json:"groups"`
	MaxNodes  int     `json:"maxNodes"`  // maximum number of nodes with an autoscaler, 0 without one
	NodePrice float64 `json:"nodePrice"` // job-hours that an additional node-hour must save
	// NodeTypes are the types of the pool's nodes, nil if they are identical. A node without the labels of a type accepts
	// no pods of the pool's jobs.
	NodeTypes []NodeType `json:"nodeTypes"`
}

// NodeType is a type of the nodes of a pool, for example all nodes with A100 GPUs.
type NodeType struct {
	Name string `json:"name"` // unique name, as in decisions and annotations
	// Labels are the labels of its nodes. The pods of a job that runs on the type select them.
	Labels map[string]string `json:"labels"`
	// Speed is the training speed of one node, or of one unit, relative to the reference on which the remaining times of
	// jobs are given; nil means 1.
	Speed *float64 `json:"speed"`
}

// MaxNodeTypes is the maximum number of node types of a pool, as in the API.
const MaxNodeTypes = 8

// TypeOf returns the node type whose labels a set of labels contains, "" if it contains the labels of no type.
func (p *Pool) TypeOf(set map[string]string) string {
	for i := range p.NodeTypes {
		if labels.SelectorFromSet(p.NodeTypes[i].Labels).Matches(labels.Set(set)) {
			return p.NodeTypes[i].Name
		}
	}
	return ""
}

// TypeNames returns the names of the node types, and one empty name for a pool of identical nodes.
func (p *Pool) TypeNames() []string {
	if len(p.NodeTypes) == 0 {
		return []string{""}
	}
	var names []string
	for i := range p.NodeTypes {
		names = append(names, p.NodeTypes[i].Name)
	}
	return names
}

// SpeedOf returns the speed of a node type, 1 if the pool does not have the type.
func (p *Pool) SpeedOf(nodeType string) float64 {
	for i := range p.NodeTypes {
		if p.NodeTypes[i].Name == nodeType {
			return ptr.Deref(p.NodeTypes[i].Speed, 1)
		}
	}
	return 1
}

// Select returns a node selector that selects nodes of a type, and is otherwise the same as a given one.
func (p *Pool) Select(selector map[string]string, nodeType string) map[string]string {
	changed := maps.Clone(selector)
	if changed == nil {
		changed = make(map[string]string)
	}
	for i := range p.NodeTypes {
		for key := range p.NodeTypes[i].Labels {
			delete(changed, key)
		}
	}
	for i := range p.NodeTypes {
		if p.NodeTypes[i].Name == nodeType {
			maps.Copy(changed, p.NodeTypes[i].Labels)
		}
	}
	return changed
}

// CountsUnits reports whether decisions allocate units, not whole nodes.
func (p *Pool) CountsUnits() bool { return p.Count == CountUnits }

// UnitName returns what texts call one unit of allocation: "node", "GPU" or "unit".
func (p *Pool) UnitName() string {
	switch {
	case !p.CountsUnits():
		return "node"
	case strings.HasSuffix(p.Unit, "/gpu"):
		return "GPU"
	}
	return "unit"
}

// BaseName returns what texts call the allocation on which the remaining time of a job is given: "node" or "pod".
func (p *Pool) BaseName() string {
	if p.CountsUnits() {
		return "pod"
	}
	return "node"
}

// Group is a team, or a group of teams, that shares a pool with other groups.
type Group struct {
	Name   string `json:"name"`
	Parent string `json:"parent"` // name of the group that contains it, "" for none
	// Namespaces are the namespaces of the group's jobs. Only groups that contain no group have namespaces.
	Namespaces []string `json:"namespaces"`
	// Quota is the number of nodes, or of units if the pool counts units, that the group's jobs should get. Limit is
	// the maximum number that they may occupy, nil for no limit.
	Quota int  `json:"quota"`
	Limit *int `json:"limit"`
	// TypeLimits are the maximum numbers on single node types, by the name of the type.
	TypeLimits map[string]int `json:"typeLimits"`
	MaxWeight  float64        `json:"maxWeight"` // maximum weight of a job in the group, 0 for no limit
}

// GroupOf returns the group of a namespace, nil if the namespace has none.
func (p *Pool) GroupOf(namespace string) *Group {
	for i := range p.Groups {
		if slices.Contains(p.Groups[i].Namespaces, namespace) {
			return &p.Groups[i]
		}
	}
	return nil
}

// Within returns the name of a namespace's group and of all groups that contain it.
func (p *Pool) Within(namespace string) []string {
	if g := p.GroupOf(namespace); g != nil {
		return p.chain(g.Name)
	}
	return nil
}

// chain returns the name of a group and of the groups that contain it, at most maxDepth names.
func (p *Pool) chain(name string) []string {
	var names []string
	for len(names) < maxDepth {
		i := slices.IndexFunc(p.Groups, func(g Group) bool { return g.Name == name && name != "" })
		if i < 0 {
			break
		}
		names = append(names, name)
		name = p.Groups[i].Parent
	}
	return names
}

// maxDepth is the maximum nesting depth of groups in the API.
const maxDepth = 4

// RemainingUnit is the unit of the results of a RemainingQuery.
type RemainingUnit string

// The units of a RemainingQuery.
const (
	Seconds RemainingUnit = "seconds" // seconds until completion at the job's current size
	Ratio   RemainingUnit = "ratio"   // completed fraction of the work, 0 to 1
)

// Defaults of fields that the configuration file does not set.
const (
	DefaultUnit            = "nvidia.com/gpu"
	DefaultCadence         = 5 * time.Minute
	DefaultDebounce        = 10 * time.Second
	DefaultMinInterval     = 10 * time.Minute
	DefaultRestart         = 2 * time.Minute
	DefaultSettleTimeout   = time.Minute
	DefaultNodeGracePeriod = 2 * time.Minute
	DefaultMaxShrink       = 0.3
	DefaultMaxShrinkNodes  = 2
)

// scalar is the text of a string or number in the configuration file.
type scalar string

// UnmarshalJSON decodes a string or a number.
func (s *scalar) UnmarshalJSON(data []byte) error {
	text := string(data)
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	*s = scalar(text)
	return nil
}

// file is the format of the configuration file.
type file struct {
	Kinds      []string       `json:"kinds"`
	Prometheus prometheusFile `json:"prometheus"`
	Kueue      bool           `json:"kueue"`
	Pools      []poolFile     `json:"pools"`
}

// poolFile is a pool whose fields with units are not parsed yet.
type poolFile struct {
	Pool

	Cadence         scalar `json:"cadence"`
	Debounce        scalar `json:"debounce"`
	MinInterval     scalar `json:"minInterval"`
	Restart         scalar `json:"restart"`
	SettleTimeout   scalar `json:"settleTimeout"`
	NodeGracePeriod scalar `json:"nodeGracePeriod"`
	MaxShrink       scalar `json:"maxShrink"`
	MaxShrinkNodes  *int   `json:"maxShrinkNodes"`
}

// Parse parses a configuration in YAML or JSON for a controller that supports the given kinds. The error
// names all invalid fields, unless the text is not YAML or a field has the wrong type.
func Parse(data []byte, knownKinds []string) (*Config, error) {
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("parse configuration: %w", err)
	}
	var f file
	unknown, err := sigsjson.UnmarshalStrict(asJSON, &f)
	if err != nil {
		return nil, fmt.Errorf("parse configuration: %w", describeType(err, asJSON))
	}
	c := &checker{}
	for _, field := range unknown {
		c.fields = append(c.fields, field.Error())
	}
	config := c.config(&f, knownKinds)
	if len(c.fields) > 0 {
		return nil, errors.New("bad configuration: " + strings.Join(c.fields, "; "))
	}
	return config, nil
}

// describeType returns an error that names a field with the wrong type and its type. It returns err if there is no such
// field.
func describeType(err error, text []byte) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(json.Unmarshal(text, new(file)), &wrong) || wrong.Field == "" {
		return err
	}
	kinds := map[reflect.Kind]string{
		reflect.String: "text", reflect.Bool: "true or false", reflect.Slice: "a list", reflect.Map: "an object", reflect.Struct: "an object",
	}
	must := cmp.Or(kinds[wrong.Type.Kind()], "a number")
	if must == "text" {
		must += " in quotes" // YAML reads n, no, off, y, yes and on as true or false.
	}
	field := strings.ReplaceAll(wrong.Field, ".Pool.", ".") // Pool is embedded.
	return fmt.Errorf("%s: is a %s; must be %s", field, wrong.Value, must)
}

// checker collects the errors of a configuration file.
type checker struct{ fields []string }

func (c *checker) bad(path, format string, args ...any) {
	c.fields = append(c.fields, path+": "+fmt.Sprintf(format, args...))
}

func (c *checker) config(f *file, knownKinds []string) *Config {
	config := &Config{Kinds: f.Kinds, Prometheus: f.Prometheus.Address, PrometheusClient: c.prometheus(&f.Prometheus), Kueue: f.Kueue}
	if f.Kinds == nil {
		config.Kinds = []string{"Job"}
	}
	for i, kind := range config.Kinds {
		path := fmt.Sprintf("kinds[%d]", i)
		if !slices.Contains(knownKinds, kind) {
			c.bad(path, "unknown kind %q; must be one of %s", kind, strings.Join(knownKinds, ", "))
		} else if slices.Contains(config.Kinds[:i], kind) {
			c.bad(path, "%q is listed twice", kind)
		}
	}
	if f.Kinds != nil && len(f.Kinds) == 0 {
		c.bad("kinds", "is empty; must have at least one kind")
	}
	if len(f.Pools) == 0 {
		c.bad("pools", "is empty; must have at least one pool")
	}
	names := make(map[string]bool)
	for i := range f.Pools {
		path := fmt.Sprintf("pools[%d]", i)
		p := c.pool(path, &f.Pools[i])
		if names[p.Name] {
			c.bad(path+".name", "is %q, which is the name of another pool", p.Name)
		}
		names[p.Name] = true
		for j, other := range config.Pools {
			a, b := labels.SelectorFromSet(p.NodeSelector), labels.SelectorFromSet(other.NodeSelector)
			// An empty selector matches all nodes and has its own error.
			if p.Unit == other.Unit &&
				(!a.Empty() && a.Matches(labels.Set(other.NodeSelector)) || !b.Empty() && b.Matches(labels.Set(p.NodeSelector))) {
				c.bad(path+".nodeSelector", "selects nodes of pools[%d]; must not overlap with other pools", j)
			}
		}
		if p.RemainingQuery != "" && f.Prometheus.Address == "" {
			c.bad(path+".remainingQuery", "needs the field prometheus, the address of the Prometheus server")
		}
		config.Pools = append(config.Pools, p)
	}
	return config
}

func (c *checker) pool(path string, f *poolFile) Pool {
	p := f.Pool
	p.Unit, p.Objective, p.RemainingIn = cmp.Or(p.Unit, DefaultUnit), cmp.Or(p.Objective, TotalTime), cmp.Or(p.RemainingIn, Seconds)
	p.Count = cmp.Or(p.Count, CountNodes)
	p.Cadence = c.duration(path+".cadence", f.Cadence, DefaultCadence, time.Second)
	p.Debounce = c.duration(path+".debounce", f.Debounce, DefaultDebounce, 0)
	p.MinInterval = c.duration(path+".minInterval", f.MinInterval, DefaultMinInterval, 0)
	p.Restart = c.duration(path+".restart", f.Restart, DefaultRestart, 0)
	p.SettleTimeout = c.duration(path+".settleTimeout", f.SettleTimeout, DefaultSettleTimeout, time.Second)
	p.NodeGracePeriod = c.duration(path+".nodeGracePeriod", f.NodeGracePeriod, DefaultNodeGracePeriod, 0)
	p.MaxShrink = c.share(path+".maxShrink", f.MaxShrink, DefaultMaxShrink)
	if p.MaxShrinkNodes = ptr.Deref(f.MaxShrinkNodes, DefaultMaxShrinkNodes); p.MaxShrinkNodes < 0 {
		c.bad(path+".maxShrinkNodes", "is %d; must be at least 0", p.MaxShrinkNodes)
	}
	if p.Name == "" {
		c.bad(path+".name", "is missing; must be set")
	}
	for _, problem := range validation.IsValidLabelValue(p.Name) {
		c.bad(path+".name", "%s", problem)
	}
	if len(p.NodeSelector) == 0 {
		c.bad(path+".nodeSelector", "is empty; must have the labels of the pool's nodes")
	}
	for key, value := range p.NodeSelector {
		for _, problem := range slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)) {
			c.bad(fmt.Sprintf("%s.nodeSelector[%q]", path, key), "%s", problem)
		}
	}
	operators := []corev1.TolerationOperator{"", corev1.TolerationOpExists, corev1.TolerationOpEqual}
	effects := []corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	for i, t := range p.Tolerations {
		if !slices.Contains(operators, t.Operator) {
			c.bad(fmt.Sprintf("%s.tolerations[%d].operator", path, i), "is %q; must be Exists or Equal", t.Operator)
		}
		if !slices.Contains(effects, t.Effect) {
			c.bad(fmt.Sprintf("%s.tolerations[%d].effect", path, i), "is %q; must be NoSchedule, PreferNoSchedule or NoExecute", t.Effect)
		}
	}
	if problems := validation.IsQualifiedName(p.Unit); len(problems) > 0 {
		c.bad(path+".unit", "%q is not a resource name: %s", p.Unit, strings.Join(problems, ", "))
	}
	c.count(path+".count", &p)
	if p.Objective != TotalTime && p.Objective != Progress {
		c.bad(path+".objective", "unknown objective %q; must be one of %s, %s", p.Objective, TotalTime, Progress)
	}
	if p.RemainingIn != Seconds && p.RemainingIn != Ratio {
		c.bad(path+".remainingIn", "is %q; must be %s or %s", p.RemainingIn, Seconds, Ratio)
	}
	if p.MaxNodes < 0 || !(p.NodePrice >= 0) || (p.MaxNodes > 0 || p.NodePrice > 0) &&
		p.Objective == Progress || p.NodePrice > 0 && p.MaxNodes == 0 {
		c.bad(path+".maxNodes",
			"is %d with a nodePrice of %v; must both be at least 0, nodePrice needs maxNodes, and maxNodes needs the objective %s",
			p.MaxNodes, p.NodePrice, TotalTime)
	}
	c.nodeTypes(path+".nodeTypes", &p)
	c.groups(path+".groups", &p)
	return p
}

// count checks that decisions of a pool that counts units may have size limits.
func (c *checker) count(path string, p *Pool) {
	switch {
	case p.Count == CountNodes:
	case p.Count != CountUnits:
		c.bad(path, "is %q; must be %s or %s", p.Count, CountNodes, CountUnits)
	case p.Objective == Progress || !strings.Contains(p.Unit, "/"):
		c.bad(path, "is %s; needs the objective %s and a unit such as %s", p.Count, TotalTime, DefaultUnit)
	}
}

// nodeTypes checks the node types of a pool.
func (c *checker) nodeTypes(path string, p *Pool) {
	switch n := len(p.NodeTypes); {
	case n == 0:
		return
	case n > MaxNodeTypes:
		c.bad(path, "has %d types; must have at most %d", n, MaxNodeTypes)
	case p.Objective == Progress:
		c.bad(path, "needs the objective %s", TotalTime)
	case p.MaxNodes > 0:
		c.bad(path, "is set together with maxNodes; only one of them must be set")
	}
	for i, t := range p.NodeTypes {
		at := fmt.Sprintf("%s[%d]", path, i)
		if t.Name == "" || slices.ContainsFunc(p.NodeTypes[:i], func(other NodeType) bool { return other.Name == t.Name }) {
			c.bad(at+".name", "is %q; must be a unique name", t.Name)
		}
		for _, problem := range validation.IsValidLabelValue(t.Name) {
			c.bad(at+".name", "is %q: %s", t.Name, problem)
		}
		if speed := ptr.Deref(t.Speed, 1); !(speed > 0 && speed <= maxSpeed) {
			c.bad(at+".speed", "is %v; must be greater than 0 and at most %v", speed, maxSpeed)
		}
		if len(t.Labels) == 0 {
			c.bad(at+".labels", "is empty; must have the labels of the nodes of the type")
		}
		for _, key := range slices.Sorted(maps.Keys(t.Labels)) {
			for _, problem := range slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(t.Labels[key])) {
				c.bad(fmt.Sprintf("%s.labels[%q]", at, key), "%s", problem)
			}
			if _, both := p.NodeSelector[key]; both {
				c.bad(fmt.Sprintf("%s.labels[%q]", at, key), "is in nodeSelector, too; must be another label")
			}
		}
		for j, other := range p.NodeTypes[:i] {
			differs := func(key string) bool { value, both := other.Labels[key]; return both && value != t.Labels[key] }
			if len(t.Labels) > 0 && len(other.Labels) > 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(t.Labels)), differs) {
				c.bad(at+".labels", "is %v, which selects nodes of %s[%d]; must have another value of one of its labels %v",
					t.Labels, path, j, other.Labels)
			}
		}
	}
}

// maxSpeed is the maximum speed of a node type in the API.
const maxSpeed = 1e9

// groups checks the groups of a pool.
func (c *checker) groups(path string, p *Pool) {
	if len(p.Groups) > 0 && p.Objective == Progress {
		c.bad(path, "needs the objective %s", TotalTime)
	}
	owner := make(map[string]string)
	for i, g := range p.Groups {
		at := fmt.Sprintf("%s[%d]", path, i)
		if first := slices.IndexFunc(p.Groups, func(other Group) bool { return other.Name == g.Name }); g.Name == "" || first < i {
			c.bad(at+".name", "is %q; must be a unique name", g.Name)
		}
		if g.Parent != "" && p.chain(g.Parent) == nil {
			c.bad(at+".parent", "unknown group %q", g.Parent)
		}
		if len(g.Namespaces) > 0 && slices.ContainsFunc(p.Groups, func(other Group) bool { return other.Parent == g.Name }) {
			c.bad(at+".namespaces", "is set; must be empty because other groups are part of this group")
		}
		for _, namespace := range g.Namespaces {
			if owner[namespace] != "" {
				c.bad(at+".namespaces", "%q is also in group %q", namespace, owner[namespace])
			}
			owner[namespace] = g.Name
		}
		if len(p.chain(g.Parent)) >= maxDepth {
			c.bad(at+".parent", "is nested more than %d groups deep or in itself", maxDepth)
		}
		if g.Quota < 0 || g.Limit != nil && *g.Limit < 0 || !(g.MaxWeight >= 0) {
			c.bad(at, "has a negative quota, limit or maxWeight; must be at least 0")
		}
		for _, name := range slices.Sorted(maps.Keys(g.TypeLimits)) {
			switch limit := g.TypeLimits[name]; {
			case len(p.NodeTypes) == 0 || !slices.Contains(p.TypeNames(), name):
				c.bad(fmt.Sprintf("%s.typeLimits[%q]", at, name), "is no node type of the pool; must be one of its nodeTypes")
			case limit < 0:
				c.bad(fmt.Sprintf("%s.typeLimits[%q]", at, name), "is %d; must be at least 0", limit)
			}
		}
	}
}

// duration parses a duration such as 5m. It reports durations below minimum.
func (c *checker) duration(path string, text scalar, fallback, minimum time.Duration) time.Duration {
	if text == "" {
		return fallback
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d < minimum {
		c.bad(path, "is %q; must be a duration such as %v, at least %v", text, fallback, minimum)
	}
	return d
}

// share parses a fraction such as 30% or 0.3.
func (c *checker) share(path string, text scalar, fallback float64) float64 {
	if text == "" {
		return fallback
	}
	digits, percent := strings.CutSuffix(string(text), "%")
	share, err := strconv.ParseFloat(digits, 64)
	if percent {
		share /= 100
	}
	if err != nil || math.IsNaN(share) || share < 0 || share > 1 {
		c.bad(path, "is %q; must be a fraction from 0%% to 100%%", text)
	}
	return share
}
