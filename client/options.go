package client

import (
	"crypto/tls"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Option configures a client.
type Option func(*settings)

// settings are the values that options set.
type settings struct {
	timeout     time.Duration
	credentials credentials.TransportCredentials
	dialOptions []grpc.DialOption
}

// WithTLS enables TLS. An empty configuration trusts the certificate authorities of the system. Set
// Certificates for servers that require a client certificate.
func WithTLS(config *tls.Config) Option {
	return func(s *settings) { s.credentials = credentials.NewTLS(config) }
}

// WithTimeout sets the timeout of a call whose context has no deadline, in addition to twice the time
// budget of the request. The default is DefaultTimeout.
func WithTimeout(timeout time.Duration) Option {
	return func(s *settings) { s.timeout = timeout }
}

// WithDialOptions adds gRPC dial options, which override the options of the client. For example, this option
// propagates OpenTelemetry traces to the server:
//
//	client.WithDialOptions(grpc.WithStatsHandler(otelgrpc.NewClientHandler()))
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dialOptions = append(s.dialOptions, options...) }
}
