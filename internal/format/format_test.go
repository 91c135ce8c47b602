package format_test

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/solver"
)

func TestNumber(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]string{
		0: "0", 1: "1", 0.5: "0.5", 12.34: "12.3", 999: "999", 999.6: "1k", 1000: "1k", 1200: "1.2k", 1234: "1.23k", 2000: "2k", 12000: "12k",
		999499: "999k", 999500: "1M", 1e6: "1M", 2.5e6: "2.5M", 1e7: "10M",
		3e9: "3G", 4e12: "4T", 5e15: "5000T", -1200: "-1.2k", 0.012345: "0.0123",
		1.2345e-5: "0.0000123",
	} {
		if got := format.Number(x); got != want {
			t.Errorf("%v is %q; want %q", x, got, want)
		}
	}
}

// TestNumberReadsBack checks that a reader of a formatted number reads a value within rounding, without an exponent.
func TestNumberReadsBack(t *testing.T) {
	t.Parallel()
	suffixes := map[string]float64{"k": 1e3, "M": 1e6}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.OneOf(rapid.Float64Range(0, 1e7), rapid.Float64Range(0, 2000)).Draw(t, "x")
		text := format.Number(x)
		factor := 1.0
		for suffix, f := range suffixes {
			if strings.HasSuffix(text, suffix) {
				factor = f
			}
		}
		read, err := strconv.ParseFloat(strings.TrimRight(text, "kM"), 64)
		if err != nil || strings.ContainsAny(text, "e+") || math.Abs(read*factor-x) > 0.005001*x {
			t.Fatalf("%v is %q", x, text)
		}
	})
}

func TestGap(t *testing.T) {
	t.Parallel()
	for gap, want := range map[float64]string{
		0: "0%", -1e-17: "0%", solver.OptimalGap: "0%",
		2e-9: "< 0.001%", 0.00001: "0.001%",
		0.0012: "0.12%", 0.00121: "0.13%", 0.01234: "1.3%", 0.04321: "4.4%", 0.05: "5%",
		0.099: "9.9%", 0.0991: "10%", 0.5: "50%", 0.501: "51%", 1: "100%",
	} {
		if got := format.Gap(gap); got != want {
			t.Errorf("Gap(%v) = %q; want %q", gap, got, want)
		}
	}
}

// TestGapNeverUnderstates checks that the formatted gap is at least the gap, and at most 10% larger.
func TestGapNeverUnderstates(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		gap := math.Pow(10, rapid.Float64Range(-8.9, 0).Draw(t, "exponent"))
		text := strings.TrimSuffix(strings.TrimPrefix(format.Gap(gap), "< "), "%")
		printed, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		if percent := 100 * gap; printed < percent*(1-1e-6) || printed > max(0.001, percent*1.1+1e-9) {
			t.Errorf("Gap(%v%%) = %v%%", percent, printed)
		}
	})
}

func TestImprovement(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		objective, greedy float64
		want              string
	}{{19.03, 10, "+90.3%"}, {9, 10, "-10.0%"}, {10, 10, "+0.0%"}, {1, 0, format.None}} {
		if got := format.Improvement(test.objective, test.greedy); got != test.want {
			t.Errorf("Improvement(%v, %v) = %q; want %q", test.objective, test.greedy, got, test.want)
		}
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]struct{ duration, span string }{
		0:                               {"0s", "0s"},
		3456 * time.Microsecond:         {"3.46ms", "3.46ms"},
		607 * time.Millisecond:          {"607ms", "607ms"},
		1234 * time.Millisecond:         {"1.23s", "1.23s"},
		27 * time.Second:                {"27s", "27s"},
		math.MaxInt64:                   {"2562047h47m16.854775807s", "106751d23h"},
		119 * time.Second:               {"1m59s", "1m59s"},
		187 * time.Minute:               {"3h7m0s", "3h07m"},
		49*time.Hour + 59*time.Minute:   {"49h59m0s", "2d01h"},
		3*time.Hour + 7*time.Minute - 1: {"3h7m0s", "3h06m"},
	} {
		if duration, span := format.Duration(d), format.CoarseDuration(d); duration != want.duration || span != want.span {
			t.Errorf("%v is %q and %q; want %q and %q", d, duration, span, want.duration, want.span)
		}
	}
}

func TestShortDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		26 * time.Hour: "26h", 25 * time.Minute: "25m", 90 * time.Minute: "1h30m",
		time.Hour + time.Second: "1h0m1s", 0: "0s", 10 * time.Second: "10s",
	} {
		if got := format.ShortDuration(d); got != want {
			t.Errorf("ShortDuration(%v) = %q; want %q", d, got, want)
		}
	}
}

func TestPlural(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 jobs", 1: "1 job", 2: "2 jobs"} {
		if got := format.Plural(n, "job"); got != want {
			t.Errorf("Plural(%d) = %q; want %q", n, got, want)
		}
	}
}

func TestReadable(t *testing.T) {
	t.Parallel()
	if got := format.Readable(solver.OutcomeInvalidPlan); got != "invalid plan" {
		t.Errorf("Readable() = %q", got)
	}
	for limit, want := range map[solver.Limit]string{
		solver.LimitNone: "", solver.LimitGap: "requested gap reached",
		solver.LimitTime: "time limit reached", solver.LimitWork: "work limit reached",
	} {
		if got := format.Limit(limit); got != want {
			t.Errorf("Limit(%v) = %q; want %q", limit, got, want)
		}
	}
}

func TestInUnits(t *testing.T) {
	for text, want := range map[string]string{
		"pool  110 nodes, 28 idle":    "pool  110 gpus, 28 idle",
		"1 node":                      "1 gpu",
		"NODES":                       "GPUS",
		"Nodes, + where a job starts": "gpus, + where a job starts",
		"idle node hours (nodes)":     "idle gpu hours (gpus)",
		`job "3 nodes" needs at least 4 nodes; wait`: `job "3 nodes" needs at least 4 gpus; wait`,
		"gpt-node-7 has 4 nodes, min_nodes 2":        "gpt-node-7 has 4 gpus, min_nodes 2",
		"without nodes":                              "without gpus",
		"nodes nodes nodes, the pool of 4":           "gpus nodes gpus, the pool of 4",
		"":                                           "",
	} {
		if got := format.InUnits(text, "gpu"); got != want {
			t.Errorf("InUnits(%q) = %q; want %q", text, got, want)
		}
		if got := format.InUnits(text, "gpus"); got != want {
			t.Errorf("InUnits(%q) = %q for gpus; want %q", text, got, want)
		}
		if got := format.InUnits(text, format.Node); got != text {
			t.Errorf("InUnits(%q) changes the default: %q", text, got)
		}
	}
}
