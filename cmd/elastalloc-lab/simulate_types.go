package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// typeFlags are the flags that say which kinds of nodes there are, and how fast jobs train on
// them.
type typeFlags struct {
	clusters []string
	file     string
	pools    [][]solver.NodeType // what clusters say
	speeds   sim.Speeds          // those of the file
}

func (f *typeFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.clusters, "node-types", nil,
		"a cluster of several kinds of nodes instead of --nodes, as `ID=NODES[:SPEED],...`, a node's speed relative to the reference being 1 by default; repeated for several clusters")
	flags.StringVar(&f.file, "speeds", "", "how fast applications train on node types in CSV, - for standard input")
}

// typedPolicies are the default policies where there are node types.
func typedPolicies() []string {
	return []string{sim.TypePartitionsPolicy, "total-time", "type-kept", "sia", "sia-ramp"}
}

func (f *typeFlags) parse(addf func(format string, args ...any)) {
	if f.file != "" && len(f.clusters) == 0 {
		addf("--speeds has no node types; want --node-types as well")
	}
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
			addf("--node-types names two clusters of %d nodes; results are told apart by that", nodes)
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
		return t, fmt.Errorf("%q names no nodes; want ID=NODES[:SPEED], such as a100=16:4", text)
	}
	if hasSpeed {
		if t.Speed, err = strconv.ParseFloat(speed, 64); err != nil || !(t.Speed > 0 && t.Speed <= solver.MaxSpeed) {
			return t, fmt.Errorf("%q has speed %q; want a number greater than 0 and at most %g", text, speed, solver.MaxSpeed)
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
		f.speeds, err = cli.ReadFile(cmd, f.file, sim.ReadSpeeds)
	}
	return err
}
