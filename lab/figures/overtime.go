package figures

import (
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/sim"
)

// timeBins is the number of parts of the time in figures over time.
const timeBins = 60

// OverTime plots the nodes in use and the number of jobs without nodes over time, as means of equal parts of the
// time from the first submission to the last completion of all runs. A policy has the color of its position in policies.
// unit is the name of a node.
func OverTime(policies []string, unit string, runs ...*sim.Result) (used, waiting *Figure) {
	last := lastEnd(runs)
	scale, name := timeScale(last)
	used = newFigure(format.InUnits("Nodes in use over time", unit),
		name+" since the first submission", format.InUnits("nodes in use (%)", unit))
	waiting = newFigure(format.InUnits("Jobs without nodes over time", unit), name+" since the first submission", "jobs")
	for _, f := range []*Figure{used, waiting} {
		f.plot.Add(plotter.NewGrid())
		f.plot.Y.Min, f.plot.Y.Max = 0, 0
		f.plot.X.Tick.Marker = plot.TickerFunc(roundTicks)
	}
	for _, run := range runs {
		shares, jobs := usageOverTime(run, last)
		at := max(0, slices.Index(policies, run.Policy))
		used.addSteps(run.Policy, at, shares, last, scale)
		waiting.addSteps(run.Policy, at, jobs, last, scale)
	}
	used.padAxes()
	waiting.padAxes()
	return used, waiting
}

// usageOverTime returns the nodes in use in percent of the pool and the number of jobs without nodes, as means of
// timeBins parts of a time.
func usageOverTime(run *sim.Result, last time.Duration) (used, waiting []float64) {
	used, waiting = make([]float64, timeBins), make([]float64, timeBins)
	for i := range run.Jobs {
		job := &run.Jobs[i]
		waits := []sim.NodesAt{{At: job.Submit, Nodes: 1}} // 1 while the job waits.
		for _, period := range job.Nodes {
			state := sim.NodesAt{At: period.At}
			if period.Nodes == 0 && period.At < job.End {
				state.Nodes = 1
			}
			waits = append(waits, state)
		}
		waits = append(waits, sim.NodesAt{At: job.End})
		for bin := range timeBins {
			from, until := binAt(bin, last), binAt(bin+1, last)
			span := max(until-from, 1).Seconds()
			used[bin] += 100 * sim.NodeTime(job.Nodes, 0, from, until).Seconds() / span / float64(run.Nodes)
			waiting[bin] += sim.NodeTime(waits, 0, from, until).Seconds() / span
		}
	}
	return used, waiting
}

// binAt returns the begin of a part of a time.
func binAt(bin int, last time.Duration) time.Duration {
	return time.Duration(bin) * (last / timeBins)
}

// addSteps adds a line with a step for each value, in the style of a position.
func (f *Figure) addSteps(name string, position int, values []float64, last, scale time.Duration) {
	var points plotter.XYs
	for bin, value := range values {
		for _, edge := range []int{bin, bin + 1} {
			points = append(points, plotter.XY{X: float64(binAt(edge, last)) / float64(scale), Y: value})
		}
	}
	line := &plotter.Line{XYs: points, LineStyle: styleOf(position).line}
	f.plot.Add(line)
	f.legend.Add(name, line)
}

// lastEnd returns the last completion of runs.
func lastEnd(runs []*sim.Result) (last time.Duration) {
	for _, run := range runs {
		for i := range run.Jobs {
			last = max(last, run.Jobs[i].End)
		}
	}
	return last
}

// timeScale returns the unit of an axis of time, and its name.
func timeScale(last time.Duration) (time.Duration, string) {
	if last < 3*time.Hour {
		return time.Minute, "minutes"
	}
	return time.Hour, "hours"
}

// busiestShare is the part of the time that a Gantt chart shows of runs with more than maxChartJobs jobs, in which each line would
// otherwise be a hairline.
const (
	busiestShare = 10
	maxChartJobs = 200
)

// busiest returns the tenth of the time in which the jobs of a run are present for the longest time together.
func busiest(run *sim.Result, last time.Duration) (from, until time.Duration) {
	length, most := last/busiestShare, time.Duration(-1)
	for start := time.Duration(0); start+length <= last; start += max(1, length/busiestShare) {
		present := time.Duration(0)
		for i := range run.Jobs {
			present += max(0, min(run.Jobs[i].End, start+length)-max(run.Jobs[i].Submit, start))
		}
		if present > most {
			from, most = start, present
		}
	}
	return from, from + length
}

// presentJobs returns the jobs that are present in a part of the time.
func presentJobs(run *sim.Result, from, until time.Duration) []sim.JobResult {
	return slices.DeleteFunc(slices.Clone(run.Jobs), func(j sim.JobResult) bool { return j.End <= from || j.Submit >= until })
}
