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

	"github.com/elastalloc/elastalloc/internal/testtier"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestRequests checks that every block of JSON is of requests.
func TestRequests(t *testing.T) {
	seen := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.language != "json" {
				continue
			}
			for decoder := json.NewDecoder(strings.NewReader(b.text)); decoder.More(); seen++ {
				var request json.RawMessage
				err := decoder.Decode(&request)
				if err == nil {
					err = protojson.Unmarshal(request, new(elastallocv1.AllocateRequest))
				}
				if err != nil {
					t.Errorf("%s:%d: %v", p.name, b.line, err)
					break
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no block of JSON")
	}
}

// TestGo compiles every block of Go as the body of a function.
func TestGo(t *testing.T) {
	if !testtier.Docs.Selected() {
		t.Skip("slow; make docs runs it")
	}
	imports := map[string]string{
		"client":       "github.com/elastalloc/elastalloc/client",
		"durationpb":   "google.golang.org/protobuf/types/known/durationpb",
		"elastallocv1": "github.com/elastalloc/elastalloc/proto/elastalloc/v1",
		"errdetails":   "google.golang.org/genproto/googleapis/rpc/errdetails",
		"log":          "log",
		"status":       "google.golang.org/grpc/status",
		"time":         "time",
	}
	seen := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.language != "go" {
				continue
			}
			seen++
			program := "package main\n\nimport \"context\"\n"
			for name, path := range imports {
				if strings.Contains(b.text, name+".") {
					program += fmt.Sprintf("import %s %q\n", name, path)
				}
			}
			program += fmt.Sprintf("\nfunc main() { _ = run }\n\nfunc run(ctx context.Context, err error, resize func(string, int32)) error {\n%s\nreturn nil\n}\n", b.text)
			file := filepath.Join(t.TempDir(), "main.go")
			if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			if output, err := exec.Command("go", "vet", file).CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v\n%s", p.name, b.line, err, output)
			}
		}
	}
	if seen == 0 {
		t.Error("no block of Go")
	}
}

// TestPython compiles every block of Python.
func TestPython(t *testing.T) {
	needTools(t, "python3")
	seen := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.language != "python" {
				continue
			}
			seen++
			command := exec.Command("python3", "-c", "import sys; compile(sys.stdin.read(), 'block', 'exec')")
			command.Stdin = strings.NewReader(b.text)
			if output, err := command.CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v\n%s", p.name, b.line, err, output)
			}
		}
	}
	if seen == 0 {
		t.Error("no block of Python")
	}
}
