package elastalloc_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// minError is the smallest standard deviation that two keys differ by if both jobs have a
// restart time.
const minError = 0.1 * math.Sqrt2

// TestSequenceOfDecisions runs closed loops, each with a fixed set of jobs on a fixed pool until
// all jobs that fit have completed, and checks every step of the proof in docs/proofs/sequences.md and
// the bounds on resizes and lost time. The test computes the quantities of
// the bounds from the jobs. Only c_i and the change costs are results of the solver.
func TestSequenceOfDecisions(t *testing.T) {
	t.Parallel()
	a, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		randomSequence(t).run(t, a)
	})
}

// TestSweepCompletes runs a hyperparameter sweep, identical jobs that each need the whole pool,
// with restarts that are as long as the time between decisions.
func TestSweepCompletes(t *testing.T) {
	t.Parallel()
	a, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	if err != nil {
		t.Fatal(err)
	}
	for _, admission := range []solver.Admission{solver.AdmissionPreemptive, solver.AdmissionStartFirst} {
		for _, loadingCounts := range []bool{false, true} {
			l := &sequence{
				pool: 1, admission: admission, interval: 300, loadingCounts: loadingCounts,
				price: solver.DefaultResizePrice, sharePrice: solver.DefaultSharePrice, random: rand.New(rand.NewPCG(1, 2)),
			}
			for i := range 4 {
				l.jobs = append(l.jobs, &sequenceJob{id: fmt.Sprint("s", i), left: 3600, sizes: []int{1}, efficiency: 0.8, weight: 1, restart: 300})
			}
			l.run(t, a)
			if l.pauses > 0 {
				t.Errorf("%s: %d pauses; want none, because the jobs are identical", admission, l.pauses)
			}
		}
	}
}

// sequence is a closed loop of decisions. All times are in seconds.
type sequence struct {
	pool          int
	admission     solver.Admission
	jobs          []*sequenceJob // jobs that have not completed
	interval      float64        // between decisions
	irregular     bool           // whether intervals are random, with that mean
	atCompletions bool           // whether there is a decision at every completion too
	loadingCounts bool           // whether training time includes the time that a job loads
	price         time.Duration
	sharePrice    float64
	random        *rand.Rand

	all                     []*sequenceJob
	now, decided            float64 // decided is the time of the last decision
	meanWeight              float64 // at the last decision
	starts, resumes, pauses int
	growths, shrinks        int
	displacing              int  // decisions that start a job on nodes in use
	completed               bool // whether a job has completed since the last decision
	piece                   *piece
	total                   piece // the sums over the pieces that are closed
	pieces                  int
	largestValue            float64 // of all plans under any set of jobs, Q_max
	value, lost             float64 // of the time with nodes, and of its part in restarts
}

// sequenceJob is a job of a sequence.
type sequenceJob struct {
	id                 string
	left               float64 // on one node
	sizes              []int
	efficiency, weight float64
	restart            float64
	nodes              int
	loading            float64 // remaining loading time
	trained, waited    float64
	onNodes            float64   // time with nodes
	changed            float64   // onNodes at the last change
	restarts           []float64 // onNodes at the restarts
	c, share           float64   // c_i and the value of the fair share at the last decision, relative to the mean weight
	need               float64   // at the last decision, see sequence.need
	first, fallen      float64   // the largest need possible, and the sum of the decreases of its logarithm
}

// need returns the work by which a job is ranked, with the first start of a job that never started.
func (l *sequence) need(j *sequenceJob) float64 {
	work := math.Ceil(j.left*1e9) / 1e9
	if j.nodes == 0 && j.trained == 0 {
		work += j.restart * j.speedOn(l.fairShare(j))
	}
	return work
}

// fairShare returns the nodes of the fair share of a job.
func (l *sequence) fairShare(j *sequenceJob) float64 {
	share := max(1, float64(l.pool)/float64(len(l.jobs)))
	return min(max(share, float64(j.sizes[0])), float64(j.largest()))
}

func (j *sequenceJob) exponent() float64 { return math.Log2(2 * j.efficiency) }

func (j *sequenceJob) speed(nodes int) float64 { return j.speedOn(float64(nodes)) }

func (j *sequenceJob) speedOn(nodes float64) float64 { return math.Pow(nodes, j.exponent()) }

// largest returns the largest size.
func (j *sequenceJob) largest() int { return j.sizes[len(j.sizes)-1] }

// fastest returns the highest speed that the job can have in the pool, 0 if it does not fit.
func (j *sequenceJob) fastest(pool int) float64 {
	highest := 0.0
	for _, size := range j.sizes {
		if size <= pool {
			highest = max(highest, j.speed(size))
		}
	}
	return highest
}

// aging returns the effective aging of the job, A_i. payback returns L_i of a job that has just restarted.
func (j *sequenceJob) aging() float64 { return max(solver.DefaultAging.Seconds(), 100*j.restart) }

func (j *sequenceJob) payback() float64 { return max(solver.DefaultPayback.Seconds(), 4*j.restart) }

// aged returns the weight of the job with its aging.
func (j *sequenceJob) aged() float64 { return j.weight * (1 + j.waited/j.aging()) }

// piece is a sequence of decisions with the same jobs, none of which starts a job on nodes in use. All values are
// divided by the mean weight.
type piece struct {
	first    float64 // value of the plan before the first decision
	declines float64 // of the values of the jobs on their current nodes
	allowed  float64 // bound of the proof on the declines

	costs, bonus float64 // sums over the decisions, as in step
	slower       int
}

// randomSequence returns a sequence before its first decision.
func randomSequence(t *rapid.T) *sequence {
	l := &sequence{
		pool:          rapid.IntRange(1, 8).Draw(t, "pool"),
		admission:     rapid.SampledFrom(solver.Admissions()).Draw(t, "admission"),
		irregular:     rapid.Bool().Draw(t, "irregular"),
		atCompletions: rapid.Bool().Draw(t, "decisions at completions"),
		loadingCounts: rapid.Bool().Draw(t, "loading counts"),
		price:         rapid.SampledFrom([]time.Duration{time.Second, 15 * time.Second, solver.DefaultResizePrice}).Draw(t, "ResizePrice"),
		sharePrice:    rapid.SampledFrom([]float64{solver.DefaultSharePrice, 0, 10}).Draw(t, "SharePrice"),
		random:        rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)),
	}
	restart := rapid.SampledFrom([]float64{15, 60, 300, 900}).Draw(t, "restart")
	l.interval = restart * rapid.SampledFrom([]float64{0.3, 0.7, 1, 1.4, 4}).Draw(t, "interval in restarts")
	length := max(rapid.SampledFrom([]float64{1800, 3600, 4 * 3600}).Draw(t, "length"), 4*restart)
	length = min(length, 100*l.interval)
	alike := rapid.Bool().Draw(t, "identical")
	mixed := rapid.Bool().Draw(t, "mixed restarts")
	for i := range rapid.IntRange(2, 8).Draw(t, "jobs") {
		j := &sequenceJob{left: length, sizes: []int{1}, efficiency: 0.8, weight: 1, restart: restart}
		if l.pool > 1 {
			j.sizes = rapid.SampledFrom([][]int{{1}, {1, 2}, {2, 4}, {1, 2, 4, 8}}).Draw(t, "sizes")
		}
		if mixed {
			j.restart *= rapid.SampledFrom([]float64{0.5, 1, 3}).Draw(t, "restart factor")
		}
		if !alike {
			j.left *= rapid.Float64Range(0.05, 1).Draw(t, "share of the length")
			j.efficiency = rapid.SampledFrom([]float64{0.6, 0.8, 0.95}).Draw(t, "efficiency")
			j.weight = rapid.SampledFrom([]float64{0.5, 1, 3}).Draw(t, "weight")
		}
		if alike && i > 0 {
			j = new(*l.jobs[0])
		}
		j.id = fmt.Sprint("j", i)
		l.jobs = append(l.jobs, j)
	}
	if !slices.ContainsFunc(l.jobs, l.fits) {
		l.pool = l.jobs[0].largest()
	}
	return l
}

func (l *sequence) fits(j *sequenceJob) bool { return j.sizes[0] <= l.pool }

// run decides, applies and waits until no job that fits is left.
func (l *sequence) run(t rapid.TB, a *elastalloc.Allocator) {
	t.Helper()
	l.all = l.jobs
	for _, j := range l.jobs {
		j.first = j.left + j.restart*j.speed(j.largest())
	}
	next := 0.0
	for decisions := 0; slices.ContainsFunc(l.jobs, l.fits); {
		if l.now >= next || l.completed && l.atCompletions {
			if decisions++; decisions > 5000 {
				t.Fatalf("%d jobs are left after %.0f s and %d decisions", len(l.jobs), l.now, decisions)
			}
			l.decide(t, a)
			if l.now >= next {
				if next = l.now + l.interval; l.irregular {
					next = l.now + l.interval*l.random.ExpFloat64()
				}
			}
		}
		l.advance(next)
	}
	l.close()
	l.check(t)
}

// advance lets time pass up to the next decision or completion.
func (l *sequence) advance(next float64) {
	for _, j := range l.jobs {
		if j.nodes > 0 {
			next = min(next, l.now+j.loading+j.left/j.speed(j.nodes))
		}
	}
	passed := next - l.now
	l.now = next
	for _, j := range l.jobs {
		if j.nodes == 0 {
			j.waited += passed
			continue
		}
		loading := min(j.loading, passed)
		j.loading -= loading
		j.onNodes += passed
		l.value += passed * j.c * j.speed(j.nodes)
		l.lost += loading * j.c * j.speed(j.nodes)
		j.left -= (passed - loading) * j.speed(j.nodes)
		if j.trained += passed - loading; l.loadingCounts {
			j.trained += loading
		}
	}
	before := len(l.jobs)
	l.jobs = slices.DeleteFunc(slices.Clone(l.jobs), func(j *sequenceJob) bool { return j.left < 1e-6 })
	l.completed = l.completed || len(l.jobs) < before
}

// snapshot returns the jobs that are left.
func (l *sequence) snapshot() *solver.Snapshot {
	s := &solver.Snapshot{TotalNodes: l.pool}
	seconds := func(s float64) time.Duration { return time.Duration(math.Ceil(s * 1e9)) }
	for _, j := range l.jobs {
		var restarts []time.Duration
		for n := len(j.restarts) - 1; n >= max(0, len(j.restarts)-solver.MaxRecentRestarts); n-- {
			restarts = append(restarts, seconds(j.onNodes-j.restarts[n]))
		}
		s.Jobs = append(s.Jobs, solver.Job{
			ID: j.id, RemainingETA: seconds(j.left), AllowedNodes: j.sizes, CurrentNodes: j.nodes, Weight: &j.weight,
			Scaling: solver.Scaling{DoublingEfficiency: j.efficiency}, RestartTime: seconds(j.restart),
			TrainingTime: seconds(j.trained), WaitingTime: seconds(j.waited), RecentRestarts: restarts,
		})
	}
	return s
}

// decide makes a decision, checks it and applies it.
func (l *sequence) decide(t rapid.TB, a *elastalloc.Allocator) {
	t.Helper()
	s := l.snapshot()
	o := solver.Options{
		Objective: solver.ObjectiveTotalTime, Admission: l.admission,
		TotalTime: solver.TotalTimeOptions{ResizePrice: &l.price, SharePrice: &l.sharePrice},
	}
	d, err := a.Allocate(context.Background(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	if d.Report.Backend == solver.BackendGreedy {
		t.Fatal("greedy decided; the theorem is about optimal decisions")
	}
	limits := l.bounds()
	step := l.observe(t, problem.NewProblemFor(s.WithDefaults(), o.WithDefaults()), d, limits)
	if l.largestValue = max(l.largestValue, limits.largestValue); step.after > limits.largestValue*(1+1e-9) {
		t.Fatalf("the value of a plan is %v; want at most %v", step.after, limits.largestValue)
	}
	if l.piece == nil || l.completed {
		l.close()
		l.piece = &piece{first: step.before}
	} else {
		l.checkDeclines(t, limits, step.slope)
	}
	if step.displacing {
		// The optimizer had to start a job, and could not keep the plan.
		l.displacing++
		l.close()
	} else {
		l.piece.add(t, step)
	}
	l.apply(d, step.slope, limits)
}

// step is what a decision changes, with all values divided by the mean weight.
type step struct {
	slope         []float64 // c_i of every job, 0 of one that is not admitted
	before, after float64   // values of the plan before and after
	costs         float64   // of the changes
	bonus         float64   // for first starts
	slower        int       // pauses, and resizes to smaller sizes
	displacing    bool      // whether a job had to start on nodes in use
}

// observe computes the changes of a decision and checks the cost of every resize and pause.
func (l *sequence) observe(t rapid.TB, p *problem.Problem, d solver.Decision, limits bounds) step {
	t.Helper()
	now := step{slope: make([]float64, len(l.jobs))}
	inUse, forced := 0, 0
	for n := range p.Jobs {
		admitted := &p.Jobs[n]
		i := admitted.Index
		j, nodes := l.jobs[i], d.Allocations[i].Nodes
		bonus := 0.0
		if j.nodes == 0 && j.trained == 0 && l.admission == solver.AdmissionOptimized {
			bonus = solver.DefaultStartBonus.Seconds() / solver.DefaultPayback.Seconds()
		}
		share := func(nodes int) float64 { return limits.share[i] * min(j.speed(nodes), j.speedOn(l.fairShare(j))) }
		c, largest := 0.0, len(admitted.Options)-1
		if size := int(admitted.Options[largest].Nodes); size > 0 {
			c = ((admitted.OptionValue[largest]+admitted.ChangeCost[largest])/limits.meanWeight - bonus - share(size)) / j.speed(size)
		}
		cost := admitted.ChangeCost[slices.Index(admitted.Options, solver.NewOption(0, nodes))] / limits.meanWeight
		now.slope[i] = c
		now.before += c*j.speed(j.nodes) + share(j.nodes)
		now.after += c*j.speed(nodes) + share(nodes)
		now.costs += cost
		inUse += j.nodes
		switch {
		case j.nodes == 0:
			forced += int(admitted.Options[0].Nodes)
			if nodes > 0 {
				now.bonus += bonus
			}
		case nodes != j.nodes:
			payback := j.payback()
			if nodes > j.nodes {
				payback = max(payback, j.onNodes-j.changed)
			} else {
				now.slower++
			}
			if due := (l.price.Seconds() + j.restart*c*j.speed(j.nodes)) / payback; cost < due*(1-1e-9) {
				t.Fatalf("%s: a change from %d to %d nodes costs %v; want at least %v, since the restart on %[2]d nodes may be wasted",
					j.id, j.nodes, nodes, cost, due)
			}
		}
	}
	now.displacing = forced > 0 && inUse+forced > l.pool
	return now
}

// add adds a decision to a piece and checks that it is no worse than keeping all nodes, and that
// the values account for the costs so far.
func (p *piece) add(t rapid.TB, now step) {
	t.Helper()
	if gained := now.after + now.bonus - now.costs; gained < now.before-1e-9*(1+now.before+now.costs) {
		t.Fatalf("the value of a decision including the cost of its changes is %v; the value without changes is %v", gained, now.before)
	}
	p.costs, p.bonus = p.costs+now.costs, p.bonus+now.bonus
	p.slower += now.slower
	if limit := now.after - p.first + p.declines + p.bonus; p.costs > limit+1e-6*(1+limit) {
		t.Fatalf("changes cost %v; want at most %v", p.costs, limit)
	}
}

// apply applies a decision and stores the values for the comparison with the next one.
func (l *sequence) apply(d solver.Decision, slope []float64, limits bounds) {
	l.completed, l.decided, l.meanWeight = false, l.now, limits.meanWeight
	for i, j := range l.jobs {
		j.c, j.share, j.need = slope[i], limits.share[i], l.need(j)
		nodes := d.Allocations[i].Nodes
		switch {
		case nodes == j.nodes:
			continue
		case nodes == 0:
			l.pauses++
		case j.nodes > nodes:
			l.shrinks++
		case j.nodes > 0:
			l.growths++
		case j.trained > 0:
			l.resumes++
		default:
			l.starts++
		}
		if nodes > 0 && (j.nodes > 0 || j.trained > 0) {
			j.restarts = append(j.restarts, j.onNodes)
		}
		j.nodes, j.changed, j.loading = nodes, j.onNodes, 0
		if nodes > 0 {
			j.loading = j.restart
		}
	}
}

// bounds contains the quantities of the theorem for a set of jobs and a pool.
type bounds struct {
	meanWeight   float64
	exponent     float64   // a
	futureWork   float64   // V_0 relative to the mean weight, F N / mean largest size
	unit         []float64 // N^a u_i
	maxSlope     []float64 // of c_i, C_i
	share        []float64 // share_price chat_i relative to the mean weight
	largestValue float64   // of a plan, F_max
	rate         float64   // at which aging lowers the logarithm of c_i at most, mu
}

// bounds computes the quantities for the jobs that have not completed.
func (l *sequence) bounds() (b bounds) {
	n, pool := float64(len(l.jobs)), float64(l.pool)
	var exponents []float64
	meanLargest, minAging := 0.0, math.Inf(1)
	for _, j := range l.jobs {
		b.meanWeight += j.aged() / n
		meanLargest += min(float64(j.largest()), pool) / n
		minAging = min(minAging, j.aging())
		if j.largest() > 1 {
			exponents = append(exponents, j.exponent())
		}
	}
	slices.Sort(exponents)
	if b.exponent = math.Log2(1.6); len(exponents) > 0 {
		b.exponent = (exponents[len(exponents)/2] + exponents[(len(exponents)-1)/2]) / 2
	}
	b.exponent = min(max(b.exponent, 0.05), 0.97)
	b.futureWork = pool / meanLargest
	all, power := b.futureWork+n, 1/(1-b.exponent)
	for _, j := range l.jobs {
		fair := l.fairShare(j)
		unit := math.Pow(pool, b.exponent) * math.Pow(fair, j.exponent()-b.exponent)
		highest := max(all/unit, n/j.speed(j.largest()))
		b.unit, b.maxSlope = append(b.unit, unit), append(b.maxSlope, highest)
		rest := 1 - j.aged()/b.meanWeight/all
		b.share = append(b.share, l.sharePrice*all*math.Pow(1-math.Pow(rest, power), 1/power)/unit)
		b.largestValue += (highest + l.sharePrice*all/unit) * j.fastest(l.pool)
	}
	b.rate = (1 + agingRate(b.exponent, n/b.futureWork)) / minAging
	return b
}

// agingRate returns lambda A for m jobs per full pool: aging lowers the logarithm of c_i by at
// most lambda per second.
func agingRate(a, m float64) float64 {
	steepest := 0.0
	for x := -8.0; x < 4; x += 1.0 / 64 {
		density := math.Exp(-x*x/2) / math.Sqrt(2*math.Pi)
		steepest = max(steepest, a*density/minError/(1/m+math.Erfc(-x/math.Sqrt2)/2))
	}
	return a * max(0, steepest*(1+1e-4)-1)
}

// TestAgingRate checks the figures of docs/proofs/sequences.md.
func TestAgingRate(t *testing.T) {
	t.Parallel()
	for m, want := range map[float64]float64{4: 1.4, 10: 2.4, 40: 3.9, 200: 5.7, 1000: 7.2} {
		if got := agingRate(math.Log2(1.6), m); math.Abs(got-want) > 0.05 {
			t.Errorf("%v jobs per full pool: lambda A is %.3f; want %v", m, got, want)
		}
	}
}

// checkDeclines checks how far the value of each job has fallen since the last decision, which had the same
// jobs, and adds up the declines.
func (l *sequence) checkDeclines(t rapid.TB, now bounds, slope []float64) {
	t.Helper()
	peak := 1 / math.Sqrt(2*math.Pi) / minError // the highest slope of an expected order
	n, aged := float64(len(l.jobs)), math.Log(now.meanWeight/l.meanWeight)
	fallen, weighted := 0.0, 0.0 // sums of the decreases of the logarithms of the needs
	falls := make([]float64, len(l.jobs))
	for i, j := range l.jobs {
		falls[i] = l.fall(t, j)
		fallen, weighted = fallen+falls[i], weighted+falls[i]*j.aged()/l.meanWeight
	}
	for i, j := range l.jobs {
		if slope[i] == 0 {
			continue // It does not fit.
		}
		others, othersWeighted := fallen-falls[i], weighted-falls[i]*j.aged()/l.meanWeight
		limit := now.rate*(l.now-l.decided) + now.exponent*peak*othersWeighted/now.futureWork
		if decline := math.Log(j.c / slope[i]); decline > limit+1e-8 {
			t.Fatalf("%s: ln c fell by %v in %.0f s; want at most %v", j.id, decline, l.now-l.decided, limit)
		}
		if most := (1 - now.exponent) * aged; j.share*math.Exp(-most) > now.share[i]*(1+1e-9) {
			t.Fatalf("%s: the value of its fair share fell from %v to %v; want at most a factor of %v", j.id, j.share, now.share[i], math.Exp(most))
		}
		l.piece.declines += max(0, j.c-slope[i])*j.speed(j.nodes) +
			max(0, j.share-now.share[i])*min(j.speed(j.nodes), j.speedOn(l.fairShare(j)))
		l.piece.allowed += j.fastest(l.pool) * (now.maxSlope[i]*aged + peak/now.unit[i]*n*(now.exponent*aged+others) +
			(1-now.exponent)*l.sharePrice*(now.futureWork+n)/now.unit[i]*aged)
		if l.piece.declines > l.piece.allowed+1e-8 {
			t.Fatalf("declines total %v; want at most %v", l.piece.declines, l.piece.allowed)
		}
	}
}

// fall returns the decrease of the logarithm of the need of a job since the last decision, and checks the sum of
// these decreases. If a job is paused in its first start and training_time does not count it, the job counts
// as never started again, and the sum has no bound.
func (l *sequence) fall(t rapid.TB, j *sequenceJob) float64 {
	t.Helper()
	need := l.need(j)
	fell := max(0, math.Log(j.need/need))
	j.fallen += fell
	startsOnce := l.loadingCounts || l.admission != solver.AdmissionPreemptive
	if limit := math.Log(j.first / need); startsOnce && j.fallen > limit+1e-9 {
		t.Fatalf("%s: the logarithm of its need fell by %v; want at most %v", j.id, j.fallen, limit)
	}
	return fell
}

// close ends a piece.
func (l *sequence) close() {
	if l.piece != nil {
		l.pieces++
		l.total.declines += l.piece.declines
		l.total.allowed += l.piece.allowed
		l.total.slower += l.piece.slower
		l.total.bonus += l.piece.bonus
	}
	l.piece = nil
}

// check checks the bounds on what the changes have cost from the first decision to the last.
func (l *sequence) check(t rapid.TB) {
	t.Helper()
	n := len(l.all)
	payback, restart, sizes := 0.0, 0.0, 0 // the largest of all jobs
	for _, j := range l.all {
		payback, restart, sizes = max(payback, j.payback()), max(restart, j.restart), max(sizes, len(j.sizes))
	}
	if l.displacing > n || l.pieces > 2*n+1 {
		t.Fatalf("%d decisions displaced jobs and there were %d pieces; want at most %d and %d", l.displacing, l.pieces, n, 2*n+1)
	}
	for _, declines := range []float64{l.total.declines, l.total.allowed} {
		costs := float64(l.pieces)*l.largestValue + declines + l.total.bonus
		slower := payback/l.price.Seconds()*costs + float64(n*l.displacing)
		if float64(l.shrinks+l.pauses) > slower || float64(l.total.slower+n*l.displacing) < float64(l.shrinks+l.pauses) {
			t.Fatalf("%d pauses and %d resizes to smaller sizes, %d of both without displacing; want at most %v",
				l.pauses, l.shrinks, l.total.slower, slower)
		}
		if most := float64(sizes) * (slower + float64(n)); float64(l.shrinks+l.pauses+l.growths) > most {
			t.Fatalf("%d resizes; want at most %v", l.shrinks+l.pauses+l.growths, most)
		}
		limit := (payback+restart)*costs + float64(n+l.displacing)*restart*l.largestValue + restart/(4*payback)*l.value
		if l.lost > limit*(1+1e-6) {
			t.Fatalf("restarts cost %v; want at most %v", l.lost, limit)
		}
	}
	if l.admission != solver.AdmissionPreemptive && l.starts > n {
		t.Fatalf("%d first starts of %d jobs; a loading job lost its nodes", l.starts, n)
	}
	if l.starts+l.resumes > n+l.pauses {
		t.Fatalf("%d starts and %d resumes of %d jobs with %d pauses", l.starts, l.resumes, n, l.pauses)
	}
}
