//go:build linux

package cluster

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// processes starts programs that end with this one, however it ends: they are sent SIGKILL
// when the thread that started them is gone, and that thread lives as long as this program.
type processes struct {
	logs   string
	starts chan func()

	mu      sync.Mutex
	running map[*Process]bool
}

// Process is a program that a cluster started.
type Process struct {
	// Log is the path of what it wrote to standard output and standard error.
	Log string

	command *exec.Cmd
	exited  chan struct{}
	owner   *processes
}

func newProcesses(logs string) *processes {
	p := &processes{logs: logs, starts: make(chan func()), running: map[*Process]bool{}}
	go func() {
		runtime.LockOSThread() // Never unlocked: see above.
		for start := range p.starts {
			start()
		}
	}()
	return p
}

// start starts a program in a group of its own. Its log is appended to one of the same name.
func (p *processes) start(name, path string, args ...string) (*Process, error) {
	logPath := filepath.Join(p.logs, name+".log")
	output, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	//nolint:noctx // It lives longer than the call: Kill ends it, and so does our own end.
	command := exec.Command(path, args...)
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	process := &Process{Log: logPath, command: command, exited: make(chan struct{}), owner: p}
	started := make(chan error)
	p.starts <- func() { started <- command.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.mu.Lock()
	p.running[process] = true
	p.mu.Unlock()
	go func() {
		_ = command.Wait() // How it ended is for those that wait for Exited to judge.
		p.mu.Lock()
		delete(p.running, process)
		p.mu.Unlock()
		close(process.exited)
	}()
	return process, nil
}

// killAll ends every process that still runs.
func (p *processes) killAll() {
	p.mu.Lock()
	running := make([]*Process, 0, len(p.running))
	for process := range p.running {
		running = append(running, process)
	}
	p.mu.Unlock()
	for _, process := range running {
		process.Kill()
	}
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Used returns how long the process has computed and the most memory that it held, in bytes, once
// it has ended.
func (p *Process) Used() (cpu time.Duration, memory int64) {
	<-p.exited
	if usage, ok := p.command.ProcessState.SysUsage().(*syscall.Rusage); ok {
		memory = 1024 * usage.Maxrss
	}
	return p.command.ProcessState.UserTime() + p.command.ProcessState.SystemTime(), memory
}

// Kill sends SIGKILL to the process and all that it started, and returns when it is gone.
// It may be called again.
func (p *Process) Kill() { p.Signal(syscall.SIGKILL); <-p.exited }

// Signal sends a signal to the process and all that it started.
func (p *Process) Signal(signal syscall.Signal) {
	p.owner.mu.Lock() // While it is listed its number is not another's.
	defer p.owner.mu.Unlock()
	if p.owner.running[p] {
		_ = syscall.Kill(-p.command.Process.Pid, signal)
	}
}

// Tail returns the end of the log, for the message of a failure.
func (p *Process) Tail() string {
	const most = 4000
	file, err := os.Open(p.Log)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if size, err := file.Seek(0, io.SeekEnd); err == nil {
		_, _ = file.Seek(max(0, size-most), io.SeekStart)
	}
	tail, _ := io.ReadAll(file)
	return string(tail)
}
