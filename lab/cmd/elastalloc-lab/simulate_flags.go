package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/lab/workloads"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// typeFlags are the flags for node types and the speeds of applications on them.
type typeFlags struct {
	clusters []string
	file     string
	pools    [][]solver.NodeType // of --node-types
	speeds   sim.Speeds          // of --speeds
}

func (f *typeFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.clusters, "node-types", nil,
		"node types of a cluster instead of --nodes, as `ID=NODES[:SPEED],...`, with the speed "+
			"relative to the reference node, 1 by default; may be repeated for several clusters")
	flags.StringVar(&f.file, "speeds", "", "training speeds of applications on node types in CSV, - for standard input")
}

func (f *typeFlags) parse(addf func(format string, args ...any)) {
	for _, text := range f.clusters {
		var pool []solver.NodeType
		whole := true
		for part := range strings.SplitSeq(text, ",") {
			nodeType, err := parseNodeType(part)
			if err != nil {
				whole = false
				addf("--node-types: %v", err)
			}
			pool = append(pool, nodeType)
		}
		if !whole {
			continue
		}
		nodes := nodesOf(pool)
		if slices.ContainsFunc(f.pools, func(other []solver.NodeType) bool { return nodesOf(other) == nodes }) {
			addf("--node-types names two clusters of %d nodes; must have different numbers of nodes", nodes)
		}
		f.pools = append(f.pools, pool)
	}
}

// parseNodeType parses ID=NODES[:SPEED].
func parseNodeType(text string) (t solver.NodeType, err error) {
	id, size, found := strings.Cut(text, "=")
	nodes, speed, hasSpeed := strings.Cut(size, ":")
	t.ID = id
	count, err := strconv.ParseUint(nodes, 10, 31)
	if t.Nodes = int(count); !found || err != nil || count == 0 {
		return t, fmt.Errorf("%q names no nodes; must be ID=NODES[:SPEED], such as a100=16:4", text)
	}
	if hasSpeed {
		if t.Speed, err = strconv.ParseFloat(speed, 64); err != nil || !(t.Speed > 0 && t.Speed <= solver.MaxSpeed) {
			return t, fmt.Errorf("%q has speed %q; must be a number greater than 0 and at most %g", text, speed, solver.MaxSpeed)
		}
	}
	return t, nil
}

// nodesOf returns the nodes of a cluster.
func nodesOf(types []solver.NodeType) int {
	nodes := 0
	for _, t := range types {
		nodes += t.Nodes
	}
	return min(nodes, math.MaxInt32)
}

func (f *typeFlags) read(cmd *cobra.Command) (err error) {
	if f.file != "" {
		f.speeds, err = cli.ReadFile(cmd, f.file, workloads.ReadSpeeds)
	}
	return err
}

type teamFlags struct {
	count  int
	file   string
	quotas string
	limit  float64
}

func (f *teamFlags) add(flags *pflag.FlagSet) {
	flags.IntVar(&f.count, "teams", 0, "number of random teams for the users (default the groups of the trace)")
	flags.StringVar(&f.file, "groups", "", "groups with their quotas in CSV, - for standard input")
	flags.Var(cli.ChoiceFlag{Value: &f.quotas, Choices: []string{string(workloads.QuotaByDemand), string(workloads.QuotaEqual)}}, "quotas",
		"rule for dividing each pool into quotas: the demand of the jobs of each team, or equal (default demand if --teams is set)")
	flags.Float64Var(&f.limit, "team-limit", 0, "limit of each team as a multiple of its quota (default none)")
}

func (f *teamFlags) check(addf func(format string, args ...any)) {
	if f.count < 0 {
		addf("--teams is %d; must be at least 1", f.count)
	}
	if !(f.limit == 0 || f.limit >= 1 && f.limit <= workloads.MaxTeamLimit) {
		addf("--team-limit is %v; must be 1 to %v", f.limit, workloads.MaxTeamLimit)
	}
	if f.count > 0 && f.file == "" && f.quotas == "" {
		f.quotas = string(workloads.QuotaByDemand)
	}
	if f.limit > 0 && f.quotas == "" {
		addf("--team-limit is set without teams; --teams or --quotas must be set")
	}
}

// read returns the groups of --groups, nil if it is not set.
func (f *teamFlags) read(cmd *cobra.Command) ([]solver.Group, error) {
	if f.file == "" {
		return nil, nil
	}
	return cli.ReadFile(cmd, f.file, workloads.ReadGroups)
}

// of returns the groups of a pool: the groups of the file, or quotas by the rule. It returns nil if no flag
// for teams is set.
func (f *teamFlags) of(workload *sim.Workload, groups []solver.Group, nodes int) ([]solver.Group, error) {
	if f.quotas == "" {
		return groups, nil
	}
	groups, err := workloads.Quotas(workload, workloads.QuotaRule(f.quotas), nodes)
	if err != nil || f.limit == 0 {
		return groups, err
	}
	return workloads.Limited(groups, f.limit), nil
}

// totalTimeFlag contains parameters of OBJECTIVE_TOTAL_TIME by their names in the API.
type totalTimeFlag map[string]string

// apply sets the parameters in the total-time policies and reports every invalid one.
func (f totalTimeFlag) apply(policies []catalog.Policy, addf func(format string, args ...any)) {
	asked := solver.Options{Objective: solver.ObjectiveTotalTime}.WithDefaults()
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if err := setTotalTime(&asked.TotalTime, name, f[name]); err != nil {
			addf("--total-time: %v", err)
			continue
		}
		used := false
		for i := range policies {
			if options := policies[i].Options; options.Objective == solver.ObjectiveTotalTime {
				used = setTotalTime(&options.TotalTime, name, f[name]) == nil
				policies[i].Options = options
			}
		}
		if !used {
			addf("--total-time sets %s; must be used with a total-time policy", name)
		}
	}
	for _, violation := range asked.Validate([]solver.BackendName{asked.Backend}) {
		addf("--total-time: %s %s", strings.TrimPrefix(violation.Path, "total_time."), violation.Description)
	}
}

// setTotalTime sets the named parameter.
func setTotalTime(o *solver.TotalTimeOptions, name, value string) error {
	factors := map[string]**float64{
		"fairness": &o.Fairness, "pause_price_factor": &o.PausePriceFactor, "quota_price": &o.QuotaPrice,
		"eta_error": &o.ETAError, "share_price": &o.SharePrice,
	}
	spans := map[string]**time.Duration{
		"aging": &o.Aging, "resize_price": &o.ResizePrice, "payback": &o.Payback, "start_bonus": &o.StartBonus,
	}
	if factors[name] != nil {
		factor, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("%s is %q; must be a number", name, value)
		}
		*factors[name] = &factor
		return nil
	}
	if spans[name] != nil {
		span := new(time.Duration)
		if err := (*secondsFlag)(span).Set(value); err != nil {
			return fmt.Errorf("%s is %q; %w", name, value, err)
		}
		*spans[name] = span
		return nil
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(factors)), maps.Keys(spans))
	slices.Sort(names)
	return fmt.Errorf("unknown parameter %q (must be among %s)", name, strings.Join(names, ", "))
}

// secondsFlag is a duration flag. A number without a unit is in seconds.
type secondsFlag time.Duration

// String returns the duration.
func (f *secondsFlag) String() string { return time.Duration(*f).String() }

// Set parses a duration.
func (f *secondsFlag) Set(text string) error {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		text += "s"
	}
	value, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("must be a duration, such as 90s, 5m or 300")
	}
	*f = secondsFlag(value)
	return nil
}

// Type returns the type shown in the help.
func (*secondsFlag) Type() string { return "duration" }
