//go:build unix

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/servertest"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

// gauges are what a server holds of the machine at one moment. Memory is in bytes.
type gauges struct {
	Memory, Heap                           float64
	Goroutines, Files, Inflight, Processes float64
}

// readGauges reads the gauges of a server, and how many processes it has started
// that are still there, where the system can tell.
func readGauges(t *testing.T, server *servertest.Server) gauges {
	t.Helper()
	shown := servertest.Metrics(t, server)
	return gauges{
		Memory:     shown["process_resident_memory_bytes"],
		Heap:       shown["go_memstats_heap_inuse_bytes"],
		Goroutines: shown["go_goroutines"],
		Files:      shown["process_open_fds"],
		Inflight:   shown["elastalloc_inflight_requests"],
		Processes:  float64(len(childrenOf(t, server.PID()))),
	}
}

func (g gauges) String() string {
	return fmt.Sprintf("memory %.0f MB, heap %.0f MB, %.0f goroutines, %.0f files, %.0f calls in flight, %.0f processes",
		g.Memory/1e6, g.Heap/1e6, g.Goroutines, g.Files, g.Inflight, g.Processes)
}

// sumOf adds up the series whose names and labels hold all the given texts.
func sumOf(shown map[string]float64, texts ...string) (sum float64) {
	for series, value := range shown {
		matches := true
		for _, text := range texts {
			matches = matches && strings.Contains(series, text)
		}
		if matches {
			sum += value
		}
	}
	return sum
}

// childrenOf returns the processes whose parent is the given one, none on systems
// without /proc.
func childrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return nil
	}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // It has ended.
		}
		// The name, in brackets, may hold anything.
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			children = append(children, child)
		}
	}
	return children
}

// settles waits until a server holds hardly more than it did before: as many open
// files and goroutines but for a few, neither solvers nor calls. Go gives memory back
// slowly, so that has a margin of its own.
func settles(t *testing.T, server *servertest.Server, before gauges, memoryMargin float64) {
	t.Helper()
	const few = 8 // Connections of this test's own, and goroutines of the runtime.
	wait.For(t, "what the server holds returns to where it was", func() (bool, string) {
		now := readGauges(t, server)
		return now.Files <= before.Files+few && now.Goroutines <= before.Goroutines+2*few &&
				now.Inflight == 0 && now.Processes == 0 && now.Memory <= before.Memory+memoryMargin,
			fmt.Sprintf("before: %v; now: %v", before, now)
	})
}
