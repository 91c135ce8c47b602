//go:build unix

package faults

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/elastalloc/elastalloc/internal/testing/servertest"
	"github.com/elastalloc/elastalloc/internal/testing/testcert"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server"
)

var overloadCalls = flag.Int("overloadcalls", 20, "number of honest calls per case of TestOverload, five per second")

// overload is a load of hostile or careless callers until ctx is canceled.
type overload struct {
	run func(ctx context.Context, b *attacker)
	// plainOnly reports that the overload uses several addresses, and is not run over TLS.
	plainOnly bool
	// chart reports that the server has the resources of the chart, recorded that it records calls, and audited
	// that it audits every response.
	chart, recorded, audited bool
	// before is the effect before the server was protected.
	before string
}

// attacker runs an overload in a separate process with low priority, as if it ran on another machine.
type attacker struct {
	address string
	// tls is nil for plain text.
	tls *tls.Config
}

// overloadEnv is the variable that makes the test program an attacker. Its lines are the name of the overload, the
// address, and over TLS the files of its certificate, its key and the certificate of the server.
const overloadEnv = "ELASTALLOC_FAULTS_OVERLOAD"

// startAttacker starts an attacker, which exits with ctx or with this process, and returns when the overload has
// started. The function waits until it has exited.
func (s *target) startAttacker(ctx context.Context, overload string) (wait func()) {
	t := s.t
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(ctx, "nice", "-n", "19", self)
	command.Env = append(os.Environ(), overloadEnv+"="+strings.Join(append([]string{overload, s.Addr}, s.hostile...), "\n"))
	command.Stderr = os.Stderr
	if _, err := command.StdinPipe(); err != nil { // The attacker exits when the pipe is closed.
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Errorf("start of the attacker: %v", err)
	}
	return func() { _ = command.Wait() }
}

// runOverload is the main function of an attacker.
func runOverload(arguments string) error {
	parts := strings.Split(arguments, "\n")
	b := &attacker{address: parts[1]}
	if len(parts) > 2 {
		certificate, err := tls.LoadX509KeyPair(parts[2], parts[3])
		if err != nil {
			return err
		}
		server, err := os.ReadFile(parts[4])
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(server)
		b.tls = clientTLS(certificate, pool)
	}
	allOverloads()[parts[0]].run(context.Background(), b)
	fmt.Println("started")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// clientTLS returns the configuration of a caller with a certificate.
func clientTLS(own tls.Certificate, server *x509.CertPool) *tls.Config {
	return &tls.Config{
		RootCAs: server, Certificates: []tls.Certificate{own},
		ServerName: testcert.ServerName, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
	}
}

// target is a server under overload, with the configuration of its callers.
type target struct {
	*servertest.Server
	t *testing.T
	// honest is the TLS configuration of the honest caller, nil for plain text.
	// hostile contains the files for the configuration of the attacker.
	honest  *tls.Config
	hostile []string
	// limit is the memory limit of the server.
	limit int
}

// startTarget starts a server with its defaults or the values of the chart, and with mutual TLS if overTLS is set.
func startTarget(t *testing.T, overload overload, overTLS bool) *target {
	t.Helper()
	config := server.DefaultConfig()
	s := &target{t: t, limit: int(config.MaxMemory + config.BaseMemory())}
	var flags, env []string
	if overload.chart {
		s.limit = 1 << 30
		flags = []string{"--max-jobs=10000", "--max-queue=64", "--max-inflight=4"}
		env = append(os.Environ(), "GOMEMLIMIT=768MiB")
	}
	if overload.recorded {
		flags = append(flags, "--record="+t.TempDir())
	}
	if overload.audited {
		flags = append(flags, "--audit-share=1")
	}
	if overTLS {
		own := testcert.New(t, t.TempDir())
		honest, hostile := testcert.New(t, t.TempDir(), "honest.test"), testcert.New(t, t.TempDir(), "hostile.test")
		s.honest = clientTLS(honest.Certificate, own.Pool)
		s.hostile = []string{hostile.CertFile, hostile.KeyFile, own.CertFile}
		flags = append(flags, "--tls-cert="+own.CertFile, "--tls-key="+own.KeyFile, "--client-ca="+testcert.Bundle(t, honest, hostile))
	}
	s.Server = startServerWithEnv(t, env, flags...)
	return s
}

// dial opens a connection from an address of the loopback network.
func (b *attacker) dial(ctx context.Context, from string) (net.Conn, error) {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	if b.tls != nil {
		return (&tls.Dialer{NetDialer: dialer, Config: b.tls}).DialContext(ctx, "tcp", b.address)
	}
	return dialer.DialContext(ctx, "tcp", b.address)
}

// client returns a client that connects from an address.
func (b *attacker) client(from string) *grpc.ClientConn {
	connection, err := connect(b.address, from, b.tls)
	if err != nil {
		panic(err)
	}
	return connection
}

// connect returns a client without retries that connects from an address. The TLS configuration is nil for plain
// text.
func connect(address, from string, configuration *tls.Config) (*grpc.ClientConn, error) {
	security := insecure.NewCredentials()
	if configuration != nil {
		security = credentials.NewTLS(configuration)
	}
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(security),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(1<<30), grpc.MaxCallRecvMsgSize(1<<30)),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
			return dialer.DialContext(ctx, "tcp", address)
		}))
}

// again calls do repeatedly from atOnce goroutines until ctx is canceled.
func (b *attacker) again(ctx context.Context, atOnce int, do func(ctx context.Context, n int)) {
	for n := range atOnce {
		go func() {
			for ctx.Err() == nil {
				do(ctx, n)
				select {
				case <-ctx.Done():
				case <-time.After(time.Millisecond):
				}
			}
		}()
	}
}

// invoke makes a call with an encoded message.
func invoke(ctx context.Context, connection *grpc.ClientConn, method string, message []byte) {
	var response []byte
	_ = connection.Invoke(ctx, method, message, &response, grpc.ForceCodec(rawCodec{}))
}

// honestResult contains the results of an honest caller.
type honestResult struct {
	calls, shed int
	failed      []error
	took        []time.Duration
}

// callHonestly makes calls with 40 jobs, five per second and without retries. Each response must be legal.
func (s *target) callHonestly(ctx context.Context, from string, calls int) honestResult {
	s.t.Helper()
	connection, err := connect(s.Addr, from, s.honest)
	if err != nil {
		s.t.Fatal(err)
	}
	defer connection.Close()
	allocator := elastallocv1.NewAllocatorServiceClient(connection)
	var a honestResult
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for seed := range uint64(calls) {
		if len(a.failed) > 3 {
			break // More failures give no information.
		}
		request := randomRequest(40, 70, seed)
		limited, cancel := context.WithTimeout(ctx, generous)
		start := time.Now()
		response, err := allocator.Allocate(limited, request, grpc.WaitForReady(true))
		cancel()
		a.calls++
		a.took = append(a.took, time.Since(start))
		if err == nil {
			err = checkResponse(request, response)
		}
		if err != nil {
			a.failed = append(a.failed, fmt.Errorf("after %v: %w", time.Since(start), err))
		}
		if slices.ContainsFunc(response.GetReport().GetWarnings(), func(w *elastallocv1.Warning) bool {
			return w.GetCode() == elastallocv1.WarningCode_WARNING_CODE_LOAD_SHED_TO_GREEDY
		}) {
			a.shed++
		}
		<-ticker.C
	}
	return a
}

// quantile returns a quantile of the durations of the calls.
func (a *honestResult) quantile(share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(a.took))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))].Round(time.Millisecond)
}

// peakMemory returns the maximum resident memory of a server, or 0 if the system does not report it.
func (s *target) peakMemory() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	if err != nil {
		return 0
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		return 0
	}
	kilobytes, err := strconv.Atoi(string(found[1]))
	if err != nil {
		s.t.Fatal(err)
	}
	return kilobytes << 10
}

// TestOverload checks that an honest caller, from the same address or with another certificate, gets all responses
// under every overload, and that the memory of the server stays within its limit and its base.
func TestOverload(t *testing.T) {
	t.Parallel()
	needFiles(t, 3000)
	for name, overload := range allOverloads() {
		for _, overTLS := range []bool{false, true} {
			if overTLS && (overload.plainOnly || overload.chart) {
				continue
			}
			t.Run(fmt.Sprintf("%s, TLS %t", name, overTLS), func(t *testing.T) {
				t.Parallel()
				s := startTarget(t, overload, overTLS)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				idle := s.peakMemory()
				awaitExit := s.startAttacker(ctx, name)
				honest := s.callHonestly(t.Context(), loopback, *overloadCalls)
				cancel()
				awaitExit()
				peak := s.peakMemory()
				shown := servertest.Metrics(t, s.Server)
				if overload.before != "" {
					t.Logf("effect before the protection: %s", overload.before)
				}
				t.Logf("%d calls, %d failed, %d greedy, p50 %v, p99 %v; memory %d to %d MiB; %.0f shed",
					honest.calls, len(honest.failed), honest.shed, honest.quantile(0.5), honest.quantile(0.99),
					idle>>20, peak>>20, shown["elastalloc_shed_total"])
				for _, err := range honest.failed[:min(3, len(honest.failed))] {
					t.Errorf("call of the honest caller: %v", err)
				}
				if peak > s.limit {
					t.Errorf("the server used %d MiB; want at most %d", peak>>20, s.limit>>20)
				}
				wait.For(t, "the memory of the calls is released", func() (bool, string) {
					shown := servertest.Metrics(t, s.Server)
					used, inflight := shown["elastalloc_memory_bytes"], shown["elastalloc_inflight_requests"]
					return used == 0 && inflight == 0, fmt.Sprintf("%.0f bytes, %.0f calls in flight", used, inflight)
				})
			})
		}
	}
}
