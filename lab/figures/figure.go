// Package figures renders results of simulations as SVG and PNG, in the width of a phone. Series differ
// in color, in the shape of their marks and in dashes. The colors are distinct for all kinds of color
// vision, and the first four in grayscale.
package figures

import (
	"bytes"
	"fmt"
	"image/color"
	"image/png"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The size of a figure, and the pixels per inch of one in PNG.
const (
	width         = 10 * vg.Centimeter
	height        = 6.5 * vg.Centimeter
	margin        = 0.2 * vg.Centimeter
	pixelsPerInch = 240
)

// Figure is a drawing.
type Figure struct {
	plot          *plot.Plot
	legend        plot.Legend
	width, height vg.Length
}

// Series is points of one kind, joined by a line.
type Series struct {
	// Name is shown in the legend.
	Name string
	// X and Y are the coordinates of the points, and Spread, if not nil, the length of each
	// one's error bar to either side.
	X, Y, Spread []float64
	// Style is the number of the style, from 1 on, which makes a series look the same in several
	// figures. 0 means the position of the series.
	Style int
	// Minor limits the y axis to the other series if this series is more than twice as high. Its
	// maximum is then appended to its name.
	Minor bool
}

// Lines plots series over a common x axis. The y axis includes 0.
func Lines(title, xLabel, yLabel string, series ...Series) (*Figure, error) {
	f := newFigure(title, xLabel, yLabel)
	f.plot.Add(plotter.NewGrid())
	f.plot.Y.Min, f.plot.Y.Max = 0, 0
	series = cutMinor(series)
	for i, s := range series {
		if len(s.X) != len(s.Y) || (s.Spread != nil && len(s.Spread) != len(s.Y)) {
			return nil, fmt.Errorf("series %q has %d X, %d Y and %d spreads", s.Name, len(s.X), len(s.Y), len(s.Spread))
		}
		if s.Style > 0 {
			i = s.Style - 1
		}
		if err := f.addSeries(s, styleOf(i)); err != nil {
			return nil, fmt.Errorf("series %q: %w", s.Name, err)
		}
	}
	f.plot.X.Tick.Marker = ticksAt(series)
	if top := topOfMajor(series); top > 0 {
		f.plot.Y.Max = min(f.plot.Y.Max, top)
	}
	f.padAxes()
	return f, nil
}

// topOfMajor returns the largest value of the series that are not minor, 0 if all are.
func topOfMajor(series []Series) float64 {
	top := 0.0
	for _, s := range series {
		for i, y := range s.Y {
			if s.Minor {
				break
			}
			if s.Spread != nil {
				y += s.Spread[i]
			}
			top = max(top, y)
		}
	}
	return top
}

// cutMinor appends the maximum to the names of minor series that are more than twice as high as the others,
// and makes other minor series major.
func cutMinor(series []Series) []Series {
	top := topOfMajor(series)
	cut := slices.Clone(series)
	for i := range cut {
		s := &cut[i]
		if !s.Minor || len(s.Y) == 0 {
			continue
		}
		highest := slices.Max(s.Y)
		if s.Minor = highest > 2*top; s.Minor && top > 0 {
			s.Name = fmt.Sprintf("%s (to %.0f)", s.Name, highest)
		}
	}
	return cut
}

// maxTicks is the largest number of points with individual labels.
const maxTicks = 12

// ticksAt marks an axis at the points of series, if these are at most maxTicks.
func ticksAt(series []Series) plot.Ticker {
	var at []float64
	for _, s := range series {
		at = append(at, s.X...)
	}
	slices.Sort(at)
	at = slices.Compact(at)
	if len(at) > maxTicks {
		return plot.DefaultTicks{}
	}
	ticks := make(plot.ConstantTicks, len(at))
	for i, x := range at {
		ticks[i] = plot.Tick{Value: x, Label: strconv.FormatFloat(x, 'f', -1, 64)}
	}
	return ticks
}

// roundTicks marks an axis at multiples of 1, 2 or 5 times a power of ten.
func roundTicks(lowest, highest float64) []plot.Tick {
	const most = 9
	step := math.Pow(10, math.Floor(math.Log10((highest-lowest)/most)))
	for _, factor := range []float64{2, 2.5, 2} {
		if (highest-lowest)/step < most {
			break
		}
		step *= factor
	}
	decimals := max(0, -int(math.Floor(math.Log10(step))))
	var ticks []plot.Tick
	for n := math.Ceil(lowest/step) + 0; n*step <= highest; n++ { // -0 + 0 = 0
		ticks = append(ticks, plot.Tick{Value: n * step, Label: strconv.FormatFloat(n*step, 'f', decimals, 64)})
	}
	return ticks
}

func (f *Figure) addSeries(s Series, style style) error {
	points := make(plotter.XYs, len(s.X))
	for n := range points {
		points[n] = plotter.XY{X: s.X[n], Y: s.Y[n]}
	}
	line, scatter, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.LineStyle = style.line
	scatter.GlyphStyle = style.glyph
	if s.Spread != nil {
		spread := make(plotter.YErrors, len(s.Spread))
		for n, length := range s.Spread {
			spread[n].Low, spread[n].High = length, length
		}
		bars, err := plotter.NewYErrorBars(struct {
			plotter.XYs
			plotter.YErrors
		}{points, spread})
		if err != nil {
			return err
		}
		bars.Color = style.line.Color
		f.plot.Add(bars)
	}
	f.plot.Add(line, scatter)
	f.legend.Add(s.Name, line, scatter)
	return nil
}

func newFigure(title, xLabel, yLabel string) *Figure {
	p := plot.New()
	p.BackgroundColor = nil // The canvas is white. To fill it again takes half the time of drawing.
	sans := func(size vg.Length) font.Font {
		return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	}
	p.Y.Tick.Marker = plot.TickerFunc(roundTicks)
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, xLabel, yLabel
	p.Title.TextStyle.Font = sans(11)
	p.Title.Padding = vg.Points(6)
	legend := plot.NewLegend()
	legend.TextStyle.Font = sans(10)
	legend.Left = true
	legend.ThumbnailWidth = 1 * vg.Centimeter
	legend.Padding = vg.Points(2)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font = sans(10)
		axis.Label.Padding = vg.Points(4)
		axis.Tick.Label.Font = sans(10)
	}
	return &Figure{plot: p, legend: legend, width: width, height: height}
}

// padAxes gives an axis of one value some length, and the figure some room at the top.
func (f *Figure) padAxes() {
	for _, axis := range []*plot.Axis{&f.plot.X, &f.plot.Y} {
		if axis.Min >= axis.Max {
			axis.Min, axis.Max = axis.Min-1, axis.Max+1
		}
	}
	f.plot.Y.Max += (f.plot.Y.Max - f.plot.Y.Min) / 20
}

// SVG returns the figure as a document of scalable vector graphics.
func (f *Figure) SVG() ([]byte, error) {
	canvas := vgsvg.New(f.width, f.heightWithLegend())
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Path())
	f.render(c)
	var text bytes.Buffer
	_, err := canvas.WriteTo(&text)
	// Without a fallback, viewers that lack the font would use one with serifs.
	return bytes.ReplaceAll(text.Bytes(), []byte("font-family:Liberation Sans;"),
		[]byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")), err
}

// PNG returns the figure as an image.
func (f *Figure) PNG() ([]byte, error) {
	canvas := vgimg.NewWith(vgimg.UseWH(f.width, f.heightWithLegend()), vgimg.UseDPI(pixelsPerInch)) // A white one.
	f.render(draw.New(canvas))
	var content bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	err := encoder.Encode(&content, canvas.Image())
	return content.Bytes(), err
}

// render renders the plot and the legend below it on a white canvas.
func (f *Figure) render(c draw.Canvas) {
	c = draw.Crop(c, margin, -margin, margin, -margin)
	f.plot.Draw(draw.Crop(c, 0, -margin, f.heightWithLegend()-f.height, 0))
	f.legend.Draw(c)
}

// heightWithLegend returns the height of the figure and of the legend below it.
func (f *Figure) heightWithLegend() vg.Length {
	return f.height + f.legend.Rectangle(draw.New(vgsvg.New(f.width, f.height))).Size().Y + margin
}

type style struct {
	line  draw.LineStyle
	glyph draw.GlyphStyle
}

// styleOf returns the style of the i-th series, of which up to 140 look different.
func styleOf(i int) style {
	// After four that are distinct in grayscale, others of the palette of Okabe and Ito, without its
	// yellow, which is faint on white.
	colors := []color.RGBA{
		{R: 0x00, G: 0x00, B: 0x00, A: 0xff}, // black
		{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff}, // reddish purple
		{R: 0x00, G: 0x50, B: 0xa0, A: 0xff}, // dark blue
		{R: 0x00, G: 0x9e, B: 0x73, A: 0xff}, // bluish green
		{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff}, // vermilion
		{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff}, // orange
		{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff}, // sky blue
	}
	shapes := []draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{}, draw.SquareGlyph{}, draw.RingGlyph{},
	}
	dashes := [][]vg.Length{
		nil, {vg.Points(6), vg.Points(3)}, {vg.Points(2), vg.Points(2)}, {vg.Points(8), vg.Points(2), vg.Points(2), vg.Points(2)},
	}
	c := colors[i%len(colors)]
	return style{
		line:  draw.LineStyle{Color: c, Width: vg.Points(1.6), Dashes: dashes[i%len(dashes)]},
		glyph: draw.GlyphStyle{Color: c, Radius: vg.Points(3), Shape: shapes[i%len(shapes)]},
	}
}

// Sample is a set of values and its name in the legend.
type Sample struct {
	Name   string
	Values []float64
}

// binsPerDecade is the number of bins per power of ten.
const binsPerDecade = 5

// shortestDecision is what shorter decisions count as in a histogram, in milliseconds.
const shortestDecision = 0.001

// DecisionTimes plots histograms of decision times, in milliseconds, on a logarithmic axis, as percentages of
// each sample.
func DecisionTimes(title string, samples ...Sample) (*Figure, error) {
	f := newFigure(title, "time of a decision (ms)", "decisions (%)")
	f.plot.Add(plotter.NewGrid())
	bin := func(millis float64) int {
		return int(math.Floor(binsPerDecade * math.Log10(max(millis, shortestDecision))))
	}
	first, last := bin(shortestDecision), bin(shortestDecision)
	for _, sample := range samples {
		for _, value := range sample.Values {
			last = max(last, bin(value))
		}
	}
	for i, sample := range samples {
		if len(sample.Values) == 0 {
			continue
		}
		shares := make([]float64, last-first+1)
		for _, value := range sample.Values {
			shares[bin(value)-first] += 100 / float64(len(sample.Values))
		}
		// The outline goes up and down at the edges of the bins.
		outline := plotter.XYs{{X: float64(first) / binsPerDecade}}
		for n, share := range shares {
			left, right := float64(first+n)/binsPerDecade, float64(first+n+1)/binsPerDecade
			outline = append(outline, plotter.XY{X: left, Y: share}, plotter.XY{X: right, Y: share})
		}
		outline = append(outline, plotter.XY{X: float64(last+1) / binsPerDecade})
		line, err := plotter.NewLine(outline)
		if err != nil {
			return nil, fmt.Errorf("sample %q: %w", sample.Name, err)
		}
		line.LineStyle = styleOf(i).line
		f.plot.Add(line)
		f.legend.Add(sample.Name, line)
	}
	f.plot.X.Min, f.plot.X.Max = float64(first)/binsPerDecade, float64(last+1)/binsPerDecade
	f.plot.X.Tick.Marker = logTicks(1)
	f.plot.Y.Min = 0
	f.padAxes()
	return f, nil
}

// logTicks marks an axis that shows logarithms at all multiples of the powers of ten, and
// labels some of them.
func logTicks(labelled ...int) plot.TickerFunc {
	return func(lowest, highest float64) []plot.Tick {
		var ticks []plot.Tick
		for power := math.Floor(lowest); power <= highest; power++ {
			for multiple := 1; multiple < 10; multiple++ {
				at := power + math.Log10(float64(multiple))
				if at < lowest || at > highest {
					continue
				}
				tick := plot.Tick{Value: at}
				if slices.Contains(labelled, multiple) {
					tick.Label = strconv.FormatFloat(float64(multiple)*math.Pow(10, power), 'f', max(0, int(-power)), 64)
				}
				ticks = append(ticks, tick)
			}
		}
		return ticks
	}
}
