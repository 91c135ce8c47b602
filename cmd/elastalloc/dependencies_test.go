package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestNoPlottingDependency checks that the binary of the server does not link packages that only elastalloc-lab
// needs.
func TestNoPlottingDependency(t *testing.T) {
	output, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(output))
	if len(packages) < 100 {
		t.Fatalf("%d packages; want the packages of the whole program", len(packages))
	}
	for _, name := range packages {
		for _, unwanted := range []string{
			"gonum.org/v1/plot", "elastalloc/elastalloc/lab", "codeberg.org/go-fonts", "git.sr.ht/~sbinet",
			"codeberg.org/go-pdf", "github.com/golang/freetype", "golang.org/x/image",
		} {
			if strings.Contains(name, unwanted) {
				t.Errorf("elastalloc links %s", name)
			}
		}
	}
}
