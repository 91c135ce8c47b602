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

var siegeCalls = flag.Int("siegecalls", 20, "how many honest calls TestSieges makes in each siege, five a second")

// siege is what hostile or careless callers do until ctx ends, all that they can.
type siege struct {
	lay func(ctx context.Context, b *besieger)
	// plainOnly says that it is one of several addresses.
	plainOnly bool
	// chart says that the server is as large as the chart makes it, recorded that it records,
	// and audited that it audits every answer.
	chart, recorded, audited bool
	// before is what it did to a server that did not know it.
	before string
}

// besieger is who lays siege to a server: a process of its own, which yields the processors
// to the server, as if it ran on other machines.
type besieger struct {
	address string
	// tls is nil for plain text.
	tls *tls.Config
}

// siegeEnv is the variable that makes the test program a besieger. It names the siege and the
// address, and over TLS the files of its certificate, of its key and of the server's
// certificate, a line each.
const siegeEnv = "ELASTALLOC_FAULTS_SIEGE"

// lay starts a besieger, which ends with ctx or with this process, and returns when the siege
// is laid. The function waits until it has ended.
func (s *besieged) lay(ctx context.Context, siege string) (ended func()) {
	t := s.t
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(ctx, "nice", "-n", "19", self)
	command.Env = append(os.Environ(), siegeEnv+"="+strings.Join(append([]string{siege, s.Addr}, s.hostile...), "\n"))
	command.Stderr = os.Stderr
	if _, err := command.StdinPipe(); err != nil { // It ends when this end is closed.
		t.Fatal(err)
	}
	says, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := says.Read(make([]byte, 1)); err != nil {
		t.Errorf("the besieger: %v", err)
	}
	return func() { _ = command.Wait() }
}

// besiege is the main function of a besieger.
func besiege(arguments string) error {
	parts := strings.Split(arguments, "\n")
	b := &besieger{address: parts[1]}
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
	allSieges()[parts[0]].lay(context.Background(), b)
	fmt.Println("laid")
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

// besieged is a server under siege, and how callers reach it.
type besieged struct {
	*servertest.Server
	t *testing.T
	// honest is the TLS configuration of the honest caller, nil for plain text, and
	// hostile the files for that of the besieger.
	honest  *tls.Config
	hostile []string
	// limit is the most memory that it may take.
	limit int
}

// startBesieged starts a server with its own defaults or those of the chart, with mutual TLS
// where asked for.
func startBesieged(t *testing.T, siege siege, overTLS bool) *besieged {
	t.Helper()
	config := server.DefaultConfig()
	s := &besieged{t: t, limit: int(config.MaxMemory + config.BaseMemory())}
	var flags, env []string
	if siege.chart {
		s.limit = 1 << 30
		flags = []string{"--max-jobs=10000", "--max-queue=64", "--max-inflight=4"}
		env = append(os.Environ(), "GOMEMLIMIT=768MiB")
	}
	if siege.recorded {
		flags = append(flags, "--record="+t.TempDir())
	}
	if siege.audited {
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
func (b *besieger) dial(ctx context.Context, from string) (net.Conn, error) {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	if b.tls != nil {
		return (&tls.Dialer{NetDialer: dialer, Config: b.tls}).DialContext(ctx, "tcp", b.address)
	}
	return dialer.DialContext(ctx, "tcp", b.address)
}

// client returns a client that comes from an address.
func (b *besieger) client(from string) *grpc.ClientConn {
	connection, err := connect(b.address, from, b.tls)
	if err != nil {
		panic(err)
	}
	return connection
}

// connect returns a client without retries that comes from an address; configuration is
// of TLS, nil for plain text.
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

// again calls do again and again, from atOnce goroutines, until ctx ends.
func (b *besieger) again(ctx context.Context, atOnce int, do func(ctx context.Context, n int)) {
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

// invoke makes a call with a message as it is.
func invoke(ctx context.Context, connection *grpc.ClientConn, method string, message []byte) {
	var answer []byte
	_ = connection.Invoke(ctx, method, message, &answer, grpc.ForceCodec(rawCodec{}))
}

// honestAnswers is what an honest caller got.
type honestAnswers struct {
	calls, shed int
	failed      []error
	took        []time.Duration
}

// askHonestly makes calls of 40 jobs, five a second and without a retry, each of which has
// to be answered legally.
func (s *besieged) askHonestly(ctx context.Context, from string, calls int) honestAnswers {
	s.t.Helper()
	connection, err := connect(s.Addr, from, s.honest)
	if err != nil {
		s.t.Fatal(err)
	}
	defer connection.Close()
	allocator := elastallocv1.NewAllocatorServiceClient(connection)
	var a honestAnswers
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for seed := range uint64(calls) {
		if len(a.failed) > 3 {
			break // There is nothing more to learn.
		}
		request := drawnRequest(40, 70, seed)
		limited, cancel := context.WithTimeout(ctx, generous)
		start := time.Now()
		answer, err := allocator.Allocate(limited, request, grpc.WaitForReady(true))
		cancel()
		a.calls++
		a.took = append(a.took, time.Since(start))
		if err == nil {
			err = checkAnswer(request, answer)
		}
		if err != nil {
			a.failed = append(a.failed, fmt.Errorf("after %v: %w", time.Since(start), err))
		}
		if slices.ContainsFunc(answer.GetReport().GetWarnings(), func(w *elastallocv1.Warning) bool {
			return w.GetCode() == elastallocv1.WarningCode_WARNING_CODE_LOAD_SHED_TO_GREEDY
		}) {
			a.shed++
		}
		<-ticker.C
	}
	return a
}

// quantile returns the time in which that share of the calls was answered.
func (a *honestAnswers) quantile(share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(a.took))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))].Round(time.Millisecond)
}

// peakMemory returns the largest resident memory that a server has had, 0 where the
// system does not tell.
func (s *besieged) peakMemory() int {
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

// TestSieges checks that no caller takes the server from another, nor its memory: under
// every siege an honest caller, from the same address or with another certificate, is
// answered each time, and the server's memory stays within its limit and its base.
func TestSieges(t *testing.T) {
	t.Parallel()
	needFiles(t, 3000)
	for name, siege := range allSieges() {
		for _, overTLS := range []bool{false, true} {
			if overTLS && (siege.plainOnly || siege.chart) {
				continue
			}
			t.Run(fmt.Sprintf("%s, TLS %t", name, overTLS), func(t *testing.T) {
				t.Parallel()
				s := startBesieged(t, siege, overTLS)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				idle := s.peakMemory()
				ended := s.lay(ctx, name)
				honest := s.askHonestly(t.Context(), loopback, *siegeCalls)
				cancel()
				ended()
				peak := s.peakMemory()
				shown := servertest.Metrics(t, s.Server)
				if siege.before != "" {
					t.Logf("before it was stopped: %s", siege.before)
				}
				t.Logf("%d calls, %d failed, %d greedy, p50 %v, p99 %v; memory %d to %d MiB; %.0f shed",
					honest.calls, len(honest.failed), honest.shed, honest.quantile(0.5), honest.quantile(0.99),
					idle>>20, peak>>20, shown["elastalloc_shed_total"])
				for _, err := range honest.failed[:min(3, len(honest.failed))] {
					t.Errorf("the honest caller: %v", err)
				}
				if peak > s.limit {
					t.Errorf("the server took %d MiB; want at most %d", peak>>20, s.limit>>20)
				}
				wait.For(t, "what the calls held is given back", func() (bool, string) {
					shown := servertest.Metrics(t, s.Server)
					held, inflight := shown["elastalloc_memory_bytes"], shown["elastalloc_inflight_requests"]
					return held == 0 && inflight == 0, fmt.Sprintf("%.0f bytes, %.0f calls in flight", held, inflight)
				})
			})
		}
	}
}
