package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testtier"
)

// TestDocumentedFlags checks that every flag and every variable that the documentation and
// deploy/ name is in docs/flags.md, which is generated from the commands.
func TestDocumentedFlags(t *testing.T) {
	known := map[string]bool{"--help": true, testtier.Variable: true}
	root := filepath.Join("..", "..")
	reference, err := os.ReadFile(filepath.Join(root, "docs", "flags.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `(--[a-z-]+)`.*?`(ELASTALLOC_[A-Z_]+)`").FindAllStringSubmatch(string(reference), -1) {
		known[row[1]], known[row[2]] = true, true
	}
	var files []string
	for _, pattern := range []string{
		"README.md", "docs/*.md", "deploy/*.md", "deploy/systemd/*", "deploy/compose/compose.yaml", "deploy/kubernetes/*.yaml",
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
	commandLine := regexp.MustCompile(`(?m)^.*\b(?:elastalloc(?:-lab)? (?:serve|allocate|fill-idle|explain|whatif|forecast|bench|simulate|replay|snapshot|paper)|\[serve,).*$`)
	flag := regexp.MustCompile(`--[a-z][a-z-]+`)
	for _, file := range files {
		if base := filepath.Base(file); strings.HasPrefix(base, "kubernetes") || strings.Contains(base, "controller") {
			continue // The controller's flags are checked in its own module.
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
