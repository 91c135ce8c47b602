package solver_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// constants returns the exported constants of a folder's package, each with the name of its type
// as it is written, "" if there is none.
func constants(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", folder, len(files), err)
	}
	found := make(map[string]string)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			of, ok := declaration.(*ast.GenDecl)
			if !ok || of.Tok != token.CONST {
				continue
			}
			named := ""
			for _, spec := range of.Specs {
				value := spec.(*ast.ValueSpec)
				if ident, ok := value.Type.(*ast.Ident); ok {
					named = ident.Name
				}
				for _, name := range value.Names {
					if name.IsExported() {
						found[name.Name] = named
					}
				}
			}
		}
	}
	return found
}

// TestEveryValueHasAName checks that programs can name every value of every enumeration without
// an import of the parts.
func TestEveryValueHasAName(t *testing.T) {
	names, values := constants(t, "."), 0
	for _, part := range []string{"snapshot", "problem", "decision"} {
		for name, of := range constants(t, part) {
			if of == "" {
				continue
			}
			values++
			if _, known := names[name]; !known {
				t.Errorf("%s.%s of type %s has no name in package solver", part, name, of)
			}
		}
	}
	if values < 60 {
		t.Errorf("%d values in all; want at least 60", values)
	}
}
