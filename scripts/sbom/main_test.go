package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestBill checks the bill of this program, which links nothing, and of one that links
// much, with what the Go command says of them.
func TestBill(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	binaries := []string{filepath.Join(folder, "sbom"), filepath.Join(folder, "elastalloc")}
	for i, source := range []string{".", "../../cmd/elastalloc"} {
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binaries[i], source).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	said, err := exec.CommandContext(t.Context(), "go", "version", "-m", binaries[1]).Output()
	if err != nil {
		t.Fatal(err)
	}
	var written, again bytes.Buffer
	for _, w := range []*bytes.Buffer{&written, &again} {
		if err := write(w, "elastalloc", binaries); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(written.Bytes(), again.Bytes()) {
		t.Error("two bills of the same programs differ")
	}
	var bill bom
	if err := json.Unmarshal(written.Bytes(), &bill); err != nil {
		t.Fatal(err)
	}
	modules := bytes.Count(said, []byte("\n\tdep\t"))
	if len(bill.Components) != 2+1+modules || modules < 20 {
		t.Errorf("%d components; want two programs, the standard library and %d modules", len(bill.Components), modules)
	}
	if !slices.ContainsFunc(bill.Components, func(c component) bool {
		return c.Name == "google.golang.org/grpc" && bytes.Contains(said, []byte("\tdep\t"+c.Name+"\t"+c.Version+"\t"))
	}) {
		t.Errorf("gRPC is not in the bill:\n%s", written.Bytes())
	}
	if links := bill.Dependencies[1]; links.Ref != "sbom" || len(links.DependsOn) != 1 {
		t.Errorf("this program links %v; want the standard library alone", links)
	}
	if err := write(&written, "none", []string{"main.go"}); err == nil {
		t.Error("a text file has a bill of materials")
	}
}
