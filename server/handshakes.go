package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/credentials"

	"github.com/elastalloc/elastalloc/internal/text"
)

// Classes of failed TLS handshakes in the metric. The log line has the error.
const (
	handshakeRejected     = "rejected"     // by the server or by the client
	handshakeDisconnected = "disconnected" // the client was silent or closed the connection, as port probes do
)

// nameError is the error for a client certificate with none of the names that may call.
type nameError struct{ names []string }

// Error returns a message with the names of the certificate.
func (e *nameError) Error() string {
	if len(e.names) == 0 {
		return "the client's certificate has no subject alternative name"
	}
	return fmt.Sprintf("the client's certificate has the names %s, none of which may call", strings.Join(e.names, ", "))
}

// namesOf returns the subject alternative names of a certificate, each with its type.
func namesOf(certificate *x509.Certificate) []string {
	var names []string
	for _, name := range certificate.DNSNames {
		names = append(names, "DNS "+name)
	}
	for _, address := range certificate.EmailAddresses {
		names = append(names, "e-mail "+address)
	}
	for _, uri := range certificate.URIs {
		names = append(names, "URI "+uri.String())
	}
	for _, ip := range certificate.IPAddresses {
		names = append(names, "IP "+ip.String())
	}
	return names
}

// withType returns a name with its type, which follows from its form.
func withType(name string) string {
	ip := net.ParseIP(name)
	switch {
	case ip != nil:
		return "IP " + ip.String()
	case strings.Contains(name, ":"):
		return "URI " + name
	case strings.Contains(name, "@"):
		return "e-mail " + name
	default:
		return "DNS " + name
	}
}

// checkNames returns a verification function that rejects clients whose certificate has none of the names. It
// also applies to resumed sessions.
func checkNames(allowed []string) func(tls.ConnectionState) error {
	known := make(map[string]bool, len(allowed))
	for _, name := range allowed {
		known[withType(name)] = true
	}
	return func(state tls.ConnectionState) error {
		names := namesOf(state.PeerCertificates[0])
		if !slices.ContainsFunc(names, func(name string) bool { return known[name] }) {
			return &nameError{names}
		}
		return nil
	}
}

// handshakes is transport credentials that count and log failed handshakes.
type handshakes struct {
	credentials.TransportCredentials
	logger  *slog.Logger
	refused *prometheus.CounterVec
}

// watchHandshakes adds counting and logging to credentials.
func watchHandshakes(c credentials.TransportCredentials, registry prometheus.Registerer, logger *slog.Logger) *handshakes {
	return &handshakes{
		TransportCredentials: c, logger: limitLines(logger, 1, 10),
		refused: counters(registry, "elastalloc_refused_handshakes_total", "TLS handshakes that failed, by reason.",
			"reason", handshakeRejected, handshakeDisconnected),
	}
}

// ServerHandshake performs a handshake.
func (h *handshakes) ServerHandshake(connection net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := h.TransportCredentials.ServerHandshake(connection)
	if err == nil {
		return secured, info, nil
	}
	reason, level := handshakeRejected, slog.LevelWarn
	if isDisconnected(err) {
		reason, level = handshakeDisconnected, slog.LevelInfo
	}
	h.refused.WithLabelValues(reason).Inc()
	h.logger.Log(context.Background(), level, "TLS handshake failed", "reason", reason,
		callerKey, hostOf(connection.RemoteAddr()), "error", text.Shorten(err.Error()))
	return nil, nil, err
}

// Clone returns a copy.
func (h *handshakes) Clone() credentials.TransportCredentials {
	clone := *h
	clone.TransportCredentials = h.TransportCredentials.Clone()
	return &clone
}

// hostOf returns an address without its port.
func hostOf(address net.Addr) string {
	if host, _, err := net.SplitHostPort(address.String()); err == nil {
		return host
	}
	return address.String()
}

// isDisconnected reports whether a handshake failed because the connection was closed or timed out.
func isDisconnected(err error) bool {
	return slices.ContainsFunc([]error{os.ErrDeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, net.ErrClosed},
		func(target error) bool { return errors.Is(err, target) })
}
