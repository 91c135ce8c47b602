package cli

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// bytesFlag is a flag for a number of bytes.
type bytesFlag struct{ value *int64 }

// NewBytesFlag returns a flag that sets value, in bytes: a whole number, alone or with a
// unit, as in 64MiB. The value it has is the default.
func NewBytesFlag(value *int64) pflag.Value { return bytesFlag{value} }

const byteUnits = " KMGT"

// String returns the value in the largest unit of which it is a whole number.
func (f bytesFlag) String() string {
	if f.value == nil {
		return ""
	}
	n, unit := *f.value, 0
	for n != 0 && n%1024 == 0 && unit+1 < len(byteUnits) {
		n, unit = n/1024, unit+1
	}
	if unit == 0 {
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatInt(n, 10) + byteUnits[unit:unit+1] + "iB"
}

// Set takes a number of bytes.
func (f bytesFlag) Set(text string) error {
	shift := 0
	if number, found := strings.CutSuffix(text, "iB"); found && number != "" {
		if unit := strings.IndexByte(byteUnits, number[len(number)-1]); unit > 0 {
			text, shift = number[:len(number)-1], 10*unit
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return errors.New("want bytes, such as 1073741824, 512MiB or 1GiB")
	}
	*f.value = n << shift
	return nil
}

// Type returns the type shown in the help.
func (bytesFlag) Type() string { return "bytes" }
