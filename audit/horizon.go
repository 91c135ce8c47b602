package audit

import (
	"cmp"
	"slices"
)

// chosen is a job of which more than one plan may be part of a better solution.
type chosen struct {
	job   int
	plans []plan
	// split is what of a plan's loss is counted in the steps, by step and size; kept is the
	// least that remains with the job.
	split [][]int64
	kept  int64
}

// horizon is what is known of a leaf over more than one step.
type horizon struct {
	*search
	leaf *leaf
	// cut is the loss that a solution has to stay below to be better, fixed what of it is
	// lost already, and left the nodes that the jobs that are not fixed share, per step.
	cut, fixed int64
	left       []int
	plan       [][]int   // of fixed jobs
	open       []*chosen // all others that may finish
	byStep     []*layer  // of the jobs that are worth what they are step by step
	things     [][]int   // the jobs in those layers
	// back[n][t] is the least that the open jobs from the n-th on, those that are worth what
	// they are step by step, and unused nodes lose in a step by the nodes left to them.
	back [][][]int64
}

// manySteps decides a model of several steps, as docs/proofs.md says.
func (c *search) manySteps(l *leaf) [][]int {
	s := &horizon{search: c, leaf: l, left: make([]int, c.steps), plan: make([][]int, len(c.jobs))}
	s.cut = -c.target
	for t := range s.left {
		s.left[t] = c.pool
		s.cut += l.prices[t] * int64(c.pool)
	}
	best := make([]int64, len(c.jobs))
	options := make([][][]option, len(c.jobs))
	for i := range c.jobs {
		s.plan[i] = make([]int, c.steps)
		if !c.jobs[i].byStep {
			best[i] = c.best(l, i, s.prices(i))
			s.cut += best[i]
			continue
		}
		options[i] = make([][]option, c.steps)
		for t := range c.steps {
			best, losses := c.losses(l, i, t, l.prices[t])
			s.cut += best
			options[i][t] = losses
		}
	}
	if s.cut <= 0 || !s.stepByStep(options) {
		return nil
	}
	guides, possible := s.guides(best)
	if !possible {
		return nil
	}
	for i := range c.jobs {
		if c.jobs[i].byStep {
			continue
		}
		g := guides[i]
		plans := c.list(&leaf{allowed: g.allowed, prices: l.prices}, i, g.prices, best[i]-s.cut+g.others, best[i])
		switch len(plans) {
		case 0:
			return nil
		case 1:
			s.fixed += plans[0].loss
			for t, n := range plans[0].sizes {
				s.plan[i][t] = c.jobs[i].sizes[n]
				s.left[t] -= s.plan[i][t]
			}
		default:
			s.open = append(s.open, newChosen(i, plans, g.split, s.jobs[i].sizes))
		}
	}
	if s.fixed >= s.cut || slices.Min(s.left) < 0 {
		return nil
	}
	// Those with the fewest plans first: what they take narrows the rest.
	slices.SortStableFunc(s.open, func(a, b *chosen) int { return cmp.Compare(len(a.plans), len(b.plans)) })
	if !s.sweep() {
		return nil
	}
	return s.run()
}

// prices returns the prices of a job's sizes at those of nodes.
func (s *horizon) prices(i int) [][]int64 {
	prices := make([][]int64, s.steps)
	for t := range prices {
		for _, k := range s.jobs[i].sizes {
			prices[t] = append(prices[t], s.leaf.prices[t]*int64(k))
		}
	}
	return prices
}

// guide is what to list the plans of a job by.
type guide struct {
	allowed [][][]int
	prices  [][]int64
	others  int64 // what the other jobs lose beside what the prices hold
	split   [][]int64
}

// guides returns the guides of the jobs that may finish: the prices of nodes or, where the
// leaf has prices of sizes, these and what the steps lose at them whatever others do. It
// reports whether any solution may lose less than the cut.
func (s *horizon) guides(best []int64) (map[int]guide, bool) {
	guides := make(map[int]guide)
	for i := range s.jobs {
		if !s.jobs[i].byStep {
			guides[i] = guide{allowed: s.leaf.allowed, prices: s.prices(i)}
		}
	}
	if len(s.leaf.sizes) == 0 {
		return guides, true
	}
	defer func() { s.open = nil }()
	rest := int64(0)
	for i := range s.jobs {
		if s.jobs[i].byStep {
			continue
		}
		o := &chosen{job: i, split: make([][]int64, s.steps)}
		sizes := s.leaf.sizes[i]
		for t := range o.split {
			o.split[t] = slices.Repeat([]int64{infinite}, len(s.jobs[i].sizes))
			for _, n := range s.leaf.allowed[i][t] {
				if o.split[t][n] = 0; sizes != nil {
					o.split[t][n] = guides[i].prices[t][n] - sizes[t][n]
				}
			}
		}
		if sizes != nil {
			o.kept = best[i] - s.best(s.leaf, i, sizes)
		}
		rest += o.kept
		s.open = append(s.open, o)
	}
	before, possible := s.tables()
	if !possible || s.known() >= s.cut {
		return nil, false
	}
	for n, o := range s.open {
		g := guides[o.job]
		g.allowed, g.others, g.split = slices.Clone(g.allowed), s.fixed+rest-o.kept, o.split
		g.allowed[o.job] = slices.Clone(g.allowed[o.job])
		for t, row := range s.others(n, before[n], s.back[n+1]) {
			g.allowed[o.job][t] = nil
			for k, loss := range row {
				if loss < infinite {
					g.allowed[o.job][t], g.prices[t][k] = append(g.allowed[o.job][t], k), g.prices[t][k]+loss
				}
			}
			if len(g.allowed[o.job][t]) == 0 {
				return nil, false
			}
		}
		guides[o.job] = g
	}
	return guides, true
}

// stepByStep builds the layers of the jobs that are worth what they are step by step, and
// reports whether any choice of theirs loses less than the cut.
func (s *horizon) stepByStep(options [][][]option) bool {
	s.byStep, s.things = make([]*layer, s.steps), make([][]int, s.steps)
	for t := range s.byStep {
		s.byStep[t] = nothing()
		for i := range s.jobs {
			if options[i] == nil {
				continue
			}
			kept := below(options[i][t], s.cut)
			if len(kept) == 1 {
				s.plan[i][t] = kept[0].nodes
				s.left[t] -= kept[0].nodes
				s.fixed += kept[0].loss
				continue
			}
			s.byStep[t] = s.combine(s.byStep[t], kept, s.pool, s.cut)
			s.things[t] = append(s.things[t], i)
		}
		if len(s.byStep[t].loss) == 0 || s.left[t] < 0 {
			return false
		}
	}
	return true
}
