package sim

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestNoFreeLunch checks the theorem of docs/explanation/completion-time-objective.md on random schedules of
// divisible nodes without restarts: compared with max-min fair share, the earliness of jobs that complete earlier
// is at most the lateness of jobs that complete later, both weighted with g(x) = s(x) - x s'(x).
func TestNoFreeLunch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const nodes, step, steps = 8.0, 0.05, 20_000
		exponent := rapid.Float64Range(0.1, 0.9).Draw(t, "exponent")
		largest := rapid.Float64Range(0.5, 10).Draw(t, "largest size")
		jobs := rapid.IntRange(1, 6).Draw(t, "jobs")
		arrival, work := make([]int, jobs), make([]float64, jobs)
		for i := range jobs {
			arrival[i] = rapid.IntRange(0, 200).Draw(t, "arrival")
			work[i] = rapid.Float64Range(0.1, 20).Draw(t, "work")
		}
		speed := func(k float64) float64 { return math.Pow(min(k, largest), exponent) }
		g := func(x float64) float64 { // s(x) - x s'(x)
			if x >= largest {
				return speed(x)
			}
			return (1 - exponent) * speed(x)
		}
		// run returns the step in which each job completes, and the number of jobs in each step.
		run := func(divide func(present []int) []float64) (completed []int, present []int) {
			left := slices.Clone(work)
			completed = slices.Repeat([]int{-1}, jobs)
			for now := range steps {
				var active []int
				for i := range jobs {
					if arrival[i] <= now && left[i] > 0 {
						active = append(active, i)
					}
				}
				present = append(present, len(active))
				for n, k := range divide(active) {
					i := active[n]
					if left[i] -= step * speed(k); left[i] <= 0 {
						completed[i] = now + 1
					}
				}
				if !slices.Contains(completed, -1) {
					break
				}
			}
			return completed, present
		}
		fair, present := run(func(active []int) []float64 {
			return slices.Repeat([]float64{nodes / math.Max(1, float64(len(active)))}, len(active))
		})
		shares := make([]float64, jobs)
		for i := range shares {
			shares[i] = rapid.Float64Range(0.01, 1).Draw(t, "share")
		}
		other, _ := run(func(active []int) []float64 {
			sum, list := 0.0, make([]float64, len(active))
			for _, i := range active {
				sum += shares[i]
			}
			for n, i := range active {
				list[n] = nodes * shares[i] / sum
			}
			return list
		})
		earliness, lateness, gained := 0.0, 0.0, 0.0
		for i := range jobs {
			for now := min(fair[i], other[i]); now < max(fair[i], other[i]); now++ {
				x := largest // In an empty pool, a job has its largest size.
				if now < len(present) && present[now] > 0 {
					x = nodes / float64(present[now])
				}
				if other[i] < fair[i] {
					earliness += step * g(x)
				} else {
					lateness += step * g(x)
				}
			}
			gained += step * speed(nodes) // A completion is known to one step.
		}
		if earliness > lateness+2*gained {
			t.Fatalf("earliness %v, lateness %v", earliness, lateness)
		}
	})
}
