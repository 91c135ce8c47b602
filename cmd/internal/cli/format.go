package cli

import (
	"math"
	"strconv"
	"time"
	"unicode"
)

// TwoDigits returns a positive number to two significant digits, without an
// exponent.
func TwoDigits(x float64) string {
	if x <= 0 {
		return "0"
	}
	decimals := 1 - int(math.Floor(math.Log10(x)))
	return strconv.FormatFloat(x, 'f', max(0, decimals), 64)
}

// RoundDuration rounds a duration to about three digits.
func RoundDuration(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit)
}

// Printable returns a text, quoted if it has characters that are not printable and could
// control a terminal.
func Printable(text string) string {
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return strconv.Quote(text)
		}
	}
	return text
}
