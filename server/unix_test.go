package server

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestUnixSocket calls a server on a Unix socket. The socket has its mode independent of the file mask, and is
// removed after the drain.
func TestUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	for _, address := range []string{"unix:" + socket, "unix://" + socket} {
		h := start(t, func(c *Config) { c.listener, c.Listen = nil, address })
		info, err := os.Stat(socket)
		if err != nil || info.Mode() != os.ModeSocket|0o660 {
			t.Fatalf("%s: %v, %v", address, info, err)
		}
		if got := h.Addr().String(); got != "unix://"+socket {
			t.Errorf("%s: the address is %s", address, got)
		}
		connection, err := grpc.NewClient(h.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := elastallocv1.NewAllocatorServiceClient(connection).Allocate(t.Context(), smallRequest()); err != nil {
			t.Error(err)
		}
		if err := connection.Close(); err != nil {
			t.Error(err)
		}
		wait.Until(t, "the log names the caller", func() bool { return h.logs.Line(`"caller":"unix"`) != "" })
		h.stop()
		if err := <-h.result; err != nil {
			t.Error(err)
		}
		h.result <- nil
		if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the socket is not removed: %v", address, err)
		}
	}
}

// TestListenUnix checks that only a socket of a server that was killed is replaced.
func TestListenUnix(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	killed, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	killed.SetUnlinkOnClose(false)
	if err := killed.Close(); err != nil {
		t.Fatal(err)
	}
	listener, err := listenUnix(socket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listenUnix(socket); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("socket of a running server: %v", err)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(socket, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenUnix(socket); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("path of a file: %v", err)
	}
	if text, err := os.ReadFile(socket); string(text) != "mine" {
		t.Errorf("the file has %q, %v", text, err)
	}
}

func TestUnixAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"unix:": "must be unix:/path", "unix:@name": "must be unix:/path", "unix:/a": "", "unix:///a": "", "unix:a": "",
		"unix:/" + strings.Repeat("a", 106): "", "unix:/" + strings.Repeat("a", 107): "has a path of 108 bytes; must be at most 107",
	} {
		config := DefaultConfig()
		config.Allocator, config.Listen = fakeAllocator(smallest), address
		if err := config.check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
