package client_test

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/client"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// A scheduler requests a decision and applies the steps in their order, which never needs more nodes
// than the pool has.
func Example() {
	allocator, err := client.New("elastalloc.training.svc:50051")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = allocator.Close() }()

	decision, err := allocator.Allocate(context.Background(), &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{
			TotalNodes: 16,
			Jobs: []*elastallocv1.Job{
				{Id: "bert", RemainingEta: durationpb.New(3 * time.Hour), CurrentNodes: 4},
				{Id: "resnet", RemainingEta: durationpb.New(20 * time.Minute)},
			},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, step := range client.Steps(decision) {
		fmt.Println("resize", step.JobID, "to", step.Nodes)
	}
}

// In the order of the response, this decision would need 11 of 8 nodes.
func ExampleSteps() {
	decision := &elastallocv1.AllocateResponse{Allocations: []*elastallocv1.Allocation{
		{JobId: "short", Nodes: 4, Change: elastallocv1.Change_CHANGE_SCALE_UP},
		{JobId: "long", Nodes: 4, Change: elastallocv1.Change_CHANGE_SCALE_DOWN},
		{JobId: "queued", Change: elastallocv1.Change_CHANGE_WAIT},
	}}
	for _, step := range client.Steps(decision) {
		fmt.Println("resize", step.JobID, "to", step.Nodes)
	}
	// Output:
	// resize long to 4
	// resize short to 4
}

// Servers without a common name in DNS are listed.
func ExampleNew() {
	allocator, err := client.New("10.0.0.1:50051,10.0.0.2:50051", client.WithTimeout(5*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = allocator.Close() }()
}
