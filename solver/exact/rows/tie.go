package rows

import "cmp"

// tie decides between choices of equal value; the smaller one is preferred. The criteria are, in
// this order: changed jobs, jobs that move to another type, nodes, and indices of types. Each field
// combines two criteria in one number, so that ties can be added.
type tie struct{ changes, nodes int64 }

const tieUnit = 1 << 32

// tie returns the tie of an option of job i.
func (p *Problem) tie(i int, o Allocation) (t tie) {
	if current := p.Current[i]; o != current {
		t.changes = tieUnit
		if o.Nodes > 0 && current.Nodes > 0 && o.Type != current.Type {
			t.changes++
		}
	}
	t.nodes = int64(o.Nodes)*tieUnit + int64(o.Type)
	return t
}

func (p *Problem) tieOf(choice []int) (t tie) {
	for i, n := range choice {
		t = t.plus(p.tie(i, p.Jobs[i][n].Allocation))
	}
	return t
}

func (t tie) plus(other tie) tie  { return tie{t.changes + other.changes, t.nodes + other.nodes} }
func (t tie) minus(other tie) tie { return tie{t.changes - other.changes, t.nodes - other.nodes} }

func (t tie) compare(other tie) int {
	return cmp.Or(cmp.Compare(t.changes, other.changes), cmp.Compare(t.nodes, other.nodes))
}
