package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	compare "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/client/placement"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/solver"
)

// rack contains the machines of a pool in tests.
type rack struct {
	nodes []placement.Node
	sizes []int
}

// Place places jobs with package client/placement.
func (r rack) Place(kept, jobs []PlacedJob) ([]map[string]int, error) {
	nodes := slices.Clone(r.nodes)
	for n := range nodes {
		for _, job := range kept {
			nodes[n].Free -= job.On[nodes[n].ID]
		}
	}
	var placing []placement.Job
	for _, job := range jobs {
		placing = append(placing, placement.Job{ID: job.ID, Units: job.Nodes, On: job.On})
	}
	placed, err := placement.Place(nodes, r.sizes, placing)
	var limit *placement.LimitError
	if errors.As(err, &limit) {
		return nil, &NoPlaceError{Size: limit.Size}
	}
	var on []map[string]int
	for _, job := range jobs {
		on = append(on, placed.On[job.ID])
	}
	return on, err
}

// limits returns the size limits of the machines, which are of a node type.
func (r rack) limits(t *rapid.T, nodeType string) (limits []solver.SizeLimit) {
	list, err := placement.Limits(r.nodes, r.sizes)
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range list {
		limits = append(limits, solver.SizeLimit{Size: int(limit.GetSize()), Nodes: int(limit.GetNodes()), NodeType: nodeType})
	}
	return limits
}

// machineLimits returns the size limits of all machines of randomMachines.
func machineLimits(t *rapid.T, placer Placer) []solver.SizeLimit {
	if types, typed := placer.(racks); typed {
		return append(types["fast"].limits(t, "fast"), types["slow"].limits(t, "slow")...)
	}
	return placer.(rack).limits(t, "")
}

// racks contains the machines of a pool by node type.
type racks map[string]rack

// Place places jobs on the machines of their types.
func (r racks) Place(kept, jobs []PlacedJob) ([]map[string]int, error) {
	of := func(jobs []PlacedJob, nodeType string) (list []PlacedJob, at []int) {
		for n := range jobs {
			if jobs[n].NodeType == nodeType {
				list, at = append(list, jobs[n]), append(at, n)
			}
		}
		return list, at
	}
	on := make([]map[string]int, len(jobs))
	for nodeType, there := range r {
		keptThere, _ := of(kept, nodeType)
		placing, at := of(jobs, nodeType)
		placed, err := there.Place(keptThere, placing)
		var none *NoPlaceError
		if errors.As(err, &none) {
			return nil, &NoPlaceError{Size: none.Size, NodeType: nodeType}
		}
		if err != nil {
			return nil, err
		}
		for k, n := range at {
			on[n] = placed[k]
		}
	}
	return on, nil
}

// units returns the units of the largest machine.
func (r rack) units() int {
	return slices.MaxFunc(r.nodes, func(a, b placement.Node) int { return a.Units - b.Units }).Units
}

// machines returns the number of machines of the largest block.
func (r rack) machines() (largest int) {
	for _, node := range r.nodes {
		count := 0
		for _, other := range r.nodes {
			if other.Block == node.Block {
				count++
			}
		}
		largest = max(largest, count)
	}
	return largest
}

// cap returns the maximum number of units of pieces of a size, given the free units of each machine.
func (r rack) cap(size int, free map[string]int) int {
	sum, whole := 0, map[string]int{}
	for _, node := range r.nodes {
		sum += free[node.ID] / size * size
		if free[node.ID] == r.units() {
			whole[node.Block]++
		}
	}
	if size <= r.units() {
		return sum
	}
	sum = 0
	for _, machines := range whole {
		sum += machines / (size / r.units()) * size
	}
	return sum
}

// piece returns the size of the pieces of an allocation.
func (r rack) piece(nodes int) int {
	for nodes > r.units()*r.machines() {
		nodes /= 2
	}
	return nodes
}

// literalPlace changes allocations until they have a placement, by the conditions of the theorem, and
// returns whether it changed any, and which jobs with the same nodes move.
func literalPlace(t *rapid.T, config *Config, s *solver.Snapshot, jobs []*literalJob, to []allocation) (reduced bool, moved []bool) {
	moved = make([]bool, len(jobs))
	if r, untyped := config.Placer.(rack); untyped {
		return literalPlaceOn(t, r, "", config, s, jobs, to, moved), moved
	}
	for nodeType, r := range config.Placer.(racks) {
		reduced = literalPlaceOn(t, r, nodeType, config, s, jobs, to, moved) || reduced
	}
	for i, job := range jobs {
		if to[i].nodes == 0 {
			job.on = nil
		}
	}
	return reduced, moved
}

// literalPlaceOn places the jobs of a node type, "" if there are none. It notes the jobs that move and returns whether
// it changed allocations.
func literalPlaceOn(
	t *rapid.T, r rack, nodeType string, config *Config, s *solver.Snapshot, jobs []*literalJob, to []allocation, moved []bool,
) (reduced bool) {
	for {
		free, kept, placing := r.split(nodeType, config.NeverMove, jobs, to)
		broken := r.brokenSize(placing, free)
		if broken == 0 {
			on, err := r.Place(kept, placing)
			if err != nil {
				t.Fatalf("the conditions are met, but Place fails: %v", err)
			}
			for k, placed := range placing {
				i := slices.IndexFunc(jobs, func(j *literalJob) bool { return j.ID == placed.ID })
				before := jobs[i].nodesOn(nodeType)
				moved[i] = before > 0 && before == placed.Nodes && !compare.Equal(jobs[i].on, on[k])
				jobs[i].on = on[k]
			}
			return reduced
		}
		reduceNewest(nodeType, broken, s, jobs, to)
		reduced = true
	}
}

// nodesOn returns the nodes of a job on a node type.
func (j *literalJob) nodesOn(nodeType string) int {
	if j.nodeType != nodeType {
		return 0
	}
	return j.nodes
}

// split returns the jobs on a node type that keep their places, those that are placed, and the free units for them on
// each machine. Without moves, a job with as many nodes as before keeps its places.
func (r rack) split(nodeType string, neverMove bool, jobs []*literalJob, to []allocation) (free map[string]int, kept, placing []PlacedJob) {
	free = map[string]int{}
	for _, node := range r.nodes {
		free[node.ID] = node.Free
	}
	for i, job := range jobs {
		if to[i].nodeType != nodeType {
			continue
		}
		placed, before := PlacedJob{ID: job.ID, Nodes: to[i].nodes}, job.nodesOn(nodeType)
		if before > 0 {
			placed.On = job.on
		}
		if !neverMove || before == 0 || to[i].nodes != before {
			placing = append(placing, placed)
			continue
		}
		kept = append(kept, placed)
		for id, units := range job.on {
			free[id] -= units
		}
	}
	return free, kept, placing
}

// brokenSize returns the smallest size of pieces whose condition of the theorem the jobs break, or 0.
func (r rack) brokenSize(jobs []PlacedJob, free map[string]int) int {
	for size := 1; size <= 32; size *= 2 {
		sum := 0
		for _, job := range jobs {
			if r.piece(job.Nodes) >= size {
				sum += job.Nodes
			}
		}
		if sum > r.cap(size, free) {
			return size
		}
	}
	return 0
}

// reduceNewest reduces the smallest allocation of at least a size that grows, the newest among equal ones, to the next
// smaller legal size or the size before.
func reduceNewest(nodeType string, size int, s *solver.Snapshot, jobs []*literalJob, to []allocation) {
	var growing []int
	for i := range jobs {
		if to[i].nodeType == nodeType && to[i].nodes > jobs[i].nodesOn(nodeType) && to[i].nodes >= size {
			growing = append(growing, i)
		}
	}
	slices.SortFunc(growing, func(a, b int) int { return cmp.Or(to[a].nodes-to[b].nodes, b-a) })
	newest := growing[0]
	sizes := slices.DeleteFunc(s.Jobs[newest].LegalSizes(), func(legal int) bool { return legal >= to[newest].nodes })
	to[newest].nodes = slices.Max(append(sizes, jobs[newest].nodesOn(nodeType)))
	if to[newest].nodes == 0 {
		to[newest] = allocation{}
	}
}

// checkTogether checks that no machine has more units in use than it has, that each job has its nodes, and
// that each of its pieces is on one machine, or on whole machines of one block.
func checkTogether(t *rapid.T, r rack, jobs []*literalJob) {
	used := map[string]int{}
	for _, job := range jobs {
		total, blocks := 0, map[string]int{}
		for id, units := range job.on {
			node := r.nodes[slices.IndexFunc(r.nodes, func(n placement.Node) bool { return n.ID == id })]
			if used[id] += units; used[id] > node.Free {
				t.Fatalf("%s has %d of %d units in use", id, used[id], node.Free)
			}
			if job.nodes > r.units() && units != r.units() {
				t.Fatalf("%s has %d nodes, and %d units of %s", job.ID, job.nodes, units, id)
			}
			total += units
			blocks[node.Block] += units
		}
		if total != job.nodes || job.nodes <= r.units() && len(job.on) > 1 {
			t.Fatalf("%s has %d nodes and is placed on %v", job.ID, job.nodes, job.on)
		}
		for block, units := range blocks {
			if units%r.piece(job.nodes) != 0 {
				t.Fatalf("%s has %d nodes in pieces of %d, %d of them in block %q", job.ID, job.nodes, r.piece(job.nodes), units, block)
			}
		}
	}
}

// randomMachines configures a pool of machines of 4 units, with two node types if typed is set, and returns enough jobs to fill it.
func randomMachines(t *rapid.T, config *Config, typed bool) Workload {
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	seconds := func(n int) time.Duration { return time.Duration(random.IntN(n)) * time.Second }
	r := randomRack(random, config)
	config.Placer, config.NeverMove = r, random.IntN(2) == 0
	machines := len(r.nodes)
	if typed {
		fast := config.Nodes - config.Unavailable
		slow := randomRack(random, config)
		config.NodeTypes = []solver.NodeType{
			{ID: "fast", Nodes: fast, Speed: 2.5}, {ID: "slow", Nodes: config.Nodes - config.Unavailable - fast, Speed: 1},
		}
		config.Placer = racks{"fast": r, "slow": slow}
		machines += len(slow.nodes)
	}
	w, submit := Workload{Name: "drawn"}, time.Duration(0)
	for n := range 4 * machines {
		minNodes := 1 << random.IntN(3)
		j := job(fmt.Sprint("job ", n), submit, time.Second+seconds(200))
		j.Shape, j.RequestedNodes = Shape{MinNodes: minNodes, MaxNodes: minNodes << random.IntN(3)}, minNodes
		w.Jobs = append(w.Jobs, j)
		submit += seconds(30)
	}
	return w
}

// randomRack returns machines of 4 units and adds them to the pool.
func randomRack(random *rand.Rand, config *Config) rack {
	r, perBlock := rack{sizes: []int{1, 2, 4, 8, 16}}, random.IntN(4)
	for n := range 1 + random.IntN(5) {
		node := placement.Node{ID: fmt.Sprint("m", n), Units: 4, Free: 4}
		if perBlock > 0 {
			node.Block = fmt.Sprint("b", n/perBlock)
		}
		if n > 0 && random.IntN(4) == 0 { // The first machine is complete, for jobs of 4 units.
			node.Free -= 1 + random.IntN(3)
		}
		config.Nodes += node.Units
		config.Unavailable += node.Units - node.Free
		r.nodes = append(r.nodes, node)
	}
	return r
}

// TestPlacementEqualsReference compares runs on machines with the reference simulation, in which the
// conditions of the theorem decide whether a decision has a placement.
func TestPlacementEqualsReference(t *testing.T) {
	policies := policies()
	limitable := slices.DeleteFunc(slices.Clone(policies), func(p namedPolicy) bool {
		request, is := p.Policy.(Request)
		return is && request.Options.Objective != solver.ObjectiveTotalTime
	})
	allocator := newAllocator()
	ran, reduced, moved := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(policies).Draw(t, "policy")
		config := Config{Steps: 1, Frequency: time.Duration(rapid.IntRange(20, 60).Draw(t, "frequency")) * time.Second}
		randomCost(t, &config, 19)
		onTypes := config.ScalingDelay == 0 && rapid.Bool().Draw(t, "with node types")
		w := randomMachines(t, &config, onTypes)
		limited := rapid.Bool().Draw(t, "with size limits")
		if limited {
			p = rapid.SampledFrom(limitable).Draw(t, "policy with size limits")
			config.SizeLimits = machineLimits(t, config.Placer)
		}
		if onTypes {
			p = rapid.SampledFrom(typedPolicies(t)).Draw(t, "typed policy")
		}
		if !limited || rapid.Bool().Draw(t, "with teams") {
			config.Groups = randomTeams(t, w.Jobs)
			if onTypes {
				limitTypes(t, config.Groups)
			}
		}
		got, err := p.run(t.Context(), w, config, allocator)
		var none *NoPlaceError
		if errors.Is(err, ErrStalled) || errors.As(err, &none) {
			return // The reference loop would not end either, or a job of a fixed size has no place.
		}
		if err != nil {
			t.Fatal(err)
		}
		want, unplaced := literal(t, w, p, config, allocator)
		if diff := compare.Diff(want, got.Jobs, exceptIdeal()); diff != "" {
			t.Errorf("%s: jobs (-literal +got):\n%s", p.Name, diff)
		}
		if *got.Unplaced != unplaced {
			t.Errorf("%s: %d decisions have no placement; want %d", p.Name, *got.Unplaced, unplaced)
		}
		_, requests := p.Policy.(Request)
		if limited && !config.NeverMove && unplaced > 0 && requests {
			t.Errorf("%s: %d decisions within %v have no placement", p.Name, unplaced, config.SizeLimits)
		}
		ran++
		reduced += unplaced
		for _, job := range want {
			moved += job.PlacementMoves
		}
	})
	t.Logf("%d runs, %d decisions without a placement, %d moves", ran, reduced, moved)
	if testtier.Conformance.Selected() && (ran == 0 || reduced == 0 || moved == 0) { // Other tiers have a few inputs only.
		t.Error("the inputs do not test placement")
	}
}

// fourUnits is a pool of two machines of 4 units, on which no other job fits together with a job of 3.
func fourUnits(stay bool) Config {
	return Config{
		Nodes: 8, Steps: 1, Frequency: time.Hour, RestartTime: 10 * time.Second, NeverMove: stay,
		Placer: rack{nodes: []placement.Node{{ID: "a", Units: 4, Free: 4}, {ID: "b", Units: 4, Free: 4}}, sizes: []int{1, 2, 4}},
	}
}

// fixedJob returns a job of one size.
func fixedJob(id string, submit, work time.Duration, nodes int) WorkloadJob {
	j := job(id, submit, work)
	j.RequestedNodes, j.Shape = nodes, Shape{AllowedNodes: []int{nodes}, Speeds: []float64{1}}
	return j
}

// TestMoveRestarts has two jobs of 2 nodes on two machines, after which a job of 4 arrives.
func TestMoveRestarts(t *testing.T) {
	// "short" leaves machine a with 2 units, so that "left" and "right" are on different machines.
	jobs := []WorkloadJob{
		fixedJob("left", 0, 600*time.Second, 2), fixedJob("short", 0, 50*time.Second, 2), fixedJob("right", 0, 600*time.Second, 2),
		fixedJob("large", 100*time.Second, 60*time.Second, 4),
	}
	for _, test := range []struct {
		stay             bool
		moves, unplaced  int
		moved, largeEnds time.Duration
	}{
		{stay: false, moves: 1, moved: 620 * time.Second, largeEnds: 171 * time.Second},
		{stay: true, unplaced: 1, moved: 610 * time.Second, largeEnds: 681 * time.Second},
	} {
		result := run(t, policy(t, "fifo"), fourUnits(test.stay), jobs...)
		moves, ends := 0, []time.Duration{}
		for _, j := range result.Jobs {
			moves += j.PlacementMoves
			ends = append(ends, j.End)
		}
		if latest := max(ends[0], ends[2]); moves != test.moves ||
			*result.Unplaced != test.unplaced || latest != test.moved || ends[3] != test.largeEnds {
			t.Errorf("never moves: %v: %d moves, %d unplaced, completed at %v; want %+v", test.stay, moves, *result.Unplaced, ends, test)
		}
	}
}

// TestTeamsOnTypesWithinSizeLimits simulates a case that is computed by hand. Team x must not use the fast nodes. A job
// of 4 fits the fast machine only, because the slow machines lack a node each, and jobs of 2 have two places there.
func TestTeamsOnTypesWithinSizeLimits(t *testing.T) {
	member := func(team, id string, nodes int, work time.Duration) WorkloadJob {
		j := inTeam(team, job(id, 0, work))
		j.RequestedNodes, j.Shape = nodes, Shape{AllowedNodes: []int{nodes}, Speeds: []float64{float64(nodes)}}
		return j
	}
	config := Config{
		Nodes: 12, Unavailable: 2, Steps: 1, Frequency: time.Hour,
		NodeTypes:  []solver.NodeType{{ID: "fast", Nodes: 4, Speed: 2}, {ID: "slow", Nodes: 6, Speed: 1}},
		SizeLimits: []solver.SizeLimit{{Size: 2, Nodes: 4, NodeType: "slow"}, {Size: 4, Nodes: 0, NodeType: "slow"}},
		Groups: []solver.Group{
			{ID: "x", Quota: 6, TypeLimits: []solver.GroupTypeLimit{{NodeType: "fast", Limit: 0}}}, {ID: "y", Quota: 4, Limit: new(4)},
		},
		Placer: racks{
			"fast": {nodes: []placement.Node{{ID: "a", Units: 4, Free: 4}}, sizes: []int{1, 2, 4}},
			"slow": {nodes: []placement.Node{{ID: "b", Units: 4, Free: 3}, {ID: "c", Units: 4, Free: 3}}, sizes: []int{1, 2, 4}},
		},
	}
	w := Workload{Name: "w", Jobs: []WorkloadJob{
		member("x", "x1", 2, 600*time.Second), member("x", "x2", 2, 800*time.Second), member("x", "x3", 2, 1000*time.Second),
		member("y", "y1", 4, 4800*time.Second), member("y", "y2", 4, 9600*time.Second), member("y", "y3", 1, 9000*time.Second),
	}}
	result, err := policy(t, "total-time-waiting").run(t.Context(), w, config, newAllocator())
	if err != nil {
		t.Fatal(err)
	}
	at := func(second, nodes int, nodeType string) NodesAt {
		return NodesAt{time.Duration(second) * time.Second, nodes, nodeType}
	}
	for n, want := range [][]NodesAt{
		{at(0, 2, "slow"), at(300, 0, "")}, {at(0, 2, "slow"), at(400, 0, "")},
		{at(301, 2, "slow"), at(801, 0, "")}, // 2 of 6 nodes are idle until then, one on each machine.
		{at(0, 4, "fast"), at(600, 0, "")},
		{at(601, 4, "fast"), at(1801, 0, "")}, // The limit of y and the only machine of 4 are in use until then.
		{at(1802, 1, "fast"), at(6302, 0, "")},
	} {
		if diff := compare.Diff(want, result.Jobs[n].Nodes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", w.Jobs[n].ID, diff)
		}
	}
	if *result.Unplaced != 0 {
		t.Errorf("%d decisions have no placement", *result.Unplaced)
	}
}

func TestCheckMachines(t *testing.T) {
	large := job("large", 0, time.Minute)
	large.Shape = Shape{AllowedNodes: []int{8}}
	small := job("small", 0, time.Minute)
	halves := fourUnits(false)
	halves.Placer = rack{
		nodes: []placement.Node{{ID: "a", Units: 4, Free: 4}, {ID: "b", Units: 4, Free: 3}, {ID: "c", Units: 4, Free: 1}}, sizes: []int{1, 8},
	}
	member := small
	member.Group = "a"
	typed := fourUnits(false)
	typed.NodeTypes, typed.Unavailable = []solver.NodeType{{ID: "a", Nodes: 8, Speed: 1}}, 2
	unknown := Config{Nodes: 8, Steps: 1, Frequency: time.Hour, NodeTypes: typed.NodeTypes}
	unknown.Groups = []solver.Group{{ID: "a", TypeLimits: []solver.GroupTypeLimit{{NodeType: "b", Limit: 1}}}}
	tight := unknown
	tight.Groups = []solver.Group{{ID: "a", TypeLimits: []solver.GroupTypeLimit{{NodeType: "a", Limit: 0}}}}
	resized := fourUnits(false)
	resized.Resized = []NodesAt{{At: time.Minute, Nodes: 8}}
	lost := Config{Nodes: 8, Steps: 1, Frequency: time.Hour, Unavailable: 8}
	for _, test := range []struct {
		policy string
		config Config
		job    WorkloadJob
		want   string
	}{
		{"total-time", halves, large,
			`job "large" of test has at least 8 nodes under the policy total-time: the machines have no place for all jobs of at least 8 nodes`},
		{"total-time", unknown, member, `group "a" has a limit for "b"; must be one of the node types of the cluster`},
		{"total-time", tight, member, `job "small" of test has no size that fits a node type within the limits of a`},
		{"total-time", typed, small, "node_types: are 1 types of 8 nodes; must be at most 8 types of all 6 nodes"},
		{"total-time", resized, small, "resized: is set together with machines; must be empty"},
		{"total-time", lost, small, "unavailable: is 8; must be at least 0 and less than the nodes"},
	} {
		_, err := policy(t, test.policy).run(context.Background(),
			Workload{Name: "test", Jobs: []WorkloadJob{test.job}}, test.config, newAllocator())
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v; want %q", test.policy, err, test.want)
		}
	}
}

// TestForecastWithSizeLimits forecasts two jobs of 4 nodes, of which the size limits admit one at a time.
func TestForecastWithSizeLimits(t *testing.T) {
	s := &solver.Snapshot{TotalNodes: 8, Horizon: solver.DefaultHorizon()}
	for _, id := range []string{"a", "b"} {
		j := solver.NewJob(id, time.Hour)
		j.AllowedNodes, j.Scaling.Speeds = []int{4}, []float64{1}
		s.Jobs = append(s.Jobs, j)
	}
	last := func() time.Duration {
		work := ForecastInput{Work: []time.Duration{time.Hour, time.Hour}, EveryEvent: true}
		future, err := Forecast(t.Context(), s, work, policy(t, "total-time").Policy, time.Minute, 24*time.Hour, newAllocator())
		if err != nil || future.Jobs[0].End == nil || future.Jobs[1].End == nil {
			t.Fatalf("the future is %+v, %v", future, err)
		}
		return max(*future.Jobs[0].End, *future.Jobs[1].End)
	}
	if got := last(); got != time.Hour {
		t.Errorf("without size limits, both jobs are complete after %v; want 1h", got)
	}
	s.SizeLimits = []solver.SizeLimit{{Size: 4, Nodes: 4}}
	if got := last(); got < 2*time.Hour || got > 2*time.Hour+time.Minute {
		t.Errorf("with size limits, both jobs are complete after %v; want 2h", got)
	}
}
