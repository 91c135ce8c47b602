package audit

import (
	"fmt"
	"math"
	"math/bits"
)

// model is the problem in whole numbers. Work is in units of a job's own, of which all that
// it can do within the horizon is 2^49 to 2^50; values are in units of which all jobs
// together can bring at most 2^55. Both are rounded up, by roundUp for what
// floating-point arithmetic may have lost on the way, so that a sum is at least what a plan
// is worth.
type model struct {
	*snapshot
	jobs  []member
	unit  int   // a value v is v 2^unit units
	floor []int // of each group
	// What a node short of a floor costs, and in units at least and at most.
	quotaPrice          float64
	shortLow, shortHigh int64
	// spare is what is left of the pool, and of the limit of each group, beside the least that
	// all jobs hold.
	spare       int
	spareLimits []int
}

// member is a job of the model.
type member struct {
	*job
	index int // in the request
	sizes []int
	// first and later are what each size serves in the first step and in others, seconds on
	// one node; worth is what having served the whole demand adds in a step.
	first, later     []float64
	worth            float64
	fixed, magnitude []float64 // what each size is worth besides, and what that was added up from
	// In units: done is all the work there is, or more than can be done; full is what 2^50
	// units of work add in a step.
	firstUnits, laterUnits []int64
	done, full             int64
	byStep                 bool // it cannot finish: its steps are worth what they are one by one
}

const (
	workBits  = 50
	valueBits = 55
	// slack is more than the relative error of a number that a few dozen floating-point
	// operations make of a request.
	slack = 0x1p-41
	// leastWorth is more than products lose that are too small for floating-point numbers.
	leastWorth = 1e-300
)

// newModel works out the numbers of the jobs that the admission lets in, for plans that were
// made with a search or, heuristic, without.
func newModel(s *snapshot, standings []standing, heuristic bool) (*model, error) {
	m := &model{snapshot: s, floor: make([]int, len(s.groups))}
	allSizes := make([][]int, len(s.jobs))
	for i, st := range standings {
		switch st {
		case forced:
			allSizes[i] = s.jobs[i].sizes
		case free:
			allSizes[i] = append([]int{0}, s.jobs[i].sizes...)
		}
	}
	var values, magnitudes [][]float64
	if s.totalTime {
		var err error
		if values, magnitudes, err = s.totalTimeValues(allSizes); err != nil {
			return nil, err
		}
	}
	for i, sizes := range allSizes {
		if sizes == nil {
			continue
		}
		j := member{job: &s.jobs[i], index: i, sizes: sizes, worth: s.jobs[i].weight}
		j.first, j.later = s.work(j.job, sizes)
		if s.totalTime {
			j.worth, j.fixed, j.magnitude = 0, values[i], magnitudes[i]
		}
		for g := j.group; g >= 0; g = s.groups[g].parent {
			m.floor[g] += sizes[len(sizes)-1]
		}
		m.jobs = append(m.jobs, j)
	}
	total := 0.0
	m.quotaPrice = defaultCost
	if o := s.options.GetTotalTime(); o != nil {
		m.quotaPrice = factor(o.QuotaPrice, defaultCost)
	}
	for g := range m.floor {
		m.floor[g] = min(m.floor[g], s.groups[g].quota)
		total += m.quotaPrice * float64(m.floor[g])
	}
	m.reserve(heuristic)
	for i := range m.jobs {
		total += m.most(&m.jobs[i])
	}
	if math.IsInf(total, 0) || math.IsNaN(total) {
		return nil, leaveOpen("the values of the jobs are beyond what the check can add up")
	}
	_, exponent := math.Frexp(max(total, math.SmallestNonzeroFloat64))
	m.unit = valueBits - exponent
	m.shortLow, m.shortHigh = max(0, m.down(m.quotaPrice, m.quotaPrice)), m.up(m.quotaPrice, m.quotaPrice)
	for i := range m.jobs {
		m.jobs[i].inUnits(m)
	}
	return m, nil
}

// reserve works out what the least of all jobs leaves. A plan without a search may leave a
// queued job nothing.
func (m *model) reserve(heuristic bool) {
	m.spare = m.pool
	for g := range m.groups {
		m.spareLimits = append(m.spareLimits, m.groups[g].limit)
	}
	for i := range m.jobs {
		least := m.jobs[i].sizes[0]
		if heuristic && m.jobs[i].current == 0 {
			least = 0
		}
		m.spare -= least
		for g := m.jobs[i].group; g >= 0; g = m.groups[g].parent {
			m.spareLimits[g] -= least
		}
	}
}

// fits reports whether the n-th size of a job fits beside the least of all others.
func (m *model) fits(j *member, n int) bool {
	more := j.sizes[n] - j.sizes[0]
	return more == 0 || more <= m.spare && more <= m.least(j.group, func(g int) int { return m.spareLimits[g] })
}

// most returns at least what a job can bring, and at least the magnitude of its values.
func (m *model) most(j *member) float64 {
	first, later, fixed := 0.0, 0.0, 0.0
	for n := range j.sizes {
		if m.fits(j, n) {
			first, later = max(first, j.first[n]), max(later, j.later[n])
			if j.fixed != nil {
				fixed = max(fixed, j.magnitude[n])
			}
		}
	}
	for t := range m.steps {
		fixed += j.worth * min(1, (first+float64(t)*later)/j.demand)
	}
	return fixed
}

// up returns a value in units, at least it; magnitude is what it was added up from.
func (m *model) up(v, magnitude float64) int64 {
	return int64(math.Ceil(math.Ldexp(v+slack*magnitude, m.unit)))
}

// down returns a value in units, at most it.
func (m *model) down(v, magnitude float64) int64 {
	return int64(math.Floor(math.Ldexp(v-slack*magnitude, m.unit)))
}

// inUnits works out a job's units.
func (j *member) inUnits(m *model) {
	first, later := 0.0, 0.0
	for n := range j.sizes {
		if m.fits(j, n) {
			first, later = max(first, j.first[n]), max(later, j.later[n])
		}
	}
	all := (first + float64(m.steps-1)*later) / j.demand // shares of the demand
	j.byStep = m.steps == 1 || all <= 1
	if all == 0 {
		all = 1
	}
	_, exponent := math.Frexp(min(1, all))
	scale := workBits - exponent // a share f is f 2^scale units
	units := func(work []float64) (list []int64) {
		for _, w := range work {
			// More than all can do is that of sizes that do not fit.
			list = append(list, int64(math.Ceil(math.Ldexp(min(1, all, w/j.demand)*(1+slack), scale))))
		}
		return list
	}
	j.firstUnits, j.laterUnits = units(j.first), units(j.later)
	j.done = math.MaxInt64
	if scale < 62 {
		j.done = 1 << scale
	}
	j.full = int64(math.Ceil(math.Ldexp(j.worth*(1+slack), m.unit+workBits-scale)))
}

// serve returns the work served after a step with the n-th size.
func (j *member) serve(served int64, t, n int) int64 {
	if t == 0 {
		return min(j.done, served+j.firstUnits[n])
	}
	return min(j.done, served+j.laterUnits[n])
}

// gain returns what a step adds that ends with so much work served, rounded up.
func (j *member) gain(served int64) int64 {
	high, low := bits.Mul64(uint64(j.full), uint64(served))
	low, carry := bits.Add64(low, 1<<workBits-1, 0)
	return int64((high+carry)<<(64-workBits) | low>>workBits)
}

// sizeValue returns what the n-th size in a step is worth of a job that is worth what it is
// step by step, rounded up.
func (m *model) sizeValue(j *member, t, n int) int64 {
	work := j.first[n]
	if t > 0 {
		work = j.later[n]
	}
	v := float64(m.steps-t) * j.worth * min(1, work/j.demand)
	if j.fixed != nil && t == 0 {
		return m.up(v+j.fixed[n], v+j.magnitude[n])
	}
	return m.up(v, v)
}

// value returns what a plan is worth to a job, the magnitude that it is added up from, and the
// share of its demand served by the end of each step. A size that is none of the job's, which
// is 0 of a plan without a search, is worth nothing.
func (j *member) value(nodes []int) (v, magnitude float64, progress []float64) {
	share := 0.0
	for t, k := range nodes {
		if n := j.position(k); n >= 0 {
			work := j.first
			if t > 0 {
				work = j.later
			}
			share = min(1, share+work[n]/j.demand)
			if t == 0 && j.fixed != nil {
				v, magnitude = v+j.fixed[n], magnitude+j.magnitude[n]
			}
		}
		v, magnitude = v+j.worth*share, magnitude+j.worth*share
		progress = append(progress, share)
	}
	return v, magnitude, progress
}

// position returns the position of a size, -1 where it is none of the job's.
func (j *member) position(k int) int {
	for n, size := range j.sizes {
		if size == k {
			return n
		}
	}
	return -1
}

// short returns the nodes that groups are short of their floors under a plan.
func (m *model) short(plan [][]int) int {
	short := 0
	for g, nodes := range m.groupNodes(plan, 0) {
		short += max(0, m.floor[g]-nodes)
	}
	return short
}

// objective returns what a plan is worth, and the magnitude that it is added up from.
func (m *model) objective(plan [][]int) (sum, magnitude float64) {
	for i := range m.jobs {
		v, of, _ := m.jobs[i].value(plan[i])
		sum, magnitude = sum+v, magnitude+of
	}
	short := m.quotaPrice * float64(m.short(plan))
	return sum - short, magnitude + short
}

// atLeast returns what a plan is worth at least, in units.
func (m *model) atLeast(plan [][]int) int64 {
	low := -m.shortHigh * int64(m.short(plan))
	for i := range m.jobs {
		v, magnitude, _ := m.jobs[i].value(plan[i])
		low += m.down(v, magnitude)
	}
	return low
}

// groupNodes returns the nodes of every group in a step.
func (m *model) groupNodes(plan [][]int, t int) []int {
	nodes := make([]int, len(m.groups))
	for i := range m.jobs {
		for g := m.jobs[i].group; g >= 0; g = m.groups[g].parent {
			nodes[g] += plan[i][t]
		}
	}
	return nodes
}

// legal returns what is illegal in a plan. One that was made without a search may leave any
// queued job without nodes.
func (m *model) legal(plan [][]int, heuristic bool) error {
	for i := range m.jobs {
		j := &m.jobs[i]
		for t, k := range plan[i] {
			if waits := heuristic && k == 0 && j.current == 0; !waits && j.position(k) < 0 {
				return fmt.Errorf("job %q has %d nodes in step %d, which is none of its sizes %v", j.id, k, t+1, j.sizes)
			}
		}
	}
	for t := range m.steps {
		used := 0
		for i := range plan {
			if t == len(plan[i]) {
				return nil // It is only the first steps.
			}
			used += plan[i][t]
		}
		if used > m.pool {
			return fmt.Errorf("the jobs have %d nodes in step %d; the pool has %d", used, t+1, m.pool)
		}
		for g, nodes := range m.groupNodes(plan, t) {
			if limit := m.groups[g].limit; nodes > limit {
				return fmt.Errorf("group %d has %d nodes in step %d; its limit is %d", g, nodes, t+1, limit)
			}
		}
	}
	return nil
}
