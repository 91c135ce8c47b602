package solver

import (
	"cmp"
	"slices"
	"time"
)

// DefaultNodeSpeed is the default of NodeType.Speed.
const DefaultNodeSpeed = 1.0

// NodeType is a type of the nodes of a pool, such as a GPU model.
type NodeType struct {
	// ID is unique in the snapshot and not empty.
	ID string
	// Nodes is the number of nodes of this type in the pool, at least 0.
	Nodes int
	// Speed is the speed of one node relative to the reference node on which Job.RemainingETA is
	// measured. 0 means DefaultNodeSpeed.
	Speed float64
}

// TypeSpeed is the training speed of a job on nodes of one type.
type TypeSpeed struct {
	// NodeType is the id of the node type.
	NodeType string
	// Factor is the speed on one node relative to the reference node. 0 means NodeType.Speed.
	Factor float64
	// Scaling is the training speed by number of nodes of this type, relative to one of them. The
	// zero value means Job.Scaling.
	Scaling Scaling
	// AllowedNodes are the legal sizes on this type. Nil means Job.AllowedNodes.
	AllowedNodes []int
}

func (s *Snapshot) fillNodeTypes() {
	s.NodeTypes = slices.Clone(s.NodeTypes)
	sum := 0
	for g := range s.NodeTypes {
		s.NodeTypes[g].Speed = cmp.Or(s.NodeTypes[g].Speed, DefaultNodeSpeed)
		sum += max(0, s.NodeTypes[g].Nodes)
	}
	s.TotalNodes = cmp.Or(s.TotalNodes, sum)
}

// wrongTotal reports whether the sum of the node types exceeds MaxNodes, or is not TotalNodes, which is set.
func (s *Snapshot) wrongTotal() bool {
	sum := 0
	for g := range s.NodeTypes {
		sum += s.NodeTypes[g].Nodes
	}
	return sum > MaxNodes || len(s.NodeTypes) > 0 && s.TotalNodes != 0 && s.TotalNodes != sum
}

// Typed reports whether there are several node types. With one type, all nodes are alike.
func (s *Snapshot) Typed() bool { return len(s.NodeTypes) > 1 }

// TypeIndex returns the position of the node type with the given id, -1 if there is none.
func (s *Snapshot) TypeIndex(id string) int {
	return slices.IndexFunc(s.NodeTypes, func(t NodeType) bool { return t.ID == id })
}

// TypeOf returns the id of the node type of an option, "" for no nodes and without node types.
func (s *Snapshot) TypeOf(option Option) string {
	if option.IsZero() || len(s.NodeTypes) == 0 {
		return ""
	}
	return s.NodeTypes[option.Type].ID
}

// Option returns the option with nodes of the type with the given id. The id is ignored if all nodes are
// alike.
func (s *Snapshot) Option(nodeType string, nodes int) Option {
	if !s.Typed() {
		return NewOption(0, nodes)
	}
	return NewOption(max(0, s.TypeIndex(nodeType)), nodes)
}

// Current returns the current allocation of job i.
func (s *Snapshot) Current(i int) Option {
	return s.Option(s.Jobs[i].CurrentNodeType, s.Jobs[i].CurrentNodes)
}

// Place describes how a job scales on one node type, or on the pool if all nodes are alike.
type Place struct {
	// Type is the position of the node type in Snapshot.NodeTypes. Nodes is its number of nodes.
	Type, Nodes int
	// Factor is the speed of the job on one node relative to the reference node.
	Factor float64
	// Job is the job with its scaling on this type.
	Job     *Job
	allowed []int // legal sizes, as Job.AllowedNodes
}

// place returns the place of job i on node type g, and whether the job can run there.
func (s *Snapshot) place(i, g int) (l Place, runs bool) {
	l, runs = s.Jobs[i].place(&s.NodeTypes[g])
	l.Type = g
	return l, runs
}

// place returns the place of the job on a node type, and whether the job can run there.
func (j *Job) place(t *NodeType) (l Place, runs bool) {
	l = Place{Nodes: t.Nodes, Factor: cmp.Or(t.Speed, DefaultNodeSpeed), Job: j, allowed: j.AllowedNodes}
	at := slices.IndexFunc(j.Speeds, func(own TypeSpeed) bool { return own.NodeType == t.ID })
	if at < 0 {
		return l, len(j.Speeds) == 0
	}
	own := &j.Speeds[at]
	l.Factor = cmp.Or(own.Factor, l.Factor)
	if own.AllowedNodes != nil {
		l.allowed = own.AllowedNodes
	}
	if own.Scaling.isSet() {
		l.Job = new(*j)
		l.Job.Scaling, l.Job.AllowedNodes = own.Scaling, l.allowed
	}
	return l, true
}

// SpeedOn returns the speed of the job on nodes of a type relative to one reference node.
func (j *Job) SpeedOn(t *NodeType, nodes int) float64 {
	l, _ := j.place(t)
	return l.Factor * l.Job.Speed(nodes)
}

// ForType returns the job for a pool that consists of one node type. factor is its speed on one node of
// the type relative to the reference node. runs reports whether the job can run on the type.
func (j *Job) ForType(t *NodeType) (there Job, factor float64, runs bool) {
	l, runs := j.place(t)
	there = *l.Job
	if there.Scaling.Speeds != nil && !slices.Equal(l.allowed, there.AllowedNodes) { // The table also has entries for other sizes.
		there.Scaling.Speeds = make([]float64, len(l.allowed))
		for n, k := range l.allowed {
			there.Scaling.Speeds[n] = l.Job.Speed(k)
		}
	}
	there.AllowedNodes, there.Speeds = l.allowed, nil
	return there, l.Factor, runs
}

// Places returns the places of job i on the node types that it can run on and that its smallest size
// fits. If it fits none of them, Places returns all node types that it can run on. The places are in
// the order of the types. The buffer is overwritten.
func (s *Snapshot) Places(i int, buffer []Place) []Place {
	if len(s.NodeTypes) == 0 {
		return append(buffer[:0], Place{Nodes: s.TotalNodes, Factor: 1, Job: &s.Jobs[i], allowed: s.Jobs[i].AllowedNodes})
	}
	all := buffer[:0]
	for g := range s.NodeTypes {
		if l, runs := s.place(i, g); runs {
			all = append(all, l)
		}
	}
	unfit := func(l Place) bool { return !l.Fits() }
	if fitting := slices.DeleteFunc(slices.Clone(all), unfit); len(fitting) > 0 {
		return fitting
	}
	return all
}

// AppendSizes appends the legal sizes of the job on this place.
func (l *Place) AppendSizes(to []int) []int {
	return legalSizes(to, l.allowed, l.Job.MinNodes, l.Job.MaxNodes)
}

// AppendOptions appends the legal options of the job on this place. It omits the options that exceed a
// row. It returns the options and the buffer for sizes, which it overwrites.
func (l *Place) AppendOptions(to []Option, sizes []int, rows Rows) (options []Option, buffer []int) {
	sizes = l.AppendSizes(sizes[:0])
	for _, k := range sizes {
		option := NewOption(l.Type, k)
		if rows != nil && !rows.Fit(option, l.Job.PieceNodes) {
			break
		}
		to = append(to, option)
	}
	return to, sizes
}

// Smallest returns the smallest legal size of the job on this place.
func (l *Place) Smallest() int { return smallestSize(l.allowed, l.Job.MinNodes, l.Job.MaxNodes) }

// Fits reports whether the smallest size of the job fits into the nodes of the place.
func (l *Place) Fits() bool { return l.Smallest() <= l.Nodes }

// SmallestSize returns the smallest legal size of job i on any node type.
func (s *Snapshot) SmallestSize(i int) int {
	if len(s.NodeTypes) == 0 {
		return s.Jobs[i].smallestSize()
	}
	smallest := MaxNodes
	for _, l := range s.Places(i, nil) {
		smallest = min(smallest, l.Smallest())
	}
	return smallest
}

// Fits reports whether the smallest size of job i fits into the pool.
func (s *Snapshot) Fits(i int) bool {
	if len(s.NodeTypes) == 0 {
		return s.Jobs[i].smallestSize() <= s.TotalNodes
	}
	return slices.ContainsFunc(s.Places(i, nil), func(l Place) bool { return l.Fits() })
}

// Speed returns the speed of job i with an option relative to one reference node.
func (s *Snapshot) Speed(i int, option Option) float64 {
	if len(s.NodeTypes) == 0 {
		return s.Jobs[i].Speed(int(option.Nodes))
	}
	return s.Jobs[i].SpeedOn(&s.NodeTypes[option.Type], int(option.Nodes))
}

// Demand returns the remaining run time of job i on one reference node in seconds.
func (s *Snapshot) Demand(i int) float64 {
	job := &s.Jobs[i]
	g := s.TypeIndex(job.ETANodeType)
	if g < 0 {
		return job.Demand()
	}
	l, _ := s.place(i, g)
	there := *l.Job
	there.RemainingETA, there.ETANodes = job.RemainingETA, job.ETANodes
	return l.Factor * there.Demand()
}

// WithReferenceETAs returns the snapshot with all ETAs converted to one reference node. A snapshot
// without node types is returned unchanged.
func (s *Snapshot) WithReferenceETAs() *Snapshot {
	if len(s.NodeTypes) == 0 {
		return s
	}
	on := *s
	on.Jobs = slices.Clone(s.Jobs)
	for i := range on.Jobs {
		job := &on.Jobs[i]
		job.RemainingETA = max(1, time.Duration(min(s.Demand(i)*float64(time.Second), 1<<62))) // The sum of two of them does not overflow.
		job.ETANodes, job.ETANodeType = 0, ""
	}
	return &on
}

// CurrentPlace returns the place of job i on its current node type. A queued job has a place with factor
// 1.
func (s *Snapshot) CurrentPlace(i int) Place {
	if g := s.TypeIndex(s.Jobs[i].CurrentNodeType); g >= 0 {
		l, _ := s.place(i, g)
		return l
	}
	return Place{Factor: 1, Job: &s.Jobs[i]}
}

// Restart returns the time without progress if a running or paused job changes to other nodes. moves
// reports that the node type changes.
func (j *Job) Restart(moves bool) time.Duration {
	if moves && j.CurrentNodes > 0 {
		return ValueOr(j.MoveTime, j.RestartTime)
	}
	return j.RestartTime
}
