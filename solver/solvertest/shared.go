package solvertest

import (
	"os"
	"path/filepath"
	"testing"
)

// SharedDir returns the folder of shared instances and traces that stands beside
// the checkout as ../shared, and skips the test where there is none.
func SharedDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatalf("finding the module root: %v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			tb.Fatal("finding the module root: no go.mod above the test's directory")
		}
		dir = parent
	}
	shared := filepath.Join(dir, "..", "shared")
	if info, err := os.Stat(shared); err != nil || !info.IsDir() {
		tb.Skip("the folder ../shared beside the checkout is absent")
	}
	return shared
}
