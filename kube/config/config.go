// Package config reads the configuration file of elastalloc-controller.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	promconfig "github.com/prometheus/common/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Config is what the controller manages.
type Config struct {
	Kinds      []string // of jobs to watch, such as "Job", whose definitions are installed
	Prometheus string   // the address that the pools' queries are sent to, "" for none
	// PrometheusClient has the credentials and the TLS settings for that address.
	PrometheusClient promconfig.HTTPClientConfig
	Kueue            bool // Kueue is installed and admits jobs with a queue
	Pools            []Pool
}

// Objective is what the decisions of a pool maximise.
type Objective string

// The objectives.
const (
	TotalTime Objective = "total-time"
	Progress  Objective = "progress"
)

// Pool is a set of equal nodes that elastic jobs share. A file has the fields in lower case, those
// that are written with a unit as text.
type Pool struct {
	Name         string            `json:"name"`         // of the label elastalloc.dev/pool on its jobs
	NodeSelector map[string]string `json:"nodeSelector"` // the labels of its nodes
	// Tolerations are the taints that its jobs tolerate; a node with another taint that
	// keeps pods away does not count.
	Tolerations []corev1.Toleration `json:"tolerations"`
	// Unit is the resource whose requests make a pod hold a node.
	Unit        string        `json:"unit"`
	Cadence     time.Duration `json:"-"` // between two decisions if nothing happens
	Debounce    time.Duration `json:"-"` // for which events are gathered before a decision
	MinInterval time.Duration `json:"-"` // between two changes of one job
	// Restart is the training time that a change of size costs a job whose annotations do not say.
	Restart       time.Duration `json:"-"`
	SettleTimeout time.Duration `json:"-"` // that a pod may take to go after its grace period
	// NodeGracePeriod is for how long a node that stops accepting pods is expected back.
	NodeGracePeriod time.Duration `json:"-"`
	// MaxShrink is the share of the nodes in use that may vanish at once without the controller
	// taking it for an outage.
	MaxShrink float64   `json:"-"`
	Objective Objective `json:"objective"`
	// RemainingQuery is a PromQL query of the jobs' remaining time, "" for none.
	RemainingQuery string        `json:"remainingQuery"`
	RemainingIn    RemainingUnit `json:"remainingIn"` // what the query answers in
	Paused         bool          `json:"paused"`      // nothing is decided or changed
	Namespaces     []string      `json:"namespaces"`  // whose jobs may use the pool, nil for all
	// Groups share the pool, nil for none. Where there are some, each job belongs to the one
	// that names its namespace.
	Groups    []Group `json:"groups"`
	MaxNodes  int     `json:"maxNodes"`  // up to which an autoscaler enlarges the pool, 0 for none
	NodePrice float64 `json:"nodePrice"` // the job-hours that an hour of one more node has to save
}

// Group is a team that shares a pool with others, or several of them.
type Group struct {
	Name   string `json:"name"`
	Parent string `json:"parent"` // the group that it is part of, "" for none
	// Namespaces are those of its jobs; only groups that no other is part of have some.
	Namespaces []string `json:"namespaces"`
	// Quota is how many nodes its jobs are to have, and Limit the most they may hold, nil for
	// no limit.
	Quota     int     `json:"quota"`
	Limit     *int    `json:"limit"`
	MaxWeight float64 `json:"maxWeight"` // of a job of it, 0 for no limit
}

// GroupOf returns the group of a namespace, nil where there is none.
func (p *Pool) GroupOf(namespace string) *Group {
	for i := range p.Groups {
		if slices.Contains(p.Groups[i].Namespaces, namespace) {
			return &p.Groups[i]
		}
	}
	return nil
}

// Within returns the names of the group of a namespace and of all that it is part of.
func (p *Pool) Within(namespace string) []string {
	if g := p.GroupOf(namespace); g != nil {
		return p.chain(g.Name)
	}
	return nil
}

// chain returns the name of a group and of all that it is part of, as many as there may be.
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

// maxDepth is how deep groups may be within each other, as in the API.
const maxDepth = 4

// RemainingUnit is what the answers of a RemainingQuery mean.
type RemainingUnit string

// What the query may answer in.
const (
	Seconds RemainingUnit = "seconds" // to the end at the job's present nodes
	Ratio   RemainingUnit = "ratio"   // of the work that is done, from 0 to 1
)

// Defaults of fields that a file leaves out.
const (
	DefaultUnit            = "nvidia.com/gpu"
	DefaultCadence         = 5 * time.Minute
	DefaultDebounce        = 10 * time.Second
	DefaultMinInterval     = 10 * time.Minute
	DefaultRestart         = 2 * time.Minute
	DefaultSettleTimeout   = time.Minute
	DefaultNodeGracePeriod = 2 * time.Minute
	DefaultMaxShrink       = 0.3
)

// scalar is a string or a number of the file, as it is written.
type scalar string

// UnmarshalJSON reads a string or a number.
func (s *scalar) UnmarshalJSON(data []byte) error {
	text := string(data)
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	*s = scalar(text)
	return nil
}

// file is the form of the configuration file.
type file struct {
	Kinds      []string       `json:"kinds"`
	Prometheus prometheusFile `json:"prometheus"`
	Kueue      bool           `json:"kueue"`
	Pools      []poolFile     `json:"pools"`
}

// poolFile is a pool whose fields with units are not read yet.
type poolFile struct {
	Pool

	Cadence         scalar `json:"cadence"`
	Debounce        scalar `json:"debounce"`
	MinInterval     scalar `json:"minInterval"`
	Restart         scalar `json:"restart"`
	SettleTimeout   scalar `json:"settleTimeout"`
	NodeGracePeriod scalar `json:"nodeGracePeriod"`
	MaxShrink       scalar `json:"maxShrink"`
}

// Parse reads a configuration in YAML or JSON for a controller that knows the given kinds. The
// error names every bad field, unless the text is not YAML or a field has the wrong type.
func Parse(data []byte, knownKinds []string) (*Config, error) {
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("parse configuration: %w", err)
	}
	var f file
	unknown, err := sigsjson.UnmarshalStrict(asJSON, &f)
	if err != nil {
		return nil, fmt.Errorf("parse configuration: %w", err)
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

// checker gathers what is wrong with a file.
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
			c.bad(path, "unknown kind %q (want one of %s)", kind, strings.Join(knownKinds, ", "))
		} else if slices.Contains(config.Kinds[:i], kind) {
			c.bad(path, "%q is named twice", kind)
		}
	}
	if f.Kinds != nil && len(f.Kinds) == 0 {
		c.bad("kinds", "is empty; want at least one")
	}
	if len(f.Pools) == 0 {
		c.bad("pools", "is empty; want at least one pool")
	}
	names := make(map[string]bool)
	for i := range f.Pools {
		path := fmt.Sprintf("pools[%d]", i)
		p := c.pool(path, &f.Pools[i])
		if names[p.Name] {
			c.bad(path+".name", "%q is the name of another pool too", p.Name)
		}
		names[p.Name] = true
		for j, other := range config.Pools {
			a, b := labels.SelectorFromSet(p.NodeSelector), labels.SelectorFromSet(other.NodeSelector)
			// An empty one, which has an error of its own, matches all.
			if p.Unit == other.Unit && (!a.Empty() && a.Matches(labels.Set(other.NodeSelector)) || !b.Empty() && b.Matches(labels.Set(p.NodeSelector))) {
				c.bad(path+".nodeSelector", "selects nodes of pools[%d] too; want each node in one pool", j)
			}
		}
		if p.RemainingQuery != "" && f.Prometheus.Address == "" {
			c.bad(path+".remainingQuery", "needs prometheus, the address to send it to")
		}
		config.Pools = append(config.Pools, p)
	}
	return config
}

func (c *checker) pool(path string, f *poolFile) Pool {
	p := f.Pool
	p.Unit, p.Objective, p.RemainingIn = cmp.Or(p.Unit, DefaultUnit), cmp.Or(p.Objective, TotalTime), cmp.Or(p.RemainingIn, Seconds)
	p.Cadence = c.duration(path+".cadence", f.Cadence, DefaultCadence, time.Second)
	p.Debounce = c.duration(path+".debounce", f.Debounce, DefaultDebounce, 0)
	p.MinInterval = c.duration(path+".minInterval", f.MinInterval, DefaultMinInterval, 0)
	p.Restart = c.duration(path+".restart", f.Restart, DefaultRestart, 0)
	p.SettleTimeout = c.duration(path+".settleTimeout", f.SettleTimeout, DefaultSettleTimeout, time.Second)
	p.NodeGracePeriod = c.duration(path+".nodeGracePeriod", f.NodeGracePeriod, DefaultNodeGracePeriod, 0)
	p.MaxShrink = c.share(path+".maxShrink", f.MaxShrink, DefaultMaxShrink)
	if p.Name == "" {
		c.bad(path+".name", "is missing")
	}
	for _, problem := range validation.IsValidLabelValue(p.Name) {
		c.bad(path+".name", "%s", problem)
	}
	if len(p.NodeSelector) == 0 {
		c.bad(path+".nodeSelector", "is empty; want the labels of the pool's nodes")
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
			c.bad(fmt.Sprintf("%s.tolerations[%d].operator", path, i), "is %q; want Exists or Equal", t.Operator)
		}
		if !slices.Contains(effects, t.Effect) {
			c.bad(fmt.Sprintf("%s.tolerations[%d].effect", path, i), "is %q; want NoSchedule, PreferNoSchedule or NoExecute", t.Effect)
		}
	}
	if problems := validation.IsQualifiedName(p.Unit); len(problems) > 0 {
		c.bad(path+".unit", "%q is not a resource name: %s", p.Unit, strings.Join(problems, ", "))
	}
	if p.Objective != TotalTime && p.Objective != Progress {
		c.bad(path+".objective", "unknown objective %q (want one of %s, %s)", p.Objective, TotalTime, Progress)
	}
	if p.RemainingIn != Seconds && p.RemainingIn != Ratio {
		c.bad(path+".remainingIn", "is %q; want %s or %s", p.RemainingIn, Seconds, Ratio)
	}
	if p.MaxNodes < 0 || !(p.NodePrice >= 0) || (p.MaxNodes > 0 || p.NodePrice > 0) && p.Objective == Progress || p.NodePrice > 0 && p.MaxNodes == 0 {
		c.bad(path+".maxNodes", "is %d with a nodePrice of %v; want both at least 0, a price only with nodes, and these only with the objective %s", p.MaxNodes, p.NodePrice, TotalTime)
	}
	c.groups(path+".groups", &p)
	return p
}

// groups checks the groups of a pool.
func (c *checker) groups(path string, p *Pool) {
	if len(p.Groups) > 0 && p.Objective == Progress {
		c.bad(path, "need the objective %s", TotalTime)
	}
	owner := make(map[string]string)
	for i, g := range p.Groups {
		at := fmt.Sprintf("%s[%d]", path, i)
		if first := slices.IndexFunc(p.Groups, func(other Group) bool { return other.Name == g.Name }); g.Name == "" || first < i {
			c.bad(at+".name", "is %q; want a name that no other group has", g.Name)
		}
		if g.Parent != "" && p.chain(g.Parent) == nil {
			c.bad(at+".parent", "unknown group %q", g.Parent)
		}
		if len(g.Namespaces) > 0 && slices.ContainsFunc(p.Groups, func(other Group) bool { return other.Parent == g.Name }) {
			c.bad(at+".namespaces", "want none: other groups are part of it")
		}
		for _, namespace := range g.Namespaces {
			if owner[namespace] != "" {
				c.bad(at+".namespaces", "%q is in group %q too", namespace, owner[namespace])
			}
			owner[namespace] = g.Name
		}
		if len(p.chain(g.Parent)) >= maxDepth {
			c.bad(at+".parent", "is more than %d groups deep, or part of itself", maxDepth)
		}
		if g.Quota < 0 || g.Limit != nil && *g.Limit < 0 || !(g.MaxWeight >= 0) {
			c.bad(at, "has a quota, limit or maxWeight below 0")
		}
	}
}

// duration reads a duration such as 5m, at least the given one.
func (c *checker) duration(path string, text scalar, otherwise, least time.Duration) time.Duration {
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d < least {
		c.bad(path, "is %q; want a duration such as %v, at least %v", text, otherwise, least)
	}
	return d
}

// share reads a share such as 30% or 0.3.
func (c *checker) share(path string, text scalar, otherwise float64) float64 {
	if text == "" {
		return otherwise
	}
	digits, percent := strings.CutSuffix(string(text), "%")
	share, err := strconv.ParseFloat(digits, 64)
	if percent {
		share /= 100
	}
	if err != nil || math.IsNaN(share) || share < 0 || share > 1 {
		c.bad(path, "is %q; want a share from 0%% to 100%%", text)
	}
	return share
}
