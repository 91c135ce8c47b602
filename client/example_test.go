package client_test

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/client"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// A scheduler asks for a decision at each of its scaling points and carries out
// the changes.
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
	for _, allocation := range decision.GetAllocations() {
		fmt.Println(allocation.GetJobId(), allocation.GetChange(), allocation.GetNodes())
	}
}

// Servers without a common name in DNS are listed.
func ExampleNew() {
	allocator, err := client.New("10.0.0.1:50051,10.0.0.2:50051", client.WithTimeout(5*time.Second), client.WithWaitForReady())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = allocator.Close() }()
}
