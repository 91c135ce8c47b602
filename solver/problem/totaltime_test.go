package problem_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/hesrpt"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// totalTimeProblem is the model of the objective with the given parameters.
func totalTimeProblem(s *solver.Snapshot, admission solver.Admission, o solver.TotalTimeOptions) *problem.Problem {
	return problem.NewProblemFor(s, solver.Options{
		Objective: solver.ObjectiveTotalTime, Admission: admission, TotalTime: o,
	})
}

// spec works the objective out a second time, as its definition reads and with no
// regard to cancellation: the value of a size of a job.
type spec struct {
	snapshot *solver.Snapshot
	options  solver.TotalTimeOptions
	bonus    bool
}

func (m spec) speed(i int, k float64) float64 {
	job := &m.snapshot.Jobs[i]
	if k == 0 {
		return 0
	}
	if job.Scaling.Speeds == nil {
		return math.Pow(k, 1+math.Log2(job.Scaling.DoublingEfficiency))
	}
	sizes := job.LegalSizes()
	if len(job.Scaling.Speeds) == len(job.AllowedNodes) {
		sizes = job.AllowedNodes
	}
	for n, size := range sizes {
		if k <= float64(size) {
			if n == 0 || k == float64(size) {
				return job.Scaling.Speeds[n]
			}
			x0, x1 := math.Log(float64(sizes[n-1])), math.Log(float64(size))
			y0, y1 := math.Log(job.Scaling.Speeds[n-1]), math.Log(job.Scaling.Speeds[n])
			return math.Exp(y0 + (y1-y0)*(math.Log(k)-x0)/(x1-x0))
		}
	}
	return job.Scaling.Speeds[len(sizes)-1]
}

func (m spec) demand(i int) float64 {
	job := &m.snapshot.Jobs[i]
	d := job.RemainingETA.Seconds()
	if job.ETANodes > 0 {
		d *= m.speed(i, float64(job.ETANodes))
	}
	if job.Overrun >= 1 {
		d = max(d, job.WorkDone.Seconds()/4)
	}
	return d
}

// share returns the fair share of a job within its legal sizes.
func (m spec) share(i int) float64 {
	sizes := m.snapshot.Jobs[i].LegalSizes()
	share := max(1, float64(m.snapshot.TotalNodes)/float64(len(m.snapshot.Jobs)))
	return max(float64(slices.Min(sizes)), min(float64(slices.Max(sizes)), share))
}

// loading returns the restart time of a job that never started.
func (m spec) loading(i int) float64 {
	job := &m.snapshot.Jobs[i]
	if job.CurrentNodes > 0 || job.TrainingTime > 0 {
		return 0
	}
	return job.RestartTime.Seconds()
}

// needed returns the work that orders the jobs.
func (m spec) needed(i int) float64 { return m.demand(i) + m.loading(i)*m.speed(i, m.share(i)) }

func (m spec) etaError(i int) float64 {
	told := *m.options.ETAError
	if own := m.snapshot.Jobs[i].ETAError; own != nil {
		told = *own
	}
	if !m.snapshot.Jobs[i].FreeResizes && told < 0.1 {
		return 0.1
	}
	return told
}

func (m spec) weight(job *solver.Job) float64 {
	w := min(*job.Weight, 1e9)
	if aging := m.options.Aging.Seconds(); aging > 0 {
		w *= 1 + job.WaitingTime.Seconds()/max(aging, 100*job.RestartTime.Seconds())
	}
	return w
}

// coefficients returns c_i of every job with its rounding error, relative, the value of work on its fair
// share, and the mean weight.
func (m spec) coefficients() (c, rounding, fair []float64, meanWeight float64) {
	count := float64(len(m.snapshot.Jobs))
	pool := float64(m.snapshot.TotalNodes)
	var weights, exponents []float64
	meanLargest := 0.0
	for i := range m.snapshot.Jobs {
		job := &m.snapshot.Jobs[i]
		w := m.weight(job)
		weights = append(weights, w)
		meanWeight += w / count
		most := slices.Max(job.LegalSizes())
		meanLargest += float64(min(most, m.snapshot.TotalNodes)) / count
		if most > 1 {
			exponents = append(exponents, math.Log(m.speed(i, float64(most)))/math.Log(float64(most)))
		}
	}
	a := math.Log2(1.6)
	if n := len(exponents); n > 0 {
		slices.Sort(exponents)
		a = (exponents[(n-1)/2] + exponents[n/2]) / 2
	}
	a = max(0.05, min(0.97, a))
	p := 1 / (1 - a)

	order := make([]int, len(m.snapshot.Jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int {
		return cmp.Compare(m.needed(y)/math.Pow(weights[y], a), m.needed(x)/math.Pow(weights[x], a))
	})
	c, rounding, fair = make([]float64, len(order)), make([]float64, len(order)), make([]float64, len(order))
	all := *m.options.Fairness * (pool / meanLargest) * meanWeight
	for _, w := range weights {
		all += w
	}
	for n, i := range order {
		if weights[i] == 0 {
			continue
		}
		v := *m.options.Fairness * (pool / meanLargest) * meanWeight
		for other, j := range order {
			switch sd := math.Hypot(m.etaError(i), m.etaError(j)); {
			case j == i || weights[j] == 0:
			case sd > 0:
				ratio := m.needed(i) / math.Pow(weights[i], a) / (m.needed(j) / math.Pow(weights[j], a))
				v += weights[j] * math.Erfc(math.Log(ratio)/sd/math.Sqrt2) / 2
			case other < n:
				v += weights[j]
			}
		}
		sizes := m.snapshot.Jobs[i].LegalSizes()
		share := m.share(i)
		u := m.speed(i, share) / math.Pow(share, a)
		up := v + weights[i]
		fair[i] = *m.options.SharePrice * all * math.Pow(1-math.Pow(1-weights[i]/all, p), 1/p) / (math.Pow(pool, a) * u)
		c[i] = max(
			up*math.Pow(1-math.Pow(v/up, p), 1/p)/(math.Pow(pool, a)*u),
			weights[i]/m.speed(i, float64(slices.Max(sizes))),
		)
		if rounding[i] = 1e-11 + 1e-15*p*all/weights[i]; rounding[i] > 1e-6 {
			rounding[i] = math.Inf(1) // No digit is left of 1 - (v/up)^p.
		}
	}
	return c, rounding, fair, meanWeight
}

// exceeded reports whether the running jobs have more nodes than the pool.
func (m spec) exceeded() bool {
	nodes := 0
	for i := range m.snapshot.Jobs {
		nodes += m.snapshot.Jobs[i].CurrentNodes
	}
	return nodes > m.snapshot.TotalNodes
}

// value returns what k nodes are worth to job i.
func (m spec) value(i, k int, c, fair, meanWeight float64) float64 {
	job := &m.snapshot.Jobs[i]
	o := &m.options
	beta, payback, r := o.ResizePrice.Seconds(), o.Payback.Seconds(), job.RestartTime.Seconds()
	longest, s := max(payback, 4*r), m.speed(i, float64(k))
	if job.CurrentNodes > 0 && s > m.speed(i, float64(job.CurrentNodes)) {
		since := job.TrainingTime
		if len(job.RecentRestarts) > 0 {
			since = job.RecentRestarts[0]
		}
		longest = max(longest, since.Seconds())
	}
	saved := c * s
	if p := o.Cadence.Seconds(); p > 0 && k > 0 {
		if end := m.demand(i)/s + m.loading(i); end < p {
			saved = c*end*s/p + m.weight(job)*(p-end)/p
		}
	}
	value := saved + fair*min(s, m.speed(i, m.share(i)))
	started := job.CurrentNodes > 0 || job.TrainingTime > 0
	switch {
	case k > 0 && !started && m.bonus:
		value += o.StartBonus.Seconds() * meanWeight / payback
	case k == job.CurrentNodes || !started:
	case job.CurrentNodes == 0:
		value -= min(beta*meanWeight/longest, saved/2)
	default:
		if k == 0 {
			beta *= *o.PausePriceFactor
		}
		higher := max(s, m.speed(i, float64(job.CurrentNodes)))
		span := min(longest, max(1, m.demand(i)/higher))
		if k < job.CurrentNodes && m.exceeded() {
			span = longest
		}
		value -= (beta*meanWeight + r*c*higher) / span
	}
	return value
}

// drawTotalTime returns random parameters of the objective.
func drawTotalTime(t *rapid.T) solver.TotalTimeOptions {
	seconds := func(name string, values ...int) *time.Duration {
		return new(time.Duration(rapid.SampledFrom(values).Draw(t, name)) * time.Second)
	}
	return solver.TotalTimeOptions{
		Fairness:         new(rapid.SampledFrom([]float64{0, 1, 4, 0.3}).Draw(t, "fairness")),
		Aging:            seconds("aging", 0, 28800, 60),
		ResizePrice:      seconds("ResizePrice", 0, 75, 15),
		Payback:          seconds("payback", 900, 1, 300),
		PausePriceFactor: new(rapid.SampledFrom([]float64{0, 1, 8}).Draw(t, "pause price factor")),
		StartBonus:       seconds("start bonus", 0, 500),
		Cadence:          seconds("cadence", 0, 0, 300, 3600),
		ETAError:         new(rapid.SampledFrom([]float64{0, 0.7, 5}).Draw(t, "eta error of all")),
		SharePrice:       new(rapid.SampledFrom([]float64{0, 0.1, 10}).Draw(t, "share price")),
	}
}

// TestTotalTime compares the values of all sizes of random snapshots with a second
// reading of the definition.
func TestTotalTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.Snapshots().Draw(t, "snapshot")
		if s.TotalNodes == 0 {
			t.Skip("no job can get anything")
		}
		for i := range s.Jobs {
			s.Jobs[i].ETAError = rapid.SampledFrom([]*float64{nil, nil, new(0.0), new(0.1), new(1.4)}).Draw(t, "eta error")
		}
		admission := rapid.SampledFrom(solver.Admissions()).Draw(t, "admission")
		m := spec{snapshot: s, options: drawTotalTime(t), bonus: admission == solver.AdmissionOptimized}
		p := totalTimeProblem(s, admission, m.options)
		if p.Steps != 1 || len(p.Capacity) != 1 || p.Capacity[0] != s.TotalNodes {
			t.Fatalf("%d steps of capacity %v; want one of %d", p.Steps, p.Capacity, s.TotalNodes)
		}
		c, rounding, fair, meanWeight := m.coefficients()
		for n := range p.Jobs {
			job := &p.Jobs[n]
			if job.Gain[0] != 0 {
				t.Fatalf("progress is worth %v; want 0", job.Gain[0])
			}
			for at, option := range job.Options {
				k := int(option.Nodes)
				want := m.value(job.Index, k, c[job.Index], fair[job.Index], meanWeight)
				r := s.Jobs[job.Index].RestartTime.Seconds()
				// A smaller size, or none, loses what the current one brings.
				most := (c[job.Index] + fair[job.Index]) * max(m.speed(job.Index, float64(k)),
					m.speed(job.Index, float64(s.Jobs[job.Index].CurrentNodes)))
				tolerance := rounding[job.Index]*most*(1+r) + 1e-12*(math.Abs(want)+m.weight(&s.Jobs[job.Index])) + 1e-300
				if got := job.OptionValue[at]; math.IsNaN(got) || math.Abs(got-want) > tolerance {
					t.Fatalf("%d nodes for job %d are worth %.15g; want %.15g", k, job.Index, got, want)
				}
			}
		}
	})
}

// TestTotalTimeWithoutNodes has no pool to divide by.
func TestTotalTimeWithoutNodes(t *testing.T) {
	s := &solver.Snapshot{Jobs: []solver.Job{solver.NewJob("a", time.Hour), solver.NewJob("b", time.Hour)}}
	s.Jobs[0].CurrentNodes = 4
	for _, admission := range solver.Admissions() {
		p := totalTimeProblem(s, admission, solver.TotalTimeOptions{})
		for i := range p.Jobs {
			for _, value := range p.Jobs[i].OptionValue {
				if math.IsNaN(value) || math.IsInf(value, 0) {
					t.Errorf("%s: job %d has the values %v", admission, i, p.Jobs[i].OptionValue)
				}
			}
		}
	}
}

// TestRestartTime looks at what a restart leaves of the first step.
func TestRestartTime(t *testing.T) {
	job := solver.NewJob("a", 100*time.Hour)
	job.AllowedNodes = []int{1, 2, 4}
	job.Scaling = solver.Scaling{Speeds: []float64{1, 2, 3}}
	job.RestartTime = 100 * time.Second
	tests := []struct {
		name    string
		current int
		trained time.Duration
		want    []float64 // for 0, 1, 2 and 4 nodes
	}{
		{name: "up and down", current: 2, trained: time.Hour, want: []float64{0, 200, 600, 600}},
		{name: "resume", trained: time.Hour, want: []float64{0, 200, 400, 600}},
		{name: "first start", want: []float64{0, 300, 600, 900}},
		{name: "an illegal size", current: 3, want: []float64{0, 200, 400, 600}},
	}
	for _, test := range tests {
		job.CurrentNodes, job.TrainingTime = test.current, test.trained
		s := &solver.Snapshot{TotalNodes: 8, Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{job}}
		p := problem.NewProblem(s, solver.AdmissionPreemptive)
		if got := p.Jobs[0].FirstStepWork; !slices.Equal(got, test.want) {
			t.Errorf("%s: the first step serves %v; want %v", test.name, got, test.want)
		}
		if got, want := p.Jobs[0].StepWork, []float64{0, 300, 600, 900}; !slices.Equal(got, want) {
			t.Errorf("%s: a later step serves %v; want %v", test.name, got, want)
		}
	}
	job.RestartTime = time.Hour // At most a third of a step counts.
	job.CurrentNodes = 1
	s := &solver.Snapshot{TotalNodes: 8, Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{job}}
	if got, want := problem.NewProblem(s, solver.AdmissionFIFO).Jobs[0].FirstStepWork, []float64{300, 400, 600}; !slices.Equal(got, want) {
		t.Errorf("a restart beyond the step: the first step serves %v; want %v", got, want)
	}
}

// TestTotalTimeIsHeSRPT checks the special case with a known theory: equal weights, one
// speed curve, no further arrivals, and no largest size below the pool. In this case the sum of
// c_i d_i is the smallest sum of completion times of any allocation of divisible nodes, c is its
// gradient, and the optimal divisible nodes are the shares of heSRPT.
func TestTotalTimeIsHeSRPT(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool := 1 << rapid.IntRange(0, 9).Draw(t, "log2 of the pool")
		s := &solver.Snapshot{TotalNodes: pool, Horizon: solver.DefaultHorizon()}
		weight := rapid.SampledFrom([]float64{1, 1, 7, 0.25}).Draw(t, "weight of all")
		var demands []time.Duration
		for i := range rapid.IntRange(1, 40).Draw(t, "jobs") {
			demands = append(demands, time.Duration(rapid.IntRange(1e4, 1e6).Draw(t, "demand"))*time.Second)
			job := solver.NewJob(fmt.Sprint(i), demands[i])
			job.MaxNodes, job.Weight, job.FreeResizes = pool, &weight, true
			s.Jobs = append(s.Jobs, job)
		}
		p := totalTimeProblem(s, solver.AdmissionPreemptive, solver.TotalTimeOptions{
			Fairness: new(0.0), ResizePrice: new(time.Duration(0)), SharePrice: new(0.0),
		})
		total, powers, sum := 0.0, make([]float64, len(p.Jobs)), 0.0
		for i := range p.Jobs {
			c := p.Jobs[i].OptionValue[1] // of one node
			total += c * p.Jobs[i].Demand / weight
			powers[i] = math.Pow(c/weight, 1/(1-math.Log2(1.6)))
			sum += powers[i]
		}
		least := hesrpt.Bound(demands, pool).Seconds() * float64(len(demands))
		rounding := 1e-9 * float64(len(demands)) // The bound is in whole nanoseconds.
		if math.Abs(total-least) > 1e-12*least+rounding {
			t.Fatalf("sum of c_i d_i is %.15g; the smallest sum of completion times is %.15g", total, least)
		}
		longestFirst := make([]int, len(demands))
		for i := range longestFirst {
			longestFirst[i] = i
		}
		slices.SortStableFunc(longestFirst, func(a, b int) int { return cmp.Compare(demands[b], demands[a]) })
		for n, want := range hesrpt.Shares(len(demands)) {
			if got := powers[longestFirst[n]] / sum; math.Abs(got-want) > 1e-12 {
				t.Fatalf("job %d of %d, the longest first, has the share %.15g; heSRPT gives %.15g", n+1, len(demands), got, want)
			}
		}
	})
}
