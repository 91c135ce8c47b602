// Package teams shares a pool fairly between teams over time: a team that used less than its share
// lately has a higher weight. docs/schedulers/fairness-over-time.md describes when to use it.
package teams

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// MinFactor and MaxFactor are the limits of Usage.Factor.
const (
	MinFactor = 0.25
	MaxFactor = 4
)

// Config configures a Usage.
type Config struct {
	// HalfLife is the time after which node time counts half. It must be greater than 0 and has no
	// default.
	HalfLife time.Duration
	// Quotas are the quotas of the teams. Only their ratios matter, so they may be in any unit. A
	// team without a quota has no share.
	Quotas map[string]float64
	// Exponent is the power to which a factor is raised. 0 means 1.
	Exponent float64
}

// Usage records how much node time each team has used. Use NewUsage to create one. It is not safe
// for concurrent use.
//
// Node time t ago counts 2^(-t / HalfLife).
type Usage struct {
	config Config
	quotas float64 // sum
	state  state
}

// state is the JSON of a Usage.
type state struct {
	// At is the time of the last Observe, in nanoseconds since 1970.
	At int64 `json:"at"`
	// Nodes are the nodes that each team has used since At.
	Nodes map[string]int `json:"nodes"`
	// NodeSeconds is the decayed node time of each team until At.
	NodeSeconds map[string]float64 `json:"node_seconds"`
}

// NewUsage returns a Usage without node time. It returns an error if the configuration is invalid.
func NewUsage(c Config) (*Usage, error) {
	if c.HalfLife <= 0 {
		return nil, fmt.Errorf("half_life: is %v; must be greater than 0", c.HalfLife)
	}
	if !(c.Exponent >= 0 && c.Exponent <= math.MaxFloat64) {
		return nil, fmt.Errorf("exponent: is %v; must be at least 0 and finite", c.Exponent)
	}
	if c.Exponent == 0 {
		c.Exponent = 1
	}
	u := &Usage{config: c, state: state{Nodes: map[string]int{}, NodeSeconds: map[string]float64{}}}
	for _, team := range slices.Sorted(maps.Keys(c.Quotas)) {
		if quota := c.Quotas[team]; !(quota >= 0 && quota <= math.MaxFloat64) {
			return nil, fmt.Errorf("quotas[%q]: is %v; must be at least 0 and finite", team, quota)
		}
	}
	if u.quotas = sum(c.Quotas); !(u.quotas > 0 && u.quotas <= math.MaxFloat64) {
		return nil, fmt.Errorf("quotas: their sum is %v; must be greater than 0 and finite", u.quotas)
	}
	return u, nil
}

// Observe records the number of nodes that the jobs of each team occupy from now on. Teams that are
// not listed occupy none. Call it whenever the nodes change, or at regular intervals.
func (u *Usage) Observe(now time.Time, nodes map[string]int) {
	at := now.UnixNano()
	elapsed := time.Duration(max(0, at-u.state.At))
	kept := math.Exp2(-elapsed.Seconds() / u.config.HalfLife.Seconds())
	for team := range u.state.NodeSeconds {
		u.state.NodeSeconds[team] *= kept
	}
	for team, n := range u.state.Nodes { // The integral of n 2^(-t / HalfLife) over the elapsed time.
		u.state.NodeSeconds[team] += float64(n) * u.config.HalfLife.Seconds() / math.Ln2 * (1 - kept)
	}
	u.state.At, u.state.Nodes = at, make(map[string]int, len(nodes))
	maps.Copy(u.state.Nodes, nodes)
}

// Factor returns the factor, MinFactor to MaxFactor, by which to multiply the weights of the jobs of a
// team:
//
//	(share of the team in the quotas / share of the team in the node time of all teams) ^ Exponent
//
// It is 1 while no team has used node time. Otherwise, it is MinFactor for a team without a quota, and
// MaxFactor for another team without node time.
func (u *Usage) Factor(team string) float64 {
	share, all := u.config.Quotas[team]/u.quotas, sum(u.state.NodeSeconds)
	switch {
	case all == 0:
		return 1
	case share == 0:
		return MinFactor
	}
	ratio := share * all / u.state.NodeSeconds[team] // Infinite without node time.
	return min(max(math.Pow(ratio, u.config.Exponent), MinFactor), MaxFactor)
}

// sum returns the sum of the values, in the order of the keys, so that it does not vary.
func sum(values map[string]float64) float64 {
	total := 0.0
	for _, key := range slices.Sorted(maps.Keys(values)) {
		total += values[key]
	}
	return total
}

// MarshalJSON returns the node time, to keep it over restarts of the scheduler. The configuration is
// not part of it.
func (u *Usage) MarshalJSON() ([]byte, error) { return json.Marshal(u.state) }

// UnmarshalJSON restores the node time of a Usage that NewUsage has created. The teams count as having
// used the nodes of the last Observe until the next one. If the text is not a state, UnmarshalJSON
// returns an error and does not change the Usage.
func (u *Usage) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var read state
	if err := decoder.Decode(&read); err != nil {
		return fmt.Errorf("parse state of usage: %w", err)
	}
	if read.Nodes == nil || read.NodeSeconds == nil {
		return errors.New("parse state of usage: must have nodes and node_seconds")
	}
	for team, n := range read.Nodes {
		if n < 0 {
			return fmt.Errorf("parse state of usage: nodes[%q]: is %d; must be at least 0", team, n)
		}
	}
	for team, seconds := range read.NodeSeconds {
		if seconds < 0 {
			return fmt.Errorf("parse state of usage: node_seconds[%q]: is %v; must be at least 0", team, seconds)
		}
	}
	u.state = read
	return nil
}
