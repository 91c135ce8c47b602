package rows

import (
	"cmp"
	"math"
	"slices"
)

// The core problem with groups.
//
// Jobs are in the order of the tree, so that the jobs of each window are consecutive. The remaining loss of a leaf
// group is known exactly by its excess nodes, from a table. What an option loses beyond this table is divided among
// the other rows and windows that it changes, each of which has tails, as in the core search without groups.

// treeOption is an option relative to the best one of the job.
type treeOption struct {
	Allocation
	option int32
	// rows is the number of priced rows, other than the leaf group, in which the job then has more or fewer nodes.
	rows int32
	tie  tie
	loss float64
	// reduced is the smallest loss of the option beyond the table of its leaf group.
	reduced float64
}

// treeJob is a job with several options: the best one, and then the others by increasing loss.
type treeJob struct {
	job, leaf int // leaf is a position in tree.leaves
	options   []treeOption
}

// treeLeaf is a leaf group whose jobs have alternatives.
type treeLeaf struct {
	group int
	// row is the row of its window with a table (search.tables), -1 if it has none. Its excess is then always 0.
	row, coordinate int
	from, to        int // its jobs in tree.jobs
	// after has the smallest remaining losses before each job and after the last, and before has the smallest
	// losses that lead there, both by excess nodes.
	after, before []tail
	min           float64
	// rows are the rows and windows that are open during its jobs, other than its own.
	rows []*treeRow
}

// treeRow is a row, or a window other than the one with the table of a leaf group.
type treeRow struct {
	row, coordinate int
	from, to        int // the jobs that it counts are among these
	// priced reports whether options lose at its price.
	priced bool
	tails  []tail // before each of its jobs, and after the last
	// rises are the largest numbers of nodes by which the remaining jobs raise its excess. They are nil if
	// the row loses nothing within its limit.
	rises []int
}

// tree searches for choices that lose less than limit.
type tree struct {
	*search
	*relaxation
	limit float64
	// tolerance is the difference up to which losses count as equal.
	tolerance float64
	// spare are the nodes of each row and window that the best options leave free; it may be negative.
	spare  []int
	jobs   []treeJob
	leaves []treeLeaf
	rows   []*treeRow
	// fixed is the loss of the groups in which all jobs have their best options.
	fixed float64
	// later has the smallest losses, by job, of the leaf groups and windows after the leaf group of the job.
	later []float64
	// root is a lower bound on the loss of every choice.
	root  float64
	joint jointTables
	cells int

	current, next    beam
	excess           []int32 // scratch: excess nodes of a new state
	links            []link
	dropped, minLoss float64
	tie              tie
	bestLink         int32
}

// newTree prepares the search for all choices that lose less than limit, with the options that lose less than
// most. It returns nil if the problem is too large or the deadline has passed. With guided, the joint
// tables are estimates and not bounds.
func (s *search) newTree(r *relaxation, limit, most float64, guided bool) *tree {
	c := &tree{search: s, relaxation: r, limit: limit, tolerance: s.tolerance() + 0x1p-48*limit, joint: jointTables{guided: guided}}
	if s.clock.Add(len(s.Jobs) + len(r.others)) {
		return nil
	}
	choice := make([]int, len(s.Jobs))
	for i, n := range r.best {
		choice[i] = int(n)
	}
	c.spare = s.free(choice)
	inner := make([]bool, len(s.Groups))
	for g := range s.Groups {
		if up := s.Groups[g].Parent; up >= 0 {
			inner[up] = true
		}
	}
	byLeaf := c.alternatives(min(limit, most))
	if !c.addLeaves(byLeaf, inner) {
		return nil
	}
	if c.root >= limit {
		return c.orNil()
	}
	c.addRows(inner)
	c.countRows()
	if !c.makeTails() {
		return nil
	}
	c.makeJoint()
	c.root = c.fixed + c.rest(0)
	return c.orNil()
}

// orNil returns nil if the deadline has passed.
func (c *tree) orNil() *tree {
	if c.clock.Expired {
		return nil
	}
	return c
}

// alternatives returns the jobs of each leaf group that have options with a loss below most.
func (c *tree) alternatives(most float64) [][]treeJob {
	byLeaf, at := make([][]treeJob, len(c.Groups)), make([]int, len(c.Jobs)) // at is counted from 1
	for _, o := range c.others {
		if o.loss >= most {
			break
		}
		i, best, leaf := int(o.job), int(c.best[o.job]), c.GroupOf[o.job]
		if at[i] == 0 {
			byLeaf[leaf] = append(byLeaf[leaf], treeJob{
				job: i, options: []treeOption{{Allocation: c.Jobs[i][best].Allocation, option: int32(best)}},
			})
			at[i] = len(byLeaf[leaf])
		}
		j, to := &byLeaf[leaf][at[i]-1], c.Jobs[i][o.option].Allocation
		j.options = append(j.options, treeOption{
			Allocation: to, option: o.option, loss: o.loss, tie: c.search.tie(i, to).minus(c.search.tie(i, j.options[0].Allocation)),
		})
	}
	for g := range byLeaf {
		slices.Reverse(byLeaf[g]) // The jobs with the smallest losses are the last ones.
	}
	return byLeaf
}

// addLeaves adds the leaf groups and their jobs without the options that lose too much within their groups, and
// sets root. It returns false if the tables are too large or the deadline has passed.
func (c *tree) addLeaves(byLeaf [][]treeJob, inner []bool) bool {
	var lists [][]treeJob
	for _, g := range c.leafOrder(byLeaf, inner) {
		l := treeLeaf{group: g, row: c.tables[g]}
		if len(byLeaf[g]) == 0 {
			if l.row >= 0 {
				c.fixed += c.lossAt(l.row, 0)
			}
			continue
		}
		if !c.makeTables(&l, byLeaf[g]) {
			return false
		}
		c.root += l.min
		c.leaves, lists = append(c.leaves, l), append(lists, byLeaf[g])
	}
	c.root += c.fixed
	for range leafRounds {
		for n := range c.leaves {
			if c.root >= c.limit {
				return true
			}
			l := &c.leaves[n]
			others := c.root - l.min
			if lists[n] = c.eliminate(l, lists[n], c.limit-others); !c.makeTables(l, lists[n]) {
				return false
			}
			c.root = others + l.min
		}
	}
	if c.root >= c.limit {
		return true
	}
	kept := c.leaves[:0]
	for n, l := range c.leaves {
		if len(lists[n]) == 0 {
			c.fixed += l.min
			continue
		}
		for m := range lists[n] {
			lists[n][m].leaf = len(kept)
		}
		c.reduceLosses(&l, lists[n], c.limit-(c.root-l.min))
		l.from = len(c.jobs)
		c.jobs = append(c.jobs, lists[n]...)
		l.to = len(c.jobs)
		kept = append(kept, l)
	}
	c.leaves = kept
	return true
}

// leafRounds is the number of times that options are removed from leaf groups. Each makes the tables of
// the others more precise.
const leafRounds = 2

// leafOrder returns the leaf groups in an order of the tree, those with many alternatives last.
func (c *tree) leafOrder(byLeaf [][]treeJob, inner []bool) (order []int) {
	weight, children := make([]int, len(c.Groups)), make([][]int, len(c.Groups)+1)
	for g := range byLeaf {
		alternatives := 0
		for m := range byLeaf[g] {
			alternatives += len(byLeaf[g][m].options) - 1
		}
		for up := g; up >= 0; up = c.Groups[up].Parent {
			weight[up] += alternatives
		}
		children[c.Groups[g].Parent+1] = append(children[c.Groups[g].Parent+1], g)
	}
	var visit func(of []int)
	visit = func(of []int) {
		slices.SortFunc(of, func(a, b int) int { return cmp.Or(cmp.Compare(weight[a], weight[b]), cmp.Compare(a, b)) })
		for _, g := range of {
			if !inner[g] {
				order = append(order, g)
			}
			visit(children[g+1])
		}
	}
	visit(children[0])
	return order
}

// chooseTables chooses the window of each leaf group for its table: the one of all nodes, but if its price is at the end
// of its range or 0, so that neither its limit nor its floor matters, the limited type with the largest price.
func (s *search) chooseTables(prices []float64) {
	rows := len(s.Capacity)
	s.tables = make([]int, len(s.Groups))
	for g := range s.tables {
		s.tables[g] = -1
		var most float64
		for _, n := range s.windows.windowsOf[g] {
			w, price := &s.windows.windows[n], prices[rows+n]
			switch {
			case w.group != g:
			case w.nodeType == allTypes:
				s.tables[g] = rows + n
				if price < 0 && price > -s.QuotaPrice*(1-0x1p-20) || price > 0 {
					most = math.Inf(1)
				}
			case price > most:
				s.tables[g], most = rows+n, price
			}
		}
	}
}

// lossAt returns the loss of a row or window by its excess nodes.
func (c *tree) lossAt(row, excess int) float64 {
	left := c.spare[row] - excess
	switch rows := len(c.Capacity); {
	case left < 0:
		return math.Inf(1)
	case row < rows:
		return c.prices[row] * float64(left)
	default:
		w := &c.windows.windows[row-rows]
		return w.loss(c.prices[row], c.QuotaPrice, w.limit-left)
	}
}

// lossRange returns a range of excess nodes of a row or window outside of which it loses at least the limit.
func (c *tree) lossRange(row int) (low, high int) {
	low, high = math.MinInt32, c.spare[row]
	// within raises low, or lowers high, to where the loss at a price per node from the given excess is the limit.
	within := func(price float64, from, direction int) {
		if reach := c.limit / price; price > 0 && reach < 1<<30 {
			if to := from + direction*(int(reach)+1); direction < 0 {
				low = max(low, to)
			} else {
				high = min(high, to)
			}
		}
	}
	price, rows := c.prices[row], len(c.Capacity)
	within(price, high, -1)
	if row >= rows {
		w := &c.windows.windows[row-rows]
		if floor := c.spare[row] - w.limit + w.floor; w.floor > 0 {
			within(c.QuotaPrice+min(0, price), floor, -1)
			within(-price, floor, 1)
		}
	}
	return low, high
}

// change returns the change of the excess nodes of a row or window by an option.
func (c *tree) change(j *treeJob, o *treeOption, row int) int {
	if rows := len(c.Capacity); row >= rows {
		w := &c.windows.windows[row-rows]
		return w.nodesOf(&o.Allocation) - w.nodesOf(&j.options[0].Allocation)
	}
	return c.nodesIn(&o.Allocation, row) - c.nodesIn(&j.options[0].Allocation, row)
}

// excessOf returns the change of the excess nodes of a leaf group by an option.
func (c *tree) excessOf(l *treeLeaf, j *treeJob, o *treeOption) int {
	if l.row < 0 {
		return 0
	}
	return c.change(j, o, l.row)
}

// counting returns the change of excess nodes by an option, and the part of its loss that counts.
type counting func(j *treeJob, o *treeOption) (nodes int, loss float64)

// remaining returns the smallest remaining losses of a row or window before each of its jobs and after the last,
// by excess nodes, or nil if they are too large or the deadline has passed. Row -1 loses nothing.
func (c *tree) remaining(jobs []treeJob, row int, count counting) []tail {
	n := len(jobs)
	lows, highs := make([]int, n+1), make([]int, n+1) // range of the excess nodes before a job
	for m := range jobs {
		least, most := 0, 0
		for k := range jobs[m].options {
			nodes, _ := count(&jobs[m], &jobs[m].options[k])
			least, most = min(least, nodes), max(most, nodes)
		}
		lows[m+1], highs[m+1] = lows[m]+least, highs[m]+most
	}
	tails := make([]tail, n+1)
	low, high := lows[n], highs[n]
	if row >= 0 {
		least, most := c.lossRange(row)
		low, high = max(low, least), min(high, most)
	}
	for m := n; ; m-- {
		t := &tails[m]
		t.low, t.below = low, math.Inf(1)
		if !c.allocate(t, high-low+1) {
			return nil
		}
		if m == n {
			for x := range t.at {
				if t.at[x] = 0; row >= 0 {
					t.at[x] = c.lossAt(row, low+x)
				}
			}
		} else {
			for k := range jobs[m].options {
				nodes, loss := count(&jobs[m], &jobs[m].options[k])
				t.lower(&tails[m+1], nodes, loss)
			}
			if c.clock.Add(len(t.at) * len(jobs[m].options)) {
				return nil
			}
			t.trim(c.limit)
		}
		if m == 0 {
			return tails
		}
		low, high = max(lows[m-1], t.low-(highs[m]-highs[m-1])), min(highs[m-1], t.high()-(lows[m]-lows[m-1]))
	}
}

// allocate allocates the values of a tail, all infinite. It returns false if there are too many.
func (c *tree) allocate(t *tail, size int) bool {
	size = max(0, size)
	if c.cells += size; c.cells > c.effort.Cells || c.clock.Add(size) {
		return false
	}
	t.at = make([]float64, size)
	for x := range t.at {
		t.at[x] = math.Inf(1)
	}
	return true
}

// lower lowers a tail to the one after a job, if the job changes the excess by the given nodes at the given loss.
func (t *tail) lower(after *tail, nodes int, loss float64) {
	shift := t.low + nodes - after.low
	for x := max(0, -shift); x < min(len(t.at), len(after.at)-shift); x++ {
		t.at[x] = min(t.at[x], after.at[x+shift]+loss)
	}
}

// trim removes the values at both ends that are at least the limit.
func (t *tail) trim(limit float64) {
	for len(t.at) > 0 && t.at[0] >= limit {
		t.at, t.low = t.at[1:], t.low+1
	}
	for len(t.at) > 0 && t.at[len(t.at)-1] >= limit {
		t.at = t.at[:len(t.at)-1]
	}
}

// makeTables computes the tables of a leaf group. It returns false if they are too large or the deadline has
// passed.
func (c *tree) makeTables(l *treeLeaf, jobs []treeJob) bool {
	l.after = c.remaining(jobs, l.row, func(j *treeJob, o *treeOption) (int, float64) { return c.excessOf(l, j, o), o.loss })
	if l.after == nil {
		return false
	}
	l.min = l.after[0].value(0)
	l.before = make([]tail, len(jobs)+1)
	l.before[0] = tail{at: []float64{0}, below: math.Inf(1)}
	for m := range jobs {
		t, from, low, high := &l.before[m+1], &l.before[m], 0, 0
		for k := range jobs[m].options {
			nodes := c.excessOf(l, &jobs[m], &jobs[m].options[k])
			low, high = min(low, nodes), max(high, nodes)
		}
		next := &l.after[m+1]
		low, high = max(from.low+low, next.low), min(from.high()+high, next.high())
		if t.low, t.below = low, math.Inf(1); !c.allocate(t, high-low+1) {
			return false
		}
		for k := range jobs[m].options {
			o := &jobs[m].options[k]
			t.lower(from, -c.excessOf(l, &jobs[m], o), o.loss)
		}
		if c.clock.Add(len(t.at) * len(jobs[m].options)) {
			return false
		}
	}
	return true
}

// eliminate removes the options with which the leaf group loses at least limit.
func (c *tree) eliminate(l *treeLeaf, jobs []treeJob, limit float64) []treeJob {
	kept := jobs[:0]
	for m, j := range jobs {
		before, after, options := &l.before[m], &l.after[m+1], j.options[:1]
		for k := 1; k < len(j.options); k++ {
			o, least := j.options[k], math.Inf(1)
			shift := before.low + c.excessOf(l, &j, &o)
			for x, loss := range before.at {
				least = min(least, loss+o.loss+after.value(shift+x))
			}
			if least < limit {
				options = append(options, o)
			}
		}
		c.clock.Add(len(before.at) * len(j.options))
		if len(options) > 1 {
			j.options = options
			kept = append(kept, j)
		}
	}
	return kept
}

// reduceLosses sets the reduced losses of the options, for the choices with which the leaf group loses less than
// limit.
func (c *tree) reduceLosses(l *treeLeaf, jobs []treeJob, limit float64) {
	for m := range jobs {
		before, now, after := &l.before[m], &l.after[m], &l.after[m+1]
		for k := range jobs[m].options {
			o := &jobs[m].options[k]
			o.reduced = math.Inf(1)
			shift := before.low + c.excessOf(l, &jobs[m], o)
			for x, loss := range before.at {
				rest := o.loss + after.value(shift+x)
				if loss+rest < limit {
					o.reduced = min(o.reduced, rest-now.value(before.low+x))
				}
			}
			o.reduced = max(0, o.reduced)
		}
		c.clock.Add(len(before.at) * len(jobs[m].options))
	}
}

// addRows adds the rows, and the windows whose jobs have alternatives.
func (c *tree) addRows(inner []bool) {
	rows, coordinates := len(c.Capacity), 0
	coordinate := func() int {
		coordinates++
		return coordinates - 1
	}
	for row := range rows {
		c.rows = append(c.rows, &treeRow{row: row, coordinate: coordinate(), to: len(c.jobs), priced: c.prices[row] > 0})
	}
	// Windows of groups at the same depth are not open at the same time.
	depth := func(g int) (depth int) {
		for ; c.Groups[g].Parent >= 0; g = c.Groups[g].Parent {
			depth++
		}
		return depth
	}
	type key struct{ depth, nodeType int }
	known := map[key]int{}
	shared := func(w *window) int {
		k := key{depth(w.group), w.nodeType}
		at, ok := known[k]
		if !ok {
			at = coordinate()
			known[k] = at
		}
		return at
	}
	byWindow := make([]*treeRow, len(c.windows.windows))
	for n := range c.leaves {
		l := &c.leaves[n]
		l.rows = append(l.rows, c.rows[:rows]...)
		for _, m := range c.windows.windowsOf[l.group] {
			w := &c.windows.windows[m]
			if rows+m == l.row {
				l.coordinate = shared(w)
				continue
			}
			if byWindow[m] == nil {
				byWindow[m] = &treeRow{row: rows + m, coordinate: shared(w), from: l.from, priced: c.prices[rows+m] != 0}
				c.rows = append(c.rows, byWindow[m])
			}
			byWindow[m].to = l.to
			l.rows = append(l.rows, byWindow[m])
		}
	}
	for m := range byWindow {
		// Leaf groups without alternatives are in fixed already.
		if w := &c.windows.windows[m]; byWindow[m] == nil && (inner[w.group] || rows+m != c.tables[w.group]) {
			c.fixed += c.lossAt(rows+m, 0)
		}
	}
	c.excess = make([]int32, coordinates)
	c.current.rows, c.next.rows = coordinates, coordinates
}

// countRows counts the rows with which options share their reduced losses.
func (c *tree) countRows() {
	for n := range c.jobs {
		j := &c.jobs[n]
		for m := range j.options[1:] {
			o := &j.options[1+m]
			o.rows = 0
			for _, t := range c.leaves[j.leaf].rows {
				if t.priced && c.change(j, o, t.row) != 0 {
					o.rows++
				}
			}
		}
	}
}

// makeTails computes the tails of the rows and windows. It returns false if they are too large or the deadline
// has passed.
func (c *tree) makeTails() bool {
	for _, t := range c.rows {
		jobs := c.jobs[t.from:t.to]
		if !t.priced && (t.row < len(c.Capacity) || c.windows.windows[t.row-len(c.Capacity)].floor == 0) {
			c.makeReach(t, jobs)
			continue
		}
		t.tails = c.remaining(jobs, t.row, func(j *treeJob, o *treeOption) (nodes int, loss float64) {
			if nodes = c.change(j, o, t.row); t.priced && nodes != 0 {
				loss = o.reduced / float64(o.rows)
			}
			return nodes, loss
		})
		if t.tails == nil {
			return false
		}
	}
	c.later = make([]float64, len(c.jobs))
	for n := range c.jobs {
		for m := range c.leaves {
			if l := &c.leaves[m]; l.from > n {
				c.later[n] += l.min
			}
		}
		for _, t := range c.rows {
			if t.from > n {
				c.later[n] += t.tails[0].value(0)
			}
		}
		if c.clock.Add(len(c.leaves) + len(c.rows)) {
			return false
		}
	}
	return true
}

// makeReach computes the tails of a row that loses nothing within its limit: they exclude the states that the
// remaining jobs cannot bring within it.
func (c *tree) makeReach(t *treeRow, jobs []treeJob) {
	t.tails, t.rises = make([]tail, len(jobs)+1), make([]int, len(jobs)+1)
	fall := 0
	for n := len(jobs); ; n-- {
		t.tails[n] = tail{low: c.spare[t.row] - fall + 1}
		if n == 0 {
			return
		}
		low, high := 0, 0
		for k := range jobs[n-1].options {
			nodes := c.change(&jobs[n-1], &jobs[n-1].options[k], t.row)
			low, high = min(low, nodes), max(high, nodes)
		}
		fall += low
		t.rises[n-1] = t.rises[n] + high
	}
}
