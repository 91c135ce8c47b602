package teams

import (
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite testdata/usage.json")

// at returns a time, in seconds since the start of a test.
func at(seconds float64) time.Time {
	return time.Unix(1e9, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func newUsage(t *testing.T, c Config) *Usage {
	t.Helper()
	u, err := NewUsage(c)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// near reports whether two factors differ only by rounding.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9 }

// TestFactorMatchesIntegral compares the factors after random nodes at random times with the closed form: nodes from
// a to b count n (2^(-(T-b)/h) - 2^(-(T-a)/h)) h / ln 2 at the time T. The state is restored before each call.
func TestFactorMatchesIntegral(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		halfLife := rapid.Float64Range(10, 1e5).Draw(rt, "half-life")
		c := Config{
			HalfLife: time.Duration(halfLife * float64(time.Second)), Exponent: rapid.Float64Range(0.1, 3).Draw(rt, "exponent"),
			Quotas: map[string]float64{"a": rapid.Float64Range(1, 10).Draw(rt, "a"), "b": rapid.Float64Range(1, 10).Draw(rt, "b"), "none": 0},
		}
		u := newUsage(t, c)
		var times []float64
		var nodes []map[string]int
		now := 0.0
		for range rapid.IntRange(2, 20).Draw(rt, "calls") {
			state, err := json.Marshal(u)
			if err != nil {
				rt.Fatal(err)
			}
			u = newUsage(t, c)
			if err := json.Unmarshal(state, u); err != nil {
				rt.Fatal(err)
			}
			n := map[string]int{"a": rapid.IntRange(0, 8).Draw(rt, "nodes of a"), "b": rapid.IntRange(1, 8).Draw(rt, "nodes of b"), "none": 1}
			u.Observe(at(now), n)
			times, nodes = append(times, now), append(nodes, n)
			now += float64(rapid.IntRange(0, int(2*halfLife)).Draw(rt, "time"))
		}
		last, used, all := times[len(times)-1], make(map[string]float64), 0.0
		for i, n := range nodes[:len(nodes)-1] {
			for team := range n {
				share := math.Exp2(-(last-times[i+1])/halfLife) - math.Exp2(-(last-times[i])/halfLife)
				used[team] += float64(n[team]) * share * halfLife / math.Ln2
				all += float64(n[team]) * share * halfLife / math.Ln2
			}
		}
		for _, team := range []string{"a", "b"} {
			share := c.Quotas[team] / (c.Quotas["a"] + c.Quotas["b"])
			want := min(max(math.Pow(share*all/used[team], c.Exponent), 0.25), 4)
			if all == 0 {
				want = 1
			}
			if got := u.Factor(team); math.Abs(got-want) > 1e-6 {
				rt.Errorf("the factor of %s is %v; want %v", team, got, want)
			}
		}
	})
}

// TestFactorAtTheLimits checks factors that can be computed by hand.
func TestFactorAtTheLimits(t *testing.T) {
	equal := map[string]float64{"a": 5, "b": 5}
	for name, c := range map[string]struct {
		quotas map[string]float64
		// nodes of the teams by hour; the half-life is an hour.
		nodes []map[string]int
		want  map[string]float64
	}{
		"no usage":           {equal, nil, map[string]float64{"a": 1, "b": 1, "unknown": 1}},
		"no time has passed": {equal, []map[string]int{{"a": 8}}, map[string]float64{"a": 1, "b": 1}},
		"one team":           {map[string]float64{"a": 3}, []map[string]int{{"a": 8}, nil}, map[string]float64{"a": 1}},
		"according to the quotas": {
			map[string]float64{"a": 3, "b": 1}, []map[string]int{{"a": 6, "b": 2}, nil}, map[string]float64{"a": 1, "b": 1},
		},
		"equal usage": {
			map[string]float64{"a": 3, "b": 1}, []map[string]int{{"a": 4, "b": 4}, nil}, map[string]float64{"a": 1.5, "b": 0.5},
		},
		"a team that used nothing": {equal, []map[string]int{{"a": 8}, nil}, map[string]float64{"a": 0.5, "b": 4}},
		"a team far above its share": {
			map[string]float64{"a": 1, "b": 99}, []map[string]int{{"a": 8, "b": 1}, nil}, map[string]float64{"a": 0.25, "b": 4},
		},
		"teams without a quota": {
			map[string]float64{"a": 1, "zero": 0}, []map[string]int{{"a": 2, "zero": 2, "unknown": 4}, nil},
			map[string]float64{"a": 4, "zero": 0.25, "unknown": 0.25, "idle": 0.25},
		},
		// a used 8 nodes for an hour, which counts half an hour later, while b used 4.
		"a half-life later": {equal, []map[string]int{{"a": 8}, {"b": 4}, nil}, map[string]float64{"a": 1, "b": 1}},
	} {
		u := newUsage(t, Config{HalfLife: time.Hour, Quotas: c.quotas})
		for hour, nodes := range c.nodes {
			u.Observe(at(3600*float64(hour)), nodes)
		}
		for team, want := range c.want {
			if got := u.Factor(team); !near(got, want) {
				t.Errorf("%s: the factor of %s is %v; want %v", name, team, got, want)
			}
		}
	}
	u := newUsage(t, Config{HalfLife: time.Hour, Quotas: equal})
	u.Observe(at(3600), map[string]int{"a": 1, "b": 2})
	u.Observe(at(0), map[string]int{"a": 1}) // The clock was set back.
	if got := u.Factor("a"); got != 1 {
		t.Errorf("after the clock was set back, the factor is %v; want 1", got)
	}
	u.Observe(at(1e9), nil) // All earlier usage has decayed.
	if a, b := u.Factor("a"), u.Factor("b"); a != 0.5 || b != 4 {
		t.Errorf("after decades, the factors are %v and %v; want 0.5 and 4", a, b)
	}
	u = newUsage(t, Config{HalfLife: time.Hour, Quotas: equal})
	u.Observe(at(0), map[string]int{"a": 1, "b": 100003, "c": 3, "d": 33377, "e": 71, "f": 9973})
	u.Observe(at(100), nil)
	first := u.Factor("b")
	for range 100 {
		if again := u.Factor("b"); again != first {
			t.Errorf("the factor is %v and then %v; must not depend on the order of the teams", first, again)
		}
	}
}

// TestConfig checks which configurations are invalid.
func TestConfig(t *testing.T) {
	quotas := map[string]float64{"a": 1}
	for want, c := range map[string]Config{
		"half_life: is 0s; must be greater than 0":          {Quotas: quotas},
		"half_life: is -1s":                                 {Quotas: quotas, HalfLife: -time.Second},
		"quotas: their sum is 0; must be greater than 0":    {HalfLife: time.Hour},
		"quotas: their sum is +Inf":                         {HalfLife: time.Hour, Quotas: map[string]float64{"a": 1e308, "b": 1e308}},
		`quotas["b"]: is -1; must be at least 0 and finite`: {HalfLife: time.Hour, Quotas: map[string]float64{"a": 2, "b": -1}},
		`quotas["a"]: is NaN`:                               {HalfLife: time.Hour, Quotas: map[string]float64{"a": math.NaN()}},
		"exponent: is -1; must be at least 0 and finite":    {HalfLife: time.Hour, Quotas: quotas, Exponent: -1},
		"exponent: is NaN":                                  {HalfLife: time.Hour, Quotas: quotas, Exponent: math.NaN()},
	} {
		if _, err := NewUsage(c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: error %v; want %q", c, err, want)
		}
	}
}

// invalidStates are texts that are no state of a Usage.
func invalidStates() []string {
	return []string{
		``, `[]`, `{}`, `{"at": 1, "nodes": {}}`, `{"at": 1, "nodes": {"a": "b"}, "node_seconds": {}}`,
		`{"at": 1, "nodes": {"a": -1}, "node_seconds": {}}`,
		`{"at": 1, "nodes": {}, "node_seconds": {"a": -1}}`, `{"at": 1, "nodes": {}, "node_seconds": {}} {}`,
	}
}

// TestInvalidStates checks that a text that is no state is rejected and changes nothing.
func TestInvalidStates(t *testing.T) {
	for _, text := range invalidStates() {
		u := newUsage(t, Config{HalfLife: time.Hour, Quotas: map[string]float64{"a": 1, "b": 1}})
		u.Observe(at(0), map[string]int{"a": 1})
		u.Observe(at(60), nil)
		if err := json.Unmarshal([]byte(text), u); err == nil || u.Factor("a") != 0.5 {
			t.Errorf("%s: error %v, and the factor is %v; want an error and 0.5", text, err, u.Factor("a"))
		}
	}
}

// goldenCase is a sequence of calls in the golden file, with times in seconds.
type goldenCase struct {
	HalfLife float64            `json:"half_life"`
	Quotas   map[string]float64 `json:"quotas"`
	Exponent float64            `json:"exponent"`
	Calls    []goldenCall       `json:"calls"`
	State    state              `json:"state"` // after the calls
}

type goldenCall struct {
	At      float64            `json:"at"`
	Nodes   map[string]int     `json:"nodes"`
	Factors map[string]float64 `json:"factors"` // after the call
}

// TestGolden compares random calls with a golden file, which the Python client matches too.
func TestGolden(t *testing.T) {
	var cases []goldenCase
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		c := goldenCase{
			HalfLife: float64(60 * (1 + random.IntN(600))),
			Quotas:   map[string]float64{"a": 1, "b": float64(random.IntN(4)), "c": 0.5}, Exponent: 0.5 + float64(random.IntN(4))/2,
		}
		u := newUsage(t, Config{HalfLife: time.Duration(c.HalfLife * float64(time.Second)), Quotas: c.Quotas, Exponent: c.Exponent})
		now := 0.0
		for range 10 {
			call := goldenCall{At: now, Nodes: make(map[string]int), Factors: make(map[string]float64)}
			for _, team := range []string{"a", "b", "c", "d"} {
				if n := random.IntN(12); n > 0 {
					call.Nodes[team] = n
				}
			}
			u.Observe(time.Unix(0, int64(now*1e9)), call.Nodes)
			for _, team := range []string{"a", "b", "c", "d", "e"} {
				call.Factors[team] = u.Factor(team)
			}
			c.Calls = append(c.Calls, call)
			now += float64(random.IntN(int(2 * c.HalfLife)))
		}
		c.State = u.state
		cases = append(cases, c)
	}
	const path = "testdata/usage.json"
	if *update {
		text := []byte("[\n")
		for i := range cases {
			line, err := json.Marshal(&cases[i])
			if err != nil {
				t.Fatal(err)
			}
			text = append(append(text, line...), ",\n"...)
		}
		if err := os.WriteFile(path, append(text[:len(text)-2], "\n]\n"...), 0o600); err != nil {
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

// TestPython checks that the Python client returns the factors of the golden file, reads and writes the same states,
// and rejects the same texts and configurations.
func TestPython(t *testing.T) {
	const python = "/usr/bin/python3"
	if output, err := exec.Command(python, "--version").CombinedOutput(); err != nil {
		t.Skipf("%s: %v %s", python, err, output)
	}
	invalid, err := json.Marshal(invalidStates())
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(python, "-c", `
import json, sys, types
package = sys.modules["elastalloc"] = types.ModuleType("elastalloc")
package.__path__ = ["../../python/elastalloc"] # Without __init__, which needs grpcio.
from elastalloc.teams import Usage

def near(got, want):
    return got.keys() == want.keys() and all(abs(got[k] - want[k]) <= 1e-9 * max(1, want[k]) for k in want)

for number, case in enumerate(json.load(open("testdata/usage.json"))):
    calls, state = case.pop("calls"), case.pop("state")
    usage = Usage(**case)
    for call in calls:
        text, usage = usage.to_json(), Usage(**case)
        usage.restore(text)
        usage.observe(call["at"], call["nodes"])
        factors = {team: usage.factor(team) for team in call["factors"]}
        assert near(factors, call["factors"]), (number, call, factors)
    got = json.loads(usage.to_json())
    assert got["at"] == state["at"] and got["nodes"] == state["nodes"] and near(got["node_seconds"],
    state["node_seconds"]), (number, got, state)
    usage.restore(json.dumps(state))

usage = Usage(half_life=60, quotas={"a": 1, "b": 1})
assert usage.factor("a") == 1
usage.observe(0, {"a": 1})
usage.observe(60, {})
assert (usage.factor("a"), usage.factor("b"), usage.factor("c")) == (0.5, 4, 0.25)
usage.observe(60, {"b": 5})
usage.observe(0, {})  # The clock was set back.
assert (usage.factor("a"), usage.factor("b")) == (0.5, 4)
for text in json.loads(sys.argv[1]) + ["[" * 100000, '{"at": 1, "nodes": {}, "node_seconds": {"a": NaN}}']:
    try:
        usage.restore(text)
        raise AssertionError(text)
    except ValueError as error:
        assert str(error).startswith("parse state of usage: ") and usage.factor("a") == 0.5, error
steep = Usage(half_life=60, quotas={"a": 1, "b": 1e9}, exponent=2000)
steep.observe(0, {"a": 1, "b": 1})
steep.observe(60, {})
assert (steep.factor("a"), steep.factor("b")) == (0.25, 4), steep.factor("b")
nan = float("nan")
for config in [{"half_life": 0}, {"half_life": -1}, {"half_life": nan},
{"exponent": 0}, {"exponent": nan}, {"quotas": {}}, {"quotas": {"a": -1, "b": 2}},
               {"quotas": {"a": nan}}, {"quotas": {"a": 1e308, "b": 1e308}}]:
    try:
        Usage(**({"half_life": 60, "quotas": {"a": 1}} | config))
        raise AssertionError(config)
    except ValueError as error:
        assert "must be" in str(error), error
try:
    Usage(quotas={"a": 1})
    raise AssertionError("no half-life")
except TypeError as error:
    assert "half_life" in str(error), error
`, string(invalid))
	command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
