package eta

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write testdata/estimates.json anew")

// TestPosteriorMatchesIntegral compares the posterior mean with a numerical integral (Simpson's rule).
func TestPosteriorMatchesIntegral(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.Float64Range(0.01, MaxError).Draw(rt, "s")
		z := rapid.Float64Range(-60, 60).Draw(rt, "z")
		d := rapid.Float64Range(1, 1e6).Draw(rt, "D")
		x := d * math.Exp(z*s)
		if x > maxETA {
			rt.Skip("the work done exceeds the maximum ETA")
		}
		got, want := MeanRemaining(math.Log(d), s, x), integral(d, s, x)
		// Both subtract x from a mean that may be only slightly larger, and z is the result of a logarithm.
		if off := math.Abs(got - want); !(off <= 1e-9*want+1e-12*x*max(1, z*z)) {
			rt.Errorf("D %v, s %v, x %v (z %v): %v, integral %v", d, s, x, z, got, want)
		}
	})
}

// integral returns the mean of W - x given W > x, if ln W is normal with mean ln d. Numerator and
// denominator are both divided by the largest density.
func integral(d, s, x float64) float64 {
	from := max(-12-s, math.Log(x/d)/s)
	peak := max(0, from)
	const steps = 200_000
	h := (max(from, 0) + s + 14 - from) / steps
	above, below := 0.0, 0.0
	for i := range steps + 1 {
		u, weight := from+float64(i)*h, 2.0+2*float64(i%2)
		if i == 0 || i == steps {
			weight = 1
		}
		density := weight * math.Exp((peak*peak-u*u)/2)
		above += density * (d*math.Exp(s*u) - x)
		below += density
	}
	return above / below
}

func TestPosteriorAtTheLimits(t *testing.T) {
	for _, c := range []struct {
		name    string
		d, s, x float64
		want    float64
	}{
		{"nearly exact", 100, 1e-9, 40, 60},
		{"nearly exact and exceeded", 100, 1e-9, 140, 140e-18 / math.Log(1.4)},
		{"nothing done", 100, 0.5, 0, 100 * math.Exp(0.125)},
		// In the far tail, the mean remaining work tends to x s^2 / ln(x/D).
		{"far tail", 1, 0.1, 1e80, 1e80 * (0.01/math.Log(1e80) + 1e-4/math.Pow(math.Log(1e80), 2))},
	} {
		if got := MeanRemaining(math.Log(c.d), c.s, c.x); math.Abs(got-c.want) > 1e-6*math.Abs(c.want)+1e-9 {
			t.Errorf("%s: %v; want %v", c.name, got, c.want)
		}
	}
	// The two methods of calculation agree where one replaces the other.
	for _, s := range []float64{0.01, 0.69, 1.4, 5} {
		below, above := MeanRemaining(math.Log(100), s, 100*math.Exp(s*math.Nextafter(tail, 0))),
			MeanRemaining(math.Log(100), s, 100*math.Exp(s*(tail+1e-12)))
		if math.Abs(above/below-1) > 1e-8 {
			t.Errorf("s %v: %v below the tail, %v above", s, below, above)
		}
	}
}

// TestTotalsIncreaseWithWork checks that the estimated total work does not decrease with the work done,
// and that the remaining work stays positive.
func TestTotalsIncreaseWithWork(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		estimate, sigma := spans().Draw(rt, "estimate"), rapid.Float64Range(0.01, MaxError).Draw(rt, "s")
		less, more := spans().Draw(rt, "done"), spans().Draw(rt, "done, too")
		if less > more {
			less, more = more, less
		}
		var e Estimator
		a, b := e.Estimate(Job{UserEstimate: estimate, UserError: sigma, WorkDone: less}),
			e.Estimate(Job{UserEstimate: estimate, UserError: sigma, WorkDone: more})
		if b.ETA == duration(maxETA) {
			return // The estimate is at its maximum.
		}
		// The tolerance is one second, which is the smallest estimate.
		if a.ETA < time.Second || b.ETA < time.Second || (less+a.ETA).Seconds() > (more+b.ETA).Seconds()*(1+1e-9)+1 {
			rt.Errorf("after %v of work, %v are left; after %v, %v", less, a.ETA, more, b.ETA)
		}
	})
}

// TestRemainingIsMedian compares the estimate with its definition, computed from a list of all values.
func TestRemainingIsMedian(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var e Estimator
		completed := rapid.SliceOfN(rapid.Int64Range(0, 20_000), 0, 30).Draw(rt, "completed")
		for _, seconds := range completed {
			e.Completed(Job{WorkDone: time.Duration(seconds) * time.Second})
		}
		done := rapid.Int64Range(0, 20_000).Draw(rt, "done")
		list := []float64{1200, 3600}
		if done > 1200 {
			list = []float64{float64(done), 3 * float64(done)}
		}
		for _, seconds := range completed {
			if seconds > done {
				list = append(list, float64(seconds-done))
			}
		}
		slices.Sort(list)
		want := list[len(list)/2]
		if len(list)%2 == 0 {
			want = (want + list[len(list)/2-1]) / 2
		}
		worked := time.Duration(done) * time.Second
		got := e.Estimate(Job{WorkDone: worked})
		diff := cmp.Diff(Estimate{ETA: time.Duration(want * float64(time.Second)), Nodes: 1, Error: UnknownError, WorkDone: worked}, got)
		if diff != "" {
			rt.Error(diff)
		}
	})
}

// TestKeepsLatestCompleted checks that an Estimator and its state contain the last MaxCompleted jobs.
func TestKeepsLatestCompleted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	var all Estimator
	var works []float64
	for range MaxCompleted + 500 {
		minutes := random.IntN(50) // Many are equal, and some 0.
		all.Completed(Job{WorkDone: time.Duration(minutes) * time.Minute, UserEstimate: time.Hour})
		if minutes > 0 {
			works = append(works, float64(60*minutes))
		}
	}
	works = works[len(works)-MaxCompleted:]
	if !slices.Equal(all.completed, works) || !slices.Equal(all.sorted, slices.Sorted(slices.Values(works))) {
		t.Errorf("contains %d jobs; want the latest %d", len(all.completed), MaxCompleted)
	}
	var restored Estimator
	if err := json.Unmarshal(marshal(t, &all), &restored); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all, restored, cmp.AllowUnexported(Estimator{})); diff != "" {
		t.Errorf("restored Estimator (-want +got):\n%s", diff)
	}
}

// TestSourceOrder checks the order of the sources: steps, the estimate of the user, completed jobs. Invalid
// values are treated as unset.
func TestSourceOrder(t *testing.T) {
	var e Estimator
	steps := Job{StepsLeft: 600, SecondsPerStep: 2, Nodes: 8, UserEstimate: time.Hour, UserError: 1, WorkDone: time.Minute}
	user, unknown := steps, steps
	user.SecondsPerStep = 0
	unknown.SecondsPerStep, unknown.UserEstimate = math.NaN(), -time.Hour
	for _, c := range []struct {
		job  Job
		want Estimate
	}{
		{steps, Estimate{ETA: 20 * time.Minute, Nodes: 8, Error: 0}},
		{user, Estimate{ETA: duration(MeanRemaining(math.Log(3600), 1, 60)), Nodes: 1, Error: 1}},
		{unknown, Estimate{ETA: 40 * time.Minute, Nodes: 1, Error: UnknownError}},
		{Job{}, Estimate{ETA: 40 * time.Minute, Nodes: 1, Error: UnknownError}},
		{Job{SecondsPerStep: 1}, Estimate{ETA: time.Second, Nodes: 1, Error: 0}},
		{Job{StepsLeft: -1, SecondsPerStep: 1}, Estimate{ETA: 40 * time.Minute, Nodes: 1, Error: UnknownError}},
		{Job{StepsLeft: math.Inf(1), SecondsPerStep: 1}, Estimate{ETA: duration(maxETA), Nodes: 1, Error: 0}},
		{Job{UserEstimate: time.Hour, UserError: math.NaN()},
			Estimate{ETA: duration(MeanRemaining(math.Log(3600), math.Ln2, 0)), Nodes: 1, Error: math.Ln2}},
		{Job{UserEstimate: time.Hour, UserError: 99}, Estimate{ETA: duration(MeanRemaining(math.Log(3600), 5, 0)), Nodes: 1, Error: 5}},
		{Job{UserEstimate: time.Hour, UserError: 1e-300, WorkDone: 2 * time.Hour}, Estimate{ETA: time.Second, Nodes: 1, Error: minError}},
		{Job{UserEstimate: math.MaxInt64, WorkDone: math.MaxInt64},
			Estimate{ETA: duration(MeanRemaining(math.Log(maxETA), math.Ln2, maxETA)), Nodes: 1, Error: math.Ln2}},
	} {
		got := e.Estimate(c.job)
		c.want.WorkDone = min(c.job.WorkDone, duration(maxETA))
		if c.job.UserEstimate > 0 {
			c.want.Overrun = min(c.job.WorkDone.Seconds(), maxETA) / c.job.UserEstimate.Seconds()
		}
		if got != c.want {
			t.Errorf("%+v: %+v; want %+v", c.job, got, c.want)
		}
	}
}

func TestSpeed(t *testing.T) {
	for nodes, want := range map[int]float64{1: 1, 2: 1.6, 4: 2.56, 16: 6.5536} {
		if got := Speed(nodes, 0.8); math.Abs(got-want) > 1e-12 {
			t.Errorf("speed on %d nodes %v; want %v", nodes, got, want)
		}
	}
}

func TestBadStates(t *testing.T) {
	for text, want := range map[string]string{
		`{"completed_seconds":[1,0]}`:  "parse state of ETAs: completed_seconds[1]: is 0; must be greater than 0 and at most 3.1536e+08",
		`{"completed_seconds":[1e99]}`: "parse state of ETAs: completed_seconds[0]: is 1e+99; must be greater than 0 and at most 3.1536e+08",
		`{}`:                           "parse state of ETAs: completed_seconds: is missing; must be a list of seconds",
		`null`:                         "parse state of ETAs: completed_seconds: is missing; must be a list of seconds",
		`{"completed_seconds":[],"user_estimates":[1]}`: "parse state of ETAs: user_estimates: " +
			"is [1]; must be a number of jobs, 1 to 1000, and 5 sums of at most 1e+06",
		`{"completed_seconds":[],"a":1}`: `parse state of ETAs: json: unknown field "a"`,
	} {
		e := Estimator{completed: []float64{1}, sorted: []float64{1}}
		if err := json.Unmarshal([]byte(text), &e); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
		if len(e.completed) != 1 {
			t.Errorf("%s: the state is lost", text)
		}
	}
}

// FuzzState checks that invalid states are rejected, and that valid states lead to valid ETAs and
// survive a round trip.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{"completed_seconds":[60,3600.5,1]}`), int64(time.Hour))
	f.Add([]byte(`{"completed_seconds":[]}`), int64(0))
	f.Add([]byte(`{"completed_seconds":[],"user_estimates":[1,-1e6,1e6,0,-1e6,1e6]}`), int64(1))
	f.Add([]byte(`{"completed_seconds":[1e-300]}{}`), int64(-1))
	f.Fuzz(func(t *testing.T, text []byte, done int64) {
		var e, again Estimator
		if e.UnmarshalJSON(text) != nil {
			if len(e.completed) > 0 || e.fit != (fit{}) {
				t.Error("an invalid state is applied in part")
			}
			return
		}
		for _, estimate := range []time.Duration{0, 1, time.Hour, math.MaxInt64} {
			got := e.Estimate(Job{WorkDone: time.Duration(done), UserEstimate: estimate})
			if got.ETA < time.Second || got.ETA > duration(maxETA) || !(got.Error > 0 && got.Error <= MaxError) {
				t.Errorf("estimate %+v", got)
			}
		}
		if err := again.UnmarshalJSON(marshal(t, &e)); err != nil || !slices.Equal(again.completed, e.completed) || again.fit != e.fit {
			t.Errorf("after a round trip: %v, %v", again.completed, err)
		}
	})
}

func marshal(t *testing.T, e *Estimator) []byte {
	t.Helper()
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// goldenCase is an estimate that is the same in Go and Python. Times are seconds; 0 means unset.
type goldenCase struct {
	CompletedSeconds   []float64 `json:"completed_seconds"`
	CompletedEstimates []float64 `json:"completed_estimates"`
	StepsLeft          float64   `json:"steps_left"`
	SecondsPerStep     float64   `json:"seconds_per_step"`
	Nodes              int       `json:"nodes"`
	UserEstimate       float64   `json:"user_estimate"`
	UserError          float64   `json:"user_error"`
	WorkDone           float64   `json:"work_done"`
	ETA                float64   `json:"eta"`
	ETANodes           int32     `json:"eta_nodes"`
	ETAError           float64   `json:"eta_error"`
	Overrun            float64   `json:"overrun"`
}

// TestGolden compares estimates with a golden file, which TestPythonETAs uses too.
func TestGolden(t *testing.T) {
	random := rand.New(rand.NewPCG(25, 0))
	span := func() float64 { return math.Round(math.Exp(random.Float64()*17)*1e3) / 1e3 }
	cases := make([]goldenCase, 300)
	for i := range cases {
		c := &cases[i]
		c.CompletedSeconds, c.CompletedEstimates = []float64{}, []float64{}
		for n := range random.IntN(12) * random.IntN(2) {
			c.CompletedSeconds = append(c.CompletedSeconds, span())
			c.CompletedEstimates = append(c.CompletedEstimates, span()*float64(n%3)) // 0 means unset.
		}
		if i%4 == 0 {
			c.StepsLeft, c.SecondsPerStep, c.Nodes = math.Round(span()), span()/1e4, 1<<random.IntN(5)
		}
		if i%2 == 0 {
			c.UserEstimate = span()
		}
		if i%6 == 0 {
			c.UserError = []float64{1e-6, 0.01, 0.2, 1.39, 5}[random.IntN(5)]
		}
		if i%5 > 0 {
			c.WorkDone = span()
		}
		var e Estimator
		for n, work := range c.CompletedSeconds {
			e.Completed(Job{WorkDone: nanoseconds(work), UserEstimate: nanoseconds(c.CompletedEstimates[n]), UserError: c.UserError})
		}
		got := e.Estimate(Job{
			StepsLeft: c.StepsLeft, SecondsPerStep: c.SecondsPerStep, Nodes: c.Nodes,
			UserEstimate: nanoseconds(c.UserEstimate), UserError: c.UserError, WorkDone: nanoseconds(c.WorkDone),
		})
		c.ETA, c.ETANodes, c.ETAError, c.Overrun = got.ETA.Seconds(), got.Nodes, got.Error, got.Overrun
	}
	const path = "testdata/estimates.json"
	if *update {
		text := []byte("[\n")
		for i := range cases {
			line, err := json.Marshal(&cases[i])
			if err != nil {
				t.Fatal(err)
			}
			text = append(append(text, line...), ",\n"...)
		}
		text = append(text[:len(text)-2], "\n]\n"...)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var want []goldenCase
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	// Processors may differ in the last digits.
	nearly := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a)) })
	if diff := cmp.Diff(want, cases, nearly); diff != "" {
		t.Error(diff)
	}
}

func nanoseconds(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

// spans returns random times from a millisecond to ten years, uniform in their logarithm.
func spans() *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Float64Range(math.Log(1e6), math.Log(maxETA*1e9)), func(x float64) time.Duration {
		return time.Duration(math.Exp(x))
	})
}

// TestPythonETAs checks that the Python client returns the estimates of the golden file, reads and
// writes the same states, and rejects the same texts.
func TestPythonETAs(t *testing.T) {
	const python = "/usr/bin/python3"
	if output, err := exec.Command(python, "--version").CombinedOutput(); err != nil {
		t.Skipf("%s: %v %s", python, err, output)
	}
	var e Estimator
	e.Completed(Job{WorkDone: 90 * time.Second, UserEstimate: time.Hour})
	e.Completed(Job{WorkDone: 100 * time.Millisecond, UserEstimate: time.Minute, UserError: 0.2})
	learned := e.Estimate(Job{UserEstimate: time.Minute})
	command := exec.Command(python, "-c", `
import json, sys, types
package = sys.modules["elastalloc"] = types.ModuleType("elastalloc")
package.__path__ = ["../../python/elastalloc"] # Without __init__, which needs grpcio.
from elastalloc.eta import Estimator, MAX_COMPLETED, speed
for c in json.load(open("testdata/estimates.json")):
    e = Estimator()
    for work, user_estimate in zip(c.pop("completed_seconds"), c.pop("completed_estimates")):
        e.completed(work, user_estimate=user_estimate, user_error=c["user_error"])
    want = c.pop("eta"), c.pop("eta_nodes"), c.pop("eta_error"), c.pop("overrun")
    got = e.estimate(**c)
    assert all(abs(g - w) <= 1e-9 * max(1, w) for g, w in zip(got, want)), (c, got, want)
    assert got.work_done == c["work_done"], (c, got)
e = Estimator.from_json(sys.argv[1])
print(e.to_json())
learned = e.estimate(user_estimate=60)
for n in range(MAX_COMPLETED + 5):
    e.completed(60 + n % 7)
assert sorted(e._completed) == e._sorted and len(e._completed) == MAX_COMPLETED and 90 not in e._completed
assert Estimator.from_json(e.to_json())._sorted == e._sorted
assert abs(speed(4) - 2.56) < 1e-12
assert abs(learned.eta - float(sys.argv[2])) < 1e-6 and abs(learned.error - float(sys.argv[3])) < 1e-9, learned
tiny = Estimator().estimate(user_estimate=1e-300, user_error=1e-300, work_done=1e300)
assert tiny.eta == 1 and tiny.error == 1e-9 and tiny.overrun < 1e18, tiny
assert e.estimate(user_estimate=float("nan")).error == 3 and e.estimate(seconds_per_step=float("nan")).error == 3
for text in ["", "{}", "null", "[]", "[" * 100000, '{"completed_seconds": [0]}',
             '{"completed_seconds": [NaN]}', '{"completed_seconds": [true]}',
             '{"completed_seconds": [], "user_estimates": 0}', '{"completed_seconds": [], "user_estimates": [1, 1]}',
             '{"completed_seconds": [], "user_estimates": [0, 0, 0, 0, 0, 0]}',
             '{"completed_seconds": [], "user_estimates": [1, 1, 1, 1, 1, NaN]}',
             '{"completed_seconds": [], "user_estimates": [1, 1, 1, 1, 1, 2e6]}',
             '{"completed_seconds": 1}', '{"completed_seconds": [1e99]}',
             '{"completed_seconds": [], "a": 1}', '{"completed_seconds": []} {}']:
    try:
        Estimator.from_json(text)
        raise AssertionError(text)
    except ValueError as error:
        assert str(error).startswith("parse state of ETAs: "), error
`, string(marshal(t, &e)), fmt.Sprint(learned.ETA.Seconds()), fmt.Sprint(learned.Error))
	command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	state, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, state)
	}
	var again Estimator
	if err := json.Unmarshal(state, &again); err != nil || !slices.Equal(again.completed, e.completed) || again.fit != e.fit {
		t.Errorf("Python wrote %s: %v, %v", state, again.completed, err)
	}
}
