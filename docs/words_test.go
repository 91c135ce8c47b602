package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWords checks that prose, comments and messages do not use the words that words.txt rules out.
func TestWords(t *testing.T) {
	list := readWordList(t)
	output, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files").Output()
	if err != nil {
		t.Skip(err) // The test needs the list of files, for example in an archive of the source.
	}
	checked := 0
	for name := range strings.Lines(string(output)) {
		name = strings.TrimSpace(name)
		extract := extractors[filepath.Ext(name)]
		test := strings.HasSuffix(name, "_test.go")
		if extract == nil || strings.HasSuffix(name, ".pb.go") || name == "docs/words_test.go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue // Deleted in the work tree.
		}
		prose := extract(string(text))
		if test {
			prose = regexp.MustCompile(`\bwant\b`).ReplaceAllString(prose, "…") // "is 1; want 2" is Go's convention.
		}
		checked++
		for _, f := range list.find(prose) {
			t.Errorf("%s: %s", name, f)
		}
	}
	if checked < 400 {
		t.Errorf("checked %d files; must be at least 400", checked)
	}
}

func TestWordsCanFail(t *testing.T) {
	list := readWordList(t)
	for text, want := range map[string]int{
		"The service is told of it.":       1,
		"What jobs HOLD, and held before.": 2,
		"`held` and anything else":         0,
		"```sh\nask\n```\n[x](tell.md)":    0,
		"The optimiser of\nequal shares":   2,
		"80 calls a second. Else none.":    2,
	} {
		if found := list.find(extractors[".md"](text)); len(found) != want {
			t.Errorf("%q: found %q; must be %d", text, found, want)
		}
	}
	const goCode = "package a\n\n// A is told.\nconst A = \"asks\" + \"it asks\" // no hold\n" +
		"const B = `\nimport sys\nif sys: pass\n# it asks\nelse: pass`\n"
	if found := list.find(extractors[".go"](goCode)); len(found) != 4 {
		t.Errorf("%q: found %q; must be 4", goCode, found)
	}
}

// wordList is words.txt.
type wordList struct {
	words   []word
	any     *regexp.Regexp // matches all of words, in one pass
	allowed *regexp.Regexp
}

type word struct {
	pattern *regexp.Regexp
	use     string
}

func readWordList(t *testing.T) wordList {
	t.Helper()
	text, err := os.ReadFile("words.txt")
	if err != nil {
		t.Fatal(err)
	}
	var list wordList
	var patterns, allowed []string
	for line := range strings.Lines(string(text)) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch kind {
		case "", "#":
		case "word":
			pattern, use, found := strings.Cut(rest, " => ")
			if !found {
				t.Fatalf("words.txt: %q has no =>", line)
			}
			patterns = append(patterns, pattern)
			list.words = append(list.words, word{regexp.MustCompile(`(?i)^(?:` + pattern + `)$`), use})
		case "allow":
			allowed = append(allowed, rest)
		default:
			t.Fatalf("words.txt: unknown line %q", line)
		}
	}
	list.any = regexp.MustCompile(`(?i)\b(?:` + strings.Join(patterns, "|") + `)\b`)
	list.allowed = regexp.MustCompile(`(?i)\b(?:` + strings.Join(allowed, "|") + `)\b`)
	return list
}

// find returns the words of a text that are ruled out, with their surroundings.
func (l wordList) find(text string) []string {
	text = l.allowed.ReplaceAllString(strings.Join(strings.Fields(text), " "), "…")
	var found []string
	for _, at := range l.any.FindAllStringIndex(text, -1) {
		around := text[max(0, at[0]-30):min(len(text), at[1]+30)]
		i := slices.IndexFunc(l.words, func(w word) bool { return w.pattern.MatchString(text[at[0]:at[1]]) })
		found = append(found, strings.ToValidUTF8("…"+around+"…: use "+l.words[i].use, ""))
	}
	return found
}

// extractors return what people read of a file, by its extension.
var extractors = map[string]func(string) string{
	".md":    markdownProse,
	".go":    goProse,
	".proto": comments("//"),
	".yaml":  comments("#", "summary:", "description:"),
	".sh":    comments("#"),
	".py":    pythonProse,
	".html":  htmlProse,
	".tmpl":  htmlProse,
}

func markdownProse(text string) string {
	for _, code := range []string{"(?ms)^ *```.*?^ *```$", "`[^`]*`", `\]\([^)]*\)`, `(?s)<!--.*?-->`} {
		text = regexp.MustCompile(code).ReplaceAllString(text, " … ")
	}
	return text
}

func htmlProse(text string) string {
	return regexp.MustCompile(`(?s)<style.*?</style>|\{\{.*?\}\}|<[^>]*>`).ReplaceAllString(text, " ")
}

// goProse returns the comments of Go code and its strings of several words. Of a Python script in a
// string it returns the comments.
func goProse(text string) string {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return ""
	}
	var prose []string
	for _, comment := range file.Comments {
		prose = append(prose, comment.Text())
	}
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		switch {
		case !ok || !strings.Contains(literal.Value, " "):
		case strings.HasPrefix(literal.Value, "`\nimport "):
			prose = append(prose, pythonProse(literal.Value))
		default:
			prose = append(prose, literal.Value[1:len(literal.Value)-1])
		}
		return true
	})
	return markdownProse(strings.Join(prose, "\n"))
}

func pythonProse(text string) string {
	docs := regexp.MustCompile(`(?s)""".*?"""`).FindAllString(text, -1)
	return markdownProse(strings.Join(docs, "\n") + "\n" + comments("#")(text))
}

// comments returns an extractor of the rest of lines that begin with one of some prefixes.
func comments(prefixes ...string) func(string) string {
	return func(text string) string {
		var prose []string
		for line := range strings.Lines(text) {
			for _, prefix := range prefixes {
				if rest, found := strings.CutPrefix(strings.TrimSpace(line), prefix); found {
					prose = append(prose, rest)
				}
			}
		}
		return markdownProse(strings.Join(prose, "\n"))
	}
}
