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

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
)

// randomSpan returns a log-uniform number of seconds.
func randomSpan(r *rand.Rand, low, high float64) *durationpb.Duration {
	return durationpb.New(time.Duration(low * math.Pow(high/low, r.Float64()) * 1e9))
}

// modelKind is what a random model consists of. The numbers without a name are of models over several steps.
type modelKind int

const (
	onTypes        modelKind = 0
	inGroups       modelKind = 1
	limited        modelKind = 4
	limitedOnTypes modelKind = 5
)

func (k modelKind) typed() bool     { return k == onTypes || k == limitedOnTypes }
func (k modelKind) hasLimits() bool { return k == limited || k == limitedOnTypes }
func (k modelKind) oneStep() bool   { return k == inGroups || k.typed() || k.hasLimits() }

// addJob adds a random job to the snapshot of a model.
func (k modelKind) addJob(r *rand.Rand, s *elastallocv1.Snapshot) {
	n := len(s.Jobs)
	j := &elastallocv1.Job{
		Id: fmt.Sprint(n), RemainingEta: randomSpan(r, 300, 4000), Weight: new(0.5 + r.Float64()), TrainingTime: randomSpan(r, 1, 1000),
	}
	table := &elastallocv1.SpeedTable{}
	for size := int32(1); len(table.Speeds) < 2+r.IntN(2); size += 1 + r.Int32N(3) {
		j.AllowedNodes, table.Speeds = append(j.AllowedNodes, size), append(table.Speeds, float64(size)*(0.5+r.Float64()/2))
	}
	j.Scaling = &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: table}}
	if r.IntN(2) == 0 {
		j.CurrentNodes = 1 + r.Int32N(3)
		if k.typed() {
			j.CurrentNodeType, j.MoveTime = "0", randomSpan(r, 10, 1000)
		}
	}
	if k.typed() && n > 0 && r.IntN(3) > 0 { // An identical job.
		j = proto.CloneOf(s.Jobs[n-1])
		j.Id = fmt.Sprint(n)
	}
	if k.oneStep() {
		j.EtaError = new(0.5)
	}
	if k.hasLimits() && r.IntN(2) == 0 {
		j.PieceNodes = new(1 + r.Int32N(4))
	}
	if k == inGroups {
		j.GroupId = fmt.Sprint(r.IntN(2))
	}
	s.Jobs = append(s.Jobs, j)
}

// randomModel returns the model of a random request with few jobs: over few steps, on several node
// types, in groups, or with size limits.
func randomModel(t *testing.T, r *rand.Rand) *model {
	t.Helper()
	snapshot, options := &elastallocv1.Snapshot{}, &elastallocv1.AllocateOptions{
		Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, Admission: elastallocv1.Admission_ADMISSION_PREEMPTIVE,
	}
	steps := 2 + r.IntN(3)
	snapshot.TotalNodes, snapshot.Horizon = int32(3+r.IntN(8)), &elastallocv1.Horizon{Steps: new(int32(steps))}
	kind := modelKind(r.IntN(6))
	if kind.oneStep() {
		steps, options.Objective = 2, elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
	}
	switch kind {
	case onTypes, limitedOnTypes:
		snapshot.TotalNodes = 0
		for n := range 2 + r.IntN(3) {
			snapshot.NodeTypes = append(snapshot.NodeTypes, &elastallocv1.NodeType{
				Id: fmt.Sprint(n), Nodes: int32(r.IntN(6)), Speed: new(0.5 + 2*r.Float64()),
			})
		}
	case inGroups:
		for n := range 3 {
			snapshot.Groups = append(snapshot.Groups, &elastallocv1.Group{Id: fmt.Sprint(n), Quota: r.Int32N(8), Limit: new(2 + r.Int32N(8))})
		}
		snapshot.Groups[0].ParentId = "2"
	}
	if kind.hasLimits() {
		options.Admission = max(elastallocv1.Admission_ADMISSION_FIFO, elastallocv1.Admission(r.IntN(5)))
		for size := int32(2); size < 6; size += 1 + r.Int32N(2) {
			l := &elastallocv1.SizeLimit{Size: size, Nodes: r.Int32N(9)}
			if kind.typed() {
				l.NodeType = snapshot.NodeTypes[r.IntN(len(snapshot.NodeTypes))].GetId()
			}
			snapshot.SizeLimits = append(snapshot.SizeLimits, l)
		}
	}
	for range 2 + r.IntN(7-steps) {
		kind.addJob(r, snapshot)
	}
	s, err := parseRequest(&elastallocv1.AllocateRequest{Snapshot: snapshot, Options: options})
	if err != nil {
		t.Fatal(err)
	}
	m, err := newModel(s, 10, nil, newBudget(t.Context(), Options{}))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// coarsen reduces all values to a few units, so that many are equal.
func (m *model) coarsen() {
	m.valueExp -= 48
	for i := range m.members {
		m.members[i].completionUnits = m.toUnits(m.members[i].completionValue, m.members[i].completionValue)
	}
}

// memberValue returns the value of a plan of a member in units.
func (m *model) memberValue(j *member, nodes []int) (v int64) {
	if m.coupled() {
		t := max(0, slices.IndexFunc(nodes[:len(m.nodes)], func(k int) bool { return k > 0 }))
		n := slices.Index(j.sizes, nodes[t])
		return m.toUnits(j.rows[t].value[n], j.rows[t].magnitude[n])
	}
	work := int64(0)
	for t, k := range nodes {
		n := slices.Index(j.sizes, k)
		if j.separable {
			v += m.rowValue(j, t, n)
			continue
		}
		work = j.workAfter(work, t, n)
		v += j.completionGain(work)
	}
	return v
}

// planValue returns the value of a plan in units.
func (m *model) planValue(plan [][]int) (v int64) {
	for i := range plan {
		v += m.memberValue(&m.members[i], plan[i])
	}
	for g, nodes := range m.groupNodes(plan, 0) {
		v -= m.shortageCost(g, nodes)
	}
	return v
}

// combinations returns the number of plans that best enumerates.
func (m *model) combinations() float64 {
	combinations := 1.0
	for i := range m.members {
		if sizes := len(m.members[i].sizes); m.coupled() {
			combinations *= float64(len(m.nodes)*(sizes-1) + 1)
		} else {
			combinations *= math.Pow(float64(sizes), float64(len(m.capacity)))
		}
	}
	return combinations
}

// best returns the largest value of a legal plan plus what add returns for it, by enumeration.
func (m *model) best(add func(plan [][]int) int64) int64 {
	largest := int64(infeasible)
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
			if m.checkLegal(plan, len(m.capacity), false) == nil {
				largest = max(largest, add(plan)+m.planValue(plan))
			}
			return
		}
		if m.coupled() { // One number of nodes of one type, or none.
			j := &m.members[i]
			for nodeType := range m.nodes {
				for _, k := range j.sizes {
					if k > 0 || nodeType == 0 {
						plan[i] = m.usageByRow(j.job, nodeType, k)
						walk(i+1, 0)
					}
				}
			}
			return
		}
		for _, k := range m.members[i].sizes {
			plan[i][t] = k
			walk(i, t+1)
		}
	}
	walk(0, 0)
	return largest
}

// searchCounts counts what the searches of TestSearch did.
type searchCounts struct{ decided, cut, rounded, limited int }

// TestSearch searches for a plan that exceeds the optimum minus one unit. A search that reports itself
// complete must find the best plan, at any prices, with any limit of states and any rounding of work.
func TestSearch(t *testing.T) {
	t.Parallel()
	seeds, counts := testtier.Conformance.Examples(200, 1200), searchCounts{}
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 5))
		m := randomModel(t, r)
		if m.combinations() > 20_000 {
			continue
		}
		if m.totalTime != nil && r.IntN(2) == 0 {
			checkRebase(t, seed, r, m)
			m.setUnit()
		} else if m.coupled() {
			changeValues(r, m)
			m.setUnit()
		}
		if r.IntN(2) == 0 {
			m.coarsen()
		}
		if len(m.rowLimits) > 0 {
			counts.limited++
		}
		best := m.best(func([][]int) int64 { return 0 })
		checkSearches(t, seed, r, &decision{model: m, report: randomPrices(r, m, best)}, best, &counts)
	}
	t.Logf("%d complete, %d cut off, %d rounded, %d with size limits", counts.decided, counts.cut, counts.rounded, counts.limited)
	if min(counts.decided, counts.cut, 2*counts.rounded, 2*counts.limited) < seeds/6 {
		t.Error("too few cases of one kind")
	}
}

// checkRebase compares plans with a random base plan: the difference of their values must stay the same.
func checkRebase(t *testing.T, seed uint64, r *rand.Rand, m *model) {
	t.Helper()
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
	m.rebase(plans[than])
	for n, plan := range plans {
		if got, _ := m.objective(plan); math.Abs(got-(worth[n]-worth[than])) > 1e-9 {
			t.Fatalf("seed %d: compared with %v, the value of %v is %v; want %v", seed, plans[than], plan, got, worth[n]-worth[than])
		}
	}
}

// changeValues gives waiting a value, and may give the second job the same values as the first on fewer nodes.
func changeValues(r *rand.Rand, m *model) {
	for i := range m.members {
		for _, row := range m.members[i].rows {
			row.value[0] += 0.2
		}
	}
	if r.IntN(2) == 0 && len(m.limits) == 0 {
		first, second := &m.members[0], &m.members[1]
		second.canWait, second.rows, second.usable, second.sizes = first.canWait, first.rows, first.usable, first.sizes
		first.sizes = slices.Clone(first.sizes)
		for n := 1; n < len(first.sizes); n++ {
			first.sizes[n]++
		}
	}
}

// randomPrices returns a report with random prices of nodes, size limits and sizes, some of which are no numbers.
func randomPrices(r *rand.Rand, m *model, best int64) *elastallocv1.SolveReport {
	report := &elastallocv1.SolveReport{Certificate: new(elastallocv1.Certificate)}
	price := func(share float64) float64 { return math.Ldexp(float64(best)*share, -m.valueExp) }
	for range m.limits {
		report.SizeLimits = append(report.SizeLimits, &elastallocv1.SizeLimitReport{Price: price(r.Float64() / 20)})
	}
	for range m.capacity {
		report.NodePrices = append(report.NodePrices, price(r.Float64()/20))
	}
	for i := range m.members {
		of := &elastallocv1.Certificate_SizePrices{Job: int32(m.members[i].index)}
		for range len(m.capacity) * len(m.members[i].sizes) {
			of.Prices = append(of.Prices, price((r.Float64()-0.3)/5))
		}
		if r.IntN(8) == 0 {
			of.Prices[r.IntN(len(of.Prices))] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64}[r.IntN(4)]
		}
		if r.IntN(2) == 0 {
			report.Certificate.SizePrices = append(report.Certificate.SizePrices, of)
		}
	}
	return report
}

// checkSearches searches for a plan that exceeds the optimum minus one unit, in every way.
func checkSearches(t *testing.T, seed uint64, r *rand.Rand, d *decision, best int64, counts *searchCounts) {
	t.Helper()
	for n, rounds := range []int{0, maxRounds, 0, maxRounds, maxRounds} {
		s := d.newSearch(newBudget(t.Context(), Options{}), 0)
		if s.target, s.precision = best-1, []int{minPrecision, minPrecision, 0, 2, 0}[n]; n == 4 { // The highest prices.
			for t := range s.nodePrices {
				s.nodePrices[t] = r.Int64N(int64(maxPrices/(len(s.nodePrices)*(s.width[t]+1)))) + 1
			}
		}
		if !s.reduce() {
			t.Fatalf("seed %d, %d bits: no plan reaches the optimum", seed, s.precision)
		}
		if from := s.clonePrices(); !s.sweep(rounds) || s.extrapolate(from, s.currentBound()) <= s.target {
			t.Fatalf("seed %d, %d rounds, %d bits: no plan reaches the optimum", seed, rounds, s.precision)
		}
		if slices.ContainsFunc(s.open, func(p *candidates) bool { return p.paths.rounded }) {
			counts.rounded++
		}
		rounding := s.precision
		if plan, decided := s.solve(); decided && plan == nil {
			t.Fatalf("seed %d, %d rounds, %d bits: the search wrongly proves that no plan reaches the optimum", seed, rounds, rounding)
		}
		for n, width := range []int{1, 2, 4, 1 << maxPrecision, 1, 2, 4, 1 << maxPrecision} {
			plan, complete := s.run(width, n < 4)
			if err := d.checkFound(plan, complete, width, best); err != nil {
				t.Fatalf("seed %d, %d rounds, %d states: %v", seed, rounds, width, err)
			}
			if complete {
				counts.decided++
			} else {
				counts.cut++
			}
		}
	}
	s := d.newSearch(newBudget(t.Context(), Options{}), 0)
	if s.target, s.precision = best-1, 0; d.refine(s) == nil {
		t.Fatalf("seed %d: no plan reaches the optimum in a search with increasing precision", seed)
	}
	if d.findBetter(newBudget(t.Context(), Options{}), math.Ldexp(float64(best-1<<20), -d.valueExp)) == nil {
		t.Fatalf("seed %d: no plan reaches the optimum", seed)
	}
}

// checkFound checks that a search with enough states is complete, that a complete search finds a plan, and that a plan
// is the best one.
func (m *model) checkFound(plan [][]int, complete bool, width int, best int64) error {
	if !complete && width == maxStates || complete && plan == nil {
		return fmt.Errorf("complete %v without the best plan", complete)
	}
	if plan != nil && (m.checkLegal(plan, len(m.capacity), false) != nil || m.planValue(plan) != best) {
		return fmt.Errorf("the plan %v is worth %d; want %d", plan, m.planValue(plan), best)
	}
	return nil
}

// TestManyMembers searches for better plans until there is none, with as many open members as a stateKey
// fits row by row, and with one more.
func TestManyMembers(t *testing.T) {
	t.Parallel()
	for jobs := maxSteps; jobs <= maxSteps+1; jobs++ {
		r := rand.New(rand.NewPCG(uint64(jobs), 7))
		snapshot := &elastallocv1.Snapshot{TotalNodes: 40, Horizon: &elastallocv1.Horizon{Steps: new(int32(2))}}
		for n := range jobs {
			snapshot.Jobs = append(snapshot.Jobs, &elastallocv1.Job{
				Id: fmt.Sprint(n), RemainingEta: durationpb.New(time.Duration(300+300*r.Float64()) * time.Second), AllowedNodes: []int32{1, 2, 4},
			})
		}
		s, err := parseRequest(&elastallocv1.AllocateRequest{
			Snapshot: snapshot, Options: &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS},
		})
		if err != nil {
			t.Fatal(err)
		}
		m, err := newModel(s, 10, nil, newBudget(t.Context(), Options{}))
		if err != nil {
			t.Fatal(err)
		}
		c := (&decision{model: m}).newSearch(newBudget(t.Context(), Options{}), 0)
		if !c.reduce() || !c.sweep(10) || len(c.open) != jobs {
			t.Fatalf("%d of %d jobs are open", len(c.open), jobs)
		}
		best := int64(0)
		for plan := [][]int{}; plan != nil; {
			c.precision, c.target = 0, best
			if plan, _ = c.solve(); plan != nil {
				best = m.planValue(plan)
			}
		}
		if plan, complete := c.run(maxStates, false); plan != nil || !complete {
			t.Errorf("%d jobs: %v is worth more than the optimum", jobs, plan)
		}
	}
}

// TestPaths compares the best plan of a member, at any prices, with the bound from its labels and with the
// paths whose values exceed that of the best plan minus one unit.
func TestPaths(t *testing.T) {
	t.Parallel()
	compared := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 6))
		m := randomModel(t, r)
		if r.IntN(2) == 0 {
			m.coarsen()
		}
		c := (&decision{model: m}).newSearch(newBudget(t.Context(), Options{}), 0)
		for i := range m.members {
			p := &candidates{search: c, member: &m.members[i]}
			for _, row := range p.rows {
				for n, share := range row.fraction {
					if units := math.Ldexp(float64(row.work[n]), -workBits); units < share*(1+0x1p-42) {
						t.Fatalf("seed %d, job %d: %v of the work are %v in units", seed, i, share, units)
					}
				}
			}
			for range m.capacity {
				row := make([]int64, len(p.sizes))
				for n, k := range p.sizes {
					row[n] = -int64(float64(k) * r.Float64() * math.Ldexp(0.1, m.valueExp))
				}
				p.adjust = append(p.adjust, row)
			}
			if !p.separable {
				checkLabels(t, fmt.Sprintf("seed %d, job %d", seed, i), m, p, i)
				compared++
			}
		}
	}
	if t.Log(compared); compared < 3000 {
		t.Error("too few")
	}
}

// checkLabels compares the best plan of member i with its labels, its merged labels and its paths.
func checkLabels(t *testing.T, name string, m *model, p *candidates, i int) {
	t.Helper()
	alone := *m
	alone.members = m.members[i : i+1]
	best := alone.best(func(plan [][]int) (v int64) {
		for t, k := range plan[0] {
			if k > 0 && m.coupled() { // Some of the nodes may count.
				k = slices.Max(plan[0][:len(m.nodes)])
			}
			v += p.adjust[t][slices.Index(p.sizes, k)]
		}
		return v
	})
	if got := p.bestValue(); got != best {
		t.Fatalf("%s: the labels have the value %d; the best plan has %d", name, got, best)
	}
	if p.precision = -3; p.bestValue() < best {
		t.Fatalf("%s: the merged labels have less than %d", name, best)
	}
	p.precision = minPrecision
	if got := p.pathsAbove(best - 1).backward(p)[0][0]; got != best {
		t.Fatalf("%s: the best path has the value %d; the best plan has %d", name, got, best)
	}
}

// TestRounding checks the direction of roundings that are too small to change the plan of another test.
func TestRounding(t *testing.T) {
	t.Parallel()
	for _, full := range []int64{1, 3, 1 << 14, 1<<55 + 1} {
		j := &member{completionUnits: full}
		for _, served := range []int64{1, allWork/3 + 1, allWork - 1, allWork} {
			exact := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(full), big.NewInt(served)), big.NewInt(allWork))
			if over := new(big.Rat).Sub(new(big.Rat).SetInt64(j.completionGain(served)), exact); over.Sign() < 0 || over.Cmp(big.NewRat(1, 1)) >= 0 {
				t.Errorf("%d of %d units of work have the value %d of %d", served, allWork, j.completionGain(served), full)
			}
		}
	}
	m := &model{quotaPrice: 0.3, relativeError: 0x1p-41, valueExp: 40, floors: []int{9}, baseShortage: []int{4}}
	for nodes, short := range []float64{5, 4, 3, 2, 1, 0, -1, -2, -3, -4, -4} {
		if v := m.toUnits(math.Ldexp(short, -41), 0); float64(v) < short/2 {
			t.Errorf("%v is %d units; must be rounded up", short/2, v)
		}
		if cost, exact := float64(m.shortageCost(0, nodes)), math.Ldexp(0.3*short, 40); cost > exact || cost < exact-math.Abs(exact)*0x1p-39-1 {
			t.Errorf("%v nodes more below the floor cost %v units; want %v, rounded down", short, cost, exact)
		}
	}
	if m.valueExp = 80; m.shortageCost(0, 0) != -infeasible {
		t.Errorf("more than there can be is %v units", m.shortageCost(0, 0))
	}
}

// TestRebase checks that the value of the base plan is exactly 0, and that other plans have the rounding
// errors of both.
func TestRebase(t *testing.T) {
	t.Parallel()
	r := &sizeValues{fraction: []float64{0, 0}, value: []float64{1, 3}, magnitude: []float64{2, 5}}
	m := &model{
		snapshot: &snapshot{nodes: []int{1}},
		members:  []member{{job: &job{group: -1}, canWait: true, sizes: []int{0, 1}, rows: []*sizeValues{r}}},
	}
	if m.rebase([][]int{{1}}); !slices.Equal(r.value, []float64{-2, 0}) || !slices.Equal(r.magnitude, []float64{7, 0}) {
		t.Errorf("the values of sizes are %v with the magnitudes %v", r.value, r.magnitude)
	}
}

// TestUsable checks that a size stays usable if rounding errors explain its low value.
func TestUsable(t *testing.T) {
	t.Parallel()
	m := &model{snapshot: &snapshot{nodes: []int{1}, steps: 1}, relativeError: 0x1p-41, claim: 1}
	for range 2 {
		r := &sizeValues{fraction: []float64{0, 0}, value: []float64{-3, -3}, magnitude: []float64{0x1p42, 0}}
		m.members = append(m.members, member{rows: []*sizeValues{r}, usable: [][]int{{0, 1}}})
	}
	if m.setUnit(); !slices.Equal(m.members[0].usable[0], []int{0}) {
		t.Errorf("the usable sizes are %v", m.members[0].usable[0])
	}
}

// TestCheckRange checks which numbers abort the search, and that a large sum of them saturates.
func TestCheckRange(t *testing.T) {
	t.Parallel()
	for v, want := range map[int64]bool{
		infeasible: true, infeasible / 4: false, infeasible/4 + 1: true, -infeasible/4 - 1: true, -infeasible / 4: false, 2 * infeasible: false,
	} {
		func() {
			defer func() {
				if stops := recover() != nil; stops == want {
					t.Errorf("%d stops the search: %v", v, stops)
				}
			}()
			checkRange([]int64{0, v})
		}()
	}
	s := &search{suffix: [][][]int64{{{0}}}}
	for range 64 {
		s.open = append(s.open, &candidates{best: -infeasible/4 - 1})
	}
	if got := s.currentBound(); got != -infeasible {
		t.Errorf("the bound of 64 members with the largest values is %d", got)
	}
}
