package problem

import (
	"math"
	"slices"
	"sync"

	"github.com/elastalloc/elastalloc/solver"
)

// Ranks of jobs whose remaining ETAs are uncertain.
//
// For each job, ObjectiveTotalTime adds up the weights of the jobs that are expected to outlast it.
// Let the key k_i be the logarithm of d_i / w'_i^a. It is normally distributed around its estimate
// with standard deviation s_i. Then job j outlasts job i with probability
// Phi((k_j - k_i) / sqrt(s_i^2 + s_j^2)), and V_(i-1) is V_0 plus the sum over j of w'_j times this
// probability. For s_i = s_j = 0 the probability is 1 or 0. Equal keys are ordered by position in the
// snapshot.
//
// Jobs with the same s form a class, and each pair of classes is summed separately. Small classes are
// summed term by term. In large classes, keys are grouped into cells that are 2.5 times as wide as
// sqrt(s_i^2 + s_j^2). Within a cell, a polynomial in k_i and k_j approximates Phi to full precision,
// and only nearby cells need it. All sums are accurate to 1e-12 of V_0 plus all weights. For each pair
// of classes, the time is linear in the number of jobs.

const (
	minETAError        = 1e-4 // smaller errors count as 0, because keys have too few digits for them
	minRestartETAError = 0.1  // the minimum unless resizes are free
	maxExactJobs       = 1000 // with up to so many jobs, errors are not rounded
	maxETAErrorClasses = 24   // with more different errors, errors are rounded to quarters
	maxPairs           = 4096 // pairs of jobs that are summed term by term
	cellWidth          = 2.5  // width of a cell in units of sqrt(s_i^2 + s_j^2)
	polynomialTerms    = 20   // coefficients of a polynomial, a multiple of 4, enough for full precision
	farCells           = 4    // Phi is 0 or 1 between cells at this distance, to 3.2e-14
	farPairs           = 8.5  // Phi of this number is 1 to full precision
)

// etaErrors returns s of every job. For jobs without free resizes, it is at least minRestartETAError.
// Otherwise c_i would jump if similar jobs swap their positions in the order, and they would preempt
// each other repeatedly.
func etaErrors(jobs []solver.Job, fallback float64) []float64 {
	s := make([]float64, len(jobs))
	raise := func(i int) {
		if !jobs[i].FreeResizes {
			s[i] = max(s[i], minRestartETAError)
		}
	}
	for i := range jobs {
		if s[i] = solver.ValueOr(jobs[i].ETAError, fallback); s[i] < minETAError {
			s[i] = 0
		}
		raise(i)
	}
	if len(jobs) > maxExactJobs && len(distinct(s)) > maxETAErrorClasses {
		for i := range s {
			s[i] = math.Round(4*s[i]) / 4
			raise(i)
		}
	}
	return s
}

func distinct(values []float64) []float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// ranking has the keys, weights and ETA errors of jobs.
type ranking struct {
	key, weight, sd []float64
}

// order returns the jobs of a weight above 0 by descending key.
func (r *ranking) order() []int {
	order := make([]int, 0, len(r.key))
	for i, weight := range r.weight {
		if weight > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		switch { // cmp.Compare takes twice the time.
		case r.key[a] > r.key[b]:
			return -1
		case r.key[a] < r.key[b]:
			return 1
		}
		return a - b
	})
	return order
}

// before returns V_(i-1) of every job in the order, which is sorted by descending key. start is V_0.
func (r *ranking) before(order []int, start float64) []float64 {
	v := make([]float64, len(r.key))
	for _, i := range order {
		v[i] = start
	}
	different, classes := r.classes(order)
	for n, jobs := range classes {
		for m, others := range classes {
			switch width := math.Hypot(different[n], different[m]); {
			case width == 0:
				sum := start
				for _, i := range jobs {
					v[i] = sum
					sum += r.weight[i]
				}
			case len(jobs)*len(others) <= maxPairs:
				r.addPairs(v, jobs, others, width, n == m)
			default:
				targets := r.split(jobs, width)
				sources := targets
				if n != m {
					sources = r.split(others, width)
				}
				r.addCells(v, targets, sources, width)
				if n == m { // Phi(0) = 1/2, but a job does not outlast itself.
					for _, i := range jobs {
						v[i] -= r.weight[i] / 2
					}
				}
			}
		}
	}
	for _, i := range order {
		v[i] = max(v[i], start) // A sum of cells may be below 0 because of rounding.
	}
	return v
}

// classes returns the different ETA errors and the jobs that have each, in the given order.
func (r *ranking) classes(order []int) (different []float64, jobs [][]int) {
	different = distinct(r.sd)
	if len(different) == 1 {
		return different, [][]int{order}
	}
	jobs = make([][]int, len(different))
	for _, i := range order {
		class, _ := slices.BinarySearch(different, r.sd[i])
		jobs[class] = append(jobs[class], i)
	}
	return different, jobs
}

// normal is the distribution function of the normal distribution, Phi.
func normal(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

const (
	tailSteps = 32 // Taylor series per unit of x
	tailTerms = 7  // coefficients of a series, enough for full precision
)

// tailTable has the Taylor series of Phi(-x) at the multiples of 1/tailSteps up to farPairs.
type tailTable [farPairs*tailSteps + 1][tailTerms]float64

// tails returns the table. A series takes a fifth of the time of Erfc.
//
//nolint:gochecknoglobals // A constant.
var tails = sync.OnceValue(func() *tailTable {
	t := new(tailTable)
	for n := range t {
		x := float64(n) / tailSteps
		// The derivatives of the density are its products with Hermite polynomials: d_(k+1) = -x d_k - k d_(k-1).
		t[n][0] = normal(-x)
		before, derivative, factorial := 0.0, -math.Exp(-x*x/2)/math.Sqrt(2*math.Pi), 1.0
		for k := 1; k < tailTerms; k++ {
			factorial *= float64(k)
			t[n][k] = derivative / factorial
			before, derivative = derivative, -x*derivative-float64(k-1)*before
		}
	}
	return t
})

// at returns Phi(-x) for x from 0 to farPairs.
func (t *tailTable) at(x float64) float64 {
	n := int(x*tailSteps + 0.5)
	c, d := &t[n], x-float64(n)/tailSteps
	return c[0] + d*(c[1]+d*(c[2]+d*(c[3]+d*(c[4]+d*(c[5]+d*c[6])))))
}

// addPairs adds the terms of others to v of each job, term by term. Within one class (same), it
// computes each pair once, because Phi(-x) = 1 - Phi(x).
func (r *ranking) addPairs(v []float64, jobs, others []int, width float64, same bool) {
	if same {
		sums, table := make([]float64, len(jobs)), tails()
		first, far := 0, 0.0 // the first job that job i may outlast, and the total weight of the jobs before it
		for n, i := range jobs {
			for ; (r.key[jobs[first]]-r.key[i])/width > farPairs; first++ {
				far += r.weight[jobs[first]]
			}
			sums[n] += far
			for m := first; m < n; m++ {
				j := jobs[m]
				tail := table.at((r.key[j] - r.key[i]) / width)
				sums[m] += r.weight[i] * tail
				sums[n] += r.weight[j] * (1 - tail)
			}
		}
		for n, i := range jobs {
			v[i] += sums[n]
		}
		return
	}
	for _, i := range jobs {
		sum := 0.0
		for _, j := range others {
			sum += r.weight[j] * normal((r.key[j]-r.key[i])/width)
		}
		v[i] += sum
	}
}

// cell has the jobs whose keys are in one interval of length cellWidth.
type cell struct {
	at     float64 // number of the interval
	jobs   []int
	weight float64
	sums   vector // for each Chebyshev polynomial, the sum over the jobs of their weights times its value
}

// vector has one number per Chebyshev polynomial.
type vector [polynomialTerms]float64

// times returns the scalar product. Four parallel sums take half the time of a single sum.
func (a *vector) times(b *vector) float64 {
	var sum [4]float64
	for n := 0; n < polynomialTerms; n += 4 {
		sum[0] += a[n] * b[n]
		sum[1] += a[n+1] * b[n+1]
		sum[2] += a[n+2] * b[n+2]
		sum[3] += a[n+3] * b[n+3]
	}
	return (sum[0] + sum[1]) + (sum[2] + sum[3])
}

// add adds a multiple of a vector.
func (a *vector) add(times float64, b *vector) {
	for n := range a {
		a[n] += times * b[n]
	}
}

// addCells adds the terms of the jobs in sources to v of each job in targets, cell by cell.
func (r *ranking) addCells(v []float64, targets, sources []cell, width float64) {
	near, t := nearCells(), new(vector)
	first, far := 0, 0.0 // the first nearby source, and the total weight of the sources before it
	for n := range targets {
		target := &targets[n]
		for ; first < len(sources) && sources[first].at >= target.at+farCells; first++ {
			far += sources[first].weight
		}
		var coefficients vector
		for n := first; n < len(sources) && sources[n].at > target.at-farCells; n++ {
			table := &near[int(sources[n].at-target.at)+farCells-1]
			for k := range coefficients {
				coefficients[k] += table[k].times(&sources[n].sums)
			}
		}
		for _, i := range target.jobs {
			_, x := r.place(i, width)
			t.setChebyshev(x)
			v[i] += far + coefficients.times(t)
		}
	}
}

// split returns the cells of jobs in the order of descending keys.
func (r *ranking) split(jobs []int, width float64) []cell {
	widest := (r.key[jobs[0]] - r.key[jobs[len(jobs)-1]]) / (cellWidth * width)
	cells := make([]cell, 0, 2+int(min(widest, float64(len(jobs)))))
	begin, t := 0, new(vector)
	for n, i := range jobs {
		at, x := r.place(i, width)
		if len(cells) == 0 || cells[len(cells)-1].at > at {
			cells, begin = append(cells, cell{at: at}), n
		}
		c := &cells[len(cells)-1]
		c.jobs, c.weight = jobs[begin:n+1], c.weight+r.weight[i]
		t.setChebyshev(x)
		c.sums.add(r.weight[i], t)
	}
	return cells
}

// place returns the cell of the key of a job and the position within the cell, -1 to 1.
func (r *ranking) place(i int, width float64) (cell, x float64) {
	at := r.key[i] / (cellWidth * width)
	cell = math.Floor(at)
	return cell, 2*(at-cell) - 1
}

// setChebyshev sets the values of the Chebyshev polynomials at x. With T_(m+n) = 2 T_m T_n - T_(m-n), few
// values depend on each other, which takes less time than the recurrence from one to the next.
func (a *vector) setChebyshev(x float64) {
	a[0], a[1] = 1, x
	for k := 2; k < polynomialTerms; k++ {
		a[k] = 2*a[k/2]*a[k-k/2] - a[k%2]
	}
}

// cellTable has, for the distance of two cells, the coefficients of the products of two Chebyshev
// polynomials, of k_i and k_j, whose sum is Phi.
type cellTable [2*farCells - 1][polynomialTerms]vector

// nearCells returns the table, which is computed once because that takes as long as a decision on 100
// jobs. It interpolates Phi at the zeros of the polynomial of degree polynomialTerms.
//
//nolint:gochecknoglobals // A constant.
var nearCells = sync.OnceValue(func() *cellTable {
	t := new(cellTable)
	var zeros vector
	var basis [polynomialTerms]vector // by zero, the shares of a value there in the coefficients
	for n := range zeros {
		zeros[n] = math.Cos((float64(n) + 0.5) * math.Pi / polynomialTerms)
		basis[n].setChebyshev(zeros[n])
		for k := range basis[n] {
			basis[n][k] *= 2.0 / polynomialTerms
		}
		basis[n][0] /= 2
	}
	for d := range t {
		for to := range zeros {
			var values vector // the coefficients of the polynomial of k_j at a zero of k_i
			for from := range zeros {
				phi := normal(cellWidth * (float64(d-farCells+1) + (zeros[from]-zeros[to])/2))
				values.add(phi, &basis[from])
			}
			for k := range values {
				t[d][k].add(basis[to][k], &values)
			}
		}
	}
	return t
})
