// Package servertest runs the elastalloc server as a child process in tests.
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
	// Addr is the address of gRPC, and AdminAddr the address of admin HTTP.
	Addr, AdminAddr string

	command *exec.Cmd
	logs    *syncbuffer.Buffer
	// exited is closed when the process has exited. err is then the error of Wait.
	exited chan struct{}
	err    error
}

// New runs "binary serve" with the given flags on free ports of the loopback interface, and returns
// when the server is ready. env has entries KEY=value; nil means the environment of this process. The
// process is killed when ctx is done.
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
	go s.readLogs(logs, serving)

	select {
	case <-serving:
		err = s.awaitReady(ctx)
	case <-s.exited:
		err = errors.New("the server exited before it was serving")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w; its log:\n%s", err, s.Logs()), s.Stop())
	}
	return s, nil
}

// readLogs copies the log of the server until the process exits. It closes serving when the log has the
// addresses.
func (s *Server) readLogs(logs io.Reader, serving chan<- struct{}) {
	tee := io.TeeReader(logs, s.logs)
	lines := bufio.NewScanner(tee)
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
	io.Copy(io.Discard, tee) //nolint:errcheck // A line that is too long for the scanner must not block the server.
	s.err = s.command.Wait()
	close(s.exited)
}

// awaitReady polls /readyz until the server is ready.
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
			return errors.New("the server exited before it was ready")
		}
	}
}

// Stop sends SIGTERM, so that the server drains, and waits until it exits. It returns nil if the exit
// status is 0.
func (s *Server) Stop() error {
	if err := s.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.exited
	return s.err
}

// Kill sends SIGKILL, as the kernel does if memory is exhausted, and waits until the server exits.
func (s *Server) Kill() error {
	if err := s.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.exited
	return nil
}

// Killed reports whether the server was killed by SIGKILL.
func (s *Server) Killed() bool {
	select {
	case <-s.exited:
		status, ok := s.command.ProcessState.Sys().(syscall.WaitStatus)
		return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
	default:
		return false
	}
}

// PID returns the process id of the server.
func (s *Server) PID() int { return s.command.Process.Pid }

// Logs returns the log of the server so far.
func (s *Server) Logs() string { return s.logs.String() }

// page returns the body of a GET request to the admin address. A status other than 200 is an error.
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
		err = fmt.Errorf("GET %s: %s: %s", path, response.Status, text)
	}
	return string(text), err
}

// Start is New for tests, without a drain delay. The server is stopped at the end of the test and must
// then exit with status 0, unless the test has stopped or killed it before.
func Start(tb testing.TB, binary string, env []string, flags ...string) *Server {
	tb.Helper()
	// The context of the test cannot be used, because it is canceled before the cleanup stops the server.
	ctx, cancel := context.WithCancel(context.Background())
	server, err := New(ctx, binary, env, append([]string{"--drain-delay=0s"}, flags...)...)
	if err != nil {
		cancel()
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		defer cancel()
		if err := server.Stop(); err != nil && !server.Killed() {
			tb.Errorf("the server exited with %v; its log:\n%s", err, server.Logs())
		}
	})
	return server
}

// Dial connects to a server without retries.
func Dial(tb testing.TB, server *Server) *grpc.ClientConn {
	tb.Helper()
	connection, err := grpc.NewClient(server.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = connection.Close() })
	return connection
}

// Page returns a page of the admin address of a server. It retries, because the server closes a
// connection if a request takes too long to arrive on a busy machine.
func Page(tb testing.TB, server *Server, path string) (text string) {
	tb.Helper()
	wait.For(tb, "the page "+path, func() (bool, string) {
		var err error
		text, err = server.page(tb.Context(), path)
		return err == nil, fmt.Sprint(err)
	})
	return text
}

// Metrics returns the value of every series of /metrics. Keys have the form `name{label="value",
// other="value"}`, with labels sorted by name.
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
