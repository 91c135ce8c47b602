package server

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// certificateCheckInterval is the minimum time between two checks of the TLS files.
const certificateCheckInterval = time.Second

// certificates serves the certificates in the TLS files. It reads the files again when a client connects, at
// most once per certificateCheckInterval. While the files are invalid, for example while the key of a renewed
// certificate is still missing, it serves the previous certificates.
type certificates struct {
	files  [3]string // certificate, key and client CA, which may be ""
	names  []string  // clients that may call; empty for all of the CA
	logger *slog.Logger

	mutex  sync.Mutex
	read   time.Time
	state  [sha256.Size]byte // hash of the files at the last check
	config *tls.Config
}

// newCertificates returns certificates after reading the files.
func newCertificates(c *Config) (*certificates, error) {
	r := &certificates{files: [3]string{c.TLSCert, c.TLSKey, c.ClientCA}, names: c.ClientNames, logger: c.Logger}
	if err := r.reload(); err != nil {
		return nil, err
	}
	return r, nil
}

// credentials returns transport credentials with the current certificates.
func (r *certificates) credentials() credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.current(), nil },
	})
}

// expiry returns the expiration time of the current certificate.
func (r *certificates) expiry() time.Time { return r.current().Certificates[0].Leaf.NotAfter }

// current returns the current configuration.
func (r *certificates) current() *tls.Config {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if time.Since(r.read) < certificateCheckInterval {
		return r.config
	}
	before := r.config
	if err := r.reload(); err != nil {
		r.logger.Warn("TLS files are invalid; serving the previous certificate", "error", err)
	} else if r.config != before {
		r.logger.Info("TLS files changed", "certificate_not_after", r.config.Certificates[0].Leaf.NotAfter)
	}
	return r.config
}

// reload reads the files and uses them if they have changed and are valid. It returns an error only once for
// the same contents.
func (r *certificates) reload() error {
	r.read = time.Now()
	var content [3][]byte
	var failed []error
	for i, file := range r.files {
		if file != "" {
			var err error
			content[i], err = os.ReadFile(file)
			failed = append(failed, err)
		}
	}
	err := errors.Join(failed...)
	state := sha256.Sum256(fmt.Appendf(nil, "%q %v", content, err))
	if state == r.state {
		return nil
	}
	r.state = state
	if err != nil {
		return fmt.Errorf("read TLS files: %w", err)
	}
	pair, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		return fmt.Errorf("TLS certificate %s and key %s: %w", r.files[0], r.files[1], err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}}
	if r.files[2] != "" {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(content[2]) {
			return fmt.Errorf("client CA: no PEM certificate in %s", r.files[2])
		}
		if len(r.names) > 0 {
			config.VerifyConnection = checkNames(r.names)
		}
	}
	r.config = config
	return nil
}
