// Package format formats values of decisions for people. The command line and the status page use it.
package format

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// None is the text of a value that does not exist.
const None = "–"

// Gap formats a relative gap as a percentage. It rounds up, so that the text never understates the gap:
// 0.01234 is "1.3%". A gap that counts as proven optimal is "0%".
func Gap(gap float64) string {
	const smallest = 0.001 // percent
	percent := 100 * gap
	switch {
	case gap <= solver.OptimalGap:
		return "0%"
	case percent < smallest:
		return fmt.Sprintf("< %g%%", smallest)
	default:
		return roundUp(percent) + "%"
	}
}

// roundUp formats a positive number without an exponent, rounded up to two significant digits or to an
// integer.
func roundUp(x float64) string {
	decimals := max(0, 1-int(math.Floor(math.Log10(x))))
	unit := math.Pow(10, float64(decimals))
	// A rounding error above a number must not round it up.
	return strconv.FormatFloat(math.Ceil(x*unit-1e-6)/unit, 'f', -1, 64)
}

// Number formats a number with three significant digits and without an exponent: 1200 is "1.2k", 0.012345 is "0.0123".
// The suffixes are k, M, G and T.
func Number(x float64) string {
	suffix := ""
	rounded := threeDigits(x)
	for _, next := range []string{"k", "M", "G", "T"} {
		if math.Abs(rounded) < 1000 {
			break
		}
		rounded, suffix = threeDigits(rounded/1000), next
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64) + suffix
}

// threeDigits rounds a number to three significant digits.
func threeDigits(x float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'e', 2, 64), 64)
	if err != nil {
		return x // Rounding exceeds the largest number.
	}
	return rounded
}

// Improvement formats the improvement of an objective over the greedy baseline: for 1.1 and 1 it returns
// "+10.0%". If the baseline is not positive, it returns None.
func Improvement(objective, greedy float64) string {
	if greedy <= 0 {
		return None
	}
	return fmt.Sprintf("%+.1f%%", 100*(objective/greedy-1))
}

// Limit describes the limit that stopped a search. It returns "" for solver.LimitNone.
func Limit(limit solver.Limit) string {
	switch limit {
	case solver.LimitGap:
		return "requested gap reached"
	case solver.LimitTime:
		return "time limit reached"
	case solver.LimitWork:
		return "work limit reached"
	default:
		return ""
	}
}

// Duration formats a duration with about three digits: "12.3ms", "1m59s".
func Duration(d time.Duration) string {
	unit := time.Duration(1)
	for d/1000 >= unit && unit < time.Second {
		unit *= 10
	}
	return d.Round(min(unit, time.Second)).String()
}

// CoarseDuration formats a duration in its two largest units: "3h07m". Below a minute it is Duration.
func CoarseDuration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	default:
		return Duration(d)
	}
}

// ShortDuration formats a duration without trailing units that are zero: "26h".
func ShortDuration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Plural formats a number with a noun, which gets an s if the number is not 1: "1 job", "2 jobs".
func Plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Readable replaces the hyphens of a name by spaces: "invalid-plan" becomes "invalid plan".
func Readable[Name ~string](name Name) string { return strings.ReplaceAll(string(name), "-", " ") }
