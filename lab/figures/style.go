package figures

import (
	"image/color"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// style is how a series looks.
type style struct {
	line  draw.LineStyle
	glyph draw.GlyphStyle
}

// styleOf returns the style of the i-th series. Colours, shapes and dashes repeat
// with different periods, so that up to 105 series look different.
func styleOf(i int) style {
	// The palette of Okabe and Ito without its yellow, which is faint on white.
	colors := []color.RGBA{
		{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}, // blue
		{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff}, // vermilion
		{R: 0x00, G: 0x9e, B: 0x73, A: 0xff}, // bluish green
		{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff}, // reddish purple
		{R: 0x00, G: 0x00, B: 0x00, A: 0xff}, // black
		{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff}, // orange
		{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff}, // sky blue
	}
	shapes := []draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{}, draw.SquareGlyph{}, draw.RingGlyph{},
	}
	dashes := [][]vg.Length{nil, {vg.Points(6), vg.Points(3)}, {vg.Points(2), vg.Points(2)}}
	c := colors[i%len(colors)]
	return style{
		line:  draw.LineStyle{Color: c, Width: vg.Points(1.6), Dashes: dashes[i%len(dashes)]},
		glyph: draw.GlyphStyle{Color: c, Radius: vg.Points(3), Shape: shapes[i%len(shapes)]},
	}
}
