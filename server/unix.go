package server

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// unixMode is the mode of a Unix socket. Its owner and group may call.
const unixMode = 0o660

// maxUnixPath is the maximum length of the path of a Unix socket on Linux, in bytes.
const maxUnixPath = 107

// unixPath returns the path of an address such as unix:/path or unix:///path, and whether the address is a
// Unix socket.
func unixPath(address string) (string, bool) {
	path, unix := strings.CutPrefix(address, "unix:")
	if rest, found := strings.CutPrefix(path, "//"); found && strings.HasPrefix(rest, "/") {
		path = rest
	}
	return path, unix
}

// unixTarget is the address of a Unix socket in the form of a gRPC target.
type unixTarget struct{ net.Addr }

// String returns unix:///path, or unix:path for a relative path.
func (u unixTarget) String() string {
	path := u.Addr.String()
	if filepath.IsAbs(path) {
		return "unix://" + path
	}
	return "unix:" + path
}

// listenUnix listens on a Unix socket, which is removed when the listener is closed. It replaces an abandoned
// socket of a server that was killed.
func listenUnix(path string) (net.Listener, error) {
	listener, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && abandoned(path) {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		listener, err = net.Listen("unix", path)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, unixMode); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// abandoned reports whether a file is a socket on which no process listens.
func abandoned(path string) bool {
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != os.ModeSocket {
		return false
	}
	connection, err := new(net.Dialer).DialContext(context.Background(), "unix", path)
	if err == nil {
		_ = connection.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
