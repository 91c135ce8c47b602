package apiconv

import (
	"encoding/base64"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/internal/text"
	"github.com/elastalloc/elastalloc/solver"
)

// What a status says about bad fields. It travels in the trailers of the response,
// the message twice, and many clients drop trailers of more than 8 KiB.
const (
	maxViolations    = 50       // bad fields named, at most
	maxTrailerLength = 7 * 1024 // bytes of the status in the trailers: 1 KiB is for all others
)

// StatusOfViolations returns INVALID_ARGUMENT with google.rpc.BadRequest. Both
// its message and its details name the first 50 bad fields, fewer where their
// texts are so long that the trailers would exceed 8 KiB, and then say how many
// more there are.
func StatusOfViolations(violations []solver.Violation) *status.Status {
	for n := min(len(violations), maxViolations); ; n-- {
		s := statusOfFirst(violations, n)
		if n <= 1 || trailerLength(s) <= maxTrailerLength {
			return s
		}
	}
}

// statusOfFirst names the first n violations and the number of the others.
func statusOfFirst(violations []solver.Violation, n int) *status.Status {
	named := &solver.InvalidError{}
	details := &errdetails.BadRequest{}
	for _, v := range violations[:n] {
		v.Description = text.Shorten(v.Description)
		named.Violations = append(named.Violations, v)
		details.FieldViolations = append(details.FieldViolations,
			&errdetails.BadRequest_FieldViolation{Field: v.Path, Description: v.Description})
	}
	message := named.Error()
	if more := len(violations) - n; more > 0 {
		rest := fmt.Sprintf("and %d more", more)
		message += "; " + rest
		details.FieldViolations = append(details.FieldViolations, &errdetails.BadRequest_FieldViolation{Description: rest})
	}
	s := status.New(codes.InvalidArgument, message)
	if detailed, err := s.WithDetails(details); err == nil {
		return detailed
	}
	return s // Details of text always marshal.
}

// trailerLength returns the bytes that a status takes in the trailers: its message
// percent-encoded, and all of it in base64.
func trailerLength(s *status.Status) int {
	encoded := 0
	for _, b := range []byte(s.Message()) {
		encoded++
		if b < ' ' || b > '~' || b == '%' {
			encoded += 2
		}
	}
	return encoded + base64.RawStdEncoding.EncodedLen(proto.Size(s.Proto()))
}
