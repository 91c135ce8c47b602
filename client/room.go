package client

// bound names a number of nodes that jobs may acquire: the free nodes of a node type if group is "", and otherwise what
// a limit leaves to the jobs of a group, of one node type or of all.
type bound struct {
	group, nodeType string
	allTypes        bool
}

// room has the nodes that jobs may still acquire without exceeding the pool or a limit of a group.
type room struct {
	left    map[bound]int32 // negative if the pool has shrunk or a limit was lowered
	parents map[string]string
}

// room returns what the jobs leave with the nodes that they have reserved.
func (p *Plan) room() room {
	r := room{left: make(map[bound]int32), parents: make(map[string]string)}
	for nodeType, n := range p.Nodes {
		r.left[bound{nodeType: nodeType}] = n
	}
	for _, group := range p.Groups {
		r.parents[group.GetId()] = group.GetParentId()
		if group.Limit != nil {
			r.left[bound{group: group.GetId(), allTypes: true}] = group.GetLimit()
		}
		for _, limit := range group.GetTypeLimits() {
			r.left[bound{group: group.GetId(), nodeType: limit.GetNodeType()}] = limit.GetLimit()
		}
	}
	for _, j := range p.Jobs {
		r.take(j.Group, j.Type, j.reserved())
	}
	return r
}

// bounds returns what a job of a group takes from with each node of a type.
func (r room) bounds(group, nodeType string) []bound {
	all := []bound{{nodeType: nodeType}}
	for range r.parents { // The path to the root is not longer, also if the parents are not valid.
		for _, limit := range []bound{{group: group, nodeType: nodeType}, {group: group, allTypes: true}} {
			if _, limited := r.left[limit]; limited && group != "" {
				all = append(all, limit)
			}
		}
		group = r.parents[group]
	}
	return all
}

// free returns the number of free nodes of a type. It is negative if the pool has shrunk.
func (r room) free(nodeType string) int32 { return r.left[bound{nodeType: nodeType}] }

// fits reports whether a job of a group may acquire nodes of a type.
func (r room) fits(group, nodeType string, nodes int32) bool {
	for _, b := range r.bounds(group, nodeType) {
		if nodes > r.left[b] {
			return false
		}
	}
	return true
}

// take reserves nodes of a type for a job of a group.
func (r room) take(group, nodeType string, nodes int32) {
	for _, b := range r.bounds(group, nodeType) {
		r.left[b] -= nodes
	}
}
