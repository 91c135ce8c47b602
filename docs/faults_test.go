package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFaults checks that docs/explanation/fault-tolerance.md names every test of faults and no other, and every
// hostile connection.
func TestFaults(t *testing.T) {
	source := filepath.Join(root, "cmd", "elastalloc", "faults")
	page := read(t, filepath.Join(root, "docs", "explanation", "fault-tolerance.md"))
	var code string
	files, err := filepath.Glob(filepath.Join(source, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		code += read(t, file)
	}
	tests := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w+)\(`)
	same(t, "tests", regexp.MustCompile(`\b((?:Test|Fuzz)[A-Z]\w+)`).FindAllStringSubmatch(page, -1),
		tests.FindAllStringSubmatch(strings.ReplaceAll(code, "func TestMain(", ""), -1))

	same(t, "hostile connections", cases(page, "| these connections |"),
		regexp.MustCompile(`(?m)^\t\t"([^"]+)": +\{\s*connections: `).FindAllStringSubmatch(read(t,
			filepath.Join(source, "attacks_test.go")), -1))
}

// cases returns what the first column of the table under a header lists.
func cases(page, header string) [][]string {
	_, table, _ := strings.Cut(page, header)
	table, _, _ = strings.Cut(table, "\n\n")
	var found [][]string
	for _, row := range strings.Split(table, "\n")[2:] {
		first, _, _ := strings.Cut(strings.Trim(row, "|"), "|")
		for name := range strings.SplitSeq(first, ";") {
			found = append(found, []string{strings.TrimSpace(name)})
		}
	}
	return found
}

// same checks that the last of each submatch of the page are those of the code.
func same(t *testing.T, what string, page, code [][]string) {
	t.Helper()
	names := func(matches [][]string) []string {
		var all []string
		for _, match := range matches {
			all = append(all, match[len(match)-1])
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	documented, tested := names(page), names(code)
	if len(tested) == 0 {
		t.Errorf("found no %s", what)
	}
	for _, name := range tested {
		if !slices.Contains(documented, name) {
			t.Errorf("%s: the page lacks %q", what, name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(tested, name) {
			t.Errorf("%s: the page has %q, which is not tested", what, name)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
