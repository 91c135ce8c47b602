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

// notStarted is the start of a job that has not started.
const notStarted = -1

// easyPool is the state of easy.
type easyPool struct {
	jobs           []easyJob
	nodes, restart int
	now            int
	ending         bool // whether the jobs that complete now still occupy their nodes
}

// easy is an independent implementation of EASY backfill: a loop over seconds in which a later job may start if
// the time at which the head of the queue could start, found by trying one second after the other, stays
// the same. Decisions are a second after each submission and completion, and every period.
func easy(jobs []easyJob, nodes, period, restart int) []easyJob {
	for i := range jobs {
		jobs[i].start = notStarted
	}
	p := easyPool{jobs: jobs, nodes: nodes, restart: restart}
	event := false // whether a job was submitted or completed in the last second
	for left := len(jobs); left > 0; p.now++ {
		regular := p.now%period == 0
		if event && !regular {
			p.ending = true
			p.decide()
		}
		submitted, completed := p.happened()
		left -= completed
		event = submitted+completed > 0
		if regular && left > 0 {
			p.ending = false
			p.decide()
			event = false
		}
	}
	return jobs
}

// completion returns when a job that started completes.
func (p *easyPool) completion(j easyJob) int { return j.start + j.run + p.restart }

// happened returns how many jobs are submitted and complete now.
func (p *easyPool) happened() (submitted, completed int) {
	for _, j := range p.jobs {
		if j.start != notStarted && p.now == p.completion(j) {
			completed++
		}
		if j.submit == p.now {
			submitted++
		}
	}
	return submitted, completed
}

// decide starts jobs in the order of the queue. Behind the first that does not fit, a job starts if this leaves the
// earliest start of the first unchanged.
func (p *easyPool) decide() {
	head := (*easyJob)(nil)
	for i := range p.jobs {
		j := &p.jobs[i]
		switch queued := j.start == notStarted && (j.submit < p.now || j.submit == p.now && !p.ending); {
		case !queued:
		case j.nodes <= p.idle(func(easyJob) bool { return true }):
			p.start(j, head)
		case head == nil:
			head = j
		}
	}
}

// start starts a job, unless it delays the head of the queue.
func (p *easyPool) start(j, head *easyJob) {
	if head == nil {
		j.start = p.now
		return
	}
	reserved := p.earliest(*head)
	if j.start = p.now; p.earliest(*head) > reserved {
		j.start = notStarted
	}
}

// earliest returns when a job could start if every running job runs until its limit.
func (p *easyPool) earliest(head easyJob) int {
	for at := p.now; ; at++ {
		if p.idle(func(j easyJob) bool { return at < j.start+j.limit }) >= head.nodes {
			return at
		}
	}
}

// idle returns the nodes that are free if only those of the running jobs that satisfy a condition are occupied.
func (p *easyPool) idle(occupies func(easyJob) bool) int {
	idle := p.nodes
	for _, j := range p.jobs {
		running := j.start != notStarted && (p.now < p.completion(j) || p.ending && p.now == p.completion(j))
		if running && occupies(j) {
			idle -= j.nodes
		}
	}
	return idle
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
