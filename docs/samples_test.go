package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestRequests checks that every block of JSON is of requests.
func TestRequests(t *testing.T) {
	eachBlock(t, "json", func(b block) error {
		decoder := json.NewDecoder(strings.NewReader(b.text))
		for first := true; first || decoder.More(); first = false {
			var request json.RawMessage
			if err := decoder.Decode(&request); err != nil {
				return err
			}
			if err := protojson.Unmarshal(request, new(elastallocv1.AllocateRequest)); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestGo compiles every block of Go, as a file or as the body of a function.
func TestGo(t *testing.T) {
	if !testtier.Docs.Selected() {
		t.Skip("slow; make docs runs it")
	}
	imports := map[string]string{
		"client":       "github.com/elastalloc/elastalloc/client",
		"elastalloc":   "github.com/elastalloc/elastalloc",
		"solver":       "github.com/elastalloc/elastalloc/solver",
		"eta":          "github.com/elastalloc/elastalloc/client/eta",
		"durationpb":   "google.golang.org/protobuf/types/known/durationpb",
		"elastallocv1": "github.com/elastalloc/elastalloc/proto/elastalloc/v1",
		"placement":    "github.com/elastalloc/elastalloc/client/placement",
		"teams":        "github.com/elastalloc/elastalloc/client/teams",
		"log":          "log",
		"time":         "time",
	}
	eachBlock(t, "go", func(b block) error {
		body := fmt.Sprintf("\nfunc main() { _ = run }\n\nfunc run(ctx context.Context, err "+
			"error, resize func(string, int32) error, kill func(string)) error {\n%s\nreturn nil\n}\n"+
			"\nfunc snapshot() *elastallocv1.Snapshot { return nil }\n", b.text)
		program := "package main\n\nimport \"context\"\n"
		for name, path := range imports {
			if strings.Contains(body, name+".") {
				program += fmt.Sprintf("import %s %q\n", name, path)
			}
		}
		program += body
		switch {
		case strings.HasPrefix(b.text, "package "):
			program = b.text
		case strings.HasPrefix(b.text, "import "):
			program = "package main\n\n" + b.text + "\nfunc main() {}\n"
		}
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		return run(exec.Command("go", "vet", file))
	})
}

// TestPython compiles every block of Python.
func TestPython(t *testing.T) {
	needTools(t, "python3")
	eachBlock(t, "python", func(b block) error {
		command := exec.Command("python3", "-c", "import sys; compile(sys.stdin.read(), 'block', 'exec')")
		command.Stdin = strings.NewReader(b.text)
		return run(command)
	})
}

// eachBlock checks every block of a language, of which there is at least one.
func eachBlock(t *testing.T, language string, check func(block) error) {
	t.Helper()
	seen := false
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.language != language {
				continue
			}
			seen = true
			if err := check(b); err != nil {
				t.Errorf("%s:%d: %v", p.name, b.line, err)
			}
		}
	}
	if !seen {
		t.Errorf("no block of %s", language)
	}
}

// run runs a command, and has what it printed in its error.
func run(command *exec.Cmd) error {
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	return nil
}
