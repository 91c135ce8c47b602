// Command load measures what a server makes of its decisions under load: it has the
// same snapshots decided in this process and, by the load generator ghz, over gRPC,
// and prints both as one table in Markdown.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/elastalloc/elastalloc/cmd/elastalloc/internal/process"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

func main() {
	duration := flag.Duration("duration", 10*time.Second, "of each measurement")
	ghz := flag.String("ghz", "ghz", "the load generator")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: load [-duration D] [-ghz PROGRAM] BINARY")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measure(ctx, os.Stdout, flag.Arg(0), *ghz, *duration)
	if err == nil {
		err = measureMemory(ctx, os.Stdout, flag.Arg(0), *ghz, *duration)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// clients returns how many clients ask at once.
func clients() []int { return []int{1, 16, 256} }

// measure prints the table.
func measure(ctx context.Context, out io.Writer, binary, ghz string, duration time.Duration) (err error) {
	server, err := process.Start(ctx, binary, "--drain-delay=0s")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()

	fmt.Fprintf(out, "%d cores, shared by server and load generator; %v a row.\n\n", runtime.NumCPU(), duration)
	fmt.Fprintln(out, "| snapshot | asked by | decisions/s | p50 | p99 | CPU of a decision | turned away |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|")
	for _, size := range []struct{ jobs, nodes int }{{40, 70}, {1000, 1500}} {
		name := fmt.Sprintf("%d jobs / %d nodes", size.jobs, size.nodes)
		request := draw(size.jobs, size.nodes)
		for _, callers := range []int{1, runtime.NumCPU()} {
			f, err := inProcess(ctx, request, callers, duration)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "| %s | %d in process | %s |\n", name, callers, f)
		}
		for _, callers := range clients() {
			f, err := overRPC(ctx, ghz, server, request, callers, duration)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "| %s | %d over gRPC | %s |\n", name, callers, f)
		}
	}
	return nil
}

// figures are what one measurement found.
type figures struct {
	answered, shed int
	elapsed        time.Duration
	p50, p99       time.Duration // Of what the caller waits for an answer.
	cpu            time.Duration // That decider spent, with all that belongs to it.
}

// String returns the columns of the table.
func (f figures) String() string {
	perDecision := time.Duration(0)
	if f.answered > 0 {
		perDecision = f.cpu / time.Duration(f.answered)
	}
	return fmt.Sprintf("%.0f | %s | %s | %s | %d", float64(f.answered)/f.elapsed.Seconds(),
		milliseconds(f.p50), milliseconds(f.p99), milliseconds(perDecision), f.shed)
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }

// checkAnswer returns an error unless a decision is proven: figures of anything else
// would be of other work.
func checkAnswer(response *elastallocv1.AllocateResponse) error {
	if reason := response.GetReport().GetReason(); reason != elastallocv1.Reason_REASON_OPTIMAL {
		return fmt.Errorf("a decision is %v; want a proven one", reason)
	}
	return nil
}
