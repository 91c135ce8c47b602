package figures

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/color"
	"image/png"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// render renders a figure in both formats and checks that each can be parsed.
func render(t *testing.T, f *Figure) string {
	t.Helper()
	svg, err := f.SVG()
	if err != nil {
		t.Fatal(err)
	}
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("parse the SVG: %v", err)
		}
	}
	picture, err := f.PNG()
	if err != nil {
		t.Fatal(err)
	}
	image, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	if size := image.Bounds().Size(); size.X < 800 || size.Y < 500 {
		t.Errorf("the image has %v pixels", size)
	}
	colors := make(map[any]bool)
	for x := range image.Bounds().Dx() {
		for y := 0; y < image.Bounds().Dy() && len(colors) < 10; y++ {
			colors[image.At(x, y)] = true
		}
	}
	if len(colors) < 10 {
		t.Errorf("the image has %d colors; a part is missing", len(colors))
	}
	return string(svg)
}

func shows(t *testing.T, svg string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(svg, ">"+text+"</text>") {
			t.Errorf("the figure does not show %q", text)
		}
	}
}

func TestLines(t *testing.T) {
	f, err := Lines("Title", "pool", "time",
		Series{Name: "one", X: []float64{70, 90, 110}, Y: []float64{3, 2, 1}, Spread: []float64{1, 0.5, 0.2}},
		Series{Name: "two", X: []float64{70, 110}, Y: []float64{-1, 1}})
	if err != nil {
		t.Fatal(err)
	}
	svg := render(t, f)
	shows(t, svg, "Title", "pool", "time", "one", "two", "70", "90", "110")
	if !strings.Contains(svg, "sans-serif") {
		t.Error("a reader without the font would show one with serifs")
	}
}

func TestRoundTicks(t *testing.T) {
	for _, test := range []struct {
		lowest, highest float64
		want            string
	}{
		{-31, 97, "-20 0 20 40 60 80"},
		{0, 100, "0 20 40 60 80 100"},
		{0, 13.7, "0 2 4 6 8 10 12"},
		{0, 0.013, "0.000 0.002 0.004 0.006 0.008 0.010 0.012"},
		{1.2, 2.1, "1.2 1.4 1.6 1.8 2.0"},
		{-1, 1, "-1.0 -0.5 0.0 0.5 1.0"},
		{-0.3, 1, "-0.2 0.0 0.2 0.4 0.6 0.8 1.0"},
		{-0.1, 1, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{0, 1252, "0 200 400 600 800 1000 1200"},
	} {
		var labels []string
		for _, tick := range roundTicks(test.lowest, test.highest) {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != test.want {
			t.Errorf("%v to %v has the ticks %s; want %s", test.lowest, test.highest, got, test.want)
		}
	}
}

func TestLinesOfLittle(t *testing.T) {
	for name, series := range map[string][]Series{
		"nothing":    nil,
		"no point":   {{Name: "one"}},
		"one point":  {{Name: "one", X: []float64{70}, Y: []float64{0}}},
		"all equal":  {{Name: "one", X: []float64{70, 90}, Y: []float64{0, 0}}},
		"many ticks": {{Name: "one", X: []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, Y: make([]float64, 13)}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Lines("Title", "x", "y", series...)
			if err != nil {
				t.Fatal(err)
			}
			render(t, f)
		})
	}
}

func TestLinesRefuses(t *testing.T) {
	if _, err := Lines("", "", "", Series{Name: "one", X: []float64{1}}); err == nil {
		t.Error("a point can do without a Y")
	}
}

func TestDecisionTimes(t *testing.T) {
	f, err := DecisionTimes("Title",
		Sample{Name: "one", Values: []float64{0, 0.5, 0.6, 20}}, Sample{Name: "none"})
	if err != nil {
		t.Fatal(err)
	}
	shows(t, render(t, f), "Title", "time of a decision (ms)", "decisions (%)", "one", "0.001", "0.01", "0.1", "1", "10")
}

func TestStylesDiffer(t *testing.T) {
	seen := make(map[any]bool)
	for i := range 60 {
		s := styleOf(i)
		look := [3]any{s.line.Color, len(s.line.Dashes) * 100, s.glyph.Shape}
		if s.line.Dashes != nil {
			look[1] = s.line.Dashes[0]
		}
		if seen[look] {
			t.Fatalf("series %d looks like one before", i)
		}
		seen[look] = true
	}
}

// TestFourSeriesInGrayscale: the first four series differ in luminance, each is visible on white, and
// no two have the same dashes or the same mark.
func TestFourSeriesInGrayscale(t *testing.T) {
	const apart, palest = 35, 180
	for i := range 4 {
		one := styleOf(i)
		if gray := color.GrayModel.Convert(one.line.Color).(color.Gray).Y; gray > palest {
			t.Errorf("series %d has the gray %d; must be at most %d", i, gray, palest)
		}
		for k := range i {
			other := styleOf(k)
			a, b := color.GrayModel.Convert(one.line.Color).(color.Gray).Y, color.GrayModel.Convert(other.line.Color).(color.Gray).Y
			if d := int(a) - int(b); max(d, -d) < apart {
				t.Errorf("series %d and %d have the grays %d and %d; must be %d apart", k, i, b, a, apart)
			}
			if slices.Equal(one.line.Dashes, other.line.Dashes) || one.glyph.Shape == other.glyph.Shape {
				t.Errorf("series %d and %d have the same dashes or marks", k, i)
			}
		}
	}
}

// TestAtMostFourLines: however many policies run, a figure shows four, among them the best one, what it
// is compared with and the baseline.
func TestAtMostFourLines(t *testing.T) {
	var runs []*sim.Result
	for n, policy := range []string{"srpt", "greedy", "optimal", "hesrpt", "total-time", "total-time-waiting", "max-min", "fifo"} {
		for _, nodes := range []int{70, 90} {
			runs = append(runs, &sim.Result{
				Policy: policy, Nodes: nodes, Jobs: []sim.JobResult{{End: time.Duration(9-n) * time.Minute}},
				Decisions: []sim.Decision{{SolveTime: time.Millisecond}},
			})
		}
	}
	summary := results.Summarize(runs, "greedy", 0, sim.Cuts{})
	summary.Conclude(results.Conditions{})
	named, err := OfRuns(runs, &summary)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range named {
		svg := render(t, n.Figure)
		for _, policy := range []string{"srpt", "optimal", "hesrpt", "total-time"} {
			if strings.Contains(svg, ">"+policy+"</text>") {
				t.Errorf("%s shows %s", n.Name, policy)
			}
		}
	}
	shows(t, render(t, named[0].Figure), "greedy", "total-time-waiting", "max-min", "fifo")
}

// TestReadableOnAPhone: a figure is no wider than a page of 400 pixels, in which it is not scaled down,
// and no text is smaller than 10 points.
func TestReadableOnAPhone(t *testing.T) {
	f, err := Lines("Title", "x", "y", Series{Name: "one", X: []float64{1, 2}, Y: []float64{1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	svg := render(t, f)
	const pagePoints = 400 * 72 / 96
	if f.width > pagePoints {
		t.Errorf("a figure is %v points wide; must be at most %d", f.width, pagePoints)
	}
	for _, size := range regexp.MustCompile(`font-size:([0-9.]+)px`).FindAllStringSubmatch(svg, -1) {
		if points, err := strconv.ParseFloat(size[1], 64); err != nil || points < 10 {
			t.Errorf("a text has the size %s (%v); must be at least 10", size[1], err)
		}
	}
}

// TestBarColors checks that a bar has the color of its policy in other figures, not of its position.
func TestBarColors(t *testing.T) {
	series := []Series{{Name: "b", Style: 3, Y: []float64{1}}, {Name: "a", Y: []float64{2}}}
	if barStyle(series, 0).line.Color != styleOf(2).line.Color || barStyle(series, 1).line.Color != styleOf(1).line.Color {
		t.Error("a bar has another color than its series")
	}
}

func TestOfRuns(t *testing.T) {
	var runs []*sim.Result
	for _, policy := range []string{"optimal", "greedy"} {
		for _, nodes := range []int{90, 70} {
			run := &sim.Result{Policy: policy, Nodes: nodes, Decisions: []sim.Decision{{SolveTime: time.Millisecond}}}
			for n := range 150 {
				run.Jobs = append(run.Jobs, sim.JobResult{End: time.Duration(n*nodes) * time.Second})
			}
			runs = append(runs, run)
		}
	}
	for baseline, want := range map[string][]string{
		"greedy": {
			"total_time", "queueing_time", "unserved_time", "changes", "later", "additional_jobs", "utilization", "distribution", "decision_times",
		},
		"fifo": {"total_time", "queueing_time", "unserved_time", "changes", "later", "utilization", "distribution", "decision_times"},
	} {
		named, err := OfRuns(runs, new(results.Summarize(runs, baseline, 0, sim.Cuts{})))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range named {
			got = append(got, n.Name)
			render(t, n.Figure)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("against %s the figures are %v; want %v", baseline, got, want)
		}
	}
}

func TestOfRunsWithTeams(t *testing.T) {
	var runs []*sim.Result
	for _, policy := range []string{catalog.Partitions, "total-time", "recorded"} {
		for _, nodes := range []int{90, 70} {
			run := &sim.Result{
				Policy: policy, Nodes: nodes, Groups: []solver.Group{{ID: "a"}, {ID: "b"}}, Utilization: 0.5,
				Decisions: []sim.Decision{{SolveTime: time.Millisecond}},
				Jobs:      []sim.JobResult{{Group: "a", End: time.Minute}, {Group: "b", End: time.Duration(nodes) * time.Second}},
			}
			if policy == "recorded" {
				run.Utilization = math.NaN()
			}
			runs = append(runs, run)
		}
	}
	for _, want := range []bool{true, false} {
		named, err := OfRuns(runs, new(results.Summarize(runs, "total-time", 0, sim.Cuts{})))
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(named, func(n Named) bool { return n.Name == "worst_team" })
		if i >= 0 {
			render(t, named[i].Figure)
		}
		if drawn := i >= 0; drawn != want {
			t.Errorf("the figures contain worst_team: %v; want %v", drawn, want)
		}
		runs = runs[2:] // those of the partitions
	}
}
