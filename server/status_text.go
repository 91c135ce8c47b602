package server

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc/codes"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
)

// The words and figures of the status page.

// describeState returns how a backend is at a time, and why if it is not up.
func describeState(s chain.BackendState, now time.Time) (state, why string) {
	switch {
	case s.Up && s.Since.IsZero():
		return "up", ""
	case s.Up:
		return "up again since " + dayAndTime(s.Since, now), ""
	}
	state = "resting"
	if s.NeverUp {
		state = "missing"
	}
	state += " since " + dayAndTime(s.Since, now)
	switch {
	case s.HalfOpen:
		state += ", a decision is trying it now"
	case now.Before(s.OpenUntil):
		state += fmt.Sprintf(", next try from %s, in %s", clockTime(s.OpenUntil), describeAge(s.OpenUntil.Sub(now)))
	default:
		state += ", the next decision tries it"
	}
	switch s.Failures {
	case 0:
	case 1:
		why = "1 failure: "
	default:
		why = fmt.Sprintf("%d failures in a row, the last: ", s.Failures)
	}
	return state, why + printable(s.Cause)
}

// describeReason returns what is known of an answer.
func describeReason(filling bool, r *solver.Report) string {
	switch {
	case filling:
		return "filled idle nodes"
	case r.Limit == solver.LimitTime:
		return string(r.Reason) + ", time was up"
	case r.Limit == solver.LimitGap:
		return string(r.Reason) + ", asked gap reached"
	default:
		return string(r.Reason)
	}
}

// describeCode returns why a call got no decision.
func describeCode(code codes.Code) string {
	switch code {
	case codes.Canceled:
		return "the caller left"
	case codes.DeadlineExceeded:
		return "the call's deadline passed"
	default:
		return "error " + code.String()
	}
}

// describeGap returns by how much the best plan could exceed an answer, rounded up.
func describeGap(filling bool, r *solver.Report) string {
	const least = 0.001 // per cent
	percent := 100 * r.RelativeGap
	switch {
	case filling:
		return "–"
	case r.Reason == solver.ReasonOptimal:
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
	// What is a product of rounding errors is not rounded up.
	return strconv.FormatFloat(math.Ceil(x*unit-1e-6)/unit, 'f', -1, 64)
}

// describeGain returns what an answer is worth over greedy's.
func describeGain(filling bool, r *solver.Report) string {
	if filling || r.GreedyObjective <= 0 {
		return "–"
	}
	return fmt.Sprintf("%+.1f %%", 100*(r.Objective/r.GreedyObjective-1))
}

// describeDuration returns how long something took, to three digits or so.
func describeDuration(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	default:
		return fmt.Sprintf("%.2f ms", d.Seconds()*1e3)
	}
}

// describeAge returns a time span in its largest unit.
func describeAge(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%d d", d/day)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d min", d/time.Minute)
	default:
		return fmt.Sprintf("%d s", max(0, d)/time.Second)
	}
}

// clockTime returns a time of day; all of the page is UTC.
func clockTime(t time.Time) string { return t.UTC().Format("15:04:05") }

// dayAndTime returns a time of day, after its date if that is not today's.
func dayAndTime(t, now time.Time) string {
	if t.UTC().Format(time.DateOnly) == now.UTC().Format(time.DateOnly) {
		return clockTime(t)
	}
	return t.UTC().Format("Jan 2 15:04:05")
}

// words returns the name of an outcome for reading.
func words(o solver.Outcome) string { return strings.ReplaceAll(string(o), "-", " ") }

// printable returns a text from outside without what could garble a page, such as
// characters that turn the direction of the text.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, text)
}
