package sim

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Speeds are how fast applications train on kinds of nodes, by the name of the application.
type Speeds map[string]*Application

// Application is how fast the jobs of an application train.
type Application struct {
	// Phases are the parts of a job's work, in their order; the last ends at 1.
	Phases []Phase
	// RestartTime is how long its jobs make no progress after a change of their nodes.
	RestartTime time.Duration
}

// Phase is a part of a job's work in which its speeds do not change.
type Phase struct {
	// Until is the share of the work at which it ends.
	Until float64
	// Speeds are those on every node type that the job runs on.
	Speeds []solver.TypeSpeed
}

// Cover returns an error if an application of the trace has no speeds; nil speeds cover all.
func (s Speeds) Cover(t Trace) error {
	for i := range t {
		if name := t[i].Application; s != nil && name != "" && s[name] == nil {
			return fmt.Errorf("job %q has the %s %q, of which there are no speeds", t[i].ID, columnApplication, name)
		}
	}
	return nil
}

// largest returns the largest size that the application runs on.
func (a *Application) largest() int {
	largest := 0
	for _, speed := range a.Phases[0].Speeds {
		largest = max(largest, slices.Max(speed.AllowedNodes))
	}
	return largest
}

// aloneOnTypes returns how long the job takes alone in a pool of node types.
func (j *WorkloadJob) aloneOnTypes(types []solver.NodeType) time.Duration {
	times := make(map[holding]float64)
	told, begin := j.Told(), time.Duration(0)
	phases := j.Phases
	if len(phases) == 0 {
		phases = []Phase{{Until: 1, Speeds: told.Speeds}}
	}
	for _, phase := range phases {
		told.Speeds = phase.Speeds
		end := min(scale(j.Demand, phase.Until), j.Work)
		for option, speed := range optionsOf(told, types) {
			times[option] += (end - begin).Seconds() / speed
		}
		begin = end
	}
	least := math.Inf(1)
	for _, seconds := range times {
		least = min(least, seconds)
	}
	return wholeSeconds(scale(time.Second, least))
}

// optionsOf yields the nodes that a job may hold in a pool of node types, and its speed on
// them relative to one reference node.
func optionsOf(job solver.Job, types []solver.NodeType) iter.Seq2[holding, float64] {
	return func(yield func(holding, float64) bool) {
		for n := range types {
			there, factor, runs := job.ForType(&types[n])
			if !runs {
				continue
			}
			for _, size := range there.LegalSizes() {
				if size <= types[n].Nodes && !yield(holding{size, types[n].ID}, factor*there.Speed(size)) {
					return
				}
			}
		}
	}
}

// phaseEnd returns the work at which a phase of the job ends.
func (j *WorkloadJob) phaseEnd(n int) time.Duration { return scale(j.Demand, j.Phases[n].Until) }

// The columns of a file of speeds, in any order.
const (
	columnNodes   = "nodes"
	columnSpeed   = "speed"
	columnUntil   = "until"
	columnRestart = "restart_s"
)

// Speeds of a file lie between these, so that no ratio of two exceeds solver.MaxSpeed.
const (
	leastSpeed = 1e-4
	mostSpeed  = 1e5
)

// ReadSpeeds reads how fast applications train in CSV, one line per application, type and
// number of nodes. The speed is the work done in a second, in seconds on one reference node.
// It holds up to the share until of the work, where that is not empty, and the line that
// goes on from there follows. The error names the first bad line and what is wrong.
func ReadSpeeds(r io.Reader) (Speeds, error) {
	read := make(map[string]*measured)
	err := readCSV(r, "speeds", []string{columnApplication, columnNodeType, columnNodes, columnSpeed}, []string{columnUntil, columnRestart},
		func(line csvLine) error { return line.speed(read) })
	if err != nil {
		return nil, err
	}
	if len(read) == 0 {
		return nil, errors.New("speeds have no line below the header; want at least one application")
	}
	speeds := make(Speeds)
	for _, name := range slices.Sorted(maps.Keys(read)) {
		if err := read[name].ends(); err != nil {
			return nil, fmt.Errorf("speeds %w", err)
		}
		speeds[name] = read[name].application()
	}
	return speeds, nil
}

// measured is the lines of an application.
type measured struct {
	restart   time.Duration
	restartAt int // the line that says so, 0 for none
	types     []string
	curves    map[string]map[int][]speedUntil // by type and nodes
}

// speedUntil is a line: a speed up to a share of the work.
type speedUntil struct {
	speed, until float64
	line         int
}

// speed reads a line into the application that it is of.
func (l csvLine) speed(read map[string]*measured) error {
	name, nodeType := strings.Clone(l.text(columnApplication)), strings.Clone(l.text(columnNodeType))
	if name == "" || nodeType == "" {
		return fmt.Errorf("%s is %q and %s %q; want a name for each", columnApplication, name, columnNodeType, nodeType)
	}
	nodes, err := l.count(columnNodes)
	if err != nil {
		return err
	}
	row := speedUntil{until: 1, line: l.at}
	if row.speed, err = strconv.ParseFloat(l.text(columnSpeed), 64); err != nil || !(row.speed >= leastSpeed && row.speed <= mostSpeed) {
		return fmt.Errorf("%s is %q; want a number from %v to %v", columnSpeed, l.text(columnSpeed), leastSpeed, mostSpeed)
	}
	if err := optional(l, columnUntil, &row.until, l.upTo(1)); err != nil {
		return err
	}
	if read[name] == nil {
		read[name] = &measured{curves: make(map[string]map[int][]speedUntil)}
	}
	app := read[name]
	if app.curves[nodeType] == nil {
		app.types, app.curves[nodeType] = append(app.types, nodeType), make(map[int][]speedUntil)
	}
	curve := app.curves[nodeType]
	if before := curve[nodes]; len(before) > 0 && before[len(before)-1].until >= row.until {
		last := before[len(before)-1]
		return fmt.Errorf("%s is %v after %v in line %d; want it to rise for %q on %d nodes of %q, 1 where it is empty",
			columnUntil, row.until, last.until, last.line, name, nodes, nodeType)
	}
	curve[nodes] = append(curve[nodes], row)
	if len(curve) > solver.MaxSizes {
		return fmt.Errorf("%s is %d, one size too many for %q on %q; want at most %d", columnNodes, nodes, name, nodeType, solver.MaxSizes)
	}
	return l.restart(app)
}

// restart reads the restart time of an application, the same in every line that has one.
func (l csvLine) restart(app *measured) error {
	if l.text(columnRestart) == "" {
		return nil
	}
	restart, err := l.seconds(columnRestart)
	if err != nil {
		return err
	}
	if app.restartAt > 0 && restart != app.restart {
		return fmt.Errorf("%s is %v after %v in line %d; want one for all lines of an %s",
			columnRestart, restart.Seconds(), app.restart.Seconds(), app.restartAt, columnApplication)
	}
	app.restart, app.restartAt = restart, cmp.Or(app.restartAt, l.at)
	return nil
}

// ends returns an error if a speed does not hold up to the end of the work.
func (m *measured) ends() error {
	for _, nodeType := range m.types {
		for _, nodes := range slices.Sorted(maps.Keys(m.curves[nodeType])) {
			rows := m.curves[nodeType][nodes]
			if last := rows[len(rows)-1]; last.until < 1 {
				return fmt.Errorf("line %d: %s is %v, and no line goes on from there; want it empty in the last of %d nodes of %q",
					last.line, columnUntil, last.until, nodes, nodeType)
			}
		}
	}
	return nil
}

// application returns the application, with a phase for every share at which a speed changes.
func (m *measured) application() *Application {
	var shares []float64
	for _, curve := range m.curves {
		for _, rows := range curve {
			for _, row := range rows {
				shares = append(shares, row.until)
			}
		}
	}
	slices.Sort(shares)
	app := &Application{RestartTime: wholeSeconds(m.restart)}
	for _, until := range slices.Compact(shares) {
		phase := Phase{Until: until}
		for _, nodeType := range m.types {
			phase.Speeds = append(phase.Speeds, typeSpeed(nodeType, m.curves[nodeType], until))
		}
		app.Phases = append(app.Phases, phase)
	}
	return app
}

// typeSpeed returns the speeds on a type in the phase that ends at a share of the work. Where
// one node is not among the sizes, its speed is taken to be the smallest size's, by its nodes.
func typeSpeed(nodeType string, curve map[int][]speedUntil, until float64) solver.TypeSpeed {
	speed := solver.TypeSpeed{NodeType: nodeType, AllowedNodes: slices.Sorted(maps.Keys(curve))}
	for i, nodes := range speed.AllowedNodes {
		rows := curve[nodes]
		now := rows[slices.IndexFunc(rows, func(row speedUntil) bool { return row.until >= until })].speed
		if i == 0 {
			speed.Factor = now / float64(nodes)
		}
		speed.Scaling.Speeds = append(speed.Scaling.Speeds, now/speed.Factor)
	}
	return speed
}
