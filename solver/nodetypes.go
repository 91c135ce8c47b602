package solver

import (
	"cmp"
	"slices"
	"time"
)

// DefaultNodeSpeed is that of a node type that names none.
const DefaultNodeSpeed = 1.0

// NodeType is a kind of nodes.
type NodeType struct {
	// ID is unique in the snapshot and not empty.
	ID string
	// Nodes is the number of nodes of this type in the pool, at least 0.
	Nodes int
	// Speed is that of one node relative to the reference node that Job.RemainingETA is
	// measured on; 0 means 1.
	Speed float64
}

// TypeSpeed is how fast a job trains on nodes of one type.
type TypeSpeed struct {
	// NodeType is the id of the type.
	NodeType string
	// Factor is the speed on one node relative to the reference node; 0 means NodeType.Speed.
	Factor float64
	// Scaling is the training speed against nodes of this type, relative to one of them. Its
	// zero value means that of the job.
	Scaling Scaling
	// AllowedNodes are the legal sizes on this type; nil means those of the job.
	AllowedNodes []int
}

// NodeTypeReport is what a decision means for a node type.
type NodeTypeReport struct {
	ID string
	// Nodes are those of the type in the pool, IdleNodes those of them left unallocated.
	Nodes, IdleNodes int
	// Price is what one more node is worth, in units of the objective; 0 where no search was
	// made.
	Price float64
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

// Typed reports whether there are nodes of several types. Those of one are alike.
func (s *Snapshot) Typed() bool { return len(s.NodeTypes) > 1 }

// typeIndex returns the position of the node type of an id, -1 where there is none.
func (s *Snapshot) typeIndex(id string) int {
	return slices.IndexFunc(s.NodeTypes, func(t NodeType) bool { return t.ID == id })
}

// TypeOf returns the id of the node type of an option, "" of no nodes and without types.
func (s *Snapshot) TypeOf(option Option) string {
	if option.IsZero() || len(s.NodeTypes) == 0 {
		return ""
	}
	return s.NodeTypes[option.Type].ID
}

// Option returns the option to hold nodes of the type of an id, which is ignored if all nodes
// are alike.
func (s *Snapshot) Option(nodeType string, nodes int) Option {
	if !s.Typed() {
		return NewOption(0, nodes)
	}
	return NewOption(max(0, s.typeIndex(nodeType)), nodes)
}

// Current returns what job i occupies now as an option.
func (s *Snapshot) Current(i int) Option {
	return s.Option(s.Jobs[i].CurrentNodeType, s.Jobs[i].CurrentNodes)
}

// typeNodes returns the nodes of each type, nil where the nodes are alike.
func (s *Snapshot) typeNodes() []int {
	if !s.Typed() {
		return nil
	}
	nodes := make([]int, len(s.NodeTypes))
	for g := range nodes {
		nodes[g] = s.NodeTypes[g].Nodes
	}
	return nodes
}

// place is a job on nodes of one type, or on those of a pool whose nodes are alike.
type place struct {
	nodeType int // its position in the snapshot
	nodes    int // of the type in the pool
	factor   float64
	job      *Job  // with the scaling that holds there
	allowed  []int // legal sizes, as Job.AllowedNodes
}

// place returns job i on nodes of type g, and whether it runs there.
func (s *Snapshot) place(i, g int) (l place, runs bool) {
	l, runs = s.Jobs[i].place(&s.NodeTypes[g])
	l.nodeType = g
	return l, runs
}

// place returns the job on nodes of a type, and whether it runs there.
func (j *Job) place(t *NodeType) (l place, runs bool) {
	l = place{nodes: t.Nodes, factor: cmp.Or(t.Speed, DefaultNodeSpeed), job: j, allowed: j.AllowedNodes}
	at := slices.IndexFunc(j.Speeds, func(own TypeSpeed) bool { return own.NodeType == t.ID })
	if at < 0 {
		return l, len(j.Speeds) == 0
	}
	own := &j.Speeds[at]
	l.factor = cmp.Or(own.Factor, l.factor)
	if own.AllowedNodes != nil {
		l.allowed = own.AllowedNodes
	}
	if own.Scaling.isSet() {
		l.job = new(*j)
		l.job.Scaling, l.job.AllowedNodes = own.Scaling, l.allowed
	}
	return l, true
}

// SpeedOn returns the job's speed on nodes of a type relative to one reference node, as Speed
// does on one type.
func (j *Job) SpeedOn(t *NodeType, nodes int) float64 {
	l, _ := j.place(t)
	return l.factor * l.job.Speed(nodes)
}

// On returns the job as it is in a pool of one type, how fast it trains on one node of that
// relative to the reference node, and whether it runs there.
func (j *Job) On(t *NodeType) (there Job, factor float64, runs bool) {
	l, runs := j.place(t)
	there = *l.job
	if there.Scaling.Speeds != nil && !slices.Equal(l.allowed, there.AllowedNodes) { // The table has entries for other sizes as well.
		there.Scaling.Speeds = make([]float64, len(l.allowed))
		for n, k := range l.allowed {
			there.Scaling.Speeds[n] = l.job.Speed(k)
		}
	}
	there.AllowedNodes, there.Speeds = l.allowed, nil
	return there, l.factor, runs
}

// places returns job i on nodes of every type that it runs on and that its smallest size
// there fits; where it fits none, of every type that it runs on. They are in the order of the
// types, and take the place of what is in the buffer.
func (s *Snapshot) places(i int, buffer []place) []place {
	if len(s.NodeTypes) == 0 {
		return append(buffer[:0], place{nodes: s.TotalNodes, factor: 1, job: &s.Jobs[i], allowed: s.Jobs[i].AllowedNodes})
	}
	all := buffer[:0]
	for g := range s.NodeTypes {
		if l, runs := s.place(i, g); runs {
			all = append(all, l)
		}
	}
	unfit := func(l place) bool { return !l.fits() }
	if fitting := slices.DeleteFunc(slices.Clone(all), unfit); len(fitting) > 0 {
		return fitting
	}
	return all
}

// totalNodes returns the nodes of all places; where they have none, each counts as one.
func totalNodes(places []place) float64 {
	total := 0
	for n := range places {
		total += places[n].nodes
	}
	if total == 0 {
		for n := range places {
			places[n].nodes = 1
		}
		total = len(places)
	}
	return float64(total)
}

func (l *place) share(total float64) float64 { return float64(l.nodes) / total }

// usableNodes returns the nodes of the types that some job has a use for, or all if there are
// none.
func (s *Snapshot) usableNodes() float64 {
	used := make([]bool, len(s.NodeTypes))
	var places []place
	for i := range s.Jobs {
		if len(used) == 0 || !slices.Contains(used, false) {
			break
		}
		places = s.places(i, places)
		for n := range places {
			used[places[n].nodeType] = used[places[n].nodeType] || places[n].fits()
		}
	}
	total := 0
	for g := range used {
		if used[g] {
			total += s.NodeTypes[g].Nodes
		}
	}
	return float64(cmp.Or(total, s.TotalNodes))
}

func (l *place) appendSizes(to []int) []int {
	return legalSizes(to, l.allowed, l.job.MinNodes, l.job.MaxNodes)
}

// appendOptions appends the options of a job there. If the pool has several node types, it
// leaves out those that exceed the nodes of the type. It returns the options and a buffer for
// sizes, which it reuses.
func (l *place) appendOptions(to []Option, sizes []int, typed bool) (options []Option, buffer []int) {
	sizes = l.appendSizes(sizes[:0])
	for _, k := range sizes {
		if typed && k > l.nodes {
			break
		}
		to = append(to, NewOption(l.nodeType, k))
	}
	return to, sizes
}

func (l *place) smallest() int { return smallestSize(l.allowed, l.job.MinNodes, l.job.MaxNodes) }

// fits reports whether the pool can hold the job there at all.
func (l *place) fits() bool { return l.smallest() <= l.nodes }

// curve returns the speed on nodes, not necessarily a whole number, relative to one of them.
func (l *place) curve(nodes float64) float64 { return speedOf(l.job, nodes) }

// SmallestSize returns the smallest legal size of job i, on any of its places.
func (s *Snapshot) SmallestSize(i int) int {
	if len(s.NodeTypes) == 0 {
		return s.Jobs[i].smallestSize()
	}
	least := MaxNodes
	for _, l := range s.places(i, nil) {
		least = min(least, l.smallest())
	}
	return least
}

// Fits reports whether the pool can hold job i at all.
func (s *Snapshot) Fits(i int) bool {
	if len(s.NodeTypes) == 0 {
		return s.Jobs[i].smallestSize() <= s.TotalNodes
	}
	return slices.ContainsFunc(s.places(i, nil), func(l place) bool { return l.fits() })
}

// Speed returns the speed of job i with an option relative to one reference node, as Job.Speed
// does on one type.
func (s *Snapshot) Speed(i int, option Option) float64 {
	if len(s.NodeTypes) == 0 {
		return s.Jobs[i].Speed(int(option.Nodes))
	}
	return s.Jobs[i].SpeedOn(&s.NodeTypes[option.Type], int(option.Nodes))
}

// Demand returns the run time that job i has left on exactly one reference node, in seconds.
func (s *Snapshot) Demand(i int) float64 {
	job := &s.Jobs[i]
	g := s.typeIndex(job.ETANodeType)
	if g < 0 {
		return job.Demand()
	}
	l, _ := s.place(i, g)
	there := *l.job
	there.RemainingETA, there.ETANodes = job.RemainingETA, job.ETANodes
	return l.factor * there.Demand()
}

// OnReference returns the snapshot with ETAs on one reference node, where it has node types.
func (s *Snapshot) OnReference() *Snapshot {
	if len(s.NodeTypes) == 0 {
		return s
	}
	on := *s
	on.Jobs = slices.Clone(s.Jobs)
	for i := range on.Jobs {
		job := &on.Jobs[i]
		job.RemainingETA = max(1, time.Duration(min(s.Demand(i)*float64(time.Second), 1<<62))) // sums of two are times, too
		job.ETANodes, job.ETANodeType = 0, ""
	}
	return &on
}

// heldPlace returns job i where it is now; its nodes are alike where it holds none.
func (s *Snapshot) heldPlace(i int) place {
	if g := s.typeIndex(s.Jobs[i].CurrentNodeType); g >= 0 {
		l, _ := s.place(i, g)
		return l
	}
	return place{factor: 1, job: &s.Jobs[i]}
}

// Restart returns how long a job that holds nodes or has trained makes no progress when it
// changes to other nodes, which are of another type if it moves.
func (j *Job) Restart(moves bool) time.Duration {
	if moves && j.CurrentNodes > 0 {
		return valueOr(j.MoveTime, j.RestartTime)
	}
	return j.RestartTime
}
