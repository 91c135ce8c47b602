package exact_test

import (
	"context"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/highs"
	"github.com/elastalloc/elastalloc/solver/solvertest"
)

// BenchmarkAgainstHiGHS has both prove what is hard for one of them: sweeps of equal
// jobs, and few jobs over long horizons. It reports the milliseconds that each took, up
// to a limit of 20 s, and the times that exact needs of HiGHS's; at the end it names the
// snapshot that is worst for exact.
func BenchmarkAgainstHiGHS(b *testing.B) {
	const limit = 20 * time.Second
	oracle := highs.New(solvertest.Program(b, solver.BackendHiGHS))
	problems := make(map[string]*solver.Problem)
	var names []string
	add := func(name string, p *solver.Problem) { names, problems[name] = append(names, name), p }
	for _, s := range shapes() {
		add(s.String(), s.problem())
	}
	for _, d := range hardEnd() {
		if d.jobs <= 20 {
			add(d.String(), d.problem())
		}
	}
	worst, worstName := 0.0, ""
	for _, name := range names {
		p := problems[name]
		solve := func(backend solver.Backend) time.Duration {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			start := time.Now()
			if _, err := backend.Solve(ctx, p, solver.SolveOptions{Formulation: solver.FormulationOneHot}); err != nil {
				b.Logf("%s: %s: %v", name, backend.Name(), err)
			}
			return time.Since(start)
		}
		b.Run(name, func(b *testing.B) {
			var ours, theirs time.Duration
			for b.Loop() {
				ours, theirs = solve(exact.New()), solve(oracle)
			}
			ratio := ours.Seconds() / theirs.Seconds()
			b.ReportMetric(ours.Seconds()*1e3, "exact-ms")
			b.ReportMetric(theirs.Seconds()*1e3, "highs-ms")
			b.ReportMetric(ratio, "ratio")
			if ratio > worst {
				worst, worstName = ratio, name
			}
		})
	}
	b.Logf("worst for exact: %.2f times the time of HiGHS, %s", worst, worstName)
}
