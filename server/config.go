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

// Config configures a server. Start from DefaultConfig: zero values have no defaults
// unless their comments say so.
type Config struct {
	// Listen and AdminListen are the addresses of gRPC and of admin HTTP, host:port. Listen may
	// also be unix:/path: a Unix socket of mode 0660, whose owner and group may call.
	Listen, AdminListen string
	// Allocator decides. Required.
	Allocator apiconv.Allocator
	// Backends are the backends of Allocator, in its order, greedy last.
	Backends []Backend
	// MaxInflight is the maximum number of calls decided at once. A decision uses one core,
	// so by default it is the number of cores that this process may use.
	MaxInflight int
	// MaxQueue is the maximum number of calls that wait for their turn, for half a second
	// at most. It may be 0.
	MaxQueue int
	// MaxMemory is the maximum number of bytes that all calls hold together: received,
	// decoded, work space, and answers that are not read. The process takes BaseMemory
	// beside.
	MaxMemory int64
	// MaxBudget is the longest time budget of a decision.
	MaxBudget time.Duration
	// DrainDelay is the time between turning not ready and refusing calls, so that routers
	// notice, and DrainTimeout how long calls in flight then have to end.
	DrainDelay, DrainTimeout time.Duration
	// TLSCert and TLSKey are the PEM files of the server's certificate and key;
	// without them it speaks plain text. With ClientCA, a PEM file too, every client must
	// present a certificate signed by it. Files that change are read again.
	TLSCert, TLSKey, ClientCA string
	// ClientNames are the names, of which a client's certificate must have one among its
	// subject alternative names, of the kind (DNS, URI, e-mail, IP) that it has by its form;
	// none: any certificate of ClientCA will do.
	ClientNames []string
	// AdminHosts are the names by which admin HTTP may be asked for, beside addresses,
	// names without a dot, and that of AdminListen.
	AdminHosts []string
	// Plaintext allows plain text on a Listen address that is not loopback.
	Plaintext bool
	// Ready, if set, is called with true once the server serves, and with false when it
	// begins to drain.
	Ready func(ready bool)
	// NoReflection turns off gRPC reflection.
	NoReflection bool
	// Logger takes a line per call; nil discards it.
	Logger *slog.Logger
	// Version is the version shown by elastalloc_build_info and on the status page.
	Version string
	// MetricsGroups and MetricsNodeTypes are the ids of the groups and the node types that
	// have metrics of their own. Others have none, so that callers cannot make series.
	MetricsGroups, MetricsNodeTypes []string
	// Registry takes the metrics that /metrics shows, none of which it may have yet; nil means a
	// new one.
	Registry *prometheus.Registry
	// Recorder, if set, keeps every call.
	Recorder Recorder
	// Audit checks the share AuditShare of the answers of Allocate after they have been sent,
	// in turns that no call wants; nil checks none.
	Audit      Audit
	AuditShare float64
	// DefectDir, if set, is the folder that keeps requests which showed a defect of the program.
	DefectDir string
	// TracerProvider makes a span of every call and of its stages; nil makes none. The
	// caller shuts it down after Run has returned.
	TracerProvider trace.TracerProvider
	// Propagator reads the caller's span from the metadata of a call; nil reads none.
	Propagator propagation.TextMapPropagator

	// listener, where set, is used instead of Listen.
	listener net.Listener
	// maxReceiving is the maximum number of calls whose requests are arriving, for
	// receiveTimeout at most; one more, and the oldest of them is turned away.
	maxReceiving   int
	receiveTimeout time.Duration
	// maxMessageBytes is the size of the largest request accepted; 0 means what the maximum
	// number of jobs per snapshot needs.
	maxMessageBytes int
}

// Backend is what a server shows about one of its backends.
type Backend = status.Backend

const (
	// ProcessMemory is what a server takes at most beside its calls and turns, in bytes: the
	// program, its connections, and garbage.
	ProcessMemory = 96 << 20

	// SearchMemory is set aside for the turn of a search, in bytes.
	SearchMemory = ingress.SearchMemory

	leastMaxMemory = 16 << 20

	// readTimeout is how long a caller may take to read an answer before the server hangs up.
	readTimeout = 20 * time.Second

	// mostMetricsGroups bounds the series of groups, and of node types, some 40 each.
	mostMetricsGroups = 200
)

// BaseMemory returns what the server takes at most beside MaxMemory, in bytes.
func (c *Config) BaseMemory() int64 { return ProcessMemory + int64(c.MaxInflight)*InflightMemory() }

// InflightMemory returns what is set aside for the turns of each of MaxInflight, in bytes.
func InflightMemory() int64 { return int64(ingress.InflightMemory()) }

// DefaultConfig returns the defaults. Allocator and Backends are the caller's to set.
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

// check returns an error that names everything wrong with the configuration.
func (c *Config) check() error {
	var bad []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	require(c.Allocator != nil, "no allocator")
	if path, unix := unixPath(c.Listen); unix && c.listener == nil {
		require(path != "" && path[0] != '@', "listen address is %q (want unix:/path)", c.Listen)
		require(len(path) <= mostUnixPath, "listen address has a path of %d bytes (want at most %d)", len(path), mostUnixPath)
	} else {
		require(c.listener != nil || isAddress(c.Listen), "listen address is %q (want host:port or unix:/path)", c.Listen)
	}
	require(isAddress(c.AdminListen), "admin listen address is %q (want host:port)", c.AdminListen)
	require(c.MaxInflight >= 1, "max inflight is %d (want at least 1)", c.MaxInflight)
	require(c.MaxQueue >= 0, "max queue is %d (want at least 0)", c.MaxQueue)
	require(c.MaxMemory >= leastMaxMemory, "max memory is %d (want at least 16MiB)", c.MaxMemory)
	require(c.MaxBudget > 0, "max budget is %v (want more than 0)", c.MaxBudget)
	require(c.DrainDelay >= 0, "drain delay is %v (want at least 0)", c.DrainDelay)
	require(c.DrainTimeout > 0, "drain timeout is %v (want more than 0)", c.DrainTimeout)
	require((c.TLSCert == "") == (c.TLSKey == ""), "TLS needs both a certificate and a key")
	require(c.ClientCA == "" || c.TLSCert != "", "a client CA needs TLS")
	require(len(c.ClientNames) == 0 || c.ClientCA != "", "client names need a client CA")
	require(c.AuditShare >= 0 && c.AuditShare <= 1, "audit share is %v (want 0 to 1)", c.AuditShare)
	require(!slices.Contains(c.ClientNames, ""), "a client name is empty")
	require(!slices.Contains(c.MetricsGroups, ""), "a group for metrics is empty")
	require(len(c.MetricsGroups) <= mostMetricsGroups, "%d groups for metrics (want at most %d)", len(c.MetricsGroups), mostMetricsGroups)
	require(!slices.Contains(c.MetricsNodeTypes, ""), "a node type for metrics is empty")
	require(len(c.MetricsNodeTypes) <= mostMetricsGroups, "%d node types for metrics (want at most %d)", len(c.MetricsNodeTypes), mostMetricsGroups)
	return errors.Join(append(bad, c.checkPlaintext())...)
}

// isAddress reports whether an address has a host, maybe empty, and the number of a port.
func isAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	return err == nil
}

// checkPlaintext returns an error if a server that speaks plain text can be reached from
// other machines and this was not asked for.
func (c *Config) checkPlaintext() error {
	host, _, _ := net.SplitHostPort(c.Listen)
	if c.TLSCert != "" || c.Plaintext || c.listener != nil || !isAddress(c.Listen) {
		return nil
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("listen address %s is not loopback: set a TLS certificate and key, "+
		"or allow plain text (--plaintext) on a trusted network", c.Listen)
}

// Bytes of a message. A job with a measured speed for each of 32 sizes needs some 500; a server
// for few jobs still accepts a request with too many, to say so.
const (
	bytesPerJob          = 640
	leastMaxMessageBytes = 16 << 20
	mostMaxMessageBytes  = 2<<30 - 1 // of Protocol Buffers
)

// messageBytes returns the size of the largest request accepted.
func (c *Config) messageBytes() int {
	return cmp.Or(c.maxMessageBytes,
		max(leastMaxMessageBytes, bytesPerJob*min(c.Allocator.MaxJobs(), mostMaxMessageBytes/bytesPerJob)))
}

// listen opens both listeners, or none.
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
