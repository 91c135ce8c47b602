package catalog

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/sim"
)

// rigidJob returns a job of one size with a run time and a user limit, all in seconds.
func rigidJob(id string, submit, run, limit, nodes int) sim.WorkloadJob {
	j := job(id, time.Duration(submit)*time.Second, time.Duration(run)*time.Second)
	j.RequestedNodes, j.Shape = nodes, sim.Shape{AllowedNodes: []int{nodes}, Speeds: []float64{1}}
	j.UserLimit = time.Duration(limit) * time.Second
	return j
}

// easyJob is a job of easy. Times are in seconds.
type easyJob struct{ submit, run, limit, nodes, start int }

// easy is an independent implementation of EASY backfill: a loop over seconds in which a later job may start if
// the time at which the head of the queue could start, found by trying one second after the other, stays
// the same. Decisions are a second after each submission and completion, and every period.
func easy(jobs []easyJob, nodes, period, restart int) []easyJob {
	const unknown = -1
	for i := range jobs {
		jobs[i].start = unknown
	}
	decideAt, left := unknown, len(jobs)
	for now := 0; left > 0; now++ {
		ends := func(j easyJob) int { return j.start + j.run + restart }
		decide := func(ending bool) {
			present := func(j easyJob) bool { return j.start != unknown && (now < ends(j) || ending && now == ends(j)) }
			idle := func(at int) int { // if every job present runs until its limit
				sum := nodes
				for _, j := range jobs {
					if present(j) && at < j.start+j.limit {
						sum -= j.nodes
					}
				}
				return sum
			}
			fits := func(size int) bool {
				for _, j := range jobs {
					if present(j) {
						size += j.nodes
					}
				}
				return size <= nodes
			}
			earliest := func(head easyJob) int {
				for at := now; ; at++ {
					if idle(at) >= head.nodes {
						return at
					}
				}
			}
			head := unknown
			for i := range jobs {
				j := &jobs[i]
				if queued := j.start == unknown && (j.submit < now || j.submit == now && !ending); !queued {
					continue
				}
				if !fits(j.nodes) {
					if head == unknown {
						head = i
					}
					continue
				}
				if head == unknown {
					j.start = now
					continue
				}
				reserved := earliest(jobs[head])
				if j.start = now; earliest(jobs[head]) > reserved {
					j.start = unknown
				}
			}
		}
		regular := now%period == 0
		if now == decideAt && !regular {
			decide(true)
		}
		for _, j := range jobs {
			if j.start != unknown && now == ends(j) {
				left--
				decideAt = now + 1
			}
			if j.submit == now {
				decideAt = now + 1
			}
		}
		if regular && left > 0 {
			decide(false)
			decideAt = unknown
		}
	}
	return jobs
}

// TestBackfillEqualsReference compares the start of every job under fifo-backfill with an independent implementation.
func TestBackfillEqualsReference(t *testing.T) {
	backfilled := 0
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 12).Draw(t, "nodes")
		config := sim.DefaultConfig(nodes)
		config.Frequency = time.Duration(rapid.IntRange(20, 400).Draw(t, "frequency")) * time.Second
		config.RestartTime = time.Duration(rapid.SampledFrom([]int{0, 0, 7}).Draw(t, "restart")) * time.Second
		w := sim.Workload{Name: "drawn"}
		var jobs []easyJob
		submit, unit := 0, rapid.SampledFrom([]int{1, 40}).Draw(t, "unit") // With 40 s, limits often end together.
		for i := range rapid.IntRange(1, 14).Draw(t, "jobs") {
			j := easyJob{submit: submit, run: unit * rapid.IntRange(1, 200/unit).Draw(t, "run"), nodes: rapid.IntRange(1, nodes).Draw(t, "size")}
			j.limit = 2 * j.run
			userLimit := 0
			if rapid.Bool().Draw(t, "has a limit") {
				userLimit = unit * rapid.IntRange(1, 400/unit).Draw(t, "limit")
				j.limit = userLimit
			}
			jobs = append(jobs, j)
			w.Jobs = append(w.Jobs, rigidJob(fmt.Sprint(i), j.submit, j.run, userLimit, j.nodes))
			submit += rapid.IntRange(0, 60/unit).Draw(t, "wait")
		}
		policy, err := Find(Backfill)
		if err != nil {
			t.Fatal(err)
		}
		result, err := policy.Run(t.Context(), w, config, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := easy(jobs, nodes, int(config.Frequency.Seconds()), int(config.RestartTime.Seconds()))
		var got []easyJob
		for i := range result.Jobs {
			j := want[i]
			j.start = int(result.Jobs[i].Start.Seconds())
			got = append(got, j)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(easyJob{})); diff != "" {
			t.Errorf("%d nodes (-reference +got):\n%s", nodes, diff)
		}
		if !slices.IsSortedFunc(want, func(a, b easyJob) int { return a.start - b.start }) {
			backfilled++
		}
	})
	if backfilled < 10 && !testing.Short() { // Short tests have few workloads.
		t.Errorf("%d workloads have a job that overtakes; want more", backfilled)
	}
}

// TestBackfillReservation has queues whose heads wait for running jobs.
func TestBackfillReservation(t *testing.T) {
	for name, test := range map[string]struct {
		jobs []sim.WorkloadJob
		want []int // starts in seconds
	}{
		"a short and a small job overtake the head, and a long one does not": {[]sim.WorkloadJob{
			rigidJob("runs", 0, 1000, 1000, 6), rigidJob("head", 10, 100, 0, 9), rigidJob("long", 20, 900, 0, 4),
			rigidJob("short", 30, 100, 0, 3), rigidJob("small", 40, 5000, 0, 1),
		}, []int{0, 1001, 1102, 31, 41}},
		"two jobs reach their limits together, so that nodes remain for a long one": {[]sim.WorkloadJob{
			rigidJob("first", 0, 1000, 1000, 3), rigidJob("second", 0, 1000, 1000, 3),
			rigidJob("head", 10, 100, 0, 7), rigidJob("long", 20, 5000, 0, 3),
		}, []int{0, 0, 1001, 21}},
	} {
		result, err := find(t, Backfill).Run(t.Context(), sim.Workload{Name: "w", Jobs: test.jobs}, sim.DefaultConfig(10), nil)
		if err != nil {
			t.Fatal(err)
		}
		var starts []int
		for i := range result.Jobs {
			starts = append(starts, int(result.Jobs[i].Start.Seconds()))
		}
		if diff := cmp.Diff(test.want, starts); diff != "" {
			t.Errorf("%s: starts (-want +got):\n%s", name, diff)
		}
	}
}
