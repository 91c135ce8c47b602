package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
)

// inTeam assigns a job to a team.
func inTeam(team string, job WorkloadJob) WorkloadJob {
	job.Group = team
	return job
}

func TestAssignTeams(t *testing.T) {
	var w Workload
	for i := range 40 {
		j := job(fmt.Sprint(i), 0, time.Hour)
		if i < 30 {
			j.User = fmt.Sprint("user ", i%10)
		}
		w.Jobs = append(w.Jobs, j)
	}
	teamsOf := func(seed uint64) []string {
		assigned, err := w.AssignTeams(8, seed)
		if err != nil {
			t.Fatal(err)
		}
		var teams []string
		for _, job := range assigned.Jobs {
			teams = append(teams, job.Group)
		}
		return teams
	}
	teams := teamsOf(1)
	users := make(map[string]int) // number of users per team
	for i, team := range teams {
		if i < 30 && team != teams[i%10] {
			t.Errorf("job %d is in %s; want its user's %s", i, team, teams[i%10])
		}
		if i < 10 || i >= 30 {
			users[team]++
		}
	}
	// 10 users and 10 jobs without one.
	want := map[string]int{
		"team-1": 3, "team-2": 3, "team-3": 3, "team-4": 3, "team-5": 2, "team-6": 2, "team-7": 2, "team-8": 2,
	}
	if diff := cmp.Diff(want, users); diff != "" {
		t.Errorf("users of each team (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(teams, teamsOf(1)); diff != "" {
		t.Errorf("the same seed gives different teams (-first +second):\n%s", diff)
	}
	if slices.Equal(teams, teamsOf(2)) {
		t.Error("another seed gives the same teams")
	}
	if w.Jobs[0].Group != "" {
		t.Error("the original workload was changed")
	}
	if _, err := w.AssignTeams(21, 1); err == nil || !strings.Contains(err.Error(), "has 20 users") {
		t.Errorf("the error is %v; want that there are too few users", err)
	}
}

func TestQuotas(t *testing.T) {
	w := Workload{Name: "w", Jobs: []WorkloadJob{
		inTeam("b", job("1", 0, 60*time.Hour)), inTeam("a", job("2", 0, 20*time.Hour)), inTeam("b", job("3", 0, 19*time.Hour)),
		inTeam("c", job("4", 0, time.Hour)),
	}}
	for _, test := range []struct {
		rule  QuotaRule
		nodes int
		want  [3]int
	}{
		{QuotaByDemand, 100, [3]int{20, 79, 1}}, {QuotaByDemand, 10, [3]int{2, 7, 1}}, {QuotaByDemand, 3, [3]int{1, 1, 1}},
		{QuotaEqual, 12, [3]int{4, 4, 4}}, {QuotaEqual, 11, [3]int{4, 4, 3}},
	} {
		got, err := w.Quotas(test.rule, test.nodes)
		if err != nil {
			t.Fatal(err)
		}
		want := []solver.Group{{ID: "a", Quota: test.want[0]}, {ID: "b", Quota: test.want[1]}, {ID: "c", Quota: test.want[2]}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s on %d nodes (-want +got):\n%s", test.rule, test.nodes, diff)
		}
	}
	if _, err := w.Quotas(QuotaEqual, 2); err == nil || !strings.Contains(err.Error(), "3 teams; must be at most the 2 nodes") {
		t.Errorf("the error is %v; want that there are too few nodes", err)
	}
	w.Jobs[2].Group = ""
	if _, err := w.Quotas(QuotaEqual, 9); err == nil || !strings.Contains(err.Error(), `job "3" of w has no group`) {
		t.Errorf("the error is %v; want that a job has no team", err)
	}
}

func TestLimited(t *testing.T) {
	groups := []solver.Group{{ID: "a", Quota: 3}, {ID: "b", Quota: 5000}}
	want := []solver.Group{{ID: "a", Quota: 3, Limit: new(5)}, {ID: "b", Quota: 5000, Limit: new(7500)}}
	if diff := cmp.Diff(want, Limited(groups, 1.5)); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if groups[0].Limit != nil {
		t.Error("the original groups were changed")
	}
	if got := *Limited(groups, MaxTeamLimit)[1].Limit; got != 1<<31-1 {
		t.Errorf("the limit is %d; want the maximum", got)
	}
}

// TestApportion checks that the sum of the parts is the number of nodes, that each share above 0 has at
// least one node, and that parts of more than one node differ from the exact share by less than one.
func TestApportion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shares := rapid.SliceOfN(rapid.Float64Range(0, 10), 1, 8).Draw(t, "shares")
		shares[0]++
		positive, sum := 0, 0.0
		for _, share := range shares {
			sum += share
			if share > 0 {
				positive++
			}
		}
		nodes := rapid.IntRange(positive, 100).Draw(t, "nodes")
		parts, all := apportion(nodes, shares), 0
		for i, part := range parts {
			all += part
			if exact := shares[i] / sum * float64(nodes); (part == 0) != (shares[i] == 0) || float64(part) >= max(1, exact)+1 {
				t.Errorf("share %d of %v in %d nodes is %d; want about %v", i, shares, nodes, part, exact)
			}
		}
		if all != nodes {
			t.Errorf("the parts %v are not %d nodes", parts, nodes)
		}
	})
}

// TestPartitionsAreNotShared checks that the nodes of a team without jobs stay idle, and that a partition
// is the share of the team's quota.
func TestPartitionsAreNotShared(t *testing.T) {
	config := DefaultConfig(16)
	config.Groups = []solver.Group{{ID: "a", Quota: 1}, {ID: "b", Quota: 1}}
	result := run(t, policy(t, PartitionsPolicy), config,
		inTeam("a", job("1", 0, 409600*time.Millisecond)), inTeam("a", job("2", 300*second, second)))
	if got := times(result.Jobs[0]); got != [2]int64{0, 100} { // 8 nodes train 4.096 times as fast
		t.Errorf("start and end are %v; want 0 and 100", got)
	}
	// 8 of 16 nodes in the 101 seconds in which a job is present.
	if result.Utilization != 0.5 {
		t.Errorf("the utilization is %v; want a half", result.Utilization)
	}
	if result.Jobs[0].Alone != wholeSeconds(scale(409600*time.Millisecond, 1/6.5536)) {
		t.Errorf("without other jobs it takes %v; want the time in the whole pool", result.Jobs[0].Alone)
	}
}

// TestPartitionsEqualReference compares every policy with partitions with the reference simulation of each
// team alone, because teams do not affect each other.
func TestPartitionsEqualReference(t *testing.T) {
	policies := policiesThat(func(p Policy) bool { return p.Partitioned && !p.NeedsTypes })
	typed := policiesThat(func(p Policy) bool { return p.Partitioned && p.knowsTypes() })
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(policies).Draw(t, "policy")
		config := Config{
			Nodes: rapid.IntRange(2*maxMinNodes, 24).Draw(t, "nodes"), Steps: 1,
			Frequency:   time.Duration(rapid.IntRange(1, 60).Draw(t, "frequency")) * time.Second,
			RestartTime: time.Duration(rapid.IntRange(0, 20).Draw(t, "restart")) * time.Second,
			Groups: []solver.Group{
				{ID: "a", Quota: rapid.IntRange(0, 9).Draw(t, "quota")}, {ID: "b", Quota: 5},
				{ID: "c", Quota: rapid.IntRange(0, 9).Draw(t, "quota")},
			},
		}
		w := randomWorkload(t)
		for i := range w.Jobs {
			w.Jobs[i].Group = rapid.SampledFrom(config.Groups).Draw(t, "team").ID
		}
		onTypes := rapid.Bool().Draw(t, "typed")
		if onTypes {
			p = rapid.SampledFrom(typed).Draw(t, "typed policy")
			randomTypes(t, &w, &config)
		}
		if err := w.CheckPolicy(&p, &config); err != nil {
			return // A partition is too small.
		}
		if !onTypes && rapid.Bool().Draw(t, "continued") {
			randomContinuation(t, &w, &config)
		}
		got, err := Run(t.Context(), w, p, config, newAllocator())
		if errors.Is(err, ErrStalled) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		want, sum, types := make([]JobResult, len(w.Jobs)), 0, make([]int, len(config.NodeTypes))
		for _, partition := range w.partitions(&config) {
			part, own := Workload{}, config
			own.Nodes, own.NodeTypes, own.Resized = partition.nodes, partition.types, nil
			for n, nodeType := range partition.types {
				types[n] += nodeType.Nodes
			}
			for _, change := range config.Resized {
				own.Resized = append(own.Resized, NodesAt{At: change.At, Nodes: change.Nodes * partition.nodes / config.Nodes})
			}
			sum += partition.nodes
			for _, i := range partition.jobs {
				part.Jobs = append(part.Jobs, w.Jobs[i])
			}
			jobs, _ := literal(t, part, p, own, newAllocator())
			for n, job := range jobs {
				job.Alone = w.Jobs[partition.jobs[n]].alone(&config)
				want[partition.jobs[n]] = job
			}
		}
		if sum > config.Nodes {
			t.Errorf("the partitions have %d of %d nodes", sum, config.Nodes)
		}
		for n, nodes := range types {
			if nodes > config.NodeTypes[n].Nodes {
				t.Errorf("the partitions have %d nodes of %+v", nodes, config.NodeTypes[n])
			}
		}
		if diff := cmp.Diff(want, got.Jobs, exceptIdeal()); diff != "" {
			t.Errorf("%s: jobs (-literal +got):\n%s", p.Name, diff)
		}
	})
}

func TestSuitsTeams(t *testing.T) {
	big := inTeam("b", job("big", 0, time.Hour))
	big.MinNodes = 4
	w := Workload{Name: "w", Jobs: []WorkloadJob{inTeam("a", job("small", 0, time.Hour)), big}}
	groups := func(a, b int) []solver.Group { return []solver.Group{{ID: "a", Quota: a}, {ID: "b", Quota: b}} }
	for want, test := range map[string]struct {
		policy string
		groups []solver.Group
	}{
		"the policy static-partitions needs teams":                        {PartitionsPolicy, nil},
		"quotas: their sum is 0":                                          {"total-time-usage", groups(0, 0)},
		`job "big" of w has the group "b", which is none of the teams`:    {"total-time", groups(1, 1)[:1]},
		"0 teams have a quota":                                            {PartitionsPolicy, groups(0, 0)},
		`job "small" of w needs at least 1 nodes; the partition of a has`: {PartitionsPolicy, groups(0, 8)},
		`job "big" of w needs at least 4 nodes; the partition of b has 2`: {PartitionsPolicy, groups(6, 2)},
	} {
		config := DefaultConfig(8)
		config.Groups = test.groups
		_, err := Run(t.Context(), w, policy(t, test.policy), config, newAllocator())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v; want one with %q", err, want)
		}
	}
}

func TestCompareWithPartitions(t *testing.T) {
	of := func(first, other time.Duration) *Result {
		return &Result{
			Groups: []solver.Group{{ID: "dept"}, {ID: "a", ParentID: "dept", Quota: 3}, {ID: "b", Quota: 4}, {ID: "idle", Quota: 5}},
			Jobs:   []JobResult{{Group: "a", End: first}, {Group: "b", End: other}, {Group: "a", End: first + 2*other}},
		}
	}
	s := Summarize(of(60*second, 30*second), 0)
	s.CompareWithPartitions(of(90*second, 20*second))
	want := []TeamSummary{
		{Team: "a", Quota: 3, Jobs: 2, MeanTotalSeconds: 90, ToPartition: new(90.0 / 110)},
		{Team: "b", Quota: 4, Jobs: 1, MeanTotalSeconds: 30, ToPartition: new(1.5)},
	}
	if diff := cmp.Diff(want, s.Teams); diff != "" {
		t.Errorf("teams (-want +got):\n%s", diff)
	}
	if *s.WorstTeam != 1.5 {
		t.Errorf("the worst team has the factor %v; want 1.5", *s.WorstTeam)
	}
}

// TestWeighted checks the weights that represent teams.
func TestWeighted(t *testing.T) {
	heavy := inTeam("b", job("3", 0, time.Hour))
	heavy.Weight = 3
	config := DefaultConfig(8)
	config.Groups = []solver.Group{{ID: "a", Quota: 6}, {ID: "b", Quota: 0}}
	var got []float64
	config.Observe = func(s *solver.Snapshot, _ solver.Decision) {
		if len(s.Groups) > 0 {
			t.Error("the snapshot has teams")
		}
		for i := range s.Jobs {
			got = append(got, s.Jobs[i].WeightOrDefault())
		}
	}
	run(t, policy(t, "total-time-weights"), config, inTeam("a", job("1", 0, time.Second)), inTeam("a", job("2", 0, time.Hour)), heavy)
	// Both jobs are active at second 0. The first has completed by second 2.
	if diff := cmp.Diff([]float64{3, 3, 3, 6, 3}, got[:5]); diff != "" {
		t.Errorf("weights (-want +got):\n%s", diff)
	}
}

// TestUsage checks the weights of total-time-usage. Team a occupies 4 nodes from second 0 to its completion at second
// 4000, and team b 2 nodes from second 1001 on. Nodes since t seconds count n (1 - 2^(-t / half-life)), apart from a constant.
func TestUsage(t *testing.T) {
	rigid := func(j WorkloadJob, nodes int) WorkloadJob {
		j.AllowedNodes, j.Speeds = []int{nodes}, []float64{1}
		return j
	}
	config := DefaultConfig(8)
	config.Groups = []solver.Group{{ID: "a", Quota: 3}, {ID: "b", Quota: 1}}
	config.UsageHalfLife = 1000 * second
	decayed := func(since, until, now float64) float64 {
		return math.Exp2(-(now-min(now, until))/1000) - math.Exp2(-(now-min(now, since))/1000)
	}
	last := 0.0
	config.Observe = func(s *solver.Snapshot, _ solver.Decision) {
		at, err := time.ParseDuration(strings.TrimPrefix(s.ID, "test@"))
		if err != nil {
			t.Fatal(err)
		}
		last = at.Seconds()
		a, b := 4*decayed(0, 4000, last), 2*decayed(1001, 1e9, last)
		want := map[string]float64{"a": 2 * 0.75 * (a + b) / a, "b": min(2*0.25*(a+b)/b, 2*4)}
		if last == 0 {
			want["a"] = 2
		}
		for i := range s.Jobs {
			if got, want := s.Jobs[i].WeightOrDefault(), min(want[s.Jobs[i].GroupID], 8); math.Abs(got-want) > 1e-9 {
				t.Errorf("at second %v, the weight of a job of %s is %v; want %v", last, s.Jobs[i].GroupID, got, want)
			}
		}
	}
	jobs := []WorkloadJob{inTeam("a", rigid(job("a", 0, 4000*second), 4)), inTeam("b", rigid(job("b", 1000*second, 5000*second), 2))}
	for i := range jobs {
		jobs[i].Weight = 2
	}
	run(t, policy(t, "total-time-usage"), config, jobs...)
	if last < 5700 {
		t.Errorf("the last decision is at second %v", last)
	}
}

// TestWeightsAreNoQuotas checks the table of docs/evaluation/teams.md: the nodes of a long job
// of one team in addition to short jobs of another team, on 16 nodes with a quota of 8 for each team.
func TestWeightsAreNoQuotas(t *testing.T) {
	others := []int{1, 2, 4, 8, 15}
	for _, test := range []struct {
		policy string
		price  *float64
		limit  *int // of the other team
		nodes  []int
	}{
		{"total-time-open", nil, nil, []int{8, 4, 1, 1, 1}},
		{"total-time", new(0.0), nil, []int{8, 4, 1, 1, 1}},
		{"total-time-weights", nil, nil, []int{8, 4, 4, 2, 1}},
		{"total-time", nil, nil, []int{8, 8, 8, 2, 1}},
		{"total-time", new(1.0), nil, []int{8, 8, 8, 8, 1}},
		{"total-time", new(0.0), new(8), []int{8, 8, 8, 8, 8}},
		{"total-time-waiting", new(1.0), nil, []int{8, 8, 8, 8, 2}},
		{"total-time-steady", new(1.0), nil, []int{8, 8, 8, 8, 1}},
	} {
		for n, count := range others {
			config := DefaultConfig(16)
			config.Groups = []solver.Group{{ID: "a", Quota: 8}, {ID: "b", Quota: 8, Limit: test.limit}}
			first := true
			config.Observe = func(_ *solver.Snapshot, d solver.Decision) {
				if got := d.Allocations[0].Nodes; first && got != test.nodes[n] {
					t.Errorf("%s: the long job has %d nodes in addition to %d jobs; want %d", test.policy, got, count, test.nodes[n])
				}
				first = false
			}
			jobs := []WorkloadJob{inTeam("a", job("long", 0, 100*time.Hour))}
			for i := range count {
				jobs = append(jobs, inTeam("b", job(fmt.Sprint("short ", i), 0, time.Hour)))
			}
			p := policy(t, test.policy)
			options := p.Options()
			options.TotalTime.QuotaPrice = test.price
			p.SetOptions(options)
			run(t, p, config, jobs...)
		}
	}
}
