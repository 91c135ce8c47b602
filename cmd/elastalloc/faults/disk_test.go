//go:build linux

package faults

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
)

// TestDiskFaults makes the folder for temporary files of a server unusable in several ways. Another backend decides.
// When the folder is usable again, the solver decides.
func TestDiskFaults(t *testing.T) {
	request := randomRequest(40, 70, 1)
	p := newSolved(t, request)
	tests := map[string]struct {
		spoil, repair func(t *testing.T, dir string)
		detail        string
	}{
		"full": {
			spoil:  func(t *testing.T, dir string) { t.Helper(); fill(t, dir, 0) },
			repair: func(t *testing.T, dir string) { t.Helper(); remove(t, filepath.Join(dir, filler)) },
			detail: "no space left on device",
		},
		"no room for the whole model": {
			spoil:  func(t *testing.T, dir string) { t.Helper(); fill(t, dir, 32<<10) },
			repair: func(t *testing.T, dir string) { t.Helper(); remove(t, filepath.Join(dir, filler)) },
			detail: "model.mps: no space left on device",
		},
		"read-only": {
			spoil:  func(t *testing.T, dir string) { t.Helper(); mount(t, dir, syscall.MS_REMOUNT|syscall.MS_RDONLY) },
			repair: func(t *testing.T, dir string) { t.Helper(); mount(t, dir, syscall.MS_REMOUNT) },
			detail: "read-only file system",
		},
		"gone": {
			spoil:  func(t *testing.T, dir string) { t.Helper(); unmount(t, dir); remove(t, dir) },
			repair: func(t *testing.T, dir string) { t.Helper(); makeFolder(t, dir); mount(t, dir, 0) },
			detail: "creating a temporary directory: ",
		},
	}
	for _, kind := range solverKinds() {
		for name, test := range tests {
			t.Run(kind.name+" "+name, func(t *testing.T) {
				t.Parallel()
				s := newScene(t, kind)
				s.tempDir = smallDisk(t)
				s.start(t)
				test.spoil(t, s.tempDir)
				response := s.allocate(t, request)
				checkOptimal(t, response, p)
				attempt := checkAttempts(t, response, kind, expectation{crashed, []string{test.detail}})
				s.checkFallbacks(t, crashed)
				t.Log(attempt.GetDetail())

				test.repair(t, s.tempDir)
				s.checkNothingLeft(t)
				s.install(t, p.solution(p.optimal), writesSolution)
				response = s.allocate(t, request)
				checkOptimal(t, response, p)
				checkAttempts(t, response, kind, expectation{outcome: answered})
			})
		}
	}
}

// TestNoDiskAtStart checks that a server starts and decides without a folder for temporary files.
func TestNoDiskAtStart(t *testing.T) {
	t.Parallel()
	request := randomRequest(40, 70, 1)
	p := newSolved(t, request)
	for _, kind := range solverKinds() {
		s := newScene(t, kind)
		s.tempDir = filepath.Join(s.tempDir, "none")
		s.start(t)
		if logs := s.server.Logs(); !strings.Contains(logs, `"msg":"backend is missing","backend":"`+kind.name+`"`) {
			t.Errorf("the log has no line about the missing %s:\n%s", kind.name, logs)
		}
		response := s.allocate(t, request)
		checkOptimal(t, response, p)
		attempt := checkAttempts(t, response, kind, expectation{unavailable, []string{"creating a temporary directory: "}})
		t.Log(attempt.GetDetail())
	}
}

// TestRealSolversOnFullDisk runs the real solvers with less and less disk space. The decision is always the proven
// optimum. With enough space, the solvers decide again.
func TestRealSolversOnFullDisk(t *testing.T) {
	request := randomRequest(8, 14, 2)
	p := newSolved(t, request)
	for _, kind := range solverKinds() {
		program := solvertest.Program(t, solver.BackendName(kind.name))
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, kind)
			s.program, s.tempDir = program, smallDisk(t)
			s.start(t)
			// The model has about 24 KB, the warm start and the solution 8 KB each.
			for _, room := range []int{0, 16 << 10, 32 << 10, 40 << 10} {
				fill(t, s.tempDir, room)
				response := s.allocate(t, request)
				checkOptimal(t, response, p)
				attempt := response.GetReport().GetAttempts()[0]
				if attempt.GetOutcome() != crashed && (room == 0 || attempt.GetOutcome() != answered) {
					t.Errorf("with %d KB the attempts are %v", room>>10, response.GetReport().GetAttempts())
				}
				t.Logf("with %d KB: %s %s", room>>10, outcomeName(attempt.GetOutcome()), attempt.GetDetail())
				remove(t, filepath.Join(s.tempDir, filler))
				s.checkNothingLeft(t)
			}
			response := s.allocate(t, request)
			checkOptimal(t, response, p)
			if response.GetReport().GetBackend() != kind.backend {
				t.Errorf("the attempts are %v; want the result of %s", response.GetReport().GetAttempts(), kind.name)
			}
		})
	}
}

// filler is the name of the file that fills a disk.
const filler = "filler"

// smallDisk returns a folder with its own file system of 1 MB. This requires root, which CI has.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	makeFolder(t, dir)
	if err := mountAt(dir, 0); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("mounting a file system: %v", err)
		}
		t.Skipf("mounting a file system: %v", err)
	}
	t.Cleanup(func() { unmount(t, dir) })
	return dir
}

func mountAt(dir string, flags uintptr) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", flags, "size=1m,mode=0700")
}

func mount(t *testing.T, dir string, flags uintptr) {
	t.Helper()
	if err := mountAt(dir, flags); err != nil {
		t.Fatal(err)
	}
}

func unmount(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
}

func makeFolder(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// fill fills the disk of a folder except for room bytes.
func fill(t *testing.T, dir string, room int) {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, filler))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	written, err := io.Copy(file, endlessZeros{})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk stopped after %d bytes with %v", written, err)
	}
	if err := file.Truncate(written - int64(room)); err != nil {
		t.Fatal(err)
	}
}

// endlessZeros is an infinite reader of zeros.
type endlessZeros struct{}

// Read reads zeros.
func (endlessZeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
