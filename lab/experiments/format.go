package experiments

import (
	"slices"
	"strconv"
	"strings"
)

// format says how a number is written.
type format int

const (
	whole        format = iota // 12
	tenths                     // 1.2
	hundredths                 // 1.23
	signedTenths               // +1.2
)

// maxDecimals is how far a small number is written out.
const maxDecimals = 6

// nothing stands in a table where there is no number.
const nothing = "–"

// write returns a number as text. One that would round to zero gets more decimals, so
// that "0" means zero, or less than 10^-maxDecimals.
func (f format) write(value float64) string {
	text := strconv.FormatFloat(value, 'f', f.decimals(), 64)
	for decimals := f.decimals() + 1; isZero(text); decimals++ {
		if decimals > maxDecimals {
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
func (f format) decimals() int {
	switch f {
	case whole:
		return 0
	case hundredths:
		return 2
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
