package workloads

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/internal/csvtable"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// The columns of a file of speeds, in any order.
const (
	columnApplication = "application"
	columnNodeType    = "node_type"
	columnNodes       = "nodes"
	columnSpeed       = "speed"
	columnUntil       = "until"
	columnRestart     = "restart_s"
)

// ReadSpeeds reads the training speeds of applications in CSV, one line per application, node type and
// number of nodes. The speed is the work per second, in seconds on one reference node. If the column
// until is set, the speed applies up to this share of the work, and a later line contains the next
// speed. An error names the first invalid line and column.
func ReadSpeeds(r io.Reader) (sim.Speeds, error) {
	read := make(map[string]*measured)
	err := csvtable.Read(r, "speeds", []string{columnApplication, columnNodeType, columnNodes, columnSpeed},
		[]string{columnUntil, columnRestart},
		func(line csvtable.Line) error { return readSpeed(line, read) })
	if err != nil {
		return nil, err
	}
	if len(read) == 0 {
		return nil, errors.New("speeds have no line below the header; must have at least one application")
	}
	speeds := make(sim.Speeds)
	for _, name := range slices.Sorted(maps.Keys(read)) {
		if err := read[name].validate(); err != nil {
			return nil, fmt.Errorf("speeds %w", err)
		}
		speeds[name] = read[name].application()
	}
	return speeds, nil
}

// measured contains the lines of an application.
type measured struct {
	restart   time.Duration
	restartAt int // the line of restart, 0 for none
	types     []string
	curves    map[string]map[int][]speedUntil // by type and nodes
}

// speedUntil is a line: a speed up to a share of the work.
type speedUntil struct {
	speed, until float64
	line         int
}

// readSpeed adds a line to its application.
func readSpeed(l csvtable.Line, read map[string]*measured) error {
	name, nodeType := strings.Clone(l.Text(columnApplication)), strings.Clone(l.Text(columnNodeType))
	if name == "" || nodeType == "" {
		return fmt.Errorf("%s is %q and %s %q; must not be empty", columnApplication, name, columnNodeType, nodeType)
	}
	nodes, err := l.Count(columnNodes)
	if err != nil {
		return err
	}
	row := speedUntil{until: 1, line: l.Number}
	if row.speed, err = strconv.ParseFloat(l.Text(columnSpeed), 64); err != nil || !(row.speed >= sim.MinSpeed && row.speed <= sim.MaxSpeed) {
		return fmt.Errorf("%s is %q; must be a number from %v to %v", columnSpeed, l.Text(columnSpeed), sim.MinSpeed, sim.MaxSpeed)
	}
	if err := csvtable.Optional(l, columnUntil, &row.until, l.UpTo(1)); err != nil {
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
		return fmt.Errorf("%s is %v after %v in line %d; must increase for %q on %d nodes of %q (an empty value is 1)",
			columnUntil, row.until, last.until, last.line, name, nodes, nodeType)
	}
	curve[nodes] = append(curve[nodes], row)
	if len(curve) > solver.MaxSizes {
		return fmt.Errorf("%s is %d, one size too many for %q on %q; must be at most %d sizes",
			columnNodes, nodes, name, nodeType, solver.MaxSizes)
	}
	return readRestart(l, app)
}

// readRestart reads the restart time of an application. It returns an error if two lines differ.
func readRestart(l csvtable.Line, app *measured) error {
	if l.Text(columnRestart) == "" {
		return nil
	}
	restart, err := sim.ParseSeconds(l.Text(columnRestart))
	if err != nil || restart > sim.MaxTraceTime {
		return fmt.Errorf("%s is %q; must be seconds, a number from 0 to %.0f", columnRestart, l.Text(columnRestart), sim.MaxTraceTime.Seconds())
	}
	if app.restartAt > 0 && restart != app.restart {
		return fmt.Errorf("%s is %v after %v in line %d; must be the same in all lines of an %s",
			columnRestart, restart.Seconds(), app.restart.Seconds(), app.restartAt, columnApplication)
	}
	app.restart, app.restartAt = restart, cmp.Or(app.restartAt, l.Number)
	return nil
}

// validate returns an error if the lines of a size do not cover all the work.
func (m *measured) validate() error {
	for _, nodeType := range m.types {
		for _, nodes := range slices.Sorted(maps.Keys(m.curves[nodeType])) {
			rows := m.curves[nodeType][nodes]
			if last := rows[len(rows)-1]; last.until < 1 {
				return fmt.Errorf("line %d: %s is %v, and no later line follows; must be empty in the last line of %d nodes of %q",
					last.line, columnUntil, last.until, nodes, nodeType)
			}
		}
	}
	return nil
}

// application converts the lines into an application with a phase for every share at which a speed
// changes.
func (m *measured) application() *sim.Application {
	var shares []float64
	for _, curve := range m.curves {
		for _, rows := range curve {
			for _, row := range rows {
				shares = append(shares, row.until)
			}
		}
	}
	slices.Sort(shares)
	app := &sim.Application{RestartTime: sim.WholeSeconds(m.restart)}
	for _, until := range slices.Compact(shares) {
		phase := sim.Phase{Until: until}
		for _, nodeType := range m.types {
			phase.Speeds = append(phase.Speeds, typeSpeed(nodeType, m.curves[nodeType], until))
		}
		app.Phases = append(app.Phases, phase)
	}
	return app
}

// typeSpeed returns the speeds on a node type in the phase until a share of the work. If the curve has no
// speed for one node, it is the speed of the smallest size divided by its nodes.
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

// CheckSpeeds returns an error if an application of the trace has no speeds. nil covers all traces.
func CheckSpeeds(s sim.Speeds, t sim.Trace) error {
	for i := range t {
		if name := t[i].Application; s != nil && name != "" && s[name] == nil {
			return fmt.Errorf("job %q has the %s %q, which has no speeds", t[i].ID, columnApplication, name)
		}
	}
	return nil
}

// ApplySpeeds returns the trace for a pool without node types: the speeds of applications, all of the same
// node type, become the sizes and speeds of their jobs, and work is the run time on one node of this
// type. MinNodes, MaxNodes and AllowedNodes of a job restrict its sizes. ApplySpeeds returns an error if the
// speeds are of several node types or change with the work done, or if a job has no size left.
func ApplySpeeds(s sim.Speeds, t sim.Trace) (sim.Trace, error) {
	if s == nil {
		return t, nil
	}
	curves, first := make(map[string]solver.TypeSpeed), ""
	for _, name := range slices.Sorted(maps.Keys(s)) {
		app := s[name]
		for _, speed := range app.Phases[0].Speeds {
			if first = cmp.Or(first, speed.NodeType); speed.NodeType != first {
				return nil, fmt.Errorf("has speeds on the node types %q and %q; must be of one type without --node-types", first, speed.NodeType)
			}
			curves[name] = speed
		}
		if len(app.Phases) > 1 {
			return nil, fmt.Errorf("has speeds of %q that change (%s); must be constant without --node-types", name, columnUntil)
		}
	}
	applied := slices.Clone(t)
	for i := range applied {
		job := &applied[i]
		curve, found := curves[job.Application]
		if !found {
			continue
		}
		own := *job
		job.MinNodes, job.MaxNodes, job.AllowedNodes, job.Speeds = 0, 0, nil, nil
		for n, size := range curve.AllowedNodes {
			allowed := len(own.AllowedNodes) == 0 && size >= own.MinNodes && (own.MaxNodes == 0 || size <= own.MaxNodes)
			if allowed || slices.Contains(own.AllowedNodes, size) {
				job.AllowedNodes, job.Speeds = append(job.AllowedNodes, size), append(job.Speeds, curve.Scaling.Speeds[n])
			}
		}
		if len(job.AllowedNodes) == 0 {
			return nil, fmt.Errorf("has the application %q on %s nodes; job %q allows none of them",
				job.Application, strings.Trim(fmt.Sprint(curve.AllowedNodes), "[]"), job.ID)
		}
		work := job.Work.Seconds() / curve.Factor
		if work > sim.MaxTraceTime.Seconds() {
			return nil, fmt.Errorf("has speeds with which job %q runs %.3g s on one node; must be at most %.0f s",
				job.ID, work, sim.MaxTraceTime.Seconds())
		}
		job.Work = sim.Scale(job.Work, 1/curve.Factor)
		job.RestartTime = cmp.Or(job.RestartTime, s[job.Application].RestartTime)
		if err := job.Validate(); err != nil {
			return nil, fmt.Errorf("does not suit job %q: %w", job.ID, err)
		}
	}
	return applied, nil
}
