package problem

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Problem is the optimization model of a snapshot after admission. It is immutable, so backends can
// share it.
type Problem struct {
	// Capacity is the number of nodes of the pool in each step, N in the paper. At present, it is
	// the same in all steps.
	Capacity []int
	// Rows are the capacities of the node types and the size limits. They are nil if Capacity is the
	// only row. Only a problem with a single step has rows.
	Rows solver.Rows
	// Steps is the number of steps of the horizon, T.
	Steps int
	// Jobs are the admitted jobs in the order of the snapshot.
	Jobs []AdmittedJob
	// Demands is the demand of every job of the snapshot, admitted or not, in seconds on one
	// reference node. The objective defines it.
	Demands []float64
	// Groups are the groups of the snapshot in its order. Nil means none. Only a problem with a
	// single step has groups.
	Groups []AdmittedGroup
	// GroupOf is the position in Groups of the group of every job of the snapshot, admitted or not.
	// It is nil if there are no groups.
	GroupOf []int
	// QuotaPrice is the cost of each node that a group is below its floor, in units of the
	// objective.
	QuotaPrice float64
	// FeasibleOptions has one option per job that fit together, from the admission. It is nil if
	// Rows are nil, because the first options of all jobs then fit together.
	FeasibleOptions []solver.Option
}

// AdmittedJob is a job of the model. Its contribution to the objective under a plan is
//
//	sum_t Gain[t] * s^t / Demand  +  OptionValue of its option in the first step,
//
// where s^t is the work done by the end of step t. An objective sets Gain and OptionValue.
type AdmittedJob struct {
	// Index is the job's position in Snapshot.Jobs.
	Index int
	Member
	// Demand is the job's entry in Problem.Demands, d_i.
	Demand float64
	// Exhausted reports that the job would be allowed to wait if it had not used its restart budget.
	Exhausted bool
	// Current is the current allocation of the job. The zero value means that the job is queued.
	Current solver.Option
	// TrainingTime is the time for which the job has trained so far.
	TrainingTime time.Duration
	// Options are the legal options (K_i in the paper) in the order of Option.Compare, at least
	// one. The first is no nodes if the admission allows the job to wait. Jobs may share this slice
	// and the next two.
	Options []solver.Option
	// FirstStepWork is the work of each option in the first step, after ResizeDelay, and
	// StepWork is the work in every later step. The unit is seconds on one reference node.
	FirstStepWork, StepWork []float64
	// Gain is the value, by step, of having done the work of the whole demand by the end of the step. A
	// share of the demand has that share of the value. Gains are at least 0. Jobs may share one
	// slice.
	Gain []float64
	// OptionValue is the additional value of each option in the first step. It may be negative. Nil
	// means 0.
	OptionValue []float64
	// ChangeCost is the cost of the change to each option, which OptionValue includes. Explanations
	// report it. Nil means 0.
	ChangeCost []float64
}

// NewProblem admits jobs of a valid snapshot and builds the model of ObjectiveProgress, which is the
// model of the paper.
func NewProblem(s *solver.Snapshot, admission solver.Admission) *Problem {
	return NewProblemFor(s, solver.Options{Objective: solver.ObjectiveProgress, Admission: admission})
}

// NewProblemFor admits jobs of a valid snapshot and builds the model of the objective in the options,
// which have their defaults.
func NewProblemFor(s *solver.Snapshot, o solver.Options) *Problem {
	horizon := o.Horizon(s)
	oneStep := o.Spec().OneStep
	p := new(Problem)
	if oneStep {
		p = GroupsOf(s)
	}
	p.Capacity, p.Steps = slices.Repeat([]int{s.TotalNodes}, horizon.Steps), horizon.Steps
	p.Rows = s.Rows()
	p.Demands = make([]float64, len(s.Jobs))
	for i := range p.Demands {
		p.Demands[i] = Demand(s, &o, i)
	}
	admitted := p.admit(s, &o)
	p.Jobs = make([]AdmittedJob, len(admitted))
	var places []solver.Place
	var options, block []solver.Option
	var sizes []int
	var served, work []float64
	previous := map[int]int{} // the previous job with each number of options
	var powers speedsAtPowers
	longestRestart := horizon.Step.Seconds()
	if !oneStep {
		longestRestart /= restartsPerStep
	}
	for n, a := range admitted {
		places, options = s.Places(a.index, places), options[:0]
		if a.mayWait {
			options = append(options, solver.Option{})
		}
		for k := range places {
			options, sizes = places[k].AppendOptions(options, sizes, p.Rows)
		}
		if s.UsedRestartBudget(a.index) {
			options = withoutRestarts(options, s.Current(a.index), a.option)
		}
		served = append(served[:0], make([]float64, 2*len(options))...)
		job, last := &p.Jobs[n], p.Jobs[previous[len(options)]]
		*job = AdmittedJob{
			Index: a.index, Member: p.Member(s, a.index), Demand: p.Demands[a.index],
			Exhausted: a.exhausted, Current: s.Current(a.index), TrainingTime: s.Jobs[a.index].TrainingTime,
			Options: options, FirstStepWork: served[:len(options):len(options)], StepWork: served[len(options):],
		}
		setWork(s, job, places, horizon.Step, longestRestart, &powers)
		job.Options = intern(&block, job.Options, last.Options)
		job.StepWork = intern(&work, job.StepWork, last.StepWork)
		job.FirstStepWork = intern(&work, job.FirstStepWork, job.StepWork)
		previous[len(options)] = n
		if p.Rows != nil {
			p.FeasibleOptions = append(p.FeasibleOptions, a.option)
		}
	}
	p.admitGroups()
	if o.Objective == solver.ObjectiveProgress {
		p.fillProgress(s)
	} else {
		p.fillTotalTime(s, &o)
	}
	return p
}

// Demand returns the demand d_i of job i of a snapshot under the objective of the options, in seconds on
// one reference node. It is greater than 0.
func Demand(s *solver.Snapshot, o *solver.Options, i int) float64 {
	if o.Objective == solver.ObjectiveProgress {
		return atLeastShareOfWork(s, i)
	}
	return totalTimeDemand(s, i)
}

// carve removes n items from the start of a block of memory and returns them. If the block is too
// short, it allocates a new block.
func carve[Item any](block *[]Item, n int) []Item {
	if n > len(*block) {
		*block = make([]Item, max(n, 256))
	}
	items := (*block)[:n:n]
	*block = (*block)[n:]
	return items
}

// intern returns others if they are equal to items, and otherwise a copy of items in the block. The
// items are in a buffer that the caller reuses.
func intern[Item comparable](block *[]Item, items, others []Item) []Item {
	if slices.Equal(items, others) {
		return others
	}
	copied := carve(block, len(items))
	copy(copied, items)
	return copied
}

// restartsPerStep limits restart times to 1/restartsPerStep of a step, for objectives with a horizon.
// In the model, a resize in a later step is free, so with a longer restart every decision would
// postpone the resize. Doubling the nodes at efficiency 0.8 gains 3/8 of a step.
const restartsPerStep = 3

// setWork sets the work of each option of a job in the first and in the later steps of length p. In a
// later step, the work is p * speed(k), equations (linear 1) and (linear 2) of the paper. In the first
// step, a job that grows from c nodes to k stays on c nodes for r = ResizeDelay, so the work is
// r * speed(c) + (p - r) * speed(k). The work of a job with a restart time r that is resized or
// resumed is (p - r) * speed(k). r is limited to longestRestart seconds.
func setWork(
	s *solver.Snapshot, j *AdmittedJob, places []solver.Place, step time.Duration, longestRestart float64, powers *speedsAtPowers,
) {
	job, p := &s.Jobs[j.Index], step.Seconds()
	r := min(job.ResizeDelay, step).Seconds()
	stay, move := min(job.Restart(false).Seconds(), longestRestart), min(job.Restart(true).Seconds(), longestRestart)
	if job.NeverStarted() {
		stay, move = 0, 0
	}
	current, typed := s.CurrentPlace(j.Index), s.Typed()
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
			first[n] = r*current.Factor*current.Job.Speed(job.CurrentNodes) + (p-r)*speed
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

// speedsAtPowers caches the speeds of one doubling efficiency at powers of two nodes. 0 means that a
// speed is not cached yet. In most snapshots, nearly all jobs have the same doubling efficiency.
type speedsAtPowers struct {
	efficiency float64
	speeds     [64]float64
}

// speed returns j.Speed(nodes).
func (p *speedsAtPowers) speed(j *solver.Job, nodes int) float64 {
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

// TrivialBound returns an upper bound on the optimum that needs no search. It assumes that every job
// finishes in the first step and gets the option with the largest value. It includes the largest
// possible rounding error.
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

// Work returns the work of each option in the given step, counted from 0, in seconds on one reference
// node.
func (j *AdmittedJob) Work(step int) []float64 {
	if step == 0 {
		return j.FirstStepWork
	}
	return j.StepWork
}

// Queued reports whether the job occupies no nodes.
func (j *AdmittedJob) Queued() bool { return j.Current.IsZero() }

// SmallestSize returns the smallest legal size of the job above 0, in nodes.
func (j *AdmittedJob) SmallestSize() int {
	smallest := solver.MaxNodes
	for _, option := range j.Options {
		if !option.IsZero() {
			smallest = min(smallest, int(option.Nodes))
		}
	}
	return smallest
}

// WithWaiting returns the relaxation of p in which every queued job may also wait with no nodes, which
// has value 0. The plans of heuristics such as the greedy backend are legal in this model, because
// they may leave admitted jobs waiting. Its optimum is at least the optimum of p.
func (p *Problem) WithWaiting() *Problem {
	relaxed := new(*p)
	relaxed.Jobs = slices.Clone(p.Jobs)
	for i := range relaxed.Jobs {
		job := &relaxed.Jobs[i]
		if !job.Queued() || job.Options[0].IsZero() {
			continue
		}
		job.Options = append([]solver.Option{{}}, job.Options...)
		for _, data := range []*[]float64{&job.FirstStepWork, &job.StepWork, &job.OptionValue, &job.ChangeCost} {
			if *data != nil {
				*data = append([]float64{0}, *data...)
			}
		}
	}
	return relaxed
}
