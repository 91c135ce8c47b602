// Package scripts has the tests of what only a release runs.
package scripts

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestBill checks the bill of two programs with the output of the Go command for one of them.
func TestBill(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("jq is not installed; scripts/docs.sh installs it")
	}
	program := filepath.Join(t.TempDir(), "elastalloc")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../cmd/elastalloc").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	other, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), "go", "version", "-m", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	written, err := exec.CommandContext(t.Context(), "./sbom.sh", "elastalloc", program, other).Output()
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		Components []struct {
			Ref string `json:"bom-ref"`
		} `json:"components"`
		Dependencies []struct {
			Ref       string   `json:"ref"`
			DependsOn []string `json:"dependsOn"`
		} `json:"dependencies"`
	}
	if err := json.Unmarshal(written, &bill); err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, component := range bill.Components {
		known[component.Ref] = true
	}
	modules := bytes.Count(said, []byte("\n\tdep\t"))
	links := bill.Dependencies[1]
	if links.Ref != "elastalloc" || len(links.DependsOn) != 1+modules || modules < 20 {
		t.Errorf("%s links %d modules; want the standard library and %d", links.Ref, len(links.DependsOn), modules)
	}
	for _, ref := range links.DependsOn {
		if !known[ref] {
			t.Errorf("%s is no component", ref)
		}
	}
	if err := exec.CommandContext(t.Context(), "./sbom.sh", "none", "sbom.sh").Run(); err == nil {
		t.Error("a text file has a bill of materials")
	}
}
