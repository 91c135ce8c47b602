//go:build unix

package subprocess

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script writes an executable shell script and returns its path.
func script(t *testing.T, lines ...string) string {
	t.Helper()
	return executable(t, "#!/bin/sh\n"+strings.Join(lines, "\n")+"\n")
}

// exitPipe is a named pipe that a script opens for writing. Tests read lines from it, and its end when every
// process that has it open has exited.
type exitPipe struct {
	path  string
	lines *bufio.Reader
}

func newExitPipe(t *testing.T) *exitPipe {
	t.Helper()
	path := filepath.Join(t.TempDir(), "exitPipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return &exitPipe{path: path}
}

// line waits for the script to open the pipe and to write a line.
func (l *exitPipe) line(t *testing.T) string {
	t.Helper()
	if l.lines == nil {
		file, err := os.Open(l.path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		l.lines = bufio.NewReader(file)
	}
	line, err := l.lines.ReadString('\n')
	if err != nil {
		t.Fatalf("the script exited before it wrote a line: %v", err)
	}
	return strings.TrimSpace(line)
}

// waitForExit waits until no process has the pipe open.
func (l *exitPipe) waitForExit(t *testing.T) {
	t.Helper()
	if _, err := io.Copy(io.Discard, l.lines); err != nil {
		t.Fatal(err)
	}
}

// running is a call of Run in the background.
type running struct {
	report Report
	err    error
	done   chan struct{}
}

func start(ctx context.Context, c Command) *running {
	r := &running{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.report, r.err = Run(ctx, c)
	}()
	return r
}

func TestExitStatus(t *testing.T) {
	tests := []struct {
		name   string
		script []string
		want   Report
	}{
		{
			name:   "success",
			script: []string{"echo out; echo err >&2; echo more"},
			want:   Report{Output: "out\nerr\nmore\n", Exited: true, Status: "exit status 0"},
		},
		{
			name:   "status 3",
			script: []string{"echo no license; exit 3"},
			want:   Report{Output: "no license\n", Exited: true, Status: "exit status 3"},
		},
		{
			name:   "signal",
			script: []string{"echo assertion failed; kill -TRAP $$"},
			want:   Report{Output: "assertion failed\n", Status: "signal: trace/breakpoint trap"},
		},
		{
			name:   "empty standard input",
			script: []string{"cat; echo read"},
			want:   Report{Output: "read\n", Exited: true, Status: "exit status 0"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := Run(t.Context(), Command{
				Program: script(t, test.script...), Env: []string{"PATH=/usr/bin:/bin"}, OutputLimit: 1000,
			})
			if err != nil {
				t.Fatal(err)
			}
			if got.Status == "signal: trace/breakpoint trap (core dumped)" {
				got.Status = "signal: trace/breakpoint trap"
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

func TestArgumentsDirAndEnvironment(t *testing.T) {
	t.Setenv("ELASTALLOC_SECRET", "42")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program := script(t, `for a in "$@"; do echo "$a"; done`, "pwd -P", `echo "$ELASTALLOC_SECRET$GIVEN"`)
	got, err := Run(t.Context(), Command{
		Program: program, Args: []string{"$(touch harm)", "a b", "*", ";", ""},
		Dir: dir, Env: []string{"GIVEN=1"}, OutputLimit: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := "$(touch harm)\na b\n*\n;\n\n" + dir + "\n1\n"; got.Output != want {
		t.Errorf("output %q; want %q", got.Output, want)
	}
	if got, err = Run(t.Context(), Command{Program: program, OutputLimit: 1000}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(got.Output, "\n\n") {
		t.Errorf("output %q without an environment; want no secret", got.Output)
	}
}

// TestRelativeProgram checks that a relative path is resolved in the working directory of this process.
func TestRelativeProgram(t *testing.T) {
	t.Chdir(filepath.Dir(script(t, "echo here")))
	got, err := Run(t.Context(), Command{Program: "./program", Dir: "/", OutputLimit: 10})
	if err != nil || got.Output != "here\n" {
		t.Errorf("Run() = %+v, %v; want the output here", got, err)
	}
}

func TestStartErrors(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(data, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, program := range map[string]string{
		"no name":            "",
		"no such name":       "elastalloc-no-such-program",
		"no such file":       filepath.Join(t.TempDir(), "none"),
		"not executable":     data,
		"a folder":           t.TempDir(),
		"no program at all":  executable(t, "garbage"),
		"an unknown #! line": executable(t, "#!/no/such/interpreter\n"),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Run(t.Context(), Command{Program: program, OutputLimit: 10}); err == nil {
				t.Fatalf("Run() = %+v; want an error", got)
			}
		})
	}
}

// executable writes an executable file.
func executable(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOutputLimit(t *testing.T) {
	got, err := Run(t.Context(), Command{
		Program:     script(t, "echo first", "head -c 5000000 /dev/zero", "echo last"),
		Env:         []string{"PATH=/usr/bin:/bin"},
		OutputLimit: 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "first\n\x00\x00\x00\x00\n[4999991 bytes of output omitted]\n\x00\x00\x00\x00\x00last\n"
	if !got.Exited || got.Output != want {
		t.Errorf("Run() = %+v; want output %q", got, want)
	}
}

func TestContextDone(t *testing.T) {
	tests := []struct {
		name   string
		script []string
		want   Report
	}{
		{
			name:   "TERM is enough",
			script: []string{"echo ready >&3; exec sleep 1000"},
			want:   Report{Stopped: true, Status: "signal: terminated"},
		},
		{
			name:   "TERM allows a cleanup",
			script: []string{"exec 2>/dev/null; trap 'echo bye; exit 7' TERM", "echo ready >&3", "while :; do sleep 0.01; done"},
			want:   Report{Output: "bye\n", Stopped: true, Exited: true, Status: "exit status 7"},
		},
		{
			name:   "KILL if TERM is ignored",
			script: []string{"trap '' TERM", "echo ready >&3", "while :; do sleep 1000; done"},
			want:   Report{Stopped: true, Status: "signal: killed"},
		},
		{
			name: "KILL for a child that ignores TERM",
			script: []string{
				"(trap '' TERM; echo ready >&3; while :; do sleep 1000; done) &", "wait",
			},
			want: Report{Stopped: true, Status: "signal: terminated"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pipe := newExitPipe(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// Tests in which TERM suffices do not depend on the delay.
			killDelay := time.Minute
			if test.want.Status == "signal: killed" {
				killDelay = 50 * time.Millisecond
			}
			r := start(ctx, Command{
				Program: script(t, append([]string{`exec 3>"$1"`}, test.script...)...),
				Args:    []string{pipe.path}, Env: []string{"PATH=/usr/bin:/bin"}, OutputLimit: 1000, KillDelay: killDelay,
			})
			pipe.line(t)
			cancel()
			<-r.done
			pipe.waitForExit(t)
			if r.err != nil {
				t.Fatal(r.err)
			}
			if diff := cmp.Diff(test.want, r.report); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRemainingChildren checks that Run does not wait for the output of the children of a program that has
// exited, and kills them.
func TestRemainingChildren(t *testing.T) {
	pipe := newExitPipe(t)
	r := start(t.Context(), Command{
		Program: script(t, `exec 3>"$1"`, "sleep 1000 &", "echo ready >&3; echo done; exit 4"),
		Args:    []string{pipe.path}, Env: []string{"PATH=/usr/bin:/bin"}, OutputLimit: 1000,
	})
	pipe.line(t)
	<-r.done
	pipe.waitForExit(t)
	want := Report{Output: "done\n", Exited: true, Status: "exit status 4"}
	if diff := cmp.Diff(want, r.report); diff != "" || r.err != nil {
		t.Errorf("error %v, report (-want +got):\n%s", r.err, diff)
	}
}

// TestChildInAnotherGroup checks that Run does not wait for the output of a child that has left the process
// group.
func TestChildInAnotherGroup(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("the program setsid is missing")
	}
	pipe, end := newExitPipe(t), newExitPipe(t)
	r := start(t.Context(), Command{
		// The program exits when the test has opened the second pipe.
		Program: script(t, `exec 3>"$1"`, `setsid sh -c 'echo $$ >&3; exec sleep 1000' &`, `echo end >"$2"`),
		Args:    []string{pipe.path, end.path}, Env: []string{"PATH=/usr/bin:/bin"}, OutputLimit: 1000,
	})
	child, err := strconv.Atoi(pipe.line(t))
	if err != nil {
		t.Fatal(err)
	}
	end.line(t)
	<-r.done
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Errorf("the child has exited already: %v", err)
	}
	pipe.waitForExit(t)
	if r.err != nil || !r.report.Exited {
		t.Errorf("Run() = %+v, %v", r.report, r.err)
	}
}

func TestContextDoneBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := Run(ctx, Command{Program: script(t, "echo")}); !errors.Is(err, context.Canceled) {
		t.Errorf("Run() = %+v, %v; want context.Canceled", got, err)
	}
}

func TestLastLines(t *testing.T) {
	for _, test := range []struct {
		output string
		want   string
	}{
		{"", ""},
		{"\n \n", ""},
		{"a\n\n  b  \nc\n\n", "b | c"},
		{"only", "only"},
		{"one two three\nfour five six\n", "one tw | four f"},
		{"äöü\xff\xfeß123", "äöü\xff\xfeß"},
	} {
		if got := lastLines(test.output, 2, 6); got != test.want {
			t.Errorf("lastLines(%q, 2, 6) = %q; want %q", test.output, got, test.want)
		}
	}
}

// TestDrainPipe checks that drainPipe reads the output of a program after the read deadline, and does
// not wait for a writer that has the pipe open.
func TestDrainPipe(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	defer writer.Close()
	if _, err := writer.WriteString("Version: 2.10.8\n"); err != nil {
		t.Fatal(err)
	}
	if err := reader.SetReadDeadline(time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	var rest strings.Builder
	drainPipe(reader, &rest)
	if got := rest.String(); got != "Version: 2.10.8\n" {
		t.Errorf("read %q", got)
	}
}
