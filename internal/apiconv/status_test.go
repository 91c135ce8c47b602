package apiconv

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/elastalloc/elastalloc/solver"
)

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
		violations         []solver.Violation
		minNamed, maxNamed int
		wantClose          string
	}{
		"one":                  {violations(1, "is bad"), 1, 1, ""},
		"fifty":                {violations(50, "is bad"), 50, 50, ""},
		"one more":             {violations(51, "is bad"), 50, 50, "and 1 more"},
		"a million":            {violations(1_000_000, "is bad"), 50, 50, "and 999950 more"},
		"long texts":           {violations(50, strings.Repeat("x", 150)), 1, 49, "more"},
		"endless text":         {violations(1, strings.Repeat("x", 1<<20)), 1, 1, ""},
		"endless text in kana": {violations(1, strings.Repeat("ア", 1<<20)), 1, 1, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := StatusOfViolations(test.violations)
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
					t.Errorf("message does not contain %q", test.wantClose)
				}
			}
			if named < test.minNamed || named > test.maxNamed {
				t.Errorf("%d violations are named; want %d to %d", named, test.minNamed, test.maxNamed)
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
