package solvertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/solver"
)

// Program returns the path of an external solver's program: what ELASTALLOC_CBC or
// ELASTALLOC_HIGHS names, otherwise the program of the backend's name on the PATH
// or in .tools/bin of the checkout, where `make solvers` puts it. Without one it
// skips the test, but in CI, where the environment has CI, it fails it.
func Program(tb testing.TB, name solver.BackendName) string {
	tb.Helper()
	candidates := []string{string(name), filepath.Join(moduleRoot(tb), ".tools", "bin", string(name))}
	if named := environment("ELASTALLOC_" + strings.ToUpper(string(name))); named != "" {
		candidates = []string{named}
	}
	for _, candidate := range candidates {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	if environment("CI") != "" {
		tb.Fatalf("the solver %s is not installed; `make solvers` installs it", name)
	}
	tb.Skipf("the solver %s is not installed; `make solvers` installs it", name)
	return ""
}

// environment returns a variable of the process: what is installed on the machine
// is not an input of a test but a fact about where it runs.
func environment(name string) string {
	return os.Getenv(name) //nolint:forbidigo // See above.
}

// moduleRoot returns the folder with go.mod that the test's folder is in.
func moduleRoot(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatalf("finding the module root: %v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			tb.Fatal("finding the module root: no go.mod above the test's directory")
		}
		dir = parent
	}
}
