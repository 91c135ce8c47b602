package cbc

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/solver/subprocess"
)

func TestArguments(t *testing.T) {
	task := subprocess.Task{Model: "m.mps", Solution: "s.txt"}
	bare := "-import m.mps -ratioGap 0 -allowableGap 0 -primalTolerance 1e-9 -integerTolerance 1e-9" +
		" -randomSeed 1 -randomCbcSeed 1 -solve -printingOptions all -solution s.txt"
	check := func(want string) {
		t.Helper()
		got, err := dialect{}.Arguments(task)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Fields(want), got); diff != "" {
			t.Errorf("Arguments(%+v) (-want +got):\n%s", task, diff)
		}
	}
	check(bare)
	task.RelativeGap = 1e-4
	check(strings.Replace(bare, "-ratioGap 0", "-ratioGap 0.0001", 1))
	task.Start, task.TimeLimit, task.RelativeGap = "i.txt", 250*time.Millisecond, 0
	check(strings.Replace(bare, "-import m.mps", "-import m.mps -mipstart i.txt -timeMode elapsed -sec 0.25", 1))
}

func TestWriteStart(t *testing.T) {
	var file strings.Builder
	if err := (dialect{}).WriteStart(&file, 1, maps.All(map[string]float64{"s_1_1": 0.1})); err != nil {
		t.Fatal(err)
	}
	if want := "Stopped on iterations - objective value 0\n0 s_1_1 0.1 0\n"; file.String() != want {
		t.Errorf("start file %q; want %q", file.String(), want)
	}
}
