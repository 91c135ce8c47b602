package workloads

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/elastalloc/elastalloc/sim"
)

// Variation is a random modification of the jobs of a trace.
type Variation string

// Variations. Random values are independent for every job.
const (
	// VaryWeights sets a random weight of 1, 2, 4 or 8.
	VaryWeights Variation = "weights"
	// VaryWeightsAscending sets the weight 1 for the quarter of the jobs with the smallest demand, then 2
	// and 4, and 8 for the quarter with the largest demand.
	VaryWeightsAscending Variation = "weights-rising"
	// VaryWeightsDescending is VaryWeightsAscending in the opposite order.
	VaryWeightsDescending Variation = "weights-falling"
	// VaryEfficiencies sets a doubling efficiency that is uniform from 0.6 to 0.95.
	VaryEfficiencies Variation = "efficiencies"
	// VaryMinimums makes 20% of the jobs inelastic with 1, 2, 4 or 8 nodes, and sets a minimum of 2, 4
	// or 8 nodes for another 40%.
	VaryMinimums Variation = "minimums"
	// VaryRigidHalf makes 50% of the jobs inelastic with their requested nodes. The others keep their sizes.
	VaryRigidHalf Variation = "rigid-half"
	// VaryRigidMost makes 80% of the jobs inelastic with their requested nodes. The others keep their sizes.
	VaryRigidMost Variation = "rigid-most"
)

// SetsSizes reports whether the variation sets the sizes of jobs.
func (v Variation) SetsSizes() bool {
	return v == VaryMinimums || v == VaryRigidHalf || v == VaryRigidMost
}

// Streams of random numbers. Each variation has its own stream, so that variations do not depend on each
// other.
const (
	streamWeights = iota + 100
	streamEfficiencies
	streamMinimums
	streamTeams
	streamRigid
)

// Vary returns the trace with variations applied. They override the columns of the trace. At most one
// variation may set weights, and at most one may set sizes.
func Vary(t sim.Trace, variations []Variation, seed uint64, gpusPerNode int) (sim.Trace, error) {
	varied := slices.Clone(t)
	// Weights are set last, because demands depend on the efficiency.
	ordered := slices.SortedStableFunc(slices.Values(variations), func(a, b Variation) int {
		return cmp.Compare(strings.Count(string(a), "weights"), strings.Count(string(b), "weights"))
	})
	sets := make(map[string]bool)
	for _, variation := range ordered {
		var what string
		switch variation {
		case VaryEfficiencies:
			random := rand.New(rand.NewPCG(seed, streamEfficiencies))
			for i := range varied {
				varied[i].DoublingEfficiency, varied[i].Speeds = 0.6+0.35*random.Float64(), nil
			}
			continue
		case VaryMinimums, VaryRigidHalf, VaryRigidMost:
			what = "sizes"
			setSizes(varied, variation, seed, gpusPerNode)
		case VaryWeights, VaryWeightsAscending, VaryWeightsDescending:
			what = "weights"
			setWeights(varied, variation, seed, gpusPerNode)
		default:
			return nil, fmt.Errorf("unknown variation %q (must be among %s, %s, %s, %s, %s, %s, %s)", variation, VaryWeights,
				VaryWeightsAscending, VaryWeightsDescending, VaryEfficiencies, VaryMinimums, VaryRigidHalf, VaryRigidMost)
		}
		if sets[what] {
			return nil, fmt.Errorf("variation %q is one too many; must be at most one that sets %s", variation, what)
		}
		sets[what] = true
	}
	return varied, nil
}

func setSizes(t sim.Trace, variation Variation, seed uint64, gpusPerNode int) {
	if variation == VaryMinimums {
		random := rand.New(rand.NewPCG(seed, streamMinimums))
		for i := range t {
			u, size := random.Float64(), random.IntN(4)
			t[i].MinNodes, t[i].MaxNodes, t[i].AllowedNodes, t[i].Speeds = 0, 0, nil, nil
			switch {
			case u < 0.2:
				t[i].MinNodes, t[i].MaxNodes = 1<<size, 1<<size
			case u < 0.6:
				t[i].MinNodes = 2 << (size % 3)
			}
		}
		return
	}
	share := map[Variation]float64{VaryRigidHalf: 0.5, VaryRigidMost: 0.8}[variation]
	random := rand.New(rand.NewPCG(seed, streamRigid))
	for i := range t {
		if random.Float64() >= share {
			continue
		}
		nodes := t[i].FixedNodes(gpusPerNode)
		if speeds := t[i].Speeds; len(speeds) > 0 {
			at := slices.Index(t[i].AllowedNodes, nodes)
			t[i].MinNodes, t[i].MaxNodes, t[i].AllowedNodes, t[i].Speeds = 0, 0, []int{nodes}, speeds[at:at+1]
		} else {
			t[i].MinNodes, t[i].MaxNodes, t[i].AllowedNodes = nodes, nodes, nil
		}
	}
}

func setWeights(t sim.Trace, variation Variation, seed uint64, gpusPerNode int) {
	if variation == VaryWeights {
		random := rand.New(rand.NewPCG(seed, streamWeights))
		for i := range t {
			t[i].Weight = float64(int(1) << random.IntN(4))
		}
		return
	}
	bySize := make([]*sim.TraceJob, len(t))
	for i := range t {
		bySize[i] = &t[i]
	}
	slices.SortStableFunc(bySize, func(a, b *sim.TraceJob) int {
		return cmp.Compare(a.RemainingDemand(0, gpusPerNode), b.RemainingDemand(0, gpusPerNode))
	})
	if variation == VaryWeightsDescending {
		slices.Reverse(bySize)
	}
	for rank, job := range bySize {
		job.Weight = float64(int(1) << (4 * rank / len(t)))
	}
}
