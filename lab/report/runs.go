package report

import (
	"fmt"

	"github.com/elastalloc/elastalloc/lab/figures"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/sim"
)

// WriteRuns writes the files of runs, with the page about them, and commits them.
func WriteRuns(
	directory *results.Directory, runs []*sim.Result, summary results.Summary, seed uint64, page *Page,
) error {
	text, err := summary.JSON()
	if err != nil {
		return err
	}
	if err := directory.Write(results.SummaryName, text); err != nil {
		return err
	}
	if err := directory.Write(results.JobsName, results.JobsCSV(runs, seed)); err != nil {
		return err
	}
	html, err := page.HTML()
	if err != nil {
		return err
	}
	if err := directory.Write(Name, html); err != nil {
		return err
	}
	drawn := []figures.Named{page.Figure}
	for _, section := range page.Sections {
		drawn = append(drawn, section.Figures...)
	}
	for _, figure := range drawn {
		if err := WriteFigure(directory, figure); err != nil {
			return err
		}
	}
	return directory.Commit()
}

// WriteFigure writes a figure as SVG and PNG.
func WriteFigure(directory *results.Directory, named figures.Named) error {
	svg, err := named.Figure.SVG()
	if err != nil {
		return err
	}
	png, err := named.Figure.PNG()
	if err != nil {
		return err
	}
	if err := directory.Write(named.Name+".svg", svg); err != nil {
		return err
	}
	return directory.Write(named.Name+".png", png)
}

// HasTeams reports whether teams shared the pools of the runs.
func HasTeams(summary results.Summary) bool { return len(summary.Runs[0].Teams) > 0 }

// Later writes the share of a run's jobs that end later than under equal shares,
// "" for equal shares themselves and where they were not run.
func Later(s *sim.Summary) string {
	if s.LaterShare == nil || s.Policy == sim.MaxMinPolicy {
		return ""
	}
	return Percent(*s.LaterShare)
}

// Minutes writes seconds as minutes.
func Minutes(seconds float64) string { return fmt.Sprintf("%.1f", seconds/60) }

// PerJob returns the changes of nodes per job.
func PerJob(s *sim.Summary) float64 { return float64(s.Rescales) / float64(max(1, s.Jobs)) }

// Percent writes a share; one that is not 0 does not look like it.
func Percent(share float64) string {
	if share > 0 && share <= 0.005 {
		return "under 1 %"
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}
