package audit

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// maxSizeLimits is the maximum number of size limits of a request.
const maxSizeLimits = 64

// sizeLimit bounds the nodes of a type that allocations occupy together in pieces of at least size nodes.
type sizeLimit struct {
	size      int
	typeID    string // as in the request
	nodeType  int    // position
	nodes     int    // as in the request
	available int    // nodes that frozen jobs do not occupy
}

// usage returns how many of some nodes of a job count in the limit.
func (l *sizeLimit) usage(j *job, nodeType, nodes int) int {
	if nodeType != l.nodeType {
		return 0
	}
	return j.inPieces(nodes, l.size)
}

// inPieces returns how many of some nodes of a job lie in pieces of at least the given size. An allocation consists of
// pieces of piece_nodes and the rest, a smaller piece.
func (j *job) inPieces(nodes, size int) (counted int) {
	whole, rest := nodes/j.pieceNodes, nodes%j.pieceNodes
	if j.pieceNodes >= size {
		counted += whole * j.pieceNodes
	}
	if rest >= size {
		counted += rest
	}
	return counted
}

// readSizeLimits reads the size limits. With one node type, node_type can be empty.
func (s *snapshot) readSizeLimits(from *elastallocv1.Snapshot, r reader) {
	limits := from.GetSizeLimits()
	r.require(len(limits) == 0 || s.totalTime != nil, "size_limits", "valid for OBJECTIVE_TOTAL_TIME only")
	r.require(len(limits) <= maxSizeLimits, "size_limits", "too long")
	for i, f := range limits {
		of := r.in(f, "size_limits["+strconv.Itoa(i)+"]")
		l := sizeLimit{
			size: of.count("size", 0, 2), typeID: f.GetNodeType(), nodeType: s.typeIndex(f.GetNodeType()), nodes: of.count("nodes", 0, 0),
		}
		if f.GetNodeType() == "" && !s.multipleTypes() {
			l.nodeType = 0
		}
		of.require(l.size >= 2, "size", l.size)
		of.require(l.nodeType >= 0, "node_type", f.GetNodeType())
		of.require(!slices.ContainsFunc(s.limits, func(other sizeLimit) bool {
			return other.size == l.size && other.nodeType == l.nodeType
		}), "size", "not unique per node_type")
		l.available = l.nodes
		s.limits = append(s.limits, l)
	}
}

// available returns the available nodes of each type, followed by the nodes of each size limit.
func (s *snapshot) available() []int {
	nodes := slices.Clone(s.nodes)
	for _, l := range s.limits {
		nodes = append(nodes, l.available)
	}
	return nodes
}

// count is a number of nodes that count at a position in available.
type count struct{ at, nodes int }

// countedIn returns what some nodes of a job on a node type count: first in the type, then in the size limits.
func (s *snapshot) countedIn(j *job, nodeType, nodes int) []count {
	counted := []count{{nodeType, nodes}}
	for n := range s.limits {
		if usage := s.limits[n].usage(j, nodeType, nodes); usage > 0 {
			counted = append(counted, count{len(s.nodes) + n, usage})
		}
	}
	return counted
}

// addLimitRows adds a row for each size limit that can bind and that no other row implies.
//
// A limit that all jobs together cannot reach never binds. Of two limits of a type, the one of the
// smaller size counts all allocations that the other one counts. It implies the other one unless it has
// more nodes. If both count the same allocations, one row with the smaller number of nodes is enough. The
// capacity of the type is the limit of size 1.
func (m *model) addLimitRows(classes []admissionClass, b *budget) {
	m.limitRows = slices.Repeat([]int{-1}, len(m.limits))
	order := make([]int, len(m.limits))
	for n := range order {
		order[n] = n
	}
	slices.SortFunc(order, func(x, y int) int {
		return cmp.Or(cmp.Compare(m.limits[x].nodeType, m.limits[y].nodeType), cmp.Compare(m.limits[x].size, m.limits[y].size))
	})
	row, size := -1, 0 // the previous row of the type, and its size
	for at, n := range order {
		l := &m.limits[n]
		if at == 0 || m.limits[order[at-1]].nodeType != l.nodeType {
			row, size = l.nodeType, 1
		}
		reach, differs := 0, row < len(m.nodes) // whether the previous row counts more allocations
		for i, class := range classes {
			j := &m.jobs[i]
			if p := j.profileOn(l.nodeType); class != excluded && p != nil {
				largest := 0
				for _, k := range p.sizes {
					if k <= m.nodes[l.nodeType] {
						counted := l.usage(j, l.nodeType, k)
						largest, differs = max(largest, counted), differs || counted != j.inPieces(k, size)
					}
				}
				reach += largest
				b.spend(len(p.sizes))
			}
		}
		switch {
		case reach <= l.available:
			continue
		case l.available >= m.capacity[row]:
		case differs:
			row, size = len(m.capacity), l.size
			m.capacity, m.rowLimits = append(m.capacity, l.available), append(m.rowLimits, l)
		default:
			size = l.size
			m.capacity[row], m.rowLimits[row-len(m.nodes)] = l.available, l
		}
		m.limitRows[n] = row
	}
}

// coupled reports whether a plan has one step and one option per member: a number of nodes of a type,
// which can count in several rows, the row of the type and rows of size limits.
func (m *model) coupled() bool { return m.multipleTypes() || len(m.rowLimits) > 0 }

// usageByRow returns how many of some nodes of a member count in each row, if the rows are coupled.
func (m *model) usageByRow(j *job, nodeType, nodes int) []int {
	usage := make([]int, len(m.capacity))
	usage[nodeType] = nodes
	for t := len(m.nodes); t < len(usage); t++ {
		usage[t] = m.usageIn(t, j, nodeType, nodes)
	}
	return usage
}

// fitsLimits reports whether some nodes of a type fit all size limits that have a row.
func (m *model) fitsLimits(j *job, nodeType, nodes int) bool {
	return !slices.ContainsFunc(m.rowLimits, func(l *sizeLimit) bool { return l.usage(j, nodeType, nodes) > l.available })
}

// rowPrices returns the prices of the report by row. The price of a limit without a row counts in the row
// that implies the limit, which does not raise the bound.
func (m *model) rowPrices(report *elastallocv1.SolveReport) []float64 {
	prices := make([]float64, len(m.capacity))
	copy(prices[:len(m.nodes)*m.steps], report.GetNodePrices())
	for n, of := range report.GetSizeLimits() {
		if n < len(m.limitRows) && m.limitRows[n] >= 0 && of.GetPrice() > 0 {
			prices[m.limitRows[n]] = max(0, prices[m.limitRows[n]]) + min(of.GetPrice(), math.MaxFloat64)
		}
	}
	for n, r := range m.groupRows {
		if r.group >= len(report.GetGroups()) || r.floor {
			continue
		}
		of := report.GetGroups()[r.group]
		price := &prices[len(m.nodes)+len(m.rowLimits)+n]
		if r.nodeType == anyType {
			*price = of.GetPrice()
		}
		for _, onType := range of.GetTypes() {
			if r.nodeType != anyType && onType.GetNodeType() == m.types[r.nodeType].id {
				*price = onType.GetPrice()
			}
		}
	}
	return prices
}

// pending is the part of an option of a member that counts in the remaining rows: a position in sizes, and
// the rows of limits that count it, as a bit set. Before the member has nodes of a type, size is undecided.
type pending struct {
	size   int
	limits uint64
}

const undecided = -1

// passRow returns what is pending after a row that counts the limits of bit, and the size that counts in it.
func (s pending) passRow(bit uint64) (size int, after pending) {
	if s.limits&bit != 0 {
		size, s.limits = s.size, s.limits&^bit
	}
	if s.limits == 0 {
		s.size = 0
	}
	return size, s
}

// optionRow is a row of paths: its arcs, and the vertices that they lead to.
type optionRow struct {
	arcs     []arc
	vertices []pending
	index    map[pending]int32 // in vertices
}

// add adds an arc for size n from a vertex of the row before.
func (r *optionRow) add(from int, value int64, n int, to pending) {
	at, seen := r.index[to]
	if !seen {
		at = int32(len(r.vertices))
		r.index[to], r.vertices = at, append(r.vertices, to)
	}
	r.arcs = append(r.arcs, arc{value, int32(from), at, uint16(n)})
}

// optionPaths returns the plans of a member whose rows are coupled. A vertex is what is pending: plans are
// undecided up to the type of their nodes, and then pass the rows of the limits.
func (c *candidates) optionPaths() *paths {
	g, vertices := &paths{vertices: []int{1}}, []pending{{size: undecided}}
	counting := c.countingRows()
	for t := range c.capacity {
		row := &optionRow{index: make(map[pending]int32)}
		for from, state := range vertices {
			if state.size == undecided {
				c.addOptions(row, from, t, counting)
			} else {
				n, after := state.passRow(counting[t])
				row.add(from, 0, n, after)
			}
		}
		c.store(2 * len(row.arcs))
		g.vertices, g.arcs, vertices = append(g.vertices, len(row.vertices)), append(g.arcs, row.arcs), row.vertices
	}
	return g
}

// countingRows returns a different bit for each row of a limit that can count the member, and 0 for other rows.
func (c *candidates) countingRows() []uint64 {
	counting := make([]uint64, len(c.capacity))
	bit := uint64(1)
	for t := len(c.nodes); t < len(counting); t++ {
		if len(c.usable[t]) > 1 {
			if bit == 0 {
				panic(aborted{"too many rows count one job"})
			}
			counting[t], bit = bit, bit<<1
		}
	}
	return counting
}

// addOptions adds the arcs of an undecided plan in the row of a type: the sizes on this type and, unless it is
// the last type, no nodes.
func (c *candidates) addOptions(row *optionRow, from, nodeType int, counting []uint64) {
	last := nodeType == len(c.nodes)-1
	if !last {
		row.add(from, 0, 0, pending{size: undecided})
	}
	for _, n := range c.usable[nodeType] {
		if c.sizes[n] > 0 || last && c.canWait {
			row.add(from, c.rowValue(c.member, nodeType, n), n, c.pendingLimits(counting, nodeType, n))
		}
	}
}

// pendingLimits returns what is pending after the row of a type in which a member has its n-th size.
func (c *candidates) pendingLimits(counting []uint64, nodeType, n int) (state pending) {
	for t, bit := range counting {
		if bit != 0 && c.usageIn(t, c.job, nodeType, c.sizes[n]) > 0 {
			state.size, state.limits = n, state.limits|bit
		}
	}
	return state
}

// checkSizeLimits checks the reported size limits.
func (d *decision) checkSizeLimits() error {
	reports := d.report.GetSizeLimits()
	if len(reports) != len(d.limits) {
		return refute("the report has %d size limits; the request has %d", len(reports), len(d.limits))
	}
	for n, got := range reports {
		l, used := &d.limits[n], 0
		for i, a := range d.allocations {
			nodeType := d.typeIndex(a.GetNodeType())
			if d.jobs[i].frozen {
				nodeType = d.jobs[i].nodeType
			}
			used += l.usage(&d.jobs[i], nodeType, int(a.GetNodes()))
		}
		used = min(used, math.MaxInt32)
		if int(got.GetSize()) != l.size || got.GetNodeType() != l.typeID || int(got.GetNodes()) != l.nodes || int(got.GetUsed()) != used {
			return refute("the limit of size %d on type %q has %d nodes, %d of them used; the report has %d and %d for size %d on type %q",
				l.size, l.typeID, l.nodes, used, got.GetNodes(), got.GetUsed(), got.GetSize(), got.GetNodeType())
		}
	}
	return nil
}
