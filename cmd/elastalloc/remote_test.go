package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/testing/testcert"
)

// TestAllocateOverTLS calls a server that requires client certificates.
func TestAllocateOverTLS(t *testing.T) {
	serverID, clientID := testcert.New(t, t.TempDir()), testcert.New(t, t.TempDir())
	server := startServer(t, "--tls-cert", serverID.CertFile, "--tls-key", serverID.KeyFile, "--client-ca", clientID.CertFile)
	known := "--tls-ca " + serverID.CertFile + " --tls-cert " + clientID.CertFile + " --tls-key " + clientID.KeyFile
	for name, test := range map[string]struct {
		flags  string
		status int
		stderr string
	}{
		"both are known":          {known, cli.ExitDone, ""},
		"by another name":         {known + " --tls-server-name " + testcert.ServerName, cli.ExitDone, ""},
		"by a name that is wrong": {known + " --tls-server-name elsewhere", cli.ExitFailed, "certificate is valid for"},
		"the client is unknown":   {"--tls-ca " + serverID.CertFile, cli.ExitFailed, "set --tls-cert and --tls-key"},
		"of another authority": {
			"--tls-ca " + serverID.CertFile + " --tls-cert " + serverID.CertFile + " --tls-key " + serverID.KeyFile,
			cli.ExitFailed, server.Addr + " ",
		},
		"the server is unknown": {"--tls", cli.ExitFailed, "certificate signed by unknown authority"},
		"in plain text":         {"", cli.ExitFailed, "if it uses TLS, set --tls"},
		"a key is missing":      {"--tls-cert " + clientID.CertFile, cli.ExitBadInput, "--tls-cert and --tls-key must be set together"},
		"a key for another":     {"--tls-cert " + clientID.CertFile + " --tls-key " + serverID.KeyFile, cli.ExitBadInput, "does not match"},
		"no authority":          {"--tls-ca " + clientID.KeyFile, cli.ExitBadInput, "has no PEM certificate"},
		"missing authority":     {"--tls-ca /nonexistent/ca.pem", cli.ExitBadInput, "/nonexistent/ca.pem"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"allocate", "-f", "testdata/queue.json", "--budget=1m", "--server", server.Addr}, strings.Fields(test.flags)...)
			_, stderr, status := runBinary(t, args...)
			if status != test.status || !strings.Contains(stderr, test.stderr) {
				t.Errorf("exit status %d, stderr %q; want %d, %q", status, stderr, test.status, test.stderr)
			}
		})
	}
}

// TestUnreachable checks the errors of calls to addresses without an allocator.
func TestUnreachable(t *testing.T) {
	const closed = "127.0.0.1:1"
	admin := httptest.NewServer(http.NotFoundHandler())
	defer admin.Close()
	port := func(server *httptest.Server) string { return server.Listener.Addr().String() }
	check := func(command, address, want string) {
		args := strings.Fields(command + " -f testdata/queue.json --server " + address)
		_, stderr, status := runWith(t, nil, "", args...)
		if status != cli.ExitFailed || !strings.Contains(stderr, want) ||
			strings.Contains(stderr, "rpc error") || strings.Contains(stderr, "desc =") {
			t.Errorf("%q: exit status %d, stderr %q; want %q", args, status, stderr, want)
		}
	}
	for address, want := range map[string]string{
		// An invalid name is not looked up.
		"nosuch..name:50051":           "the name nosuch..name cannot be resolved: ",
		closed:                         "no server responds at " + closed + ": dial tcp ",
		closed + ",[::1]:1":            "no server responds at " + closed + ",[::1]:1: dial tcp",
		"unix:///nonexistent/socket":   "no server responds at unix:///nonexistent/socket: dial unix ",
		port(admin):                    port(admin) + " serves HTTP/1.1 and not gRPC; by default gRPC is on port 50051",
		startServer(t).Addr + " --tls": " does not use TLS; remove the --tls flags",
	} {
		check("allocate", address, want)
	}
	for _, command := range []string{"fill-idle", "explain", "whatif --nodes 5", "forecast"} {
		check(command, "unix:///nonexistent/socket", "no server responds at unix:///nonexistent/socket: dial unix ")
	}
}

// TestCertificateRequired checks the error if the server does not trust the authority of the client certificate. The
// client of Go then sends no certificate.
func TestCertificateRequired(t *testing.T) {
	const alert = `connection error: desc = "error reading server preface: remote error: tls: certificate required"`
	for cert, want := range map[string]string{"": "set --tls-cert and --tls-key", "client.crt": "rejects the client's certificate"} {
		f := remoteFlags{address: "alloc:1", tls: true, cert: cert}
		if err := f.unreachable(t.Context(), alert); !strings.Contains(err.Error(), want) {
			t.Errorf("with certificate %q: %v; want %q", cert, err, want)
		}
	}
}

// TestBodyLimitOfProxy checks the error if a proxy refuses a request for its size.
func TestBodyLimitOfProxy(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/Allocate") {
			http.NotFound(w, r) // There is no health service, so the proxy counts as healthy.
			return
		}
		http.Error(w, "<h1>413 Request Entity Too Large</h1>", http.StatusRequestEntityTooLarge)
	}))
	proxy.Config.Protocols = new(http.Protocols)
	proxy.Config.Protocols.SetUnencryptedHTTP2(true)
	proxy.Start()
	defer proxy.Close()
	_, stderr, status := runWith(t, nil, "", "allocate", "-f", "testdata/queue.json", "--server", proxy.Listener.Addr().String())
	if status != cli.ExitFailed || !strings.Contains(stderr, "limits the size of requests (HTTP status 413); raise its limit") {
		t.Errorf("exit status %d, stderr %q", status, stderr)
	}
}
