package subprocess

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Command is a program to run to its end or to that of its context.
type Command struct {
	// Program is a path, or a name that is looked up on the PATH of this process.
	Program string
	// Args are its arguments, as they are: no shell reads them.
	Args []string
	// Dir is its working directory.
	Dir string
	// Env is its whole environment, as KEY=value; nothing is inherited.
	Env []string
	// OutputLimit is how many bytes of its output are kept, half of them the first
	// and half the last ones.
	OutputLimit int
	// FileLimit is how many bytes a file that it writes may have, and 0 is any
	// number: the signal XFSZ ends it, and children, where the system can do so.
	FileLimit int64
	// Grace is how long after the polite signal, TERM, the process group gets KILL.
	Grace time.Duration
}

// Report is how a program ended. It says nothing about whether it did its work:
// an exit status of a solver may be 0 after a failure and not 0 after a success.
type Report struct {
	// Output is what was kept of standard output and standard error, in the order
	// in which the program wrote it.
	Output string
	// Stopped says that the context ended before the program did.
	Stopped bool
	// Exited says that the program ended by itself, and not by a signal.
	Exited bool
	// Ending says how for a person: "exit status 1", "signal: killed".
	Ending string
}

// Run runs a program in a process group of its own. When ctx ends, the group gets TERM and,
// after the grace, KILL; what the program leaves of it when it ends by itself gets KILL at
// once. Where the system can do so, the program also ends with this process. An error means
// that it could not be started; how it ended is in the report.
func Run(ctx context.Context, c Command) (Report, error) {
	program, err := lookUp(c.Program)
	if err != nil {
		return Report{}, err
	}
	// A pipe of our own rather than that of package exec, which would wait for
	// every process that holds its other end before we could end these.
	reader, writer, err := os.Pipe()
	if err != nil {
		return Report{}, fmt.Errorf("opening a pipe: %w", err)
	}
	defer reader.Close()

	cmd := exec.CommandContext(ctx, program, c.Args...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	if cmd.Env == nil {
		cmd.Env = []string{} // Nil would inherit ours.
	}
	cmd.Stdout, cmd.Stderr = writer, writer
	stopped := false
	cmd.Cancel = func() error {
		stopped = true
		return terminate(cmd.Process)
	}
	cmd.WaitDelay = max(c.Grace, time.Nanosecond) // 0 would wait forever.
	if err := ownGroup(cmd); err != nil {
		writer.Close()
		return Report{}, err
	}
	release := dieWithUs(cmd)
	defer release()
	err = cmd.Start()
	writer.Close()
	if err != nil {
		return Report{}, fmt.Errorf("starting %s: %w", c.Program, err)
	}
	if c.FileLimit > 0 {
		limitFiles(cmd.Process, c.FileLimit)
	}

	output := newHeadAndTail(c.OutputLimit)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		// It ends with the last writer, or below.
		_, _ = io.Copy(output, reader)
	}()
	err = cmd.Wait()
	killGroup(cmd.Process)
	// All that the program wrote is in the pipe. One that has left its group may still
	// hold the other end, so the reading is ended and what is there is taken.
	_ = reader.SetReadDeadline(time.Now())
	<-drained
	readRest(reader, output)

	if cmd.ProcessState == nil {
		return Report{}, fmt.Errorf("waiting for %s: %w", c.Program, err)
	}
	return Report{
		Output:  output.String(),
		Stopped: stopped,
		Exited:  cmd.ProcessState.Exited(),
		Ending:  cmd.ProcessState.String(),
	}, nil
}

// lookUp returns the absolute path of a program, since a relative one would mean
// another file in another working directory.
func lookUp(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// lastLines returns the beginnings of the last lines of an output that are not empty, for
// one line of a report.
func lastLines(output string, count, length int) string {
	var lines []string
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	lines = lines[max(0, len(lines)-count):]
	for i, line := range lines {
		lines[i] = fmt.Sprintf("%.*s", length, line)
	}
	return strings.Join(lines, " | ")
}
