package guard

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/elastalloc/elastalloc/solver"
)

// What a decision takes beside its decoded request, in bytes: the core's jobs, the model,
// the search and the answer. BenchmarkNeed measures them.
const (
	workPerJob    = 1280
	workPerNumber = 96 // of each legal size and speed
)

// Need is what the calls of a method need. It is safe for concurrent use.
type Need struct {
	shape          *shape
	maxJobs, times int
}

// NewNeed returns the need of calls whose requests are like this one, of at most maxJobs
// jobs. times is how often the work space of its jobs is needed.
func NewNeed(request proto.Message, maxJobs, times int) *Need {
	return &Need{shapeOf(request.ProtoReflect().Type(), make(map[protoreflect.FullName]*shape)), maxJobs, times}
}

// Size estimates the size of a request from its message as it arrived.
func (n *Need) Size(message []byte) Size {
	var size Size
	n.shape.count(message, &size, maxDepth)
	return size
}

// Bytes returns what a call with a request of this size holds while its method runs, decoded
// and work space and answer, at most. One that needs more than most is refused for its jobs
// where it has too many.
func (n *Need) Bytes(size Size, most int) (int, error) {
	bytes := size.Bytes + n.times*(size.Jobs*workPerJob+size.Numbers*workPerNumber)
	if bytes > most && size.Jobs > n.maxJobs {
		return 0, &solver.InvalidError{Violations: []solver.Violation{{
			Path: "snapshot.jobs", Description: fmt.Sprintf("has %d jobs; want at most %d", size.Jobs, n.maxJobs),
		}}}
	}
	return bytes, nil
}
