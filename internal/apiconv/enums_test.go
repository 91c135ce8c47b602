package apiconv

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestEnums checks that every enum of the API has the values of its type in the decision core,
// as the source of the core declares them. A constant without a value in the API would be sent
// as UNSPECIFIED.
func TestEnums(t *testing.T) {
	t.Parallel()
	core := coreConstants(t)
	// Types of the core whose name is not the enum's, or whose values the enum adds to its own.
	types := map[protoreflect.Name][]string{"Backend": {"BackendName"}, "Why": {"Why", "WaitReason"}}
	enums := elastallocv1.File_elastalloc_v1_allocator_proto.Enums()
	for i := range enums.Len() {
		enum := enums.Get(i)
		names := types[enum.Name()]
		if names == nil {
			names = []string{string(enum.Name())}
		}
		values := make(map[string]bool)
		for _, name := range names {
			for _, value := range core[name] {
				values[value] = true
			}
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(values)), slices.Sorted(maps.Keys(byName[enum]))); diff != "" {
			t.Errorf("enum %s and the constants of %v differ (-core +API):\n%s", enum.Name(), names, diff)
		}
	}
}

// coreConstants returns the values of the typed string constants of solver/ by the name of
// their type.
func coreConstants(t *testing.T) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	err := filepath.WalkDir(filepath.Join("..", "..", "solver"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			constants, ok := declaration.(*ast.GenDecl)
			if !ok || constants.Tok != token.CONST {
				continue
			}
			for _, spec := range constants.Specs {
				if err := addStrings(found, spec.(*ast.ValueSpec)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// addStrings adds the string literals of a declaration of typed constants that are not empty.
func addStrings(found map[string][]string, spec *ast.ValueSpec) error {
	of, ok := spec.Type.(*ast.Ident)
	if !ok {
		return nil
	}
	for _, value := range spec.Values {
		literal, ok := value.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			continue
		}
		if text, err := strconv.Unquote(literal.Value); err != nil {
			return err
		} else if text != "" {
			found[of.Name] = append(found[of.Name], text)
		}
	}
	return nil
}

// TestEnumNumbers checks that the names and numbers of an enum convert back and forth.
func TestEnumNumbers(t *testing.T) {
	t.Parallel()
	checkNumbers[elastallocv1.Backend](t)
	checkNumbers[elastallocv1.WarningCode](t)
}

func checkNumbers[E Enum](t *testing.T) {
	t.Helper()
	for _, name := range Names[E]() {
		if number := Number[E](name); number == 0 || Name(number) != name {
			t.Errorf("%q is number %d, which is %q", name, number, Name(number))
		}
	}
	if Name(E(0)) != "" || Name(E(99)) != "" || Name(E(-1)) != "" || Number[E]("") != 0 || Number[E]("unspecified") != 0 {
		t.Error("a number without a value has a name, or the other way round")
	}
}

// TestParseEnum checks every form of a name, and that the error for an unknown name lists the valid ones.
func TestParseEnum(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"total-time", "total_time", "TOTAL_TIME", "OBJECTIVE_TOTAL_TIME", "Objective-Total-Time"} {
		if value, err := ParseEnum[elastallocv1.Objective](name); err != nil || value != elastallocv1.Objective_OBJECTIVE_TOTAL_TIME {
			t.Errorf("%q is %v, error %v; want OBJECTIVE_TOTAL_TIME", name, value, err)
		}
	}
	for _, name := range []string{"", "total", "unspecified", "OBJECTIVE_UNSPECIFIED", "BACKEND_EXACT"} {
		const want = "must be one of progress, total-time"
		if value, err := ParseEnum[elastallocv1.Objective](name); err == nil || err.Error() != want || value != 0 {
			t.Errorf("%q is %v, error %v; want the error %q", name, value, err, want)
		}
	}
}
