package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Variation is a way in which the jobs of a trace are made to differ.
type Variation string

// The variations. What each draws, it draws for every job.
const (
	// VaryWeights draws the weight from 1, 2, 4 and 8.
	VaryWeights Variation = "weights"
	// VaryWeightsRising gives 1 to the quarter of the jobs with the least demand, 8 to the
	// one with the most; VaryWeightsFalling does the opposite.
	VaryWeightsRising  Variation = "weights-rising"
	VaryWeightsFalling Variation = "weights-falling"
	// VaryEfficiencies draws the doubling efficiency uniformly from 0.6 to 0.95.
	VaryEfficiencies Variation = "efficiencies"
	// VaryMinimums makes one job in five inelastic, of 1, 2, 4 or 8 nodes, and gives
	// another two in five a minimum of 2, 4 or 8.
	VaryMinimums Variation = "minimums"
	// VaryRigidHalf makes one job in two inelastic, of the nodes that it asked for, and
	// VaryRigidMost four in five.
	VaryRigidHalf Variation = "rigid-half"
	VaryRigidMost Variation = "rigid-most"
)

// The random numbers of each variation, and of teams, come from a stream of their own, so that
// several together draw what each draws alone.
const (
	streamWeights = iota + 100
	streamEfficiencies
	streamMinimums
	streamTeams
	streamRigid
)

// Vary returns the trace with jobs that differ as the variations say, whatever their
// columns said; at most one of them sets weights, and one sizes.
func (t Trace) Vary(variations []Variation, seed uint64, gpusPerNode int) (Trace, error) {
	varied := slices.Clone(t)
	// Weights by size come last, since demands depend on the efficiency.
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
			varied.size(variation, seed, gpusPerNode)
		case VaryWeights, VaryWeightsRising, VaryWeightsFalling:
			what = "weights"
			varied.weigh(variation, seed, gpusPerNode)
		default:
			return nil, fmt.Errorf("unknown variation %q (want some of %s, %s, %s, %s, %s, %s, %s)", variation, VaryWeights,
				VaryWeightsRising, VaryWeightsFalling, VaryEfficiencies, VaryMinimums, VaryRigidHalf, VaryRigidMost)
		}
		if sets[what] {
			return nil, fmt.Errorf("variation %q is one too many; want at most one that sets %s", variation, what)
		}
		sets[what] = true
	}
	return varied, nil
}

func (t Trace) size(variation Variation, seed uint64, gpusPerNode int) {
	if variation == VaryMinimums {
		random := rand.New(rand.NewPCG(seed, streamMinimums))
		for i := range t {
			lot, size := random.Float64(), random.IntN(4)
			t[i].MinNodes, t[i].MaxNodes, t[i].AllowedNodes, t[i].Speeds = 0, 0, nil, nil
			switch {
			case lot < 0.2:
				t[i].MinNodes, t[i].MaxNodes = 1<<size, 1<<size
			case lot < 0.6:
				t[i].MinNodes = 2 << (size % 3)
			}
		}
		return
	}
	share := map[Variation]float64{VaryRigidHalf: 0.5, VaryRigidMost: 0.8}[variation]
	random := rand.New(rand.NewPCG(seed, streamRigid))
	for i := range t {
		t[i].MinNodes, t[i].MaxNodes = 0, 0
		if random.Float64() >= share {
			continue
		}
		nodes := t[i].Nodes(gpusPerNode)
		if speeds := t[i].Speeds; len(speeds) > 0 {
			at := slices.Index(t[i].AllowedNodes, nodes)
			t[i].AllowedNodes, t[i].Speeds = []int{nodes}, speeds[at:at+1]
		} else {
			t[i].MinNodes, t[i].MaxNodes, t[i].AllowedNodes = nodes, nodes, nil
		}
	}
}

func (t Trace) weigh(variation Variation, seed uint64, gpusPerNode int) {
	if variation == VaryWeights {
		random := rand.New(rand.NewPCG(seed, streamWeights))
		for i := range t {
			t[i].Weight = float64(int(1) << random.IntN(4))
		}
		return
	}
	bySize := ordered(len(t), func(a, b int) int {
		return cmp.Compare(t[a].RemainingDemand(0, gpusPerNode), t[b].RemainingDemand(0, gpusPerNode))
	})
	if variation == VaryWeightsFalling {
		slices.Reverse(bySize)
	}
	for rank, i := range bySize {
		t[i].Weight = float64(int(1) << (4 * rank / len(t)))
	}
}
