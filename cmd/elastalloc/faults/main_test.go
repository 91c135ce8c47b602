//go:build unix

package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/elastalloc/elastalloc/cmd/elastalloc/internal/process"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// binary is the program under test, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	directory, err := build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		os.RemoveAll(directory)
		os.Exit(status)
	}))
}

// build builds the program as it is shipped, statically, into a folder of its own,
// unless ELASTALLOC_FAULTS_BINARY names one that is built: where scripts/clock-jump.sh
// runs these tests there is no Go.
func build() (directory string, err error) {
	if binary = os.Getenv("ELASTALLOC_FAULTS_BINARY"); binary != "" {
		return "", nil
	}
	if directory, err = os.MkdirTemp("", "elastalloc-faults"); err != nil {
		return "", err
	}
	binary = filepath.Join(directory, "elastalloc")
	command := exec.Command("go", "build", "-o", binary, "..")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		os.RemoveAll(directory)
		return "", fmt.Errorf("building the binary: %w\n%s", err, output)
	}
	return directory, nil
}

// startServer starts a server that is stopped when the test ends, unless the test
// has done so itself. It drains without a delay.
func startServer(t *testing.T, flags ...string) *process.Server {
	t.Helper()
	return startServerWithEnv(t, nil, flags...)
}

// startServerWithEnv is startServer with an environment; nil means ours.
func startServerWithEnv(t *testing.T, env []string, flags ...string) *process.Server {
	t.Helper()
	// The context of the test is cancelled before its cleanup; the server ends there.
	ctx, cancel := context.WithCancel(context.Background())
	server, err := process.StartWithEnv(ctx, binary, env, append([]string{"--drain-delay=0s"}, flags...)...)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer cancel()
		if err := server.Stop(); err != nil && !server.Killed() {
			t.Errorf("the server ended with %v; its log:\n%s", err, server.Logs())
		}
	})
	return server
}

// newAllocator returns a client of a server without any retries of its own, so that
// a test sees every failure.
func newAllocator(t *testing.T, server *process.Server) elastallocv1.AllocatorServiceClient {
	t.Helper()
	connection, err := grpc.NewClient(server.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return elastallocv1.NewAllocatorServiceClient(connection)
}

// metric returns the value of a series, written as /metrics shows it, and false
// where there is no such series.
func metric(t *testing.T, server *process.Server, series string) (float64, bool) {
	t.Helper()
	value, found := metrics(t, server)[series]
	return value, found
}
