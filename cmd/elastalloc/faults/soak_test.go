//go:build unix

package faults

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/elastalloc/elastalloc/internal/testing/servertest"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
	"github.com/elastalloc/elastalloc/solver"
)

var soakTime = flag.Duration("soak", 30*time.Second, "duration of the load in soak tests; SOAK in the Makefile")

// soakWorkers is the number of concurrent callers.
const soakWorkers = 4

// TestSoak runs a mixed load of correct and faulty callers against a server with all backends. It checks the status of
// all calls, that the resource usage of the server does not grow, and that no processes and files remain.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the time of -soak")
	}
	t.Parallel()
	temporary := t.TempDir()
	server := startServerWithEnv(t, append(os.Environ(), "TMPDIR="+temporary), "--backends=exact,cbc,highs",
		"--cbc="+solvertest.Program(t, solver.BackendCBC), "--highs="+solvertest.Program(t, solver.BackendHiGHS))
	callers, err := newMix(server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := callers.close(); err != nil {
			t.Error(err)
		}
	}()
	before := readGauges(t, server)
	// A long soak uses a small part of the machine, a short one more.
	cores := 0.3
	if *soakTime <= time.Minute {
		cores = 1
	}
	samples := soak(t, server, callers, temporary, cores)

	report(t, callers, samples)
	for _, err := range callers.failures[:min(10, len(callers.failures))] {
		t.Error(err)
	}
	if n := len(callers.failures); n > 10 {
		t.Errorf("%d more failures", n-10)
	}
	// The trend over a few seconds depends on the last burst.
	if *soakTime > time.Minute {
		checkFlat(t, samples)
	}
	settles(t, server, before, 64<<20)
	wait.For(t, "all folders are removed", func() (bool, string) {
		left := foldersIn(t, temporary)
		return left == 0, fmt.Sprintf("%v folders", left)
	})
	shown := servertest.Metrics(t, server)
	for _, code := range []string{"Internal", "Unknown", "DataLoss"} {
		if n := sumOf(shown, "grpc_server_handled_total", `grpc_code="`+code+`"`, `grpc_method="Allocate"`); n > 0 {
			t.Errorf("%v calls have the status %s; log of the server:\n%s", n, code, server.Logs())
		}
	}
	if err := server.Stop(); err != nil {
		t.Errorf("Stop returned %v", err)
	}
	if left := processesWithTMPDIR(t, temporary); len(left) > 0 {
		t.Errorf("processes remain: %v", left)
	}
}

// sample contains the resource usage of a server at a time since the start of the load.
type sample struct {
	at time.Duration
	gauges
	Folders float64
}

// soak runs callers such that they and the server together use about the given number of cores, and samples the
// resource usage of the server.
func soak(t *testing.T, server *servertest.Server, callers *mix, temporary string, cores float64) (samples []sample) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	for worker := range soakWorkers {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 0))
			for ctx.Err() == nil {
				start := time.Now()
				callers.act(r)
				// An action uses a core for nearly all of its time.
				rest := time.Duration(float64(time.Since(start)) * max(0, soakWorkers/cores-1))
				select {
				case <-ctx.Done():
				case <-time.After(rest):
				}
			}
		})
	}
	start, interval := time.Now(), max(200*time.Millisecond, min(*soakTime/400, 5*time.Second))
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for time.Since(start) < *soakTime {
		<-ticker.C
		samples = append(samples, sample{time.Since(start), readGauges(t, server), foldersIn(t, temporary)})
	}
	return samples
}

// figure is a quantity that must not grow.
type figure struct {
	name string
	of   func(sample) float64
	// slack is the allowed increase over the second half of the load, in addition to a tenth of the median.
	slack float64
	unit  float64
}

func figures() []figure {
	return []figure{
		{"memory MB", func(s sample) float64 { return s.Memory }, 24e6, 1e6},
		{"heap MB", func(s sample) float64 { return s.Heap }, 24e6, 1e6},
		{"goroutines", func(s sample) float64 { return s.Goroutines }, 30, 1},
		{"open files", func(s sample) float64 { return s.Files }, 15, 1},
		{"calls in flight", func(s sample) float64 { return s.Inflight }, 10, 1},
		{"processes", func(s sample) float64 { return s.Processes }, 4, 1},
		{"folders", func(s sample) float64 { return s.Folders }, 4, 1},
	}
}

// checkFlat checks that no figure rises over the second half of the load, by the slope of its least-squares line.
func checkFlat(t *testing.T, samples []sample) {
	t.Helper()
	second := samples[len(samples)/2:]
	length := (second[len(second)-1].at - second[0].at).Seconds()
	for _, f := range figures() {
		rise, allowed := slope(second, f.of)*length, f.slack+median(second, f.of)/10
		if rise > allowed {
			t.Errorf("%s rose by %.1f over %.0f s; must be at most %.1f", f.name, rise/f.unit, length, allowed/f.unit)
		}
	}
}

// slope returns the slope of the least-squares line of a figure, per second.
func slope(samples []sample, of func(sample) float64) float64 {
	var meanX, meanY, xx, xy float64
	for _, s := range samples {
		meanX += s.at.Seconds() / float64(len(samples))
		meanY += of(s) / float64(len(samples))
	}
	for _, s := range samples {
		x := s.at.Seconds() - meanX
		xx += x * x
		xy += x * (of(s) - meanY)
	}
	return xy / xx
}

func median(samples []sample, of func(sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// report logs every figure per sixth of the load, and the status codes of the actions.
func report(t *testing.T, callers *mix, samples []sample) {
	t.Helper()
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "min/median/max\tfrom\tto")
	for _, f := range figures() {
		fmt.Fprintf(table, "\t%s", f.name)
	}
	fmt.Fprintln(table)
	for part := range 6 {
		slice := samples[len(samples)*part/6 : len(samples)*(part+1)/6]
		if len(slice) == 0 {
			continue
		}
		fmt.Fprintf(table, "\t%v\t%v", slice[0].at.Round(time.Second), slice[len(slice)-1].at.Round(time.Second))
		for _, f := range figures() {
			lowest, highest := math.Inf(1), math.Inf(-1)
			for _, s := range slice {
				lowest, highest = min(lowest, f.of(s)), max(highest, f.of(s))
			}
			fmt.Fprintf(table, "\t%.0f/%.0f/%.0f", lowest/f.unit, median(slice, f.of)/f.unit, highest/f.unit)
		}
		fmt.Fprintln(table)
	}
	fmt.Fprintln(table)
	for _, a := range actions() {
		fmt.Fprintf(table, "%s\t%v\n", a.name, callers.seen[a.name])
	}
	table.Flush()
	t.Logf("load of %v:\n%s", *soakTime, text.String())
}

// foldersIn returns the number of files and folders in a folder.
func foldersIn(t *testing.T, folder string) float64 {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	return float64(len(entries))
}

// processesWithTMPDIR returns the processes whose folder for temporary files is the given one or below it, which are
// the processes of a server and its solvers.
func processesWithTMPDIR(t *testing.T, folder string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains("\x00"+string(text), "\x00TMPDIR="+folder) {
			found = append(found, filepath.Dir(file))
		}
	}
	return found
}
