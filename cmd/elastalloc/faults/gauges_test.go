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

// gauges contains the resources that a server uses. Memory is in bytes.
type gauges struct {
	Memory, Heap                           float64
	Goroutines, Files, Inflight, Processes float64
}

// readGauges returns the gauges of a server, and the number of its child processes if the system reports them.
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

// sumOf returns the sum of the series whose names and labels contain all the given texts.
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

// childrenOf returns the child processes of a process, or none on systems without /proc.
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
			continue // The process has exited.
		}
		// The name is in brackets and may contain any characters.
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			children = append(children, child)
		}
	}
	return children
}

// settles waits until a server uses about as many resources as before: about as many open files and goroutines, and
// no solvers and calls. Go releases memory slowly, so that memory has its own margin.
func settles(t *testing.T, server *servertest.Server, before gauges, memoryMargin float64) {
	t.Helper()
	const few = 8 // connections of the test, and goroutines of the runtime
	wait.For(t, "the resources of the server are released", func() (bool, string) {
		now := readGauges(t, server)
		return now.Files <= before.Files+few && now.Goroutines <= before.Goroutines+2*few &&
				now.Inflight == 0 && now.Processes == 0 && now.Memory <= before.Memory+memoryMargin,
			fmt.Sprintf("before: %v; now: %v", before, now)
	})
}
