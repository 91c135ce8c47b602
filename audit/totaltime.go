package audit

import (
	"cmp"
	"errors"
	"math"
	"slices"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// prices are the parameters of OBJECTIVE_TOTAL_TIME and what it takes from all jobs, in the
// letters of docs/total-time.md.
type prices struct {
	fairness, aging, beta, payback, pause, bonus, cadence float64
	meanWeight                                            float64
}

// errTie says that the order of two jobs hangs on rounding.
var errTie = errors.New("two jobs stand at the same place of the order up to rounding")

// nearTie is how near the keys of two jobs may be without being equal.
const nearTie = 1e-12

// totalTimeValues returns, for every job that is not held, what each of its sizes is worth,
// and the sum of the magnitudes that it was added up from.
func (s *snapshot) totalTimeValues(sizes [][]int) (values, magnitudes [][]float64, err error) {
	o := s.options.GetTotalTime()
	if o == nil {
		o = &elastallocv1.TotalTimeOptions{}
	}
	p := &prices{
		fairness: factor(o.Fairness, 1), aging: span(o.Aging, defaultAging), beta: span(o.RescalePrice, defaultPrice),
		payback: s.step, pause: factor(o.PausePriceFactor, 1), cadence: span(o.Cadence, 0),
	}
	if s.admission == elastallocv1.Admission_ADMISSION_OPTIMIZED {
		p.bonus = span(o.StartBonus, defaultBonus)
	}
	c, err := p.gradient(s)
	if err != nil {
		return nil, nil, err
	}
	values, magnitudes = make([][]float64, len(s.jobs)), make([][]float64, len(s.jobs))
	for i := range s.jobs {
		for _, k := range sizes[i] {
			v, m := p.value(&s.jobs[i], c[i], k)
			values[i], magnitudes[i] = append(values[i], v), append(magnitudes[i], m)
		}
	}
	return values, magnitudes, nil
}

// aged returns the weight of a job with its aging, w'.
func (p *prices) aged(j *job) float64 {
	if p.aging == 0 {
		return j.weight
	}
	return j.weight * (1 + j.waiting/p.aging)
}

// told returns a speed as the objective tells it from others.
func told(j *job, nodes float64) float64 {
	if nodes <= 0 {
		return 0
	}
	return max(j.speedAt(nodes), slowestSpeed)
}

// gradient returns c of every job.
func (p *prices) gradient(s *snapshot) ([]float64, error) {
	var order []int
	for i := range s.jobs {
		if !s.jobs[i].held {
			order = append(order, i)
		}
	}
	c := make([]float64, len(s.jobs))
	n, pool := float64(len(order)), float64(s.pool)
	meanMost, exponents := 0.0, []float64(nil)
	for _, i := range order {
		j := &s.jobs[i]
		most := float64(j.sizes[len(j.sizes)-1])
		p.meanWeight += p.aged(j) / n
		meanMost += min(most, pool) / n
		if most > 1 {
			exponents = append(exponents, math.Log(told(j, most))/math.Log(most))
		}
	}
	a := math.Log2(2 * defaultEff)
	slices.Sort(exponents)
	if m := len(exponents); m > 0 {
		a = (exponents[m/2] + exponents[(m-1)/2]) / 2
	}
	a = min(max(a, leastExponent), mostExponent)
	power := 1 / (1 - a)

	key := make([]float64, len(s.jobs))
	for _, i := range order {
		key[i] = math.Log(s.jobs[i].demand) - a*math.Log(p.aged(&s.jobs[i])) // +Inf for weight 0
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(key[y], key[x]) })
	for at := 1; at < len(order); at++ {
		x, y := order[at-1], order[at]
		same := s.jobs[x].demand == s.jobs[y].demand && p.aged(&s.jobs[x]) == p.aged(&s.jobs[y])
		if gap := key[x] - key[y]; !same && gap < nearTie*max(1, math.Abs(key[x])) {
			return nil, errTie
		}
	}
	v := 0.0
	if pool > 0 && n > 0 {
		v = p.fairness * pool / meanMost * p.meanWeight
	}
	for _, i := range order {
		j, w := &s.jobs[i], p.aged(&s.jobs[i])
		if w == 0 {
			continue
		}
		most := float64(j.sizes[len(j.sizes)-1])
		v += w
		if pool > 0 {
			share := min(max(pool/n, 1, float64(j.sizes[0])), most)
			u := told(j, share) / math.Pow(share, a)
			// 1 - (V before / V)^p without cancellation.
			left := -math.Expm1(power * math.Log1p(-w/v))
			c[i] = v * math.Pow(left, 1/power) / (math.Pow(pool, a) * u)
		}
		c[i] = max(c[i], w/told(j, most))
	}
	return c, nil
}

// value returns what k nodes are worth to a job, and the magnitudes that it is the sum of.
func (p *prices) value(j *job, c float64, k int) (value, magnitude float64) {
	speed, saved, bonus, cost := told(j, float64(k)), 0.0, 0.0, 0.0
	if k > 0 {
		saved = c * speed
		if p.cadence > 0 {
			saved = (c*min(p.cadence*speed, j.demand) + p.aged(j)*max(0, p.cadence-j.demand/speed)) / p.cadence
		}
	}
	change := p.beta*p.meanWeight + j.restart*c*speed
	switch {
	case k == j.current:
	case !j.trained:
		bonus = p.bonus * p.meanWeight / p.payback
	case j.current == 0:
		cost = min(change/p.payback, saved/2)
	default:
		if k == 0 {
			change = p.pause * p.beta * p.meanWeight
		}
		left := j.demand / max(speed, told(j, float64(j.current)))
		cost = change / min(max(left, 1), p.payback)
	}
	return saved + bonus - cost, saved + bonus + cost
}
