package audit

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// model is the problem after the admission, in whole numbers: work in units of 2^-50 of a
// job's demand, values in units of which all that any plan brings, and what the answer
// claims, is at most 2^55. Both are rounded up, by slack for what floating-point arithmetic
// may have lost on the way, so that a sum is at least what a plan is worth.
type model struct {
	*snapshot
	members    []member
	floors     []int // of each group
	quotaPrice float64
	slack      float64 // more than the relative error of a number made of the request
	unit       int     // a value v is v 2^unit units
}

// member is a job that the admission lets in.
type member struct {
	*job
	index  int   // in the request
	sizes  []int // 0, too, where it may hold none
	usable []int // positions of the sizes that a plan can have
	// shares of the demand are what each size serves in the first step and in others; worth is
	// what having served all of it adds in a step.
	shares           [2][]float64
	worth            float64
	fixed, magnitude []float64 // what each size is worth besides, and what that was added up from
	// byStep says that it cannot finish: its steps are worth what they are one by one.
	byStep bool
	units  [2][]int64 // shares
	full   int64      // worth
}

const (
	workBits  = 50
	done      = int64(1) << workBits // all the work of a job
	valueBits = 55
	// leastWorth is more than products lose that are too small for floating-point numbers.
	leastWorth = 1e-300
)

// newModel works out the numbers of the jobs that the admission lets in. claim is the
// largest value that the answer speaks of.
func newModel(s *snapshot, standings []standing, claim float64) (*model, error) {
	m := &model{snapshot: s, floors: make([]int, len(s.groups)), slack: 0x1p-41 + 0x1p-52*float64(len(s.jobs))}
	if s.totalTime != nil {
		m.quotaPrice = s.totalTime.quotaPrice
		if err := s.totalTime.prepare(s); err != nil {
			return nil, err
		}
	}
	for i, st := range standings {
		if st != out {
			m.members = append(m.members, m.newMember(i, st))
		}
	}
	for g := range m.floors {
		m.floors[g] = min(m.floors[g], s.groups[g].quota)
	}
	m.findUsable()
	total := claim
	for i := range m.members {
		total += m.members[i].most(m)
	}
	if math.IsInf(total, 0) {
		return nil, leaveOpen("the values of the jobs are beyond what the check can add up")
	}
	_, exponent := math.Frexp(max(total, math.SmallestNonzeroFloat64))
	m.unit = valueBits - exponent
	for i := range m.members {
		j := &m.members[i]
		j.full = m.up(j.worth, j.worth)
		// A size that takes off more than all others bring is in no plan as good as claimed.
		j.usable = slices.DeleteFunc(j.usable, func(n int) bool { return j.fixed[n]+m.slack*j.magnitude[n] < -2*total })
	}
	return m, nil
}

// newMember returns job i of the request.
func (m *model) newMember(i int, st standing) member {
	j := member{job: &m.jobs[i], index: i, sizes: m.jobs[i].sizes}
	if st == free {
		j.sizes = append([]int{0}, j.sizes...)
	}
	if m.totalTime == nil {
		j.worth = j.weight
	}
	for g := range m.above(j.group) {
		m.floors[g] += slices.Max(j.sizes)
	}
	for _, k := range j.sizes {
		speed, value, magnitude := j.speedAt(float64(k)), 0.0, 0.0
		first := m.step * speed
		if delay := min(j.delay, m.step); k > j.current && delay > 0 {
			first = delay*j.speedAt(j.used(j.current)) + (m.step-delay)*speed
		}
		if restart := min(j.restart, m.step); k != j.current && j.trained && restart > 0 {
			first = (m.step - restart) * speed
		}
		if m.totalTime != nil {
			value, magnitude = m.totalTime.value(j.job, m.totalTime.gradient[i], k)
			magnitude *= 1 + m.totalTime.doubt[i]/m.slack
		}
		j.fixed, j.magnitude = append(j.fixed, value), append(j.magnitude, magnitude)
		for t, work := range []float64{first, m.step * speed} {
			share := min(1, work/j.demand)
			j.shares[t] = append(j.shares[t], share)
			j.units[t] = append(j.units[t], int64(math.Ceil(math.Ldexp(share*(1+m.slack), workBits))))
		}
	}
	return j
}

// findUsable leaves every job the sizes that fit beside the least of all others.
func (m *model) findUsable() {
	spare, spares := m.pool, make([]int, len(m.groups))
	for g := range m.groups {
		spares[g] = m.groups[g].limit
	}
	for i := range m.members {
		spare -= m.members[i].sizes[0]
		for g := range m.above(m.members[i].group) {
			spares[g] -= m.members[i].sizes[0]
		}
	}
	for i := range m.members {
		j, most := &m.members[i], spare
		for g := range m.above(j.group) {
			most = min(most, spares[g])
		}
		for n, k := range j.sizes {
			if n == 0 || k-j.sizes[0] <= most {
				j.usable = append(j.usable, n)
			}
		}
	}
}

// most returns at least what any plan of a job is worth, and finds out whether it is byStep.
func (j *member) most(m *model) float64 {
	first, later, most := 0.0, 0.0, 0.0
	for _, n := range j.usable {
		first, later = max(first, j.shares[0][n]), max(later, j.shares[1][n])
		most = max(most, j.fixed[n]+m.slack*j.magnitude[n])
	}
	j.byStep = m.steps == 1 || first+float64(m.steps-1)*later <= 1
	for t := range m.steps {
		most += j.worth * min(1, first+float64(t)*later)
	}
	return most
}

// up returns a value in units, at least it; magnitude is what it was added up from.
func (m *model) up(v, magnitude float64) int64 {
	return int64(math.Ceil(math.Ldexp(v+m.slack*magnitude, m.unit)))
}

// shortCost returns what a shortage of nodes below a floor costs, in units, at most that.
func (m *model) shortCost(nodes int) int64 {
	cost := math.Ldexp(m.quotaPrice*float64(nodes)*(1-m.slack), m.unit)
	return int64(min(cost, -never)) // More than that is too much, too.
}

// serve returns the work served after a step with the n-th size.
func (j *member) serve(served int64, t, n int) int64 { return min(done, served+j.units[min(t, 1)][n]) }

// gain returns what a step adds that ends with so much work served, rounded up.
func (j *member) gain(served int64) int64 {
	high, low := bits.Mul64(uint64(j.full), uint64(served))
	low, carry := bits.Add64(low, 1<<workBits-1, 0)
	return int64((high+carry)<<(64-workBits) | low>>workBits)
}

// stepValue returns what the n-th size in a step is worth of a job that is worth what it is
// step by step, rounded up.
func (m *model) stepValue(j *member, t, n int) int64 {
	v := float64(m.steps-t) * j.worth * j.shares[min(t, 1)][n]
	if t > 0 {
		return m.up(v, v)
	}
	return m.up(v+j.fixed[n], v+j.magnitude[n])
}

// value returns what a plan is worth to a job, the magnitude that it is added up from, and the
// share of its demand served by the end of each step. A size that is none of the job's, which
// is 0 of a plan without a search, is worth nothing.
func (j *member) value(nodes []int) (v, magnitude float64, progress []float64) {
	share := 0.0
	for t, k := range nodes {
		if n := slices.Index(j.sizes, k); n >= 0 {
			share = min(1, share+j.shares[min(t, 1)][n])
			if t == 0 {
				v, magnitude = j.fixed[n], j.magnitude[n]
			}
		}
		v, magnitude = v+j.worth*share, magnitude+j.worth*share
		progress = append(progress, share)
	}
	return v, magnitude, progress
}

// objective returns what a plan is worth, at most and at least.
func (m *model) objective(plan [][]int) (most, least float64) {
	sum, magnitude := 0.0, 0.0
	for i := range m.members {
		v, of, _ := m.members[i].value(plan[i])
		sum, magnitude = sum+v, magnitude+of
	}
	for g, nodes := range m.groupNodes(plan, 0) {
		short := m.quotaPrice * float64(max(0, m.floors[g]-nodes))
		sum, magnitude = sum-short, magnitude+short
	}
	loss := m.slack*magnitude + leastWorth
	return sum + loss, sum - loss
}

// groupNodes returns the nodes of every group in a step.
func (m *model) groupNodes(plan [][]int, t int) []int {
	nodes := make([]int, len(m.groups))
	for i := range plan {
		for g := range m.above(m.members[i].group) {
			nodes[g] += plan[i][t]
		}
	}
	return nodes
}

// legal returns what is illegal in the first steps of a plan. One that was made without a
// search may leave any queued job without nodes.
func (m *model) legal(plan [][]int, steps int, heuristic bool) error {
	for t := range steps {
		used := 0
		for i := range plan {
			j, k := &m.members[i], plan[i][t]
			used += k
			if waits := heuristic && k == 0 && j.current == 0; !waits && !slices.Contains(j.sizes, k) {
				return fmt.Errorf("job %q has %d nodes in step %d, which is none of its sizes %v", j.id, k, t+1, j.sizes)
			}
		}
		if used > m.pool {
			return fmt.Errorf("the jobs have %d nodes in step %d; the pool has %d", used, t+1, m.pool)
		}
		for g, nodes := range m.groupNodes(plan, t) {
			if limit := m.groups[g].limit; nodes > limit {
				return fmt.Errorf("group %q has %d nodes in step %d; its limit is %d", m.groups[g].id, nodes, t+1, limit)
			}
		}
	}
	return nil
}
