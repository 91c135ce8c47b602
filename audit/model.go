package audit

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// model is the problem after the admission, in whole numbers: work in units of 2^-50 of a
// job's demand, values in units of which all that any plan brings, what the answer claims,
// and what the pool costs, unless that is far more, is at most 2^55. Both are rounded up, by
// slack for what floating-point arithmetic may have lost on the way, so that a sum is at least
// what a plan is worth.
//
// A plan has nodes of every member in every row. A row is a node type in a step: of several types there
// is one step. A member holds nodes of one type at most.
type model struct {
	*snapshot
	capacity   []int // of each row
	members    []member
	floors     []int // of each group
	short      []int // nodes below them that a plan is compared with
	quotaPrice float64
	slack      float64 // more than the relative error of a number made of the request
	claim      float64 // the largest value that the answer speaks of
	cost       float64 // of the pool, at the prices that the answer has
	alone      float64 // what plans are worth at most, each job with the pool to itself
	unit       int     // a value v is v 2^unit units
}

// member is a job that the admission lets in.
type member struct {
	*job
	index int   // in the request
	waits bool  // it may hold no nodes
	sizes []int // of all rows, ascending, 0 where it may hold none in one
	rows  []*row
	// usable are, by row, the positions of the sizes that a plan can have.
	usable [][]int
	// byStep says that its steps are worth what they are one by one: it cannot finish, or brings
	// next to nothing beside the claim.
	byStep bool
	worth  float64 // of having served all of its demand, in a step
	full   int64   // worth
}

// row is what each size of a member brings in a row.
type row struct {
	share            []float64 // of the demand that is served
	units            []int64   // share
	fixed, magnitude []float64 // what it is worth besides, and what that was added up from
}

const (
	workBits  = 50
	done      = int64(1) << workBits // all the work of a job
	valueBits = 55
	// leastWorth is more than products lose that are too small for floating-point numbers.
	leastWorth = 1e-300
)

// newModel works out the numbers of the jobs that the admission lets in.
func newModel(s *snapshot, claim float64, prices []float64, e *effort) (*model, error) {
	m := &model{
		snapshot: s, capacity: slices.Repeat(s.nodes, s.steps), claim: claim, slack: 0x1p-41 + 0x1p-52*float64(len(s.jobs)),
		floors: make([]int, len(s.groups)), short: make([]int, len(s.groups)),
	}
	for t := range min(len(prices), len(m.capacity)) {
		if prices[t] > 0 {
			m.cost += min(prices[t], math.MaxFloat64) * float64(m.capacity[t])
		}
	}
	if s.totalTime != nil {
		m.quotaPrice = s.totalTime.quotaPrice
		if err := s.totalTime.prepare(s, e); err != nil {
			return nil, err
		}
	}
	standings, err := s.admit()
	if err != nil {
		return nil, err
	}
	// What members leave that hold their smallest sizes, of each row and of the limits.
	spare, limits := slices.Clone(m.capacity), make([]int, len(s.groups))
	for g := range s.groups {
		limits[g] = s.groups[g].limit
	}
	for i, st := range standings {
		if st == out {
			continue
		}
		j := m.newMember(i, st)
		for t := range spare {
			spare[t] -= j.sizes[0]
		}
		for g := range m.above(j.group) {
			limits[g] -= j.sizes[0]
		}
		m.members = append(m.members, j)
	}
	for i := range m.members {
		m.members[i].addRows(m, spare, limits)
	}
	if !m.scale() {
		return nil, leaveOpen("the values of the jobs are beyond what the check can add up")
	}
	return m, nil
}

// scale finds the unit of values by the usable sizes. It returns false where there is none.
func (m *model) scale() bool {
	trifle := Tolerance / 2 * m.claim
	m.alone = 0
	for i := range m.members {
		j := &m.members[i]
		m.alone += j.most(m)
		// So much more may be made of the steps of a job one by one.
		if more := j.worth * float64(m.steps*m.steps); !m.several() && more <= trifle {
			trifle -= more
			j.byStep = true
		}
	}
	for _, short := range m.short {
		m.alone += m.quotaPrice * float64(short)
	}
	total := m.claim + m.alone
	_, exponent := math.Frexp(max(total+min(m.cost, 64*total), math.SmallestNonzeroFloat64))
	m.unit = valueBits - exponent
	for i := range m.members {
		j := &m.members[i]
		j.full = m.up(j.worth, j.worth)
		for t, r := range j.rows {
			// A size that takes off more than all others bring is in no plan as good as claimed.
			j.usable[t] = slices.DeleteFunc(j.usable[t], func(n int) bool { return r.fixed[n]+m.slack*r.magnitude[n] < -2*total })
		}
	}
	return 65*total <= math.MaxFloat64 // As what the pool costs may come to.
}

// newMember returns job i of the request, without rows.
func (m *model) newMember(i int, st standing) member {
	j := member{job: &m.jobs[i], index: i, waits: st == free}
	if j.waits || m.several() {
		j.sizes = []int{0}
	}
	for _, k := range j.kinds {
		j.sizes = append(j.sizes, k.sizes...)
	}
	slices.Sort(j.sizes)
	j.sizes = slices.Compact(j.sizes)
	if m.totalTime == nil {
		j.worth = j.weight
	}
	most := m.nodes[0] // With groups there is one node type.
	for g := range m.above(j.group) {
		most = min(most, m.groups[g].limit)
	}
	for g := range m.above(j.group) {
		if j.kinds[0].sizes[0] <= most {
			m.floors[g] = min(m.floors[g]+slices.Max(j.sizes), m.groups[g].quota)
		}
	}
	return j
}

// addRows works out what the sizes of a member bring, and which fit beside the smallest of all others,
// which leave spare nodes in each row and so much of the limits.
func (j *member) addRows(m *model, spare, limits []int) {
	for t, most := range spare {
		if t > 1 && !m.several() { // Its later steps are alike.
			j.rows = append(j.rows, j.rows[1])
		} else {
			j.rows = append(j.rows, m.newRow(j, t))
		}
		for g := range m.above(j.group) {
			most = min(most, limits[g])
		}
		usable := []int{0}
		for n := 1; n < len(j.sizes) && j.sizes[n]-j.sizes[0] <= most; n++ {
			usable = append(usable, n)
		}
		j.usable = append(j.usable, usable)
	}
}

// newRow returns what the sizes of a member bring in a row. One that is not legal there is worth less
// than any plan.
func (m *model) newRow(j *member, t int) *row {
	r, k, step := new(row), j.kindOn(t%len(m.nodes)), t/len(m.nodes)
	for _, size := range j.sizes {
		share, value, magnitude := 0.0, 0.0, 0.0
		switch {
		case size > 0 && (k == nil || !slices.Contains(k.sizes, size)):
			value = math.Inf(-1)
		case m.totalTime != nil:
			value, magnitude = m.totalTime.value(j.index, j.job, k, size)
			magnitude *= 1 + m.totalTime.terms[j.index].doubt/m.slack
		}
		if size > 0 && k != nil {
			share = min(1, m.work(j.job, k, size, step == 0)/j.demand)
		}
		r.fixed, r.magnitude, r.share = append(r.fixed, value), append(r.magnitude, magnitude), append(r.share, share)
		r.units = append(r.units, int64(math.Ceil(math.Ldexp(share*(1+m.slack), workBits))))
	}
	return r
}

// work returns the work that a job gets done in a step, in the first one after its restart, to
// OBJECTIVE_PROGRESS at most a third of it, or beside its rescale delay.
func (m *model) work(j *job, k *kind, size int, first bool) float64 {
	moves, restart := j.moveTo(k.on)
	wait, meanwhile := 0.0, 0.0
	switch {
	case first && (moves || size != j.current) && j.trained && restart > 0:
		if wait = restart; m.totalTime == nil {
			wait = min(wait, m.step/3)
		}
	case first && (moves || size > j.current):
		wait, meanwhile = j.delay, j.here.speed(j.here.used(j.current))
	}
	wait = min(wait, m.step)
	return wait*meanwhile + (m.step-wait)*k.speed(float64(size))
}

// most returns at least what any plan of a job is worth, and finds out whether it is byStep.
func (j *member) most(m *model) float64 {
	first, later, most := 0.0, 0.0, 0.0
	for t, r := range j.rows {
		for _, n := range j.usable[t] {
			if t == 0 {
				first = max(first, r.share[n])
			} else {
				later = max(later, r.share[n])
			}
			most = max(most, r.fixed[n]+m.slack*r.magnitude[n])
		}
	}
	j.byStep = !m.several() && first+float64(m.steps-1)*later <= 1
	for t := range m.steps {
		most += j.worth * min(1, first+float64(t)*later)
	}
	return most
}

// up returns a value in units, at least it; magnitude is what it was added up from.
func (m *model) up(v, magnitude float64) int64 {
	return int64(math.Ceil(math.Ldexp(v+m.slack*magnitude, m.unit)))
}

// shortage returns the nodes below its floor of a group that holds some.
func (m *model) shortage(g, nodes int) int { return max(0, m.floors[g]-nodes) }

// shortCost returns what a shortage of a group costs more than that which it is compared with, in
// units, at most that.
func (m *model) shortCost(g, nodes int) int64 {
	cost := m.quotaPrice * float64(m.shortage(g, nodes)-m.short[g])
	cost = math.Floor(math.Ldexp(cost-m.slack*math.Abs(cost), m.unit))
	return int64(min(cost, -never)) // More than that is too much, too.
}

// serve returns the work served after a step with the n-th size.
func (j *member) serve(served int64, t, n int) int64 { return min(done, served+j.rows[t].units[n]) }

// gain returns what a step adds that ends with so much work served, rounded up.
func (j *member) gain(served int64) int64 {
	high, low := bits.Mul64(uint64(j.full), uint64(served))
	low, carry := bits.Add64(low, 1<<workBits-1, 0)
	return int64((high+carry)<<(64-workBits) | low>>workBits)
}

// stepValue returns what the n-th size in a row is worth of a job that is worth what it is
// row by row, rounded up.
func (m *model) stepValue(j *member, t, n int) int64 {
	r := j.rows[t]
	v := float64(m.steps-t) * j.worth * r.share[n] // With several types it is worth nothing.
	return m.up(v+r.fixed[n], v+r.magnitude[n])
}

// value returns what a plan is worth to a job, the magnitude that it is added up from, and the
// share of its demand served by the end of each step. A size that is none of the job's, which
// is 0 of a plan without a search, is worth nothing.
func (m *model) value(j *member, nodes []int) (v, magnitude float64, progress []float64) {
	share, first := 0.0, 0
	if m.several() { // What counts is the type that it has nodes of.
		first = max(0, slices.IndexFunc(nodes, func(k int) bool { return k > 0 }))
		nodes = nodes[first : first+1]
	}
	for t, k := range nodes {
		if n := slices.Index(j.sizes, k); n >= 0 && (k > 0 || j.waits) {
			r := j.rows[first+t]
			share = min(1, share+r.share[n])
			v, magnitude = v+r.fixed[n], magnitude+r.magnitude[n]
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
		v, of, _ := m.value(&m.members[i], plan[i])
		sum, magnitude = sum+v, magnitude+of
	}
	for g, nodes := range m.groupNodes(plan, 0) {
		short := m.quotaPrice * float64(m.shortage(g, nodes)-m.short[g])
		sum, magnitude = sum-short, magnitude+math.Abs(short)
	}
	loss := m.slack*magnitude + leastWorth
	return sum + loss, sum - loss
}

// relate has every plan be worth what it is worth more than one: rounding is then that of what
// they differ in, however much that plan is the sum of.
func (m *model) relate(plan [][]int) {
	for g, nodes := range m.groupNodes(plan, 0) {
		m.short[g] = m.shortage(g, nodes)
	}
	for i, nodes := range plan {
		j := &m.members[i]
		v, magnitude, _ := m.value(j, nodes)
		for t, r := range j.rows {
			for n, k := range j.sizes {
				r.fixed[n], r.magnitude[n] = r.fixed[n]-v, r.magnitude[n]+magnitude
				if k == nodes[t] && k == slices.Max(nodes) {
					r.fixed[n], r.magnitude[n] = 0, 0
				}
			}
		}
	}
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

// legal returns what is illegal in the first rows of a plan. One that was made without a
// search may leave any queued job without nodes.
func (m *model) legal(plan [][]int, rows int, heuristic bool) error {
	for i, nodes := range plan {
		j, held := &m.members[i], 0
		waits := j.waits || heuristic && j.current == 0
		for t, k := range nodes[:rows] {
			n := slices.Index(j.sizes, k)
			if held += k; (k != 0 || !waits && !m.several()) && (n < 0 || math.IsInf(j.rows[t].fixed[n], -1)) {
				return fmt.Errorf("job %q has %d nodes in %s, which is none of its sizes %v", j.id, k, m.name(t), j.sizes)
			}
		}
		if m.several() && (held != slices.Max(nodes) || held == 0 && !waits) {
			return fmt.Errorf("job %q has the nodes %v of each type; want those of one", j.id, nodes)
		}
	}
	for t := range rows {
		used := 0
		for i := range plan {
			used += plan[i][t]
		}
		if used > m.capacity[t] {
			return fmt.Errorf("the jobs have %d nodes in %s; the pool has %d", used, m.name(t), m.capacity[t])
		}
		for g, nodes := range m.groupNodes(plan, t) {
			if limit := m.groups[g].limit; nodes > limit {
				return fmt.Errorf("group %q has %d nodes in %s; its limit is %d", m.groups[g].id, nodes, m.name(t), limit)
			}
		}
	}
	return nil
}

// name names a row.
func (m *model) name(t int) string {
	if m.several() {
		return fmt.Sprintf("type %q", m.types[t].id)
	}
	return fmt.Sprintf("step %d", t+1)
}
