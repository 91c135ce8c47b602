package ingress

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elastalloc/elastalloc/solver"
)

func TestToCallError(t *testing.T) {
	t.Parallel()
	secret := errors.New("secret of the house")
	ctx := context.WithValue(t.Context(), requestIDContextKey{}, "id-7")
	tests := map[string]struct {
		err         error
		wantCode    codes.Code
		wantMessage string
	}{
		"bad field": {
			&solver.InvalidError{Violations: []solver.Violation{{Path: "snapshot.id", Description: "is bad"}}},
			codes.InvalidArgument, "invalid request: snapshot.id: is bad",
		},
		"caller left":       {fmt.Errorf("chain: %w", context.Canceled), codes.Canceled, "call was canceled"},
		"caller's deadline": {fmt.Errorf("chain: %w", context.DeadlineExceeded), codes.DeadlineExceeded, "no backend had an allocation in time"},
		"greedy too slow":   {fmt.Errorf("chain: %w", solver.ErrTimedOut), codes.DeadlineExceeded, "no backend had an allocation in time"},
		"shed":              {overloadError{time.Second}, codes.ResourceExhausted, "too many requests in flight; retry later"},
		"malformed":         {malformedError{errors.New("parse X: bad")}, codes.InvalidArgument, "parse X: bad"},
		"slow":              {errSlow, codes.Canceled, "the request did not arrive in time"},
		"draining":          {errDraining, codes.Unavailable, "server is draining; retry on another one"},
		"our bug":           {fmt.Errorf("chain: %w", secret), codes.Internal, "internal error; request id id-7"},
		"someone else's status": {
			status.Error(codes.NotFound, "secret of the house"), codes.Internal, "internal error; request id id-7",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := toCallError(ctx, test.err)
			if s := status.Convert(got); s.Code() != test.wantCode || s.Message() != test.wantMessage {
				t.Errorf("status is %v %q; want %v %q", s.Code(), s.Message(), test.wantCode, test.wantMessage)
			}
			if !errors.Is(got, test.err) {
				t.Error("the cause is lost")
			}
			if test.wantCode == codes.Internal && !strings.Contains(got.Error(), "secret") {
				t.Errorf("the log would say only %q", got)
			}
			if again := toCallError(ctx, got); again != got {
				t.Errorf("converted twice to %v", again)
			}
		})
	}
}

func TestStatusOfViolationsIsBounded(t *testing.T) {
	t.Parallel()
	violations := func(n int, description string) []solver.Violation {
		list := make([]solver.Violation, n)
		for i := range list {
			list[i] = solver.Violation{Path: fmt.Sprintf("f[%d]", i), Description: description}
		}
		return list
	}
	tests := map[string]struct {
		violations []solver.Violation
		wantNamed  int // 0 = fewer than 50, at least one
		wantClose  string
	}{
		"one":                  {violations(1, "is bad"), 1, ""},
		"fifty":                {violations(50, "is bad"), 50, ""},
		"one more":             {violations(51, "is bad"), 50, "and 1 more"},
		"a million":            {violations(1_000_000, "is bad"), 50, "and 999950 more"},
		"long texts":           {violations(50, strings.Repeat("x", 150)), 0, "more"},
		"endless text":         {violations(1, strings.Repeat("x", 1<<20)), 1, ""},
		"endless text in kana": {violations(1, strings.Repeat("ア", 1<<20)), 1, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := statusOfViolations(test.violations)
			if length := trailerLength(s); length > maxTrailerLength {
				t.Errorf("status takes %d bytes in the trailers; want at most %d", length, maxTrailerLength)
			}
			fields := badRequest(t, s).GetFieldViolations()
			named := len(fields)
			if test.wantClose != "" {
				named--
				if last := fields[named]; last.GetField() != "" || !strings.Contains(last.GetDescription(), test.wantClose) {
					t.Errorf("last violation is %v; want %q", last, test.wantClose)
				}
				if !strings.Contains(s.Message(), test.wantClose) {
					t.Errorf("message does not say %q", test.wantClose)
				}
			}
			if test.wantNamed == 0 && (named < 1 || named >= maxViolations) || test.wantNamed != 0 && named != test.wantNamed {
				t.Errorf("%d violations are named; want %d", named, test.wantNamed)
			}
			for _, field := range fields[:named] {
				if !strings.Contains(s.Message(), field.GetField()) {
					t.Errorf("message does not name %s", field.GetField())
				}
			}
		})
	}
}

// badRequest returns the BadRequest among the details of a status.
func badRequest(t *testing.T, s *status.Status) *errdetails.BadRequest {
	t.Helper()
	for _, detail := range s.Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			return bad
		}
	}
	t.Fatalf("status %v has no BadRequest", s)
	return nil
}
