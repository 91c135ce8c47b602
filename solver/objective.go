package solver

import "time"

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
// Objectives. A new objective needs a row in Objectives, its values in package problem and a value of
// the enum of the API.
type ObjectiveSpec struct {
	Name Objective
	// Unit is the unit of the values of the objective.
	Unit Unit
	// OneStep reports whether the objective plans one step, which is the payback time. Otherwise it
	// plans the horizon of the snapshot, and the snapshot has no groups, node types and size limits.
	OneStep bool
	// Admission is the admission of a decision whose options name none.
	Admission Admission
	// UsesETAErrors reports whether the objective depends on the errors of ETAs.
	UsesETAErrors bool
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

// Objectives returns the specifications of all objectives. It returns an array to avoid memory
// allocations, because each decision calls it several times.
func Objectives() [2]ObjectiveSpec {
	return [...]ObjectiveSpec{
		{Name: ObjectiveProgress, Unit: Unit{"shares of a job done, summed over jobs and steps", FormatShares}, Admission: AdmissionFIFO},
		{
			Name: ObjectiveTotalTime, Unit: Unit{"job-seconds saved per second", FormatTime}, OneStep: true,
			Admission: AdmissionStartFirst, UsesETAErrors: true,
		},
	}
}

// Spec returns the specification of the objective. An unset or unknown objective has that of
// DefaultObjective.
func (o *Options) Spec() ObjectiveSpec {
	all := Objectives()
	for i := range all {
		if all[i].Name == o.Objective {
			return all[i]
		}
	}
	return all[1]
}

// WithCadence returns the options for a caller that decides only once per cadence. With
// ObjectiveTotalTime it sets TotalTime.Cadence, unless the caller has set it.
func (o Options) WithCadence(cadence time.Duration) Options {
	if o.Spec().Name == ObjectiveTotalTime && o.TotalTime.Cadence == nil {
		o.TotalTime.Cadence = &cadence
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
