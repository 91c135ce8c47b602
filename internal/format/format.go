// Package format writes figures of decisions for people, so that the command line and
// the status page agree.
package format

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// None stands for a figure that does not exist.
const None = "–"

// Gap returns a relative gap as a percentage, rounded up so that it never understates:
// 0.01234 is "1.3 %". What counts as proven optimal is "0 %".
func Gap(gap float64) string {
	const least = 0.001 // per cent
	percent := 100 * gap
	switch {
	case gap <= solver.OptimalGap:
		return "0 %"
	case percent < least:
		return fmt.Sprintf("< %g %%", least)
	default:
		return twoDigits(percent) + " %"
	}
}

// twoDigits returns a positive number rounded up to two significant digits, or to a
// whole number, without an exponent.
func twoDigits(x float64) string {
	decimals := max(0, 1-int(math.Floor(math.Log10(x))))
	unit := math.Pow(10, float64(decimals))
	// Do not round up what is but a rounding error above a figure.
	return strconv.FormatFloat(math.Ceil(x*unit-1e-6)/unit, 'f', -1, 64)
}

// Gain returns by how much an objective exceeds that of greedy: 1.1 over 1 is "+10.0 %".
func Gain(objective, greedy float64) string {
	if greedy <= 0 {
		return None
	}
	return fmt.Sprintf("%+.1f %%", 100*(objective/greedy-1))
}

// Limit returns which limit ended a search, "" if none did.
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

// Duration returns how long something took, to three digits or so: "12.3ms", "1m59s".
func Duration(d time.Duration) string {
	unit := time.Duration(1)
	for d/1000 >= unit && unit < time.Second {
		unit *= 10
	}
	return d.Round(min(unit, time.Second)).String()
}

// Span returns a long time in its two largest units: "3h07m".
func Span(d time.Duration) string {
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

// Short returns a time without the units that are zero at its end: "26h".
func Short(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Count returns how many there are of something: "1 job", "2 jobs".
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Words returns a name such as invalid-plan for reading: "invalid plan".
func Words[Name ~string](name Name) string { return strings.ReplaceAll(string(name), "-", " ") }
