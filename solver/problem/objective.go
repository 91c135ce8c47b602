package problem

import (
	"time"

	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// Objective names what a decision maximises.
type Objective string

// The objectives.
const (
	// ObjectiveProgress is the paper's: the weighted training progress over the
	// horizon, see progress.go. Its unit is job shares times steps.
	ObjectiveProgress Objective = "progress"
	// ObjectiveTotalTime is the weighted total time that a decision saves, less what
	// its changes cost, see totaltime.go. Its unit is job-seconds saved per second. It
	// decides one step; the horizon is not used.
	ObjectiveTotalTime Objective = "total-time"
)

// ObjectiveSpec describes an objective: the row of the table from which validation, model
// and every output follow. A new objective takes a file with what fills it, a row here and a
// value of the API's enum; one of a program of its own takes Options.CustomObjective alone.
type ObjectiveSpec struct {
	Name Objective
	// Unit is that of its values.
	Unit Unit
	// Demand returns the demand d_i of job i of a snapshot, in seconds on one reference node,
	// more than 0. Nil means Snapshot.Demand.
	Demand func(s *snapshot.Snapshot, i int) float64
	// Fill sets Gain and OptionValue of the jobs of p, which are jobs of s, and QuotaPrice if
	// there are groups. It changes nothing else.
	Fill func(p *Problem, s *snapshot.Snapshot, o *Options)
	// Step is how long the one step of an objective is that decides one step. Nil means that
	// it looks ahead over the horizon of the snapshot; then the snapshot has no groups.
	Step func(o *Options) time.Duration
	// UsesETAErrors reports that it takes the errors of ETAs into account.
	UsesETAErrors bool

	parameters parameters
}

// Unit is what the values of an objective are.
type Unit struct {
	// Name stands after a number.
	Name string
	// UnitFormat is how sentences put a value.
	Format UnitFormat
}

// UnitFormat is how sentences put a value of an objective.
type UnitFormat int

// The readings.
const (
	FormatNumber UnitFormat = iota // a number and the unit
	FormatTime                     // of seconds per second: the time per hour
	FormatShares                   // of shares of a job, summed over steps: per cent of a job over the horizon
)

// parameters are the options that are an objective's own; the zero value sets nothing.
type parameters struct {
	field    string // of the API's options
	isSet    func(o *Options) bool
	validate func(o *Options, bad *snapshot.Violations)
	// setCadence takes note of the time between decisions of a caller that decides at fixed times.
	setCadence func(o *Options, cadence time.Duration)
}

// Objectives returns the table of all objectives. An array is free of allocations, for each
// decision looks a few times.
func Objectives() [2]ObjectiveSpec {
	return [...]ObjectiveSpec{
		{
			Name: ObjectiveProgress, Unit: Unit{"shares of a job done, summed over jobs and steps", FormatShares},
			Demand: progressDemand, Fill: (*Problem).fillProgress,
		},
		{
			Name: ObjectiveTotalTime, Unit: Unit{"job-seconds saved per second", FormatTime},
			Fill: (*Problem).fillTotalTime, Step: totalTimeStep, UsesETAErrors: true, parameters: totalTimeParameters(),
		},
	}
}

// Spec returns the row of the objective, that of ObjectiveProgress if it is not known.
func (o *Options) Spec() ObjectiveSpec {
	if o.CustomObjective != nil {
		return *o.CustomObjective
	}
	all := Objectives()
	for i := range all {
		if all[i].Name == o.Objective {
			return all[i]
		}
	}
	return all[0]
}

// DemandOf returns the demand of job i of a snapshot, in seconds on one reference node.
func (spec *ObjectiveSpec) DemandOf(s *snapshot.Snapshot, i int) float64 {
	if spec.Demand == nil {
		return s.Demand(i)
	}
	return spec.Demand(s, i)
}

// ParameterField returns the API's name of the options that only this objective has, "" if none of
// them is set.
func (spec *ObjectiveSpec) ParameterField(o *Options) string {
	if own := spec.parameters; own.isSet != nil && own.isSet(o) {
		return own.field
	}
	return ""
}

// WithCadence returns the options for a caller that decides at fixed times only, so far apart, for
// objectives that make a difference of it. What is set stays.
func (o Options) WithCadence(cadence time.Duration) Options {
	if pace := o.Spec().parameters.setCadence; pace != nil {
		pace(&o, cadence)
	}
	return o
}

// objectiveNames returns the names of those objectives for which the condition holds.
func objectiveNames(holds func(ObjectiveSpec) bool) []Objective {
	var names []Objective
	for _, spec := range Objectives() {
		if holds(spec) {
			names = append(names, spec.Name)
		}
	}
	return names
}
