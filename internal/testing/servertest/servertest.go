// Package servertest runs the elastalloc server as a process of its own, for tests.
package servertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/elastalloc/elastalloc/internal/testing/syncbuffer"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
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

// New runs "binary serve" with the given further flags on free ports of the loopback
// interface, with an environment of KEY=value, nil for that of this process, and returns when
// the server is ready. The process is killed when ctx ends.
func New(ctx context.Context, binary string, env []string, flags ...string) (*Server, error) {
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
		if _, err := s.page(ctx, "/readyz"); err == nil {
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

// page returns what the admin address of the server answers to a GET of a path. It is
// an error if that is not OK.
func (s *Server) page(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.AdminAddr+path, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", path, response.Status, text)
	}
	return string(text), err
}

// Start starts a server that drains without a delay, with an environment of KEY=value,
// nil for that of this process. It is stopped when the test ends and has to exit with
// status 0 then, unless the test has stopped or killed it before.
func Start(tb testing.TB, binary string, env []string, flags ...string) *Server {
	tb.Helper()
	// The context of the test is cancelled before its cleanup; the server ends there.
	ctx, cancel := context.WithCancel(context.Background())
	server, err := New(ctx, binary, env, append([]string{"--drain-delay=0s"}, flags...)...)
	if err != nil {
		cancel()
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		defer cancel()
		if err := server.Stop(); err != nil && !server.Killed() {
			tb.Errorf("the server ended with %v; its log:\n%s", err, server.Logs())
		}
	})
	return server
}

// Dial connects to a server, without retries of the client's own.
func Dial(tb testing.TB, server *Server) *grpc.ClientConn {
	tb.Helper()
	connection, err := grpc.NewClient(server.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = connection.Close() })
	return connection
}

// Page returns a page of the admin address of a server. It asks again where the server
// hangs up, as it does on a busy machine where a request takes too long to arrive.
func Page(tb testing.TB, server *Server, path string) (text string) {
	tb.Helper()
	wait.For(tb, "the page "+path, func() (bool, string) {
		var err error
		text, err = server.page(tb.Context(), path)
		return err == nil, fmt.Sprint(err)
	})
	return text
}

// Metrics returns every series of /metrics by its name and labels, written as in
// `name{label="value", other="value"}` in the order of the labels' names.
func Metrics(tb testing.TB, server *Server) map[string]float64 {
	tb.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(Page(tb, server, "/metrics")))
	if err != nil {
		tb.Fatalf("parse /metrics: %v", err)
	}
	samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, slices.Collect(maps.Values(families))...)
	if err != nil {
		tb.Fatalf("parse /metrics: %v", err)
	}
	series := make(map[string]float64, len(samples))
	for _, sample := range samples {
		series[sample.Metric.String()] = float64(sample.Value)
	}
	return series
}
