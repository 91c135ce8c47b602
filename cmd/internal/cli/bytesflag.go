package cli

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// bytesFlag is a flag for a number of bytes.
type bytesFlag struct{ value *int64 }

// NewBytesFlag returns a flag that sets value, in bytes: a whole number, alone or with a
// unit, as in 64MiB. The value it has is the default.
func NewBytesFlag(value *int64) pflag.Value { return bytesFlag{value} }

// units are the units of bytes, the largest first.
func units() []struct {
	name  string
	bytes int64
} {
	return []struct {
		name  string
		bytes int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}
}

// String returns the value in the largest unit of which it is a whole number.
func (f bytesFlag) String() string {
	if f.value == nil {
		return ""
	}
	for _, unit := range units() {
		if *f.value != 0 && *f.value%unit.bytes == 0 {
			return strconv.FormatInt(*f.value/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(*f.value, 10)
}

// Set takes a number of bytes.
func (f bytesFlag) Set(text string) error {
	number, factor := text, int64(1)
	for _, unit := range units() {
		if rest, found := strings.CutSuffix(text, unit.name); found {
			number, factor = rest, unit.bytes
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > (1<<63-1)/factor {
		return errors.New("want bytes, such as 1073741824, 512MiB or 1GiB")
	}
	*f.value = n * factor
	return nil
}

// Type returns the type shown in the help.
func (bytesFlag) Type() string { return "bytes" }
