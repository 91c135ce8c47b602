package solver

import (
	"fmt"
	"slices"
	"strings"
)

func (s *Snapshot) validateNodeTypes(bad *Violations) {
	if len(s.NodeTypes) == 0 {
		return
	}
	known, sum := len(*bad), 0
	for g := range s.NodeTypes {
		t, path := &s.NodeTypes[g], fmt.Sprintf("node_types[%d]", g)
		if t.ID == "" {
			bad.Addf(path+".id", "is empty; every node type needs an id")
		} else if other := s.TypeIndex(t.ID); other != g {
			bad.Addf(path+".id", "is %q like node_types[%d].id; ids must be unique", t.ID, other)
		}
		bad.checkNodes(path+".nodes", t.Nodes, 0)
		bad.checkSpeed(path+".speed", t.Speed)
		sum += t.Nodes
	}
	if len(*bad) == known && s.TotalNodes != sum {
		bad.Addf("total_nodes", "is %d; must be unset or the sum of the node types, %d", s.TotalNodes, sum)
	}
}

// checkSpeed reports a speed of one node that is not greater than 0 or exceeds MaxSpeed.
func (v *Violations) checkSpeed(path string, speed float64) {
	if !(speed > 0 && speed <= MaxSpeed) {
		v.Addf(path, "is %v; must be greater than 0 and at most %g", speed, float64(MaxSpeed))
	}
}

// checkNodeType returns the position of a node type. It reports an unknown id and returns -1.
func (s *Snapshot) checkNodeType(path, id string, bad *Violations) int {
	g := s.TypeIndex(id)
	if g < 0 {
		ids := make([]string, len(s.NodeTypes))
		for n := range ids {
			ids[n] = fmt.Sprintf("%q", s.NodeTypes[n].ID)
		}
		bad.Addf(path, "is %q; must be one of the node types %s", id, strings.Join(ids, ", "))
	}
	return g
}

func (s *Snapshot) validateCurrentType(job *Job, bad *Violations) {
	switch {
	case job.CurrentNodeType != "":
		s.checkNodeType(".current_node_type", job.CurrentNodeType, bad)
	case job.CurrentNodes > 0:
		bad.Addf(".current_node_type", "is empty; a job with current_nodes needs their node type")
	}
}

func (s *Snapshot) validateTypesOf(i int, bad *Violations) {
	job := &s.Jobs[i]
	s.validateCurrentType(job, bad)
	known := len(*bad)
	if len(job.Speeds) > MaxNodeTypes {
		bad.Addf(".speeds", "has %d entries; must have at most one per node type", len(job.Speeds))
		return
	}
	for n := range job.Speeds {
		s.validateSpeed(job, n, fmt.Sprintf(".speeds[%d]", n), bad)
	}
	if job.ETANodeType == "" {
		return
	}
	g := s.checkNodeType(".eta_node_type", job.ETANodeType, bad)
	if l, _ := s.place(i, max(0, g)); g >= 0 && len(*bad) == known && job.ETANodes > 0 && l.Job.Scaling.Speeds != nil {
		there := *l.Job
		there.ETANodes = job.ETANodes
		there.validateETAWithin(bad)
	}
}

func (s *Snapshot) validateSpeed(job *Job, n int, path string, bad *Violations) {
	own := &job.Speeds[n]
	s.checkNodeType(path+".node_type", own.NodeType, bad)
	same := func(other TypeSpeed) bool { return other.NodeType == own.NodeType }
	if first := slices.IndexFunc(job.Speeds, same); first != n {
		bad.Addf(path+".node_type", "is %q like speeds[%d].node_type; must be unique", own.NodeType, first)
	}
	if own.Factor != 0 {
		bad.checkSpeed(path+".factor", own.Factor)
	}
	if own.AllowedNodes == nil && !own.Scaling.isSet() {
		return
	}
	there := *job
	there.Scaling = own.Scaling
	if own.AllowedNodes != nil {
		there.AllowedNodes = own.AllowedNodes
	}
	known := len(*bad)
	if !own.Scaling.isSet() {
		there.Scaling.DoublingEfficiency = DefaultDoublingEfficiency
	}
	there.validateSizes(path, bad)
	if own.Scaling.isSet() || job.Scaling.Speeds == nil || len(*bad) > known {
		return
	}
	for k, size := range own.AllowedNodes {
		if tabled := job.tabledSizes(); size >= job.MinNodes && size <= job.MaxNodes && !slices.Contains(tabled, size) {
			bad.Addf(fmt.Sprintf("%s.allowed_nodes[%d]", path, k),
				"is %d, for which scaling.table has no speed; must be one of %v unless the type has a scaling",
				size, tabled)
		}
	}
}
