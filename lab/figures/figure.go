package figures

import (
	"bytes"
	"fmt"
	"image/color"
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
	width         = 17 * vg.Centimeter
	height        = 10 * vg.Centimeter
	margin        = 0.3 * vg.Centimeter
	pixelsPerInch = 160
)

// Figure is a drawing.
type Figure struct {
	plot   *plot.Plot
	legend plot.Legend
}

// Series is points of one kind, joined by a line.
type Series struct {
	// Name is what the legend calls the series.
	Name string
	// X and Y are the points, as many of both.
	X, Y []float64
	// Spread, where there is one, is how far each point's Y varies to either side,
	// drawn as a bar.
	Spread []float64
}

// Lines draws series over a common axis, whose zero is always in the picture.
func Lines(title, xLabel, yLabel string, series ...Series) (*Figure, error) {
	f := newFigure(title, xLabel, yLabel)
	f.plot.Add(plotter.NewGrid())
	f.plot.Y.Min, f.plot.Y.Max = 0, 0
	for i, s := range series {
		if len(s.X) != len(s.Y) || (s.Spread != nil && len(s.Spread) != len(s.Y)) {
			return nil, fmt.Errorf("series %q has %d X, %d Y and %d spreads", s.Name, len(s.X), len(s.Y), len(s.Spread))
		}
		if err := f.addSeries(s, styleOf(i)); err != nil {
			return nil, fmt.Errorf("series %q: %w", s.Name, err)
		}
	}
	f.plot.X.Tick.Marker = ticksAt(series)
	f.breathe()
	return f, nil
}

// mostTicks is how many points an axis names one by one.
const mostTicks = 12

// ticksAt marks an axis where the points of series are, if they are few.
func ticksAt(series []Series) plot.Ticker {
	var at []float64
	for _, s := range series {
		at = append(at, s.X...)
	}
	slices.Sort(at)
	at = slices.Compact(at)
	if len(at) > mostTicks {
		return plot.DefaultTicks{}
	}
	ticks := make(plot.ConstantTicks, len(at))
	for i, x := range at {
		ticks[i] = plot.Tick{Value: x, Label: strconv.FormatFloat(x, 'f', -1, 64)}
	}
	return ticks
}

// addSeries draws the points, the line through them and their spread.
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
		spread := spreadPoints{XYs: points, spread: s.Spread}
		bars, err := plotter.NewYErrorBars(spread)
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

// spreadPoints is points and how far each varies.
type spreadPoints struct {
	plotter.XYs
	spread []float64
}

// YError returns how far point i varies downwards and upwards.
func (p spreadPoints) YError(i int) (low, high float64) { return p.spread[i], p.spread[i] }

// newFigure returns an empty figure with readable letters.
func newFigure(title, xLabel, yLabel string) *Figure {
	p := plot.New()
	sans := func(size vg.Length) font.Font {
		return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	}
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, xLabel, yLabel
	p.Title.TextStyle.Font = sans(13)
	p.Title.Padding = vg.Points(10)
	legend := plot.NewLegend()
	legend.TextStyle.Font = sans(10)
	legend.Top, legend.Left = true, true
	legend.ThumbnailWidth = 1 * vg.Centimeter
	legend.Padding = vg.Points(4)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font = sans(11)
		axis.Label.Padding = vg.Points(4)
		axis.Tick.Label.Font = sans(10)
	}
	return &Figure{plot: p, legend: legend}
}

// breathe gives axes on which all values are the same some length.
func (f *Figure) breathe() {
	for _, axis := range []*plot.Axis{&f.plot.X, &f.plot.Y} {
		if axis.Min >= axis.Max {
			axis.Min, axis.Max = axis.Min-1, axis.Max+1
		}
	}
	f.plot.Y.Max += (f.plot.Y.Max - f.plot.Y.Min) / 20
}

// SVG returns the figure as a document of scalable vector graphics.
func (f *Figure) SVG() ([]byte, error) {
	canvas := vgsvg.New(width, height)
	f.draw(draw.New(canvas))
	var text bytes.Buffer
	_, err := canvas.WriteTo(&text)
	// Where that font is missing, a reader would fall back to one with serifs.
	return bytes.ReplaceAll(text.Bytes(), []byte("font-family:Liberation Sans;"),
		[]byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")), err
}

// PNG returns the figure as an image.
func (f *Figure) PNG() ([]byte, error) {
	canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(pixelsPerInch))}
	f.draw(draw.New(canvas))
	var content bytes.Buffer
	_, err := canvas.WriteTo(&content)
	return content.Bytes(), err
}

// draw draws the plot and, to its right where nothing can hide it, the legend.
func (f *Figure) draw(c draw.Canvas) {
	c.SetColor(color.White)
	c.Fill(c.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)
	legendWidth := f.legend.Rectangle(c).Size().X + 2*margin
	f.plot.Draw(draw.Crop(c, 0, -legendWidth, 0, 0))
	below := f.plot.Title.TextStyle.Font.Size + 2*f.plot.Title.Padding
	f.legend.Draw(draw.Crop(c, c.Size().X-legendWidth+margin, 0, 0, -below))
}
