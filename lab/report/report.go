// Package report writes results as a page of HTML that needs nothing but itself: a few
// lines and a figure first, then contents, what made it, and sections of text, tables and
// figures. It is light or dark as its reader is.
package report

import (
	"bytes"
	_ "embed"
	"html/template"
	"strings"

	"github.com/elastalloc/elastalloc/lab/figures"
	"github.com/elastalloc/elastalloc/lab/results"
)

// Name is the name of the page's file.
const Name = "report.html"

// Page is a report.
type Page struct {
	Title string
	// Lead is what a reader with a minute reads, a paragraph each, and Figure what they see.
	Lead   []string
	Figure figures.Named
	// Origin says by what, when and where the results were made.
	Origin   results.Origin
	Sections []Section
}

// Section is a part of a report.
type Section struct {
	// Name is the section's in addresses.
	Name, Title string
	// Text is its paragraphs, before the tables and the figures.
	Text    []string
	Tables  []Table
	Figures []figures.Named
}

// Table is a table whose first column is text, and the others numbers but for those that
// TextColumns names.
type Table struct {
	// Title, where set, folds the table away under it.
	Title       string
	Header      []string
	Rows        [][]string
	TextColumns []int
}

//go:embed style.css
var style string

//go:embed page.html.tmpl
var page string

// Style returns the style sheet of reports.
func Style() template.CSS { return template.CSS(style) } //nolint:gosec // Of this package.

// HTML returns the page.
func (p *Page) HTML() ([]byte, error) {
	functions := template.FuncMap{
		"style": Style,
		"draw": func(f figures.Named) (template.HTML, error) {
			svg, err := f.Figure.SVG()
			return Inline(svg), err
		},
		"text": func(t Table, column int) bool {
			for _, c := range t.TextColumns {
				if c == column {
					return true
				}
			}
			return column == 0
		},
	}
	parsed, err := template.New(Name).Funcs(functions).Parse(page)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = parsed.Execute(&text, p)
	// A line does not break between a number and its unit.
	return bytes.ReplaceAll(text.Bytes(), []byte(" %"), []byte("\u00a0%")), err
}

// Inline turns a document of SVG into an element of a page: without what comes
// before the element, and without the addresses that name its language, which a
// page knows.
func Inline(svg []byte) template.HTML {
	text := string(svg)
	if at := strings.Index(text, "<svg"); at > 0 {
		text = text[at:]
	}
	text = strings.NewReplacer(
		`xmlns="http://www.w3.org/2000/svg"`, "", `xmlns:xlink="http://www.w3.org/1999/xlink"`, "",
	).Replace(text)
	return template.HTML(text) //nolint:gosec // Drawn by this program, which escapes what it writes.
}
