package nodetypes

import "cmp"

// tie is what decides between choices of equal value, the less the better: changed jobs, then
// those among them that move to another type; nodes, then positions of types. Each pair is
// one number, so that ties can be added up.
type tie struct{ changes, nodes int64 }

const tieUnit = 1 << 32

// tie returns that of an option of job i.
func (p *Problem) tie(i int, o Holding) (t tie) {
	if now := p.Now[i]; o != now {
		t.changes = tieUnit
		if o.Nodes > 0 && now.Nodes > 0 && o.Type != now.Type {
			t.changes++
		}
	}
	t.nodes = int64(o.Nodes)*tieUnit + int64(o.Type)
	return t
}

func (p *Problem) tieOf(choice []int) (t tie) {
	for i, n := range choice {
		t = t.plus(p.tie(i, p.Jobs[i][n].Holding))
	}
	return t
}

func (t tie) plus(other tie) tie  { return tie{t.changes + other.changes, t.nodes + other.nodes} }
func (t tie) minus(other tie) tie { return tie{t.changes - other.changes, t.nodes - other.nodes} }

func (t tie) compare(other tie) int {
	return cmp.Or(cmp.Compare(t.changes, other.changes), cmp.Compare(t.nodes, other.nodes))
}
