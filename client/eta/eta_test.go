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

// TestPosteriorIsTheIntegral compares with Simpson's rule over the normal variable.
func TestPosteriorIsTheIntegral(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.Float64Range(0.01, MaxError).Draw(rt, "s")
		z := rapid.Float64Range(-60, 60).Draw(rt, "z")
		d := rapid.Float64Range(1, 1e6).Draw(rt, "D")
		x := d * math.Exp(z*s)
		if x > most {
			rt.Skip("more than is ever done")
		}
		got, want := MeanLeft(math.Log(d), s, x), integral(d, s, x)
		// Both take x off a mean that may be hardly more, and z comes from a logarithm.
		if off := math.Abs(got - want); !(off <= 1e-9*want+1e-12*x*max(1, z*z)) {
			rt.Errorf("D %v, s %v, x %v (z %v): %v, integral %v", d, s, x, z, got, want)
		}
	})
}

// integral returns the mean of W - x over W > x, ln W normal about ln d: the integrals of
// the numerator and of the denominator are both divided by the largest density.
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
		{"nearly exact and outrun", 100, 1e-9, 140, 140e-18 / math.Log(1.4)},
		{"nothing done", 100, 0.5, 0, 100 * math.Exp(0.125)},
		// Far out the mean of what is left tends to x s^2 / ln(x/D).
		{"far tail", 1, 0.1, 1e80, 1e80 * (0.01/math.Log(1e80) + 1e-4/math.Pow(math.Log(1e80), 2))},
	} {
		if got := MeanLeft(math.Log(c.d), c.s, c.x); math.Abs(got-c.want) > 1e-6*math.Abs(c.want)+1e-9 {
			t.Errorf("%s: %v; want %v", c.name, got, c.want)
		}
	}
	// The two ways of calculating meet.
	for _, s := range []float64{0.01, 0.69, 1.4, 5} {
		below, above := MeanLeft(math.Log(100), s, 100*math.Exp(s*math.Nextafter(tail, 0))), MeanLeft(math.Log(100), s, 100*math.Exp(s*(tail+1e-12)))
		if math.Abs(above/below-1) > 1e-8 {
			t.Errorf("s %v: %v below the tail, %v above", s, below, above)
		}
	}
}

// TestTotalsGrowWithTheWork: a job that has done more has, all told, no less to do, and what
// is left never runs out.
func TestTotalsGrowWithTheWork(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		told, off := spans().Draw(rt, "told"), rapid.Float64Range(0.01, MaxError).Draw(rt, "s")
		less, more := spans().Draw(rt, "done"), spans().Draw(rt, "done, too")
		if less > more {
			less, more = more, less
		}
		var e Estimator
		a, b := e.Estimate(Job{Told: told, ToldError: off, WorkDone: less}), e.Estimate(Job{Told: told, ToldError: off, WorkDone: more})
		if b.ETA == duration(most) {
			return // It is cut off.
		}
		// To a second: at least that is always left.
		if a.ETA < time.Second || b.ETA < time.Second || (less+a.ETA).Seconds() > (more+b.ETA).Seconds()*(1+1e-9)+1 {
			rt.Errorf("after %v %v left, after %v %v", less, a.ETA, more, b.ETA)
		}
	})
}

// TestLeftIsTheMedian compares with the definition, all values in a list.
func TestLeftIsTheMedian(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var e Estimator
		ended := rapid.SliceOfN(rapid.Int64Range(0, 20_000), 0, 30).Draw(rt, "ended")
		for _, seconds := range ended {
			e.Ended(Job{WorkDone: time.Duration(seconds) * time.Second})
		}
		done := rapid.Int64Range(0, 20_000).Draw(rt, "done")
		list := []float64{1200, 3600}
		if done > 1200 {
			list = []float64{float64(done), 3 * float64(done)}
		}
		for _, seconds := range ended {
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
		if diff := cmp.Diff(Estimate{ETA: time.Duration(want * float64(time.Second)), Nodes: 1, Error: UnknownError, WorkDone: worked}, got); diff != "" {
			rt.Error(diff)
		}
	})
}

// TestLatestEndedAreRemembered: an Estimator and its state hold the last MaxEnded jobs.
func TestLatestEndedAreRemembered(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	var all Estimator
	var works []float64
	for range MaxEnded + 500 {
		minutes := random.IntN(50) // Many are equal, and some 0.
		all.Ended(Job{WorkDone: time.Duration(minutes) * time.Minute, Told: time.Hour})
		if minutes > 0 {
			works = append(works, float64(60*minutes))
		}
	}
	works = works[len(works)-MaxEnded:]
	if !slices.Equal(all.ended, works) || !slices.Equal(all.sorted, slices.Sorted(slices.Values(works))) {
		t.Errorf("remembers %d jobs, not the latest %d", len(all.ended), MaxEnded)
	}
	var restored Estimator
	if err := json.Unmarshal(marshal(t, &all), &restored); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all, restored, cmp.AllowUnexported(Estimator{})); diff != "" {
		t.Errorf("its state restores another:\n%s", diff)
	}
}

// TestTrust: steps before what was told, that before ended jobs; values that no scheduler
// means are as if they were left out.
func TestTrust(t *testing.T) {
	var e Estimator
	steps := Job{StepsLeft: 600, SecondsPerStep: 2, Nodes: 8, Told: time.Hour, ToldError: 1, WorkDone: time.Minute}
	told, unknown := steps, steps
	told.SecondsPerStep = 0
	unknown.SecondsPerStep, unknown.Told = math.NaN(), -time.Hour
	for _, c := range []struct {
		job  Job
		want Estimate
	}{
		{steps, Estimate{ETA: 20 * time.Minute, Nodes: 8, Error: 0}},
		{told, Estimate{ETA: duration(MeanLeft(math.Log(3600), 1, 60)), Nodes: 1, Error: 1}},
		{unknown, Estimate{ETA: 40 * time.Minute, Nodes: 1, Error: UnknownError}},
		{Job{}, Estimate{ETA: 40 * time.Minute, Nodes: 1, Error: UnknownError}},
		{Job{SecondsPerStep: 1}, Estimate{ETA: time.Second, Nodes: 1, Error: 0}},
		{Job{StepsLeft: -1, SecondsPerStep: 1}, Estimate{ETA: 40 * time.Minute, Nodes: 1, Error: UnknownError}},
		{Job{StepsLeft: math.Inf(1), SecondsPerStep: 1}, Estimate{ETA: duration(most), Nodes: 1, Error: 0}},
		{Job{Told: time.Hour, ToldError: math.NaN()}, Estimate{ETA: duration(MeanLeft(math.Log(3600), math.Ln2, 0)), Nodes: 1, Error: math.Ln2}},
		{Job{Told: time.Hour, ToldError: 99}, Estimate{ETA: duration(MeanLeft(math.Log(3600), 5, 0)), Nodes: 1, Error: 5}},
		{Job{Told: time.Hour, ToldError: 1e-300, WorkDone: 2 * time.Hour}, Estimate{ETA: time.Second, Nodes: 1, Error: leastError}},
		{Job{Told: math.MaxInt64, WorkDone: math.MaxInt64}, Estimate{ETA: duration(MeanLeft(math.Log(most), math.Ln2, most)), Nodes: 1, Error: math.Ln2}},
	} {
		got := e.Estimate(c.job)
		c.want.WorkDone = min(c.job.WorkDone, duration(most))
		if c.job.Told > 0 {
			c.want.Overrun = min(c.job.WorkDone.Seconds(), most) / c.job.Told.Seconds()
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
		`{"ended_seconds":[1,0]}`:         "parse state of ETAs: ended_seconds[1] is 0; want more than 0 and at most 3.1536e+08",
		`{"ended_seconds":[1e99]}`:        "parse state of ETAs: ended_seconds[0] is 1e+99; want more than 0 and at most 3.1536e+08",
		`{}`:                              "parse state of ETAs: ended_seconds is missing; want a list of seconds",
		`null`:                            "parse state of ETAs: ended_seconds is missing; want a list of seconds",
		`{"ended_seconds":[],"told":[1]}`: "parse state of ETAs: told is [1]; want 1 to 1000 jobs and 5 sums of at most 1e+06",
		`{"ended_seconds":[],"a":1}`:      `parse state of ETAs: json: unknown field "a"`,
	} {
		e := Estimator{ended: []float64{1}, sorted: []float64{1}}
		if err := json.Unmarshal([]byte(text), &e); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
		if len(e.ended) != 1 {
			t.Errorf("%s: the state is lost", text)
		}
	}
}

// FuzzState: whatever is no state is refused, and whatever is one gives ETAs that the service
// takes and is written again as it was read.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{"ended_seconds":[60,3600.5,1]}`), int64(time.Hour))
	f.Add([]byte(`{"ended_seconds":[]}`), int64(0))
	f.Add([]byte(`{"ended_seconds":[],"told":[1,-1e6,1e6,0,-1e6,1e6]}`), int64(1))
	f.Add([]byte(`{"ended_seconds":[1e-300]}{}`), int64(-1))
	f.Fuzz(func(t *testing.T, text []byte, done int64) {
		var e, again Estimator
		if e.UnmarshalJSON(text) != nil {
			if len(e.ended) > 0 || e.fit != (fit{}) {
				t.Error("a text that is no state is one in part")
			}
			return
		}
		for _, told := range []time.Duration{0, 1, time.Hour, math.MaxInt64} {
			got := e.Estimate(Job{WorkDone: time.Duration(done), Told: told})
			if got.ETA < time.Second || got.ETA > duration(most) || !(got.Error > 0 && got.Error <= MaxError) {
				t.Errorf("estimate %+v", got)
			}
		}
		if err := again.UnmarshalJSON(marshal(t, &e)); err != nil || !slices.Equal(again.ended, e.ended) || again.fit != e.fit {
			t.Errorf("written again: %v, %v", again.ended, err)
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

// goldenCase is an estimate that Go and Python agree on. Times are seconds; 0 is not told.
type goldenCase struct {
	EndedSeconds   []float64 `json:"ended_seconds"`
	EndedTold      []float64 `json:"ended_told"`
	StepsLeft      float64   `json:"steps_left"`
	SecondsPerStep float64   `json:"seconds_per_step"`
	Nodes          int       `json:"nodes"`
	Told           float64   `json:"told"`
	ToldError      float64   `json:"told_error"`
	WorkDone       float64   `json:"work_done"`
	ETA            float64   `json:"eta"`
	ETANodes       int32     `json:"eta_nodes"`
	ETAError       float64   `json:"eta_error"`
	Overrun        float64   `json:"overrun"`
}

// TestGolden: the numbers stay what they were, and the Python client has the same
// (TestPythonETAs).
func TestGolden(t *testing.T) {
	random := rand.New(rand.NewPCG(25, 0))
	span := func() float64 { return math.Round(math.Exp(random.Float64()*17)*1e3) / 1e3 }
	cases := make([]goldenCase, 300)
	for i := range cases {
		c := &cases[i]
		c.EndedSeconds, c.EndedTold = []float64{}, []float64{}
		for n := range random.IntN(12) * random.IntN(2) {
			c.EndedSeconds = append(c.EndedSeconds, span())
			c.EndedTold = append(c.EndedTold, span()*float64(n%3)) // 0 is none.
		}
		if i%4 == 0 {
			c.StepsLeft, c.SecondsPerStep, c.Nodes = math.Round(span()), span()/1e4, 1<<random.IntN(5)
		}
		if i%2 == 0 {
			c.Told = span()
		}
		if i%6 == 0 {
			c.ToldError = []float64{1e-6, 0.01, 0.2, 1.39, 5}[random.IntN(5)]
		}
		if i%5 > 0 {
			c.WorkDone = span()
		}
		var e Estimator
		for n, work := range c.EndedSeconds {
			e.Ended(Job{WorkDone: nanoseconds(work), Told: nanoseconds(c.EndedTold[n]), ToldError: c.ToldError})
		}
		got := e.Estimate(Job{
			StepsLeft: c.StepsLeft, SecondsPerStep: c.SecondsPerStep, Nodes: c.Nodes,
			Told: nanoseconds(c.Told), ToldError: c.ToldError, WorkDone: nanoseconds(c.WorkDone),
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

// spans draws times from a millisecond to ten years, each order of magnitude alike.
func spans() *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Float64Range(math.Log(1e6), math.Log(most*1e9)), func(x float64) time.Duration {
		return time.Duration(math.Exp(x))
	})
}

// TestPythonETAs: the Python client gives the numbers of the golden file, reads and writes the
// same states, and refuses the same texts.
func TestPythonETAs(t *testing.T) {
	const python = "/usr/bin/python3"
	if output, err := exec.Command(python, "--version").CombinedOutput(); err != nil {
		t.Skipf("%s: %v %s", python, err, output)
	}
	var e Estimator
	e.Ended(Job{WorkDone: 90 * time.Second, Told: time.Hour})
	e.Ended(Job{WorkDone: 100 * time.Millisecond, Told: time.Minute, ToldError: 0.2})
	learnt := e.Estimate(Job{Told: time.Minute})
	command := exec.Command(python, "-c", `
import json, sys
sys.path.insert(0, "../../python/elastalloc") # Without the rest, which needs grpcio.
from eta import Estimator, MAX_ENDED, speed
for c in json.load(open("testdata/estimates.json")):
    e = Estimator()
    for work, told in zip(c.pop("ended_seconds"), c.pop("ended_told")):
        e.ended(work, told=told, told_error=c["told_error"])
    want = c.pop("eta"), c.pop("eta_nodes"), c.pop("eta_error"), c.pop("overrun")
    got = e.estimate(**c)
    assert all(abs(g - w) <= 1e-9 * max(1, w) for g, w in zip(got, want)), (c, got, want)
    assert got.work_done == c["work_done"], (c, got)
e = Estimator.from_json(sys.argv[1])
print(e.to_json())
learnt = e.estimate(told=60)
for n in range(MAX_ENDED + 5):
    e.ended(60 + n % 7)
assert sorted(e._ended) == e._sorted and len(e._ended) == MAX_ENDED and 90 not in e._ended
assert Estimator.from_json(e.to_json())._sorted == e._sorted
assert abs(speed(4) - 2.56) < 1e-12
assert abs(learnt.eta - float(sys.argv[2])) < 1e-6 and abs(learnt.error - float(sys.argv[3])) < 1e-9, learnt
tiny = Estimator().estimate(told=1e-300, told_error=1e-300, work_done=1e300)
assert tiny.eta == 1 and tiny.error == 1e-9 and tiny.overrun < 1e18, tiny
assert e.estimate(told=float("nan")).error == 3 and e.estimate(seconds_per_step=float("nan")).error == 3
for text in ["", "{}", "null", "[]", "[" * 100000, '{"ended_seconds": [0]}', '{"ended_seconds": [NaN]}', '{"ended_seconds": [true]}',
             '{"ended_seconds": [], "told": 0}', '{"ended_seconds": [], "told": [1, 1]}', '{"ended_seconds": [], "told": [0, 0, 0, 0, 0, 0]}',
             '{"ended_seconds": [], "told": [1, 1, 1, 1, 1, NaN]}', '{"ended_seconds": [], "told": [1, 1, 1, 1, 1, 2e6]}',
             '{"ended_seconds": 1}', '{"ended_seconds": [1e99]}', '{"ended_seconds": [], "a": 1}', '{"ended_seconds": []} {}']:
    try:
        Estimator.from_json(text)
        raise AssertionError(text)
    except ValueError as error:
        assert str(error).startswith("parse state of ETAs: "), error
`, string(marshal(t, &e)), fmt.Sprint(learnt.ETA.Seconds()), fmt.Sprint(learnt.Error))
	command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	state, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, state)
	}
	var again Estimator
	if err := json.Unmarshal(state, &again); err != nil || !slices.Equal(again.ended, e.ended) || again.fit != e.fit {
		t.Errorf("Python wrote %s: %v, %v", state, again.ended, err)
	}
}
