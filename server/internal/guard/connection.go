package guard

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/peer"
)

const (
	// maxCancellations is the maximum number of calls of a connection that may be canceled within
	// cancellationWindow. Opening and resetting calls costs the server far more than the client.
	maxCancellations   = 1000
	cancellationWindow = 10 * time.Second
)

// Listen returns a listener whose connections can be closed by their calls. gRPC exposes only the remote
// address of a connection to a call, so the address refers to the connection.
func Listen(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

// Accept waits for the next connection.
func (l listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &connection{Conn: accepted}, nil
}

// connection is a connection whose remote address refers to it.
type connection struct {
	net.Conn

	mutex    sync.Mutex
	since    time.Time // start of the window
	canceled int       // calls canceled in the window
}

// RemoteAddr returns the address of the peer.
func (c *connection) RemoteAddr() net.Addr { return address{c.Conn.RemoteAddr(), c} }

type address struct {
	net.Addr
	connection *connection
}

// connectionOf returns the connection of the call of ctx, or nil if its listener is not from Listen.
func connectionOf(ctx context.Context) *connection {
	if p, ok := peer.FromContext(ctx); ok {
		if a, ok := p.Addr.(address); ok {
			return a.connection
		}
	}
	return nil
}

// Canceled counts a call that its caller has canceled. It closes the connection if too many of its calls
// were canceled.
func Canceled(ctx context.Context) {
	if c := connectionOf(ctx); c != nil && c.countCanceled(time.Now()) {
		_ = c.Close()
	}
}

// countCanceled counts a canceled call and reports whether the connection exceeds maxCancellations.
func (c *connection) countCanceled(now time.Time) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if now.Sub(c.since) > cancellationWindow {
		c.since, c.canceled = now, 0
	}
	c.canceled++
	return c.canceled > maxCancellations
}
