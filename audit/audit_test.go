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
	compared := 0
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
		response := m.answer(best, most, solver.ReasonOptimal, prices)
		if d.chance(2) {
			response.Report.Certificate = d.certificate(m)
		}
		got := audit.Check(t.Context(), m.request, response, audit.Options{Work: 1e8})
		if got.Verdict != audit.Confirmed {
			t.Errorf("seed %d: the optimum of %v is %v: %s\n%s", seed, most, got.Verdict, got.Reason, protojson.Format(m.request))
		}
		if worse == nil {
			continue
		}
		certificate := response.GetReport().GetCertificate()
		response = m.answer(worse, less, solver.ReasonOptimal, prices)
		response.Report.Certificate = certificate
		got = audit.Check(t.Context(), m.request, response, audit.Options{Work: 1e8})
		if got.Verdict != audit.Refuted {
			t.Errorf("seed %d: %v is %v; the optimum is %v\n%s", seed, less, got.Verdict, most, protojson.Format(m.request))
		}
		compared++
		if leaves := certificate.GetLeaves(); len(leaves) > 1 {
			certificate.Leaves = leaves[1:]
			if got := audit.Check(t.Context(), m.request, response, audit.Options{Work: 1e8}); got.Verdict == audit.Confirmed {
				t.Errorf("seed %d: a certificate without its first leaf confirms %v", seed, less)
			}
		}
	}
	t.Logf("%d worse plans", compared)
}
