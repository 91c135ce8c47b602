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

// Limits of a status, which is sent in the trailers of the response, with the message twice. Many
// clients reject trailers of more than 8 KiB.
const (
	maxViolations    = 50       // maximum number of violations in a status
	maxTrailerLength = 7 * 1024 // maximum size of the status in bytes; 1 KiB remains for other trailers
)

// StatusOfViolations returns an INVALID_ARGUMENT status with google.rpc.BadRequest. Message and details
// have at most the first 50 violations, or fewer if the trailers would exceed 8 KiB, and the number of
// further violations.
func StatusOfViolations(violations []solver.Violation) *status.Status {
	for n := min(len(violations), maxViolations); ; n-- {
		s := statusOfFirst(violations, n)
		if n <= 1 || trailerLength(s) <= maxTrailerLength {
			return s
		}
	}
}

// statusOfFirst returns a status with the first n violations and the number of the others.
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
	return s // Unreachable, because details of strings can always be marshaled.
}

// trailerLength returns the size of a status in the trailers, in bytes: the percent-encoded message and
// the whole status in base64.
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
