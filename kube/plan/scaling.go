package plan

import "github.com/elastalloc/elastalloc/kube/world"

// Worth returns how many nodes are worth their price to the jobs of a request, in a pool that an
// autoscaler makes larger and smaller.
//
// With k nodes a unit of a job's work takes 1/speed(k) of its time and k/speed(k) of the nodes'.
// Where nodes cost p job-hours an hour, the size that costs least is that of the least
// (1 + p k)/speed(k): beyond it, an hour of one more node saves less than p. Waiting saves no node any
// time, so a job gets at least the size that uses its nodes best.
func Worth(w *world.World, r Request) int {
	present := int(r.Allocate.GetSnapshot().GetTotalNodes())
	worth := 0
	for _, j := range r.Jobs {
		cost := func(nodes int) float64 { return (j.Weight + w.Pool.NodePrice*float64(nodes)) / j.Speed(nodes) }
		sizes := Legal(j)
		best := sizes[0]
		for _, n := range sizes[1:] {
			if cost(n) < cost(best) {
				best = n
			}
		}
		worth += best
	}
	return min(worth, present+w.Coming(w.Pool.MaxNodes))
}
