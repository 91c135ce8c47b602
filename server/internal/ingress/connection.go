package ingress

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/peer"
)

// Listen returns a listener whose connections can be hung up on by the calls that come
// over them: gRPC tells a call the address of its peer, and nothing else of its
// connection.
func Listen(listener net.Listener) net.Listener { return hangUpListener{listener} }

type hangUpListener struct{ net.Listener }

// Accept waits for a connection.
func (l hangUpListener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return hangUpConn{connection, new(cancellations)}, nil
}

// hangUpConn is a connection whose remote address can hang it up.
type hangUpConn struct {
	net.Conn
	cancelled *cancellations
}

// RemoteAddr returns the address of the peer.
func (c hangUpConn) RemoteAddr() net.Addr { return hangUpAddr{c.Conn.RemoteAddr(), c} }

type hangUpAddr struct {
	net.Addr
	connection hangUpConn
}

// connectionOf returns the connection of the call that ctx belongs to, and whether it is
// one of ours.
func connectionOf(ctx context.Context) (hangUpConn, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return hangUpConn{}, false
	}
	address, ok := p.Addr.(hangUpAddr)
	return address.connection, ok
}

// hangUpOf returns what ends the connection of the call that ctx belongs to; nil where
// that cannot be ended.
func hangUpOf(ctx context.Context) func() {
	connection, ok := connectionOf(ctx)
	if !ok {
		return nil
	}
	return func() { _ = connection.Close() }
}

const (
	// maxCancellations is how many calls of a connection may be cancelled within the
	// time of cancellationWindow. Who opens calls only to reset them costs the server far
	// more than itself.
	maxCancellations   = 1000
	cancellationWindow = 10 * time.Second
)

// cancellations counts the calls of a connection that were cancelled.
type cancellations struct {
	mutex sync.Mutex
	since time.Time
	count int
}

// tooMany counts one more and reports whether it is one too many.
func (c *cancellations) tooMany(now time.Time) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if now.Sub(c.since) > cancellationWindow {
		c.since, c.count = now, 0
	}
	c.count++
	return c.count > maxCancellations
}

// cancelled takes note of a call that its caller has cancelled, and hangs up on one that
// does so without end.
func cancelled(ctx context.Context) {
	if connection, ok := connectionOf(ctx); ok && connection.cancelled.tooMany(time.Now()) {
		_ = connection.Close()
	}
}
