package experiments

import (
	"cmp"

	"github.com/elastalloc/elastalloc/lab/figures"
	"github.com/elastalloc/elastalloc/sim"
)

// series returns a policy's measure over the pools, with its spread where several
// runs were made.
func (f *Findings) series(name, setting string, source Source, policy string, measure func(*Row) Number) figures.Series {
	s := figures.Series{Name: name}
	runs := 1
	for _, nodes := range f.pools {
		row := f.row(setting, source, policy, nodes)
		n := measure(row)
		runs = max(runs, row.Runs)
		s.X, s.Y, s.Spread = append(s.X, float64(nodes)), append(s.Y, n.Mean), append(s.Spread, n.Spread)
	}
	if runs == 1 {
		s.Spread = nil
	}
	return s
}

// lines returns a drawing of series over the pools.
func (f *Findings) lines(name, title, label string, series ...figures.Series) drawing {
	return drawing{name, func() (*figures.Figure, error) {
		return figures.Lines(title, "nodes in the pool", label, series...)
	}}
}

// Figures draws the figures of all experiments.
func Figures(list []Experiment) ([]figures.Named, error) {
	var named []figures.Named
	for i := range list {
		for _, d := range list[i].figures {
			figure, err := d.draw()
			if err != nil {
				return nil, err
			}
			named = append(named, figures.Named{Name: d.name, Figure: figure})
		}
	}
	return named, nil
}

// compareMeans orders numbers by the mean of their means.
func compareMeans(a, b []Number) int { return cmp.Compare(sim.Mean(means(a)), sim.Mean(means(b))) }
