package cli

import (
	"testing"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

func TestEnumFlag(t *testing.T) {
	t.Parallel()
	const want = elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
	for _, name := range []string{"total-time", "TOTAL_TIME", "Total_Time", "objective_total_time", "OBJECTIVE_TOTAL_TIME"} {
		var flag EnumFlag[elastallocv1.Objective]
		if err := flag.Set(name); err != nil || flag.Number() != want || flag.String() != "total-time" {
			t.Errorf("%q is %s (%v), %v; want total-time", name, flag.String(), flag.Number(), err)
		}
	}
	for _, name := range []string{"", "unspecified", "OBJECTIVE_UNSPECIFIED", "total", "OBJECTIVE_"} {
		var flag EnumFlag[elastallocv1.Objective]
		if err := flag.Set(name); err == nil || err.Error() != "must be one of progress, total-time" || flag.String() != "" {
			t.Errorf("%q is %s, %v; want an error that lists the values", name, flag.String(), err)
		}
	}
}

func TestBytesFlag(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "1000": 1000, "1GiB": 1 << 30, "512MiB": 512 << 20, "3TiB": 3 << 40, "2KiB": 2048} {
		var value int64
		flag := NewBytesFlag(&value)
		if err := flag.Set(text); err != nil || value != want {
			t.Errorf("%q is %d, %v; want %d", text, value, err, want)
		}
		if flag.String() != text {
			t.Errorf("%q is shown as %q", text, flag.String())
		}
	}
	for _, text := range []string{"", "-1", "1GB", "1.5GiB", "GiB", "99999999TiB", "1GiBMiB", "9223372036854775808"} {
		value := int64(7)
		if err := NewBytesFlag(&value).Set(text); err == nil || value != 7 {
			t.Errorf("%q is accepted as %d", text, value)
		}
	}
}
