package main

import (
	"log/slog"
	"net"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
)

// systemdReadiness returns what tells systemd that the server is ready or drains, as
// sd_notify(3) does: nil where NOTIFY_SOCKET names no socket. A message that cannot be sent is
// logged and no reason not to serve.
func systemdReadiness(env cli.LookupEnv, logger *slog.Logger) func(ready bool) {
	socket := env.Get("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	return func(ready bool) {
		state := "STOPPING=1"
		if ready {
			state = "READY=1"
		}
		if err := sendDatagram(socket, state); err != nil {
			logger.Warn("cannot tell systemd", "state", state, "error", err)
		}
	}
}

// sendDatagram sends one message to a Unix socket; @ begins a name of Linux' abstract ones.
func sendDatagram(socket, message string) error {
	connection, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = connection.Write([]byte(message))
	return err
}
