package main

import (
	"bytes"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/lab/replay"
	"github.com/elastalloc/elastalloc/lab/report"
	"github.com/elastalloc/elastalloc/lab/results"
)

// TestResultsAreDocumented compares docs/reference/results.md with the fields of the files that simulate and replay
// write.
func TestResultsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/results.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := make(map[string]string)
	for section := range strings.SplitSeq(string(page), "\n## ") {
		title, text, _ := strings.Cut(section, "\n")
		sections[title] = text
	}
	columns := func(csv []byte) []string {
		header, _, _ := bytes.Cut(csv, []byte("\n"))
		return strings.Split(string(header), ",")
	}
	replayed := fieldsOf(reflect.TypeFor[replay.Source](), reflect.TypeFor[replay.Unknown](), reflect.TypeFor[report.Detail]())
	for section, fields := range map[string][]string{
		"summary.json":  fieldsOf(reflect.TypeFor[results.Summary]()),
		"jobs.csv":      columns(results.JobsCSV(nil, 0)),
		"replay.json":   replayed,
		"decisions.csv": columns(replay.DecisionsCSV("", nil)),
	} {
		text, found := sections[section]
		if !found {
			t.Errorf("docs/reference/results.md has no section %s", section)
		}
		known := make(map[string]bool)
		for _, field := range fields {
			known[field] = true
			if field != "" && !strings.Contains(text, "`"+field+"`") {
				t.Errorf("docs/reference/results.md, %s: %s is missing", section, field)
			}
		}
		for line := range strings.Lines(text) {
			cells := strings.Split(line, "|")
			if len(cells) < 3 {
				continue
			}
			for _, name := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(cells[1], -1) {
				if !known[name[1]] {
					t.Errorf("docs/reference/results.md, %s: %s is not written", section, name[1])
				}
			}
		}
	}
}

// fieldsOf returns the JSON names of the fields of types and of their nested types.
func fieldsOf(types ...reflect.Type) []string {
	var names []string
	for _, of := range types {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct {
			continue
		}
		for i := range of.NumField() {
			if name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); name != "" {
				names = append(append(names, name), fieldsOf(of.Field(i).Type)...)
			}
		}
	}
	return names
}
