package docs

import (
	"bytes"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// identifier is a word in backquotes that looks like the name of something in code: letters, digits, underscores
// and dots.
var identifier = regexp.MustCompile("`(_?[A-Za-z][0-9A-Za-z_.]*)(?:\\(\\))?`")

// TestIdentifiers checks that every identifier in backquotes exists: in code, in a configuration, in the name of a
// file, or in identifiers.txt, which lists the names of other programs and placeholders.
func TestIdentifiers(t *testing.T) {
	output, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files").Output()
	if err != nil {
		t.Skip(err) // The test needs the list of files, for example in an archive of the source.
	}
	var pages []string
	known := make(identifiers)
	for name := range strings.Lines(string(output)) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile(filepath.Join(root, name))
		switch {
		case err != nil: // Deleted in the work tree.
		case filepath.Ext(name) == ".md":
			pages = append(pages, name)
		case !strings.HasPrefix(name, "docs/identifiers"):
			known.add(name)
			known.addText(name, text)
		}
	}
	listed, err := os.ReadFile("identifiers.txt")
	if err != nil {
		t.Fatal(err)
	}
	others := make(map[string]bool)
	for line := range strings.Lines(string(listed)) {
		text, _, _ := strings.Cut(line, "#")
		for name := range strings.FieldsSeq(text) {
			others[name] = false
		}
	}
	seen := 0
	for _, name := range pages {
		if strings.HasPrefix(name, "docs/adr/") || name == "CHANGELOG.md" { // They describe earlier versions, too.
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		prose := regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(string(text), "")
		for _, match := range identifier.FindAllStringSubmatch(prose, -1) {
			seen++
			if _, other := others[match[1]]; other {
				others[match[1]] = true
			} else if strings.HasPrefix(match[1], "ELASTALLOC_") {
				continue // TestDocumentedFlags checks variables.
			} else if unknown := known.unknown(match[1]); unknown != "" {
				t.Errorf("%s: `%s`: nothing is named %s", name, match[1], unknown)
			}
		}
	}
	for name, used := range others {
		if !used {
			t.Errorf("identifiers.txt: no page names %s", name)
		}
	}
	if seen < 2000 {
		t.Errorf("found %d identifiers; must be at least 2000", seen)
	}
}

// identifiers are the names in code. Of names such as WAIT_REASON_BEHIND, they include the ends, which are the short
// names of enum values.
type identifiers map[string]bool

// add adds the words of a text.
func (known identifiers) add(text string) {
	for _, word := range regexp.MustCompile(`[A-Za-z_]\w*`).FindAllString(text, -1) {
		known[word] = true
		for rest, found := word, word == strings.ToUpper(word); found; {
			if _, rest, found = strings.Cut(rest, "_"); found {
				known[rest] = true
			}
		}
	}
}

// addText adds the words of a file. The comments of Go code do not count.
func (known identifiers) addText(name string, text []byte) {
	if filepath.Ext(name) != ".go" {
		if !bytes.Contains(text, []byte{0}) {
			known.add(string(text))
		}
		return
	}
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(text)), text, nil, 0)
	for {
		_, kind, literal := s.Scan()
		if kind == token.EOF {
			return
		}
		known.add(literal)
	}
}

// unknown returns the first part of a dotted name that does not exist, "" if all exist. A metric may be named by the
// part that its registration adds to a prefix.
func (known identifiers) unknown(name string) string {
	for part := range strings.SplitSeq(name, ".") {
		metric := strings.TrimPrefix(strings.TrimPrefix(part, "elastalloc_"), "controller_")
		if part != "" && !known[part] && !known[metric] && !known[strings.TrimPrefix(part, "_")] {
			return part
		}
	}
	return ""
}
