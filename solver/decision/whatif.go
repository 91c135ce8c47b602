package decision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// MaxScenarios is the maximum number of variations that are decided in one request.
const MaxScenarios = 64

// ScenarioJobs is how many times as many jobs as one snapshot may have all scenarios of
// a request may have together: their decisions are held until the last is made.
const ScenarioJobs = 2

// Scenario is a variation of a snapshot. Its snapshot is Apply's.
type Scenario struct {
	// Name is echoed in the result.
	Name string
	// TotalNodes are the nodes of the pool; nil means those of the snapshot.
	TotalNodes *int
	// PutNodeTypes take the place of the node types of the same ids.
	PutNodeTypes []snapshot.NodeType
	// PutJobs take the place of the jobs of the same ids, or else join the end of the
	// queue.
	PutJobs []snapshot.Job
	// RemoveJobIDs are the jobs that are taken out, before others are put in.
	RemoveJobIDs []string
	// Options replace the request's; nil means those.
	Options *problem.Options
	// Bad is what is wrong with fields that a Scenario cannot express, as the code that
	// made it from another form knows. Paths begin within the scenario.
	Bad []snapshot.Violation
}

// ScenarioResult is the decision on a variation, or why there is none.
type ScenarioResult struct {
	// Name is the scenario's.
	Name string
	// Decision is that on the varied snapshot.
	Decision Decision
	// ChangedJobIDs are the jobs whose nodes are others than in the base decision, in
	// its order and then that of the varied snapshot; those of a missing job are 0.
	ChangedJobIDs []string
	// Err is nil, an *InvalidError or an error that wraps context.DeadlineExceeded.
	Err error
}

// WhatIf is the decision on a snapshot and on variations of it.
type WhatIf struct {
	// Base is the decision on the snapshot as it is.
	Base Decision
	// Results are in the order of the scenarios.
	Results []ScenarioResult
}

// Apply returns the snapshot that a scenario makes of s, which stays as it is. The error
// is an *InvalidError that names jobs to take out that s does not have, and jobs that are
// put in twice; its paths begin within the scenario.
func (c *Scenario) Apply(s *snapshot.Snapshot) (*Varied, error) {
	var bad snapshot.Violations
	at := make(map[string]int, len(s.Jobs)) // The first of an id; Validate reports the others.
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
			bad.Addf(fmt.Sprintf("remove_job_ids[%d]", n), "is %q; want a job of the snapshot that is not removed already", id)
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
		return nil, &snapshot.InvalidError{Violations: bad}
	}
	varied.Jobs = make([]snapshot.Job, 0, len(s.Jobs)+len(put))
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

// putNodeTypes puts node types in the places of those of the same ids. TotalNodes is then their
// sum.
func (c *Scenario) putNodeTypes(varied *Varied, bad *snapshot.Violations) {
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
			bad.Addf(path+".id", "is %q; want a node type of the snapshot", id)
		} else {
			varied.NodeTypes[g], varied.paths[field] = c.PutNodeTypes[n], path
		}
	}
}

// Varied is the snapshot that a scenario makes of another one.
type Varied struct {
	snapshot.Snapshot
	// paths are those within the scenario of the fields of Snapshot that it has set; options
	// says whether it has its own.
	paths   map[string]string
	options bool
}

// RequestPaths returns bad fields of the varied snapshot and of its options with the paths of where
// the caller wrote them: in the scenario of the given path, or in the original request.
func (v *Varied) RequestPaths(bad []snapshot.Violation, scenario string) []snapshot.Violation {
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

// ChangedJobIDs returns the jobs whose nodes differ between two decisions, as
// ScenarioResult says.
func ChangedJobIDs(base, other Decision) []string {
	type holding struct {
		nodes    int
		nodeType string
	}
	before := make(map[string]holding, len(base.Allocations))
	after := make(map[string]holding, len(other.Allocations))
	for _, a := range base.Allocations {
		before[a.JobID] = holding{a.Nodes, a.NodeType}
	}
	for _, a := range other.Allocations {
		after[a.JobID] = holding{a.Nodes, a.NodeType}
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
