package sim

import (
	"cmp"
	"math"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// MaxIdealRatio is the ratio of a job's completion time to JobResult.Ideal above which the job counts as
// later than under ideal fair shares.
const MaxIdealRatio = 1.25

// setIdeal sets JobResult.Ideal of all jobs.
func (r *Result) setIdeal(w *Workload, config *Config) {
	for i, span := range idealTimes(w, config) {
		restart := cmp.Or(w.Jobs[i].RestartTime, config.RestartTime)
		r.Jobs[i].Ideal = Scale(time.Second, min(span, longestSpan.Seconds())) + restart
	}
}

// idealTimes returns the completion time of every job under ideal fair shares, in seconds. Each of the n jobs
// that are present has N/n of the N nodes of the pool, at most its largest size. Nodes are divisible, and
// resizes are free.
func idealTimes(w *Workload, config *Config) []float64 {
	times := make([]float64, len(w.Jobs))
	var present []*idealJob
	now, nodes, resized, arriving := 0.0, config.available(), config.Resized, 0
	for arriving < len(w.Jobs) || len(present) > 0 {
		next := math.Inf(1)
		if arriving < len(w.Jobs) {
			next = w.Jobs[arriving].Submit.Seconds()
		}
		if len(resized) > 0 {
			next = min(next, resized[0].At.Seconds())
		}
		for _, job := range present {
			job.allocate(float64(nodes)/float64(len(present)), now)
			next = min(next, job.stageEnd, job.hang)
		}
		kept := present[:0]
		for _, job := range present {
			job.train(now, next)
			if job.done(next) {
				times[job.index] = next - w.Jobs[job.index].Submit.Seconds()
			} else {
				kept = append(kept, job)
			}
		}
		present, now = kept, next
		for len(resized) > 0 && resized[0].At.Seconds() <= now {
			nodes, resized = resized[0].Nodes, resized[1:]
		}
		for arriving < len(w.Jobs) && w.Jobs[arriving].Submit.Seconds() <= now {
			present = append(present, newIdealJob(arriving, &w.Jobs[arriving], config))
			arriving++
		}
	}
	return times
}

// idealJob is a job under ideal fair shares. Times are in seconds.
type idealJob struct {
	index  int          // in the workload
	stages []idealStage // which are not complete
	trains float64      // training time until the job hangs, infinity if it does not
	// speed is the current speed, at which the first stage is complete at stageEnd. hang is when the job hangs.
	speed, stageEnd, hang float64
}

// idealStage is a part of the work of a job with constant speeds.
type idealStage struct {
	left   float64 // seconds on one node
	curves []idealCurve
}

// idealCurve is how a job scales on the nodes of a type.
type idealCurve struct {
	job               solver.Job
	smallest, largest float64 // sizes
	factor            float64 // the speed on one node
	nodes             float64 // of the type
}

func newIdealJob(index int, job *WorkloadJob, config *Config) *idealJob {
	ideal := &idealJob{index: index, trains: math.Inf(1)}
	if job.Fate == OutcomeHung {
		ideal.trains = job.HangAfter.Seconds()
	}
	spec, begin := job.SnapshotJob(), time.Duration(0)
	for _, phase := range job.phases() {
		spec.Speeds = speedsAmong(phase.Speeds, config.NodeTypes)
		if end := min(Scale(job.Demand, phase.Until), job.Work); end > begin {
			ideal.stages = append(ideal.stages, idealStage{(end - begin).Seconds(), idealCurves(spec, config.NodeTypes)})
			begin = end
		}
	}
	return ideal
}

// idealCurves returns how a job scales on each node type that it can use.
func idealCurves(job solver.Job, types []solver.NodeType) []idealCurve {
	var curves []idealCurve
	add := func(job solver.Job, factor float64, nodes int) {
		sizes := job.LegalSizes()
		curves = append(curves, idealCurve{job, float64(sizes[0]), float64(sizes[len(sizes)-1]), factor, float64(nodes)})
	}
	for i := range types {
		if there, factor, runs := job.ForType(&types[i]); runs {
			add(there, factor, types[i].Nodes)
		}
	}
	if len(types) == 0 {
		add(job, 1, 1)
	}
	return curves
}

// allocate sets the nodes of the job from now on, which need not be a whole number. The speed is the mean over
// the nodes that the job can use.
func (j *idealJob) allocate(nodes, now float64) {
	sum, usable := 0.0, 0.0
	for i := range j.stages[0].curves {
		curve := &j.stages[0].curves[i]
		sum += curve.nodes * curve.speed(nodes)
		usable += curve.nodes
	}
	j.speed, j.stageEnd, j.hang = sum/usable, math.Inf(1), math.Inf(1)
	if j.speed > 0 {
		j.stageEnd, j.hang = now+j.stages[0].left/j.speed, now+j.trains
	}
}

// speed returns the speed on nodes. Between sizes, it is interpolated as for OBJECTIVE_TOTAL_TIME. Below the
// smallest size, it is proportional to the nodes.
func (c *idealCurve) speed(nodes float64) float64 {
	return c.factor * c.job.SpeedAt(min(max(nodes, c.smallest), c.largest)) * min(1, nodes/c.smallest)
}

// train trains the job until its next event at the latest.
func (j *idealJob) train(now, until float64) {
	if j.speed == 0 {
		return
	}
	j.trains -= until - now
	j.stages[0].left -= j.speed * (until - now)
	if j.stageEnd <= until {
		j.stages = j.stages[1:]
	}
}

// done reports whether the job is complete or hangs now.
func (j *idealJob) done(now float64) bool { return len(j.stages) == 0 || j.hang <= now }
