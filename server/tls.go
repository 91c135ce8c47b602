package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// certificateCheckInterval is the shortest time between two looks at the TLS files.
const certificateCheckInterval = time.Second

// transportSecurity returns the credentials that the configuration asks for and,
// with TLS, what tells when the certificate that is served expires.
func (c *Config) transportSecurity() (credentials.TransportCredentials, func() time.Time, error) {
	if c.TLSCert == "" {
		return insecure.NewCredentials(), nil, nil
	}
	reloaded, err := newReloadedTLS(tlsFiles{c.TLSCert, c.TLSKey, c.ClientCA}, c.Logger)
	if err != nil {
		return nil, nil, err
	}
	return reloaded.credentials(), reloaded.expiry, nil
}

// tlsFiles are the PEM files of a server's identity and, where clients must show a
// certificate, of the authorities that sign theirs.
type tlsFiles struct{ certificate, key, clientCA string }

// read returns what the files hold.
func (f tlsFiles) read() (tlsContent, error) {
	certificate, certificateErr := os.ReadFile(f.certificate)
	key, keyErr := os.ReadFile(f.key)
	var clientCA []byte
	var clientCAErr error
	if f.clientCA != "" {
		clientCA, clientCAErr = os.ReadFile(f.clientCA)
	}
	if err := errors.Join(certificateErr, keyErr, clientCAErr); err != nil {
		return tlsContent{}, fmt.Errorf("reading the TLS files: %w", err)
	}
	return tlsContent{certificate, key, clientCA}, nil
}

// tlsContent is what TLS files hold.
type tlsContent struct{ certificate, key, clientCA []byte }

func (c tlsContent) equal(other tlsContent) bool {
	return bytes.Equal(c.certificate, other.certificate) && bytes.Equal(c.key, other.key) && bytes.Equal(c.clientCA, other.clientCA)
}

// config returns the configuration that the content makes.
func (c tlsContent) config(files tlsFiles) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(c.certificate, c.key)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate %s and key %s: %w", files.certificate, files.key, err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}}
	if files.clientCA != "" {
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(c.clientCA) {
			return nil, fmt.Errorf("client CA: %s holds no PEM certificate", files.clientCA)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}

// reloadedTLS serves what the TLS files hold: it looks at them when a client
// connects, at most once a second, so that a certificate that was renewed is shown
// to the next client. While they hold nothing of use, such as a new certificate
// whose key is still to come, it goes on with what they held before. Nothing of
// their content is ever logged.
type reloadedTLS struct {
	files  tlsFiles
	logger *slog.Logger

	mutex   sync.Mutex
	checked time.Time
	// content and config are the last ones of use, and failure is what is wrong with
	// what the files hold since.
	content tlsContent
	config  *tls.Config
	failure string
}

// newReloadedTLS reads the files for the first time, when an error still counts.
func newReloadedTLS(files tlsFiles, logger *slog.Logger) (*reloadedTLS, error) {
	content, err := files.read()
	if err != nil {
		return nil, err
	}
	config, err := content.config(files)
	if err != nil {
		return nil, err
	}
	return &reloadedTLS{files: files, logger: logger, checked: time.Now(), content: content, config: config}, nil
}

// credentials returns the transport credentials that are always up to date.
func (r *reloadedTLS) credentials() credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.current(), nil },
	})
}

// current returns the configuration for a client that connects now.
func (r *reloadedTLS) current() *tls.Config {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if time.Since(r.checked) >= certificateCheckInterval {
		r.reload()
		r.checked = time.Now()
	}
	return r.config
}

// reload takes over what the files hold if it has changed and is of use. A failure
// is logged when it is a new one.
func (r *reloadedTLS) reload() {
	content, err := r.files.read()
	if err == nil && content.equal(r.content) {
		r.failure = ""
		return
	}
	var config *tls.Config
	if err == nil {
		config, err = content.config(r.files)
	}
	switch {
	case err == nil:
		r.content, r.config, r.failure = content, config, ""
		r.logger.Info("TLS files changed", "certificate_not_after", notAfter(config))
	case err.Error() != r.failure:
		r.failure = err.Error()
		r.logger.Warn("TLS files are of no use; what they held before is served",
			"error", err, "certificate_not_after", notAfter(r.config))
	}
}

// expiry returns when the certificate served now expires.
func (r *reloadedTLS) expiry() time.Time { return notAfter(r.current()) }

func notAfter(config *tls.Config) time.Time { return config.Certificates[0].Leaf.NotAfter }

// checkPlaintext returns an error if a server that speaks plain text can be reached
// from beyond this machine without anybody having asked for that.
func (c *Config) checkPlaintext() error {
	if c.TLSCert != "" || c.Plaintext || c.Listener != nil || c.Listen == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("listen address: %w", err)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("the listen address %s is not loopback: give a TLS certificate and key, "+
		"or ask for plain text (--plaintext) where the network is trusted", c.Listen)
}
