package client

import (
	"crypto/tls"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Option changes how a client is made.
type Option func(*settings)

// settings are what options change.
type settings struct {
	timeout     time.Duration
	credentials credentials.TransportCredentials
	dialOptions []grpc.DialOption
}

// WithTLS makes connections over TLS. An empty configuration trusts the
// authorities of the system; Certificates are shown to servers that want one.
func WithTLS(config *tls.Config) Option {
	return func(s *settings) { s.credentials = credentials.NewTLS(config) }
}

// WithTimeout sets the time for a call whose context has no deadline, beside twice its time
// budget; without this option it is DefaultTimeout.
func WithTimeout(timeout time.Duration) Option {
	return func(s *settings) { s.timeout = timeout }
}

// WithDialOptions adds options of gRPC, which win over the client's own. For traces that go on
// in the server, with otelgrpc of OpenTelemetry's contrib modules:
//
//	client.WithDialOptions(grpc.WithStatsHandler(otelgrpc.NewClientHandler()))
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dialOptions = append(s.dialOptions, options...) }
}
