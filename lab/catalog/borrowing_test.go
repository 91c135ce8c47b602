package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// fixed returns a job of a team with one size. It occupies this number of nodes if it has trained.
func fixed(team string, size int, trained time.Duration) solver.Job {
	job := solver.NewJob("", time.Hour)
	job.GroupID, job.MinNodes, job.MaxNodes, job.TrainingTime = team, size, size, trained
	if trained > 0 {
		job.CurrentNodes = size
	}
	return job
}

// options returns options without node types.
func options(nodes ...int) []solver.Option {
	list := make([]solver.Option, len(nodes))
	for i, n := range nodes {
		list[i].Nodes = int32(n)
	}
	return list
}

func TestBorrowing(t *testing.T) {
	quotas := func(a, b, c int) []solver.Group {
		return []solver.Group{{ID: "a", Quota: a}, {ID: "b", Quota: b}, {ID: "c", Quota: c}}
	}
	limited := quotas(4, 4, 0)
	limited[0].Limit = new(6)
	nested := []solver.Group{
		{ID: "a", ParentID: "both", Quota: 4}, {ID: "both", Limit: new(6)}, {ID: "b", ParentID: "both", Quota: 4}, {ID: "c"},
	}
	for name, test := range map[string]struct {
		groups        []solver.Group
		jobs          []solver.Job
		want, waiting []int
	}{
		"idle quota is borrowed": {
			quotas(4, 4, 0), []solver.Job{fixed("a", 4, 0), fixed("a", 4, 0)},
			[]int{4, 4}, []int{4, 4},
		},
		"jobs within a quota are first": {
			quotas(4, 4, 0), []solver.Job{fixed("c", 8, 0), fixed("b", 4, 0)},
			[]int{0, 4}, []int{0, 4},
		},
		"a job that does not fit does not block its team": {
			quotas(4, 4, 0), []solver.Job{fixed("a", 2, 1), fixed("a", 8, 0), fixed("a", 1, 0), fixed("c", 2, 0)},
			[]int{2, 0, 1, 2}, []int{2, 0, 1, 2},
		},
		"a quota is reclaimed from the last jobs above their quota": {
			quotas(4, 2, 2), []solver.Job{fixed("b", 2, 9), fixed("c", 2, 5), fixed("c", 2, 8), fixed("c", 2, 7), fixed("a", 4, 0)},
			[]int{2, 0, 2, 0, 4}, []int{2, 2, 2, 2, 0},
		},
		"no more is reclaimed than needed": {
			quotas(4, 4, 0), []solver.Job{fixed("c", 1, 5), fixed("c", 4, 6), fixed("c", 3, 7), fixed("a", 4, 0)},
			[]int{1, 0, 3, 4}, []int{1, 4, 3, 0},
		},
		"a borrowing team does not reclaim": {
			quotas(4, 0, 4), []solver.Job{fixed("b", 2, 5), fixed("b", 6, 6), fixed("a", 8, 0)},
			[]int{2, 6, 0}, []int{2, 6, 0},
		},
		"a limit restricts borrowing": {
			limited, []solver.Job{fixed("a", 4, 1), fixed("a", 2, 0), fixed("a", 1, 0)},
			[]int{4, 2, 0}, []int{4, 2, 0},
		},
		"a department's limit is reclaimed within it": {
			nested, []solver.Job{fixed("c", 2, 1), fixed("b", 2, 5), fixed("b", 4, 4), fixed("a", 4, 0)},
			[]int{2, 2, 0, 4}, []int{2, 2, 4, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &solver.Snapshot{TotalNodes: 8, Groups: test.groups, Jobs: test.jobs}
			if diff := cmp.Diff(options(test.want...), borrowing(s)); diff != "" {
				t.Errorf("borrowing (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(options(test.waiting...), borrowingWaiting(s)); diff != "" {
				t.Errorf("borrowing without preemption (-want +got):\n%s", diff)
			}
		})
	}
}

// drawBorrowers returns a random snapshot of teams, and whether they may have limits. Its running jobs were started by
// the rule without preemption.
func drawBorrowers(t *rapid.T) (s *solver.Snapshot, limited bool) {
	s = &solver.Snapshot{TotalNodes: rapid.IntRange(6, 24).Draw(t, "nodes")}
	limited = rapid.Bool().Draw(t, "limited")
	left := s.TotalNodes
	for i := range rapid.IntRange(1, 4).Draw(t, "teams") {
		group := solver.Group{ID: fmt.Sprint(i), Quota: rapid.IntRange(0, left).Draw(t, "quota")}
		left -= group.Quota
		if limited && rapid.Bool().Draw(t, "limited") {
			group.Limit = new(rapid.IntRange(0, s.TotalNodes).Draw(t, "limit"))
		}
		s.Groups = append(s.Groups, group)
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "jobs") {
		team := rapid.SampledFrom(s.Groups).Draw(t, "team").ID
		s.Jobs = append(s.Jobs, fixed(team, rapid.IntRange(1, 6).Draw(t, "size"), 0))
		s.Jobs[i].TrainingTime = time.Duration(rapid.IntRange(0, 3).Draw(t, "trained"))
	}
	for i, option := range borrowingWaiting(s) {
		s.Jobs[i].CurrentNodes = int(option.Nodes)
	}
	for i := range s.Jobs {
		if rapid.IntRange(0, 2).Draw(t, "ended") == 0 {
			s.Jobs[i].CurrentNodes = 0
		}
	}
	return s, limited
}

// TestBorrowingRules checks on random snapshots that no limit is exceeded and that no job waits for which
// there is room. If the quotas fit in the pool and there are no limits, no job waits that the quota of
// its team covers.
func TestBorrowingRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, limited := drawBorrowers(t)
		for name, rule := range map[string]sim.Rule{"borrowing": borrowing, "borrowing-waiting": borrowingWaiting} {
			options := rule(s)
			decision, err := rule.Decide(t.Context(), sim.Input{Snapshot: s})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			checkLegal(t, s, decision)
			after := newCohort(s)
			for i, option := range options {
				after.allocate(i, int(option.Nodes))
			}
			for i, option := range options {
				running := s.Jobs[i].CurrentNodes > 0
				switch {
				case option.Nodes > 0 || running && name == "borrowing":
				case running:
					t.Errorf("%s: job %d lost its nodes", name, i)
				case after.fits(i):
					t.Errorf("%s: job %d waits although it has room", name, i)
				case name == "borrowing" && !limited && !after.borrows(i, after.size(i)):
					t.Errorf("%s: job %d waits although its quota covers it", name, i)
				}
			}
		}
	})
}

// TestGroupLimits simulates random workloads and trees of groups, and checks every decision of the
// policies with teams, including decisions between decision times.
func TestGroupLimits(t *testing.T) {
	withGroups := slices.DeleteFunc(All(), func(p Policy) bool { return !p.GroupLimits })
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(withGroups).Draw(t, "policy")
		w := randomWorkload(t)
		config := sim.DefaultConfig(rapid.IntRange(maxMinNodes, 24).Draw(t, "nodes"))
		config.Frequency = 20 * time.Second
		config.RestartTime = time.Duration(rapid.IntRange(0, 20).Draw(t, "restart")) * time.Second
		config.Groups = randomTeams(t)
		p.run = func(ctx context.Context, w sim.Workload, p sim.Policy, config sim.Config, a sim.Allocator) (*sim.Result, error) {
			return sim.Run(ctx, w, checked{p, t}, config, checkedAllocator{a, t})
		}
		if _, err := p.Run(t.Context(), w, config, newAllocator()); err != nil && !errors.Is(err, sim.ErrStalled) {
			t.Fatal(err)
		}
	})
}

// checked is a policy whose decisions are checked.
type checked struct {
	sim.Policy
	t *rapid.T
}

func (c checked) Decide(ctx context.Context, in sim.Input) (solver.Decision, error) {
	d, err := c.Policy.Decide(ctx, in)
	if err == nil {
		if len(in.Snapshot.Groups) == 0 {
			c.t.Fatal("the snapshot has no groups")
		}
		checkLegal(c.t, in.Snapshot, d)
	}
	return d, err
}

// checkedAllocator is an Allocator whose FillIdle is checked.
type checkedAllocator struct {
	sim.Allocator
	t *rapid.T
}

func (a checkedAllocator) FillIdle(ctx context.Context, s *solver.Snapshot) (solver.Decision, error) {
	d, err := a.Allocator.FillIdle(ctx, s)
	if err == nil {
		checkLegal(a.t, s, d)
	}
	return d, err
}
