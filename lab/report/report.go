// Package report writes results as a self-contained HTML page.
package report

import (
	"bytes"
	_ "embed"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/lab/figures"
	"github.com/elastalloc/elastalloc/lab/results"
)

// Name is the name of the page's file.
const Name = "report.html"

// Page is a report.
type Page struct {
	Title string
	// Unit is the name of a node.
	Unit string
	// Lead is the summary in paragraphs, followed by Verdict and Figure.
	Lead    []string
	Verdict []Table
	Figure  figures.Named
	// Origin describes how, when and where the results were produced.
	Origin   results.Origin
	Sections []Section
}

// Section is a part of a report.
type Section struct {
	// Name is the anchor of the section.
	Name, Title string
	// Text contains the paragraphs before the tables and the figures.
	Text    []string
	Tables  []Table
	Figures []figures.Named
}

// Table is a table. The first column and TextColumns contain text, other columns contain numbers.
type Table struct {
	// Title, if set, makes the table collapsible.
	Title  string
	Header []string
	// Rows are the rows. A row with a single cell is a heading.
	Rows        [][]string
	TextColumns []int
	// Best contains the row and column of cells that are marked as the best of their row.
	Best map[[2]int]bool
	// Legend explains columns.
	Legend [][2]string
}

//go:embed style.css
var style string

//go:embed page.html.tmpl
var page string

// Write writes the page, its figures as SVG and PNG, and other files by their names, and
// commits all.
func (p *Page) Write(directory *results.Directory, others map[string][]byte) error {
	files, err := p.Files()
	if err != nil {
		return err
	}
	maps.Copy(files, others)
	for name, content := range files {
		if err := directory.Write(name, content); err != nil {
			return err
		}
	}
	return directory.Commit()
}

// Files returns the page and its figures, as SVG and PNG, by their names.
func (p *Page) Files() (map[string][]byte, error) {
	drawn := []figures.Named{p.Figure}
	for _, section := range p.Sections {
		drawn = append(drawn, section.Figures...)
	}
	files := make(map[string][]byte)
	var err error
	for _, named := range drawn {
		if files[named.Name+".svg"], err = named.Figure.SVG(); err != nil {
			return nil, err
		}
		if files[named.Name+".png"], err = named.Figure.PNG(); err != nil {
			return nil, err
		}
	}
	functions := template.FuncMap{
		"units": func(text string) string { return format.InUnits(text, p.Unit) },
		"style": func() template.CSS { return template.CSS(style) }, //nolint:gosec // Of this package.
		"draw":  func(f figures.Named) template.HTML { return inline(files[f.Name+".svg"]) },
		"text":  func(t Table, column int) bool { return column == 0 || slices.Contains(t.TextColumns, column) },
		"best":  func(t Table, row, column int) bool { return t.Best[[2]int{row, column}] },
	}
	parsed, err := template.New(Name).Funcs(functions).Parse(page)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = parsed.Execute(&text, p)
	files[Name] = text.Bytes()
	return files, err
}

// inline converts an SVG document into an element of an HTML page.
func inline(svg []byte) template.HTML {
	text := string(svg[max(0, bytes.Index(svg, []byte("<svg"))):])
	for _, name := range []string{`xmlns="http://www.w3.org/2000/svg"`, `xmlns:xlink="http://www.w3.org/1999/xlink"`} {
		text = strings.ReplaceAll(text, name, "")
	}
	return template.HTML(text) //nolint:gosec // Drawn by this program, which escapes what it writes.
}
