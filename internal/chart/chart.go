// Package chart draws small pictures as SVG, without script and style sheet: text and lines in
// the colour of what is around, and areas that can be told apart on white and on black. The
// class cN of the N-th colour lets a page's style choose another.
package chart

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/internal/text"
)

// Colors is the number of colours; series beyond them have them again.
const Colors = 6

// The size of a picture over time, and what its axes take of it, in pixels.
const (
	width, height = 360, 150
	left, right   = 38, 8
	top, bottom   = 12, 20
)

// Times is values over time, as stacked columns.
type Times struct {
	// Title is what a reader who sees no picture is told.
	Title string
	// From is the begin of the first column, and Each how long each is.
	From time.Time
	Each time.Duration
	// Series are from the bottom up, with as many columns each. NaN is not drawn.
	Series [][]float64
}

// SVG returns the picture. Of nothing it is the axes alone.
func (t *Times) SVG() string {
	var b strings.Builder
	columns, most := 0, 0.0
	for _, series := range t.Series {
		columns = max(columns, len(series))
	}
	for n := range columns {
		most = max(most, t.sum(len(t.Series), n))
	}
	begin(&b, width, height, 11, t.Title)
	most = roundUp(most)
	x := func(column float64) float64 { return left + (width-left-right)*column/float64(max(1, columns)) }
	y := func(value float64) float64 { return top + (height-top-bottom)*(1-value/most) }
	for _, share := range []float64{0, 0.5, 1} {
		at := y(share * most)
		line(&b, left, at, width-right, at)
		label(&b, left-5, at+4, "end", strconv.FormatFloat(share*most, 'g', 3, 64))
	}
	to := t.From.Add(time.Duration(columns) * t.Each)
	for hour := t.From.Truncate(time.Hour); !hour.After(to) && columns > 0; hour = hour.Add(time.Hour) {
		at := x(float64(hour.Sub(t.From)) / float64(t.Each))
		if at < left+10 || at > width-right-10 {
			continue // Its label would leave the picture, or touch that of the other axis.
		}
		line(&b, at, height-bottom, at, height-bottom+4)
		label(&b, at, height-5, "middle", hour.Format("15:04"))
	}
	for i, series := range t.Series {
		fmt.Fprintf(&b, `<path %s d="`, paint(i))
		for n := range series {
			if below, above := t.sum(i, n), t.sum(i+1, n); above > below {
				fmt.Fprintf(&b, "M%.1f %.1fH%.1fV%.1fH%.1fz", x(float64(n)), y(below), x(float64(n+1)), y(above), x(float64(n)))
			}
		}
		b.WriteString("\"/>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// sum returns the sum of the first series in a column.
func (t *Times) sum(series, column int) float64 {
	sum := 0.0
	for _, values := range t.Series[:series] {
		if column < len(values) && values[column] > 0 {
			sum += values[column]
		}
	}
	return sum
}

// roundUp returns the end of an axis for values up to x, with a round number in its middle.
func roundUp(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(x)))
	factors := []float64{1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8}
	if power == 1 {
		factors = []float64{1, 2, 4, 6, 8} // Half a job is no round number.
	}
	for _, factor := range factors {
		if factor*power >= x {
			return factor * power
		}
	}
	return 10 * power
}

// Bar is when something waits and goes on: a line up to Start, a bar to End, and a range, Low to
// High, in which it may end. All are shares of the width, 0 to 1.
type Bar struct {
	Name, Title           string
	Start, End, Low, High float64
	// Never says that there is no bar, and Open that its end is not known.
	Never, Open bool
}

// Bars are bars one below the other over a common axis of time.
type Bars struct {
	Title string
	// Span is how long the axis is, in Parts of equal length, from what Begin names on.
	Span  time.Duration
	Parts int
	Begin string
	Bars  []Bar
	// Width and Label are the pixels of the picture and, in it, of names.
	Width, Label int
}

// The height of a bar with the room around it, and the width of a letter at most.
const (
	row    = 20
	letter = 6.8
)

// SVG returns the picture.
func (c *Bars) SVG() string {
	var b strings.Builder
	const head = 24
	room := float64(c.Width - c.Label - 30) // half of the last label is right of it
	x := func(share float64) float64 { return float64(c.Label) + room*max(0, min(1, share)) }
	begin(&b, c.Width, head+row*len(c.Bars)+4, 12, c.Title)
	for i := range c.Parts + 1 {
		share := float64(i) / float64(c.Parts)
		name := c.Begin
		if i > 0 {
			name = format.Span(time.Duration(share * float64(c.Span)).Truncate(time.Second))
		}
		line(&b, x(share), head-4, x(share), float64(head+row*len(c.Bars)))
		label(&b, x(share), 14, "middle", name)
	}
	for i, bar := range c.Bars {
		y := float64(head + row*i)
		fmt.Fprintf(&b, "<g><title>%s</title>\n", html.EscapeString(text.Printable(bar.Title)))
		label(&b, float64(c.Label)-8, y+14, "end", clip(text.Printable(bar.Name), int(float64(c.Label-8)/letter)))
		if bar.Start > 0 {
			fmt.Fprintf(&b, `<path d="M%.1f %.1fH%.1f" stroke="currentColor" stroke-opacity=".5" stroke-dasharray="2 4"/>`+"\n", x(0), y+10, x(bar.Start))
		}
		rect := func(from, to, inset float64, look string) {
			fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2" %s/>`+"\n", x(from), y+inset, max(1, x(to)-x(from)), row-2*inset, look)
		}
		if !bar.Never {
			look := paint(0)
			if bar.Open {
				look += ` fill-opacity=".5"`
			}
			rect(bar.Start, bar.End, 4, look)
		}
		if bar.High > bar.Low {
			rect(bar.Low, bar.High, 6, paint(1)+` fill-opacity=".7"`)
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func clip(s string, most int) string {
	if letters := []rune(s); len(letters) > most {
		return string(letters[:max(0, most-1)]) + "…"
	}
	return s
}

func begin(b *strings.Builder, width, height, size int, title string) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" `+
		`font-family="system-ui, sans-serif" font-size="%d" fill="currentColor" role="img">`+"\n<title>%s</title>\n",
		width, height, size, html.EscapeString(text.Printable(title)))
}

func line(b *strings.Builder, x1, y1, x2, y2 float64) {
	fmt.Fprintf(b, `<path d="M%.1f %.1fL%.1f %.1f" stroke="currentColor" stroke-opacity=".25"/>`+"\n", x1, y1, x2, y2)
}

func label(b *strings.Builder, x, y float64, anchor, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(s))
}

// paint returns the attributes of an area of the i-th colour.
func paint(i int) string {
	// Those of Okabe and Ito are distinct for all kinds of colour vision.
	colors := [Colors]string{"#0072b2", "#e69f00", "#cc79a7", "#009e73", "#56b4e9", "#d55e00"}
	i %= Colors
	return fmt.Sprintf(`class="c%d" fill=%q`, i, colors[i])
}
