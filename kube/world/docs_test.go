package world

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestAnnotationsAreDocumented checks that docs/reference/controller.md lists every annotation that
// is read and no other one. An unknown annotation is an error that names the known ones.
func TestAnnotationsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/controller.md")
	if err != nil {
		t.Fatal(err)
	}
	_, unknown := ParseAnnotations(map[string]string{Prefix + "unknown": ""}, 1, 0, 1)
	if unknown == nil {
		t.Fatal("an unknown annotation is no error")
	}
	name := regexp.MustCompile(regexp.QuoteMeta(Prefix) + "[a-z-]+")
	known := make(map[string]bool)
	for _, annotation := range name.FindAllString(unknown.Error(), -1) {
		known[annotation] = annotation != Prefix+"unknown"
	}
	_, table, _ := strings.Cut(string(page), "\n## Annotations\n")
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		if !known[row[1]] {
			t.Errorf("the page lists %s, which is not read", row[1])
		}
		delete(known, row[1])
	}
	for annotation, missing := range known {
		if missing {
			t.Errorf("the page does not list %s", annotation)
		}
	}
	for _, written := range []string{TargetAnnotation, DecisionAnnotation} {
		if !strings.Contains(table, "- `"+written+"`") {
			t.Errorf("the page does not list %s", written)
		}
	}
}
