package problem

import (
	"cmp"
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
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(r.key[b], r.key[a]), cmp.Compare(a, b)) })
	return order
}

// before returns V_(i-1) of every job in the order, which is sorted by descending key. start is V_0.
func (r *ranking) before(order []int, start float64) []float64 {
	v := make([]float64, len(r.key))
	different := distinct(r.sd)
	classes := make([][]int, len(different))
	for _, i := range order {
		v[i] = start
		class, _ := slices.BinarySearch(different, r.sd[i])
		classes[class] = append(classes[class], i)
	}
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
	nodes  vector // the weights of the jobs, distributed to the interpolation nodes of the cell
}

// vector has one number per coefficient of a polynomial or per interpolation node.
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

// addCells adds the terms of the jobs in sources to v of each job in targets, cell by cell.
func (r *ranking) addCells(v []float64, targets, sources []cell, width float64) {
	shared := cellsTable()
	first, far := 0, 0.0 // the first nearby source, and the total weight of the sources before it
	for _, target := range targets {
		for ; first < len(sources) && sources[first].at >= target.at+farCells; first++ {
			far += sources[first].weight
		}
		var values vector
		for n := first; n < len(sources) && sources[n].at > target.at-farCells; n++ {
			table := &shared.near[int(sources[n].at-target.at)+farCells-1]
			for to := range values {
				values[to] += table[to].times(&sources[n].nodes)
			}
		}
		coefficients := shared.coefficients(&values)
		for _, i := range target.jobs {
			_, x := r.place(i, width)
			t := chebyshev(x)
			v[i] += far + coefficients.times(&t)
		}
	}
}

// split returns the cells of jobs in the order of descending keys.
func (r *ranking) split(jobs []int, width float64) []cell {
	var cells []cell
	begin := 0
	for n, i := range jobs {
		at, x := r.place(i, width)
		if len(cells) == 0 || cells[len(cells)-1].at > at {
			cells, begin = append(cells, cell{at: at}), n
		}
		c := &cells[len(cells)-1]
		c.jobs, c.weight = jobs[begin:n+1], c.weight+r.weight[i]
		for k, t := range chebyshev(x) {
			c.nodes[k] += r.weight[i] * t
		}
	}
	for n := range cells {
		cells[n].nodes = cellsTable().spread(&cells[n].nodes)
	}
	return cells
}

// place returns the cell of the key of a job and the position within the cell, -1 to 1.
func (r *ranking) place(i int, width float64) (cell, x float64) {
	at := r.key[i] / (cellWidth * width)
	cell = math.Floor(at)
	return cell, 2*(at-cell) - 1
}

// chebyshev returns the values of the Chebyshev polynomials at x. With T_(k+4) = 2 T_4 T_k - T_(k-4),
// each fourth value depends on the others, which takes less time than one recurrence over all.
func chebyshev(x float64) (values vector) {
	values[0], values[1] = 1, x
	for k := 2; k < 8; k++ {
		values[k] = 2*x*values[k-1] - values[k-2]
	}
	twice := 2 * values[4]
	for k := 8; k < polynomialTerms; k++ {
		values[k] = twice*values[k-4] - values[k-8]
	}
	return values
}

// cellTable has the constants that all cells share.
type cellTable struct {
	// basis has, for each interpolation node, the values of all Chebyshev polynomials. The nodes are
	// the zeros of the next polynomial.
	basis [polynomialTerms]vector
	// near has Phi between the nodes of two cells, by the distance of the cells.
	near [2*farCells - 1][polynomialTerms]vector
}

// cellsTable returns the table, which is computed once because that takes as long as a decision on 100
// jobs.
//
//nolint:gochecknoglobals // A constant.
var cellsTable = sync.OnceValue(newCellTable)

func newCellTable() *cellTable {
	t := new(cellTable)
	var node vector
	for n := range node {
		node[n] = math.Cos((float64(n) + 0.5) * math.Pi / polynomialTerms)
		for k, value := range chebyshev(node[n]) {
			t.basis[n][k] = value
		}
	}
	for d := range t.near {
		for to := range node {
			for from := range node {
				t.near[d][to][from] = normal(cellWidth * (float64(d-farCells+1) + (node[from]-node[to])/2))
			}
		}
	}
	return t
}

// spread returns the weights at the nodes with the given Chebyshev coefficients.
func (t *cellTable) spread(sums *vector) (nodes vector) {
	for n := range nodes {
		nodes[n] = (2*t.basis[n].times(sums) - sums[0]) / polynomialTerms
	}
	return nodes
}

// coefficients returns the coefficients of the polynomial with the given values at the nodes.
func (t *cellTable) coefficients(values *vector) (c vector) {
	for n, value := range values {
		for k := range c {
			c[k] += 2 * value * t.basis[n][k] / polynomialTerms
		}
	}
	c[0] /= 2
	return c
}
