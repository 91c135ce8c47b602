package model

import "slices"

// SizeIndex numbers the prices per size. Every size of every step has its own price, which all jobs
// of a shape share. Jobs of a shape differ only in their first step.
type SizeIndex struct {
	In *Instance
	// ClassOf is the class of each finishing job. For each class, Jobs is one of its jobs, Count
	// the number of jobs, and ShapeOf the shape.
	ClassOf []int
	Jobs    []int
	Count   []int
	ShapeOf []int
	// First[g][t] is the index of the price of the second size of shape g in step t; the k-th size
	// has the index First[g][t]+k-1. Sizes[g][t] is the number of sizes that fit.
	First, Sizes [][]int
	PriceCount   int       // number of prices
	Stride       int       // largest number of sizes of a job
	use          []float64 // scratch: number of jobs of a step per price
}

// NewSizeIndex numbers the prices of an instance.
func NewSizeIndex(clock *Clock, in *Instance) *SizeIndex {
	s := &SizeIndex{In: in}
	s.ClassOf, s.Jobs = in.Classes(clock, in.Finishing)
	s.Count = make([]int, len(s.Jobs))
	for _, class := range s.ClassOf {
		s.Count[class]++
	}
	var leaders []int
	for _, i := range s.Jobs {
		j := &in.Jobs[i]
		shape := slices.IndexFunc(leaders, func(other int) bool { return j.similar(&in.Jobs[other]) })
		if shape < 0 {
			shape = len(leaders)
			leaders = append(leaders, i)
			first, sizes := make([]int, in.Steps), make([]int, in.Steps)
			for t := range first {
				first[t], sizes[t] = s.PriceCount, in.Fitting(j, t)
				s.PriceCount += sizes[t] - 1
			}
			s.First, s.Sizes = append(s.First, first), append(s.Sizes, sizes)
		}
		s.ShapeOf = append(s.ShapeOf, shape)
		s.Stride = max(s.Stride, len(j.Sizes))
	}
	return s
}

// At converts node prices to prices per size.
func (s *SizeIndex) At(prices []float64) []float64 {
	x := make([]float64, s.PriceCount)
	for class, i := range s.Jobs {
		j := &s.In.Jobs[i]
		g := s.ShapeOf[class]
		for t, first := range s.First[g] {
			for k := 1; k < s.Sizes[g][t]; k++ {
				x[first+k-1] = prices[t] * float64(j.Sizes[k]-j.Sizes[0])
			}
		}
	}
	return x
}

// PlanColumn returns a plan of a class as a column: its value, and the prices that it pays with the
// factor -1.
func (s *SizeIndex) PlanColumn(class int, chosen []uint8) PriceColumn {
	g := s.ShapeOf[class]
	column := PriceColumn{value: s.In.Jobs[s.Jobs[class]].Value(chosen)}
	for t, k := range chosen {
		if k > 0 {
			column.Prices = append(column.Prices, int32(s.First[g][t]+int(k)-1))
			column.Factors = append(column.Factors, -1)
		}
	}
	return column
}

// StepColumn returns the choices of all jobs in a step as a column: the value of the separable
// jobs, and the prices that the step receives with the number of jobs as factors.
func (s *SizeIndex) StepColumn(t int, choice func(i, n int) uint8) PriceColumn {
	column := PriceColumn{}
	for n, i := range s.In.Separable {
		column.value += s.In.Jobs[i].StepValue(t, int(choice(i, n)))
	}
	if s.use == nil {
		s.use = make([]float64, s.PriceCount)
	}
	for f, i := range s.In.Finishing {
		if k := choice(i, len(s.In.Separable)+f); k > 0 {
			v := s.First[s.ShapeOf[s.ClassOf[f]]][t] + int(k) - 1
			if s.use[v] == 0 {
				column.Prices = append(column.Prices, int32(v))
			}
			s.use[v]++
		}
	}
	slices.Sort(column.Prices)
	for _, v := range column.Prices {
		column.Factors = append(column.Factors, s.use[v])
		s.use[v] = 0
	}
	return column
}

// CostAt returns a function that returns the cost of the k-th size of a class in step t at prices
// per size.
func (s *SizeIndex) CostAt(x []float64) func(class, t, k int) float64 {
	return func(class, t, k int) float64 {
		if k == 0 {
			return 0
		}
		return x[s.First[s.ShapeOf[class]][t]+k-1]
	}
}

// PriceColumn is a choice of one job or one step: a linear function of the prices per size.
type PriceColumn struct {
	value   float64
	Prices  []int32
	Factors []float64
}

// ValueAt returns the value of the column at the given prices.
func (p *PriceColumn) ValueAt(x []float64) float64 {
	value := p.value
	for n, v := range p.Prices {
		value += p.Factors[n] * x[v]
	}
	return value
}

// Equal reports whether two columns are equal.
func (p *PriceColumn) Equal(other *PriceColumn) bool {
	return p.value == other.value && slices.Equal(p.Prices, other.Prices) && slices.Equal(p.Factors, other.Factors)
}
