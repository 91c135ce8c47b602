package main

import (
	"log/slog"
	"net"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
)

// What sd_notify(3) says to the service manager.
const (
	systemdReady    = "READY=1"
	systemdStopping = "STOPPING=1"
)

// systemdReadiness returns what tells systemd that the server is ready or drains, so
// that `systemctl start` and `restart` return once it serves and fail if it cannot.
// It does nothing where NOTIFY_SOCKET names no socket: under any other service
// manager, and in a unit that is not of Type=notify. A message that cannot be sent
// is logged and no reason not to serve.
func systemdReadiness(env cli.LookupEnv, logger *slog.Logger) func(ready bool) {
	socket := env.Get("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	return func(ready bool) {
		state := systemdStopping
		if ready {
			state = systemdReady
		}
		if err := sendDatagram(socket, state); err != nil {
			logger.Warn("cannot tell systemd", "state", state, "error", err)
		}
	}
}

// sendDatagram sends one message to a Unix socket; a name that begins with @ is one
// of Linux' abstract namespace.
func sendDatagram(socket, message string) error {
	connection, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = connection.Write([]byte(message))
	return err
}
