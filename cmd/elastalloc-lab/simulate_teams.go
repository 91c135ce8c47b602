package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

type teamFlags struct {
	count  int
	file   string
	quotas string
	limit  float64
}

func (f *teamFlags) add(flags *pflag.FlagSet) {
	flags.IntVar(&f.count, "teams", 0, "number of teams to shuffle the users into (default the groups of the trace)")
	flags.StringVar(&f.file, "groups", "", "groups with their quotas in CSV, - for standard input")
	flags.Var(cli.ChoiceFlag{Value: &f.quotas, Choices: []string{string(sim.QuotaByDemand), string(sim.QuotaEqual)}}, "quotas",
		"divide each pool into quotas, by the demand of each team's jobs or equal (default demand where there are --teams)")
	flags.Float64Var(&f.limit, "team-limit", 0, "limit of each team, in times of its quota (default none)")
}

func (f *teamFlags) check(addf func(format string, args ...any)) {
	if f.count < 0 {
		addf("--teams is %d; want at least 1", f.count)
	}
	if !(f.limit == 0 || f.limit >= 1 && f.limit <= sim.MostTeamLimit) {
		addf("--team-limit is %v; want 1 to %v", f.limit, sim.MostTeamLimit)
	}
	if f.count > 0 && f.file == "" && f.quotas == "" {
		f.quotas = string(sim.QuotaByDemand)
	}
	if f.limit > 0 && f.quotas == "" {
		addf("--team-limit has no teams; want --teams or --quotas as well")
	}
}

// read returns the groups of the file, nil where none is named.
func (f *teamFlags) read(cmd *cobra.Command) ([]solver.Group, error) {
	if f.file == "" {
		return nil, nil
	}
	return cli.ReadFile(cmd, f.file, sim.ReadGroups)
}

// of returns the groups that share a pool: those of the file, or the pool divided into
// quotas; none where the flags name no teams.
func (f *teamFlags) of(workload *sim.Workload, groups []solver.Group, nodes int) ([]solver.Group, error) {
	if f.quotas == "" {
		return groups, nil
	}
	groups, err := workload.Quotas(sim.QuotaRule(f.quotas), nodes)
	if err != nil || f.limit == 0 {
		return groups, err
	}
	return sim.Limited(groups, f.limit), nil
}
