package nodetypes

import (
	"math"
	"slices"
)

// bests returns what each job's best option is worth, and by how much the choice falls short of
// their sum: job by job, because two sums whose values cancel out differ in no digits.
func (s *search) bests() (most []float64, short float64) {
	most = make([]float64, len(s.Jobs))
	for i, options := range s.Jobs {
		most[i] = math.Inf(-1)
		for n := range options {
			most[i] = max(most[i], options[n].Value)
		}
		short += most[i] - options[s.choice[i]].Value
	}
	return most, short
}

// reduce leaves out options that are in no choice as good as the best one known: those that lose
// more against their job's best option than all jobs do in that choice, and those that do not fit
// beside the least that all other jobs hold of the type. It reports whether there are any. What
// is left is often much smaller, and then proven to more digits.
func (s *search) reduce() bool {
	most, short := s.bests()
	// It is a sum of differences none of which is below 0, each rounded once, as is what an option loses.
	gap := short * (1 + float64(len(s.Jobs)+2)*0x1p-52)
	least := make([]int, len(s.Jobs)) // nodes of the type that all options of the job are of
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
		free[options[s.choice[i]].Type] -= least[i]
	}
	fewer, dropped := *s.Problem, false
	fewer.Jobs = make([][]Option, len(s.Jobs))
	choice, position := make([]int, len(s.Jobs)), make([][]int, len(s.Jobs))
	for i, options := range s.Jobs {
		held := options[s.choice[i]].Type
		for n, o := range options {
			left := free[o.Type]
			if o.Type == held {
				left += least[i]
			}
			if n != s.choice[i] && (most[i]-o.Value > gap || int(o.Nodes) > left) {
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
	}
	return dropped
}
