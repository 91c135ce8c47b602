package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// identity is a self-signed certificate, its own authority, good for both ends.
type identity struct {
	certificate       tls.Certificate
	pool              *x509.CertPool
	certFile, keyFile string
}

func newIdentity(t *testing.T) identity {
	t.Helper()
	return newIdentityIn(t, t.TempDir())
}

// newIdentityIn makes an identity whose files are in a directory, in place of those
// that were there.
func newIdentityIn(t *testing.T, directory string) identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"allocator.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})

	id := identity{
		pool:     x509.NewCertPool(),
		certFile: filepath.Join(directory, "cert.pem"),
		keyFile:  filepath.Join(directory, "key.pem"),
	}
	id.pool.AppendCertsFromPEM(certPEM)
	if id.certificate, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{id.certFile: certPEM, id.keyFile: keyPEM} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return id
}

func TestMutualTLS(t *testing.T) {
	t.Parallel()
	server, client := newIdentity(t), newIdentity(t)
	h := start(t, func(c *Config) {
		c.TLSCert, c.TLSKey, c.ClientCA = server.certFile, server.keyFile, client.certFile
	})
	known := &tls.Config{RootCAs: server.pool, ServerName: "allocator.test", Certificates: []tls.Certificate{client.certificate}}
	anonymous := &tls.Config{RootCAs: server.pool, ServerName: "allocator.test"}
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
	if _, err := h.client.Allocate(t.Context(), smallRequest()); status.Code(err) != codes.Unavailable {
		t.Errorf("plain text is answered with %v", err)
	}
}

// TestCertificatesAreReloaded rotates the server's certificate and the clients'
// authority while the server runs, by way of files that are of no use.
func TestCertificatesAreReloaded(t *testing.T) {
	t.Parallel()
	serverFiles, clientFiles := t.TempDir(), t.TempDir()
	server, client := newIdentityIn(t, serverFiles), newIdentityIn(t, clientFiles)
	h := start(t, func(c *Config) {
		c.TLSCert, c.TLSKey, c.ClientCA = server.certFile, server.keyFile, client.certFile
	})
	answers := func(server, client identity) bool {
		conn := dial(t, h.listener, credentials.NewTLS(&tls.Config{
			RootCAs: server.pool, ServerName: "allocator.test", Certificates: []tls.Certificate{client.certificate},
		}))
		defer func() { _ = conn.Close() }()
		_, err := elastallocv1.NewAllocatorServiceClient(conn).Allocate(t.Context(), smallRequest())
		if err != nil && status.Code(err) != codes.Unavailable {
			t.Fatal(err)
		}
		return err == nil
	}
	if !answers(server, client) {
		t.Fatal("the first certificate is of no use")
	}
	if expires, found := h.series(t, "elastalloc_certificate_expiration_timestamp_seconds"); !found || expires == "0" {
		t.Errorf("the certificate expires at %q, found %v", expires, found)
	}

	// A certificate without its key, as during a rotation: the one before is served.
	if err := os.WriteFile(server.keyFile, []byte("secret of the house"), 0o600); err != nil {
		t.Fatal(err)
	}
	poll(t, "the bad key is noticed", func() bool {
		if !answers(server, client) {
			t.Fatal("the certificate before is not served any more")
		}
		return h.logs.line(`"level":"WARN"`, "TLS files are of no use") != ""
	})
	if h.logs.line("secret of the house") != "" {
		t.Error("the key is in the log")
	}

	renewedServer, renewedClient := newIdentityIn(t, serverFiles), newIdentityIn(t, clientFiles)
	poll(t, "the renewed certificates are served", func() bool { return answers(renewedServer, renewedClient) })
	if answers(server, renewedClient) || answers(renewedServer, client) {
		t.Error("a certificate of before the rotation is of use")
	}
	if h.logs.line(`"level":"INFO"`, "TLS files changed") == "" {
		t.Errorf("the rotation is not logged:\n%s", h.logs)
	}
}

func TestPlaintextMustBeAskedFor(t *testing.T) {
	t.Parallel()
	id := newIdentity(t)
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
		"everywhere, as asked":  {func(c *Config) { c.Listen, c.Plaintext = ":0", true }, false},
		"everywhere, encrypted": {func(c *Config) { c.Listen, c.TLSCert, c.TLSKey = ":0", id.certFile, id.keyFile }, false},
		"no address":            {func(c *Config) { c.Listen = "nowhere" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := DefaultConfig()
			config.Chain = fakeChain(smallest)
			test.change(&config)
			if err := config.check(); (err != nil) != test.bad {
				t.Errorf("error is %v; want one: %v", err, test.bad)
			}
		})
	}
}

func TestBadTLSFiles(t *testing.T) {
	t.Parallel()
	id := newIdentity(t)
	tests := map[string]struct {
		change func(*Config)
		want   string
	}{
		"no such certificate": {func(c *Config) { c.TLSCert = "absent.pem" }, "absent.pem"},
		"key of no use":       {func(c *Config) { c.TLSKey = id.certFile }, "key"},
		"no such client CA":   {func(c *Config) { c.ClientCA = "absent.pem" }, "absent.pem"},
		"client CA of no use": {func(c *Config) { c.ClientCA = id.keyFile }, "no PEM certificate"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := DefaultConfig()
			config.Chain = fakeChain(smallest)
			config.TLSCert, config.TLSKey = id.certFile, id.keyFile
			test.change(&config)
			if _, err := config.Complete(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v; want one that speaks of %q", err, test.want)
			}
		})
	}
}
