package placement_test

import (
	"fmt"

	"github.com/elastalloc/elastalloc/client/placement"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// Two machines have 8 GPUs, of which one is broken.
func Example() {
	nodes := []placement.Node{
		{ID: "gpu-1", Units: 8, Free: 8},
		{ID: "gpu-2", Units: 8, Free: 7},
	}
	sizes := []int{1, 2, 4, 8} // of the pieces

	// Send the limits with the snapshot.
	limits, err := placement.Limits(nodes, sizes)
	if err != nil {
		fmt.Println(err)
		return
	}
	snapshot := &elastallocv1.Snapshot{TotalNodes: 15, SizeLimits: limits}
	for _, limit := range snapshot.GetSizeLimits() {
		fmt.Println("pieces of at least", limit.GetSize(), "GPUs have at most", limit.GetNodes())
	}

	// Place the decision.
	placed, err := placement.Place(nodes, sizes, []placement.Job{
		{ID: "bert", Units: 4, On: map[string]int{"gpu-1": 4}},
		{ID: "gpt", Units: 8},
		{ID: "resnet", Units: 2},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(placed.On)
	fmt.Println("moved:", placed.Moved)
	// Output:
	// pieces of at least 2 GPUs have at most 14
	// pieces of at least 4 GPUs have at most 12
	// pieces of at least 8 GPUs have at most 8
	// map[bert:map[gpu-2:4] gpt:map[gpu-1:8] resnet:map[gpu-2:2]]
	// moved: [bert]
}
