package placement

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// placer chooses the jobs that keep their machines. The free units are those that they leave.
type placer struct {
	*cluster
	jobs  []Job
	parts [][]piece     // pieces of each job, the largest first
	on    []map[int]int // units of each job on each machine now
	kept  []bool        // whether each job keeps its machines
	jobOn [][]int       // jobs that may keep each machine
	sizes []int         // of all pieces and 1, ascending
}

// newPlacer returns a placer that keeps no job. The error names every field that is not valid.
func newPlacer(c *cluster, jobs []Job) (*placer, error) {
	p := &placer{
		cluster: c, jobs: jobs, kept: make([]bool, len(jobs)), jobOn: make([][]int, len(c.nodes)), sizes: []int{1},
	}
	var bad []error
	addf := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	seen := make(map[string]int, len(jobs))
	for j, job := range jobs {
		if other, twice := seen[job.ID]; twice {
			addf("jobs[%d].id: is %q like jobs[%d].id; must be unique", j, job.ID, other)
		} else if job.ID == "" {
			addf("jobs[%d].id: is empty; every job must have an id", j)
		}
		seen[job.ID] = j
		if job.Units < 0 || job.Units > math.MaxInt32 {
			addf("jobs[%d].units: is %d; must be 0 to %d", j, job.Units, math.MaxInt32)
		}
		if job.Piece < 0 {
			addf("jobs[%d].piece: is %d; must be at least 0", j, job.Piece)
		}
		for _, id := range slices.Sorted(maps.Keys(job.On)) {
			if units := job.On[id]; units < 0 || units > math.MaxInt32 {
				addf("jobs[%d].on[%q]: is %d; must be 0 to %d", j, id, units, math.MaxInt32)
			}
		}
		if len(bad) > 0 {
			continue
		}
		parts := p.split(j)
		for _, part := range parts {
			p.sizes = append(p.sizes, part.size)
		}
		p.parts, p.on = append(p.parts, parts), append(p.on, p.now(j))
	}
	p.sizes = distinct(p.sizes)
	return p, errors.Join(bad...)
}

// split returns the pieces of a job, the largest first.
func (p *placer) split(j int) (parts []piece) {
	units := p.jobs[j].Units
	if units == 0 {
		return nil
	}
	size := units
	if own := p.jobs[j].Piece; own > 0 {
		size = min(size, own)
	}
	size = p.cut(size)
	parts = append(parts, piece{j, size, units / size})
	if rest := units % size; rest > 0 {
		parts = append(parts, piece{j, rest, 1})
	}
	return parts
}

// now returns the units of a job on each machine, without those on machines that the pool lost.
func (p *placer) now(j int) map[int]int {
	on := make(map[int]int, len(p.jobs[j].On))
	for id, units := range p.jobs[j].On {
		if n, known := p.index[id]; known && units > 0 {
			on[n] = units
		}
	}
	return on
}

// loose returns the pieces of the jobs that are not kept.
func (p *placer) loose() (pieces []piece) {
	for j, parts := range p.parts {
		if !p.kept[j] {
			pieces = append(pieces, parts...)
		}
	}
	return pieces
}

// need returns the number of places for pieces of a size that the jobs that are not kept need.
func (p *placer) need(size int) (need int) {
	for _, part := range p.loose() {
		need += part.count * p.within(part.size, size)
	}
	return need
}

// lacks returns the largest size that lacks places, 0 if there is none.
func (p *placer) lacks() int {
	for _, size := range slices.Backward(p.sizes) {
		if p.need(size) > p.places(size) {
			return size
		}
	}
	return 0
}

// keep has a job keep its machines, or no longer.
func (p *placer) keep(j int, keep bool) {
	p.kept[j] = keep
	for n, units := range p.on[j] {
		if !keep {
			units = -units
		}
		p.take(n, units)
	}
}

// unchanged reports whether the units of a job do not change.
func (p *placer) unchanged(j int) bool {
	units := 0
	for _, of := range p.jobs[j].On {
		units += of
	}
	return units > 0 && units == p.jobs[j].Units
}

// liesTogether reports whether the pieces of a job lie on its machines as Place puts them.
func (p *placer) liesTogether(j int) bool {
	own := bins{units: p.units, classes: p.classes, whole: make([]int, len(p.whole))}
	for _, n := range slices.Sorted(maps.Keys(p.on[j])) {
		own.group, own.free = append(own.group, p.group[n]), append(own.free, 0)
		own.take(len(own.free)-1, -p.on[j][n])
	}
	_, failed := own.put(p.parts[j])
	return failed == 0
}

// keepUnchanged keeps the jobs whose units do not change, but for few: those that have to make
// place for others.
func (p *placer) keepUnchanged() {
	var candidates []int
	for j := range p.jobs {
		if p.unchanged(j) && p.liesTogether(j) {
			candidates = append(candidates, j)
			for n := range p.on[j] {
				p.jobOn[n] = append(p.jobOn[n], j)
			}
			p.keep(j, true)
		}
	}
	for n := range p.nodes {
		if p.free[n] < 0 { // It lost units.
			over, _ := p.fewest(nil, n, -p.free[n], math.MaxInt)
			p.release(over)
		}
	}
	for size := p.lacks(); size > 0; size = p.lacks() {
		p.makePlace(size) // It releases a job: if none is kept, no size lacks places.
	}
	for _, j := range slices.Backward(candidates) { // Later releases may have made earlier ones needless.
		if p.kept[j] {
			continue
		}
		p.keep(j, true)
		if slices.Min(p.free) < 0 || p.lacks() > 0 {
			p.keep(j, false)
		}
	}
}

func (p *placer) release(jobs []int) {
	for _, j := range jobs {
		p.keep(j, false)
	}
}

// makePlace releases the fewest kept jobs that make place for one more piece of a size or, if none
// do, the first kept job. It reports whether it released any.
func (p *placer) makePlace(size int) bool {
	var best []int
	consider := func(jobs []int, ok bool) {
		if ok && (best == nil || len(jobs) < len(best) || len(jobs) == len(best) && p.unitsOf(jobs) < p.unitsOf(best)) {
			best = jobs
		}
	}
	for g, units := range p.units {
		if p.machines(size, units) > 1 {
			consider(p.fewestInGroup(g, size))
		}
	}
	for n, free := range p.free {
		if size <= p.units[p.group[n]] {
			consider(p.fewest(nil, n, size-free%size, size))
		}
	}
	if first := slices.Index(p.kept, true); best == nil && first >= 0 { // The pieces do not form a chain.
		best = []int{first}
	}
	p.release(best)
	return best != nil
}

// unitsOf returns the units of jobs.
func (p *placer) unitsOf(jobs []int) (units int) {
	for _, j := range jobs {
		units += p.jobs[j].Units
	}
	return units
}

// fewest returns some jobs and the fewest others that have pieces below a size and together occupy
// a number of units of a machine, and whether there are any.
func (p *placer) fewest(jobs []int, n, units, below int) ([]int, bool) {
	var others []int // By ascending units on the machine.
	for _, j := range p.jobOn[n] {
		if slices.Contains(jobs, j) {
			units -= p.on[j][n]
		} else if parts := p.parts[j]; p.kept[j] && parts[len(parts)-1].size < below {
			others = append(others, j)
		}
	}
	slices.SortStableFunc(others, func(a, b int) int { return p.on[a][n] - p.on[b][n] })
	jobs = slices.Clone(jobs)
	for units > 0 && len(others) > 0 {
		enough := slices.IndexFunc(others, func(j int) bool { return p.on[j][n] >= units })
		if enough < 0 {
			enough = len(others) - 1
		}
		units -= p.on[others[enough]][n]
		jobs = append(jobs, others[enough])
		others = slices.Delete(others, enough, enough+1)
	}
	return jobs, units <= 0
}

// fewestInGroup returns few jobs without which a group has place for one more piece of a size, larger
// than its machines, and whether there are any.
func (p *placer) fewestInGroup(g, size int) (jobs []int, ok bool) {
	var machines []int // That could become whole.
	for n := range p.nodes {
		if p.group[n] == g && p.usable[n] == p.units[g] && p.free[n] < p.units[g] {
			machines = append(machines, n)
		}
	}
	count := p.machines(size, p.units[g])
	for range count - p.whole[g]%count {
		var best []int
		at := -1
		for i, n := range machines {
			if with, ok := p.fewest(jobs, n, p.units[g]-p.free[n], size); ok && (at < 0 || len(with) < len(best)) {
				best, at = with, i
			}
		}
		if at < 0 {
			return nil, false
		}
		jobs, machines = best, slices.Delete(machines, at, at+1)
	}
	return jobs, true
}

// placement returns where each job goes, given the machines of those that are not kept.
func (p *placer) placement(on map[int]map[int]int) Placement {
	placed := Placement{On: make(map[string]map[string]int, len(p.jobs))}
	for j, job := range p.jobs {
		if p.kept[j] {
			on[j] = p.on[j]
		}
		units := make(map[string]int, len(on[j]))
		for n, of := range on[j] {
			units[p.nodes[n].ID] = of
		}
		placed.On[job.ID] = units
		if p.unchanged(j) && !maps.Equal(on[j], p.on[j]) {
			placed.Moved = append(placed.Moved, job.ID)
		}
	}
	return placed
}
