package subprocess

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRemoveStaleDirs checks that only the unlocked directories of runs are removed.
func TestRemoveStaleDirs(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for _, name := range []string{
		"elastalloc-run-1", "elastalloc-run-22", "elastalloc-run-", "elastalloc-run-3x", "elastalloc-4", "other",
	} {
		if err := os.MkdirAll(filepath.Join(dir, name, "subdir"), 0o700); err != nil {
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
	err := withTempDir(func(inUse string) error {
		removed, err := RemoveStaleDirs()
		if removed != 2 || err != nil {
			t.Errorf("RemoveStaleDirs() = %d, %v; want 2", removed, err)
		}
		_, err = os.Stat(inUse)
		return err
	})
	if err != nil {
		t.Errorf("directory in use: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var remaining []string
	for _, entry := range entries {
		remaining = append(remaining, entry.Name())
	}
	want := []string{"elastalloc-4", "elastalloc-run-", "elastalloc-run-3x", "elastalloc-run-5", "elastalloc-run-6", "other"}
	if diff := cmp.Diff(want, remaining); diff != "" {
		t.Errorf("remaining (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(dir, "other", "model.mps")); err != nil {
		t.Errorf("target of the link: %v", err)
	}
}

func TestRemoveStaleDirsWithoutTempDir(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	if removed, err := RemoveStaleDirs(); removed != 0 || err != nil {
		t.Errorf("RemoveStaleDirs() = %d, %v; want 0", removed, err)
	}
}

// TestRemoveStaleDirsDuringRuns checks that no run loses its directory while RemoveStaleDirs is called in
// a loop.
func TestRemoveStaleDirsDuringRuns(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	done := make(chan struct{})
	var removers, runs sync.WaitGroup
	for range 2 {
		removers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := RemoveStaleDirs(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 4 {
		runs.Go(func() {
			for range 300 {
				err := withTempDir(func(dir string) error {
					return os.WriteFile(filepath.Join(dir, "model.mps"), []byte("ROWS"), 0o600)
				})
				// Ten tries may not be enough against removals without a pause.
				if err != nil && !errors.Is(err, errDirRemoved) {
					t.Error(err)
				}
			}
		})
	}
	runs.Wait()
	close(done)
	removers.Wait()
}
