// Package servertest runs servers of the real binary for tests.
package servertest

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/elastalloc/elastalloc/cmd/elastalloc/internal/process"
	"github.com/elastalloc/elastalloc/internal/wait"
)

// Start starts a server that drains without a delay, with an environment of KEY=value,
// nil for that of this process. It is stopped when the test ends and has to exit with
// status 0 then, unless the test has stopped or killed it before.
func Start(tb testing.TB, binary string, env []string, flags ...string) *process.Server {
	tb.Helper()
	// The context of the test is cancelled before its cleanup; the server ends there.
	ctx, cancel := context.WithCancel(context.Background())
	server, err := process.StartWithEnv(ctx, binary, env, append([]string{"--drain-delay=0s"}, flags...)...)
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
func Dial(tb testing.TB, server *process.Server) *grpc.ClientConn {
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
func Page(tb testing.TB, server *process.Server, path string) (text string) {
	tb.Helper()
	wait.For(tb, "the page "+path, func() (bool, string) {
		var err error
		text, err = server.Page(tb.Context(), path)
		return err == nil, fmt.Sprint(err)
	})
	return text
}

// Metrics returns every series of /metrics by its name and labels.
func Metrics(tb testing.TB, server *process.Server) (series map[string]float64) {
	tb.Helper()
	wait.For(tb, "the metrics", func() (bool, string) {
		var err error
		series, err = server.Metrics(tb.Context())
		return err == nil, fmt.Sprint(err)
	})
	return series
}
