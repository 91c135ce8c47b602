package server

import (
	"crypto/tls"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/elastalloc/elastalloc/internal/testing/testcert"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

func TestMutualTLS(t *testing.T) {
	t.Parallel()
	server, client := testcert.New(t, t.TempDir()), testcert.New(t, t.TempDir())
	h := start(t, func(c *Config) {
		c.TLSCert, c.TLSKey, c.ClientCA = server.CertFile, server.KeyFile, client.CertFile
	})
	known := &tls.Config{RootCAs: server.Pool, ServerName: testcert.ServerName, Certificates: []tls.Certificate{client.Certificate}}
	anonymous := &tls.Config{RootCAs: server.Pool, ServerName: testcert.ServerName}
	tests := map[string]struct {
		config *tls.Config
		want   codes.Code
	}{
		"with a certificate": {known, codes.OK},
		"without one":        {anonymous, codes.Unavailable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, h.listener, credentials.NewTLS(test.config))
			defer func() { _ = conn.Close() }()
			_, err := elastallocv1.NewAllocatorServiceClient(conn).Allocate(t.Context(), smallRequest())
			if status.Code(err) != test.want {
				t.Errorf("error is %v; want %v", err, test.want)
			}
		})
	}
	if h.logs.Line(`"caller":"`+testcert.ServerName+`"`, `"code":"OK"`) == "" {
		t.Errorf("the log does not name the caller by its certificate:\n%s", h.logs)
	}
	if _, err := h.client.Allocate(t.Context(), smallRequest()); status.Code(err) != codes.Unavailable {
		t.Errorf("the error of plain text is %v", err)
	}
}

// TestCertificatesAreReloaded rotates the certificate of the server and the authority of the clients while the
// server is running, with invalid files in between.
func TestCertificatesAreReloaded(t *testing.T) {
	t.Parallel()
	serverFiles, clientFiles := t.TempDir(), t.TempDir()
	server, client := testcert.New(t, serverFiles), testcert.New(t, clientFiles)
	h := start(t, func(c *Config) {
		c.TLSCert, c.TLSKey, c.ClientCA = server.CertFile, server.KeyFile, client.CertFile
	})
	succeeds := func(server, client testcert.Identity) bool {
		conn := dial(t, h.listener, credentials.NewTLS(&tls.Config{
			RootCAs: server.Pool, ServerName: testcert.ServerName, Certificates: []tls.Certificate{client.Certificate},
		}))
		defer func() { _ = conn.Close() }()
		_, err := elastallocv1.NewAllocatorServiceClient(conn).Allocate(t.Context(), smallRequest())
		if err != nil && status.Code(err) != codes.Unavailable {
			t.Fatal(err)
		}
		return err == nil
	}
	if !succeeds(server, client) {
		t.Fatal("the first certificate is not accepted")
	}
	if expires, found := h.series(t, "elastalloc_certificate_expiration_timestamp_seconds"); !found || expires == "0" {
		t.Errorf("the certificate expires at %q, found %v", expires, found)
	}

	// During a rotation, a certificate may not match its key. The previous certificate is then used.
	if err := os.WriteFile(server.KeyFile, []byte("secret of the house"), 0o600); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the bad key is noticed", func() bool {
		if !succeeds(server, client) {
			t.Fatal("the previous certificate is no longer used")
		}
		return h.logs.Line(`"level":"WARN"`, "TLS files are invalid") != ""
	})
	if h.logs.Line("secret of the house") != "" {
		t.Error("the key is in the log")
	}

	renewedServer, renewedClient := testcert.New(t, serverFiles), testcert.New(t, clientFiles)
	wait.Until(t, "the renewed certificates are served", func() bool { return succeeds(renewedServer, renewedClient) })
	if succeeds(server, renewedClient) || succeeds(renewedServer, client) {
		t.Error("a client certificate of the previous authority is accepted")
	}
	if h.logs.Line(`"level":"INFO"`, "TLS files changed") == "" {
		t.Errorf("the rotation is not logged:\n%s", h.logs)
	}
}

func TestPlaintextMustBeEnabled(t *testing.T) {
	t.Parallel()
	id := testcert.New(t, t.TempDir())
	for name, test := range map[string]struct {
		change func(*Config)
		bad    bool
	}{
		"loopback":              {func(c *Config) { c.Listen = "127.0.0.1:0" }, false},
		"loopback by name":      {func(c *Config) { c.Listen = "localhost:0" }, false},
		"loopback of IPv6":      {func(c *Config) { c.Listen = "[::1]:0" }, false},
		"everywhere":            {func(c *Config) { c.Listen = ":0" }, true},
		"everywhere, in zeros":  {func(c *Config) { c.Listen = "0.0.0.0:0" }, true},
		"everywhere of IPv6":    {func(c *Config) { c.Listen = "[::]:0" }, true},
		"another name":          {func(c *Config) { c.Listen = "elastalloc:0" }, true},
		"everywhere, enabled":   {func(c *Config) { c.Listen, c.Plaintext = ":0", true }, false},
		"everywhere, encrypted": {func(c *Config) { c.Listen, c.TLSCert, c.TLSKey = ":0", id.CertFile, id.KeyFile }, false},
		"no address":            {func(c *Config) { c.Listen = "nowhere" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := DefaultConfig()
			config.Allocator = fakeAllocator(smallest)
			test.change(&config)
			if err := config.check(); (err != nil) != test.bad {
				t.Errorf("error is %v; want one: %v", err, test.bad)
			}
		})
	}
}

func TestBadTLSFiles(t *testing.T) {
	t.Parallel()
	id := testcert.New(t, t.TempDir())
	tests := map[string]struct {
		change func(*Config)
		want   string
	}{
		"missing certificate": {func(c *Config) { c.TLSCert = "absent.pem" }, "absent.pem"},
		"unusable key":        {func(c *Config) { c.TLSKey = id.CertFile }, "key"},
		"missing client CA":   {func(c *Config) { c.ClientCA = "absent.pem" }, "absent.pem"},
		"unusable client CA":  {func(c *Config) { c.ClientCA = id.KeyFile }, "no PEM certificate"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := DefaultConfig()
			config.Allocator = fakeAllocator(smallest)
			config.TLSCert, config.TLSKey = id.CertFile, id.KeyFile
			test.change(&config)
			if _, err := config.Complete(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v; want one with %q", err, test.want)
			}
		})
	}
}
