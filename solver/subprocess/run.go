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

// Command is a program to run.
type Command struct {
	// Program is a path, or a name that is looked up on the PATH of this process.
	Program string
	// Args are its arguments. No shell interprets them.
	Args []string
	// Dir is its working directory.
	Dir string
	// Env is its complete environment, as KEY=value. Nothing is inherited.
	Env []string
	// OutputLimit is the maximum number of bytes of its output that are kept: the first and the last ones,
	// in equal parts.
	OutputLimit int
	// FileLimit is the maximum size in bytes of a file that it or its children write, 0 for no limit. On
	// Linux, the signal XFSZ stops a process that exceeds it. Other systems ignore it.
	FileLimit int64
	// KillDelay is the time between the signals TERM and KILL when the context is done.
	KillDelay time.Duration
}

// Report describes the exit of a program. It does not show whether a solver was successful: its exit
// status can be 0 after a failure and not 0 after a success.
type Report struct {
	// Output is standard output and standard error in the order in which they were written, limited by
	// Command.OutputLimit.
	Output string
	// Stopped reports that the context was done before the program exited.
	Stopped bool
	// Exited reports that the program exited by itself and not by a signal.
	Exited bool
	// Status describes the exit for people, such as "exit status 1" or "signal: killed".
	Status string
}

// Run runs a program in a new process group until it exits. When ctx is done, Run sends TERM to the group
// and, after c.KillDelay, KILL. If the program exits by itself, Run sends KILL to its remaining children.
// On Linux, the program is also killed when this process exits. An error means that the program could not
// be started.
func Run(ctx context.Context, c Command) (Report, error) {
	program, err := resolveProgram(c.Program)
	if err != nil {
		return Report{}, err
	}
	// Package exec would wait until every process has closed its pipe, which is too late to kill the
	// children that have it open.
	reader, writer, err := os.Pipe()
	if err != nil {
		return Report{}, fmt.Errorf("opening a pipe: %w", err)
	}
	defer reader.Close()

	cmd := exec.CommandContext(ctx, program, c.Args...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	if cmd.Env == nil {
		cmd.Env = []string{} // Nil would inherit the environment.
	}
	cmd.Stdout, cmd.Stderr = writer, writer
	stopped := false
	cmd.Cancel = func() error {
		stopped = true
		return terminateGroup(cmd.Process)
	}
	cmd.WaitDelay = max(c.KillDelay, time.Nanosecond) // 0 would wait for ever.
	if err := setProcessGroup(cmd); err != nil {
		writer.Close()
		return Report{}, err
	}
	release := killWithParent(cmd)
	defer release()
	err = cmd.Start()
	writer.Close()
	if err != nil {
		return Report{}, fmt.Errorf("starting %s: %w", c.Program, err)
	}
	if c.FileLimit > 0 {
		limitFileSize(cmd.Process, c.FileLimit)
	}

	output := newHeadTailBuffer(c.OutputLimit)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		// Copy returns when the last writer has closed the pipe or at the read deadline below.
		_, _ = io.Copy(output, reader)
	}()
	err = cmd.Wait()
	killGroup(cmd.Process)
	// The pipe has all output of the program. A child that has left the process group may still have the
	// pipe open, so Run does not wait for its end.
	_ = reader.SetReadDeadline(time.Now())
	<-drained
	drainPipe(reader, output)

	if cmd.ProcessState == nil {
		return Report{}, fmt.Errorf("waiting for %s: %w", c.Program, err)
	}
	return Report{
		Output:  output.String(),
		Stopped: stopped,
		Exited:  cmd.ProcessState.Exited(),
		Status:  cmd.ProcessState.String(),
	}, nil
}

// resolveProgram returns the absolute path of a program, because a relative path would be resolved in the
// working directory of the command.
func resolveProgram(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// lastLines returns the last count nonempty lines of an output, joined into one line. Each is truncated to
// length characters.
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
