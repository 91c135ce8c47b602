package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/internal/cli"
)

// remoteFlags is the flags for the server, its certificate and the certificate of the client.
type remoteFlags struct {
	address                   string
	tls                       bool
	ca, cert, key, serverName string
}

func (f *remoteFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.address, "server", "", "address of the server; without it the program decides in this process")
	flags.BoolVar(&f.tls, "tls", false, "connect to the server over TLS; the other --tls flags imply it")
	flags.StringVar(&f.ca, "tls-ca", "", "PEM file of the CA of the server's certificate (default: CAs of the system)")
	flags.StringVar(&f.cert, "tls-cert", "", "PEM file of the client's certificate")
	flags.StringVar(&f.key, "tls-key", "", "PEM file of the client's key")
	// The default variables set the certificate of serve.
	cli.SetVariable(flags, "tls-cert", "ELASTALLOC_CLIENT_TLS_CERT")
	cli.SetVariable(flags, "tls-key", "ELASTALLOC_CLIENT_TLS_KEY")
	flags.StringVar(&f.serverName, "tls-server-name", "", "name in the server's certificate (default: host of --server)")
}

// check trims the address. It returns an error for TLS flags without a server, because they would be ignored.
func (f *remoteFlags) check() error {
	given := f.address
	if f.address = strings.TrimSpace(given); f.address == "" && given != "" {
		return fmt.Errorf("--server: is %q; must be host:port, such as localhost:50051", given)
	}
	if f.address == "" && f.withTLS() {
		return errors.New("--tls and the other --tls flags need --server")
	}
	return nil
}

// unreachable converts a message of gRPC to an error with the reason why the server cannot be reached.
func (f *remoteFlags) unreachable(ctx context.Context, message string) error {
	text := strings.TrimSuffix(strings.TrimPrefix(message, `connection error: desc = "`), `"`)
	text = strings.TrimPrefix(strings.TrimPrefix(text, "transport: "), "Error while dialing: ")
	host, _, _ := net.SplitHostPort(f.address)
	// A server that rejects a client closes the connection, often before the client has read the reason.
	hungUp := strings.Contains(message, "error reading server preface") || f.withTLS() &&
		(strings.Contains(message, "broken pipe") || strings.Contains(message, "connection reset by peer"))
	switch {
	case host != "" && net.ParseIP(host) == nil && strings.Contains(message, "no children to pick from"):
		// The message of gRPC does not have the reason.
		if _, err := net.DefaultResolver.LookupHost(ctx, host); err != nil {
			return fmt.Errorf("the name %s cannot be resolved: %w", host, err)
		}
	case strings.Contains(message, "looked like an HTTP/1.1 header"):
		return fmt.Errorf("%s serves HTTP/1.1 and not gRPC; by default gRPC is on port 50051, and the status page and metrics on 9464", f.address)
	case strings.Contains(message, "first record does not look like a TLS handshake"):
		return fmt.Errorf("%s does not use TLS; remove the --tls flags", f.address)
	case hungUp && !f.withTLS():
		return fmt.Errorf("%s closes connections in plain text; if it uses TLS, set --tls (%s)", f.address, text)
	case f.cert == "" && strings.Contains(message, "tls: certificate required"):
		return fmt.Errorf("%s requires a client certificate; set --tls-cert and --tls-key", f.address)
	case strings.Contains(message, "remote error: tls: ") && strings.Contains(message, "certificate"):
		return fmt.Errorf("%s rejects the client's certificate: it has expired, its CA "+
			"is unknown to the server, or none of its names may call (%s)", f.address, text)
	case hungUp && f.cert != "":
		return fmt.Errorf("%s closes connections; it may reject the client's certificate (%s)", f.address, text)
	case hungUp:
		return fmt.Errorf("%s closes connections; if it requires a client certificate, set --tls-cert and --tls-key (%s)", f.address, text)
	}
	return fmt.Errorf("no server responds at %s: %s", f.address, text)
}

func (f *remoteFlags) withTLS() bool {
	return f.tls || f.ca != "" || f.cert != "" || f.key != "" || f.serverName != ""
}

func (f *remoteFlags) client() (*client.Client, error) {
	config, err := f.tlsConfig()
	if err != nil {
		return nil, err
	}
	var options []client.Option
	if config != nil {
		options = append(options, client.WithTLS(config))
	}
	c, err := client.New(f.address, options...)
	if err != nil {
		return nil, fmt.Errorf("--server: %w", err)
	}
	return c, nil
}

// tlsConfig returns the TLS configuration, or nil for plain text.
func (f *remoteFlags) tlsConfig() (*tls.Config, error) {
	if !f.withTLS() {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.serverName}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--tls-ca: %s has no PEM certificate", f.ca)
		}
	}
	if (f.cert == "") != (f.key == "") {
		return nil, errors.New("--tls-cert and --tls-key must be set together")
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
