package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/spf13/pflag"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/internal/testtier"
)

// TestDocumentedFlags checks that every flag and every variable that the
// documentation and deploy/ name is one of some command.
func TestDocumentedFlags(t *testing.T) {
	known := map[string]bool{"--help": true, testtier.Variable: true}
	for _, command := range newRootCommand(func(string) (string, bool) { return "", false }).Commands() {
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			known["--"+flag.Name] = true
			known[cli.EnvironmentName(flag)] = true
		})
	}
	// The other program is asked for its help.
	described := regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z-]+) .*\[\$(ELASTALLOC_[A-Z_]+)\]`)
	for _, command := range []string{"simulate", "paper", "bench"} {
		help, err := exec.Command("go", "run", "../elastalloc-lab", "help", command).Output()
		matches := described.FindAllStringSubmatch(string(help), -1)
		if err != nil || len(matches) == 0 {
			t.Fatalf("the help of %s names %d flags, %v", command, len(matches), err)
		}
		for _, match := range matches {
			known[match[1]], known[match[2]] = true, true
		}
	}
	root := filepath.Join("..", "..")
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
	// In running text a flag stands in backquotes; in a command or a manifest, anybody's
	// flags may stand, so only what follows the program's name or the subcommand counts.
	named := regexp.MustCompile("`(--[a-z-]+)|(ELASTALLOC_[A-Z_]*[A-Z])\\b")
	commandLine := regexp.MustCompile(`(?m)^.*\b(?:elastalloc(?:-lab)? (?:serve|allocate|bench|simulate|snapshot|paper)|\[serve,).*$`)
	flag := regexp.MustCompile(`--[a-z][a-z-]+`)
	for _, file := range files {
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
