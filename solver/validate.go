package solver

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Violation describes an invalid field of a request.
type Violation struct {
	// Path is the path of the field in the API, such as snapshot.jobs[3].max_nodes. The validation
	// of a part of a request returns paths relative to that part.
	Path string
	// Description states the invalid value and the valid values.
	Description string
}

// InvalidError reports all invalid fields of a request.
type InvalidError struct {
	Violations []Violation
}

// Invalid returns an error for one invalid field.
func Invalid(path, format string, args ...any) *InvalidError {
	return &InvalidError{Violations: []Violation{{Path: path, Description: fmt.Sprintf(format, args...)}}}
}

// Error lists the invalid fields.
func (e *InvalidError) Error() string {
	parts := make([]string, len(e.Violations))
	for i, v := range e.Violations {
		parts[i] = v.Path + ": " + v.Description
	}
	return "invalid request: " + strings.Join(parts, "; ")
}

// WithPrefix returns a copy of the error in which the path of a message precedes all paths.
func (e *InvalidError) WithPrefix(message string) *InvalidError {
	return &InvalidError{Violations: WithPrefix(message, slices.Clone(e.Violations))}
}

// WithPrefix prepends the path of a message to all paths. It modifies and returns bad.
func WithPrefix(message string, bad []Violation) []Violation {
	for i := range bad {
		bad[i].Path = message + "." + bad[i].Path
	}
	return bad
}

// MaxViolations is the number of invalid fields after which Validate stops, because a hostile request
// could have millions of them.
const MaxViolations = 1000

// Violations is a list of invalid fields.
type Violations []Violation

// Addf adds an invalid field. It does nothing if there are MaxViolations fields already.
func (v *Violations) Addf(path, format string, args ...any) {
	if !v.full() {
		*v = append(*v, Violation{Path: path, Description: fmt.Sprintf(format, args...)})
	}
}

func (v *Violations) full() bool { return len(*v) >= MaxViolations }

// CheckID adds a violation if an id is too long, and returns whether it is.
func (v *Violations) CheckID(path, id string) bool {
	if len(id) <= MaxIDBytes {
		return false
	}
	v.Addf(path, "has %d bytes; must have at most %d", len(id), MaxIDBytes)
	return true
}

// checkNodes adds a violation if a number of nodes is not within [smallest, MaxNodes]. So the sum over
// all jobs fits into an int.
func (v *Violations) checkNodes(path string, nodes, smallest int) {
	if nodes < smallest {
		v.Addf(path, "is %d; must be at least %d", nodes, smallest)
	} else if nodes > MaxNodes {
		v.Addf(path, "is %d; must be at most %d", nodes, MaxNodes)
	}
}

// CheckFactor adds a violation if a number is set and not within [0, largest].
func (v *Violations) CheckFactor(path string, factor *float64, largest float64) {
	if factor != nil && !(*factor >= 0 && *factor <= largest) {
		v.Addf(path, "is %v; must be 0 to %g", *factor, largest)
	}
}

// checkTime adds a violation if a time is below 0.
func (v *Violations) checkTime(path string, d time.Duration) {
	if d < 0 {
		v.Addf(path, "is %v; must be at least 0", d)
	}
}

// Validate returns the invalid fields of a snapshot, at most MaxViolations, in the order of the
// snapshot. The snapshot may have at most maxJobs jobs. A pool that is too small, current nodes that
// are not a legal size and current nodes that exceed the pool are valid.
func (s *Snapshot) Validate(maxJobs int) []Violation {
	var bad Violations
	bad.checkNodes("total_nodes", s.TotalNodes, 0)
	if s.Horizon.Step <= 0 {
		bad.Addf("horizon.step", "is %v; must be greater than 0", s.Horizon.Step)
	}
	if s.Horizon.Steps < 1 || s.Horizon.Steps > MaxSteps {
		bad.Addf("horizon.steps", "is %d; must be 1 to %d", s.Horizon.Steps, MaxSteps)
	}
	for _, list := range []struct {
		path, items string
		count, max  int
	}{
		{"jobs", "jobs", len(s.Jobs), maxJobs},
		{"node_types", "types", len(s.NodeTypes), MaxNodeTypes},
		{"size_limits", "limits", len(s.SizeLimits), MaxSizeLimits},
		{"groups", "groups", len(s.Groups), MaxGroups},
	} {
		if list.count > list.max {
			bad.Addf(list.path, "has %d %s; must have at most %d", list.count, list.items, list.max)
			return bad
		}
	}
	if s.validateIDs(&bad) {
		return bad
	}
	s.validateNodeTypes(&bad)
	s.validateSizeLimits(&bad)
	tree := s.GroupTree()
	s.validateGroups(tree, &bad)
	first := make(map[string]int, len(s.Jobs))
	for i := range s.Jobs {
		if bad.full() {
			break
		}
		s.validateJob(i, first, tree, &bad)
	}
	return bad
}

// validateIDs reports ids that are too long, and returns whether there are any. Then nothing else is
// validated, because other descriptions and responses would include the ids.
func (s *Snapshot) validateIDs(bad *Violations) bool {
	before := len(*bad)
	bad.CheckID("id", s.ID)
	for g := range s.NodeTypes {
		bad.CheckID(fmt.Sprintf("node_types[%d].id", g), s.NodeTypes[g].ID)
	}
	for n := range s.SizeLimits {
		bad.CheckID(fmt.Sprintf("size_limits[%d].node_type", n), s.SizeLimits[n].NodeType)
	}
	for i := range s.Groups {
		if g := &s.Groups[i]; max(len(g.ID), len(g.ParentID)) > MaxIDBytes {
			bad.CheckID(fmt.Sprintf("groups[%d].id", i), g.ID)
			bad.CheckID(fmt.Sprintf("groups[%d].parent_id", i), g.ParentID)
		}
		for n := range s.Groups[i].TypeLimits {
			bad.CheckID(fmt.Sprintf("groups[%d].type_limits[%d].node_type", i, n), s.Groups[i].TypeLimits[n].NodeType)
		}
	}
	for i := range s.Jobs {
		if job := &s.Jobs[i]; max(len(job.ID), len(job.GroupID), len(job.CurrentNodeType), len(job.ETANodeType)) > MaxIDBytes {
			bad.CheckID(fmt.Sprintf("jobs[%d].id", i), job.ID)
			bad.CheckID(fmt.Sprintf("jobs[%d].group_id", i), job.GroupID)
			bad.CheckID(fmt.Sprintf("jobs[%d].current_node_type", i), job.CurrentNodeType)
			bad.CheckID(fmt.Sprintf("jobs[%d].eta_node_type", i), job.ETANodeType)
		}
		for n := range s.Jobs[i].Speeds {
			if id := s.Jobs[i].Speeds[n].NodeType; len(id) > MaxIDBytes {
				bad.CheckID(fmt.Sprintf("jobs[%d].speeds[%d].node_type", i, n), id)
			}
		}
	}
	return len(*bad) > before
}

// validateJob reports the invalid fields of job i. first has the positions of the previous jobs by id.
func (s *Snapshot) validateJob(i int, first map[string]int, tree GroupTree, bad *Violations) {
	job := &s.Jobs[i]
	if job.ID == "" {
		bad.Addf(fmt.Sprintf("jobs[%d].id", i), "is empty; every job needs an id")
	} else if other, seen := first[job.ID]; seen {
		bad.Addf(fmt.Sprintf("jobs[%d].id", i), "is %q like jobs[%d].id; ids must be unique", job.ID, other)
	} else {
		first[job.ID] = i
	}
	// Paths are relative to the job until a violation is found, to save time for valid jobs.
	known := len(*bad)
	if job.Keep {
		s.validateKept(job, tree, bad)
	} else {
		s.validateDecided(i, tree, bad)
	}
	if len(*bad) == known && len(job.Bad) == 0 {
		return
	}
	path := fmt.Sprintf("jobs[%d]", i)
	for n := range (*bad)[known:] {
		v := &(*bad)[known+n]
		v.Path = path + v.Path
	}
	if len(job.Bad) == 0 {
		return
	}
	// If both report the same field, job.Bad takes precedence, because the field has only a
	// substitute for the invalid value.
	seen := make(map[string]bool, len(job.Bad))
	for _, v := range job.Bad {
		seen[path+"."+v.Path] = true
	}
	own := slices.Clone((*bad)[known:])
	*bad = (*bad)[:known]
	for _, v := range job.Bad {
		bad.Addf(path+"."+v.Path, "%s", v.Description)
	}
	for _, v := range own {
		if !seen[v.Path] {
			bad.Addf(v.Path, "%s", v.Description)
		}
	}
}

// validateDecided reports the invalid fields of job i, which is decided, except its id.
func (s *Snapshot) validateDecided(i int, tree GroupTree, bad *Violations) {
	known := len(*bad)
	s.Jobs[i].validate(bad)
	tree.validateJob(&s.Jobs[i], bad)
	if len(s.NodeTypes) > 0 {
		s.validateTypesOf(i, bad)
	}
	if len(*bad) == known {
		s.validateDemand(i, bad)
	}
}

// validateKept reports the invalid fields of a job with Keep, except its id. Other fields than these are not
// read.
func (s *Snapshot) validateKept(job *Job, tree GroupTree, bad *Violations) {
	bad.checkNodes(".current_nodes", job.CurrentNodes, 0)
	job.validatePiece(bad)
	if job.GroupID != "" {
		tree.validateJob(job, bad)
	}
	if len(s.NodeTypes) > 0 {
		s.validateCurrentType(job, bad)
	}
}

// validate reports the invalid fields of one job except its id.
func (j *Job) validate(bad *Violations) {
	if j.RemainingETA <= 0 {
		bad.Addf(".remaining_eta", "is %v; must be greater than 0", j.RemainingETA)
	}
	bad.checkNodes(".min_nodes", j.MinNodes, 1)
	if j.MaxNodes < j.MinNodes {
		bad.Addf(".max_nodes", "is %d; must be at least min_nodes (%d)", j.MaxNodes, j.MinNodes)
	} else {
		bad.checkNodes(".max_nodes", j.MaxNodes, j.MinNodes)
	}
	bad.checkNodes(".current_nodes", j.CurrentNodes, 0)
	bad.checkTime(".training_time", j.TrainingTime)
	j.validateSizes("", bad)
	j.validateETANodes(bad)
	bad.CheckFactor(".weight", j.Weight, MaxWeight)
	bad.checkTime(".resize_delay", j.ResizeDelay)
	bad.checkTime(".restart_time", j.RestartTime)
	if j.RestartTime > 0 && j.ResizeDelay > 0 {
		bad.Addf(".restart_time", "is %v in addition to a resize_delay of %v; must be 0 if resize_delay is set", j.RestartTime, j.ResizeDelay)
	}
	j.validateRecentRestarts(bad)
	bad.checkTime(".waiting_time", j.WaitingTime)
	bad.CheckFactor(".eta_error", j.ETAError, MaxETAError)
	bad.checkTime(".work_done", j.WorkDone)
	if !(j.Overrun >= 0 && j.Overrun <= math.MaxFloat64) {
		bad.Addf(".overrun", "is %v; must be at least 0 and finite", j.Overrun)
	}
	bad.checkTime(".move_time", ValueOr(j.MoveTime, 0))
	j.validatePiece(bad)
}

func (j *Job) validatePiece(bad *Violations) {
	if j.PieceNodes < 0 || j.PieceNodes > MaxNodes {
		bad.Addf(".piece_nodes", "is %d; must be 0 to %d", j.PieceNodes, MaxNodes)
	}
}

// validateRecentRestarts reports invalid RecentRestarts.
func (j *Job) validateRecentRestarts(bad *Violations) {
	if n := len(j.RecentRestarts); n > MaxRecentRestarts {
		bad.Addf(".recent_restarts", "has %d times; must have at most %d", n, MaxRecentRestarts)
		return
	}
	for n, since := range j.RecentRestarts {
		path := fmt.Sprintf(".recent_restarts[%d]", n)
		bad.checkTime(path, since)
		if n > 0 && since < j.RecentRestarts[n-1] {
			bad.Addf(path, "is %v after %v; must be ascending", since, j.RecentRestarts[n-1])
		}
	}
}

// UnknownJobs reports the ids in the request field job_ids that no job of the snapshot has.
func (s *Snapshot) UnknownJobs(ids []string) []Violation {
	known := make(map[string]bool, len(s.Jobs))
	for i := range s.Jobs {
		known[s.Jobs[i].ID] = true
	}
	var bad Violations
	for n, id := range ids {
		if !known[id] {
			bad.Addf(fmt.Sprintf("job_ids[%d]", n), "is %q; must be a job of the snapshot", id[:min(len(id), MaxIDBytes)])
		}
	}
	return bad
}

// Valid reports whether job i, which has its defaults, has no invalid field except its id and group.
func (s *Snapshot) Valid(i int) bool {
	var bad Violations
	s.Jobs[i].validate(&bad)
	if len(s.NodeTypes) > 0 {
		s.validateTypesOf(i, &bad)
	}
	return len(bad) == 0 && len(s.Jobs[i].Bad) == 0
}

// validateSizes reports invalid legal sizes, an invalid scaling, and a speed table that does not match the
// sizes.
func (j *Job) validateSizes(path string, bad *Violations) {
	if e := j.Scaling.DoublingEfficiency; j.Scaling.Speeds == nil && !(e > 0 && e <= 1) {
		defer bad.Addf(path+".scaling.doubling_efficiency", "is %v; must be greater than 0 and at most 1", e)
	}
	known := len(*bad)
	for i, k := range j.AllowedNodes {
		if bad.full() {
			return
		}
		if k < 1 || k > MaxNodes {
			bad.checkNodes(fmt.Sprintf("%s.allowed_nodes[%d]", path, i), k, 1)
		} else if i > 0 && k <= j.AllowedNodes[i-1] {
			bad.Addf(fmt.Sprintf("%s.allowed_nodes[%d]", path, i),
				"is %d after %d; sizes must be ascending and unique", k, j.AllowedNodes[i-1])
		}
	}
	var buffer [MaxSizes]int
	sizes := legalSizes(buffer[:0], j.AllowedNodes, j.MinNodes, j.MaxNodes)
	rangeOK := j.MinNodes >= 1 && j.MaxNodes >= j.MinNodes
	if len(*bad) == known && rangeOK {
		if len(sizes) == 0 && j.AllowedNodes == nil {
			bad.Addf(path+".allowed_nodes", "is unset, which means the powers of two, and none is within "+
				"[min_nodes, max_nodes] = [%d, %d]; must be set", j.MinNodes, j.MaxNodes)
		} else if len(sizes) == 0 {
			bad.Addf(path+".allowed_nodes", "has no legal size within [min_nodes, max_nodes] = [%d, %d]",
				j.MinNodes, j.MaxNodes)
		}
		if len(sizes) > MaxSizes {
			bad.Addf(path+".allowed_nodes", "has %d sizes within [min_nodes, max_nodes]; must have at most %d",
				len(sizes), MaxSizes)
		}
	}
	speeds := j.Scaling.Speeds
	if speeds == nil {
		return
	}
	if rangeOK && len(speeds) != len(sizes) && (j.AllowedNodes == nil || len(speeds) != len(j.AllowedNodes)) {
		bad.Addf(path+".scaling.table.speeds", "has %d speeds; must have %d, one per legal size", len(speeds), len(sizes))
	}
	for i, v := range speeds {
		if bad.full() {
			return
		}
		if !(v > 0 && v <= MaxSpeed) {
			bad.Addf(fmt.Sprintf("%s.scaling.table.speeds[%d]", path, i),
				"is %v; must be greater than 0 and at most %g", v, float64(MaxSpeed))
		}
	}
}

// validateETANodes reports an invalid ETANodes.
func (j *Job) validateETANodes(bad *Violations) {
	if j.ETANodes < 0 || j.ETANodes > MaxNodes {
		bad.checkNodes(".eta_nodes", j.ETANodes, 1)
	}
	if j.ETANodes <= 0 || j.Scaling.Speeds == nil || j.ETANodeType != "" {
		return // Another table may apply to the node type.
	}
	j.validateETAWithin(bad)
}

// validateETAWithin reports an ETANodes outside the range of the speed table.
func (j *Job) validateETAWithin(bad *Violations) {
	sizes := j.tabledSizes()
	if len(sizes) == 0 {
		return // It is reported already.
	}
	if smallest, largest := slices.Min(sizes), slices.Max(sizes); j.ETANodes < smallest || j.ETANodes > largest {
		bad.Addf(".eta_nodes", "is %d; must be %d to %d, which the speed table covers", j.ETANodes, smallest, largest)
	}
}

// validateDemand reports a speed on ETANodes that is so small that the demand is less than 1 ns, because
// the objective divides by the demand. The job has no other invalid field.
func (s *Snapshot) validateDemand(i int, bad *Violations) {
	job := &s.Jobs[i]
	if s.Demand(i) < time.Nanosecond.Seconds() {
		bad.Addf(".eta_nodes", "is %d, where the speed is so low that remaining_eta (%v) is less than 1ns on one node",
			job.ETANodes, job.RemainingETA)
	}
}
