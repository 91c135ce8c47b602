package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/lab/machines"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// Values of --placement.
const (
	placeNone = "none"
	placeMove = "move"
	placeStay = "stay"
)

// machineFlags are the flags for the machines of a pool whose nodes are units of machines.
type machineFlags struct {
	units      unitsFlag
	layout     machines.Layout // without Units
	placement  string
	sizeLimits bool
}

func (f *machineFlags) add(flags *pflag.FlagSet) {
	f.placement = placeNone
	flags.Var(&f.units, "machine-units", "`number` of nodes per machine, such as 8 GPUs, or one for each node type, such as a100=8,t4=4")
	flags.IntVar(&f.layout.Block, "block-machines", 0, "machines of a block, such as a rack or an NVLink domain (default no blocks)")
	flags.Float64Var(&f.layout.Damaged, "damaged", 0, "share of the machines that lack one or more nodes, but not all, by --seed")
	flags.Var(cli.ChoiceFlag{Value: &f.placement, Choices: []string{placeNone, placeMove, placeStay}}, "placement",
		"placement of each decision on the machines: not at all; with few moves, each of which costs a restart; or without moves")
	flags.BoolVar(&f.sizeLimits, "size-limits", false, "include the size limits of the machines in each decision")
}

func (f *machineFlags) check(nodes []int, pools [][]solver.NodeType, addf func(format string, args ...any)) {
	for _, units := range f.units.all() {
		if units < 1 {
			addf("--machine-units is %d; must be at least 1", units)
		}
		if units == 1 && f.layout.Damaged > 0 {
			addf("--damaged is set with --machine-units 1; must be at least 2 units")
		}
	}
	if f.layout.Block < 0 {
		addf("--block-machines is %d; must be at least 1", f.layout.Block)
	}
	if !(f.layout.Damaged >= 0 && f.layout.Damaged <= 1) { // Also NaN.
		addf("--damaged is %v; must be 0 to 1", f.layout.Damaged)
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{
		{"block-machines", f.layout.Block > 0}, {"damaged", f.layout.Damaged > 0},
		{"placement", f.placement != placeNone}, {"size-limits", f.sizeLimits},
	} {
		if flag.set && !f.units.set() {
			addf("--%s is set without --machine-units; both must be set", flag.name)
		}
	}
	f.checkNodes(nodes, pools, addf)
}

// checkNodes reports pools and node types whose nodes are no multiple of the units of their machines.
func (f *machineFlags) checkNodes(nodes []int, pools [][]solver.NodeType, addf func(format string, args ...any)) {
	if !f.units.set() {
		return
	}
	if len(f.units.types) > 0 && len(nodes) > 0 {
		addf("--machine-units is %v; must be a number with --nodes", &f.units)
		return
	}
	for _, n := range nodes {
		if units := f.units.of(""); units > 0 && n%units != 0 {
			addf("--nodes is %d; must be a multiple of --machine-units, %d", n, units)
		}
	}
	for _, pool := range pools {
		for _, t := range pool {
			switch units := f.units.of(t.ID); {
			case units == 0:
				addf("--machine-units is %v; must have a number for the node type %q", &f.units, t.ID)
			case units > 0 && t.Nodes%units != 0:
				addf("--node-types has %d nodes of %q; must be a multiple of --machine-units, %d", t.Nodes, t.ID, units)
			}
		}
	}
}

// describe describes the machines of the pools, "" for none.
func (f *machineFlags) describe(configs []sim.Config) string {
	if !f.units.set() {
		return ""
	}
	text := "A machine has " + format.Plural(f.units.of(""), "node")
	if len(f.units.types) > 0 {
		text = "A machine has these nodes: " + f.units.String()
	}
	if f.layout.Block > 0 {
		text += ", and a block " + format.Plural(f.layout.Block, "machine")
	}
	text += "."
	for _, config := range configs {
		if config.Unavailable > 0 {
			text += fmt.Sprintf(" Machines of the pool of %d lack %s together.", config.Nodes, format.Plural(config.Unavailable, "node"))
		}
	}
	return text
}

// configure sets the machines of a pool. seed determines which ones are damaged.
func (f *machineFlags) configure(config *sim.Config, workload *sim.Workload, seed uint64) error {
	if !f.units.set() {
		return nil
	}
	machinesOf := func(nodes, number int, nodeType string, sizes []int) *machines.Machines {
		layout := f.layout
		layout.Units, layout.Seed = f.units.of(nodeType), seed+uint64(number)<<32 // The node types are damaged independently.
		m := machines.New(nodes, layout, sizes)
		config.Unavailable += m.Unavailable()
		return m
	}
	var all interface {
		sim.Placer
		Limits() ([]solver.SizeLimit, error)
	}
	if len(config.NodeTypes) > 0 {
		byType := make(machines.ByType)
		config.NodeTypes = slices.Clone(config.NodeTypes)
		for n := range config.NodeTypes {
			t := &config.NodeTypes[n]
			m := machinesOf(t.Nodes, n, t.ID, workload.SizesOn(*t))
			byType[t.ID] = m
			t.Nodes -= m.Unavailable()
		}
		all = byType
	} else {
		all = machinesOf(config.Nodes, 0, "", workload.Sizes())
	}
	if f.placement != placeNone {
		config.Placer, config.NeverMove = all, f.placement == placeStay
	}
	if !f.sizeLimits {
		return nil
	}
	limits, err := all.Limits()
	if err != nil {
		return fmt.Errorf("--size-limits: %w", err)
	}
	config.SizeLimits = limits
	return nil
}

// unitsFlag is the number of nodes of a machine: one number, or one for each node type.
type unitsFlag struct {
	number string         // "" if it is not set or has node types
	types  map[string]int // nil if it is a number
}

func (f *unitsFlag) set() bool { return f.number != "" || len(f.types) > 0 }

// of returns the number for a node type, 0 if there is none.
func (f *unitsFlag) of(nodeType string) int {
	if f.number != "" {
		n, _ := strconv.Atoi(f.number) // Set has checked it.
		return n
	}
	return f.types[nodeType]
}

// all returns all numbers, in order of the node types.
func (f *unitsFlag) all() []int {
	if f.number != "" {
		return []int{f.of("")}
	}
	var numbers []int
	for _, nodeType := range slices.Sorted(maps.Keys(f.types)) {
		numbers = append(numbers, f.types[nodeType])
	}
	return numbers
}

// String returns the text of the flag.
func (f *unitsFlag) String() string {
	var parts []string
	for _, nodeType := range slices.Sorted(maps.Keys(f.types)) {
		parts = append(parts, fmt.Sprintf("%s=%d", nodeType, f.types[nodeType]))
	}
	return f.number + strings.Join(parts, ",")
}

// Set parses a number, or TYPE=NUMBER,....
func (f *unitsFlag) Set(text string) error {
	if _, err := strconv.Atoi(text); err == nil {
		f.number, f.types = text, nil
		return nil
	}
	f.number, f.types = "", make(map[string]int)
	for part := range strings.SplitSeq(text, ",") {
		nodeType, number, found := strings.Cut(part, "=")
		n, err := strconv.Atoi(number)
		if _, twice := f.types[nodeType]; !found || err != nil || nodeType == "" || twice {
			return errors.New("must be a number, or TYPE=NUMBER,..., such as 8 or a100=8,t4=4")
		}
		f.types[nodeType] = n
	}
	return nil
}

// Type returns the type shown in the help.
func (*unitsFlag) Type() string { return "number" }
