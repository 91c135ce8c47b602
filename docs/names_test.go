package docs

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestDocumentedFlags checks that every flag and every variable that the documentation and
// deploy/ name is in docs/reference/command-line.md, which is generated from the commands.
func TestDocumentedFlags(t *testing.T) {
	known := map[string]bool{"--help": true, testtier.Variable: true}
	reference, err := os.ReadFile(filepath.Join(root, "docs", "reference", "command-line.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^(?:- `| +(?:-\\w, )?)--([a-z-]+).*?(?:(?:; "+
		"variable `|\\[\\$)(ELASTALLOC_[A-Z_]+).)?$").FindAllStringSubmatch(string(reference), -1) {
		known["--"+row[1]] = true
		known[cmp.Or(row[2], "ELASTALLOC_"+strings.ToUpper(strings.ReplaceAll(row[1], "-", "_")))] = true
	}
	for _, row := range regexp.MustCompile(`add_argument\("(--[a-z-]+)"`).FindAllStringSubmatch(read(t,
		"../examples/testbed/__main__.py"), -1) {
		known[row[1]] = true
	}
	var files []string
	for _, pattern := range []string{
		"README.md", "docs/*.md", "docs/*/*.md", "deploy/*.md", "deploy/systemd/*", "deploy/compose/compose.yaml", "deploy/kubernetes/*.yaml",
	} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s matches %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	// In running text a flag stands in backquotes; in a command or a manifest, other programs'
	// flags may stand, so only what follows the program's name or the subcommand counts.
	named := regexp.MustCompile("`(--[a-z-]+)|(ELASTALLOC_[A-Z_]*[A-Z])\\b")
	commandLine := regexp.MustCompile(`(?m)^.*\b(?:elastalloc(?:-lab)? ` +
		`(?:serve|allocate|fill-idle|explain|whatif|forecast|bench|simulate|replay|snapshot|paper|trace)|\[serve,).*$`)
	flag := regexp.MustCompile(`--[a-z][a-z-]+`)
	for _, file := range files {
		switch base := filepath.Base(file); {
		case strings.HasPrefix(base, "kubernetes"), strings.Contains(base, "controller"):
			continue // The controller's flags are checked in its own module.
		case base == "slurm.md", base == "torchrun.md", base == "ray.md":
			continue // Most flags are those of others.
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, match := range named.FindAllStringSubmatch(string(text), -1) {
			names = append(names, match[1]+match[2])
		}
		for _, line := range commandLine.FindAllString(string(text), -1) {
			names = append(names, flag.FindAllString(line, -1)...)
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if !known[name] {
				t.Errorf("%s names %s, which no command has", file, name)
			}
		}
	}
}

// TestChartValues checks that the table of Deploy on Kubernetes names every flag that a value of server in the chart sets.
func TestChartValues(t *testing.T) {
	template := read(t, "../deploy/helm/elastalloc/templates/deployment.yaml")
	_, values, found := strings.Cut(template, "{{- with .Values.server }}\n")
	values, _, _ = strings.Cut(values, "{{- end }}")
	flags := regexp.MustCompile("(?m)^ *- (--[a-z-]+)=").FindAllStringSubmatch(values, -1)
	if !found || len(flags) < 5 {
		t.Fatalf("the template sets the flags %v", flags)
	}
	page := read(t, "operators/deploy-kubernetes.md")
	for _, flag := range flags {
		if !regexp.MustCompile("(?m)^\\| .*`" + flag[1] + "`.*\\| `server\\.").MatchString(page) {
			t.Errorf("operators/deploy-kubernetes.md has no row of %s in Chart values", flag[1])
		}
	}
}

// TestObjectives checks that Choose an objective describes every objective of the API.
func TestObjectives(t *testing.T) {
	page := read(t, "schedulers/choose-an-objective.md")
	for n, name := range elastallocv1.Objective_name {
		if n > 0 && !strings.Contains(page, "- **`"+name+"`**") {
			t.Errorf("schedulers/choose-an-objective.md does not describe %s", name)
		}
	}
}

// TestDocumentedNames checks that the targets of make, the scripts and the Go tests, benchmarks
// and fuzzers that the documentation names exist.
func TestDocumentedNames(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, p := range pages(t) {
		seen += checkTargets(t, p, makefile) + checkScripts(t, p) + checkGoTests(t, p)
	}
	if seen < 60 {
		t.Errorf("found %d names; want the names of all pages", seen)
	}
}

// checkTargets checks that the targets of make exist, and returns their number.
func checkTargets(t *testing.T, p page, makefile []byte) (seen int) {
	t.Helper()
	target := regexp.MustCompile(`(?m)(?:^ *|&& |[0-9A-Za-z]=\S+ )make ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)*)`)
	for _, match := range target.FindAllStringSubmatch(p.code, -1) {
		for name := range strings.FieldsSeq(match[1]) {
			if seen++; !regexp.MustCompile(`(?m)^` + name + `:`).Match(makefile) {
				t.Errorf("%s: make %s: unknown target", p.name, name)
			}
		}
	}
	return seen
}

// checkScripts checks that the scripts exist, and returns their number.
func checkScripts(t *testing.T, p page) int {
	t.Helper()
	scripts := regexp.MustCompile(`\bscripts/[a-z-]+\.sh\b`).FindAllString(p.code, -1)
	for _, script := range scripts {
		if _, err := os.Stat(filepath.Join(root, script)); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
	}
	return len(scripts)
}

// checkGoTests checks that the names of Go tests, benchmarks and fuzzers match, and returns their number.
func checkGoTests(t *testing.T, p page) (seen int) {
	t.Helper()
	named, pkg := regexp.MustCompile(`-(?:run|bench|fuzz) +'?([^' ]+)'?`), regexp.MustCompile(` (\.\S*)`)
	for _, command := range regexp.MustCompile(`\bgo test [^\n#]*`).FindAllString(p.code, -1) {
		of := pkg.FindStringSubmatch(command)
		if of == nil || strings.HasSuffix(of[1], "...") {
			continue
		}
		for _, match := range named.FindAllStringSubmatch(command, -1) {
			if match[1] == "^$" {
				continue
			}
			name, _, _ := strings.Cut(match[1], "/")
			inModule := func(module string) bool { return declares(t, filepath.Join(root, module, of[1]), name) }
			if seen++; !slices.ContainsFunc([]string{".", "kube", "lab"}, inModule) {
				t.Errorf("%s: %s: no test, benchmark or fuzzer matches", p.name, command)
			}
		}
	}
	return seen
}

// declares reports whether a test, a benchmark or a fuzzer of a package matches.
func declares(t *testing.T, dir, pattern string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	matches := regexp.MustCompile(pattern)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`).FindAllSubmatch(text, -1) {
			if matches.Match(match[1]) {
				return true
			}
		}
	}
	return false
}
