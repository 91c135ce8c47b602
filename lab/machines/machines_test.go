package machines

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

var powers = []int{1, 2, 4, 8, 16, 32, 64, 128}

// TestDamaged counts the damaged machines of every share, and what they lack.
func TestDamaged(t *testing.T) {
	lacking := make(map[int]bool)
	for share, want := range map[float64]int{0: 0, 0.1: 6, 0.3: 17, 1: 56} {
		layout := Layout{Units: 8, Damaged: share, Seed: 3}
		m, damaged, sum := New(448, layout, powers), 0, 0
		for _, node := range m.nodes {
			if less := node.Units - node.Free; less > 0 {
				damaged++
				sum += less
				lacking[less] = true
			}
		}
		if len(m.nodes) != 56 || damaged != want || m.Unavailable() != sum {
			t.Errorf("%v: %d of %d machines lack %d units, and %d are unavailable; want %d machines of 56",
				share, damaged, len(m.nodes), sum, m.Unavailable(), want)
		}
		if diff := cmp.Diff(m.nodes, New(448, layout, powers).nodes); diff != "" {
			t.Errorf("%v: the same seed gives other machines:\n%s", share, diff)
		}
		layout.Seed = 4
		if same := cmp.Equal(m.nodes, New(448, layout, powers).nodes); same != (share == 0) {
			t.Errorf("%v: another seed gives the same machines: %v", share, same)
		}
	}
	for less := range 9 {
		if lacking[less] != (less >= 1 && less <= 7) {
			t.Errorf("a machine lacks %d units: %v", less, lacking[less])
		}
	}
}

// TestLimits has limits that are counted by hand: 36 machines have place for 4 pieces of 8, two
// blocks of 18 for 8 pieces of 4.
func TestLimits(t *testing.T) {
	for _, test := range []struct {
		layout Layout
		sizes  []int
		want   []solver.SizeLimit
	}{
		{Layout{Units: 8}, powers, []solver.SizeLimit{}},
		{Layout{Units: 8}, []int{2, 8, 16, 24}, []solver.SizeLimit{}},
		{Layout{Units: 8, Block: 18}, powers, []solver.SizeLimit{{Size: 32, Nodes: 256}}},
		{Layout{Units: 8, Block: 18}, powers[:5], []solver.SizeLimit{}},
	} {
		got, err := New(36*8, test.layout, test.sizes).Limits()
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%+v: %v; limits (-want +got):\n%s", test.layout, err, diff)
		}
	}
	for _, sizes := range [][]int{{2, 3}, {8, 12}} {
		if limits, err := New(16, Layout{Units: 8}, sizes).Limits(); err == nil {
			t.Errorf("sizes %v have the limits %v", sizes, limits)
		}
	}
}

// TestByType has limits for each type, and places jobs on the machines of their types.
func TestByType(t *testing.T) {
	damaged := New(16, Layout{Units: 8, Damaged: 1, Seed: 2}, powers)
	b := ByType{"new": New(8, Layout{Units: 8}, powers), "old": damaged}
	limits, err := b.Limits()
	want, wantErr := damaged.Limits()
	for n := range want {
		want[n].NodeType = "old"
	}
	if diff := cmp.Diff(want, limits); diff != "" || err != nil || wantErr != nil || len(want) == 0 {
		t.Errorf("%v, %v; limits (-want +got):\n%s", err, wantErr, diff)
	}
	kept := []sim.PlacedJob{{ID: "a", Nodes: 4, NodeType: "new", On: map[string]int{"machine-0": 4}}}
	jobs := []sim.PlacedJob{{ID: "b", Nodes: 1, NodeType: "old"}, {ID: "c", Nodes: 4, NodeType: "new"}, {ID: "paused"}}
	on, err := b.Place(kept, jobs)
	if err != nil || len(on) != 3 || len(on[0]) != 1 || !cmp.Equal(on[1], map[string]int{"machine-0": 4}) || len(on[2]) != 0 {
		t.Errorf("the jobs are on %v, %v", on, err)
	}
	var none *sim.NoPlaceError
	for nodeType, nodes := range map[string]int{"new": 8, "old": 8} {
		on, err := b.Place(kept, []sim.PlacedJob{{ID: "b", Nodes: nodes, NodeType: nodeType}})
		if !errors.As(err, &none) || none.NodeType != nodeType {
			t.Errorf("8 nodes are on %v, %v; want no place on %q", on, err, nodeType)
		}
	}
	b["odd"] = New(16, Layout{Units: 8}, []int{2, 3})
	if limits, err := b.Limits(); err == nil || !strings.Contains(err.Error(), `node type "odd": sizes: 2 does not divide 3`) {
		t.Errorf("limits %v, %v", limits, err)
	}
}

func TestPlace(t *testing.T) {
	m := New(16, Layout{Units: 8}, powers)
	job := func(id string, nodes int, on map[string]int) sim.PlacedJob {
		return sim.PlacedJob{ID: id, Nodes: nodes, On: on}
	}
	four := []sim.PlacedJob{job("a", 4, map[string]int{"machine-0": 4}), job("b", 4, map[string]int{"machine-1": 4})}
	large := job("c", 8, nil)
	if on, err := m.Place(nil, append(four, large)); err != nil || len(on) != 3 || len(on[2]) != 1 || !cmp.Equal(on[0], on[1]) {
		t.Errorf("a job of a machine and two of half a machine are on %v, %v; want one of them moved", on, err)
	}
	var none *sim.NoPlaceError
	if on, err := m.Place(four, []sim.PlacedJob{large}); !errors.As(err, &none) || none.Size != 8 {
		t.Errorf("if the halves stay, it lies on %v, %v; want no place for 8", on, err)
	}
	odd := New(16, Layout{Units: 8}, []int{4, 6})
	on, err := odd.Place(nil, []sim.PlacedJob{job("a", 6, nil), job("b", 6, nil), job("c", 4, nil)})
	if !errors.As(err, &none) || none.Size != 1 {
		t.Errorf("6, 6 and 4 lie on %v, %v; want no place", on, err)
	}
	if on, err := m.Place(nil, []sim.PlacedJob{job("", 1, nil)}); err == nil || errors.As(err, &none) {
		t.Errorf("a job without an id lies on %v, %v", on, err)
	}
}
