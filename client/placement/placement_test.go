package placement_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/client/placement"
)

// machines returns free nodes of some units, in blocks of some nodes; 0 names no blocks.
func machines(count, units, inBlock int) []placement.Node {
	nodes := make([]placement.Node, count)
	for n := range nodes {
		nodes[n] = placement.Node{ID: fmt.Sprint("n", n), Units: units, Free: units}
		if inBlock > 0 {
			nodes[n].Block = fmt.Sprint("b", n/inBlock)
		}
	}
	return nodes
}

// queued returns jobs of some units that are not running.
func queued(units ...int) []placement.Job {
	jobs := make([]placement.Job, len(units))
	for j := range units {
		jobs[j] = placement.Job{ID: fmt.Sprint("j", j), Units: units[j]}
	}
	return jobs
}

// TestPlaceIsExact compares Place with exhaustive search on pieces that form a chain.
func TestPlaceIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := problems(chains).Draw(t, "problem")
		placed, err := placement.Place(c.Nodes, c.Sizes, c.Jobs)
		if exists := c.fit(c.free(), c.allPieces()); exists != (err == nil) {
			t.Fatalf("a placement exists: %v; Place: %v", exists, err)
		}
		if err == nil {
			checkPlacement(t, &c, placed)
		} else {
			checkLimit(t, &c, err)
		}
	})
}

// checkPlacement fails unless a placement is valid for the jobs.
func checkPlacement(t *rapid.T, c *problem, placed placement.Placement) {
	t.Helper()
	used, moved := make(map[string]int), []string(nil)
	for _, job := range c.Jobs {
		on, known := placed.On[job.ID]
		if !known || !c.liesOn(job, on) {
			t.Fatalf("%+v is placed on %v", job, on)
		}
		for id, units := range on {
			used[id] += units
		}
		if unchanged(job) && !maps.Equal(on, job.On) {
			moved = append(moved, job.ID)
		}
	}
	for _, node := range c.Nodes {
		if used[node.ID] > node.Free+node.Releasing {
			t.Fatalf("%d units are placed on %+v", used[node.ID], node)
		}
	}
	if !slices.Equal(placed.Moved, moved) || len(placed.On) != len(c.Jobs) {
		t.Fatalf("%d of %d jobs are placed, and %v moved; Moved is %v", len(placed.On), len(c.Jobs), moved, placed.Moved)
	}
}

// checkLimit fails unless an error names a limit that the jobs exceed.
func checkLimit(t *rapid.T, c *problem, err error) {
	t.Helper()
	limit, ok := errors.AsType[*placement.LimitError](err)
	if !ok {
		t.Fatal(err)
	}
	used := 0
	for _, piece := range c.allPieces() {
		if piece >= limit.Size {
			used += piece
		}
	}
	pieces := slices.Repeat([]int{limit.Size}, limit.Units/limit.Size)
	if limit.Used != used || used <= limit.Units || !c.fit(c.free(), pieces) || c.fit(c.free(), append(pieces, limit.Size)) {
		t.Fatalf("%d units of pieces of at least %d are used: %v", used, limit.Size, err)
	}
}

// TestPlaceWithoutChain checks the placements and errors of Place for sizes that do not form a chain.
func TestPlaceWithoutChain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := problems(unnested).Draw(t, "problem")
		placed, err := placement.Place(c.Nodes, c.Sizes, c.Jobs)
		if err == nil {
			checkPlacement(t, &c, placed)
		} else if _, limit := errors.AsType[*placement.LimitError](err); limit && c.fit(c.free(), c.allPieces()) {
			t.Fatalf("a placement exists, but %v", err)
		} else if !limit && !errors.Is(err, placement.ErrNotNested) {
			t.Fatal(err)
		}
	})
}

// TestMoves compares the number of moves with the minimum, which exhaustive search finds.
func TestMoves(t *testing.T) {
	t.Parallel()
	const cases = 360 // in which jobs have to move
	moves, fewest := 0, 0
	for seed, seen := 0, 0; seen < cases; seed++ {
		c := seeded(chains, seed)
		placed, err := placement.Place(c.Nodes, c.Sizes, c.Jobs)
		minMoves, exists := c.fewestMoves()
		if exists != (err == nil) || len(placed.Moved) < minMoves {
			t.Fatalf("seed %d: a placement with %d moves exists: %v; Place: %v, %v", seed, minMoves, exists, placed.Moved, err)
		}
		if minMoves > 0 {
			seen++
		}
		moves, fewest = moves+len(placed.Moved), fewest+minMoves
	}
	t.Logf("%d moves; at least %d", moves, fewest)
	if float64(moves) > 1.15*float64(fewest) {
		t.Errorf("%d moves; want at most 15%% more than %d", moves, fewest)
	}
}

// TestLimitsAreExact checks that jobs can be placed if and only if they keep the capacity of the pool and Limits.
func TestLimitsAreExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := problems(chains).Draw(t, "problem")
		limits, err := placement.Limits(c.Nodes, c.Sizes)
		if err != nil {
			t.Fatal(err)
		}
		last := sum(c.free())
		kept := sum(c.allPieces()) <= last
		for _, limit := range limits {
			used := 0
			for _, piece := range c.allPieces() {
				if piece >= int(limit.GetSize()) {
					used += piece
				}
			}
			kept = kept && used <= int(limit.GetNodes())
			if int(limit.GetNodes()) >= last {
				t.Fatalf("%v is implied by a limit of %d", limit, last)
			}
			last = int(limit.GetNodes())
		}
		if exists := c.fit(c.free(), c.allPieces()); exists != kept {
			t.Fatalf("a placement exists: %v; the jobs keep %v: %v", exists, limits, kept)
		}
	})
}

// TestAddMachine adds a machine of any size: jobs that could be placed still can, and no limit becomes smaller,
// unless the machine makes a block the first that a piece fits.
func TestAddMachine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before := problems(chains).Draw(t, "problem")
		added := placement.Node{ID: "added", Units: rapid.SampledFrom(append([]int{1}, before.Sizes...)).Draw(t, "units")}
		added.Free = added.Units
		if len(before.Nodes) > 0 {
			added.Block = rapid.SampledFrom(before.Nodes).Draw(t, "in the block of").Block
		}
		after := before
		after.Nodes = append(slices.Clone(before.Nodes), added)
		for _, size := range before.Sizes {
			if job := (placement.Job{Units: size}); !slices.Equal(before.pieces(job), after.pieces(job)) {
				return // It is no longer cut, or it is cut into larger pieces.
			}
		}
		small, large := before.limits(t), after.limits(t)
		for _, size := range before.Sizes {
			if large[size] < small[size] {
				t.Fatalf("the limit of %d is %d; it was %d", size, large[size], small[size])
			}
		}
		if _, err := placement.Place(before.Nodes, before.Sizes, before.Jobs); err != nil {
			return
		}
		if _, err := placement.Place(after.Nodes, after.Sizes, after.Jobs); err != nil {
			t.Fatal(err)
		}
	})
}

// limits returns the most units of pieces of at least each size.
func (c *problem) limits(t *rapid.T) map[int]int {
	got, err := placement.Limits(c.Nodes, c.Sizes)
	if err != nil {
		t.Fatal(err)
	}
	most, limits := sum(c.free()), make(map[int]int)
	for _, size := range c.Sizes {
		for _, limit := range got {
			if int(limit.GetSize()) == size {
				most = int(limit.GetNodes())
			}
		}
		limits[size] = most
	}
	return limits
}

func TestLimits(t *testing.T) {
	t.Parallel()
	lacking := func(nodes []placement.Node, units ...int) []placement.Node {
		for n := range units {
			nodes[n].Free -= units[n]
		}
		return nodes
	}
	powers := []int{1, 2, 4, 8, 16, 32, 64}
	for name, test := range map[string]struct {
		nodes []placement.Node
		sizes []int
		want  string
	}{
		"no nodes":                   {nil, powers, ""},
		"no sizes":                   {machines(2, 8, 0), nil, ""},
		"free whole machines":        {machines(8, 8, 0), powers, ""},
		"5 machines of 8":            {machines(5, 8, 0), []int{1, 2, 4, 8, 16}, "16:32"},
		"blocks that sizes divide":   {machines(8, 8, 4), powers, ""},
		"blocks of 18 machines":      {machines(36, 1, 18), []int{1, 2, 4, 8, 16}, "4:32"},
		"blocks of 18 machines of 8": {machines(36, 8, 18), powers, "32:256"},
		"block larger than others": {
			append(machines(4, 8, 4), placement.Node{ID: "x", Block: "y", Units: 8, Free: 8}), powers, "16:32",
		},
		"no machine is free":                 {lacking(machines(2, 8, 0), 8, 8), powers, ""},
		"machines that lack units":           {lacking(machines(4, 8, 0), 1, 4, 7), powers, "2:18 4:16 8:8 16:0"},
		"all lack a unit":                    {lacking(machines(2, 8, 0), 1, 1), powers, "2:12 4:8 8:0"},
		"sizes that do not fill":             {machines(2, 8, 0), []int{3, 6}, "3:12"},
		"sizes larger than a machine":        {machines(2, 8, 1), []int{32, 64}, "32:0"},
		"machines of no units":               {machines(2, 0, 0), powers, ""},
		"unsorted sizes, some twice":         {lacking(machines(2, 8, 0), 1), []int{8, 2, 4, 2, 1}, "2:14 4:12 8:8"},
		"a small machine is not whole":       {append(machines(1, 8, 0), placement.Node{ID: "small", Units: 4, Free: 4}), powers, "8:8"},
		"two small machines are a large one": {append(machines(2, 4, 0), placement.Node{ID: "large", Units: 8, Free: 8}), powers, ""},
		"unless each is a block":             {append(machines(2, 4, 1), placement.Node{ID: "large", Units: 8, Free: 8}), powers, "8:8"},
		"or they do not divide it":           {append(machines(2, 6, 0), placement.Node{ID: "large", Units: 8, Free: 8}), powers, "4:16 8:8"},
		"a larger machine joins":             {append(machines(6, 8, 0), placement.Node{ID: "large", Units: 16, Free: 16}), []int{16}, ""},
		"units that are being released":      {[]placement.Node{{ID: "a", Units: 8, Free: 2, Releasing: 6}}, powers, ""},
	} {
		limits, err := placement.Limits(test.nodes, test.sizes)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, limit := range limits {
			got = append(got, fmt.Sprintf("%d:%d", limit.GetSize(), limit.GetNodes()))
		}
		if diff := gocmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, test := range map[string]struct {
		machine int
		sizes   []int
		want    string
	}{
		"3 after 2":                 {8, []int{1, 2, 3}, "2 does not divide 3"},
		"12 on machines of 8":       {8, []int{1, 3, 6, 12}, "6 does not divide 8"},
		"12 and 4 on machines of 8": {8, []int{4, 12}, "8 does not divide 12"},
	} {
		if _, err := placement.Limits(machines(8, test.machine, 0), test.sizes); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error is %v; want %q", name, err, test.want)
		}
	}
}

// TestImpossible has jobs that cannot be placed although their units fit in the pool.
func TestImpossible(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		nodes []placement.Node
		sizes []int
		jobs  []placement.Job
		want  error // nil for ErrNotNested
	}{
		"pieces of 3":              {machines(2, 8, 0), []int{3}, queued(3, 3, 3, 3, 3), &placement.LimitError{Size: 3, Units: 12, Used: 15}},
		"pieces of 6 and 4":        {machines(2, 8, 0), []int{4, 6}, queued(6, 6, 4), nil},
		"pieces of 5":              {machines(2, 8, 0), []int{5}, queued(5, 5, 5), &placement.LimitError{Size: 5, Units: 10, Used: 15}},
		"blocks of 4 machines":     {machines(8, 1, 4), []int{2, 3}, queued(3, 3, 2), nil},
		"blocks of 18 machines":    {machines(36, 1, 18), []int{4, 16}, queued(16, 16, 4), &placement.LimitError{Size: 4, Units: 32, Used: 36}},
		"units of different nodes": {machines(2, 4, 0)[:2], []int{2, 4}, queued(4, 4, 4), &placement.LimitError{Size: 1, Units: 8, Used: 12}},
		"no nodes":                 {nil, []int{1}, queued(1), &placement.LimitError{Size: 1, Units: 0, Used: 1}},
		"no size that fits":        {machines(2, 8, 1), []int{16}, queued(16), &placement.LimitError{Size: 16, Units: 0, Used: 16}},
	} {
		_, err := placement.Place(test.nodes, test.sizes, test.jobs)
		if test.want == nil && !errors.Is(err, placement.ErrNotNested) {
			t.Errorf("%s: error is %v", name, err)
		} else if diff := gocmp.Diff(test.want, err); test.want != nil && diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	type on = map[string]map[string]int
	free := func(nodes []placement.Node, units ...int) []placement.Node {
		for n := range units {
			nodes[n].Free = units[n]
		}
		return nodes
	}
	powers := []int{1, 2, 4, 8, 16, 32}
	for name, test := range map[string]struct {
		nodes []placement.Node
		sizes []int
		jobs  []placement.Job
		want  placement.Placement
	}{
		"nothing":      {nil, nil, nil, placement.Placement{On: on{}}},
		"a paused job": {nil, powers, []placement.Job{{ID: "a", On: map[string]int{"n0": 2}}}, placement.Placement{On: on{"a": {}}}},
		"the fullest machine that fits": {free(machines(4, 8, 0), 8, 3, 2, 1), powers, queued(2),
			placement.Placement{On: on{"j0": {"n2": 2}}}},
		"the first of equally full machines": {free(machines(3, 8, 0), 8, 4, 4), powers, queued(4),
			placement.Placement{On: on{"j0": {"n1": 4}}}},
		"the block with fewest whole machines": {free(machines(6, 8, 3), 8, 8, 8, 8, 0, 8), powers, queued(16, 8),
			placement.Placement{On: on{"j0": {"n3": 8, "n5": 8}, "j1": {"n0": 8}}}},
		"a machine of the block with fewest whole machines": {free(machines(6, 8, 3), 8, 8, 8, 8, 0, 8), powers, queued(8),
			placement.Placement{On: on{"j0": {"n3": 8}}}},
		"pieces of a job": {free(machines(3, 8, 0), 8, 4, 2), powers, []placement.Job{{ID: "a", Units: 14, Piece: 4}},
			placement.Placement{On: on{"a": {"n0": 8, "n1": 4, "n2": 2}}}},
		"pieces larger than a block": {machines(4, 8, 2), powers, queued(32),
			placement.Placement{On: on{"j0": {"n0": 8, "n1": 8, "n2": 8, "n3": 8}}}},
		"a running job that stays": {machines(2, 8, 0), powers,
			append(queued(4, 8), placement.Job{ID: "a", Units: 4, On: map[string]int{"n1": 4}}),
			placement.Placement{On: on{"a": {"n1": 4}, "j0": {"n1": 4}, "j1": {"n0": 8}}}},
		"the fewest moves": {machines(2, 8, 0), powers, append(queued(8),
			placement.Job{ID: "a", Units: 1, On: map[string]int{"n0": 1}}, placement.Job{ID: "b", Units: 1, On: map[string]int{"n0": 1}},
			placement.Job{ID: "c", Units: 4, On: map[string]int{"n1": 4}}),
			placement.Placement{On: on{"j0": {"n1": 8}, "a": {"n0": 1}, "b": {"n0": 1}, "c": {"n0": 4}}, Moved: []string{"c"}}},
		"a machine that lost units": {free(machines(2, 8, 0), 4, 8), powers, []placement.Job{
			{ID: "a", Units: 2, On: map[string]int{"n0": 2}}, {ID: "b", Units: 4, On: map[string]int{"n0": 4}},
			{ID: "c", Units: 2, On: map[string]int{"n0": 2}},
		}, placement.Placement{On: on{"a": {"n0": 2}, "b": {"n1": 4}, "c": {"n0": 2}}, Moved: []string{"b"}}},
		"a machine that is gone": {machines(1, 8, 0), powers, []placement.Job{{ID: "a", Units: 2, On: map[string]int{"gone": 2}}},
			placement.Placement{On: on{"a": {"n0": 2}}, Moved: []string{"a"}}},
		"pieces that lie apart": {machines(2, 8, 0), powers, []placement.Job{{ID: "a", Units: 2, On: map[string]int{"n0": 1, "n1": 1}}},
			placement.Placement{On: on{"a": {"n0": 2}}, Moved: []string{"a"}}},
		"whole machines of two blocks": {machines(4, 8, 2), powers, []placement.Job{{ID: "a", Units: 16, On: map[string]int{"n0": 8, "n2": 8}}},
			placement.Placement{On: on{"a": {"n0": 8, "n1": 8}}, Moved: []string{"a"}}},
	} {
		placed, err := placement.Place(test.nodes, test.sizes, test.jobs)
		if diff := gocmp.Diff(test.want, placed); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// TestBadFields checks that an error names every field that is not valid.
func TestBadFields(t *testing.T) {
	t.Parallel()
	_, err := placement.Place([]placement.Node{
		{ID: "a", Units: -1}, {ID: "a", Units: 8, Free: 9}, {Units: 8, Free: -1}, {ID: "b", Units: 1 << 31},
	}, []int{1, 0}, nil)
	want := []string{"sizes[1]", "nodes[0].units", "nodes[1].id", "nodes[1].free", "nodes[2].id", "nodes[2].free", "nodes[3].units"}
	if diff := gocmp.Diff(want, badFields(err)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	_, err = placement.Place(machines(1, 8, 0), nil, []placement.Job{
		{ID: "a", Units: -1}, {ID: "a", Units: 1 << 31}, {Piece: -1}, {ID: "b", On: map[string]int{"n0": -1}},
	})
	want = []string{"jobs[0].units", "jobs[1].id", "jobs[1].units", "jobs[2].id", "jobs[2].piece", `jobs[3].on["n0"]`}
	if diff := gocmp.Diff(want, badFields(err)); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
}

// badFields returns the fields that an error names.
func badFields(err error) (fields []string) {
	for line := range strings.Lines(fmt.Sprint(err)) {
		field, _, _ := strings.Cut(line, ":")
		fields = append(fields, field)
	}
	return fields
}
