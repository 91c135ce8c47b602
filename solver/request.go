package solver

import (
	"strings"
)

// Validate returns the invalid fields of a request for a decision. The snapshot and the options have
// their defaults. The snapshot may have at most maxJobs jobs, and known are the existing backends.
func Validate(s *Snapshot, o Options, maxJobs int, known []BackendName) []Violation {
	bad := Violations(WithPrefix("snapshot", s.Validate(maxJobs)))
	if spec := o.Spec(); !spec.OneStep && spec.Name == o.Objective {
		var supported []string
		for _, name := range objectiveNames(func(spec ObjectiveSpec) bool { return spec.OneStep }) {
			supported = append(supported, APIName("OBJECTIVE", name))
		}
		required := "for which options.objective must be " + strings.Join(supported, " or ")
		if len(s.Groups) > 0 {
			bad.Addf("snapshot.groups", "is set, %s", required)
		}
		if s.Typed() {
			bad.Addf("snapshot.node_types", "has %d types, %s", len(s.NodeTypes), required)
		}
		if n := len(s.SizeLimits); n > 0 && n <= MaxSizeLimits && len(s.Groups) == 0 { // Otherwise the field is reported already.
			bad.Addf("snapshot.size_limits", "is set, %s", required)
		}
	}
	return append(bad, WithPrefix("options", o.Validate(known))...)
}

// APIName returns the name of an enum value in the API, such as OBJECTIVE_TOTAL_TIME.
func APIName[Name ~string](enum string, value Name) string {
	return enum + "_" + strings.ToUpper(strings.ReplaceAll(string(value), "-", "_"))
}
