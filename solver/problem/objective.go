package problem

import (
	"time"

	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// Objective is the name of an objective, which a decision maximizes.
type Objective string

// The objectives.
const (
	// ObjectiveProgress is the objective of the paper: the weighted training progress over the
	// horizon, see progress.go. Its unit is job shares times steps.
	ObjectiveProgress Objective = "progress"
	// ObjectiveTotalTime minimizes the weighted mean job completion time, see totaltime.go. A
	// decision maximizes the job-seconds that it saves per second less the costs of its resizes.
	// It plans one step and ignores the horizon.
	ObjectiveTotalTime Objective = "total-time"

	// DefaultObjective is the objective of a decision whose options name none.
	DefaultObjective = ObjectiveTotalTime
)

// ObjectiveSpec describes an objective. Validation, model and all outputs use the specifications in
// Objectives. A new objective needs a Fill function, a row in Objectives and a value of the enum of
// the API. A Go program can pass its own objective as Options.CustomObjective instead.
type ObjectiveSpec struct {
	Name Objective
	// Unit is the unit of the values of the objective.
	Unit Unit
	// Demand returns the demand d_i of job i of a snapshot, in seconds on one reference node. It
	// is greater than 0. Nil means Snapshot.Demand.
	Demand func(s *snapshot.Snapshot, i int) float64
	// Fill sets Gain and OptionValue of the jobs of p, and QuotaPrice if there are groups. p is
	// the problem of s. Fill changes nothing else.
	Fill func(p *Problem, s *snapshot.Snapshot, o *Options)
	// Step returns the length of the step of an objective that plans a single step. Nil means that
	// the objective plans the horizon of the snapshot. The snapshot then has no groups.
	Step func(o *Options) time.Duration
	// Admission is the admission of a decision whose options name none. "" means AdmissionFIFO.
	Admission Admission
	// UsesETAErrors reports whether the objective depends on the errors of ETAs.
	UsesETAErrors bool

	parameters parameters
}

// Unit is the unit of the values of an objective.
type Unit struct {
	// Name is the name of the unit as it follows a number.
	Name string
	// Format is the format of a value in sentences.
	Format UnitFormat
}

// UnitFormat is the format of a value of an objective in sentences.
type UnitFormat int

// The formats.
const (
	FormatNumber UnitFormat = iota // a number and the unit
	FormatTime                     // seconds per second, formatted as time per hour
	FormatShares                   // shares of a job summed over steps, formatted as percent of a job over the horizon
)

// parameters describe the options that only one objective has. The zero value means that there are
// none.
type parameters struct {
	field    string // name in the options of the API
	isSet    func(o *Options) bool
	validate func(o *Options, bad *snapshot.Violations)
	// setCadence sets the time between decisions of a caller that decides at fixed times.
	setCadence func(o *Options, cadence time.Duration)
}

// Objectives returns the specifications of all objectives. It returns an array to avoid memory
// allocations, because each decision calls it several times.
func Objectives() [2]ObjectiveSpec {
	return [...]ObjectiveSpec{
		{
			Name: ObjectiveProgress, Unit: Unit{"shares of a job done, summed over jobs and steps", FormatShares},
			Demand: atLeastShareOfWork, Fill: (*Problem).fillProgress,
		},
		{
			Name: ObjectiveTotalTime, Unit: Unit{"job-seconds saved per second", FormatTime},
			Demand: totalTimeDemand, Fill: (*Problem).fillTotalTime, Step: totalTimeStep, Admission: AdmissionStartFirst,
			UsesETAErrors: true, parameters: totalTimeParameters(),
		},
	}
}

// Spec returns the specification of the objective. An unset or unknown objective has that of
// DefaultObjective.
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
	return all[1]
}

// DemandOf returns the demand of job i of a snapshot in seconds on one reference node.
func (spec *ObjectiveSpec) DemandOf(s *snapshot.Snapshot, i int) float64 {
	if spec.Demand == nil {
		return s.Demand(i)
	}
	return spec.Demand(s, i)
}

// ParameterField returns the name of the API field with the options that only this objective has, ""
// if none of them is set.
func (spec *ObjectiveSpec) ParameterField(o *Options) string {
	if p := spec.parameters; p.isSet != nil && p.isSet(o) {
		return p.field
	}
	return ""
}

// WithCadence returns the options for a caller that decides only once per cadence. It changes the
// options of objectives that depend on the cadence, unless the caller has set them.
func (o Options) WithCadence(cadence time.Duration) Options {
	if pace := o.Spec().parameters.setCadence; pace != nil {
		pace(&o, cadence)
	}
	return o
}

// objectiveNames returns the names of the selected objectives.
func objectiveNames(selected func(ObjectiveSpec) bool) []Objective {
	var names []Objective
	for _, spec := range Objectives() {
		if selected(spec) {
			names = append(names, spec.Name)
		}
	}
	return names
}
