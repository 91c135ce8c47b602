package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/elastalloc/elastalloc/internal/apiconv"
)

// Defaults of a Config.
const (
	DefaultListen         = "127.0.0.1:50051"
	DefaultAdminListen    = "127.0.0.1:9464"
	DefaultMaxQueue       = 256
	DefaultMaxReceiving   = 1024
	DefaultReceiveTimeout = 10 * time.Second
	DefaultDrainDelay     = 2 * time.Second
	DefaultDrainTimeout   = 10 * time.Second
)

// Config is what a server is made of. Start from DefaultConfig: every field is
// taken as it stands.
type Config struct {
	// Listen and AdminListen are the TCP addresses of gRPC and of admin HTTP.
	Listen, AdminListen string
	// Listener and AdminListener, where set, are used in place of the addresses.
	// The server closes them.
	Listener, AdminListener net.Listener
	// Allocator decides. Required.
	Allocator apiconv.Allocator
	// Backends are the backends of Allocator, in its order, greedy last.
	Backends []Backend
	// MaxInflight is the most Allocate calls decided at once. A decision uses one core,
	// so by default it is the number of cores that this process may use.
	MaxInflight int
	// MaxQueue is the most Allocate calls that wait for their turn, for half a second
	// at most; more are shed. It may be 0.
	MaxQueue int
	// MaxReceiving is the most Allocate calls whose requests are being received; one
	// more, and the one that has been at it longest is shed.
	MaxReceiving int
	// MaxMessageBytes is the largest request taken; 0 means what the most jobs of a snapshot need.
	MaxMessageBytes int
	// ReceiveTimeout is how long a request may take to arrive.
	ReceiveTimeout time.Duration
	// DrainDelay is the wait between saying that the server is not ready and
	// refusing calls, so that routers notice in time. It may be 0.
	DrainDelay time.Duration
	// DrainTimeout is how long calls in flight then have to end.
	DrainTimeout time.Duration
	// TLSCert and TLSKey are the PEM files of the server's certificate and key;
	// without them it speaks plain text. With ClientCA, a PEM file too, every
	// client must show a certificate that it signed. Files that change are read again.
	TLSCert, TLSKey, ClientCA string
	// Plaintext allows plain text on a Listen address that is not loopback.
	Plaintext bool
	// Ready, where set, is called with true once the server serves and is ready, and
	// with false when it begins to drain.
	Ready func(ready bool)
	// NoReflection turns gRPC reflection off, by which clients such as grpcurl learn
	// of the API.
	NoReflection bool
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

// DefaultConfig returns the defaults. Allocator and Backends are the caller's to set.
func DefaultConfig() Config {
	return Config{
		Listen:         DefaultListen,
		AdminListen:    DefaultAdminListen,
		MaxInflight:    runtime.GOMAXPROCS(0),
		MaxQueue:       DefaultMaxQueue,
		MaxReceiving:   DefaultMaxReceiving,
		ReceiveTimeout: DefaultReceiveTimeout,
		DrainDelay:     DefaultDrainDelay,
		DrainTimeout:   DefaultDrainTimeout,
		Version:        "unknown",
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
	require(c.Allocator != nil, "no allocator")
	require(c.Listener != nil || c.Listen != "", "listen address is empty")
	require(c.AdminListener != nil || c.AdminListen != "", "admin listen address is empty")
	require(c.MaxInflight >= 1, "max inflight is %d; want at least 1", c.MaxInflight)
	require(c.MaxQueue >= 0, "max queue is %d; want at least 0", c.MaxQueue)
	require(c.MaxReceiving >= 1, "max receiving is %d; want at least 1", c.MaxReceiving)
	require(c.MaxMessageBytes >= 0, "max message bytes is %d; want at least 0", c.MaxMessageBytes)
	require(c.ReceiveTimeout > 0, "receive timeout is %v; want more than 0", c.ReceiveTimeout)
	require(c.DrainDelay >= 0, "drain delay is %v; want at least 0", c.DrainDelay)
	require(c.DrainTimeout > 0, "drain timeout is %v; want more than 0", c.DrainTimeout)
	require((c.TLSCert == "") == (c.TLSKey == ""), "TLS needs both a certificate and a key")
	require(c.ClientCA == "" || c.TLSCert != "", "a client CA needs TLS")
	if err := c.checkPlaintext(); err != nil {
		bad = append(bad, err)
	}
	return errors.Join(bad...)
}

// Bytes of a message: a job with a measured speed for each of 32 sizes takes some
// 500, a server for few jobs still takes a request with too many, to say so, and no
// message of Protocol Buffers is larger than 2 GiB.
const (
	bytesPerJob          = 640
	leastMaxMessageBytes = 16 << 20
	mostMaxMessageBytes  = 2<<30 - 1
)

// maxMessageBytes returns the largest request taken.
func (c *Config) maxMessageBytes() int {
	if c.MaxMessageBytes > 0 {
		return c.MaxMessageBytes
	}
	return max(leastMaxMessageBytes, bytesPerJob*min(c.Allocator.MaxJobs(), mostMaxMessageBytes/bytesPerJob))
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
