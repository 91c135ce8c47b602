package server

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/elastalloc/elastalloc/internal/testing/syncbuffer"
	"github.com/elastalloc/elastalloc/internal/testing/testcert"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
)

// TestClientNames checks that an allowed name matches only names of the same type in a certificate.
func TestClientNames(t *testing.T) {
	t.Parallel()
	uri, err := url.Parse("x")
	if err != nil {
		t.Fatal(err)
	}
	spiffe, err := url.Parse("spiffe://cluster/x")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		allowed     string
		certificate x509.Certificate
		may         bool
	}{
		"DNS":                 {"x", x509.Certificate{DNSNames: []string{"y", "x"}}, true},
		"URI":                 {"spiffe://cluster/x", x509.Certificate{URIs: []*url.URL{spiffe}}, true},
		"e-mail":              {"a@x", x509.Certificate{EmailAddresses: []string{"a@x"}}, true},
		"IP":                  {"2001:DB8::1", x509.Certificate{IPAddresses: []net.IP{net.ParseIP("2001:db8::1")}}, true},
		"e-mail for DNS":      {"x", x509.Certificate{EmailAddresses: []string{"x"}}, false},
		"URI for DNS":         {"x", x509.Certificate{URIs: []*url.URL{uri}}, false},
		"common name for DNS": {"x", x509.Certificate{Subject: pkix.Name{CommonName: "x"}}, false},
		"DNS for URI":         {"spiffe://cluster/x", x509.Certificate{DNSNames: []string{"spiffe://cluster/x"}}, false},
		"DNS for e-mail":      {"a@x", x509.Certificate{DNSNames: []string{"a@x"}}, false},
		"DNS for IP":          {"10.0.0.1", x509.Certificate{DNSNames: []string{"10.0.0.1"}}, false},
	} {
		err := checkNames([]string{test.allowed})(tls.ConnectionState{PeerCertificates: []*x509.Certificate{&test.certificate}})
		if (err == nil) != test.may {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRejectedHandshakes checks which clients may call, and that every failed handshake is counted by its reason
// and logged with the name of the client.
func TestRejectedHandshakes(t *testing.T) {
	t.Parallel()
	server := testcert.New(t, t.TempDir())
	scheduler := testcert.New(t, t.TempDir(), "scheduler.example")
	other := testcert.New(t, t.TempDir(), "other.example")
	expired := testcert.NewAt(t, t.TempDir(), time.Now().Add(-24*time.Hour), "scheduler.example")
	stranger := testcert.New(t, t.TempDir(), "scheduler.example")
	authorities := testcert.Bundle(t, scheduler, other, expired)
	h := start(t, func(c *Config) {
		c.TLSCert, c.TLSKey, c.ClientCA = server.CertFile, server.KeyFile, authorities
		c.ClientNames = []string{"spiffe://cluster/backup", "scheduler.example"}
	})
	trusting := func(certificates ...tls.Certificate) *tls.Config {
		// A client that follows the list of authorities of the server would send no certificate.
		return &tls.Config{
			RootCAs: server.Pool, ServerName: testcert.ServerName,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &append(certificates, tls.Certificate{})[0], nil
			},
		}
	}
	old := trusting(scheduler.Certificate)
	old.MaxVersion = tls.VersionTLS11
	old.MinVersion = tls.VersionTLS10
	distrusting := trusting(scheduler.Certificate)
	distrusting.RootCAs = other.Pool
	for name, test := range map[string]struct {
		config *tls.Config
		reason string // "" if it may call
		logged string
	}{
		"a name that may call":   {trusting(scheduler.Certificate), "", ""},
		"a name that may not":    {trusting(other.Certificate), handshakeRejected, "other.example"},
		"another authority":      {trusting(stranger.Certificate), handshakeRejected, "unknown authority"},
		"a certificate too old":  {trusting(expired.Certificate), handshakeRejected, "expired"},
		"no certificate":         {trusting(), handshakeRejected, "didn't provide"},
		"an old version of TLS":  {old, handshakeRejected, "unsupported versions"},
		"distrust in the server": {distrusting, handshakeRejected, "bad certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			series := fmt.Sprintf(`elastalloc_refused_handshakes_total{reason=%q}`, test.reason)
			before, _ := h.series(t, series)
			conn := dial(t, h.listener, credentials.NewTLS(test.config))
			defer func() { _ = conn.Close() }()
			_, err := elastallocv1.NewAllocatorServiceClient(conn).Allocate(t.Context(), smallRequest())
			if test.reason == "" {
				if err != nil || h.logs.Line(`"caller":"scheduler.example"`, `"code":"OK"`) == "" {
					t.Errorf("error is %v; want none, and the name in the log:\n%s", err, h.logs)
				}
				return
			}
			if status.Code(err) != codes.Unavailable {
				t.Errorf("error is %v; want UNAVAILABLE", err)
			}
			wait.For(t, "the handshake is counted and logged", func() (bool, string) {
				after, _ := h.series(t, series)
				line := h.logs.Line("TLS handshake failed", `"reason":"`+test.reason+`"`, test.logged)
				return after != before && line != "", h.logs.String()
			})
		})
	}

	// A plain text connection, and a connection that sends nothing.
	for reason, hello := range map[string]string{handshakeRejected: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", handshakeDisconnected: ""} {
		series := fmt.Sprintf(`elastalloc_refused_handshakes_total{reason=%q}`, reason)
		before, _ := h.series(t, series)
		connection, err := h.listener.Dial()
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = connection.Write([]byte(hello)) }()
		if hello == "" {
			_ = connection.Close()
		}
		wait.For(t, "it is counted", func() (bool, string) {
			count, _ := h.series(t, series)
			return count != before, reason
		})
		_ = connection.Close()
	}
}

// TestDisconnected checks the classification of errors that are hard to cause.
func TestDisconnected(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, fmt.Errorf("read: %w", net.ErrClosed),
		&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)},
	} {
		if !isDisconnected(err) {
			t.Errorf("%v is not a disconnect", err)
		}
	}
}

// TestLineLimit checks that the lines about one caller are limited, that they do not displace
// the lines about others, of other levels and with other messages, and that all lines together
// are limited too.
func TestLineLimit(t *testing.T) {
	t.Parallel()
	var logs syncbuffer.Buffer
	logger := limitLines(slog.New(slog.NewJSONHandler(&logs, nil)), 1e-9, 5)
	count := func(log func(string, ...any), message, caller string, lines int) int {
		before := strings.Count(logs.String(), "\n")
		for range lines {
			log(message, callerKey, caller)
		}
		return strings.Count(logs.String(), "\n") - before
	}
	for _, test := range []struct {
		name        string
		log         func(string, ...any)
		message     string
		caller      string
		lines, must int
	}{
		{"an attacker", logger.Info, "call", "attacker", 1000, 5},
		{"an attacker, with attributes", logger.With("a", 1).WithGroup("b").Info, "call", "attacker", 10, 0},
		{"an honest caller", logger.Info, "call", "honest", 3, 3},
		{"another level", logger.Warn, "call", "attacker", 3, 3},
		{"another message", logger.Info, "kept", "attacker", 3, 3},
	} {
		if got := count(test.log, test.message, test.caller, test.lines); got != test.must {
			t.Errorf("%s: %d lines of %d; must be %d", test.name, got, test.lines, test.must)
		}
	}
	for i := range 5000 {
		count(logger.Info, "call", fmt.Sprint("attacker", i), 10)
	}
	if all := strings.Count(logs.String(), "\n"); all != 50 {
		t.Errorf("%d lines about all callers; must be 50", all)
	}
}

// TestLogIsBounded checks that log lines about a caller that is rejected continuously are limited.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	var logs syncbuffer.Buffer
	observer := logObserver{limitLines(slog.New(slog.NewJSONHandler(&logs, nil)), 100, 500)}
	startTime := time.Now()
	for range 20_000 {
		observer.Observe(t.Context(), &ingress.Event{Method: "Allocate", Caller: "attacker", Err: status.Error(codes.InvalidArgument, "bad")})
	}
	lines, limit := strings.Count(logs.String(), "\n"), 500+100*(1+int(time.Since(startTime)/time.Second))
	if lines > limit {
		t.Errorf("20,000 calls make %d lines; want at most %d", lines, limit)
	}
}
