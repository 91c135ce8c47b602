// Package chart renders small charts as SVG, without scripts and style sheets. Text and lines have the
// color of the surrounding text. The colors of areas are distinguishable on white and on black. Areas
// of the N-th color have the class cN, so that the style sheet of a page can replace the color.
package chart

import (
	"fmt"
	"html"
	"math"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/internal/text"
)

// Colors is the number of colors. Further series repeat them.
const Colors = 6

// Size and margins of a TimeSeries chart, in pixels.
const (
	width, height           = 360, 150
	marginLeft, marginRight = 40, 8
	marginTop, marginBottom = 12, 20
)

// shortestAxis is the smallest end of an axis, so that its labels have at most six characters.
const shortestAxis = 0.001

// TimeSeries is a chart of stacked columns over time.
type TimeSeries struct {
	// Title is the text alternative for readers who cannot see the chart.
	Title string
	// Start is the start of the first column, and Interval is the duration of each column.
	Start    time.Time
	Interval time.Duration
	// Series are the values of the columns, from the bottom up. All series have the same length. NaN means
	// no value.
	Series [][]float64
}

// SVG returns the chart. Without values it has only axes.
func (t *TimeSeries) SVG() string {
	var b strings.Builder
	columns, largest := 0, 0.0
	for _, series := range t.Series {
		columns = max(columns, len(series))
	}
	for n := range columns {
		largest = max(largest, t.sum(len(t.Series), n))
	}
	writeHeader(&b, width, height, 11, t.Title)
	axisEnd := max(shortestAxis, roundUp(largest))
	x := func(column float64) float64 {
		return marginLeft + (width-marginLeft-marginRight)*column/float64(max(1, columns))
	}
	y := func(value float64) float64 { return marginTop + (height-marginTop-marginBottom)*(1-value/axisEnd) }
	for _, share := range []float64{0, 0.5, 1} {
		at := y(share * axisEnd)
		writeLine(&b, marginLeft, at, width-marginRight, at)
		writeText(&b, marginLeft-5, at+4, "end", format.Number(share*axisEnd))
	}
	end := t.Start.Add(time.Duration(columns) * t.Interval)
	for hour := t.Start.Truncate(time.Hour); !hour.After(end) && columns > 0; hour = hour.Add(time.Hour) {
		at := x(float64(hour.Sub(t.Start)) / float64(t.Interval))
		if at < marginLeft+10 || at > width-marginRight-10 {
			continue // The label would exceed the chart or touch a label of the other axis.
		}
		writeLine(&b, at, height-marginBottom, at, height-marginBottom+4)
		writeText(&b, at, height-5, "middle", hour.Format("15:04"))
	}
	for i, series := range t.Series {
		fmt.Fprintf(&b, `<path %s d="`, areaAttributes(i))
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
func (t *TimeSeries) sum(series, column int) float64 {
	sum := 0.0
	for _, values := range t.Series[:series] {
		if column < len(values) && values[column] > 0 {
			sum += values[column]
		}
	}
	return sum
}

// roundUp returns the end of an axis for values up to x, such that half of it is a round number too.
func roundUp(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(x)))
	factors := []float64{1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8}
	if power == 1 {
		factors = []float64{1, 2, 4, 6, 8} // Half a job is not a round number.
	}
	for _, factor := range factors {
		if factor*power >= x {
			return factor * power
		}
	}
	return 10 * power
}

// Bar is a row of a Timeline: a dotted line until Start, a bar from Start to End, and a range from Low
// to High for the uncertain end. The positions are shares of the axis, 0 to 1.
type Bar struct {
	Name, Title           string
	Start, End, Low, High float64
	// Hidden omits the bar from Start to End. Open means that End is unknown.
	Hidden, Open bool
}

// Timeline is a chart of horizontal bars over a common time axis.
type Timeline struct {
	Title string
	// Span is the length of the axis, which Parts divides into equal parts. StartLabel is the label of
	// its start.
	Span       time.Duration
	Parts      int
	StartLabel string
	Bars       []Bar
	// Width is the width of the chart, and NameWidth the width of the column of names, in pixels.
	Width, NameWidth int
}

// Size of the rows of a Timeline, in pixels.
const (
	rowHeight    = 20
	maxCharWidth = 6.8
)

// SVG returns the chart.
func (c *Timeline) SVG() string {
	var b strings.Builder
	const headerHeight = 24
	axisWidth := float64(c.Width - c.NameWidth - 30) // leaves space for half of the last label
	x := func(share float64) float64 { return float64(c.NameWidth) + axisWidth*max(0, min(1, share)) }
	writeHeader(&b, c.Width, headerHeight+rowHeight*len(c.Bars)+4, 12, c.Title)
	for i := range c.Parts + 1 {
		share := float64(i) / float64(c.Parts)
		name := c.StartLabel
		if i > 0 {
			name = format.CoarseDuration(time.Duration(share * float64(c.Span)).Truncate(time.Second))
		}
		writeLine(&b, x(share), headerHeight-4, x(share), float64(headerHeight+rowHeight*len(c.Bars)))
		writeText(&b, x(share), 14, "middle", name)
	}
	for i, bar := range c.Bars {
		y := float64(headerHeight + rowHeight*i)
		fmt.Fprintf(&b, "<g><title>%s</title>\n", html.EscapeString(text.Printable(bar.Title)))
		writeText(&b, float64(c.NameWidth)-8, y+14, "end", truncate(text.Printable(bar.Name), int(float64(c.NameWidth-8)/maxCharWidth)))
		if bar.Start > 0 {
			fmt.Fprintf(&b, `<path d="M%.1f %.1fH%.1f" stroke="currentColor" stroke-opacity=".5" stroke-dasharray="2 4"/>`+"\n",
				x(0), y+10, x(bar.Start))
		}
		rect := func(from, to, inset float64, attributes string) {
			fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2" %s/>`+"\n",
				x(from), y+inset, max(1, x(to)-x(from)), rowHeight-2*inset, attributes)
		}
		if !bar.Hidden {
			attributes := areaAttributes(0)
			if bar.Open {
				attributes += ` fill-opacity=".5"`
			}
			rect(bar.Start, bar.End, 4, attributes)
		}
		if bar.High > bar.Low {
			rect(bar.Low, bar.High, 6, areaAttributes(1)+` fill-opacity=".7"`)
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// truncate returns a text of at most maxLength characters, with both ends of a long one: ids often differ only in their
// last characters.
func truncate(s string, maxLength int) string {
	runes := []rune(s)
	if len(runes) <= maxLength {
		return s
	}
	tail := max(0, maxLength-1) / 2
	return string(runes[:max(0, maxLength-1-tail)]) + "…" + string(runes[len(runes)-tail:])
}

func writeHeader(b *strings.Builder, width, height, size int, title string) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" `+
		`font-family="system-ui, sans-serif" font-size="%d" fill="currentColor" role="img">`+"\n<title>%s</title>\n",
		width, height, size, html.EscapeString(text.Printable(title)))
}

func writeLine(b *strings.Builder, x1, y1, x2, y2 float64) {
	fmt.Fprintf(b, `<path d="M%.1f %.1fL%.1f %.1f" stroke="currentColor" stroke-opacity=".25"/>`+"\n", x1, y1, x2, y2)
}

func writeText(b *strings.Builder, x, y float64, anchor, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(s))
}

// areaAttributes returns the SVG attributes of an area in the i-th color.
func areaAttributes(i int) string {
	// The palette of Okabe and Ito is distinguishable with all types of color vision.
	colors := [Colors]string{"#0072b2", "#e69f00", "#cc79a7", "#009e73", "#56b4e9", "#d55e00"}
	i %= Colors
	return fmt.Sprintf(`class="c%d" fill=%q`, i, colors[i])
}
