package server

import (
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
)

func TestDescribeState(t *testing.T) {
	now := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	since := now.Add(-90 * time.Second)
	for name, test := range map[string]struct {
		state       chain.BackendState
		text, cause string
	}{
		"up":           {chain.BackendState{Up: true}, "up", ""},
		"up once more": {chain.BackendState{Up: true, Since: since, Failures: 2, Cause: "no matter"}, "up again since 02:58:30", ""},
		"resting": {
			chain.BackendState{Since: since, OpenUntil: now.Add(27 * time.Second), Failures: 5, Cause: "signal: killed"},
			"resting since 02:58:30, next try from 03:00:27, in 27 s", "5 failures in a row, the last: signal: killed",
		},
		"resting since yesterday": {
			chain.BackendState{Since: now.Add(-4 * time.Hour), OpenUntil: now.Add(4 * time.Minute), Failures: 40, Cause: "signal: killed"},
			"resting since Feb 28 23:00:00, next try from 03:04:00, in 4 min", "40 failures in a row, the last: signal: killed",
		},
		"rested": {
			chain.BackendState{Since: since, OpenUntil: now, Failures: 5, Cause: "x"},
			"resting since 02:58:30, the next decision tries it", "5 failures in a row, the last: x",
		},
		"on trial": {
			chain.BackendState{Since: since, OpenUntil: now, HalfOpen: true, Failures: 1, Cause: "x"},
			"resting since 02:58:30, a decision is trying it now", "1 failure: x",
		},
		"missing": {
			chain.BackendState{NeverUp: true, Since: since, OpenUntil: now.Add(time.Second), Cause: "no such\tfile"},
			"missing since 02:58:30, next try from 03:00:01, in 1 s", "no such\uFFFDfile",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if text, cause := describeState(test.state, now); text != test.text || cause != test.cause {
				t.Errorf("describeState() = %q, %q; want %q, %q", text, cause, test.text, test.cause)
			}
		})
	}
}

func TestDescribeResult(t *testing.T) {
	for name, test := range map[string]struct {
		filling           bool
		report            solver.Report
		reason, gap, gain string
	}{
		"optimal": {
			false,
			solver.Report{Reason: solver.ReasonOptimal, Limit: solver.LimitNone, RelativeGap: 3e-10, Objective: 19.03, GreedyObjective: 10},
			"optimal", "0 %", "+90.3 %",
		},
		"cut short": {
			false,
			solver.Report{Reason: solver.ReasonFeasible, Limit: solver.LimitTime, RelativeGap: 0.0012, Objective: 9, GreedyObjective: 10},
			"feasible, time was up", "0.12 %", "-10.0 %",
		},
		"good enough": {
			false,
			solver.Report{Reason: solver.ReasonFeasible, Limit: solver.LimitGap, RelativeGap: 0.04321, Objective: 10, GreedyObjective: 10},
			"feasible, asked gap reached", "4.4 %", "+0.0 %",
		},
		"a tiny gap": {
			false,
			solver.Report{Reason: solver.ReasonFeasible, Limit: solver.LimitTime, RelativeGap: 2e-9, Objective: 1},
			"feasible, time was up", "< 0.001 %", "–",
		},
		"by greedy": {
			false,
			solver.Report{Reason: solver.ReasonHeuristic, Limit: solver.LimitNone, RelativeGap: 1, Objective: 0, GreedyObjective: 0},
			"heuristic", "100 %", "–",
		},
		"filled": {
			true,
			solver.Report{Reason: solver.ReasonHeuristic, Limit: solver.LimitNone, Objective: 3, GreedyObjective: 3},
			"filled idle nodes", "–", "–",
		},
	} {
		t.Run(name, func(t *testing.T) {
			reason, gap, gain := describeReason(test.filling, &test.report), describeGap(test.filling, &test.report), describeGain(test.filling, &test.report)
			if reason != test.reason || gap != test.gap || gain != test.gain {
				t.Errorf("%q, gap %q, gain %q; want %q, %q, %q", reason, gap, gain, test.reason, test.gap, test.gain)
			}
		})
	}
}

func TestTwoDigits(t *testing.T) {
	for x, want := range map[float64]string{
		0.001: "0.001", 0.0011: "0.0011", 0.00111: "0.0012", 0.1: "0.1", 0.7: "0.7", 1: "1", 1.23: "1.3",
		9.99: "10", 10: "10", 12.3: "13", 99.2: "100", 100: "100",
	} {
		if got := twoDigits(x); got != want {
			t.Errorf("twoDigits(%v) = %q; want %q", x, got, want)
		}
	}
}

func TestDescribeTimes(t *testing.T) {
	for d, want := range map[time.Duration]struct{ duration, age string }{
		0:                                 {"0.00 ms", "0 s"},
		-time.Second:                      {"-1000.00 ms", "0 s"},
		3456 * time.Microsecond:           {"3.46 ms", "0 s"},
		607 * time.Millisecond:            {"607 ms", "0 s"},
		1234 * time.Millisecond:           {"1.23 s", "1 s"},
		119 * time.Second:                 {"119 s", "119 s"},
		2 * time.Minute:                   {"120 s", "2 min"},
		3*time.Hour - 1:                   {"10800 s", "2 h"},
		49*time.Hour + 59*time.Minute - 1: {"179940 s", "2 d"},
	} {
		if duration, age := describeDuration(d), describeAge(d); duration != want.duration || age != want.age {
			t.Errorf("%v took %q, is %q ago; want %q and %q", d, duration, age, want.duration, want.age)
		}
	}
}
