// Package testcert creates TLS certificates for tests.
package testcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// ServerName is a DNS name of every default identity, in addition to localhost.
const ServerName = "allocator.test"

// Identity is a self-signed certificate for servers and clients, which is valid for one hour.
type Identity struct {
	// Certificate is the certificate with its key. Pool trusts only this certificate.
	Certificate tls.Certificate
	Pool        *x509.CertPool
	// CertFile and KeyFile are the PEM files of both.
	CertFile, KeyFile string
}

// New creates an identity and writes its files into a directory, replacing existing ones. The default
// names are ServerName and localhost. Every identity is also valid for 127.0.0.1.
func New(t testing.TB, directory string, names ...string) Identity {
	t.Helper()
	return NewAt(t, directory, time.Now(), names...)
}

// NewAt is New for an identity that is valid from one hour before to one hour after now.
func NewAt(t testing.TB, directory string, now time.Time, names ...string) Identity {
	t.Helper()
	if len(names) == 0 {
		names = []string{ServerName, "localhost"}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"},
		DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
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

	id := Identity{
		Pool:     x509.NewCertPool(),
		CertFile: filepath.Join(directory, "cert.pem"),
		KeyFile:  filepath.Join(directory, "key.pem"),
	}
	id.Pool.AppendCertsFromPEM(certPEM)
	if id.Certificate, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{id.CertFile: certPEM, id.KeyFile: keyPEM} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return id
}

// Bundle writes a CA file with the certificates of several identities and returns its path.
func Bundle(t testing.TB, ids ...Identity) string {
	t.Helper()
	var bundle []byte
	for _, id := range ids {
		bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: id.Certificate.Certificate[0]})...)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, bundle, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
