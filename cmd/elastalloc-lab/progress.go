package main

import (
	"fmt"
	"io"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
)

// progress is a status line on a terminal; the zero value shows nothing.
type progress struct{ terminal io.Writer }

// newProgress returns the progress for a writer; it shows nothing unless the writer is a
// terminal.
func newProgress(w io.Writer) progress {
	if !cli.IsTerminal(w) {
		return progress{}
	}
	return progress{terminal: w}
}

// show replaces the text.
func (p progress) show(layout string, args ...any) {
	if p.terminal != nil {
		p.clear()
		fmt.Fprint(p.terminal, format.Printable(fmt.Sprintf(layout, args...)))
	}
}

// clear removes the text.
func (p progress) clear() {
	if p.terminal != nil {
		fmt.Fprint(p.terminal, "\r\x1b[K")
	}
}
