package server

import (
	"slices"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// The core's value for every number of the API's enums: for a number that is
// never sent "", for an unset option its default.

func backends() []solver.BackendName {
	return []solver.BackendName{
		elastallocv1.Backend_BACKEND_UNSPECIFIED: solver.BackendExact,
		elastallocv1.Backend_BACKEND_EXACT:       solver.BackendExact,
		elastallocv1.Backend_BACKEND_CBC:         solver.BackendCBC,
		elastallocv1.Backend_BACKEND_HIGHS:       solver.BackendHiGHS,
		elastallocv1.Backend_BACKEND_GREEDY:      solver.BackendGreedy,
	}
}

func formulations() []solver.Formulation {
	return []solver.Formulation{
		elastallocv1.Formulation_FORMULATION_UNSPECIFIED: solver.FormulationOneHot,
		elastallocv1.Formulation_FORMULATION_ONE_HOT:     solver.FormulationOneHot,
		elastallocv1.Formulation_FORMULATION_PAPER:       solver.FormulationPaper,
	}
}

func modes() []solver.Mode {
	return []solver.Mode{
		elastallocv1.Mode_MODE_UNSPECIFIED: solver.ModeRebalance,
		elastallocv1.Mode_MODE_REBALANCE:   solver.ModeRebalance,
		elastallocv1.Mode_MODE_FILL_IDLE:   solver.ModeFillIdle,
	}
}

func admissions() []solver.Admission {
	return []solver.Admission{
		elastallocv1.Admission_ADMISSION_UNSPECIFIED: solver.AdmissionFIFO,
		elastallocv1.Admission_ADMISSION_FIFO:        solver.AdmissionFIFO,
		elastallocv1.Admission_ADMISSION_OPTIMIZED:   solver.AdmissionOptimized,
		elastallocv1.Admission_ADMISSION_PREEMPTIVE:  solver.AdmissionPreemptive,
	}
}

func changes() []solver.Change {
	return []solver.Change{
		elastallocv1.Change_CHANGE_START:      solver.ChangeStart,
		elastallocv1.Change_CHANGE_SCALE_UP:   solver.ChangeScaleUp,
		elastallocv1.Change_CHANGE_SCALE_DOWN: solver.ChangeScaleDown,
		elastallocv1.Change_CHANGE_KEEP:       solver.ChangeKeep,
		elastallocv1.Change_CHANGE_WAIT:       solver.ChangeWait,
		elastallocv1.Change_CHANGE_PREEMPT:    solver.ChangePreempt,
	}
}

func reasons() []solver.Reason {
	return []solver.Reason{
		elastallocv1.Reason_REASON_OPTIMAL:   solver.ReasonOptimal,
		elastallocv1.Reason_REASON_FEASIBLE:  solver.ReasonFeasible,
		elastallocv1.Reason_REASON_HEURISTIC: solver.ReasonHeuristic,
	}
}

func limits() []solver.Limit {
	return []solver.Limit{
		elastallocv1.Limit_LIMIT_NONE: solver.LimitNone,
		elastallocv1.Limit_LIMIT_GAP:  solver.LimitGap,
		elastallocv1.Limit_LIMIT_TIME: solver.LimitTime,
	}
}

func outcomes() []solver.Outcome {
	return []solver.Outcome{
		elastallocv1.Outcome_OUTCOME_ANSWERED:     solver.OutcomeAnswered,
		elastallocv1.Outcome_OUTCOME_UNAVAILABLE:  solver.OutcomeUnavailable,
		elastallocv1.Outcome_OUTCOME_TIMED_OUT:    solver.OutcomeTimedOut,
		elastallocv1.Outcome_OUTCOME_CRASHED:      solver.OutcomeCrashed,
		elastallocv1.Outcome_OUTCOME_INVALID_PLAN: solver.OutcomeInvalidPlan,
	}
}

// convertEnum returns the core's value for a number of an enum and reports a
// number that the API does not know, such as one of a newer client.
func convertEnum[Number ~int32, Value ~string](c *converter, path string, number Number, values []Value) Value {
	if number < 0 || int(number) >= len(values) {
		c.addf(path, "is %d; want a value of the enum, 0 to %d", int32(number), len(values)-1)
		return values[0]
	}
	return values[number]
}

// enumOf returns the number of a value of the core, never that of "unspecified"
// unless the API has no number for the value.
func enumOf[Number ~int32, Value ~string](value Value, values []Value) Number {
	return Number(slices.Index(values[1:], value) + 1)
}
