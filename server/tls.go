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

// certificateCheckInterval is the shortest time between two looks at the TLS files.
const certificateCheckInterval = time.Second

// certificates serves what the TLS files hold. It reads them again when a client
// connects, at most once a second. While they hold nothing usable, such as a renewed
// certificate whose key is still to come, it serves what they held before.
type certificates struct {
	files  [3]string // certificate, key, client CA; the last may be ""
	names  []string  // of clients that may call; none: any of the CA
	logger *slog.Logger

	mutex  sync.Mutex
	read   time.Time
	state  [sha256.Size]byte // of the files when they were read
	config *tls.Config
}

// newCertificates reads the files for the first time.
func newCertificates(c *Config) (*certificates, error) {
	r := &certificates{files: [3]string{c.TLSCert, c.TLSKey, c.ClientCA}, names: c.ClientNames, logger: c.Logger}
	if err := r.reload(); err != nil {
		return nil, err
	}
	return r, nil
}

// credentials returns transport credentials that are always up to date.
func (r *certificates) credentials() credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.current(), nil },
	})
}

// expiry returns when the certificate that is served expires.
func (r *certificates) expiry() time.Time { return r.current().Certificates[0].Leaf.NotAfter }

// current returns the configuration for a client that connects now.
func (r *certificates) current() *tls.Config {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if time.Since(r.read) < certificateCheckInterval {
		return r.config
	}
	before := r.config
	if err := r.reload(); err != nil {
		r.logger.Warn("TLS files are not usable; serving what they held before", "error", err)
	} else if r.config != before {
		r.logger.Info("TLS files changed", "certificate_not_after", r.config.Certificates[0].Leaf.NotAfter)
	}
	return r.config
}

// reload takes over what the files hold if that has changed and is usable. A failure is
// an error once, until the files change again.
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
