package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/elastalloc/elastalloc/lab/statistics"
)

// column is a column of a table of runs. cell returns the text for the index of a run and its measures.
type column struct {
	name, meaning string
	cell          func(run int, s *statistics.Summary) string
}

// tabulate returns a table of runs. heading returns the heading above a run, "" for none.
func tabulate(runs []statistics.Summary, heading func(run int) string, columns ...column) Table {
	t := Table{}
	for _, c := range columns {
		t.Header = append(t.Header, c.name)
		if c.meaning != "" {
			t.Legend = append(t.Legend, [2]string{c.name, c.meaning})
		}
	}
	for run := range runs {
		if text := heading(run); text != "" {
			t.Rows = append(t.Rows, []string{text})
		}
		row := make([]string, len(columns))
		for n, c := range columns {
			row[n] = c.cell(run, &runs[run])
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// minutes writes seconds as minutes.
func minutes(seconds float64) string { return fmt.Sprintf("%.1f", seconds/60) }

// number writes a number, "" for NaN.
func number(format string, x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return fmt.Sprintf(format, x)
}

// share returns the relative increase of a time.
func share(is, was float64) float64 {
	if was == 0 {
		return 0
	}
	return is/was - 1
}

// unchanged is the text of change for no change.
const unchanged = "unchanged"

// change describes relative changes, for example "5 to 7% lower".
func change(shares ...float64) string {
	least, most := 100*slices.Min(shares), 100*slices.Max(shares)
	digits := "%.0f"
	if max(most, -least) < 1 {
		digits = "%.1f"
	}
	switch {
	case max(most, -least) < 0.05:
		return unchanged
	case most <= 0:
		return ranged(digits, 0-most, 0-least) + "% lower"
	case least >= 0:
		return ranged(digits, least, most) + "% higher"
	default:
		return fmt.Sprintf(digits+"%% lower to "+digits+"%% higher", -least, most)
	}
}

// ranged formats the smallest and the largest number.
func ranged(format string, numbers ...float64) string {
	least, most := fmt.Sprintf(format, slices.Min(numbers)), fmt.Sprintf(format, slices.Max(numbers))
	if least == most {
		return most
	}
	return least + " to " + most
}

func joined(numbers []int) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = strconv.Itoa(n)
	}
	if last := len(words) - 1; last > 0 {
		return strings.Join(words[:last], ", ") + " and " + words[last]
	}
	return words[0]
}

// percent formats a share. A positive share is never "0%".
func percent(share float64) string {
	if share > 0 && share <= 0.005 {
		return "under 1%"
	}
	return fmt.Sprintf("%.0f%%", 100*share)
}
