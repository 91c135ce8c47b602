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

// processes starts programs that the kernel kills when this program exits. The kernel sends SIGKILL
// when the thread that started them exits, so one thread starts all of them and never exits.
type processes struct {
	logs   string
	starts chan func()

	mu      sync.Mutex
	running map[*Process]bool
}

// Process is a program that a cluster started.
type Process struct {
	// Log is the path of the file with standard output and standard error.
	Log string

	command *exec.Cmd
	exited  chan struct{}
	owner   *processes
}

func newProcesses(logs string) *processes {
	p := &processes{logs: logs, starts: make(chan func()), running: map[*Process]bool{}}
	go func() {
		runtime.LockOSThread() // It is never unlocked, see above.
		for start := range p.starts {
			start()
		}
	}()
	return p
}

// start starts a program in a new process group. It appends to the log of an earlier program of the
// same name.
func (p *processes) start(name, path string, args ...string) (*Process, error) {
	logPath := filepath.Join(p.logs, name+".log")
	output, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	//nolint:noctx // The process outlives the call. Kill stops it.
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
		_ = command.Wait() // Callers that wait for Exited decide whether the exit is an error.
		p.mu.Lock()
		delete(p.running, process)
		p.mu.Unlock()
		close(process.exited)
	}()
	return process, nil
}

// killAll kills all running processes.
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

// Exited returns a channel that is closed when the process has exited.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Used waits until the process has exited, and returns its CPU time and its maximum resident memory in bytes.
func (p *Process) Used() (cpu time.Duration, memory int64) {
	<-p.exited
	if usage, ok := p.command.ProcessState.SysUsage().(*syscall.Rusage); ok {
		memory = 1024 * usage.Maxrss
	}
	return p.command.ProcessState.UserTime() + p.command.ProcessState.SystemTime(), memory
}

// Kill sends SIGKILL to the process group, and waits until the process has exited. It may be called
// repeatedly.
func (p *Process) Kill() { p.Signal(syscall.SIGKILL); <-p.exited }

// Signal sends a signal to the process group.
func (p *Process) Signal(signal syscall.Signal) {
	p.owner.mu.Lock() // While the process is in running, its id is not reused.
	defer p.owner.mu.Unlock()
	if p.owner.running[p] {
		_ = syscall.Kill(-p.command.Process.Pid, signal)
	}
}

// Tail returns the end of the log, for error messages.
func (p *Process) Tail() string {
	const maxBytes = 4000
	file, err := os.Open(p.Log)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if size, err := file.Seek(0, io.SeekEnd); err == nil {
		_, _ = file.Seek(max(0, size-maxBytes), io.SeekStart)
	}
	tail, _ := io.ReadAll(file)
	return string(tail)
}
