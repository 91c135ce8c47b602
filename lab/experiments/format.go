package experiments

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// format says how a number is written.
type format int

const (
	whole        format = iota // 12
	tenths                     // 1.2
	signedTenths               // +1.2
	threeDigits                // 0.123, 1.23, 12.3, 123
)

// maxDecimals is how far a small number is written out.
const maxDecimals = 6

// nothing stands in a table for a missing number.
const nothing = "–"

// write returns a number as text. One that would round to zero gets more decimals, so
// that "0" means zero, or less than 10^-maxDecimals.
func (f format) write(value float64) string {
	decimals := f.decimals(value)
	text := strconv.FormatFloat(value, 'f', decimals, 64)
	for isZero(text) {
		if decimals++; decimals > maxDecimals {
			return "0"
		}
		text = strconv.FormatFloat(value, 'f', decimals, 64)
	}
	switch {
	case value < 0:
		return strings.Replace(text, "-", "−", 1)
	case f == signedTenths:
		return "+" + text
	default:
		return text
	}
}

// decimals returns how many decimals a number usually has.
func (f format) decimals(value float64) int {
	switch f {
	case whole:
		return 0
	case threeDigits:
		return max(0, 2-int(math.Floor(math.Log10(max(math.Abs(value), 0.1)))))
	default:
		return 1
	}
}

// isZero reports whether a number as text is zero.
func isZero(text string) bool { return strings.Trim(text, "-0.") == "" }

// writeRange returns one number, or the least and the largest of several.
func (f format) writeRange(values []float64) string {
	if len(values) == 0 {
		return nothing
	}
	least, most := f.write(slices.Min(values)), f.write(slices.Max(values))
	if least == most {
		return most
	}
	return least + " to " + most
}

// writeSpread returns a number and, of several runs, its standard deviation.
func (f format) writeSpread(n Number, runs int) string {
	if runs < 2 {
		return f.write(n.Mean)
	}
	return f.write(n.Mean) + " ± " + f.write(n.Spread)
}

// count writes a whole number with a comma before every third digit: 12,345.
func count(n int) string {
	digits := strconv.Itoa(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
