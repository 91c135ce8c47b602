package audit_test

import (
	"math"
	"os"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc/audit"
	"github.com/elastalloc/elastalloc/solver"
)

// drawn returns how many requests a test draws: more in the long tier.
func drawn(short, long int) int {
	if os.Getenv("ELASTALLOC_TESTS") == "conformance" {
		return long
	}
	return short
}

// TestExhaustive compares verdicts with an enumeration of all legal plans: the best one is
// never refuted, one that is worse never confirmed, whatever the prices.
func TestExhaustive(t *testing.T) {
	t.Parallel()
	verdicts := map[bool]map[audit.Verdict]int{true: {}, false: {}}
	for seed := range uint64(drawn(3000, 100_000)) {
		d := newDrawer(seed)
		m := newModel(t, d.request())
		if m == nil || m.count() > 50_000 {
			continue
		}
		var best, worse solver.Plan
		most, less := math.Inf(-1), math.Inf(-1)
		m.each(func(plan solver.Plan, v float64) {
			if v > most {
				best, most = plan.Clone(), v
			}
		})
		m.each(func(plan solver.Plan, v float64) {
			if v < most-1e-8*math.Abs(most) && (worse == nil || d.chance(5)) {
				worse, less = plan.Clone(), v
			}
		})
		var prices []float64
		for range m.Steps {
			prices = append(prices, math.Abs(most)/float64(m.good.TotalNodes+1)/float64(m.Steps)*d.Float64()*2)
		}
		got := audit.Check(t.Context(), m.request, m.answer(best, most, solver.ReasonOptimal, prices), audit.Options{Work: 1e8})
		verdicts[true][got.Verdict]++
		if got.Verdict != audit.Confirmed {
			t.Logf("seed %d: %v: %v", seed, most, got)
		}
		if got.Verdict == audit.Refuted {
			t.Errorf("seed %d: the optimum of %v is refuted: %s\n%s", seed, most, got.Reason, protojson.Format(m.request))
		}
		if worse == nil {
			continue
		}
		got = audit.Check(t.Context(), m.request, m.answer(worse, less, solver.ReasonOptimal, prices), audit.Options{Work: 1e8})
		verdicts[false][got.Verdict]++
		if got.Verdict == audit.Confirmed {
			t.Errorf("seed %d: %v is confirmed; the optimum is %v\n%s", seed, less, most, protojson.Format(m.request))
		}
	}
	t.Logf("optima %v, worse plans %v", verdicts[true], verdicts[false])
}
