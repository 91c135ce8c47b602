package sim

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
)

// exceptIdeal ignores JobResult.Ideal, for oracles of schedules.
func exceptIdeal() cmp.Option { return cmpopts.IgnoreFields(JobResult{}, "Ideal") }

// steppedJob is a job of the oracle of TestIdealTimes.
type steppedJob struct {
	submit, left, hang float64
	sizes              []int
	speeds             []float64 // nil means efficiency
	efficiency         float64
	end                float64 // 0 until the job finishes
}

// speed returns the speed on nodes from the definition.
func (j *steppedJob) speed(nodes float64) float64 {
	smallest, largest := float64(j.sizes[0]), float64(j.sizes[len(j.sizes)-1])
	switch {
	case nodes < smallest:
		return nodes / smallest * j.speed(smallest)
	case nodes >= largest:
		nodes = largest
	}
	if j.speeds == nil {
		return math.Exp(math.Log(nodes) * (1 + math.Log2(j.efficiency)))
	}
	for n, size := range j.sizes {
		if float64(size) == nodes {
			return j.speeds[n]
		}
		if next := float64(j.sizes[n+1]); next > nodes {
			slope := math.Log(j.speeds[n+1]/j.speeds[n]) / math.Log(next/float64(size))
			return j.speeds[n] * math.Exp(slope*math.Log(nodes/float64(size)))
		}
	}
	return math.NaN()
}

// stepped simulates jobs under ideal fair shares in small steps.
func stepped(jobs []steppedJob, nodesAt func(second int) int) {
	const perSecond = 64
	for step := 0; ; step++ {
		now, present := float64(step)/perSecond, 0
		waiting := false
		for i := range jobs {
			waiting = waiting || jobs[i].end == 0
			if jobs[i].end == 0 && jobs[i].submit <= now {
				present++
			}
		}
		if !waiting {
			return
		}
		share := float64(nodesAt(step/perSecond)) / float64(present)
		for i := range jobs {
			job := &jobs[i]
			if job.end > 0 || job.submit > now || share == 0 {
				continue
			}
			job.left -= job.speed(share) / perSecond
			if job.hang -= 1.0 / perSecond; job.left <= 0 || job.hang <= 0 {
				job.end = now + 1.0/perSecond
			}
		}
	}
}

// TestIdealTimes compares completion times under ideal fair shares with an oracle that simulates small steps.
func TestIdealTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := DefaultConfig(rapid.IntRange(1, 24).Draw(t, "nodes"))
		if rapid.Bool().Draw(t, "resized") {
			at := rapid.IntRange(1, 60).Draw(t, "second")
			config.Resized = []NodesAt{
				{At: time.Duration(at) * second, Nodes: rapid.IntRange(0, config.Nodes).Draw(t, "fewer nodes")},
				{At: time.Duration(at+30) * second, Nodes: config.Nodes},
			}
		}
		nodesAt := func(second int) int {
			nodes := config.Nodes
			for _, change := range config.Resized {
				if int(change.At.Seconds()) <= second {
					nodes = change.Nodes
				}
			}
			return nodes
		}
		var w Workload
		var jobs []steppedJob
		submit := 0
		for range rapid.IntRange(1, 6).Draw(t, "jobs") {
			own := steppedJob{submit: float64(submit), left: float64(rapid.IntRange(1, 200).Draw(t, "work")), hang: math.Inf(1)}
			job := WorkloadJob{Submit: time.Duration(submit) * second, Fate: OutcomeCompleted}
			size := 0
			for range rapid.IntRange(1, 4).Draw(t, "sizes") {
				size += rapid.IntRange(1, 6).Draw(t, "step")
				own.sizes = append(own.sizes, size)
			}
			if job.AllowedNodes = own.sizes; rapid.Bool().Draw(t, "table") {
				for range own.sizes {
					own.speeds = append(own.speeds, rapid.Float64Range(0.5, 8).Draw(t, "speed"))
				}
			} else {
				own.efficiency = rapid.Float64Range(0.6, 1).Draw(t, "efficiency")
			}
			job.Speeds, job.DoublingEfficiency = own.speeds, own.efficiency
			if rapid.Bool().Draw(t, "hangs") {
				job.Fate, job.HangAfter = OutcomeHung, time.Duration(rapid.IntRange(1, 50).Draw(t, "hang"))*second
				own.hang = job.HangAfter.Seconds()
			}
			job.Demand = time.Duration(own.left) * second
			job.Work = job.Demand
			w.Jobs, jobs = append(w.Jobs, job), append(jobs, own)
			submit += rapid.IntRange(0, 40).Draw(t, "interval")
		}
		stepped(jobs, nodesAt)
		for i, got := range idealTimes(&w, &config) {
			// Each completion of the oracle may be a step late, and the steps add up.
			if want := jobs[i].end - jobs[i].submit; math.Abs(got-want) > 0.2+0.005*want {
				t.Fatalf("job %d of %d completes after %v s; want %v s", i, len(jobs), got, want)
			}
		}
	})
}

// TestIdealOfResult checks JobResult.Ideal in a pool of two node types for a job with two phases. The first
// half of its work takes 600 s at a mean speed of (1*1 + 3*3)/4 = 2.5 on one node, which leaves 300 s.
func TestIdealOfResult(t *testing.T) {
	speeds := func(slow, fast float64) []solver.TypeSpeed {
		one := []int{1}
		return []solver.TypeSpeed{{NodeType: "slow", Factor: slow, AllowedNodes: one}, {NodeType: "fast", Factor: fast, AllowedNodes: one}}
	}
	job := WorkloadJob{
		ID: "job", Demand: 3000 * second, Work: 3000 * second, UserEstimate: 3000 * second,
		RequestedNodes: 1, Fate: OutcomeCompleted, RestartTime: 90 * second,
		Phases: []Phase{{Until: 0.5, Speeds: speeds(1, 3)}, {Until: 1, Speeds: speeds(2, 6)}},
	}
	config := DefaultConfig(4)
	config.NodeTypes = []solver.NodeType{{ID: "slow", Nodes: 1}, {ID: "fast", Nodes: 3}}
	config.RestartTime = 60 * second
	result, err := policy(t, "total-time").run(t.Context(), Workload{Name: "w", Jobs: []WorkloadJob{job}}, config, newAllocator())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := result.Jobs[0].Ideal, 990*second; got != want {
		t.Errorf("the ideal completion time is %v; want %v", got, want)
	}
}
