package problem

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
)

// drawRanking returns random keys with ties, weights and errors, and the order by key.
func drawRanking(t *rapid.T) (r ranking, order []int) {
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	jobs := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(60, 1500)).Draw(t, "jobs")
	width := rapid.SampledFrom([]float64{1, 1e-3, 15, 700}).Draw(t, "width of keys")
	weights := rapid.SampledFrom([]float64{0, 1, 20}).Draw(t, "width of weights")
	var errors []float64
	switch rapid.IntRange(0, 3).Draw(t, "kind of errors") {
	case 0:
		errors = []float64{rapid.SampledFrom([]float64{minETAError, 1e-3, 0.01, 0.7, 5}).Draw(t, "error")}
	case 1:
		errors = rapid.SliceOfN(rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0.01, 5)), 1, 5).Draw(t, "errors")
	case 2:
		errors = []float64{0, 0.69, 1.4}
	case 3:
		for range 90 {
			errors = append(errors, 5*random.Float64())
		}
	}
	for i := range jobs {
		r.key = append(r.key, width*random.NormFloat64())
		if i > 0 && random.IntN(5) == 0 {
			r.key[i] = r.key[random.IntN(i)]
		}
		r.weight = append(r.weight, math.Exp(weights*(random.Float64()-0.5)))
		r.sd = append(r.sd, errors[random.IntN(len(errors))])
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(r.key[b], r.key[a]) })
	return r, order
}

// TestRanks compares ranks with their definition, term by term and rounding included.
func TestRanks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, order := drawRanking(t)
		start := rapid.SampledFrom([]float64{0, 10}).Draw(t, "V_0")
		got := r.before(order, start)
		all := start
		for _, w := range r.weight {
			all += w
		}
		for i := range r.key {
			want := start
			for j := range r.key {
				switch sd := math.Sqrt(r.sd[i]*r.sd[i] + r.sd[j]*r.sd[j]); {
				case j == i:
				case sd > 0:
					want += r.weight[j] * math.Erfc((r.key[i]-r.key[j])/sd/math.Sqrt2) / 2
				case r.key[j] > r.key[i] || r.key[j] == r.key[i] && j < i:
					want += r.weight[j]
				}
			}
			if !(math.Abs(got[i]-want) <= 1e-12*all) || got[i] < start {
				t.Fatalf("job %d of %d: V = %.17g; want %.17g, to 1e-12 of %g", i, len(order), got[i], want, all)
			}
		}
	})
}

// TestRanksWithoutETAs checks that jobs of which nothing is known share one rank.
func TestRanksWithoutETAs(t *testing.T) {
	for _, jobs := range []int{1, 7, 500} {
		var r ranking
		var order []int
		for i := range jobs {
			r.key, r.weight, r.sd = append(r.key, float64(-i)), append(r.weight, 1), append(r.sd, 1e12)
			order = append(order, i)
		}
		for i, v := range r.before(order, 3) {
			if want := 3 + float64(jobs-1)/2; math.Abs(v-want) > 1e-9*want {
				t.Errorf("job %d of %d: V = %v; want %v", i, jobs, v, want)
			}
		}
	}
}

// TestETAErrors checks which errors count: the job's own error, otherwise the common one. Tiny errors count as 0, and
// many different errors of many jobs are rounded to quarters.
func TestETAErrors(t *testing.T) {
	got, want := etaErrors([]solver.Job{{}, {ETAError: new(0.05)}, {ETAError: new(0.77)}}, 0), []float64{0.1, 0.1, 0.77}
	if !slices.Equal(got, want) {
		t.Errorf("errors of jobs without free resizes are %v; want %v", got, want)
	}
	jobs := []solver.Job{{}, {ETAError: new(0.0)}, {ETAError: new(1e-7)}, {ETAError: new(0.77)}}
	for i := range jobs {
		jobs[i].FreeResizes = true
	}
	if got, want := etaErrors(jobs, 1.4), []float64{1.4, 0, 0, 0.77}; !slices.Equal(got, want) {
		t.Errorf("errors %v; want %v", got, want)
	}
	for i := range maxExactJobs - len(jobs) {
		jobs = append(jobs, solver.Job{FreeResizes: true, ETAError: new(1 + float64(i)/1024)})
	}
	if got, want := len(distinct(etaErrors(jobs, 1.4))), maxExactJobs-1; got != want {
		t.Errorf("%d different errors of %d jobs; want %d", got, maxExactJobs, want)
	}
	jobs = append(jobs, solver.Job{FreeResizes: true, ETAError: new(4.96)})
	if got, want := distinct(etaErrors(jobs, 1.4)), []float64{0, 0.75, 1, 1.25, 1.5, 1.75, 2, 5}; !slices.Equal(got, want) {
		t.Errorf("quarters %v; want %v", got, want)
	}
	for i := range jobs {
		jobs[i].FreeResizes, jobs[i].ETAError = true, new(float64(i%maxETAErrorClasses)/7)
	}
	if got := distinct(etaErrors(jobs, 1.4)); len(got) != maxETAErrorClasses || got[1] != 1.0/7 {
		t.Errorf("%d different errors of many jobs are %v", maxETAErrorClasses, got)
	}
}

// TestTails compares the table of Phi with the function.
func TestTails(t *testing.T) {
	for n := range 100_000 {
		x := farPairs * float64(n) / 99_999
		if got, want := tails().at(x), normal(-x); math.Abs(got-want) > 1e-15 {
			t.Fatalf("Phi(%v): %v, want %v", -x, got, want)
		}
	}
}
