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

// Program returns the path of the program of an external solver: the value of ELASTALLOC_CBC or
// ELASTALLOC_HIGHS, or the program with the name of the backend on the PATH or in .tools/bin of the
// checkout, where `make solvers` installs it. If there is none, it skips the test. If the environment
// variable CI is set, it fails the test.
func Program(tb testing.TB, name solver.BackendName) string {
	tb.Helper()
	_, file, _, _ := runtime.Caller(0)
	candidates := []string{string(name), filepath.Join(filepath.Dir(file), "..", "..", "..", ".tools", "bin", string(name))}
	if program := getenv("ELASTALLOC_" + strings.ToUpper(string(name))); program != "" {
		candidates = []string{program}
	}
	for _, candidate := range candidates {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	if getenv("CI") != "" {
		tb.Fatalf("the solver %s is not installed; `make solvers` installs it", name)
	}
	tb.Skipf("the solver %s is not installed; `make solvers` installs it", name)
	return ""
}

// getenv returns an environment variable. Tests may depend on it only to find the programs of this machine.
func getenv(name string) string {
	return os.Getenv(name)
}
