package solver

import (
	"fmt"
	"slices"
	"strings"
)

// MaxScenarios is the maximum number of scenarios in one request.
const MaxScenarios = 64

// ScenarioJobs limits the total number of jobs of all scenarios in a request, as a multiple of the maximum
// number of jobs in a snapshot. The limit bounds memory, because all decisions are kept until the last
// one is made.
const ScenarioJobs = 2

// Scenario is a variation of a snapshot. Apply returns the varied snapshot.
type Scenario struct {
	// Name is the name of the scenario. The result has the same name.
	Name string
	// TotalNodes is the number of nodes of the pool. Nil means the pool of the snapshot.
	TotalNodes *int
	// PutNodeTypes replace the node types with the same ids.
	PutNodeTypes []NodeType
	// PutSizeLimits replace the size limits of the same size and node type. Others are added.
	PutSizeLimits []SizeLimit
	// PutJobs replace the jobs with the same ids. Other jobs are added to the end of the queue.
	PutJobs []Job
	// RemoveJobIDs are the ids of the jobs to remove before PutJobs is applied.
	RemoveJobIDs []string
	// Options replace the options of the request. Nil means the options of the request.
	Options *Options
	// Bad are violations that a Scenario cannot represent. The code that converts another format to a
	// Scenario sets them. Their paths are relative to the scenario.
	Bad []Violation
}

// ScenarioResult is the decision on a scenario or an error.
type ScenarioResult struct {
	// Name is the name of the scenario.
	Name string
	// Decision is the decision on the varied snapshot.
	Decision Decision
	// ChangedJobIDs are the ids of the jobs whose nodes differ from the base decision. A missing job
	// counts as a job without nodes. Jobs of the base decision precede new jobs.
	ChangedJobIDs []string
	// Benefit is how much more the allocations are worth than those of the base decision, to the jobs of both
	// snapshots, in units of the objective of the request. Both are valued by one rule, with the jobs of the
	// unchanged snapshot and the larger of both numbers of nodes. It includes the cost of resizes. It is nil if
	// there is no decision, for ObjectiveProgress, and if a job gets a size that the unchanged snapshot does not
	// allow it.
	Benefit *float64
	// Err is nil, an *InvalidError or an error that wraps context.DeadlineExceeded.
	Err error
}

// WhatIf has the decisions on a snapshot and on scenarios.
type WhatIf struct {
	// Base is the decision on the unchanged snapshot.
	Base Decision
	// Results are in the order of the scenarios.
	Results []ScenarioResult
}

// Apply returns the varied snapshot. It does not modify s. The error is an *InvalidError that names
// unknown jobs in RemoveJobIDs, unknown node types and duplicate ids. Its paths are relative to the
// scenario.
func (c *Scenario) Apply(s *Snapshot) (*Varied, error) {
	var bad Violations
	at := make(map[string]int, len(s.Jobs)) // The first job with each id. Validate reports duplicates.
	for i := len(s.Jobs) - 1; i >= 0; i-- {
		at[s.Jobs[i].ID] = i
	}
	removed := make(map[int]bool, len(c.RemoveJobIDs))
	for n, id := range c.RemoveJobIDs {
		if bad.CheckID(fmt.Sprintf("remove_job_ids[%d]", n), id) {
			continue
		}
		i, known := at[id]
		if !known {
			bad.Addf(fmt.Sprintf("remove_job_ids[%d]", n), "is %q; must be a job of the snapshot that is not removed already", id)
			continue
		}
		removed[i] = true
		delete(at, id)
	}
	varied := &Varied{Snapshot: *s, paths: map[string]string{"jobs": "jobs"}, options: c.Options != nil}
	c.putNodeTypes(varied, &bad)
	if c.TotalNodes != nil {
		varied.TotalNodes, varied.paths["total_nodes"] = *c.TotalNodes, "total_nodes"
	}
	c.putSizeLimits(varied, &bad)
	put := make(map[string]int, len(c.PutJobs))
	for n := range c.PutJobs {
		id := c.PutJobs[n].ID
		if bad.CheckID(fmt.Sprintf("put_jobs[%d].id", n), id) {
			continue
		}
		if other, twice := put[id]; twice {
			bad.Addf(fmt.Sprintf("put_jobs[%d].id", n), "is %q like put_jobs[%d].id; ids must be unique", id, other)
			continue
		}
		put[id] = n
	}
	if len(bad) > 0 {
		return nil, &InvalidError{Violations: bad}
	}
	varied.Jobs = make([]Job, 0, len(s.Jobs)+len(put))
	add := func(n int) {
		varied.paths[fmt.Sprintf("jobs[%d]", len(varied.Jobs))] = fmt.Sprintf("put_jobs[%d]", n)
		varied.Jobs = append(varied.Jobs, c.PutJobs[n])
	}
	for i := range s.Jobs {
		id := s.Jobs[i].ID
		if n, replaces := put[id]; replaces && !removed[i] && at[id] == i {
			add(n)
			delete(put, id)
		} else if !removed[i] {
			varied.Jobs = append(varied.Jobs, s.Jobs[i])
		}
	}
	for n := range c.PutJobs {
		if _, joins := put[c.PutJobs[n].ID]; joins {
			add(n)
		}
	}
	return varied, nil
}

// putNodeTypes replaces the node types with the same ids. TotalNodes is then the sum of all types.
func (c *Scenario) putNodeTypes(varied *Varied, bad *Violations) {
	if len(c.PutNodeTypes) == 0 {
		return
	}
	varied.TotalNodes, varied.NodeTypes = 0, slices.Clone(varied.NodeTypes)
	for n := range c.PutNodeTypes {
		path, id := fmt.Sprintf("put_node_types[%d]", n), c.PutNodeTypes[n].ID
		if bad.CheckID(path+".id", id) {
			continue
		}
		g := varied.TypeIndex(id)
		field := fmt.Sprintf("node_types[%d]", g)
		if other, twice := varied.paths[field]; twice {
			bad.Addf(path+".id", "is %q like %s.id; ids must be unique", id, other)
		} else if g < 0 {
			bad.Addf(path+".id", "is %q; must be a node type of the snapshot", id)
		} else {
			varied.NodeTypes[g], varied.paths[field] = c.PutNodeTypes[n], path
		}
	}
}

// putSizeLimits replaces the size limits of the same size and node type, and adds the others.
func (c *Scenario) putSizeLimits(varied *Varied, bad *Violations) {
	if len(c.PutSizeLimits) == 0 {
		return
	}
	varied.SizeLimits, varied.paths["size_limits"] = slices.Clone(varied.SizeLimits), "put_size_limits"
	for n, put := range c.PutSizeLimits {
		path := fmt.Sprintf("put_size_limits[%d]", n)
		if bad.CheckID(path+".node_type", put.NodeType) {
			continue
		}
		same := func(l SizeLimit) bool { return l.Size == put.Size && l.NodeType == put.NodeType }
		at := slices.IndexFunc(varied.SizeLimits, same)
		if at < 0 {
			at, varied.SizeLimits = len(varied.SizeLimits), append(varied.SizeLimits, put)
		}
		field := fmt.Sprintf("size_limits[%d]", at)
		if other, twice := varied.paths[field]; twice {
			bad.Addf(path+".size", "is %d like %s.size; must be unique per node type", put.Size, other)
			continue
		}
		varied.SizeLimits[at], varied.paths[field] = put, path
	}
}

// KeptLimits returns the warning that the varied snapshot has another number of nodes than s and the size
// limits of s, and whether that is so.
func (c *Scenario) KeptLimits(s *Snapshot, varied *Varied) (Warning, bool) {
	sameNodes := func(a, b NodeType) bool { return a.ID == b.ID && a.Nodes == b.Nodes }
	resized := c.TotalNodes != nil && *c.TotalNodes != s.WithDefaults().TotalNodes ||
		!slices.EqualFunc(s.NodeTypes, varied.NodeTypes, sameNodes)
	if len(s.SizeLimits) == 0 || len(c.PutSizeLimits) > 0 || !resized {
		return Warning{}, false
	}
	return Warning{
		Code: WarningSizeLimitsKept,
		Message: "the scenario changes the number of nodes and keeps the size " +
			"limits of the snapshot; set put_size_limits to those of the other machines",
	}, true
}

// Varied is a snapshot after a scenario is applied.
type Varied struct {
	Snapshot
	// paths maps the fields of Snapshot that the scenario sets to paths within the scenario. options
	// reports whether the scenario sets its own options.
	paths   map[string]string
	options bool
}

// RequestPaths returns the invalid fields of the varied snapshot and of its options with their paths in
// the request: in the scenario with the given path, or in the original snapshot and options.
func (v *Varied) RequestPaths(bad []Violation, scenario string) []Violation {
	renamed := slices.Clone(bad)
	for n := range renamed {
		path := &renamed[n].Path
		message, inside, _ := strings.Cut(*path, ".")
		field, rest, _ := strings.Cut(inside, ".")
		if own, set := v.paths[field]; set && message == "snapshot" {
			*path = strings.TrimSuffix(scenario+"."+own+"."+rest, ".")
		} else if message == "options" && v.options {
			*path = scenario + "." + *path
		}
	}
	return renamed
}

// ChangedJobIDs returns the ids of the jobs whose nodes differ between two decisions, see
// ScenarioResult.ChangedJobIDs.
func ChangedJobIDs(base, other Decision) []string {
	type allocated struct {
		nodes    int
		nodeType string
	}
	before := make(map[string]allocated, len(base.Allocations))
	after := make(map[string]allocated, len(other.Allocations))
	for _, a := range base.Allocations {
		before[a.JobID] = allocated{a.Nodes, a.NodeType}
	}
	for _, a := range other.Allocations {
		after[a.JobID] = allocated{a.Nodes, a.NodeType}
	}
	var changed []string
	for _, a := range slices.Concat(base.Allocations, other.Allocations) {
		if before[a.JobID] != after[a.JobID] {
			changed = append(changed, a.JobID)
			delete(before, a.JobID)
			delete(after, a.JobID)
		}
	}
	return changed
}
