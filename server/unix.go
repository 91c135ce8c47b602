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

// unixMode is the mode of a Unix socket: its owner and its group may call.
const unixMode = 0o660

// mostUnixPath is the length of the longest path of a Unix socket on Linux.
const mostUnixPath = 107

// unixPath returns the path of an address such as unix:/path or unix:///path, and whether it is
// one of a Unix socket.
func unixPath(address string) (string, bool) {
	path, unix := strings.CutPrefix(address, "unix:")
	if rest, found := strings.CutPrefix(path, "//"); found && strings.HasPrefix(rest, "/") {
		path = rest
	}
	return path, unix
}

// unixTarget is the address of a Unix socket whose text is a target of gRPC.
type unixTarget struct{ net.Addr }

// String returns unix:///path, or unix:path for a relative path.
func (u unixTarget) String() string {
	path := u.Addr.String()
	if filepath.IsAbs(path) {
		return "unix://" + path
	}
	return "unix:" + path
}

// listenUnix listens on a Unix socket, which is removed when the listener is closed. It replaces
// a socket that a server which was killed has left.
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

// abandoned reports whether a file is a socket on which nobody listens.
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
