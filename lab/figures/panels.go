package figures

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// panelHeight is the height of one of several plots in a figure.
const panelHeight = 7 * vg.Centimeter

// stack returns a figure of plots one below the other. They show the same series, so that
// the legend is the first one's.
func stack(panels ...*Figure) *Figure {
	stacked := *panels[0]
	for _, panel := range panels[1:] {
		stacked.below = append(stacked.below, panel.plot)
	}
	return &stacked
}

// size returns the width and the height of the figure.
func (f *Figure) size() (w, h vg.Length) {
	w, h = width, height
	if f.width > 0 {
		w = f.width
	}
	switch panels := vg.Length(1 + len(f.below)); {
	case f.panel > 0:
		h = panels * f.panel
	case panels > 1:
		h = panels * panelHeight
	}
	return w, h
}

// drawPlots draws the plots one below the other.
func (f *Figure) drawPlots(c draw.Canvas) {
	plots := append([]*plot.Plot{f.plot}, f.below...)
	rest := c.Size().Y / vg.Length(len(plots))
	for i, p := range plots {
		top := vg.Length(i) * rest
		bottom := vg.Length(len(plots)-1-i) * rest
		if i > 0 {
			top += margin // to the plot above
		}
		p.Draw(draw.Crop(c, 0, 0, bottom, -top))
	}
}
