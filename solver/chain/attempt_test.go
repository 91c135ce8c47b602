package chain

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// TestSanitize checks that details are printable, on one line, and not too long.
func TestSanitize(t *testing.T) {
	tests := map[string]struct{ detail, want string }{
		"empty":                    {"", ""},
		"text":                     {`CBC 2.10.8: "Optimal", größer`, `CBC 2.10.8: "Optimal", größer`},
		"lines":                    {"one\ntwo\r\n\tthree", "one two   three"},
		"control characters":       {"\x1b[31m\x00", "\ufffd[31m\ufffd"},
		"not UTF-8":                {"a\xffb\xc3", "a\ufffdb\ufffd"},
		"too long":                 {strings.Repeat("x", 5000), strings.Repeat("x", maxDetailBytes) + "…"},
		"truncated in a character": {strings.Repeat("x", maxDetailBytes-1) + "ß" + "yz", strings.Repeat("x", maxDetailBytes-1) + "…"},
		"maximum length":           {strings.Repeat("x", maxDetailBytes), strings.Repeat("x", maxDetailBytes)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := sanitize(test.detail, maxDetailBytes); got != test.want || !utf8.ValidString(got) {
				t.Errorf("sanitize(%q) = %q; want %q", test.detail, got, test.want)
			}
		})
	}
}

func TestDetailIsSanitized(t *testing.T) {
	backend := returning(solver.BackendExact, problem.Result{
		Plan: bestPlan(), Bound: bestObjective, Limit: solver.LimitNone, Detail: "status \xff\n",
	})
	d, err := newChain(returning(solver.BackendGreedy, problem.Result{Plan: greedyPlan(), Heuristic: true}),
		backend).Allocate(t.Context(), twoJobs(), paperOptions())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := d.Report.Attempts[0].Detail, "status \ufffd "; got != want {
		t.Errorf("the detail is %q; want %q", got, want)
	}
}
