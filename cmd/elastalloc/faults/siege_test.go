//go:build unix

package faults

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/elastalloc/elastalloc/cmd/elastalloc/internal/process"
	"github.com/elastalloc/elastalloc/cmd/elastalloc/internal/servertest"
	"github.com/elastalloc/elastalloc/internal/testcert"
	"github.com/elastalloc/elastalloc/internal/wait"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server"
)

// siege is what hostile or careless callers do until ctx ends, all that they can.
type siege struct {
	flags []string // Of the server.
	lay   func(ctx context.Context, s *besieged)
	// plainOnly says that it is one of several addresses.
	plainOnly bool
}

// besieged is a server under siege, and how callers reach it.
type besieged struct {
	*process.Server
	t *testing.T
	// honest and hostile are the TLS configurations of callers; nil is plain text.
	honest, hostile *tls.Config
	running         sync.WaitGroup
}

// startBesieged starts a server with its own defaults, with mutual TLS where asked for.
func startBesieged(t *testing.T, overTLS bool, flags ...string) *besieged {
	t.Helper()
	s := &besieged{t: t}
	if overTLS {
		own := testcert.New(t, t.TempDir())
		honest, hostile := testcert.New(t, t.TempDir(), "honest.test"), testcert.New(t, t.TempDir(), "hostile.test")
		as := func(id testcert.Identity) *tls.Config {
			return &tls.Config{
				RootCAs: own.Pool, Certificates: []tls.Certificate{id.Certificate},
				ServerName: testcert.ServerName, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
			}
		}
		s.honest, s.hostile = as(honest), as(hostile)
		flags = append(flags, "--tls-cert="+own.CertFile, "--tls-key="+own.KeyFile, "--client-ca="+testcert.Bundle(t, honest, hostile))
	}
	s.Server = startServer(t, flags...)
	return s
}

// dial opens a connection of a hostile caller, from an address of the loopback network.
func (s *besieged) dial(ctx context.Context, from string) (net.Conn, error) {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	if s.hostile != nil {
		return (&tls.Dialer{NetDialer: dialer, Config: s.hostile}).DialContext(ctx, "tcp", s.Addr)
	}
	return dialer.DialContext(ctx, "tcp", s.Addr)
}

// client returns a client without retries that comes from an address; configuration is
// of TLS, nil for plain text.
func (s *besieged) client(from string, configuration *tls.Config) *grpc.ClientConn {
	s.t.Helper()
	security := insecure.NewCredentials()
	if configuration != nil {
		security = credentials.NewTLS(configuration)
	}
	connection, err := grpc.NewClient("passthrough:///"+s.Addr, grpc.WithTransportCredentials(security),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(1<<30), grpc.MaxCallRecvMsgSize(1<<30)),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
			return dialer.DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// again does something again and again, so many times at once, until ctx ends.
func (s *besieged) again(ctx context.Context, atOnce int, do func(ctx context.Context, n int)) {
	for n := range atOnce {
		s.running.Go(func() {
			for ctx.Err() == nil {
				do(ctx, n)
				select {
				case <-ctx.Done():
				case <-time.After(time.Millisecond):
				}
			}
		})
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
	allocator := elastallocv1.NewAllocatorServiceClient(s.client(from, s.honest))
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
	for name, siege := range sieges() {
		for _, overTLS := range []bool{false, true} {
			if overTLS && siege.plainOnly {
				continue
			}
			t.Run(fmt.Sprintf("%s, TLS %t", name, overTLS), func(t *testing.T) {
				t.Parallel()
				s := startBesieged(t, overTLS, siege.flags...)
				ctx, cancel := context.WithCancel(t.Context())
				defer s.running.Wait()
				defer cancel()
				idle := s.peakMemory()
				siege.lay(ctx, s)
				honest := s.askHonestly(t.Context(), loopback, 20)
				cancel()
				s.running.Wait()
				peak := s.peakMemory()
				shown := servertest.Metrics(t, s.Server)
				t.Logf("%d calls, %d failed, %d greedy, p50 %v, p99 %v; memory %d to %d MiB; %.0f shed",
					honest.calls, len(honest.failed), honest.shed, honest.quantile(0.5), honest.quantile(0.99),
					idle>>20, peak>>20, shown["elastalloc_shed_total"])
				for _, err := range honest.failed[:min(3, len(honest.failed))] {
					t.Errorf("the honest caller: %v", err)
				}
				config := server.DefaultConfig()
				if limit := int(config.MaxMemory) + server.BaseMemory; peak > limit {
					t.Errorf("the server took %d MiB; want at most %d", peak>>20, limit>>20)
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
