package audit

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// model is the problem after the admission, in integers. Work is in units of 2^-50 of a job's
// remaining work. A value v is v 2^valueExp units, so that the sum of the values of all plans, the
// claim and the cost of the pool, unless that is far larger, is at most 2^55 units. Both are rounded
// up, and raised by relativeError, so that a sum is an upper bound of the exact value.
//
// A plan has the nodes of every member in every row. A row is a node type in a step, or a size limit. If
// there are several node types or size limits, rows are coupled: there is one step, and a member has an
// option, a number of nodes of one type, which counts in the row of the type and of some limits.
type model struct {
	*snapshot
	capacity      []int        // of each row: first of the types in each step, then of size limits
	rowLimits     []*sizeLimit // of each row after the rows of the types
	groupRows     []groupRow   // of each row after those of size limits
	limitRows     []int        // row of each size limit, or of a row that implies it; -1 if it cannot bind
	members       []member
	floors        []int   // of each group: the nodes below which it has a shortage
	baseShortage  []int   // of each group, in the plan with which others are compared
	quotaPrice    float64 // of one node of shortage
	relativeError float64 // upper bound of the relative error of all numbers computed from the request
	claim         float64 // magnitude of the objective and of the bound that the report claims
	poolCost      float64 // at the prices of the report
	independent   float64 // upper bound of the value if each job has the pool to itself
	valueExp      int
}

// member is a job that the admission does not exclude.
type member struct {
	*job
	index   int  // in the request
	canWait bool // it may have no nodes
	// sizes are the sizes of all rows, ascending. They include 0 if the member may have no nodes in a row.
	sizes []int
	rows  []*sizeValues // by row, except the rows of size limits
	// usable are the positions of the sizes that a plan can have, by row.
	usable [][]int
	// separable means that the value of a plan is the sum of the values of its steps, because the
	// job cannot finish, or because the value is negligible compared with the claim.
	separable       bool
	completionValue float64 // in each step after all its work is done
	completionUnits int64   // completionValue in units
}

// sizeValues are the work and the value of each size of a member in a row.
type sizeValues struct {
	fraction         []float64 // of the remaining work that is done
	work             []int64   // fraction in units
	value, magnitude []float64 // in addition to the value of completion; sum of the magnitudes of its terms
}

const (
	workBits  = 50
	allWork   = int64(1) << workBits // the remaining work of a job
	valueBits = 55
	// underflow is more than products lose that are too small for floating-point numbers.
	underflow = 1e-300
)

// newModel returns the model of the jobs that the admission does not exclude.
func newModel(s *snapshot, claim float64, report *elastallocv1.SolveReport, b *budget) (*model, error) {
	m := &model{
		snapshot: s, capacity: slices.Repeat(s.nodes, s.steps), claim: claim, relativeError: 0x1p-41 + 0x1p-52*float64(len(s.jobs)),
		floors: make([]int, len(s.groups)), baseShortage: make([]int, len(s.groups)),
	}
	if s.totalTime != nil {
		m.quotaPrice = s.totalTime.quotaPrice
		if err := s.totalTime.prepare(s, b); err != nil {
			return nil, err
		}
	}
	classes, err := s.admit()
	if err != nil {
		return nil, err
	}
	spare := slices.Clone(m.capacity)
	m.addLimitRows(classes, b)
	// What the smallest sizes of all members leave of each row, and of the limit of each group.
	groupSpare := make([]int, len(s.groups))
	for g := range s.groups {
		groupSpare[g] = s.groups[g].limit
	}
	for i, class := range classes {
		if class == excluded {
			continue
		}
		j := m.newMember(i, class)
		for t := range spare {
			spare[t] -= j.sizes[0]
		}
		for g := range m.withAncestors(j.group) {
			groupSpare[g] -= j.sizes[0]
		}
		m.members = append(m.members, j)
	}
	m.setFloors(classes)
	m.addGroupRows()
	for t, price := range m.rowPrices(report) {
		if price > 0 {
			m.poolCost += min(price, math.MaxFloat64) * float64(m.capacity[t])
		}
	}
	for i := range m.members {
		m.members[i].addRows(m, spare, groupSpare)
	}
	if !m.setUnit() {
		return nil, leaveOpen("the values of the jobs are too large for the check")
	}
	return m, nil
}

// setUnit sets the unit of values from the usable sizes. It returns false if there is none.
func (m *model) setUnit() bool {
	negligible := Tolerance / 2 * m.claim
	m.independent = 0
	for i := range m.members {
		j := &m.members[i]
		m.independent += j.upperBound(m)
		// The sum over steps may exceed the value of a plan by so much.
		if excess := j.completionValue * float64(m.steps*m.steps); !m.coupled() && excess <= negligible {
			negligible -= excess
			j.separable = true
		}
	}
	for _, short := range m.baseShortage {
		m.independent += m.quotaPrice * float64(short)
	}
	total := m.claim + m.independent
	_, exponent := math.Frexp(max(total+min(m.poolCost, 64*total), math.SmallestNonzeroFloat64))
	m.valueExp = valueBits - exponent
	for i := range m.members {
		j := &m.members[i]
		j.completionUnits = m.toUnits(j.completionValue, j.completionValue)
		for t, r := range j.rows {
			// A size that costs more than all other jobs gain is in no plan as good as the claim.
			j.usable[t] = slices.DeleteFunc(j.usable[t], func(n int) bool { return r.value[n]+m.relativeError*r.magnitude[n] < -2*total })
		}
	}
	return 65*total <= math.MaxFloat64 // The cost of the pool counts with at most 64 of them.
}

// newMember returns job i of the request, without rows.
func (m *model) newMember(i int, class admissionClass) member {
	j := member{job: &m.jobs[i], index: i, canWait: class == optional}
	if j.cannotGrow {
		j.job = j.withoutGrowth()
	}
	if j.canWait || m.coupled() {
		j.sizes = []int{0}
	}
	for _, p := range j.profiles {
		j.sizes = append(j.sizes, p.sizes...)
	}
	slices.Sort(j.sizes)
	j.sizes = slices.Compact(j.sizes)
	if m.totalTime == nil {
		j.completionValue = j.weight
	}
	return j
}

// setFloors sets the floor of each group: its quota, but at most the sum of the largest sizes of its members, and the
// nodes of the types that these can use. Members count that must get nodes, or that fit within all limits.
func (m *model) setFloors(classes []admissionClass) {
	types := make([][]bool, len(m.groups)) // that the members of each group can use
	for g := range types {
		types[g] = make([]bool, len(m.nodes))
	}
	for i := range m.members {
		j := &m.members[i]
		of := m.reachOf(j)
		if classes[j.index] != required && !of.fits {
			continue
		}
		for g := range m.withAncestors(j.group) {
			m.floors[g] = min(m.floors[g]+of.largest, m.groups[g].quota)
			for on, used := range of.types {
				types[g][on] = types[g][on] || used
			}
		}
	}
	for g := range m.floors {
		nodes := 0
		for on, used := range types[g] {
			if used {
				nodes += m.nodes[on]
			}
		}
		m.floors[g] = min(m.floors[g], nodes)
	}
}

// reach is what a member can use alone.
type reach struct {
	largest int    // size that fits the pool and all size limits
	types   []bool // on which some size fits the pool and all size limits
	fits    bool   // some size fits the pool and the limits of all groups of the member
}

// reachOf returns what a member can use.
func (m *model) reachOf(j *member) reach {
	r := reach{types: make([]bool, len(m.nodes))}
	for _, p := range j.profiles {
		for _, k := range p.sizes {
			if m.fitsPool(j.job, p.nodeType, k) {
				r.largest, r.types[p.nodeType] = max(r.largest, k), true
				r.fits = r.fits || m.fitsGroups(j.job, p.nodeType, k)
			}
		}
	}
	return r
}

// fitsPool reports whether some nodes of a type fit the pool and all size limits, with a row or without.
func (m *model) fitsPool(j *job, nodeType, nodes int) bool {
	for n := range m.limits {
		if m.limits[n].usage(j, nodeType, nodes) > m.limits[n].available {
			return false
		}
	}
	return nodes <= m.nodes[nodeType]
}

// fitsGroups reports whether some nodes of a type fit the limits of all groups of a job.
func (m *model) fitsGroups(j *job, nodeType, nodes int) bool {
	for g := range m.withAncestors(j.group) {
		if nodes > min(m.groups[g].limit, m.groups[g].limitOn(nodeType)) {
			return false
		}
	}
	return true
}

// addRows computes the values of the sizes of a member, and which sizes fit in addition to the
// smallest sizes of all other members. The smallest sizes of all members leave spare nodes in each
// row, and groupSpare nodes of the limits of the groups.
func (j *member) addRows(m *model, spare, groupSpare []int) {
	for t, left := range spare {
		if t > 1 && !m.coupled() { // All steps after the first are alike.
			j.rows = append(j.rows, j.rows[1])
		} else {
			j.rows = append(j.rows, m.newSizeValues(j, t))
		}
		for g := range m.withAncestors(j.group) {
			if left = min(left, groupSpare[g]); m.multipleTypes() {
				left = min(left, m.groups[g].limitOn(t))
			}
		}
		usable := []int{0}
		for n := 1; n < len(j.sizes) && j.sizes[n]-j.sizes[0] <= left; n++ {
			if m.fitsLimits(j.job, t, j.sizes[n]) {
				usable = append(usable, n)
			}
		}
		j.usable = append(j.usable, usable)
	}
	for t := len(m.nodes) * m.steps; t < len(m.capacity); t++ {
		usable := []int{0}
		for n := 1; n < len(j.sizes); n++ {
			if slices.ContainsFunc(j.profiles, func(p *profile) bool {
				return slices.Contains(j.usable[p.nodeType], n) && m.usageIn(t, j.job, p.nodeType, j.sizes[n]) > 0
			}) {
				usable = append(usable, n)
			}
		}
		j.usable = append(j.usable, usable)
	}
}

// newSizeValues returns the work and the values of the sizes of a member in a row. The value of a
// size that is not legal there is minus infinity.
func (m *model) newSizeValues(j *member, t int) *sizeValues {
	r, p, step := new(sizeValues), j.profileOn(t%len(m.nodes)), t/len(m.nodes)
	for _, size := range j.sizes {
		fraction, value, magnitude := 0.0, 0.0, 0.0
		switch {
		case size > 0 && (p == nil || !slices.Contains(p.sizes, size)):
			value = math.Inf(-1)
		case m.totalTime != nil:
			value, magnitude = m.totalTime.value(j.index, j.job, p, size)
			magnitude *= 1 + m.totalTime.terms[j.index].doubt/m.relativeError
		}
		if size > 0 && p != nil {
			fraction = min(1, m.workDone(j.job, p, size, step == 0)/j.remainingWork)
		}
		r.value, r.magnitude, r.fraction = append(r.value, value), append(r.magnitude, magnitude), append(r.fraction, fraction)
		r.work = append(r.work, int64(math.Ceil(math.Ldexp(fraction*(1+m.relativeError), workBits))))
	}
	return r
}

// workDone returns the work that a job completes in a step. In the first step, a restart takes its
// time, under OBJECTIVE_PROGRESS at most a third of the step. During the resize_delay, the job trains
// on its current nodes.
func (m *model) workDone(j *job, p *profile, size int, first bool) float64 {
	moves, restart := j.restartOn(p.nodeType)
	delay, meanwhile := 0.0, 0.0
	switch {
	case first && (moves || size != j.currentNodes) && j.trained && restart > 0:
		if delay = restart; m.totalTime == nil {
			delay = min(delay, m.step/3)
		}
	case first && (moves || size > j.currentNodes):
		delay, meanwhile = j.resizeDelay, j.current.speed(j.current.usableNodes(j.currentNodes))
	}
	delay = min(delay, m.step)
	return delay*meanwhile + (m.step-delay)*p.speed(float64(size))
}

// upperBound returns an upper bound of the value of any plan of a member. It sets separable if the
// member cannot finish.
func (j *member) upperBound(m *model) float64 {
	first, later, largest := 0.0, 0.0, 0.0
	for t, r := range j.rows {
		for _, n := range j.usable[t] {
			if t == 0 {
				first = max(first, r.fraction[n])
			} else {
				later = max(later, r.fraction[n])
			}
			largest = max(largest, r.value[n]+m.relativeError*r.magnitude[n])
		}
	}
	j.separable = !m.coupled() && first+float64(m.steps-1)*later <= 1
	for t := range m.steps {
		largest += j.completionValue * min(1, first+float64(t)*later)
	}
	return largest
}

// toUnits returns a value in units, rounded up; magnitude is the sum of the magnitudes of its terms.
func (m *model) toUnits(v, magnitude float64) int64 {
	return int64(math.Ceil(math.Ldexp(v+m.relativeError*magnitude, m.valueExp)))
}

// shortage returns by how many nodes a group with some nodes is below its floor.
func (m *model) shortage(g, nodes int) int { return max(0, m.floors[g]-nodes) }

// shortageCost returns the cost of the shortage of a group in units, minus that in the base plan,
// rounded down.
func (m *model) shortageCost(g, nodes int) int64 {
	cost := m.quotaPrice * float64(m.shortage(g, nodes)-m.baseShortage[g])
	cost = math.Floor(math.Ldexp(cost-m.relativeError*math.Abs(cost), m.valueExp))
	return int64(min(cost, -infeasible)) // A larger cost rules a plan out, too.
}

// workAfter returns the work done after a step with the n-th size, from the work done before.
func (j *member) workAfter(before int64, t, n int) int64 {
	return min(allWork, before+j.rows[t].work[n])
}

// completionGain returns the value of a step after which so much work is done, rounded up.
func (j *member) completionGain(work int64) int64 {
	high, low := bits.Mul64(uint64(j.completionUnits), uint64(work))
	low, carry := bits.Add64(low, 1<<workBits-1, 0)
	return int64((high+carry)<<(64-workBits) | low>>workBits)
}

// rowValue returns the value of the n-th size in a row for a member whose value is a sum over rows,
// rounded up.
func (m *model) rowValue(j *member, t, n int) int64 {
	r := j.rows[t]
	v := float64(m.steps-t) * j.completionValue * r.fraction[n] // 0 if there are several types.
	return m.toUnits(v+r.value[n], v+r.magnitude[n])
}

// value returns the value of a plan for a member, the sum of the magnitudes of its terms, and the
// fraction of the remaining work that is done by the end of each step. A size that the member does
// not have, which is 0 in a plan that was made without a search, has the value 0.
func (m *model) value(j *member, nodes []int) (v, magnitude float64, progress []float64) {
	done, first := 0.0, 0
	if m.coupled() { // The type on which it has nodes determines the value.
		first = max(0, slices.IndexFunc(nodes[:len(m.nodes)], func(k int) bool { return k > 0 }))
		nodes = nodes[first : first+1]
	}
	for t, k := range nodes {
		if n := slices.Index(j.sizes, k); n >= 0 && (k > 0 || j.canWait) {
			r := j.rows[first+t]
			done = min(1, done+r.fraction[n])
			v, magnitude = v+r.value[n], magnitude+r.magnitude[n]
		}
		v, magnitude = v+j.completionValue*done, magnitude+j.completionValue*done
		progress = append(progress, done)
	}
	return v, magnitude, progress
}

// objective returns bounds of the value of a plan.
func (m *model) objective(plan [][]int) (upper, lower float64) {
	sum, magnitude := 0.0, 0.0
	for i := range m.members {
		v, of, _ := m.value(&m.members[i], plan[i])
		sum, magnitude = sum+v, magnitude+of
	}
	for g, nodes := range m.groupNodes(plan) {
		cost := m.quotaPrice * float64(m.shortage(g, nodes)-m.baseShortage[g])
		sum, magnitude = sum-cost, magnitude+math.Abs(cost)
	}
	loss := m.relativeError*magnitude + underflow
	return sum + loss, sum - loss
}

// rebase subtracts the value of a base plan from the values of all plans. Rounding errors are then
// relative to the differences between plans, however large the terms of the base plan are.
func (m *model) rebase(plan [][]int) {
	for g, nodes := range m.groupNodes(plan) {
		m.baseShortage[g] = m.shortage(g, nodes)
	}
	for i, nodes := range plan {
		j := &m.members[i]
		v, magnitude, _ := m.value(j, nodes)
		for t, r := range j.rows {
			for n, k := range j.sizes {
				r.value[n], r.magnitude[n] = r.value[n]-v, r.magnitude[n]+magnitude
				if k == nodes[t] && k == slices.Max(nodes) {
					r.value[n], r.magnitude[n] = 0, 0
				}
			}
		}
	}
}

// groupNodes returns the nodes of every group in the first step: of all types, or of one type.
func (m *model) groupNodes(plan [][]int, types ...int) []int {
	nodes := make([]int, len(m.groups))
	for i := range plan {
		for g := range m.withAncestors(m.members[i].group) {
			for on := range m.nodes {
				if len(types) == 0 || slices.Contains(types, on) {
					nodes[g] += plan[i][on]
				}
			}
		}
	}
	return nodes
}

// checkLegal returns an error if the first rows of a plan are not legal. A plan that was made
// without a search can leave any queued job without nodes.
func (m *model) checkLegal(plan [][]int, rows int, heuristic bool) error {
	used := make([]int, len(m.limits))
	for i, nodes := range plan {
		j := &m.members[i]
		canWait := j.canWait || heuristic && j.currentNodes == 0
		total, err := m.checkSizes(j, nodes[:min(rows, len(j.rows))], canWait)
		if err != nil {
			return err
		}
		nodeType := max(0, slices.Index(nodes[:min(rows, len(m.nodes))], total))
		if m.coupled() && (!slices.Equal(nodes, m.usageByRow(j.job, nodeType, total)) || total == 0 && !canWait) {
			return fmt.Errorf("job %q has %v nodes by type and size limit; must have nodes of one type", j.id, nodes)
		}
		for n := range m.limits {
			used[n] += m.limits[n].usage(j.job, nodeType, total)
		}
	}
	for n, nodes := range used {
		if l := m.limits[n]; nodes > l.available {
			return fmt.Errorf("the jobs with pieces of at least %d nodes have %d nodes; the size limit is %d", l.size, nodes, l.available)
		}
	}
	for t := range rows {
		used := 0
		for i := range plan {
			used += plan[i][t]
		}
		if used > m.capacity[t] {
			return fmt.Errorf("the jobs have %d nodes in %s; the pool has %d", used, m.rowName(t), m.capacity[t])
		}
	}
	return m.checkGroupLimits(plan)
}

// checkSizes returns the sum of the nodes of a member, or an error if its nodes in some row are none of its
// sizes. A row without nodes is legal if the member can wait or if the rows are coupled.
func (m *model) checkSizes(j *member, nodes []int, canWait bool) (total int, err error) {
	for t, k := range nodes {
		total += k
		if k == 0 && (canWait || m.coupled()) {
			continue
		}
		n := slices.Index(j.sizes, k)
		if n < 0 || math.IsInf(j.rows[t].value[n], -1) {
			return 0, fmt.Errorf("job %q has %d nodes in %s, which is none of its sizes %v", j.id, k, m.rowName(t), j.sizes)
		}
	}
	return total, nil
}

// checkGroupLimits returns an error if a plan exceeds the limit of a group in the first step.
func (m *model) checkGroupLimits(plan [][]int) error {
	for g, nodes := range m.groupNodes(plan) {
		of := &m.groups[g]
		if nodes > of.limit {
			return fmt.Errorf("group %q has %d nodes; its limit is %d", of.id, nodes, of.limit)
		}
		for _, l := range of.typeLimits {
			if nodes := m.groupNodes(plan, l.nodeType)[g]; nodes > l.available {
				return fmt.Errorf("group %q has %d nodes of type %q; its limit is %d", of.id, nodes, m.types[l.nodeType].id, l.available)
			}
		}
	}
	return nil
}

// rowName returns the name of a row in messages.
func (m *model) rowName(t int) string {
	if n := t - len(m.nodes)*m.steps - len(m.rowLimits); n >= 0 {
		return fmt.Sprintf("group %q", m.groups[m.groupRows[n].group].id)
	}
	if t >= len(m.nodes)*m.steps {
		return fmt.Sprintf("pieces of at least %d nodes", m.rowLimits[t-len(m.nodes)].size)
	}
	if m.multipleTypes() {
		return fmt.Sprintf("type %q", m.types[t].id)
	}
	return fmt.Sprintf("step %d", t+1)
}
