//go:build unix

package faults

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/elastalloc/elastalloc/internal/testing/clitest"
	"github.com/elastalloc/elastalloc/internal/testing/servertest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// binary is the program under test, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	if arguments := os.Getenv(overloadEnv); arguments != "" {
		if err := runOverload(arguments); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	}
	if !testtier.Faults.Selected() {
		fmt.Println("skipped: `make faults` runs these")
		os.Exit(0)
	}
	remove, err := build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		remove()
		os.Exit(status)
	}))
}

// build builds the program, unless ELASTALLOC_FAULTS_BINARY is the path of a program. scripts/clock-jump.sh runs these
// tests on a machine without Go.
func build() (remove func(), err error) {
	if binary = os.Getenv("ELASTALLOC_FAULTS_BINARY"); binary != "" {
		return func() {}, nil
	}
	binary, remove, err = clitest.Build("..")
	return remove, err
}

// startServer starts a server that is stopped at the end of the test, without a time limit for calls in flight.
func startServer(t *testing.T, flags ...string) *servertest.Server {
	t.Helper()
	return startServerWithEnv(t, nil, flags...)
}

// startServerWithEnv is startServer with an environment; nil means the environment of the test.
func startServerWithEnv(t *testing.T, env []string, flags ...string) *servertest.Server {
	t.Helper()
	return servertest.Start(t, binary, env, append([]string{"--drain-timeout=" + generous.String()}, flags...)...)
}

// newAllocator returns a client of a server without retries, so that a test sees every failure.
func newAllocator(t *testing.T, server *servertest.Server) elastallocv1.AllocatorServiceClient {
	t.Helper()
	return elastallocv1.NewAllocatorServiceClient(servertest.Dial(t, server))
}

// metric returns the value of a series, and false if the series is missing.
func metric(t *testing.T, server *servertest.Server, series string) (float64, bool) {
	t.Helper()
	value, found := servertest.Metrics(t, server)[series]
	return value, found
}
