package world

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/config"
)

// quota is the quota of the pool's unit in a ClusterQueue or a Cohort. Only flavors of the pool's nodes count.
type quota struct {
	parent string // group of the Cohort that it belongs to, "" for none
	// nominal is the nominal quota of the ClusterQueue, or of all members of the Cohort and of the Cohort itself.
	nominal int64
	// kept is the part of nominal that it does not lend to the rest of its parent.
	kept int64
	// borrowing is how much more it may borrow from its parent, nil for no limit.
	borrowing *int64
	// granted is the part of the quota in use by owner.
	granted map[types.UID]int64
}

// resourceGroups are the quotas in the specification of a ClusterQueue or a Cohort.
type resourceGroups []struct {
	Flavors []struct {
		Name      string `json:"name"`
		Resources []struct {
			Name           corev1.ResourceName `json:"name"`
			NominalQuota   resource.Quantity   `json:"nominalQuota"`
			BorrowingLimit *resource.Quantity  `json:"borrowingLimit"`
			LendingLimit   *resource.Quantity  `json:"lendingLimit"`
		} `json:"resources"`
	} `json:"flavors"`
}

// queueGroup and cohortGroup return the names of the groups of a ClusterQueue and a Cohort.
func queueGroup(name string) string  { return "ClusterQueue/" + name }
func cohortGroup(name string) string { return "Cohort/" + name }

const (
	// maxCohorts is the maximum number of nested Cohorts.
	maxCohorts = 32
	// maxAncestors is the maximum number of ancestors of a group in the API.
	maxAncestors = 3
)

// readQuotas reads the quotas of ClusterQueues and Cohorts. A Cohort needs no object.
func (q *queues) readQuotas(k *Kueue, pool *config.Pool) {
	for _, object := range k.ClusterQueues {
		q.readQuota(queueGroup(object.GetName()), "cohortName", object, pool)
	}
	for _, object := range k.Cohorts {
		q.readQuota(cohortGroup(object.GetName()), "parentName", object, pool)
	}
	own := make(map[string]int64)
	for _, name := range slices.Collect(maps.Keys(q.quotas)) {
		own[name] = q.quotas[name].nominal
		if parent := q.quotas[name].parent; parent != "" && q.quotas[parent] == nil {
			q.quotas[parent] = &quota{granted: make(map[types.UID]int64)}
		}
	}
	kept := make(map[string]int64) // by parent
	for name, nominal := range own {
		for _, ancestor := range q.chain(name)[1:] {
			ancestor.nominal += nominal
		}
		kept[q.quotas[name].parent] += q.quotas[name].kept
	}
	for _, one := range q.quotas {
		parent, others := q.quotas[one.parent], kept[one.parent]-one.kept
		if parent == nil || parent.parent != "" || others == 0 {
			continue // It borrows all that its parent has, or what the parent borrows.
		}
		if most := max(0, parent.nominal-one.nominal-others); one.borrowing == nil || *one.borrowing > most {
			one.borrowing = &most
		}
	}
}

// readQuota reads the quota of one object, whose specification names its Cohort in a field.
func (q *queues) readQuota(name, field string, object *unstructured.Unstructured, pool *config.Pool) {
	var spec struct {
		Spec struct {
			ResourceGroups resourceGroups `json:"resourceGroups"`
		} `json:"spec"`
	}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &spec) != nil {
		return
	}
	one, borrowing, limited := &quota{granted: make(map[types.UID]int64)}, int64(0), true
	if cohort, _, _ := unstructured.NestedString(object.Object, "spec", field); cohort != "" {
		one.parent = cohortGroup(cohort)
	}
	for _, group := range spec.Spec.ResourceGroups {
		for _, flavor := range group.Flavors {
			for _, r := range flavor.Resources {
				if r.Name != q.unit || !q.belongs(flavor.Name, pool) {
					continue
				}
				one.nominal += r.NominalQuota.Value()
				if r.LendingLimit != nil {
					one.kept += max(0, r.NominalQuota.Value()-r.LendingLimit.Value())
				}
				if limited = limited && r.BorrowingLimit != nil; limited {
					borrowing += r.BorrowingLimit.Value()
				}
			}
		}
	}
	if limited && len(spec.Spec.ResourceGroups) > 0 {
		one.borrowing = &borrowing
	}
	q.quotas[name] = one
}

// chain returns a quota and the quotas of its Cohorts, the nearest first.
func (q *queues) chain(name string) []*quota {
	var chain []*quota
	for one := q.quotas[name]; one != nil && len(chain) <= maxCohorts; one = q.quotas[one.parent] {
		chain = append(chain, one)
	}
	return chain
}

// grant counts a part of the quota of a ClusterQueue, and of its Cohorts, as in use by an owner.
func (q *queues) grant(name string, owner types.UID, units int64) {
	for _, one := range q.chain(name) {
		one.granted[owner] += units
	}
}

// limit returns the maximum of the quota, with what it may borrow. It returns false if it may borrow without limit.
func (q *quota) limit() (units int64, limited bool) {
	switch {
	case q.parent == "":
		return q.nominal, true
	case q.borrowing == nil:
		return 0, false
	}
	return q.nominal + *q.borrowing, true
}

// available returns the part of a ClusterQueue's quota that is not in use, with what it can borrow now. It returns false
// if the ClusterQueue is unknown.
func (q *queues) available(name string) (units int64, limited bool) {
	return q.least(name, func(one *quota) (used int64) {
		for _, units := range one.granted {
			used += units
		}
		return used
	})
}

// mayAdmit reports whether Kueue may ever admit a workload to a ClusterQueue on nodes of the pool. A workload that requests
// none of the unit needs no nodes, and one that requests more than the largest quota waits for good.
func (q *queues) mayAdmit(queue string, units int64) bool {
	most, limited := q.least(queueGroup(queue), func(*quota) int64 { return 0 })
	return units < 0 || units > 0 && (!limited || units <= most)
}

// least returns the least limit of a ClusterQueue and its Cohorts, less what is used of each.
func (q *queues) least(name string, used func(*quota) int64) (units int64, limited bool) {
	for _, one := range q.chain(name) {
		if limit, ok := one.limit(); ok && (!limited || limit-used(one) < units) {
			units, limited = limit-used(one), true
		}
	}
	return units, limited
}

// groups returns the quotas as groups of a decision that allocates parts of so many units: nodes, or single units. foreign
// returns the part of an owner's use that decisions do not cover.
func (q *queues) groups(size int64, foreign func(owner types.UID, units int64) int64) []config.Group {
	tops := make(map[*quota]bool) // quotas with too many levels below them for another ancestor
	for name := range q.quotas {
		if chain := q.chain(name); len(chain) > maxAncestors {
			tops[chain[maxAncestors]] = true
		}
	}
	var groups []config.Group
	for _, name := range slices.Sorted(maps.Keys(q.quotas)) {
		one := q.quotas[name]
		group := config.Group{Name: name}
		if !tops[one] {
			group.Parent = one.parent
		}
		if limit, limited := one.limit(); limited {
			for owner, units := range one.granted {
				limit -= foreign(owner, units)
			}
			group.Limit = new(int(max(0, limit) / max(1, size)))
		}
		groups = append(groups, group)
	}
	return groups
}
