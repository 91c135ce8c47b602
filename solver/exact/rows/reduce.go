package rows

import (
	"math"
	"slices"
)

// maxValues returns the largest value of each job, and the difference between their sum and the
// value of the incumbent. The difference is computed job by job, because it could be lost in the
// rounding of two large sums.
func (s *search) maxValues() (most []float64, shortfall float64) {
	most = make([]float64, len(s.Jobs))
	for i, options := range s.Jobs {
		most[i] = math.Inf(-1)
		for n := range options {
			most[i] = max(most[i], options[n].Value)
		}
		shortfall += most[i] - options[s.choice[i]].Value
	}
	return most, shortfall
}

// roomInGroups returns a function that reports whether an allocation of a job fits into its windows in addition to
// the smallest options of the other jobs, of the options that lose at most gap.
func (s *search) roomInGroups(most []float64, gap float64) func(i int, o *Allocation) bool {
	if s.windows == nil {
		return func(int, *Allocation) bool { return true }
	}
	room, least := make([]int, len(s.windows.windows)), make([]int, len(s.Jobs))
	for n := range room {
		room[n] = s.windows.windows[n].limit
	}
	for i, options := range s.Jobs {
		least[i] = math.MaxInt32
		for n := range options {
			if o := &options[n]; most[i]-o.Value <= gap {
				least[i] = min(least[i], int(o.Nodes))
			}
		}
		for _, n := range s.windowsOfJob(i) {
			if s.windows.windows[n].nodeType == allTypes {
				room[n] -= least[i]
			}
		}
	}
	return func(i int, o *Allocation) bool {
		for _, n := range s.windowsOfJob(i) {
			w := &s.windows.windows[n]
			left := room[n]
			if w.nodeType == allTypes {
				left += least[i]
			}
			if w.nodesOf(o) > left {
				return false
			}
		}
		return true
	}
}

// reduce removes options that are in no choice as good as the incumbent. These are options that
// lose more against the largest value of their job than all jobs together, and nodes below floors, lose in the
// incumbent, and options that do not fit their type because of the nodes that all other jobs need at least. It reports
// whether it removed any. The remaining problem is often much smaller, and its bound has a smaller
// rounding error.
func (s *search) reduce() bool {
	most, shortfall := s.maxValues()
	// The sum of non-negative differences, each rounded once, like the loss of an option.
	gap := (shortfall + s.QuotaPrice*float64(s.shortOf(s.choice))) * (1 + float64(len(s.Jobs)+4)*0x1p-52)
	least := make([]int, len(s.Jobs)) // smallest number of nodes of the current type in all remaining options
	free := slices.Clone(s.Capacity)
	for i, options := range s.Jobs {
		least[i] = math.MaxInt32
		for n := range options {
			if o := &options[n]; most[i]-o.Value <= gap {
				if least[i] = min(least[i], int(o.Nodes)); o.Type != s.Jobs[i][s.choice[i]].Type {
					least[i] = 0
				}
			}
		}
		free[s.first(&options[s.choice[i]].Allocation)] -= least[i]
	}
	within := s.roomInGroups(most, gap)
	fewer, dropped := *s.Problem, false
	fewer.Jobs = make([][]Option, len(s.Jobs))
	choice, position := make([]int, len(s.Jobs)), make([][]int, len(s.Jobs))
	for i, options := range s.Jobs {
		current := options[s.choice[i]].Type
		for n, o := range options {
			left := free[s.first(&o.Allocation)]
			if o.Type == current {
				left += least[i]
			}
			if n != s.choice[i] && (most[i]-o.Value > gap || int(o.Nodes) > left || !within(i, &o.Allocation)) {
				dropped = true
				continue
			}
			if n == s.choice[i] {
				choice[i] = len(position[i])
			}
			fewer.Jobs[i] = append(fewer.Jobs[i], o)
			at := n
			if s.position != nil {
				at = s.position[i][n]
			}
			position[i] = append(position[i], at)
		}
	}
	if dropped {
		s.Problem, s.choice, s.position = &fewer, choice, position
		s.windows = fewer.newWindows()
	}
	return dropped
}
