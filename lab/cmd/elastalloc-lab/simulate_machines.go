package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/lab/machines"
	"github.com/elastalloc/elastalloc/sim"
)

// Values of --placement.
const (
	placeNone = "none"
	placeMove = "move"
	placeStay = "stay"
)

// machineFlags are the flags for the machines of a pool whose nodes are units of machines.
type machineFlags struct {
	layout     machines.Layout
	placement  string
	sizeLimits bool
}

func (f *machineFlags) add(flags *pflag.FlagSet) {
	f.placement = placeNone
	flags.IntVar(&f.layout.Units, "machine-units", 0, "number of nodes per machine, such as 8 GPUs")
	flags.IntVar(&f.layout.Block, "block-machines", 0, "machines of a block, such as a rack or an NVLink domain (default no blocks)")
	flags.Float64Var(&f.layout.Damaged, "damaged", 0, "share of the machines that lack one or more nodes, but not all, by --seed")
	flags.Var(cli.ChoiceFlag{Value: &f.placement, Choices: []string{placeNone, placeMove, placeStay}}, "placement",
		"placement of each decision on the machines: not at all; with few moves, each of which costs a restart; or without moves")
	flags.BoolVar(&f.sizeLimits, "size-limits", false, "include the size limits of the machines in each decision")
}

func (f *machineFlags) check(nodes []int, typed bool, addf func(format string, args ...any)) {
	units := f.layout.Units
	if units < 0 {
		addf("--machine-units is %d; must be at least 1", units)
	}
	if f.layout.Block < 0 {
		addf("--block-machines is %d; must be at least 1", f.layout.Block)
	}
	if !(f.layout.Damaged >= 0 && f.layout.Damaged <= 1) { // Also NaN.
		addf("--damaged is %v; must be 0 to 1", f.layout.Damaged)
	}
	if units == 1 && f.layout.Damaged > 0 {
		addf("--damaged is set with --machine-units 1; must be at least 2 units")
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{
		{"block-machines", f.layout.Block > 0}, {"damaged", f.layout.Damaged > 0},
		{"placement", f.placement != placeNone}, {"size-limits", f.sizeLimits},
	} {
		if flag.set && units == 0 {
			addf("--%s is set without --machine-units; both must be set", flag.name)
		}
	}
	if units > 0 && typed {
		addf("--machine-units is set together with --node-types; must be set with --nodes")
	}
	for _, n := range nodes {
		if units > 0 && n%units != 0 {
			addf("--nodes is %d; must be a multiple of --machine-units, %d", n, units)
		}
	}
}

// describe describes the machines of the pools, "" for none.
func (f *machineFlags) describe(configs []sim.Config) string {
	if f.layout.Units == 0 {
		return ""
	}
	text := "A machine has " + format.Plural(f.layout.Units, "node")
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
	if f.layout.Units == 0 {
		return nil
	}
	layout := f.layout
	layout.Seed = seed
	m := machines.New(config.Nodes, layout, workload.Sizes())
	config.Unavailable = m.Unavailable()
	if f.placement != placeNone {
		config.Placer, config.NeverMove = m, f.placement == placeStay
	}
	if !f.sizeLimits {
		return nil
	}
	limits, err := m.Limits()
	if err != nil {
		return fmt.Errorf("--size-limits: %w", err)
	}
	config.SizeLimits = limits
	return nil
}
