package rows

import (
	"math"
	"slices"
)

// Groups: bounds on the nodes of some of the jobs.
//
// A window is one bound on the nodes of the jobs of a group: on all of them, with a floor, or on those of
// one type. In the order of the tree of groups, the jobs of a group are consecutive. Windows follow the rows
// in prices and in free nodes.

// NoLimit is the limit of a group without a limit.
const NoLimit = math.MaxInt32

// Group is a group of a forest. Its jobs and those of its descendants have together at most Limit nodes, and
// at most TypeLimits nodes of each type; nil means no limits per type. Each node below Floor costs
// Problem.QuotaPrice.
type Group struct {
	Parent, Limit, Floor int
	TypeLimits           []int
}

// allTypes is the type of a window that counts all nodes.
const allTypes = -1

// window is a bound on the nodes of the jobs of a group.
type window struct {
	group        int
	nodeType     int // the type that counts, or allTypes
	limit, floor int
}

// counts reports whether the nodes of a type count.
func (w *window) counts(nodeType int) bool { return w.nodeType == allTypes || w.nodeType == nodeType }

// nodesOf returns the number of nodes of an allocation that count.
func (w *window) nodesOf(o *Allocation) int {
	if w.counts(int(o.Type)) {
		return int(o.Nodes)
	}
	return 0
}

// windows are the windows of the groups.
type windows struct {
	windows []window
	// windowsOf has the positions of the windows that count the jobs of each leaf group, ascending.
	windowsOf [][]int
	// alwaysShort is the number of nodes that groups are below their floors in every choice.
	alwaysShort int
	// typeOf is the type of each row.
	typeOf []int
}

// newWindows returns the windows that some choice violates, or nil if there are no groups.
func (p *Problem) newWindows() *windows {
	if p.Groups == nil {
		return nil
	}
	w := &windows{windowsOf: make([][]int, len(p.Groups))}
	types := p.types()
	for g := range types {
		end := len(p.Capacity)
		if p.First == nil {
			end = g + 1
		} else if g+1 < types {
			end = p.First[g+1]
		}
		for len(w.typeOf) < end {
			w.typeOf = append(w.typeOf, g)
		}
	}
	most, least := p.nodeRanges(types)
	own := make([][]int, len(p.Groups)) // positions of the windows of each group
	add := func(added window) {
		if added.limit < NoLimit || added.floor > 0 {
			own[added.group] = append(own[added.group], len(w.windows))
			w.windows = append(w.windows, added)
		}
	}
	for g := range p.Groups {
		group := &p.Groups[g]
		floor, limit := min(group.Floor, group.Limit), group.Limit
		w.alwaysShort += group.Floor - floor
		if floor <= least[g] {
			floor = 0
		}
		if limit >= most[g][types] {
			limit = NoLimit
		}
		add(window{group: g, nodeType: allTypes, limit: limit, floor: floor})
		for nodeType, limit := range group.TypeLimits {
			if limit < most[g][nodeType] {
				add(window{group: g, nodeType: nodeType, limit: limit})
			}
		}
	}
	for g := range p.Groups {
		for up := g; up >= 0; up = p.Groups[up].Parent {
			w.windowsOf[g] = append(w.windowsOf[g], own[up]...)
		}
		slices.Sort(w.windowsOf[g])
	}
	return w
}

// nodeRanges returns for each group the largest numbers of nodes that its jobs can have together, of each type
// and, at the end, of all types, and the smallest number of nodes of all types.
func (p *Problem) nodeRanges(types int) (most [][]int, least []int) {
	most, least = make([][]int, len(p.Groups)), make([]int, len(p.Groups))
	for g := range most {
		most[g] = make([]int, types+1)
	}
	largest := make([]int, types+1)
	for i, options := range p.Jobs {
		clear(largest)
		smallest := math.MaxInt32
		for n := range options {
			o := &options[n]
			largest[o.Type] = max(largest[o.Type], int(o.Nodes))
			smallest = min(smallest, int(o.Nodes))
		}
		largest[types] = slices.Max(largest[:types])
		for g := p.GroupOf[i]; g >= 0; g = p.Groups[g].Parent {
			least[g] += smallest
			for n, nodes := range largest {
				most[g][n] += nodes
			}
		}
	}
	return most, least
}

// loss returns the loss of a window at a price if its jobs have the given number of nodes. The price is the
// multiplier of the limit less that of the floor. The part of the bound is the largest
// price U - quotaPrice max(0, floor - U) of all U up to the limit: price times limit if the price is positive,
// and price times floor otherwise.
func (w *window) loss(price, quotaPrice float64, nodes int) float64 {
	switch {
	case nodes > w.limit:
		return math.Inf(1)
	case price > 0:
		return price*float64(w.limit-nodes) + quotaPrice*float64(max(0, w.floor-nodes))
	case nodes >= w.floor:
		return -price * float64(nodes-w.floor)
	default:
		return (quotaPrice + price) * float64(w.floor-nodes)
	}
}

// boundNodes returns the number of nodes that the bound counts at a price.
func (w *window) boundNodes(price float64) int {
	if price > 0 {
		return w.limit
	}
	return w.floor
}

// priceRange returns the range of the price of a row or window.
func (s *search) priceRange(row int) (low, high float64) {
	if row < len(s.Capacity) {
		return 0, math.Inf(1)
	}
	w := &s.windows.windows[row-len(s.Capacity)]
	if w.floor > 0 {
		low = -s.QuotaPrice
	}
	if w.limit < NoLimit {
		high = math.Inf(1)
	}
	return low, high
}

// rowCount returns the number of rows and windows.
func (s *search) rowCount() int {
	if s.windows == nil {
		return len(s.Capacity)
	}
	return len(s.Capacity) + len(s.windows.windows)
}

// maxPriced is the largest number of windows with prices. The time of a step of Newton's method grows with its cube,
// and a step at 256 takes about 10 ms.
const maxPriced = 256

// pricedCount returns the number of rows and windows with prices: if there are too many windows, they have none.
func (s *search) pricedCount() int {
	if s.windows != nil && len(s.windows.windows) > maxPriced {
		return len(s.Capacity)
	}
	return s.rowCount()
}

// windowsOfJob returns the positions of the windows that count job i.
func (s *search) windowsOfJob(i int) []int {
	if s.windows == nil {
		return nil
	}
	return s.windows.windowsOf[s.GroupOf[i]]
}

// spend subtracts a multiple of an allocation of job i from the free nodes of its rows and windows.
func (s *search) spend(free []int, i int, o *Allocation, times int) {
	s.Problem.spend(free, o, times)
	for _, w := range s.windowsOfJob(i) {
		free[len(s.Capacity)+w] -= times * s.windows.windows[w].nodesOf(o)
	}
}

// free returns the number of free nodes of each row and window in a choice.
func (s *search) free(choice []int) []int {
	free := s.Problem.free(choice)
	if s.windows == nil {
		return free
	}
	for w := range s.windows.windows {
		free = append(free, s.windows.windows[w].limit)
	}
	for i, n := range choice {
		o := &s.Jobs[i][n].Allocation
		for _, w := range s.windowsOfJob(i) {
			free[len(s.Capacity)+w] -= s.windows.windows[w].nodesOf(o)
		}
	}
	return free
}

// valueOf returns the value of a choice less the cost of the nodes below floors.
func (s *search) valueOf(choice []int) sum {
	value := s.Problem.valueOf(choice)
	if s.windows == nil {
		return value
	}
	value.add(product(-s.QuotaPrice, float64(s.windows.alwaysShort+s.shortOf(choice))))
	return value
}

// shortOf returns the number of nodes that groups are below their floors in a choice, in addition to alwaysShort.
func (s *search) shortOf(choice []int) (short int) {
	if s.windows == nil {
		return 0
	}
	free := s.free(choice)[len(s.Capacity):]
	for n := range s.windows.windows {
		w := &s.windows.windows[n]
		short += max(0, w.floor-(w.limit-free[n]))
	}
	return short
}

// unitsAt returns the price of a node that counts in each row, by group: the sum of the prices of the rows of its
// type up to the row, and of the windows that count it. Without groups there is one entry. Only the entries
// of leaf groups are used.
func (s *search) unitsAt(prices []float64) [][]float64 {
	rows := len(s.Capacity)
	unit := s.unitPrices(prices[:rows])
	if s.windows == nil {
		return [][]float64{unit}
	}
	units := make([][]float64, len(s.Groups))
	for g := range units {
		units[g] = slices.Clone(unit)
		for _, w := range s.windows.windowsOf[g] {
			if rows+w >= len(prices) {
				break
			}
			for row, nodeType := range s.windows.typeOf {
				if s.windows.windows[w].counts(nodeType) {
					units[g][row] += prices[rows+w]
				}
			}
		}
	}
	return units
}

// unitOf returns the entry of job i.
func (s *search) unitOf(units [][]float64, i int) []float64 {
	if s.windows == nil {
		return units[0]
	}
	return units[s.GroupOf[i]]
}

// priceGrain is the unit of prices with groups, as a fraction of the largest one. An option counts in at most
// 2^7 rows and windows, so that the sums of their prices are exact.
const priceGrain = 0x1p-45

// exactPrices returns the prices rounded toward 0 to multiples of a power of two, with which all sums of the
// prices of an option are exact. Without groups it returns the prices.
func (s *search) exactPrices(prices []float64) []float64 {
	if s.windows == nil {
		return prices
	}
	most := 0.0
	for _, price := range prices {
		most = max(most, math.Abs(price))
	}
	_, exponent := math.Frexp(most)
	grain := max(math.Ldexp(priceGrain, exponent), 0x1p-1000)
	rounded := make([]float64, len(prices))
	for n, price := range prices {
		rounded[n] = math.Trunc(price/grain) * grain
	}
	return rounded
}
