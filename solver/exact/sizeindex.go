package exact

import "slices"

// sizeIndex says where the price of a size is, where every size of every step has its own:
// one for all jobs of a shape, which differ in nothing but their first step.
type sizeIndex struct {
	in *instance
	// classOf is the class of each finishing job. Of a class: one job, how many there
	// are, and its shape.
	classOf []int
	jobs    []int
	count   []int
	shapeOf []int
	// first[g][t] is the index of the price of the second size of shape g in step t,
	// that of the k-th being first[g][t]+k-1; sizes[g][t] is how many sizes fit.
	first, sizes [][]int
	prices       int       // their number
	stride       int       // the most sizes of a job
	use          []float64 // scratch: of each price by a step
}

// newSizeIndex numbers the prices of an instance.
func newSizeIndex(c *clock, in *instance) *sizeIndex {
	s := &sizeIndex{in: in}
	s.classOf, s.jobs = in.classes(c, in.finishing)
	s.count = make([]int, len(s.jobs))
	for _, class := range s.classOf {
		s.count[class]++
	}
	var leaders []int
	for _, i := range s.jobs {
		j := &in.jobs[i]
		shape := slices.IndexFunc(leaders, func(other int) bool { return j.similar(&in.jobs[other]) })
		if shape < 0 {
			shape = len(leaders)
			leaders = append(leaders, i)
			first, sizes := make([]int, in.steps), make([]int, in.steps)
			for t := range first {
				first[t], sizes[t] = s.prices, in.fitting(j, t)
				s.prices += sizes[t] - 1
			}
			s.first, s.sizes = append(s.first, first), append(s.sizes, sizes)
		}
		s.shapeOf = append(s.shapeOf, shape)
		s.stride = max(s.stride, len(j.sizes))
	}
	return s
}

// at returns the prices per size that node prices come to.
func (s *sizeIndex) at(prices []float64) []float64 {
	x := make([]float64, s.prices)
	for class, i := range s.jobs {
		j := &s.in.jobs[i]
		g := s.shapeOf[class]
		for t, first := range s.first[g] {
			for k := 1; k < s.sizes[g][t]; k++ {
				x[first+k-1] = prices[t] * float64(j.sizes[k]-j.sizes[0])
			}
		}
	}
	return x
}

// planColumn returns a plan of a class as a column: its value and, with factor -1, the
// prices that it pays.
func (s *sizeIndex) planColumn(class int, chosen []uint8) priceColumn {
	g := s.shapeOf[class]
	column := priceColumn{value: s.in.jobs[s.jobs[class]].value(chosen)}
	for t, k := range chosen {
		if k > 0 {
			column.prices = append(column.prices, int32(s.first[g][t]+int(k)-1))
			column.factors = append(column.factors, -1)
		}
	}
	return column
}

// stepColumn returns the choices of all jobs in a step as a column: the value of the
// separable ones and the prices that the others bring, with their number as factors.
func (s *sizeIndex) stepColumn(t int, choice func(i, n int) uint8) priceColumn {
	column := priceColumn{}
	for n, i := range s.in.separable {
		column.value += s.in.jobs[i].stepValue(t, int(choice(i, n)))
	}
	if s.use == nil {
		s.use = make([]float64, s.prices)
	}
	for f, i := range s.in.finishing {
		if k := choice(i, len(s.in.separable)+f); k > 0 {
			v := s.first[s.shapeOf[s.classOf[f]]][t] + int(k) - 1
			if s.use[v] == 0 {
				column.prices = append(column.prices, int32(v))
			}
			s.use[v]++
		}
	}
	slices.Sort(column.prices)
	for _, v := range column.prices {
		column.factors = append(column.factors, s.use[v])
		s.use[v] = 0
	}
	return column
}

// costAt returns what the sizes of a class cost at prices per size.
func (s *sizeIndex) costAt(x []float64) func(class, t, k int) float64 {
	return func(class, t, k int) float64 {
		if k == 0 {
			return 0
		}
		return x[s.first[s.shapeOf[class]][t]+k-1]
	}
}

// priceColumn is a choice of one job or one step: a value and how often it brings or
// pays which prices.
type priceColumn struct {
	value   float64
	prices  []int32
	factors []float64
}

// at returns the value of the column at prices.
func (p *priceColumn) at(x []float64) float64 {
	value := p.value
	for n, v := range p.prices {
		value += p.factors[n] * x[v]
	}
	return value
}

// equals reports whether two columns are the same choice.
func (p *priceColumn) equals(other *priceColumn) bool {
	return p.value == other.value && slices.Equal(p.prices, other.prices) && slices.Equal(p.factors, other.factors)
}
