package ingress

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elastalloc/elastalloc/server/internal/guard"
	"github.com/elastalloc/elastalloc/solver"
)

func TestToCallError(t *testing.T) {
	t.Parallel()
	secret := errors.New("secret of the house")
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
		"shed":              {guard.Overload(), codes.ResourceExhausted, "too many requests in flight; retry later"},
		"malformed":         {guard.Refuse(codes.InvalidArgument, "parse X: bad"), codes.InvalidArgument, "parse X: bad"},
		"our bug":           {fmt.Errorf("chain: %w", secret), codes.Internal, "internal error; request id id-7"},
		"someone else's status": {
			status.Error(codes.NotFound, "secret of the house"), codes.Internal, "internal error; request id id-7",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := &callError{status: statusOf("id-7", test.err), cause: test.err}
			if s := status.Convert(got); s.Code() != test.wantCode || s.Message() != test.wantMessage {
				t.Errorf("status is %v %q; want %v %q", s.Code(), s.Message(), test.wantCode, test.wantMessage)
			}
			if !errors.Is(got, test.err) {
				t.Error("the cause is lost")
			}
			if test.wantCode == codes.Internal && !strings.Contains(got.Error(), "secret") {
				t.Errorf("the log would only contain %q", got)
			}
		})
	}
}
