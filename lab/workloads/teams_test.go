package workloads

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

func TestAssignTeams(t *testing.T) {
	var w sim.Workload
	for i := range 40 {
		j := sim.WorkloadJob{ID: fmt.Sprint(i), Demand: time.Hour}
		if i < 30 {
			j.User = fmt.Sprint("user ", i%10)
		}
		w.Jobs = append(w.Jobs, j)
	}
	teamsOf := func(seed uint64) []string {
		assigned, err := AssignTeams(w, 8, seed)
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
	if _, err := AssignTeams(w, 21, 1); err == nil || !strings.Contains(err.Error(), "has 20 users") {
		t.Errorf("the error is %v; want that there are too few users", err)
	}
}

func TestQuotas(t *testing.T) {
	w := sim.Workload{Name: "w", Jobs: []sim.WorkloadJob{
		inTeam("b", 60*time.Hour), inTeam("a", 20*time.Hour), inTeam("b", 19*time.Hour),
		inTeam("c", time.Hour),
	}}
	for _, test := range []struct {
		rule  QuotaRule
		nodes int
		want  [3]int
	}{
		{QuotaByDemand, 100, [3]int{20, 79, 1}}, {QuotaByDemand, 10, [3]int{2, 7, 1}}, {QuotaByDemand, 3, [3]int{1, 1, 1}},
		{QuotaEqual, 12, [3]int{4, 4, 4}}, {QuotaEqual, 11, [3]int{4, 4, 3}},
	} {
		got, err := Quotas(&w, test.rule, test.nodes)
		if err != nil {
			t.Fatal(err)
		}
		want := []solver.Group{{ID: "a", Quota: test.want[0]}, {ID: "b", Quota: test.want[1]}, {ID: "c", Quota: test.want[2]}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s on %d nodes (-want +got):\n%s", test.rule, test.nodes, diff)
		}
	}
	if _, err := Quotas(&w, QuotaEqual, 2); err == nil || !strings.Contains(err.Error(), "3 teams; must be at most the 2 nodes") {
		t.Errorf("the error is %v; want that there are too few nodes", err)
	}
	w.Jobs[2].Group = ""
	if _, err := Quotas(&w, QuotaEqual, 9); err == nil || !strings.Contains(err.Error(), `job "" of w has no group`) {
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
		parts, all := Apportion(nodes, shares), 0
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

// inTeam returns a job of a team with a demand.
func inTeam(team string, demand time.Duration) sim.WorkloadJob {
	return sim.WorkloadJob{Group: team, Demand: demand}
}
