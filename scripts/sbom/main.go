// Command sbom prints the bill of materials of Go programs, in CycloneDX 1.6 as JSON: the
// modules that they link, as the Go command has written them into the binaries. The same
// binaries give the same bytes.
package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// bom is a bill of materials, as far as it is used here.
type bom struct {
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl,omitempty"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom NAME BINARY…")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(w io.Writer, name string, binaries []string) error {
	bill := bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1}
	bill.Metadata.Component = component{Type: "application", Ref: name, Name: name}
	bill.Dependencies = []dependency{{Ref: name}}
	modules := make(map[string]component)
	for _, binary := range binaries {
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			return fmt.Errorf("read %s: %w", binary, err)
		}
		// The programs of a bill are of one version.
		program := component{Type: "application", Ref: filepath.Base(binary), Name: filepath.Base(binary), Version: info.Main.Version}
		bill.Metadata.Component.Version = info.Main.Version
		bill.Components = append(bill.Components, program)
		bill.Dependencies[0].DependsOn = append(bill.Dependencies[0].DependsOn, program.Ref)
		links := dependency{Ref: program.Ref}
		standard := library("std", strings.TrimPrefix(info.GoVersion, "go"))
		for _, linked := range append([]component{standard}, linkedModules(info.Deps)...) {
			modules[linked.Ref] = linked
			links.DependsOn = append(links.DependsOn, linked.Ref)
		}
		bill.Dependencies = append(bill.Dependencies, links)
	}
	byRef := func(a, b component) int { return cmp.Compare(a.Ref, b.Ref) }
	for _, module := range modules {
		bill.Components = append(bill.Components, module)
	}
	slices.SortFunc(bill.Components[len(binaries):], byRef)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(bill)
}

// linkedModules returns the modules of others; one that a folder replaces is our own.
func linkedModules(dependencies []*debug.Module) []component {
	var linked []component
	for _, module := range dependencies {
		if module.Replace != nil {
			module = module.Replace
		}
		if !strings.HasPrefix(module.Path, ".") {
			linked = append(linked, library(module.Path, module.Version))
		}
	}
	return linked
}

// library returns a module as a component, which a package URL names.
func library(path, version string) component {
	purl := "pkg:golang/" + path + "@" + version
	return component{Type: "library", Ref: purl, Name: path, Version: version, PURL: purl}
}
