package solvertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
	_, here, _, _ := runtime.Caller(0)
	candidates := []string{string(name), filepath.Join(filepath.Dir(here), "..", "..", "..", ".tools", "bin", string(name))}
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
	return os.Getenv(name)
}
