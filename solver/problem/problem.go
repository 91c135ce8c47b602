package problem

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// Problem is the optimisation model of one snapshot after admission: all that a backend
// needs. It is immutable; backends share it.
type Problem struct {
	// Capacity is the number of nodes of the pool in each step, the paper's N. Every
	// step has the same today.
	Capacity []int
	// TypeNodes is the number of nodes of each type, in the order of the snapshot; nil where
	// the nodes are alike. Only a problem of one step and without groups has types.
	TypeNodes []int
	// Steps is the number of steps of the horizon, T.
	Steps int
	// Jobs are the admitted jobs in the order of the snapshot.
	Jobs []AdmittedJob
	// Demands is the demand of every job of the snapshot, admitted or not, as the objective
	// counts it, in seconds on one reference node.
	Demands []float64
	// Groups are those of the snapshot, in its order; nil means none. Only a problem of
	// one step has any.
	Groups []AdmittedGroup
	// GroupOf is the position in Groups of the group of every job of the snapshot, admitted
	// or not; nil where there are no groups.
	GroupOf []int
	// QuotaPrice is what each node that a group is short of its floor takes off the
	// objective.
	QuotaPrice float64
	// FeasibleOptions is a legal choice of an option per job, with which the admission has shown that
	// there is one; nil where TypeNodes is, since the smallest sizes are one then.
	FeasibleOptions []snapshot.Option
}

// AdmittedJob is a job of the model. Its part of the objective under a plan is
//
//	sum_t Gain[t] * s^t / Demand  +  OptionValue of its size in the first step,
//
// where s^t is the demand served by the end of step t. An objective is what fills
// in Gain and OptionValue; the paper's is in progress.go.
type AdmittedJob struct {
	// Index is the job's position in Snapshot.Jobs.
	Index int
	// Group is the position in Problem.Groups of the job's group, if there are any.
	Group int
	// Demand is the job's entry in Problem.Demands, d_i.
	Demand float64
	// Current is what the job occupies now. The zero value means that it is queued.
	Current snapshot.Option
	// TrainingTime is how long the job has trained so far.
	TrainingTime time.Duration
	// Sizes are the legal sizes K_i as options, in the order of Option.Compare, at least one.
	// The first is no nodes if the admission lets the optimizer leave the job without any.
	// Jobs may share this slice and the two below.
	Options []snapshot.Option
	// FirstStepWork is the demand in seconds on one node that each of Options serves
	// in the first step, after the rescale delay, and StepWork that in every later one.
	FirstStepWork, StepWork []float64
	// Gain is, for each step, what having served the whole demand by its end adds to
	// the objective; having served a share of it adds that share. At least 0. Jobs
	// may share one slice.
	Gain []float64
	// OptionValue is what holding each of Options in the first step adds to the objective
	// besides; it may be negative. Nil adds nothing.
	OptionValue []float64
	// ChangeCost is what a change to each of Options has taken off OptionValue, for
	// explanations; nil took nothing.
	ChangeCost []float64
}

// NewProblem admits jobs of a valid snapshot and builds the paper's model over them,
// that of ObjectiveProgress.
func NewProblem(s *snapshot.Snapshot, admission Admission) *Problem {
	return NewProblemFor(s, Options{Objective: ObjectiveProgress, Admission: admission})
}

// NewProblemFor admits jobs of a valid snapshot and builds the model over them, as
// options with their defaults ask.
func NewProblemFor(s *snapshot.Snapshot, o Options) *Problem {
	horizon := o.Horizon(s)
	spec := o.Spec()
	p := new(Problem)
	if spec.Step != nil {
		p = GroupsOf(s)
	}
	p.Capacity, p.Steps = slices.Repeat([]int{s.TotalNodes}, horizon.Steps), horizon.Steps
	p.TypeNodes = s.TypeNodes()
	p.Demands = make([]float64, len(s.Jobs))
	for i := range p.Demands {
		p.Demands[i] = spec.DemandOf(s, i)
	}
	admitted := p.admit(s, &o)
	p.Jobs = make([]AdmittedJob, len(admitted))
	var places []snapshot.Place
	var options, block []snapshot.Option
	var sizes []int
	var served, work []float64
	alike := map[int]int{} // the last job of each number of options
	var powers speedsAtPowers
	longestRestart := horizon.Step.Seconds()
	if spec.Step == nil {
		longestRestart /= restartsPerStep
	}
	for n, a := range admitted {
		places, options = s.Places(a.index, places), options[:0]
		if a.mayWait {
			options = append(options, snapshot.Option{})
		}
		for k := range places {
			options, sizes = places[k].AppendOptions(options, sizes, s.Typed())
		}
		served = append(served[:0], make([]float64, 2*len(options))...)
		job, last := &p.Jobs[n], p.Jobs[alike[len(options)]]
		*job = AdmittedJob{
			Index: a.index, Demand: p.Demands[a.index], Current: s.Current(a.index), TrainingTime: s.Jobs[a.index].TrainingTime,
			Options: options, FirstStepWork: served[:len(options):len(options)], StepWork: served[len(options):],
		}
		setWork(s, job, places, horizon.Step, longestRestart, &powers)
		job.Options = intern(&block, job.Options, last.Options)
		job.StepWork = intern(&work, job.StepWork, last.StepWork)
		job.FirstStepWork = intern(&work, job.FirstStepWork, job.StepWork)
		alike[len(options)] = n
		if p.TypeNodes != nil {
			p.FeasibleOptions = append(p.FeasibleOptions, a.option)
		}
	}
	p.admitGroups()
	spec.Fill(p, s, &o)
	return p
}

// carve cuts n items off a block of memory, or off a new one where it is too short.
func carve[Item any](block *[]Item, n int) []Item {
	if n > len(*block) {
		*block = make([]Item, max(n, 256))
	}
	items := (*block)[:n:n]
	*block = (*block)[n:]
	return items
}

// intern returns items that are in a buffer in memory of their own: in that of the others where
// these are the same, else in that of a block.
func intern[Item comparable](block *[]Item, items, others []Item) []Item {
	if slices.Equal(items, others) {
		return others
	}
	own := carve(block, len(items))
	copy(own, items)
	return own
}

// restartsPerStep is how many restarts of the longest that counts a step of an objective with
// a horizon has. The model changes sizes for nothing one step later, so a longer restart would
// have every decision put a change off: a doubling at efficiency 0.8 gains 3/8 of a step.
const restartsPerStep = 3

// setWork sets what each option of a job serves in the first and in a later step of the
// given length. In a later step that is p * speed(k), equations (linear 1) and
// (linear 2) of the paper. In the first step a job that grows from c nodes to k
// stays on c for the rescale delay r: r * speed(c) + (p - r) * speed(k). One with a
// restart time r, of which at most the given seconds count, that changes or resumes serves
// (p - r) * speed(k).
func setWork(s *snapshot.Snapshot, j *AdmittedJob, places []snapshot.Place, step time.Duration, longestRestart float64, powers *speedsAtPowers) {
	job, p := &s.Jobs[j.Index], step.Seconds()
	r := min(job.RescaleDelay, step).Seconds()
	stay, move := min(job.Restart(false).Seconds(), longestRestart), min(job.Restart(true).Seconds(), longestRestart)
	if job.NeverStarted() {
		stay, move = 0, 0
	}
	held, typed := s.CurrentPlace(j.Index), s.Typed()
	first, later := j.FirstStepWork, j.StepWork
	at := 0
	for n, option := range j.Options {
		k := int(option.Nodes)
		if k == 0 {
			continue
		}
		for typed && places[at].Type < int(option.Type) {
			at++
		}
		speed := places[at].Factor * powers.speed(places[at].Job, k)
		later[n] = p * speed
		first[n] = later[n]
		moves := option.MovesFrom(j.Current)
		if (k > job.CurrentNodes || moves) && r > 0 {
			first[n] = r*held.Factor*held.Job.Speed(job.CurrentNodes) + (p-r)*speed
		}
		restart := stay
		if moves {
			restart = move
		}
		if option != j.Current && restart > 0 {
			first[n] = (p - restart) * speed
		}
	}
}

// speedsAtPowers are the speeds at powers of two of jobs with one doubling efficiency, those
// not yet asked for 0. In most snapshots nearly all jobs have the same.
type speedsAtPowers struct {
	efficiency float64
	speeds     [64]float64
}

// speed returns Job.Speed.
func (p *speedsAtPowers) speed(j *snapshot.Job, nodes int) float64 {
	if j.Scaling.Speeds != nil || bits.OnesCount(uint(nodes)) != 1 {
		return j.Speed(nodes)
	}
	if p.efficiency != j.Scaling.DoublingEfficiency {
		*p = speedsAtPowers{efficiency: j.Scaling.DoublingEfficiency}
	}
	speed := &p.speeds[bits.TrailingZeros(uint(nodes))]
	if *speed == 0 {
		*speed = j.Speed(nodes)
	}
	return *speed
}

// TrivialBound returns an upper bound on the optimum that needs no search: every job finished in
// the first step, on the size of the largest value, with all that sums may lose by rounding.
func (p *Problem) TrivialBound() float64 {
	const rounding = 1.0 / (1 << 53) // of one addition
	bound, magnitude := 0.0, 0.0
	add := func(x float64) { bound, magnitude = bound+x, magnitude+math.Abs(x) }
	for i := range p.Jobs {
		for _, gain := range p.Jobs[i].Gain {
			add(gain)
		}
		if value := p.Jobs[i].OptionValue; value != nil {
			add(slices.Max(value))
		}
	}
	return bound + 2*float64(len(p.Jobs)*(p.Steps+1))*rounding*magnitude
}

// Work returns the demand in seconds on one node that each of the job's sizes
// serves in the given step, counted from 0.
func (j *AdmittedJob) Work(step int) []float64 {
	if step == 0 {
		return j.FirstStepWork
	}
	return j.StepWork
}

// Queued reports whether the job holds no nodes now.
func (j *AdmittedJob) Queued() bool { return j.Current.IsZero() }

// SmallestSize returns the job's smallest legal size above 0, in nodes.
func (j *AdmittedJob) SmallestSize() int {
	least := snapshot.MaxNodes
	for _, option := range j.Options {
		if !option.IsZero() {
			least = min(least, int(option.Nodes))
		}
	}
	return least
}

// WithWaiting returns the relaxation of p in which every queued job may also hold
// 0 nodes: the model of an allocator with a queue of its own, such as greedy,
// that may leave an admitted job waiting, which adds nothing to the objective. Its
// optimum is at least that of p.
func (p *Problem) WithWaiting() *Problem {
	relaxed := new(*p)
	relaxed.Jobs = slices.Clone(p.Jobs)
	for i := range relaxed.Jobs {
		job := &relaxed.Jobs[i]
		if !job.Queued() || job.Options[0].IsZero() {
			continue
		}
		job.Options = append([]snapshot.Option{{}}, job.Options...)
		for _, data := range []*[]float64{&job.FirstStepWork, &job.StepWork, &job.OptionValue, &job.ChangeCost} {
			if *data != nil {
				*data = append([]float64{0}, *data...)
			}
		}
	}
	return relaxed
}
