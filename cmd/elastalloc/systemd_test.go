package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/internal/testing/servertest"
)

// listenAsSystemd returns a socket like the notification socket of systemd.
func listenAsSystemd(t *testing.T) (string, *net.UnixConn) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "notify")
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	if err := listener.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return socket, listener
}

// receive returns the next message to systemd.
func receive(t *testing.T, listener *net.UnixConn) string {
	t.Helper()
	message := make([]byte, 100)
	length, err := listener.Read(message)
	if err != nil {
		t.Fatal(err)
	}
	return string(message[:length])
}

// TestServerNotifiesSystemd checks that the server notifies systemd when it is ready, not before, and when it drains.
func TestServerNotifiesSystemd(t *testing.T) {
	socket, listener := listenAsSystemd(t)
	env := append(os.Environ(), "NOTIFY_SOCKET="+socket)
	// A server that cannot start does not report that it is ready.
	if _, err := servertest.New(t.Context(), binary, env, "--tls-cert=absent.crt", "--tls-key=absent.key"); err == nil {
		t.Fatal("a server without its certificate started")
	}
	server := servertest.Start(t, binary, env)
	if got := receive(t, listener); got != "READY=1" {
		t.Errorf("the first message is %q; want %q", got, "READY=1")
	}
	if err := server.Stop(); err != nil {
		t.Errorf("Stop returned %v; log:\n%s", err, server.Logs())
	}
	if got := receive(t, listener); got != "STOPPING=1" {
		t.Errorf("the last message is %q; want %q", got, "STOPPING=1")
	}
}

// TestServerWithoutSystemd checks that a server starts if the socket has no listener.
func TestServerWithoutSystemd(t *testing.T) {
	env := append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(t.TempDir(), "absent"))
	server := servertest.Start(t, binary, env)
	if err := server.Stop(); err != nil {
		t.Errorf("Stop returned %v; log:\n%s", err, server.Logs())
	}
	if logs := server.Logs(); !strings.Contains(logs, `"msg":"cannot notify systemd"`) {
		t.Errorf("the log has no line about the failed notification:\n%s", logs)
	}
}
