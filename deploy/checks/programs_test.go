package checks

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// atRoot returns the path of something in the checkout.
func atRoot(t *testing.T, elements ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", ".."}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// readFile returns what is in a file of the checkout.
func readFile(t *testing.T, elements ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(atRoot(t, elements...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// program returns the path of a program that is not part of Go: the value of the
// environment variable with its name, or the program in .tools/bin or on the PATH. Without
// the program, the test is skipped, and in CI it fails.
func program(t *testing.T, name string) string {
	t.Helper()
	for _, candidate := range []string{os.Getenv(strings.ToUpper(name)), atRoot(t, ".tools", "bin", name), name} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	missing := name + " is missing; `make tools` installs helm, `make prometheus` Prometheus"
	if os.Getenv("CI") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// command returns a command to run at the root of the checkout.
func command(t *testing.T, path string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), path, args...)
	c.Dir = atRoot(t)
	return c
}

// output runs a program at the root of the checkout and returns its standard output. Any
// word on standard error is an error of the test: an operator would wonder at it.
func output(t *testing.T, path string, args ...string) []byte {
	t.Helper()
	var stderr bytes.Buffer
	c := command(t, path, args...)
	c.Stderr = &stderr
	stdout, err := c.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%s %s: %v\n%s%s", filepath.Base(path), strings.Join(args, " "), err, stdout, stderr.String())
	}
	return stdout
}
