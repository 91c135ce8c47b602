package experiments

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// digits says how a number is written.
type digits int

const (
	whole        digits = iota // 12
	tenths                     // 1.2
	signedTenths               // +1.2
	threeDigits                // 0.123, 1.23, 12.3, 123
)

// maxDecimals is how far a small number is written out.
const maxDecimals = 6

// nothing stands in a table for a missing number.
const nothing = "–"

// write writes a number. One that would round to zero gets more decimals, so that "0" means
// less than 10^-maxDecimals.
func (d digits) write(value float64) string {
	decimals := 1
	switch d {
	case whole:
		decimals = 0
	case threeDigits:
		decimals = max(0, 2-int(math.Floor(math.Log10(max(math.Abs(value), 0.1)))))
	}
	text := strconv.FormatFloat(value, 'f', decimals, 64)
	for ; strings.Trim(text, "-0.") == ""; decimals++ {
		if decimals >= maxDecimals {
			return "0"
		}
		text = strconv.FormatFloat(value, 'f', decimals+1, 64)
	}
	switch {
	case value < 0:
		return strings.Replace(text, "-", "−", 1)
	case d == signedTenths:
		return "+" + text
	default:
		return text
	}
}

// writeRange returns one number, or the least and the largest of several.
func (d digits) writeRange(values []float64) string {
	if len(values) == 0 {
		return nothing
	}
	least, most := d.write(slices.Min(values)), d.write(slices.Max(values))
	if least == most {
		return most
	}
	return least + " to " + most
}

// writeSpread returns a number and, of several runs, its standard deviation.
func (d digits) writeSpread(n Number, runs int) string {
	if runs < 2 {
		return d.write(n.Mean)
	}
	return d.write(n.Mean) + " ± " + d.write(n.Spread)
}
