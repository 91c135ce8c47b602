// Package docs tests the documentation: its commands run, their output is the output that it shows, and everything that it
// names exists.
package docs

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

// TestCommands runs the commands of each page as one session of a shell, in a copy of the repository with its programs
// built. A block without a language after a command is compared with the output of the command.
func TestCommands(t *testing.T) {
	if !testtier.Docs.Selected() {
		t.Skip("slow; make docs runs it")
	}
	needTools(t, "bash", "git", "make", "jq", "curl", "openssl", "zstdcat", "grpcurl")
	checkout := checkout(t)
	for _, p := range pages(t) {
		t.Run(p.name, func(t *testing.T) {
			session := newSession(p)
			for _, reason := range session.left {
				t.Log(reason)
			}
			needTools(t, p.needs...)
			if len(session.steps) == 0 {
				t.Skip("nothing of this page is run")
			}
			for _, address := range addresses {
				// The server of the page before may still drain.
				wait.For(t, "the pages name this address", func() (bool, string) {
					listener, err := net.Listen("tcp", address)
					if err != nil {
						return false, err.Error()
					}
					return listener.Close() == nil, ""
				})
			}
			for _, err := range session.run(t, checkout) {
				t.Error(err)
			}
		})
	}
}

// TestCommandsCanFail checks that a wrong page is found out.
func TestCommandsCanFail(t *testing.T) {
	needTools(t, "bash")
	for text, want := range map[string]string{
		"```sh\ntrue\n```\n": "",
		"```sh\na=1\n```\n\n```sh\necho $a\n```\n\n```\n…\n1\n```\n":       "",
		"```sh\ntrue\nfalse | cat\ntrue\n```\n":                            "a.md:1: exit status 1",
		"```sh\necho $unset\n```\n":                                        "a.md:1: exit status 1",
		"```sh\necho 12\n```\n\n```\n1\n```\n":                             "a.md:6: shows a line that is not printed: 1",
		"<!-- not run: x -->\n```sh\nfalse\n```\n":                         "",
		"<!-- run without \"false\": x -->\n```sh\nfalse # x\ntrue\n```\n": "",
		"<!-- run without \"flse\": x -->\n```sh\ntrue\n```\n":             `a.md:2: no line begins with "flse"`,
	} {
		p, err := parse("a.md", text)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if errs := newSession(p).run(t, t.TempDir()); len(errs) > 0 {
			got, _, _ = strings.Cut(errs[0].Error(), "\n")
		}
		if got != want {
			t.Errorf("%q: %q; want %q", text, got, want)
		}
	}
}

// needTools skips the test, in CI fails it, where programs that the pages use are missing.
func needTools(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
}

// checkout returns a copy of the repository in which the programs are built.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	copyAndBuild := exec.Command("sh", "-c", `git ls-files -z --cached --others --exclude-standard | tar c --null -T - | tar x -C "$0" &&
		cd "$0" && git init -q && git add -A && git -c user.name=t -c user.email=t@t commit -qm copy && make build`, dir)
	copyAndBuild.Dir = root
	if output, err := copyAndBuild.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return dir
}

// session is what is typed of a page.
type session struct {
	page  string
	steps []step
	// left is what is left out, and why.
	left []string
	errs []error
}

// step is a block, or a command of running text.
type step struct {
	line int // 0 of running text
	text string
	how  string
	// shown are the lines of output that the page shows.
	shown     []string
	shownLine int
}

// newSession decides what of a page is typed.
func newSession(p page) *session {
	s := &session{page: p.name}
	typed := false // Whether the last block of commands was.
	for _, b := range p.blocks {
		switch {
		case b.language == "sh" || b.language == "console":
			reason, not := strings.CutPrefix(b.mark, notRun)
			if typed = !not; not {
				s.left = append(s.left, fmt.Sprintf("%s:%d is not run: %s", p.name, b.line, reason))
				continue
			}
			text := b.text
			if rest, found := strings.CutPrefix(b.mark, without); found {
				text = s.leaveOut(b, rest)
			}
			s.steps = append(s.steps, step{line: b.line, text: text, how: b.mark})
		case b.language == "" && typed:
			last := &s.steps[len(s.steps)-1]
			last.shown, last.shownLine = append(last.shown, strings.Split(strings.TrimSuffix(b.text, "\n"), "\n")...), b.line
		}
	}
	for _, command := range p.inline {
		s.steps = append(s.steps, step{text: "PATH=bin:$PATH " + command + "\n"})
	}
	return s
}

// leaveOut returns a block without the lines with the beginning that the mark names.
func (s *session) leaveOut(b block, mark string) string {
	quoted, reason, _ := strings.Cut(mark, ": ")
	begin := strings.Trim(quoted, `"`)
	kept := ""
	for line := range strings.Lines(b.text) {
		if strings.HasPrefix(strings.TrimSpace(line), begin) {
			s.left = append(s.left, fmt.Sprintf("%s:%d: %q is not run: %s", s.page, b.line, strings.TrimSpace(line), reason))
			continue
		}
		kept += line
	}
	if kept == b.text {
		s.errs = append(s.errs, fmt.Errorf("%s:%d: no line begins with %q", s.page, b.line, begin))
	}
	return kept
}

// The addresses that the pages name.
var addresses = []string{"127.0.0.1:50051", "127.0.0.1:9464"}

// shell runs the steps of a session, the files N.sh of the folder $0 from 0 to $1 - 1, and
// keeps what they print. A step that N.how calls a server is awaited and stopped; the
// session has to leave nothing behind.
const shell = `
set -euo pipefail
set -m # Every job has a group of processes of its own.
stop() { kill -TERM -- "-$1" 2>/dev/null && wait "$1" || true; }
trap 'for group in $(jobs -p); do stop "$group"; done' EXIT
await() {
	until (exec 3<>/dev/tcp/127.0.0.1/50051) 2>/dev/null; do
		kill -0 "$1" 2>/dev/null || return 1
		sleep 0.1
	done
}
steps=$0
for ((step = 0; step < $1; step++)); do
	echo "$step" >"$steps/at"
	case $(cat "$steps/$step.how") in
	serves)
		(set +m; . "$steps/$step.sh") >"$steps/$step.out" 2>"$steps/$step.err" &
		await $!
		stop $!
		;;
	"run with a server")
		bin/elastalloc serve 2>/dev/null &
		server=$!
		await $server
		. "$steps/$step.sh" >"$steps/$step.out" 2>"$steps/$step.err"
		stop $server
		;;
	*) . "$steps/$step.sh" >"$steps/$step.out" 2>"$steps/$step.err" ;;
	esac
done
echo done >"$steps/at"
`

// run types the steps in a folder and returns what is wrong with the page.
func (s *session) run(t *testing.T, dir string) []error {
	t.Helper()
	steps := t.TempDir()
	for i, step := range s.steps {
		for suffix, text := range map[string]string{".sh": step.text, ".how": step.how} {
			if err := os.WriteFile(filepath.Join(steps, fmt.Sprint(i)+suffix), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-c", shell, steps, fmt.Sprint(len(s.steps)))
	command.Dir = dir
	// Whatever a session leaves behind ends with its group of processes.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = 10 * time.Second
	defer func() {
		if command.Process != nil {
			_ = command.Cancel()
		}
	}()
	// No decision of a page hangs on how busy the machine is.
	command.Env = append(os.Environ(), "ELASTALLOC_BUDGET=10s", "ELASTALLOC_DEFAULT_BUDGET=10s")
	output, failed := command.CombinedOutput()
	at, err := os.ReadFile(filepath.Join(steps, "at"))
	if err != nil {
		t.Fatalf("%v\n%s", failed, output)
	}
	errs := s.errs
	for i, step := range s.steps {
		stdout, _ := os.ReadFile(filepath.Join(steps, fmt.Sprint(i, ".out")))
		if fmt.Sprint(i)+"\n" == string(at) {
			stderr, _ := os.ReadFile(filepath.Join(steps, fmt.Sprint(i, ".err")))
			return append(errs, fmt.Errorf("%s:%d: %w\n%s%s%s%s", s.page, step.line, failed, step.text, stdout, stderr, output))
		}
		printed := maskTimes(string(stdout))
		for j, line := range step.shown {
			if line != "…" && !strings.Contains("\n"+printed, "\n"+maskTimes(line)+"\n") {
				errs = append(errs, fmt.Errorf("%s:%d: shows a line that is not printed: %s", s.page, step.shownLine+j+1, line))
			}
		}
	}
	return errs
}

// maskTimes hides what differs from run to run.
func maskTimes(text string) string {
	return regexp.MustCompile(`\b(in|after) [0-9.]+(ns|µs|ms|s)\b`).ReplaceAllString(text, "$1 TIME")
}
