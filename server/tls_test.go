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
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"allocator.test"},
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

	directory := t.TempDir()
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
