package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/lab/statistics"
	"github.com/elastalloc/elastalloc/solver"
)

// nothing represents a missing value in a table.
const nothing = "-"

func writeBenchJSON(w io.Writer, rows []benchRow) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Results []benchRow `json:"results"`
	}{rows})
}

func writeBenchTable(w io.Writer, rows []benchRow, candidates []candidate, screen cli.Screen) error {
	_, err := fmt.Fprintf(w, "%s\n%s\n%s", rowTable(rows, screen), summaryTable(rows, candidates, screen), benchFooter(candidates))
	return err
}

// rowTable returns the table of the rows, grouped by instance.
func rowTable(rows []benchRow, screen cli.Screen) *cli.Table {
	t := screen.NewTable().AlignRight(2, 6)
	t.AddRow(screen.Bold, "BACKEND", "REASON", "OBJECTIVE", "BOUND", "GAP", "TIME", "TO FASTEST")
	fastest := fastestOptima(rows)
	for i := range rows {
		row := &rows[i]
		if i == 0 || rows[i-1].Instance != row.Instance {
			t.AddLine(screen.Bold, fmt.Sprintf("%s: %s, %s", row.Instance, format.Plural(row.Jobs, "job"), format.Plural(row.Nodes, "node")))
		}
		gap, ratio := nothing, nothing
		if row.RelativeGap != nil {
			gap = format.Gap(*row.RelativeGap)
		}
		if best, known := fastest[row.Instance]; known && row.searched() {
			ratio = describeRatio(row.WallSeconds / best)
		}
		t.AddRow(cli.Plain, "  "+candidateName(row.Backend, row.Formulation),
			row.Reason, describeFigure(row.Objective), describeFigure(row.Bound),
			gap, describeTime(row), ratio)
	}
	return t
}

// describeTime returns the time of a row, if its backend was available.
func describeTime(row *benchRow) string {
	if row.Reason == string(solver.OutcomeUnavailable) {
		return nothing
	}
	return describeSeconds(row.WallSeconds)
}

// searched reports whether the row has a plan from a search.
func (r *benchRow) searched() bool {
	return r.Objective != nil && r.Reason != string(solver.ReasonHeuristic)
}

func fastestOptima(rows []benchRow) map[string]float64 {
	fastest := make(map[string]float64)
	for i := range rows {
		row := &rows[i]
		best, known := fastest[row.Instance]
		if (row.Claimed || row.Reason == string(solver.ReasonOptimal)) && (!known || row.WallSeconds < best) {
			fastest[row.Instance] = row.WallSeconds
		}
	}
	return fastest
}

func summaryTable(rows []benchRow, candidates []candidate, screen cli.Screen) *cli.Table {
	t := screen.NewTable().AlignRight(1, 7)
	t.AddRow(screen.Bold, "BACKEND", "PLANS", "OPTIMAL", "MEDIAN", "MAX", "TO EXACT", "MAX", "MEAN")
	for _, candidate := range candidates {
		s := summarize(rows, candidate)
		median, longest, ratio, highest, mean := nothing, nothing, nothing, nothing, nothing
		if len(s.seconds) > 0 {
			median, longest = describeSeconds(statistics.Quantile(s.seconds, 0.5)), describeSeconds(slices.Max(s.seconds))
		}
		if len(s.ratios) > 0 {
			ratio, highest = describeRatio(statistics.Quantile(s.ratios, 0.5)), describeRatio(slices.Max(s.ratios))
			mean = describeRatio(geometricMean(s.ratios))
		}
		t.AddRow(cli.Plain, candidateName(candidate.backend.Name, candidate.formulation),
			fmt.Sprintf("%d of %d", len(s.seconds), s.snapshots), strconv.Itoa(s.optimal), median, longest, ratio, highest, mean)
	}
	return t
}

// benchFooter explains the columns and lists the versions of programs.
func benchFooter(candidates []candidate) string {
	text := "MEDIAN and MAX are times. TO EXACT is the median ratio to the time of exact per\n" +
		"snapshot. MAX and MEAN after it are the maximum and the geometric mean.\n"
	for i, candidate := range candidates {
		if i > 0 && candidates[i-1].backend.Name == candidate.backend.Name {
			continue
		}
		switch version := candidate.backend.Version; {
		case candidate.backend.Missing != nil:
			text += fmt.Sprintf("%s is missing; make solvers installs it, --%[1]s names its program.\n", candidate.backend.Name)
		case version != "":
			text += string(candidate.backend.Name) + " is version " + version + ".\n"
		}
	}
	return text
}

type summary struct {
	snapshots, optimal int
	// seconds are the times for snapshots with a plan, and ratios the ratios to the times of exact.
	seconds, ratios []float64
}

func summarize(rows []benchRow, candidate candidate) summary {
	exact := make(map[string]float64)
	for i := range rows {
		if rows[i].Backend == solver.BackendExact && rows[i].Objective != nil {
			exact[rows[i].Instance] = rows[i].WallSeconds
		}
	}
	var s summary
	for i := range rows {
		row := &rows[i]
		if row.Backend != candidate.backend.Name || row.Formulation != candidate.formulation {
			continue
		}
		s.snapshots++
		if row.Objective == nil {
			continue
		}
		s.seconds = append(s.seconds, row.WallSeconds)
		if row.Reason == string(solver.ReasonOptimal) {
			s.optimal++
		}
		if reference, known := exact[row.Instance]; known {
			s.ratios = append(s.ratios, row.WallSeconds/reference)
		}
	}
	return s
}

func geometricMean(numbers []float64) float64 {
	sum := 0.0
	for _, x := range numbers {
		sum += math.Log(x)
	}
	return math.Exp(sum / float64(len(numbers)))
}

func describeFigure(x *float64) string {
	if x == nil {
		return nothing
	}
	decimals := 6
	for scaled := math.Abs(*x); scaled >= 1e4 && decimals > 0; scaled /= 10 {
		decimals-- // At most ten digits.
	}
	return strconv.FormatFloat(*x, 'f', decimals, 64)
}

func describeSeconds(seconds float64) string {
	return format.Duration(time.Duration(seconds * float64(time.Second)))
}

// describeRatio returns a ratio to three digits, with at most six decimals.
func describeRatio(x float64) string {
	decimals := 0
	for scaled := x; scaled < 100 && decimals < 6; scaled *= 10 {
		decimals++
	}
	return strconv.FormatFloat(x, 'f', decimals, 64) + "×"
}
