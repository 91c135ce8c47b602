package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// parse checks that a chart is well-formed XML without styles, and returns its texts and the attributes d of
// its paths.
func parse(t interface{ Fatal(...any) }, svg string) (texts, paths []string) {
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts, paths
		}
		if err != nil {
			t.Fatal(err, svg)
		}
		switch token := token.(type) {
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); text != "" {
				texts = append(texts, text)
			}
		case xml.StartElement:
			for _, attribute := range token.Attr {
				if attribute.Name.Local == "style" {
					t.Fatal("the chart has an attribute style", svg)
				}
				if token.Name.Local == "path" && attribute.Name.Local == "d" {
					paths = append(paths, attribute.Value)
				}
			}
		}
	}
}

var rectangle = regexp.MustCompile(`M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)H([\d.]+)z`)

// TestTimeSeries checks that each column has the height of its value and starts on the column below, and that
// all columns are inside the chart.
func TestTimeSeries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(1, 12).Draw(t, "columns")
		drawn := rapid.OneOf(rapid.Just(math.NaN()), rapid.Just(0.0), rapid.Float64Range(0.01, 1),
			rapid.Map(rapid.IntRange(0, 5000), func(n int) float64 { return float64(n) }))
		chart := TimeSeries{Title: "<&>", Start: time.Date(2026, 3, 1, 11, 17, 0, 0, time.UTC), Interval: 4 * time.Minute}
		largest := 0.0
		for range rapid.IntRange(1, 3).Draw(t, "series") {
			chart.Series = append(chart.Series, rapid.SliceOfN(drawn, columns, columns).Draw(t, "values"))
		}
		for n := range columns {
			sum := 0.0
			for _, series := range chart.Series {
				if !math.IsNaN(series[n]) {
					sum += series[n]
				}
			}
			largest = max(largest, sum)
		}
		texts, paths := parse(t, chart.SVG())
		end, err := value(texts[3])
		if texts[0] != "<&>" || texts[1] != "0" || err != nil || end < largest*0.995 || end > 2*max(0.5, largest)+1e-9 {
			t.Fatalf("axis %v for values up to %v", texts, largest)
		}
		base := slices.Repeat([]float64{height - marginBottom}, columns)
		for i, path := range paths[len(paths)-len(chart.Series):] {
			checkColumns(t, path, chart.Series[i], end, base)
		}
	})
}

// checkColumns checks the columns of a series, which start at base, on an axis up to end. It sets base to their ends.
func checkColumns(t *rapid.T, path string, series []float64, end float64, base []float64) {
	var shown []int
	for _, match := range rectangle.FindAllStringSubmatch(path, -1) {
		var at [5]float64
		for k := range at {
			at[k], _ = strconv.ParseFloat(match[k+1], 64)
		}
		n := int(math.Round((at[0] - marginLeft) * float64(len(series)) / (width - marginLeft - marginRight)))
		want := (height - marginTop - marginBottom) * series[n] / end
		if at[3] < marginTop-0.1 || at[2] > width-marginRight+0.1 || math.Abs(at[1]-base[n]) > 0.11 || math.Abs(at[1]-at[3]-want) > 0.7 {
			t.Fatalf("column %d of %v is %v; want height %v on %v", n, series, at, want, base[n])
		}
		base[n] = at[3]
		shown = append(shown, n)
	}
	for n, value := range series {
		if value > 0 != (len(shown) > 0 && shown[0] == n) {
			t.Fatalf("column %d of %v is %v; columns of the chart: %v", n, series, value, shown)
		}
		if value > 0 {
			shown = shown[1:]
		}
	}
}

// value returns the number that a reader sees in a label of an axis.
func value(label string) (float64, error) {
	factor := 1.0
	switch {
	case strings.HasSuffix(label, "k"):
		factor = 1e3
	case strings.HasSuffix(label, "M"):
		factor = 1e6
	}
	x, err := strconv.ParseFloat(strings.TrimRight(label, "kM"), 64)
	return x * factor, err
}

// TestAxisIsReadable checks the labels of the vertical axis for values from 0 to 10 million: the upper one is exactly twice
// the middle one and not below the values, and both fit into the margin.
func TestAxisIsReadable(t *testing.T) {
	for largest, want := range map[float64]string{
		0: "0 0.5 1", 0.0000001: "0 0.0005 0.001", 0.0025: "0 0.0015 0.003",
		0.9: "0 0.5 1", 7: "0 4 8", 999: "0 500 1k", 1000: "0 500 1k", 1001: "0 600 1.2k",
		1200: "0 600 1.2k", 1500: "0 800 1.6k", 2000: "0 1k 2k", 2001: "0 1.2k 2.4k", 12000: "0 6k 12k", 999999: "0 500k 1M", 1e6: "0 500k 1M",
		2.1e6: "0 1.2M 2.4M", 1e7: "0 5M 10M",
	} {
		chart := TimeSeries{Interval: time.Minute, Series: [][]float64{{largest}}}
		if texts, _ := parse(t, chart.SVG()); strings.Join(texts[:3], " ") != want {
			t.Errorf("labels %q for %v; want %q", texts, largest, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		largest := math.Pow(10, rapid.Float64Range(-9, 7).Draw(t, "power"))
		chart := TimeSeries{Interval: time.Minute, Series: [][]float64{{largest}}}
		texts, _ := parse(t, chart.SVG())
		middle, err1 := value(texts[1])
		end, err2 := value(texts[2])
		if err1 != nil || err2 != nil || end < largest*(1-1e-9) || math.Abs(end-2*middle) > 1e-9*end || max(len(texts[1]), len(texts[2])) > 6 {
			t.Fatalf("labels %q for %v", texts, largest)
		}
	})
}

// TestTicks checks the labels of the axes.
func TestTicks(t *testing.T) {
	values := make([]float64, 90)
	values[0] = 1
	chart := TimeSeries{Start: time.Date(2026, 3, 1, 21, 2, 0, 0, time.UTC), Interval: 4 * time.Minute, Series: [][]float64{values}}
	texts, _ := parse(t, chart.SVG())
	if got := strings.Join(texts, " "); got != "0 0.5 1 22:00 23:00 00:00 01:00 02:00" {
		t.Errorf("texts %s", got)
	}
	if empty, _ := parse(t, (&TimeSeries{}).SVG()); strings.Join(empty, " ") != "0 0.5 1" {
		t.Errorf("texts %v without values", empty)
	}
}

func TestTimeline(t *testing.T) {
	chart := Timeline{Title: "a\x1bb", Width: 380, NameWidth: 110, StartLabel: "now", Span: time.Hour, Parts: 2, Bars: []Bar{
		{Name: "<script>", Title: `"&`, Start: 0.5, End: 0.75}, {Name: strings.Repeat("é", 99), Hidden: true}, {Low: 0.5, High: 2, Open: true},
	}}
	svg := chart.SVG()
	texts, _ := parse(t, svg)
	if got := strings.Join(texts, " "); got != `a\x1bb now 30m00s 1h00m "& <script> `+strings.Repeat("é", 7)+"…"+strings.Repeat("é", 7) {
		t.Errorf("texts %s", got)
	}
	for part, want := range map[string]int{
		"<rect": 3, "stroke-dasharray": 1, `fill-opacity=".5"`: 1,
		`<rect x="230.0" y="28.0" width="60.0" height="12.0"`: 1, // from half of the axis, which has 240 pixels and starts at 110
		`<rect x="230.0" y="70.0" width="120.0"`:              1, // truncated at the end of the axis
	} {
		if got := strings.Count(svg, part); got != want {
			t.Errorf("%[2]s occurs %[1]d times; want %[3]d:\n%[4]s", got, part, want, svg)
		}
	}
}
