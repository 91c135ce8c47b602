package guard

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/peer"
)

const (
	// maxCancellations is how many calls of a connection may be cancelled within
	// cancellationWindow. A client that opens calls only to reset them costs the server far
	// more than itself.
	maxCancellations   = 1000
	cancellationWindow = 10 * time.Second
)

// Listen returns a listener whose connections can be hung up on by the calls that come
// over them: gRPC tells a call no more of its connection than the address of its peer.
func Listen(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

// Accept waits for a connection.
func (l listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &connection{Conn: accepted}, nil
}

// connection is a connection whose remote address leads back to it.
type connection struct {
	net.Conn

	mutex     sync.Mutex
	since     time.Time
	cancelled int // calls since then
}

// RemoteAddr returns the address of the peer.
func (c *connection) RemoteAddr() net.Addr { return address{c.Conn.RemoteAddr(), c} }

type address struct {
	net.Addr
	connection *connection
}

// connectionOf returns the connection of the call that ctx belongs to, nil where it is not
// one of Listen.
func connectionOf(ctx context.Context) *connection {
	if p, ok := peer.FromContext(ctx); ok {
		if a, ok := p.Addr.(address); ok {
			return a.connection
		}
	}
	return nil
}

// Cancelled notes a call that its caller has cancelled, and hangs up on one that does so
// without end.
func Cancelled(ctx context.Context) {
	if c := connectionOf(ctx); c != nil && c.tooMany(time.Now()) {
		_ = c.Close()
	}
}

// tooMany counts a call that was cancelled and reports whether it is one too many.
func (c *connection) tooMany(now time.Time) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if now.Sub(c.since) > cancellationWindow {
		c.since, c.cancelled = now, 0
	}
	c.cancelled++
	return c.cancelled > maxCancellations
}
