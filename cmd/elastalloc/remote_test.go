package main

import (
	"strings"
	"testing"

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
		"both are known":          {known, exitDone, ""},
		"by another name":         {known + " --tls-server-name " + testcert.ServerName, exitDone, ""},
		"by a name that is wrong": {known + " --tls-server-name elsewhere", exitFailed, "certificate is valid for"},
		"the client is unknown":   {"--tls-ca " + serverID.CertFile, exitFailed, "Unavailable"},
		"the server is unknown":   {"--tls", exitFailed, "certificate signed by unknown authority"},
		"in plain text":           {"", exitFailed, "Unavailable"},
		"a key is missing":        {"--tls-cert " + clientID.CertFile, exitBadInput, "--tls-cert and --tls-key belong together"},
		"a key for another":       {"--tls-cert " + clientID.CertFile + " --tls-key " + serverID.KeyFile, exitBadInput, "does not match"},
		"no authority":            {"--tls-ca " + clientID.KeyFile, exitBadInput, "holds no PEM certificate"},
		"no such authority":       {"--tls-ca /nonexistent/ca.pem", exitBadInput, "/nonexistent/ca.pem"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"allocate", "-f", "testdata/queue.json", "--server", server.Addr}, strings.Fields(test.flags)...)
			_, stderr, status := runBinary(t, nil, args...)
			if status != test.status || !strings.Contains(stderr, test.stderr) {
				t.Errorf("exit status %d, stderr %q; want %d, %q", status, stderr, test.status, test.stderr)
			}
		})
	}
}
