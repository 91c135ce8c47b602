package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLinks checks that the links between the pages, and from them to files, lead somewhere.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	links, known := 0, map[string]map[string]bool{}
	for _, name := range markdown(t) {
		for _, match := range link.FindAllStringSubmatch(withoutCode(t, name), -1) {
			path, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(path, ":") {
				continue // Elsewhere.
			}
			links++
			to := name
			if path != "" {
				to = filepath.Join(filepath.Dir(name), path)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %s: %v", name, match[1], err)
			} else if anchor != "" && strings.HasSuffix(to, ".md") {
				if known[to] == nil {
					known[to] = anchors(t, to)
				}
				if !known[to][anchor] {
					t.Errorf("%s: %s: unknown heading", name, match[1])
				}
			}
		}
	}
	if links < 200 {
		t.Errorf("found %d links; want those of all pages", links)
	}
}

// markdown returns all pages of the repository.
func markdown(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && name != root && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, ".md") {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// withoutCode returns a page without what stands in fences and backquotes.
func withoutCode(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	fenced := regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllString(fenced.ReplaceAllString(string(text), ""), "")
}

// anchors returns the headings of a page as they stand in addresses.
func anchors(t *testing.T, name string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, match := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		heading := strings.ToLower(regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(match[1], "$1"))
		heading = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(heading, "")
		found[strings.ReplaceAll(heading, " ", "-")] = true
	}
	return found
}
