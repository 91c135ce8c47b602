package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the repository's, from this folder.
const root = ".."

// page is a page of the documentation.
type page struct {
	name string // from the root
	// code is all that stands in fences and backquotes.
	code string
	// needs are the programs without which nothing of the page is run.
	needs  []string
	blocks []block
	// inline are the commands in running text that name a file of examples/.
	inline []string
}

// block is fenced text.
type block struct {
	line     int // of its fence
	language string
	text     string
	mark     string // from the comment before it
}

// The marks in the comment before a block of sh. A block without a comment is run. "Not run" before the title applies to all
// commands of the page.
const (
	// notRun goes on with the reason.
	notRun = "not run: "
	// without goes on with a line to leave out, a colon, and the reason.
	without = "run without "
	// withServer runs a block while a server does.
	withServer = "run with a server"
	// serves runs a block until the server that it ends with serves, and then stops that.
	serves = "serves"
	// needs, before the title, goes on with programs without which nothing of the page is run.
	needs = "needs "
)

var (
	fence   = regexp.MustCompile("^ *```([a-z]*)$")
	comment = regexp.MustCompile(`^ *<!-- (.*) -->$`)
	span    = regexp.MustCompile("`([^`]+)`")
	inline  = regexp.MustCompile(`^(?:bin/)?elastalloc(?:-lab)? [a-z-]+ .*examples/`)
)

// pages returns the pages with commands.
func pages(t *testing.T) []page {
	t.Helper()
	var found []page
	for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "docs/*/*.md", "deploy/*.md", "cmd/*/*.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s matches %v, %v", pattern, names, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			p, err := parse(strings.TrimPrefix(name, root+"/"), string(text))
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, p)
		}
	}
	return found
}

// parse reads a page.
func parse(name, text string) (page, error) {
	p := page{name: name}
	var open *block
	mark, whole := "", "" // of the next block, of the page
	for i, line := range strings.Split(text, "\n") {
		if match := fence.FindStringSubmatch(line); match != nil {
			switch {
			case open != nil:
				p.code += open.text
				p.blocks, open = append(p.blocks, *open), nil
			case mark == "":
				open = &block{line: i + 1, language: match[1], mark: whole}
			default:
				open = &block{line: i + 1, language: match[1], mark: mark}
			}
			mark = ""
			continue
		}
		switch match := comment.FindStringSubmatch(line); {
		case open != nil:
			open.text += line + "\n"
		case match != nil && known(match[1]):
			if mark = match[1]; i == 0 {
				mark, whole = "", mark
			}
		case match != nil && i == 0 && strings.HasPrefix(match[1], needs):
			p.needs = strings.Fields(match[1])[1:]
		case match != nil:
			return page{}, fmt.Errorf("%s:%d: unknown comment %q", name, i+1, match[1])
		case mark != "" && strings.TrimSpace(line) != "":
			return page{}, fmt.Errorf("%s:%d: the comment %q stands before no block", name, i, mark)
		default:
			for _, span := range span.FindAllStringSubmatch(line, -1) {
				p.code += span[1] + "\n"
				if inline.MatchString(span[1]) {
					p.inline = append(p.inline, span[1])
				}
			}
		}
	}
	if open != nil {
		return page{}, fmt.Errorf("%s:%d: the block has no end", name, open.line)
	}
	return p, nil
}

func known(mark string) bool {
	_, _, reasoned := strings.Cut(strings.TrimPrefix(mark, without), ": ")
	return strings.HasPrefix(mark, notRun) || strings.HasPrefix(mark, without) && reasoned || mark == withServer || mark == serves
}

func TestParse(t *testing.T) {
	p, err := parse("a.md",
		"<!-- not run: no cluster -->\n# A\n\n```sh\na\n```\n\n1. x\n\n   <!-- run with a server -->\n"+
			"   ```sh\n   b\n   ```\n\nSo `elastalloc explain -f examples/a.json`.\n")
	if err != nil || fmt.Sprintf("%+v %q", p.blocks, p.inline) != "[{line:4 language:sh text:a\n mark:not run: no cluster} "+
		`{line:11 language:sh text:   b
 mark:run with a server}] ["elastalloc explain -f examples/a.json"]` {
		t.Errorf("%+v, %v", p, err)
	}
	for text, want := range map[string]string{
		"```sh\na\n":                      "a.md:1: the block has no end",
		"<!-- nut run: x -->\n```sh\n```": `a.md:1: unknown comment "nut run: x"`,
		"x\n<!-- not run: x -->\ny\n":     `a.md:2: the comment "not run: x" stands before no block`,
	} {
		if _, err := parse("a.md", text); err == nil || err.Error() != want {
			t.Errorf("%q: %v; want %s", text, err, want)
		}
	}
}
