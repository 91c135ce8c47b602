package cli

import "testing"

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
