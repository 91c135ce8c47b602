package figures

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// Sample is a set of values and its name in the legend.
type Sample struct {
	Name   string
	Values []float64
}

// binsPerDecade is the number of bins per power of ten.
const binsPerDecade = 5

// Histogram draws the distribution of positive values on a logarithmic axis: the percentage
// of each sample in bins of equal width. Values below smallest count as that.
func Histogram(title, xLabel, yLabel string, smallest float64, samples ...Sample) (*Figure, error) {
	f := newFigure(title, xLabel, yLabel)
	f.plot.Add(plotter.NewGrid())
	bin := func(value float64) int {
		return int(math.Floor(binsPerDecade * math.Log10(max(value, smallest))))
	}
	first, last := bin(smallest), bin(smallest)
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
