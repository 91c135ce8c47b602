package audit

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// drawModel draws a request of few jobs over few steps, on several node types, or in groups.
func drawModel(t *testing.T, r *rand.Rand) *model {
	t.Helper()
	span := func(low, high float64) *durationpb.Duration {
		return durationpb.New(time.Duration(low * math.Pow(high/low, r.Float64()) * 1e9))
	}
	snapshot, options := &elastallocv1.Snapshot{}, &elastallocv1.AllocateOptions{Admission: elastallocv1.Admission_ADMISSION_PREEMPTIVE}
	steps := 2 + r.IntN(3)
	snapshot.TotalNodes, snapshot.Horizon = int32(3+r.IntN(8)), &elastallocv1.Horizon{Steps: new(int32(steps))}
	kind := r.IntN(4)
	if kind < 2 {
		steps, options.Objective = 2, elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
	}
	switch kind {
	case 0:
		snapshot.TotalNodes = 0
		for n := range 2 + r.IntN(3) {
			snapshot.NodeTypes = append(snapshot.NodeTypes, &elastallocv1.NodeType{
				Id: fmt.Sprint(n), Nodes: int32(r.IntN(6)), Speed: new(0.5 + 2*r.Float64()),
			})
		}
	case 1:
		for n := range 3 {
			snapshot.Groups = append(snapshot.Groups, &elastallocv1.Group{Id: fmt.Sprint(n), Quota: r.Int32N(8), Limit: new(2 + r.Int32N(8))})
		}
		snapshot.Groups[0].ParentId = "2"
	}
	for n := range 2 + r.IntN(7-steps) {
		j := &elastallocv1.Job{Id: fmt.Sprint(n), RemainingEta: span(300, 4000), Weight: new(0.5 + r.Float64()), TrainingTime: span(1, 1000)}
		table := &elastallocv1.SpeedTable{}
		for k := int32(1); len(table.Speeds) < 2+r.IntN(2); k += 1 + r.Int32N(3) {
			j.AllowedNodes, table.Speeds = append(j.AllowedNodes, k), append(table.Speeds, float64(k)*(0.5+r.Float64()/2))
		}
		j.Scaling = &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: table}}
		if r.IntN(2) == 0 {
			j.CurrentNodes = 1 + r.Int32N(3)
			if len(snapshot.NodeTypes) > 0 {
				j.CurrentNodeType, j.MoveTime = "0", span(10, 1000)
			}
		}
		if len(snapshot.NodeTypes) > 0 && n > 0 && r.IntN(3) > 0 { // One of a sweep.
			j = proto.CloneOf(snapshot.Jobs[n-1])
			j.Id = fmt.Sprint(n)
		}
		if kind < 2 {
			j.EtaError = new(0.5)
		}
		if kind == 1 {
			j.GroupId = fmt.Sprint(r.IntN(2))
		}
		snapshot.Jobs = append(snapshot.Jobs, j)
	}
	s, err := read(&elastallocv1.AllocateRequest{Snapshot: snapshot, Options: options})
	if err != nil {
		t.Fatal(err)
	}
	m, err := newModel(s, 10, nil, newEffort(t.Context(), Options{}))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// coarsen makes all values a few units, so that many are the same.
func (m *model) coarsen() {
	m.unit -= 48
	for i := range m.members {
		m.members[i].full = m.up(m.members[i].worth, m.members[i].worth)
	}
}

// worth returns what a plan of a member is worth in units.
func (m *model) worth(j *member, nodes []int) (v int64) {
	served := int64(0)
	for t, k := range nodes {
		n := 0
		for j.sizes[n] != k {
			n++
		}
		switch {
		case m.several():
			if k > 0 || t == 0 && slices.Max(nodes) == 0 {
				v = m.up(j.rows[t].fixed[n], j.rows[t].magnitude[n])
			}
		case j.byStep:
			v += m.stepValue(j, t, n)
		default:
			served = j.serve(served, t, n)
			v += j.gain(served)
		}
	}
	return v
}

// worths returns what a plan is worth.
func (m *model) worths(plan [][]int) (v int64) {
	for i := range plan {
		v += m.worth(&m.members[i], plan[i])
	}
	for g, nodes := range m.groupNodes(plan, 0) {
		v -= m.shortCost(g, nodes)
	}
	return v
}

// best returns the most that a legal plan is worth with what it adds, by looking at all.
func (m *model) best(add func(plan [][]int) int64) int64 {
	most := int64(never)
	plan := make([][]int, len(m.members))
	for i := range plan {
		plan[i] = make([]int, len(m.capacity))
	}
	var walk func(i, t int)
	walk = func(i, t int) {
		if t == len(m.capacity) {
			i, t = i+1, 0
		}
		if i == len(plan) {
			if m.legal(plan, len(m.capacity), false) == nil {
				most = max(most, add(plan)+m.worths(plan))
			}
			return
		}
		for _, k := range m.members[i].sizes {
			plan[i][t] = k
			walk(i, t+1)
		}
	}
	walk(0, 0)
	return most
}

// TestSearch looks for plans that are worth a unit more than the second best can be, with and
// without sweeps: a search that keeps all that it says it does has the best plan, whatever the
// prices, however few states are kept and however coarse the work served is.
func TestSearch(t *testing.T) {
	t.Parallel()
	decided, cut, rounded := 0, 0, 0
	for seed := range uint64(800) {
		r := rand.New(rand.NewPCG(seed, 5))
		m := drawModel(t, r)
		combinations := 1.0
		for i := range m.members {
			combinations *= math.Pow(float64(len(m.members[i].sizes)), float64(len(m.capacity)))
		}
		if combinations > 20_000 {
			continue
		}
		if m.totalTime != nil && r.IntN(2) == 0 { // Plans are held against any.
			var plans [][][]int
			var worth []float64
			m.best(func(plan [][]int) int64 {
				if len(plans) == 0 || r.IntN(5) == 0 {
					plans = append(plans, nil)
					for _, nodes := range plan {
						plans[len(plans)-1] = append(plans[len(plans)-1], slices.Clone(nodes))
					}
					v, _ := m.objective(plan)
					worth = append(worth, v)
				}
				return 0
			})
			than := r.IntN(len(plans))
			m.relate(plans[than])
			for n, plan := range plans {
				if got, _ := m.objective(plan); math.Abs(got-(worth[n]-worth[than])) > 1e-9 {
					t.Fatalf("seed %d: held against %v, %v is worth %v; want %v", seed, plans[than], plan, got, worth[n]-worth[than])
				}
			}
			m.scale()
		} else if m.several() {
			for i := range m.members {
				for _, row := range m.members[i].rows {
					row.fixed[0] += 0.2 // Even waiting is worth something.
				}
			}
			if r.IntN(2) == 0 { // The second is worth as much as the first, on fewer nodes.
				first, second := &m.members[0], &m.members[1]
				second.waits, second.rows, second.usable, second.sizes = first.waits, first.rows, first.usable, first.sizes
				first.sizes = slices.Clone(first.sizes)
				for n := 1; n < len(first.sizes); n++ {
					first.sizes[n]++
				}
			}
			m.scale()
		}
		if r.IntN(2) == 0 {
			m.coarsen()
		}
		best := m.best(func([][]int) int64 { return 0 })
		report := &elastallocv1.SolveReport{Certificate: new(elastallocv1.Certificate)}
		for range m.capacity {
			report.NodePrices = append(report.NodePrices, math.Ldexp(float64(best)/20*r.Float64(), -m.unit))
		}
		for i := range m.members {
			of := &elastallocv1.Certificate_SizePrices{Job: int32(m.members[i].index)}
			for range len(m.capacity) * len(m.members[i].sizes) {
				of.Prices = append(of.Prices, math.Ldexp(float64(best)/5*(r.Float64()-0.3), -m.unit))
			}
			if r.IntN(8) == 0 {
				of.Prices[r.IntN(len(of.Prices))] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64}[r.IntN(4)]
			}
			if r.IntN(2) == 0 {
				report.Certificate.SizePrices = append(report.Certificate.SizePrices, of)
			}
		}
		a := &answer{model: m, report: report}
		for n, rounds := range []int{0, mostRounds, 0, mostRounds, mostRounds} {
			s := a.newSearch(newEffort(t.Context(), Options{}), 0)
			if s.target, s.bits = best-1, []int{fewestBits, fewestBits, 0, 2, 0}[n]; n == 4 { // The highest prices.
				for t := range s.nodes {
					s.nodes[t] = r.Int64N(int64(mostPrices/(len(s.nodes)*(s.width[t]+1)))) + 1
				}
			}
			if !s.reduce() {
				t.Fatalf("seed %d, %d bits: nothing is worth the optimum", seed, s.bits)
			}
			if from := s.prices(); !s.sweep(rounds) || s.leap(from, s.known()) <= s.target {
				t.Fatalf("seed %d, %d rounds, %d bits: nothing is worth the optimum", seed, rounds, s.bits)
			}
			if slices.ContainsFunc(s.open, func(p *plans) bool { return p.paths.rounded }) {
				rounded++
			}
			rounding := s.bits
			if plan, decided := s.solve(); decided && plan == nil {
				t.Fatalf("seed %d, %d rounds, %d bits: it is proven that nothing is worth the optimum", seed, rounds, rounding)
			}
			for n, width := range []int{1, 2, 4, 1 << mostBits, 1, 2, 4, 1 << mostBits} {
				plan, complete := s.run(width, n < 4)
				switch {
				case !complete && width == mostStates, complete && plan == nil:
					t.Fatalf("seed %d, %d rounds, %d states: complete %v without the best plan", seed, rounds, width, complete)
				case complete:
					decided++
				default:
					cut++
				}
				if plan != nil && (m.legal(plan, len(m.capacity), false) != nil || m.worths(plan) != best) {
					t.Fatalf("seed %d, %d rounds, %d states: the plan %v is worth %d; want %d", seed, rounds, width, plan, m.worths(plan), best)
				}
			}
		}
		s := a.newSearch(newEffort(t.Context(), Options{}), 0)
		if s.target, s.bits = best-1, 0; a.look(s) == nil {
			t.Fatalf("seed %d: nothing is worth the optimum to a search that rounds ever less", seed)
		}
		if a.better(newEffort(t.Context(), Options{}), math.Ldexp(float64(best-1<<20), -m.unit)) == nil {
			t.Fatalf("seed %d: nothing is worth the optimum", seed)
		}
	}
	if t.Logf("%d complete, %d cut off, %d rounded", decided, cut, rounded); min(decided, cut, 2*rounded) < 200 {
		t.Error("too few of one kind")
	}
}

// TestManyMembers looks for ever better plans of as many members as a state has room for row by row, and of
// one more, until there is none.
func TestManyMembers(t *testing.T) {
	t.Parallel()
	for jobs := mostSteps; jobs <= mostSteps+1; jobs++ {
		r := rand.New(rand.NewPCG(uint64(jobs), 7))
		snapshot := &elastallocv1.Snapshot{TotalNodes: 40, Horizon: &elastallocv1.Horizon{Steps: new(int32(2))}}
		for n := range jobs {
			snapshot.Jobs = append(snapshot.Jobs, &elastallocv1.Job{
				Id: fmt.Sprint(n), RemainingEta: durationpb.New(time.Duration(300+300*r.Float64()) * time.Second), AllowedNodes: []int32{1, 2, 4},
			})
		}
		s, err := read(&elastallocv1.AllocateRequest{Snapshot: snapshot})
		if err != nil {
			t.Fatal(err)
		}
		m, err := newModel(s, 10, nil, newEffort(t.Context(), Options{}))
		if err != nil {
			t.Fatal(err)
		}
		c := (&answer{model: m}).newSearch(newEffort(t.Context(), Options{}), 0)
		if !c.reduce() || !c.sweep(10) || len(c.open) != jobs {
			t.Fatalf("%d of %d jobs are open", len(c.open), jobs)
		}
		best := int64(0)
		for plan := [][]int{}; plan != nil; {
			c.bits, c.target = 0, best
			if plan, _ = c.solve(); plan != nil {
				best = m.worths(plan)
			}
		}
		if plan, complete := c.run(mostStates, false); plan != nil || !complete {
			t.Errorf("%d jobs: %v is worth more than the optimum", jobs, plan)
		}
	}
}

// TestPaths compares the best plan of a member, at any prices, with what its labels say and
// with what is left of its paths that are worth a unit less.
func TestPaths(t *testing.T) {
	t.Parallel()
	compared := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 6))
		m := drawModel(t, r)
		if r.IntN(2) == 0 {
			m.coarsen()
		}
		c := (&answer{model: m}).newSearch(newEffort(t.Context(), Options{}), 0)
		for i := range m.members {
			p := &plans{search: c, member: &m.members[i]}
			for _, row := range p.rows {
				for n, share := range row.share {
					if units := math.Ldexp(float64(row.units[n]), -workBits); units < share*(1+0x1p-42) {
						t.Fatalf("seed %d, job %d: %v of the work are %v in units", seed, i, share, units)
					}
				}
			}
			for range m.capacity {
				row := make([]int64, len(p.member.sizes))
				for n, k := range p.member.sizes {
					row[n] = -int64(float64(k) * r.Float64() * math.Ldexp(0.1, m.unit))
				}
				p.add = append(p.add, row)
			}
			if p.byStep {
				continue
			}
			alone := *m
			alone.members = m.members[i : i+1]
			best := alone.best(func(plan [][]int) (v int64) {
				for t, k := range plan[0] {
					v += p.add[t][slices.Index(p.member.sizes, k)]
				}
				return v
			})
			if got := p.best(); got != best {
				t.Fatalf("seed %d, job %d: the labels say %d; the best plan is worth %d", seed, i, got, best)
			}
			if c.bits = -3; p.best() < best {
				t.Fatalf("seed %d, job %d: merged labels say less than %d", seed, i, best)
			}
			c.bits = fewestBits
			if got := p.above(best - 1).behind(p)[0][0]; got != best {
				t.Fatalf("seed %d, job %d: the best path is worth %d; the best plan %d", seed, i, got, best)
			}
			compared++
		}
	}
	if t.Log(compared); compared < 3000 {
		t.Error("too few")
	}
}

// TestRounding checks on which side what no plan of a test would show is rounded.
func TestRounding(t *testing.T) {
	t.Parallel()
	for _, full := range []int64{1, 3, 1 << 14, 1<<55 + 1} {
		j := &member{full: full}
		for _, served := range []int64{1, done/3 + 1, done - 1, done} {
			exact := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(full), big.NewInt(served)), big.NewInt(done))
			if over := new(big.Rat).Sub(new(big.Rat).SetInt64(j.gain(served)), exact); over.Sign() < 0 || over.Cmp(big.NewRat(1, 1)) >= 0 {
				t.Errorf("%d of %d units gain %d of %d", served, done, j.gain(served), full)
			}
		}
	}
	m := &model{quotaPrice: 0.3, slack: 0x1p-41, unit: 40, floors: []int{9}, short: []int{4}}
	for nodes, short := range []float64{5, 4, 3, 2, 1, 0, -1, -2, -3, -4, -4} {
		if v := m.up(math.Ldexp(short, -41), 0); float64(v) < short/2 {
			t.Errorf("%v are %d units; want no less", short/2, v)
		}
		if cost, exact := float64(m.shortCost(0, nodes)), math.Ldexp(0.3*short, 40); cost > exact || cost < exact-math.Abs(exact)*0x1p-39-1 {
			t.Errorf("%v nodes more below the floor cost %v units; want %v, rounded down", short, cost, exact)
		}
	}
	if m.unit = 80; m.shortCost(0, 0) != -never {
		t.Errorf("more than there can be is %v units", m.shortCost(0, 0))
	}
}

// TestRelate checks that a plan against which others are held rounds nothing, and these as both do.
func TestRelate(t *testing.T) {
	t.Parallel()
	r := &row{share: []float64{0, 0}, fixed: []float64{1, 3}, magnitude: []float64{2, 5}}
	m := &model{snapshot: &snapshot{nodes: []int{1}}, members: []member{{job: &job{group: -1}, waits: true, sizes: []int{0, 1}, rows: []*row{r}}}}
	if m.relate([][]int{{1}}); !slices.Equal(r.fixed, []float64{-2, 0}) || !slices.Equal(r.magnitude, []float64{7, 0}) {
		t.Errorf("sizes are worth %v, added up from %v", r.fixed, r.magnitude)
	}
}

// TestUsable checks that a size stays which a plan can have if what it is worth was added up wrongly.
func TestUsable(t *testing.T) {
	t.Parallel()
	m := &model{snapshot: &snapshot{nodes: []int{1}, steps: 1}, slack: 0x1p-41, claim: 1}
	for range 2 {
		r := &row{share: []float64{0, 0}, fixed: []float64{-3, -3}, magnitude: []float64{0x1p42, 0}}
		m.members = append(m.members, member{rows: []*row{r}, usable: [][]int{{0, 1}}})
	}
	if m.scale(); !slices.Equal(m.members[0].usable[0], []int{0}) {
		t.Errorf("what stays is %v", m.members[0].usable[0])
	}
}

// TestWithin checks which numbers the search goes on with, and that a sum of many is not less.
func TestWithin(t *testing.T) {
	t.Parallel()
	for v, want := range map[int64]bool{never: true, never / 4: false, never/4 + 1: true, -never/4 - 1: true, -never / 4: false, 2 * never: false} {
		func() {
			defer func() {
				if stops := recover() != nil; stops == want {
					t.Errorf("%d stops the search: %v", v, stops)
				}
			}()
			within([]int64{0, v})
		}()
	}
	s := &search{behind: [][][]int64{{{0}}}}
	for range 64 {
		s.open = append(s.open, &plans{kept: -never/4 - 1})
	}
	if got := s.known(); got != -never {
		t.Errorf("64 members who are worth the most together are worth %d", got)
	}
}
