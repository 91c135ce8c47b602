package guard

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/elastalloc/elastalloc/internal/text"
)

const (
	// maxCancellations is the maximum number of calls of a connection that may be canceled within
	// cancellationWindow. Opening and resetting calls costs the server far more than the client.
	maxCancellations   = 1000
	cancellationWindow = 10 * time.Second

	// frameBytes is the memory of a frame in gRPC in addition to its bytes and its header on the wire. A frame
	// may have a single byte. BenchmarkFrames measures 28 bytes for such a frame, of which gRPC copies up to
	// half while their number grows.
	frameBytes = 32
)

// Credentials returns transport credentials for a server. They add the connection to the AuthInfo of its calls,
// so that calls reserve memory for what it receives, and can close it.
func (r *Receiver) Credentials(c credentials.TransportCredentials) credentials.TransportCredentials {
	return &guarded{c, r}
}

type guarded struct {
	credentials.TransportCredentials
	receiver *Receiver
}

// ServerHandshake performs a handshake.
func (g *guarded) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := g.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	c := &connection{Conn: secured, receiver: g.receiver, frames: frameCounter{rest: len(http2Preface)}}
	return c, authInfo{info, c}, nil
}

// Clone returns a copy.
func (g *guarded) Clone() credentials.TransportCredentials {
	return &guarded{g.TransportCredentials.Clone(), g.receiver}
}

// authInfo is the AuthInfo of a call, with its connection.
type authInfo struct {
	credentials.AuthInfo
	connection *connection
}

// connectionOf returns the connection of the call of ctx. A call without Receiver.Credentials has a connection
// of its own.
func connectionOf(ctx context.Context) *connection {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(authInfo); ok {
			return info.connection
		}
	}
	own, _ := net.Pipe()
	return &connection{Conn: own}
}

// Caller returns the name of the caller: a name in its verified certificate, or its address.
func Caller(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	info := p.AuthInfo
	if own, ok := info.(authInfo); ok {
		info = own.AuthInfo
	}
	if info, ok := info.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
		certificate := info.State.PeerCertificates[0]
		switch {
		case len(certificate.DNSNames) > 0:
			return text.Shorten(certificate.DNSNames[0])
		case len(certificate.URIs) > 0:
			return text.Shorten(certificate.URIs[0].String())
		case certificate.Subject.CommonName != "":
			return text.Shorten(certificate.Subject.CommonName)
		}
	}
	if p.Addr.Network() == "unix" {
		return "unix" // Callers over a Unix socket have no addresses.
	}
	if host, _, err := net.SplitHostPort(p.Addr.String()); err == nil {
		return host
	}
	return p.Addr.String()
}

// connection is a connection of a client. While requests arrive over it, it reserves memory for what it has
// received since the handler of the first of them started. gRPC keeps at most that, and windowBytes per call that
// arrived before.
type connection struct {
	net.Conn
	receiver *Receiver
	frames   frameCounter

	mutex    sync.Mutex
	memory   *Reservation // of the first caller; nil before it calls
	arrivals []*arrival   // the requests that arrive, the oldest first
	received int          // memory of what has been received since the start, in bytes

	since    time.Time // start of the window of canceled calls
	canceled int       // calls canceled in the window
}

// Read reads from the connection. It does not return before there is memory for the bytes, or the requests that
// arrive are rejected.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mutex.Lock()
	c.received += n + frameBytes*c.frames.count(p[:n])
	arriving := len(c.arrivals) > 0
	c.mutex.Unlock()
	if arriving && c.receiver.await(context.Background(), c, c.reserve) != nil {
		c.receiver.rejectAll(c)
	}
	return n, err
}

// http2Preface is what a client sends before its first frame.
const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// frameCounter counts the frames of HTTP/2 in a sequence of bytes.
type frameCounter struct {
	rest   int     // bytes before the next frame
	header [9]byte // of the next frame, which begins with the length of the rest
	have   int     // bytes of the header
}

// count returns the number of frames whose header ends in p.
func (f *frameCounter) count(p []byte) int {
	frames := 0
	for len(p) > 0 {
		if skipped := min(f.rest, len(p)); skipped > 0 {
			f.rest, p = f.rest-skipped, p[skipped:]
			continue
		}
		n := copy(f.header[f.have:], p)
		f.have, p = f.have+n, p[n:]
		if f.have == len(f.header) {
			f.rest, f.have = int(f.header[0])<<16|int(f.header[1])<<8|int(f.header[2]), 0
			frames++
		}
	}
	return frames
}

// reserve reserves memory for the requests that arrive, and reports whether enough is free.
func (c *connection) reserve() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	bytes := 0
	if len(c.arrivals) > 0 {
		bytes = len(c.arrivals)*CallBytes + c.received - c.arrivals[0].from
	}
	return c.memory.Set(bytes)
}

// begin adds a request that arrives.
func (c *connection) begin(a *arrival, r *Receiver) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.memory == nil {
		c.memory = r.Memory.NewReservation(a.caller)
	}
	a.from = c.received
	c.arrivals = append(c.arrivals, a)
}

// end removes a request.
func (c *connection) end(a *arrival) {
	c.mutex.Lock()
	c.arrivals = slices.DeleteFunc(c.arrivals, func(o *arrival) bool { return o == a })
	c.mutex.Unlock()
	c.reserve()
}

// Canceled counts a call that its caller has canceled. It closes the connection if too many of its calls
// were canceled.
func Canceled(ctx context.Context) {
	if c := connectionOf(ctx); c.countCanceled(time.Now()) {
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
