package chain

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/elastalloc/elastalloc/solver"
)

// TestLegibleDetail checks that what a backend says of itself is fit for a message
// and a log, whether it has a plan or has not.
func TestLegibleDetail(t *testing.T) {
	tests := map[string]struct{ detail, want string }{
		"nothing":       {"", ""},
		"text":          {`CBC 2.10.8 says: "Optimal", größer`, `CBC 2.10.8 says: "Optimal", größer`},
		"lines":         {"one\ntwo\r\n\tthree", "one two   three"},
		"control":       {"\x1b[31m\x00", "\ufffd[31m\ufffd"},
		"no text":       {"a\xffb\xc3", "a\ufffdb\ufffd"},
		"much":          {strings.Repeat("x", 5000), strings.Repeat("x", longestDetail) + "…"},
		"a cut letter":  {strings.Repeat("x", longestDetail-1) + "ß" + "yz", strings.Repeat("x", longestDetail-1) + "…"},
		"just not much": {strings.Repeat("x", longestDetail), strings.Repeat("x", longestDetail)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := legible(test.detail, longestDetail); got != test.want || !utf8.ValidString(got) {
				t.Errorf("legible(%q) = %q; want %q", test.detail, got, test.want)
			}
		})
	}
}

func TestDetailOfAnAnswerIsLegible(t *testing.T) {
	said := gives(solver.BackendExact, solver.Result{
		Plan: bestPlan(), Bound: bestObjective, Limit: solver.LimitNone, Detail: "status \xff\n",
	})
	d, err := newChain(gives(solver.BackendGreedy, solver.Result{Plan: greedyPlan(), Heuristic: true}), said).Allocate(t.Context(), twoJobs(), solver.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := d.Report.Attempts[0].Detail, "status \ufffd "; got != want {
		t.Errorf("the detail is %q; want %q", got, want)
	}
}
