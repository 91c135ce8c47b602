package problem

import (
	"strings"

	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// Validate returns every bad field of a request for a decision, with their defaults
// filled in, of at most maxJobs jobs and on one of the known backends.
func Validate(s *snapshot.Snapshot, o Options, maxJobs int, known []BackendName) []snapshot.Violation {
	bad := snapshot.Violations(snapshot.WithPrefix("snapshot", s.Validate(maxJobs)))
	if spec := o.Spec(); spec.Step == nil && spec.Name == o.Objective {
		var able []string
		for _, name := range objectiveNames(func(spec ObjectiveSpec) bool { return spec.Step != nil }) {
			able = append(able, APIName("OBJECTIVE", name))
		}
		want := "for which options.objective must be " + strings.Join(able, " or ")
		if len(s.Groups) > 0 {
			bad.Addf("snapshot.groups", "is set, %s", want)
		}
		if s.Typed() {
			bad.Addf("snapshot.node_types", "has %d types, %s", len(s.NodeTypes), want)
		}
		if n := len(s.SizeLimits); n > 0 && n <= snapshot.MaxSizeLimits && len(s.Groups) == 0 { // Otherwise the field is reported already.
			bad.Addf("snapshot.size_limits", "is set, %s", want)
		}
	}
	if len(bad) == 0 {
		rejectSizeLimits(s, &bad)
	}
	return append(bad, snapshot.WithPrefix("options", o.Validate(known))...)
}

// APIName returns what the API calls a value of one of its enums, such as
// OBJECTIVE_TOTAL_TIME.
func APIName[Name ~string](enum string, value Name) string {
	return enum + "_" + strings.ToUpper(strings.ReplaceAll(string(value), "-", "_"))
}

// rejectSizeLimits reports size limits of a snapshot, because no backend keeps them yet. It is
// the only place that does.
func rejectSizeLimits(s *snapshot.Snapshot, bad *snapshot.Violations) {
	if len(s.SizeLimits) > 0 {
		bad.Addf("snapshot.size_limits", "is set; must be empty, because decisions do not support size limits yet")
	}
}
