package main

import (
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/internal/testcert"
)

// TestAllocateOverTLS asks a server that wants a certificate of its clients.
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
		"the client is unknown":   {"--tls-ca " + serverID.CertFile, cli.ExitFailed, "Unavailable"},
		"the server is unknown":   {"--tls", cli.ExitFailed, "certificate signed by unknown authority"},
		"in plain text":           {"", cli.ExitFailed, "Unavailable"},
		"a key is missing":        {"--tls-cert " + clientID.CertFile, cli.ExitBadInput, "--tls-cert and --tls-key belong together"},
		"a key for another":       {"--tls-cert " + clientID.CertFile + " --tls-key " + serverID.KeyFile, cli.ExitBadInput, "does not match"},
		"no authority":            {"--tls-ca " + clientID.KeyFile, cli.ExitBadInput, "holds no PEM certificate"},
		"no such authority":       {"--tls-ca /nonexistent/ca.pem", cli.ExitBadInput, "/nonexistent/ca.pem"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"allocate", "-f", "testdata/queue.json", "--budget=1m", "--server", server.Addr}, strings.Fields(test.flags)...)
			_, stderr, status := runBinary(t, nil, args...)
			if status != test.status || !strings.Contains(stderr, test.stderr) {
				t.Errorf("exit status %d, stderr %q; want %d, %q", status, stderr, test.status, test.stderr)
			}
		})
	}
}
