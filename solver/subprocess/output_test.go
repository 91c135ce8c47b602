package subprocess

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestHeadTailBuffer compares the buffer with the complete output, truncated in the middle.
func TestHeadTailBuffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 12).Draw(t, "limit")
		pieces := rapid.SliceOf(rapid.StringMatching("[a-z]{0,9}")).Draw(t, "pieces")
		o := newHeadTailBuffer(limit)
		for _, piece := range pieces {
			if n, err := o.Write([]byte(piece)); n != len(piece) || err != nil {
				t.Fatalf("Write(%q) = %d, %v", piece, n, err)
			}
		}
		all, half := strings.Join(pieces, ""), limit/2
		want := all
		if over := len(all) - 2*half; over > 0 {
			want = fmt.Sprintf("%s\n[%d bytes of output omitted]\n%s", all[:half], over, all[len(all)-half:])
		}
		if got := o.String(); got != want {
			t.Fatalf("kept %q of %q; want %q", got, all, want)
		}
	})
}
