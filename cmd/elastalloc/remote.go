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
	"github.com/elastalloc/elastalloc/cmd/internal/cli"
)

// remoteFlags say which server to ask, and how to know it and be known by it.
type remoteFlags struct {
	address                   string
	tls                       bool
	ca, cert, key, serverName string
}

func (f *remoteFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.address, "server", "", "address of the server to ask instead of deciding in this process")
	flags.BoolVar(&f.tls, "tls", false, "ask the server over TLS; the other --tls flags imply it")
	flags.StringVar(&f.ca, "tls-ca", "", "PEM file of the authority of the server's certificate (default those of the system)")
	flags.StringVar(&f.cert, "tls-cert", "", "PEM file of the certificate to show to the server")
	flags.StringVar(&f.key, "tls-key", "", "PEM file of its key")
	// Without client in their names they would be those of the certificate of serve.
	cli.SetVariable(flags, "tls-cert", "ELASTALLOC_CLIENT_TLS_CERT")
	cli.SetVariable(flags, "tls-key", "ELASTALLOC_CLIENT_TLS_KEY")
	flags.StringVar(&f.serverName, "tls-server-name", "", "name in the server's certificate (default that of --server)")
}

// check trims the address, and returns an error for flags that would be ignored without a server
// to ask: their user expects one to decide.
func (f *remoteFlags) check() error {
	given := f.address
	if f.address = strings.TrimSpace(given); f.address == "" && given != "" {
		return fmt.Errorf("--server is %q; must be host:port, such as localhost:50051", given)
	}
	if f.address == "" && f.withTLS() {
		return errors.New("--tls and the other --tls flags need --server")
	}
	return nil
}

// unreachable says in plain words what keeps calls from the server, given what gRPC says of
// it.
func (f *remoteFlags) unreachable(ctx context.Context, message string) error {
	text := strings.TrimSuffix(strings.TrimPrefix(message, `connection error: desc = "`), `"`)
	text = strings.TrimPrefix(strings.TrimPrefix(text, "transport: "), "Error while dialing: ")
	host, _, _ := net.SplitHostPort(f.address)
	// A server that refuses a client hangs up, often before the client could read why.
	hungUp := strings.Contains(message, "error reading server preface") || f.withTLS() &&
		(strings.Contains(message, "broken pipe") || strings.Contains(message, "connection reset by peer"))
	switch {
	case host != "" && net.ParseIP(host) == nil && strings.Contains(message, "no children to pick from"):
		// gRPC keeps to itself why a name has no addresses.
		if _, err := net.DefaultResolver.LookupHost(ctx, host); err != nil {
			return fmt.Errorf("the name %s cannot be resolved: %w", host, err)
		}
	case strings.Contains(message, "looked like an HTTP/1.1 header"):
		return fmt.Errorf("%s serves HTTP/1.1 and not gRPC; by default gRPC is on port 50051, and the status page and metrics on 9464", f.address)
	case strings.Contains(message, "first record does not look like a TLS handshake"):
		return fmt.Errorf("%s serves no TLS; ask it without the --tls flags", f.address)
	case hungUp && !f.withTLS():
		return fmt.Errorf("%s closes connections in plain text; if it serves TLS, give --tls (%s)", f.address, text)
	case f.cert == "" && strings.Contains(message, "tls: certificate required"):
		return fmt.Errorf("%s wants a certificate of its clients; give --tls-cert and --tls-key", f.address)
	case strings.Contains(message, "remote error: tls: ") && strings.Contains(message, "certificate"):
		return fmt.Errorf("%s refuses the client's certificate: it has expired, is of an authority unknown there or of none of the names that may call (%s)", f.address, text)
	case hungUp && f.cert != "":
		return fmt.Errorf("%s closes connections; it may refuse the client's certificate (%s)", f.address, text)
	case hungUp:
		return fmt.Errorf("%s closes connections; if it wants a certificate of its clients, give --tls-cert and --tls-key (%s)", f.address, text)
	}
	return fmt.Errorf("no server answers at %s: %s", f.address, text)
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

// tlsConfig returns what the flags say of TLS, nil for plain text.
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
			return nil, fmt.Errorf("--tls-ca: %s holds no PEM certificate", f.ca)
		}
	}
	if (f.cert == "") != (f.key == "") {
		return nil, errors.New("--tls-cert and --tls-key belong together")
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
