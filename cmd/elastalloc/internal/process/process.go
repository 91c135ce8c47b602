// Package process runs the elastalloc server as a process of its own, for tests.
package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/elastalloc/elastalloc/internal/syncbuffer"
)

// Server is a running server process.
type Server struct {
	// Addr and AdminAddr are where it serves gRPC and admin HTTP.
	Addr, AdminAddr string

	command *exec.Cmd
	logs    *syncbuffer.Buffer
	// exited is closed when the process has ended, with err saying how.
	exited chan struct{}
	err    error
}

// Start runs "binary serve" with the given further flags on free ports of the
// loopback interface, and returns when the server is ready. The process is killed
// when ctx ends.
func Start(ctx context.Context, binary string, flags ...string) (*Server, error) {
	return StartWithEnv(ctx, binary, nil, flags...)
}

// StartWithEnv is Start with an environment of KEY=value; nil means that of this
// process.
func StartWithEnv(ctx context.Context, binary string, env []string, flags ...string) (*Server, error) {
	arguments := append([]string{"serve", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"}, flags...)
	s := &Server{
		command: exec.CommandContext(ctx, binary, arguments...),
		logs:    new(syncbuffer.Buffer),
		exited:  make(chan struct{}),
	}
	s.command.Env = env
	logs, err := s.command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	serving := make(chan struct{})
	go s.follow(logs, serving)

	select {
	case <-serving:
		err = s.awaitReady(ctx)
	case <-s.exited:
		err = errors.New("server ended before it served")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w; its log:\n%s", err, s.Logs()), s.Stop())
	}
	return s, nil
}

// follow keeps the server's log, closes serving when the log has named the
// addresses, and notes how the process ended.
func (s *Server) follow(logs io.Reader, serving chan<- struct{}) {
	kept := io.TeeReader(logs, s.logs)
	lines := bufio.NewScanner(kept)
	for lines.Scan() {
		var entry struct {
			Message      string `json:"msg"`
			Address      string `json:"address"`
			AdminAddress string `json:"admin_address"`
		}
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Message == "serving" && s.Addr == "" {
			s.Addr, s.AdminAddr = entry.Address, entry.AdminAddress
			close(serving)
		}
	}
	io.Copy(io.Discard, kept) //nolint:errcheck // A line that was too long to scan must not block the server.
	s.err = s.command.Wait()
	close(s.exited)
}

// awaitReady polls /readyz until it says yes.
func (s *Server) awaitReady(ctx context.Context) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := s.Page(ctx, "/readyz"); err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.exited:
			return errors.New("server ended before it was ready")
		}
	}
}

// Stop asks the server to drain, waits for its end and returns nil if it exited
// with status 0.
func (s *Server) Stop() error {
	if err := s.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.exited
	return s.err
}

// Kill ends the server at once with SIGKILL, as a machine out of memory does, and
// waits for its end.
func (s *Server) Kill() error {
	if err := s.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.exited
	return nil
}

// Killed reports whether SIGKILL has ended the server.
func (s *Server) Killed() bool {
	select {
	case <-s.exited:
		status, ok := s.command.ProcessState.Sys().(syscall.WaitStatus)
		return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
	default:
		return false
	}
}

// PID returns the number of the server's process.
func (s *Server) PID() int { return s.command.Process.Pid }

// Logs returns what the server has logged so far.
func (s *Server) Logs() string { return s.logs.String() }
