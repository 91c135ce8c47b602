package subprocess

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRemoveAbandoned checks that of what lies in the folder for temporary files,
// the folders of runs that no process holds are removed and nothing else.
func TestRemoveAbandoned(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for _, name := range []string{
		"elastalloc-run-1", "elastalloc-run-22", "elastalloc-run-", "elastalloc-run-3x", "elastalloc-4", "other",
	} {
		if err := os.MkdirAll(filepath.Join(dir, name, "below"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "model.mps"), []byte("ROWS"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "elastalloc-run-5"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "other"), filepath.Join(dir, "elastalloc-run-6")); err != nil {
		t.Fatal(err)
	}
	err := withFolder(func(held string) error {
		removed, err := RemoveAbandoned()
		if removed != 2 || err != nil {
			t.Errorf("RemoveAbandoned() = %d, %v; want 2", removed, err)
		}
		_, err = os.Stat(held)
		return err
	})
	if err != nil {
		t.Errorf("the folder in use: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	want := []string{"elastalloc-4", "elastalloc-run-", "elastalloc-run-3x", "elastalloc-run-5", "elastalloc-run-6", "other"}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(dir, "other", "model.mps")); err != nil {
		t.Errorf("what the link points to: %v", err)
	}
}

func TestRemoveAbandonedWithoutAFolder(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	if removed, err := RemoveAbandoned(); removed != 0 || err != nil {
		t.Errorf("RemoveAbandoned() = %d, %v; want nothing", removed, err)
	}
}

// TestRemoveAbandonedBesideRuns has runs begin and end while sweeps run without a
// pause: no run loses its folder.
func TestRemoveAbandonedBesideRuns(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	done := make(chan struct{})
	var sweeps, runs sync.WaitGroup
	for range 2 {
		sweeps.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := RemoveAbandoned(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 4 {
		runs.Go(func() {
			for range 300 {
				err := withFolder(func(dir string) error {
					return os.WriteFile(filepath.Join(dir, "model.mps"), []byte("ROWS"), 0o600)
				})
				// Where sweeps come without a pause, ten tries may not do.
				if err != nil && !errors.Is(err, errSwept) {
					t.Error(err)
				}
			}
		})
	}
	runs.Wait()
	close(done)
	sweeps.Wait()
}
