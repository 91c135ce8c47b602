package ingress

import (
	"context"
	"net"

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
	return hangUpConn{connection}, nil
}

// hangUpConn is a connection whose remote address can hang it up.
type hangUpConn struct{ net.Conn }

// RemoteAddr returns the address of the peer.
func (c hangUpConn) RemoteAddr() net.Addr { return hangUpAddr{c.Conn.RemoteAddr(), c.Conn} }

type hangUpAddr struct {
	net.Addr
	connection net.Conn
}

// hangUpOf returns what ends the connection of the call that ctx belongs to; nil where
// that cannot be ended.
func hangUpOf(ctx context.Context) func() {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	address, ok := p.Addr.(hangUpAddr)
	if !ok {
		return nil
	}
	return func() { _ = address.connection.Close() }
}
