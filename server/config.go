package server

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
	"github.com/elastalloc/elastalloc/server/internal/status"
)

// Config configures a server. Start from DefaultConfig: zero values have no defaults unless the comment of
// the field states one.
type Config struct {
	// Listen and AdminListen are the addresses of gRPC and of admin HTTP, host:port. Listen may also be
	// unix:/path, a Unix socket with mode 0660, so that its owner and group may call.
	Listen, AdminListen string
	// Allocator makes the decisions. It is required.
	Allocator apiconv.Allocator
	// Backends are the backends of Allocator in the order of their calls, greedy last.
	Backends []Backend
	// MaxInflight is the number of slots, the maximum number of concurrent decisions. A decision uses
	// one core, so the default is the number of cores that this process may use.
	MaxInflight int
	// MaxQueue is the maximum number of calls that wait for a slot. Calls wait for up to 0.5 s. It may
	// be 0.
	MaxQueue int
	// MaxMemory is the maximum memory of all calls, in bytes: encoded and decoded requests, work space,
	// and responses that callers have not read. The process needs BaseMemory in addition.
	MaxMemory int64
	// MaxBudget is the maximum time budget of a decision.
	MaxBudget time.Duration
	// DrainDelay is the time between becoming not ready and rejecting calls, so that load balancers
	// notice. DrainTimeout is the time that calls in flight have to complete after that.
	DrainDelay, DrainTimeout time.Duration
	// TLSCert and TLSKey are the PEM files of the server's certificate and key. Without them, the server
	// uses plain text. If ClientCA, also a PEM file, is set, every client must present a certificate
	// signed by it. Files that change are read again.
	TLSCert, TLSKey, ClientCA string
	// ClientNames are the subject alternative names of clients that may call: DNS names, URIs, e-mail
	// addresses or IP addresses, recognized by their form. If it is empty, any certificate of ClientCA
	// may call.
	ClientNames []string
	// AdminHosts are host names that admin HTTP accepts in addition to addresses, names without a dot,
	// and the host of AdminListen.
	AdminHosts []string
	// Plaintext allows plain text on a Listen address that is not loopback.
	Plaintext bool
	// Ready, if set, is called with true once the server serves, and with false when it
	// begins to drain.
	Ready func(ready bool)
	// NoReflection disables gRPC reflection.
	NoReflection bool
	// Logger logs a line per call. If it is nil, nothing is logged.
	Logger *slog.Logger
	// Version is the version in elastalloc_build_info and on the status page.
	Version string
	// MetricsGroups and MetricsNodeTypes are the ids of the groups and node types with metrics of their
	// own. Other ids have none, so that callers cannot create series.
	MetricsGroups, MetricsNodeTypes []string
	// Registry is the registry of the metrics at /metrics. It must not have any of these metrics yet. If
	// it is nil, the server creates one.
	Registry *prometheus.Registry
	// Recorder, if set, records every call.
	Recorder Recorder
	// Audit, if set, audits responses of Allocate after they are sent, in idle slots. AuditShare is the
	// fraction of responses to audit, 0 to 1.
	Audit      Audit
	AuditShare float64
	// DefectDir, if set, is the folder for requests that show a bug of the program.
	DefectDir string
	// TracerProvider, if set, creates a span for every call and for its stages. The caller shuts it down
	// after Run has returned.
	TracerProvider trace.TracerProvider
	// Propagator, if set, reads the caller's span from the metadata of a call.
	Propagator propagation.TextMapPropagator

	// listener, if set, is used instead of Listen.
	listener net.Listener
	// maxReceiving is the maximum number of requests that are being received, and receiveTimeout the
	// maximum time to receive one. If there are more requests, the oldest one is rejected.
	maxReceiving   int
	receiveTimeout time.Duration
	// maxMessageBytes is the maximum size of a request. If it is 0, it follows from the maximum number of
	// jobs per snapshot.
	maxMessageBytes int
}

// Backend is what a server shows about one of its backends.
type Backend = status.Backend

const (
	// ProcessMemory is the maximum memory of a server in addition to its calls and slots, in bytes: the
	// program, its connections, and garbage.
	ProcessMemory = 96 << 20

	// SearchMemory is the memory reserved for a slot with a search, in bytes.
	SearchMemory = ingress.SearchMemory

	minMaxMemory = 16 << 20

	// readTimeout is the maximum time until a caller has read a response. Then its connection is closed.
	readTimeout = 20 * time.Second

	// maxMetricsGroups limits MetricsGroups and MetricsNodeTypes, which have about 40 series each.
	maxMetricsGroups = 200
)

// BaseMemory returns the maximum memory of the server in addition to MaxMemory, in bytes.
func (c *Config) BaseMemory() int64 { return ProcessMemory + int64(c.MaxInflight)*InflightMemory() }

// InflightMemory returns the memory reserved for each of MaxInflight, in bytes.
func InflightMemory() int64 { return int64(ingress.InflightMemory()) }

// DefaultConfig returns the defaults. The caller sets Allocator and Backends.
func DefaultConfig() Config {
	return Config{
		Listen:         "127.0.0.1:50051",
		AdminListen:    "127.0.0.1:9464",
		MaxInflight:    runtime.GOMAXPROCS(0),
		MaxQueue:       256,
		MaxMemory:      256 << 20,
		MaxBudget:      10 * time.Second,
		DrainDelay:     2 * time.Second,
		DrainTimeout:   10 * time.Second,
		Version:        "unknown",
		maxReceiving:   1024,
		receiveTimeout: 10 * time.Second,
	}
}

// check returns an error that names all invalid fields by the flags of elastalloc serve that set them.
func (c *Config) check() error {
	var bad []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	require(c.Allocator != nil, "allocator: is nil; must be set")
	if path, unix := unixPath(c.Listen); unix && c.listener == nil {
		require(path != "" && path[0] != '@', "--listen: is %q; must be unix:/path", c.Listen)
		require(len(path) <= maxUnixPath, "--listen: has a path of %d bytes; must be at most %d", len(path), maxUnixPath)
	} else {
		require(c.listener != nil || isAddress(c.Listen), "--listen: is %q; must be host:port or unix:/path", c.Listen)
	}
	require(isAddress(c.AdminListen), "--admin-listen: is %q; must be host:port", c.AdminListen)
	require(c.MaxInflight >= 1, "--max-inflight: is %d; must be at least 1", c.MaxInflight)
	require(c.MaxQueue >= 0, "--max-queue: is %d; must be at least 0", c.MaxQueue)
	require(c.MaxMemory >= minMaxMemory, "--max-memory: is %d; must be at least 16MiB", c.MaxMemory)
	require(c.MaxBudget > 0, "--max-budget: is %v; must be greater than 0", c.MaxBudget)
	require(c.DrainDelay >= 0, "--drain-delay: is %v; must be at least 0", c.DrainDelay)
	require(c.DrainTimeout > 0, "--drain-timeout: is %v; must be greater than 0", c.DrainTimeout)
	require((c.TLSCert == "") == (c.TLSKey == ""), "--tls-cert: needs --tls-key, and the key needs the certificate")
	require(c.ClientCA == "" || c.TLSCert != "", "--client-ca: needs --tls-cert and --tls-key")
	require(len(c.ClientNames) == 0 || c.ClientCA != "", "--client-names: needs --client-ca")
	require(c.AuditShare >= 0 && c.AuditShare <= 1, "--audit-share: is %v; must be from 0 to 1", c.AuditShare)
	require(!slices.Contains(c.ClientNames, ""), "--client-names: contains an empty name")
	require(!slices.Contains(c.MetricsGroups, ""), "--metrics-groups: contains an empty id")
	require(len(c.MetricsGroups) <= maxMetricsGroups,
		"--metrics-groups: has %d ids; must be at most %d", len(c.MetricsGroups), maxMetricsGroups)
	require(!slices.Contains(c.MetricsNodeTypes, ""), "--metrics-node-types: contains an empty id")
	require(len(c.MetricsNodeTypes) <= maxMetricsGroups,
		"--metrics-node-types: has %d ids; must be at most %d", len(c.MetricsNodeTypes), maxMetricsGroups)
	return errors.Join(append(bad, c.checkPlaintext())...)
}

// isAddress reports whether an address is host:port with a numeric port. The host may be empty.
func isAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	return err == nil
}

// checkPlaintext returns an error if a server with plain text can be reached from other machines and
// Plaintext is not set.
func (c *Config) checkPlaintext() error {
	host, _, _ := net.SplitHostPort(c.Listen)
	if c.TLSCert != "" || c.Plaintext || c.listener != nil || !isAddress(c.Listen) {
		return nil
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("--listen: is %s; must be loopback without TLS: set --tls-cert and --tls-key, "+
		"or allow plain text with --plaintext on a trusted network", c.Listen)
}

// Sizes of messages, in bytes. A job with measured speeds for 32 sizes needs about 500. minMaxMessageBytes
// lets a server for few jobs receive a request with too many, and reject it with a message.
const (
	bytesPerJob        = 640
	minMaxMessageBytes = 16 << 20
	protobufMaxBytes   = 2<<30 - 1 // limit of Protocol Buffers
)

// messageBytes returns the maximum size of a request, in bytes.
func (c *Config) messageBytes() int {
	return cmp.Or(c.maxMessageBytes,
		max(minMaxMessageBytes, bytesPerJob*min(c.Allocator.MaxJobs(), protobufMaxBytes/bytesPerJob)))
}

// listen opens both listeners. If it fails, none is open.
func (c *Config) listen() (rpc, admin net.Listener, err error) {
	path, unix := unixPath(c.Listen)
	switch {
	case c.listener != nil:
		rpc = c.listener
	case unix:
		rpc, err = listenUnix(path)
	default:
		rpc, err = net.Listen("tcp", c.Listen)
	}
	if err != nil {
		return nil, nil, err
	}
	if admin, err = net.Listen("tcp", c.AdminListen); err != nil {
		return nil, nil, errors.Join(err, rpc.Close())
	}
	return rpc, admin, nil
}
