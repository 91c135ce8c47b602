//go:build unix

package faults

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/internal/testing/servertest"
	"github.com/elastalloc/elastalloc/internal/testing/testcert"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestUnauthorizedClients runs clients without a valid certificate, whose handshakes fail continuously, and a client
// with a valid certificate that sends garbage continuously. The honest client gets all responses, every failure is
// counted, and the log grows only within its limits.
func TestUnauthorizedClients(t *testing.T) {
	t.Parallel()
	own, honest, rude := testcert.New(t, t.TempDir()),
		testcert.New(t, t.TempDir(), "honest.example"), testcert.New(t, t.TempDir(), "rude.example")
	barred, stranger := testcert.New(t, t.TempDir(), "barred.example"), testcert.New(t, t.TempDir(), "honest.example")
	authorities := testcert.Bundle(t, honest, rude, barred)
	server := startServer(t, "--tls-cert="+own.CertFile, "--tls-key="+own.KeyFile,
		"--client-ca="+authorities, "--client-names=honest.example,rude.example")
	as := func(id testcert.Identity) *tls.Config {
		return &tls.Config{
			RootCAs: own.Pool, NextProtos: []string{"h2"}, ServerName: testcert.ServerName,
			// The certificate is sent even if the server requests other authorities.
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &id.Certificate, nil },
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	start := time.Now()
	var attackers sync.WaitGroup
	var handshakes, calls atomic.Int64
	for i := range 20 {
		attackers.Go(func() {
			for ctx.Err() == nil {
				dialer := tls.Dialer{Config: as([]testcert.Identity{barred, stranger}[i%2])}
				if connection, err := dialer.DialContext(ctx, "tcp", server.Addr); err == nil {
					_, _ = connection.Read(make([]byte, 1)) // TLS 1.3 reports the failure at the first read.
					connection.Close()
				}
				handshakes.Add(1)
			}
		})
	}
	rubbish, err := grpc.NewClient(server.Addr, grpc.WithTransportCredentials(credentials.NewTLS(as(rude))))
	if err != nil {
		t.Fatal(err)
	}
	defer rubbish.Close()
	for range 4 {
		attackers.Go(func() {
			for ctx.Err() == nil {
				_, err := elastallocv1.NewAllocatorServiceClient(rubbish).Allocate(ctx, &elastallocv1.AllocateRequest{})
				if code := status.Code(err); code != codes.InvalidArgument && ctx.Err() == nil && code != codes.ResourceExhausted {
					t.Errorf("the error of garbage is %v", err)
					return
				}
				calls.Add(1)
			}
		})
	}

	allocator, err := client.New(server.Addr, client.WithTLS(as(honest)), client.WithTimeout(generous))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = allocator.Close() }()
	completed := 0
	for handshakes.Load() < 1000 || calls.Load() < 500 || completed < 20 {
		request := randomRequest(40, 70, uint64(completed%50))
		response, err := allocateWhenNotBusy(t.Context(), allocator, request)
		if err == nil {
			err = checkResponse(request, response)
		}
		if err != nil {
			t.Fatalf("call of the honest client: %v", err)
		}
		completed++
	}
	cancel()
	attackers.Wait()
	wait.For(t, "the handshakes are counted", func() (bool, string) {
		shown := servertest.Metrics(t, server)
		counted := sumOf(shown, "elastalloc_refused_handshakes_total", `reason="rejected"`)
		return counted >= 800, fmt.Sprint(counted, " are counted")
	})
	seconds := int(time.Since(start).Seconds()) + 1
	logs := server.Logs()
	refused, ofGarbage := strings.Count(logs, `"msg":"TLS handshake failed"`), strings.Count(logs, `"caller":"rude.example"`)
	t.Logf("%d handshakes and %d calls in %d s make %d and %d lines, %d KB; %d honest calls", handshakes.Load(), calls.Load(), seconds,
		refused, ofGarbage, len(logs)>>10, completed)
	if refused > 2*(10+seconds) { // Each of the two classes has its own limit.
		t.Errorf("%d handshakes make %d lines in %d s", handshakes.Load(), refused, seconds)
	}
	if ofGarbage > 500+100*seconds {
		t.Errorf("%d calls make %d lines in %d s", calls.Load(), ofGarbage, seconds)
	}
	if honest := strings.Count(logs, `"caller":"honest.example"`); honest < min(completed, 500) {
		t.Errorf("%d of the honest client's %d calls are in the log", honest, completed)
	}
}
