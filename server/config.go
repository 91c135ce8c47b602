package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
)

// Defaults of a Config.
const (
	DefaultListen          = "127.0.0.1:50051"
	DefaultAdminListen     = "127.0.0.1:9464"
	DefaultMaxInflight     = 64
	DefaultMaxMessageBytes = 64 << 20
	DefaultDrainDelay      = 2 * time.Second
	DefaultDrainTimeout    = 10 * time.Second
)

// Config is what a server is made of. Start from DefaultConfig: every field is
// taken as it stands.
type Config struct {
	// Listen and AdminListen are the TCP addresses of gRPC and of admin HTTP.
	Listen, AdminListen string
	// Listener and AdminListener, where set, are used in place of the addresses.
	// The server closes them.
	Listener, AdminListener net.Listener
	// Chain decides. Required.
	Chain *chain.Chain
	// Backends are the backends of Chain and whether each can be asked.
	Backends map[solver.BackendName]bool
	// MaxInflight is the most Allocate calls decided at once; more are shed.
	MaxInflight int
	// MaxJobs is the most jobs a snapshot may hold.
	MaxJobs int
	// MaxMessageBytes is the largest request taken.
	MaxMessageBytes int
	// DrainDelay is the wait between saying that the server is not ready and
	// refusing calls, so that routers notice in time. It may be 0.
	DrainDelay time.Duration
	// DrainTimeout is how long calls in flight then have to end.
	DrainTimeout time.Duration
	// TLSCert and TLSKey are the PEM files of the server's certificate and key;
	// without them it speaks plain text. With ClientCA, a PEM file too, every
	// client must show a certificate that it signed.
	TLSCert, TLSKey, ClientCA string
	// Logger takes one line per call; nil discards it.
	Logger *slog.Logger
	// Version is what elastalloc_build_info says is running.
	Version string
	// Registry takes the metrics and is what /metrics shows; nil means a new one.
	Registry *prometheus.Registry
	// TracerProvider makes a span of every Allocate call and of its stages; nil makes
	// none. The caller shuts it down, after Run has returned.
	TracerProvider trace.TracerProvider
	// Propagator reads the span of the caller from a call's metadata; nil reads none,
	// so that every call begins a trace.
	Propagator propagation.TextMapPropagator
}

// DefaultConfig returns the defaults. Chain and Backends are the caller's to set.
func DefaultConfig() Config {
	return Config{
		Listen:          DefaultListen,
		AdminListen:     DefaultAdminListen,
		MaxInflight:     DefaultMaxInflight,
		MaxJobs:         solver.DefaultMaxJobs,
		MaxMessageBytes: DefaultMaxMessageBytes,
		DrainDelay:      DefaultDrainDelay,
		DrainTimeout:    DefaultDrainTimeout,
		Version:         "unknown",
	}
}

// check returns an error that names everything wrong with the configuration, in
// the words of the command line where it has a flag.
func (c *Config) check() error {
	var bad []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	require(c.Chain != nil, "no chain of backends")
	require(c.Listener != nil || c.Listen != "", "listen address is empty")
	require(c.AdminListener != nil || c.AdminListen != "", "admin listen address is empty")
	require(c.MaxInflight >= 1, "max inflight is %d; want at least 1", c.MaxInflight)
	require(c.MaxJobs >= 1, "max jobs is %d; want at least 1", c.MaxJobs)
	require(c.MaxMessageBytes >= 1, "max message bytes is %d; want at least 1", c.MaxMessageBytes)
	require(c.DrainDelay >= 0, "drain delay is %v; want at least 0", c.DrainDelay)
	require(c.DrainTimeout > 0, "drain timeout is %v; want more than 0", c.DrainTimeout)
	require((c.TLSCert == "") == (c.TLSKey == ""), "TLS needs both a certificate and a key")
	require(c.ClientCA == "" || c.TLSCert != "", "a client CA needs TLS")
	return errors.Join(bad...)
}

// credentials returns the transport security that the configuration asks for.
func (c *Config) credentials() (grpc.ServerOption, error) {
	if c.TLSCert == "" {
		return grpc.Creds(insecure.NewCredentials()), nil
	}
	certificate, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("loading TLS certificate and key: %w", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	if c.ClientCA != "" {
		pem, err := os.ReadFile(c.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("loading client CA: %w", err)
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("loading client CA: %s holds no PEM certificate", c.ClientCA)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return grpc.Creds(credentials.NewTLS(config)), nil
}

// listen opens both listeners, or none.
func (c *Config) listen() (rpc, admin net.Listener, err error) {
	rpc, admin = c.Listener, c.AdminListener
	if rpc == nil {
		if rpc, err = net.Listen("tcp", c.Listen); err != nil {
			return nil, nil, err
		}
	}
	if admin == nil {
		if admin, err = net.Listen("tcp", c.AdminListen); err != nil {
			return nil, nil, errors.Join(err, rpc.Close())
		}
	}
	return rpc, admin, nil
}
