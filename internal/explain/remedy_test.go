package explain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestTwoDigitNumbers(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]float64{98, 99, 100, 110, 120}, twoDigitNumbers(97, 125)); diff != "" {
		t.Errorf("above 97 and up to 125 (-want +got):\n%s", diff)
	}
	if numbers := twoDigitNumbers(1, 1000); numbers[0] != 1.1 || numbers[len(numbers)-1] != 1000 || len(numbers) != 270 {
		t.Errorf("above 1 and up to 1000: %v", numbers)
	}
	if numbers := twoDigitNumbers(0.00997, 0.0102); !cmp.Equal(numbers, []float64{0.01}) {
		t.Errorf("above 0.00997 and up to 0.0102: %v", numbers)
	}
	if numbers := twoDigitNumbers(0, 1000); numbers != nil {
		t.Errorf("above 0: %v; want none", numbers)
	}
}

// TestFirstFrom checks that the last number that works is the first of all that do, and
// that a good guess saves questions.
func TestFirstFrom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 300).Draw(t, "n")
		first := rapid.IntRange(0, n).Draw(t, "first")
		guess := rapid.IntRange(-5, 305).Draw(t, "guess")
		found, calls := n, 0
		err := searchFirst(guess, n, func(i int) (bool, error) {
			calls++
			if i >= first {
				found = i
			}
			return i >= first, nil
		})
		if err != nil || found != first {
			t.Fatalf("found %d, %v; want %d", found, err, first)
		}
		if calls > 20 || guess == first && calls > 2 {
			t.Fatalf("%d calls from a guess of %d at %d of %d", calls, guess, first, n)
		}
	})
}
