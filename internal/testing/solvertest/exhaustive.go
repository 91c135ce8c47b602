package solvertest

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
)

// tieTolerance is the relative difference up to which Exhaustive takes two
// objectives for equal.
const tieTolerance = 1e-12

// noise is the rounding of a sum, relative to the magnitude of what is summed up.
const noise = 1e-15

// Optimum is what exhaustive search knows of a problem.
type Optimum struct {
	// Plan is a best plan: among those of an objective within tieTolerance of the
	// best one of the fewest changed jobs, among these one of the fewest nodes in
	// the first step. Where there are node types, fewer moves go before fewer nodes, and a
	// lower sum of the positions of types comes last.
	Plan solver.Plan
	// Objective is the best objective of any plan. That of Plan is within
	// tieTolerance of it.
	Objective float64
	// Changed is the number of jobs whose nodes in the first step of Plan are not
	// their current ones.
	Changed int
	// Nodes is the number of nodes that Plan holds in the first step.
	Nodes int
	// Moves is the number of jobs that change the type of their nodes.
	Moves int
	// Types is the sum of the positions of the types of those nodes.
	Types int
}

// Exhaustive returns the optimum of a problem by looking at every legal plan. It
// reports false if there is none. The time grows with sizes^(steps*jobs).
func Exhaustive(p *solver.Problem) (Optimum, bool) {
	s := &search{
		problem: p,
		choices: make([][]choice, len(p.Jobs)),
		rest:    make([]float64, len(p.Jobs)+1),
		free:    slices.Clone(p.Capacity),
		rows:    make([]int, len(p.Rows)),
		held:    make([]int, len(p.Groups)),
		chosen:  make(solver.Plan, len(p.Jobs)),
		best:    Optimum{Objective: math.Inf(-1)},
	}
	for i := range slices.Backward(p.Jobs) {
		s.choices[i] = enumerate(&p.Jobs[i], p.Steps)
		best, worst := s.choices[i][0].value, s.choices[i][len(s.choices[i])-1].value
		s.rest[i] = best + s.rest[i+1]
		s.tie += noise * max(math.Abs(best), math.Abs(worst))
	}
	for g := range p.Groups {
		s.tie += noise * p.QuotaPrice * float64(p.Groups[g].Floor)
	}
	s.maximise(0, 0)
	if math.IsInf(s.best.Objective, -1) {
		return Optimum{}, false
	}
	s.tie += tieTolerance * math.Abs(s.best.Objective)
	s.best.Changed = math.MaxInt
	s.breakTies(0, 0, Optimum{})
	return s.best, true
}

// choice is one plan of one job.
type choice struct {
	options []solver.Option
	value   float64
	tie     Optimum // what it adds to Changed, Moves, Nodes and Types
}

// enumerate returns every plan of a job, the most valuable first.
func enumerate(job *solver.AdmittedJob, steps int) []choice {
	plans := [][]solver.Option{nil}
	for range steps {
		var longer [][]solver.Option
		for _, options := range plans {
			for _, k := range job.Options {
				longer = append(longer, append(slices.Clone(options), k))
			}
		}
		plans = longer
	}
	choices := make([]choice, len(plans))
	for n, options := range plans {
		now := options[0]
		choices[n] = choice{options: options, value: job.Value(options), tie: Optimum{Nodes: int(now.Nodes), Types: int(now.Type)}}
		if now != job.Current {
			choices[n].tie.Changed = 1
		}
		if now.MovesFrom(job.Current) {
			choices[n].tie.Moves = 1
		}
	}
	slices.SortStableFunc(choices, func(a, b choice) int { return cmp.Compare(b.value, a.value) })
	return choices
}

// search is the state of the recursion over the jobs.
type search struct {
	problem *solver.Problem
	choices [][]choice
	// rest[i] bounds the value of the jobs from i on, capacity aside.
	rest []float64
	// tie is how far below the best objective one is equal to it.
	tie    float64
	free   []int // of each step
	rows   []int // nodes that count in each row
	held   []int // by each group in the first step, the only one where there are groups
	chosen solver.Plan
	best   Optimum
}

// maximise finds the best objective over the choices of the jobs from i on, given
// the value of those before.
func (s *search) maximise(i int, value float64) {
	if i == len(s.choices) {
		s.best.Objective = max(s.best.Objective, value-s.shortfall())
		return
	}
	for _, c := range s.choices[i] {
		if value+c.value+s.rest[i+1] <= s.best.Objective {
			return // Nor can any of the less valuable choices that follow.
		}
		if s.hold(i, c, 1) {
			s.maximise(i+1, value+c.value)
		}
		s.hold(i, c, -1)
	}
}

// before compares what tells equal plans apart.
func (o *Optimum) before(other *Optimum) bool {
	return slices.Compare([]int{o.Changed, o.Moves, o.Nodes, o.Types}, []int{other.Changed, other.Moves, other.Nodes, other.Types}) < 0
}

// breakTies finds, among the plans as good as the best objective, the one that Optimum.Plan
// speaks of.
func (s *search) breakTies(i int, value float64, sofar Optimum) {
	if !sofar.before(&s.best) {
		return
	}
	if i == len(s.choices) {
		if value-s.shortfall() < s.best.Objective-s.tie {
			return
		}
		sofar.Plan, sofar.Objective = s.chosen.Clone(), s.best.Objective
		s.best = sofar
		return
	}
	for _, c := range s.choices[i] {
		if value+c.value+s.rest[i+1] < s.best.Objective-s.tie {
			return
		}
		if s.hold(i, c, 1) {
			s.chosen[i] = c.options
			s.breakTies(i+1, value+c.value, Optimum{
				Changed: sofar.Changed + c.tie.Changed, Moves: sofar.Moves + c.tie.Moves,
				Nodes: sofar.Nodes + c.tie.Nodes, Types: sofar.Types + c.tie.Types,
			})
		}
		s.hold(i, c, -1)
	}
}

// hold adds the nodes of a choice to job i, or takes them back where times is -1. It reports
// whether all that is held fits the pool and the limits of the job's groups.
func (s *search) hold(i int, c choice, times int) bool {
	fits := true
	for t, k := range c.options {
		s.free[t] -= times * int(k.Nodes)
		fits = fits && s.free[t] >= 0
	}
	for n, row := range s.problem.Rows {
		now, pieceNodes := c.options[0], s.problem.Jobs[i].PieceNodes
		if int(now.Type) == row.Type && int(now.Nodes) >= row.Size && (pieceNodes == 0 || pieceNodes >= row.Size) {
			s.rows[n] += times * int(now.Nodes)
			fits = fits && s.rows[n] <= row.Nodes
		}
	}
	if len(s.held) == 0 {
		return fits
	}
	for g := s.problem.Jobs[i].Group; g >= 0; g = s.problem.Groups[g].Parent {
		s.held[g] += times * int(c.options[0].Nodes)
		fits = fits && s.held[g] <= s.problem.Groups[g].Limit
	}
	return fits
}

// shortfall is what the groups' shortages of nodes cost.
func (s *search) shortfall() float64 {
	cost := 0.0
	for g, held := range s.held {
		cost += s.problem.QuotaPrice * float64(max(0, s.problem.Groups[g].Floor-held))
	}
	return cost
}
