package sim

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestUtilizationEqualsReference compares the utilization and the idle node hours of random runs with counts of every
// second: those in which a job is present, and those of nodes with a job. An array of jobs that are submitted
// together has them too.
func TestUtilizationEqualsReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, at, unit := Workload{Name: "drawn"}, 0, rapid.SampledFrom([]int{0, 1, 60}).Draw(t, "unit")
		for i := range rapid.IntRange(1, 8).Draw(t, "jobs") {
			w.Jobs = append(w.Jobs,
				fixedJob(fmt.Sprint(i), time.Duration(at)*second,
					time.Duration(rapid.IntRange(1, 90).Draw(t, "run"))*second, rapid.IntRange(1, 5).Draw(t, "size")))
			at += unit * rapid.IntRange(0, 5).Draw(t, "wait")
		}
		result, err := policy(t, "fifo").run(t.Context(), w, DefaultConfig(5), newAllocator())
		if err != nil {
			t.Fatal(err)
		}
		present, occupied := 0, 0
		for second := range 3000 {
			now, here := time.Duration(second)*time.Second, 0
			for i := range result.Jobs {
				job := &result.Jobs[i]
				if job.Submit <= now && now < job.End {
					here = 1
				}
				if job.Start <= now && now < job.End {
					occupied += w.Jobs[i].RequestedNodes
				}
			}
			present += here
		}
		used, idle := float64(occupied)/float64(5*present), float64(5*present-occupied)/3600
		if math.Abs(result.Utilization-used) > 1e-9 || math.Abs(result.IdleNodeHours()-idle) > 1e-9 {
			t.Errorf("utilization %v and %v idle node hours; want %v and %v", result.Utilization, result.IdleNodeHours(), used, idle)
		}
	})
}
