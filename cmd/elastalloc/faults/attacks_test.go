//go:build unix

package faults

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// attack is the behavior of a hostile client on a number of connections. It calls do, and then waits until its
// context is canceled. Errors are ignored, because the server may close a connection at any time.
type attack struct {
	connections int
	// onAdmin reports that the target is the admin port.
	onAdmin bool
	do      func(ctx context.Context, c *hostileConnection) error
}

// attacks returns the attacks. They have 1,000 connections in total.
func attacks() map[string]attack {
	return map[string]attack{
		"send nothing":               {connections: 290, do: func(context.Context, *hostileConnection) error { return nil }},
		"send half a preface":        {connections: 50, do: sendBytes(http2.ClientPreface[:10])},
		"send a preface and no more": {connections: 100, do: sendBytes(http2.ClientPreface)},
		"speak TLS": {
			connections: 50, do: sendBytes("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("x", 500)),
		},
		"speak HTTP/1.1": {
			connections: 20, do: sendBytes("POST /elastalloc.v1.AllocatorService/Allocate HTTP/1.1\r\nHost: x\r\n\r\n"),
		},
		"call and send no message":     {connections: 100, do: callAndSend(1, nil)},
		"send half a message":          {connections: 100, do: callAndSend(1, append(lengthPrefix(0, 1000), make([]byte, 500)...))},
		"announce 4 GB":                {connections: 20, do: callAndSend(20, lengthPrefix(0, 1<<32-1))},
		"announce 20 MB":               {connections: 20, do: callAndSend(10, lengthPrefix(0, 20<<20))},
		"send a byte at a time":        {connections: 50, do: sendSlowly},
		"send a gzip bomb":             {connections: 10, do: sendGzipBomb},
		"send endless headers":         {connections: 20, do: sendEndlessHeaders},
		"call and reset, rapidly":      {connections: 10, do: resetRapidly},
		"flood with pings":             {connections: 10, do: flood(func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) })},
		"flood with settings":          {connections: 10, do: flood(func(f *http2.Framer) error { return f.WriteSettings() })},
		"flood with empty frames":      {connections: 10, do: flood(func(f *http2.Framer) error { return f.WriteRawFrame(0xbe, 0, 0, nil) })},
		"call and read no response":    {connections: 30, do: readNoResponse},
		"send half a header, to admin": {connections: 100, onAdmin: true, do: sendBytes("GET /metrics HTTP/1.1\r\nHost: x\r\nX-Half: ")},
	}
}

// hostileConnection is a connection with an encoder of frames and headers.
type hostileConnection struct {
	net.Conn
	*http2.Framer

	compressed bytes.Buffer
	encoder    *hpack.Encoder
}

func newHostileConnection(c net.Conn) *hostileConnection {
	hostile := &hostileConnection{Conn: c, Framer: http2.NewFramer(c, c)}
	hostile.AllowIllegalWrites = true
	hostile.encoder = hpack.NewEncoder(&hostile.compressed)
	return hostile
}

// greet starts HTTP/2 as a client, and discards the frames of the server.
func (c *hostileConnection) greet(settings ...http2.Setting) error {
	go func() { _, _ = io.Copy(io.Discard, c.Conn) }()
	return c.greetAndReadNothing(settings...)
}

// greetAndReadNothing starts HTTP/2 as a client without reading the frames of the server.
func (c *hostileConnection) greetAndReadNothing(settings ...http2.Setting) error {
	if _, err := io.WriteString(c.Conn, http2.ClientPreface); err != nil {
		return err
	}
	return c.WriteSettings(settings...)
}

// call opens a stream with the headers of an Allocate call and no deadline.
func (c *hostileConnection) call(stream uint32, more ...hpack.HeaderField) error {
	c.compressed.Reset()
	for _, field := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "x"},
		{Name: ":path", Value: elastallocv1.AllocatorService_Allocate_FullMethodName},
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	}, more...) {
		if err := c.encoder.WriteField(field); err != nil {
			return err
		}
	}
	return c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.compressed.Bytes(), EndHeaders: true})
}

// lengthPrefix returns the prefix of a gRPC message of the given length.
func lengthPrefix(compressed byte, length uint32) []byte {
	return []byte{compressed, byte(length >> 24), byte(length >> 16), byte(length >> 8), byte(length)}
}

func sendBytes(text string) func(context.Context, *hostileConnection) error {
	return func(_ context.Context, c *hostileConnection) error {
		_, err := io.WriteString(c.Conn, text)
		return err
	}
}

// callAndSend opens calls, sends the given bytes in each and does not close them.
func callAndSend(calls int, data []byte) func(context.Context, *hostileConnection) error {
	return func(_ context.Context, c *hostileConnection) error {
		if err := c.greet(); err != nil {
			return err
		}
		for i := range calls {
			stream := uint32(2*i + 1)
			if err := c.call(stream); err != nil {
				return err
			}
			if err := c.WriteData(stream, false, data); err != nil {
				return err
			}
		}
		return nil
	}
}

// sendSlowly sends a message of 1,000 bytes, one byte per second.
func sendSlowly(ctx context.Context, c *hostileConnection) error {
	if err := callAndSend(1, lengthPrefix(0, 1000))(ctx, c); err != nil {
		return err
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := c.WriteData(1, false, []byte{0}); err != nil {
				return err
			}
		}
	}
}

// sendGzipBomb sends a message whose decompressed size is a thousand times larger.
func sendGzipBomb(_ context.Context, c *hostileConnection) error {
	var bomb bytes.Buffer
	writer := gzip.NewWriter(&bomb)
	for range 30 {
		if _, err := writer.Write(make([]byte, 1<<20)); err != nil {
			return err
		}
	}
	if err := writer.Close(); err != nil {
		return err
	}
	if err := c.greet(); err != nil {
		return err
	}
	if err := c.call(1, hpack.HeaderField{Name: "grpc-encoding", Value: "gzip"}); err != nil {
		return err
	}
	message := append(lengthPrefix(1, uint32(bomb.Len())), bomb.Bytes()...)
	for len(message) > 0 {
		part := message[:min(16<<10, len(message))]
		message = message[len(part):]
		if err := c.WriteData(1, len(message) == 0, part); err != nil {
			return err
		}
	}
	return nil
}

// sendEndlessHeaders sends 4 MB of headers of one call without END_HEADERS.
func sendEndlessHeaders(_ context.Context, c *hostileConnection) error {
	if err := c.greet(); err != nil {
		return err
	}
	c.compressed.Reset()
	for i := range 4 {
		name := "x-" + strings.Repeat(string(rune('a'+i)), 10)
		if err := c.encoder.WriteField(hpack.HeaderField{Name: name, Value: strings.Repeat("v", 1<<20), Sensitive: true}); err != nil {
			return err
		}
	}
	block := c.compressed.Bytes()
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:16<<10]}); err != nil {
		return err
	}
	for block = block[16<<10:]; len(block) > 16<<10; block = block[16<<10:] {
		if err := c.WriteContinuation(1, false, block[:16<<10]); err != nil {
			return err
		}
	}
	return nil
}

// resetRapidly opens calls and resets each immediately.
func resetRapidly(_ context.Context, c *hostileConnection) error {
	if err := c.greetAndReadNothing(); err != nil {
		return err
	}
	for i := range uint32(3000) {
		if err := c.call(2*i + 1); err != nil {
			return err
		}
		if err := c.WriteRSTStream(2*i+1, http2.ErrCodeCancel); err != nil {
			return err
		}
	}
	return nil
}

// flood continuously sends a frame to which the server may have to respond, and reads no responses.
func flood(write func(*http2.Framer) error) func(context.Context, *hostileConnection) error {
	return func(_ context.Context, c *hostileConnection) error {
		if err := c.greetAndReadNothing(); err != nil {
			return err
		}
		for range 10_000 {
			if err := write(c.Framer); err != nil {
				return err
			}
		}
		return nil
	}
}

// readNoResponse makes valid calls with a window of zero bytes for responses.
func readNoResponse(_ context.Context, c *hostileConnection) error {
	request, err := proto.Marshal(randomRequest(20, 30, 1))
	if err != nil {
		return err
	}
	if err := c.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		return err
	}
	for i := range 5 {
		stream := uint32(2*i + 1)
		if err := c.call(stream); err != nil {
			return err
		}
		if err := c.WriteData(stream, true, append(lengthPrefix(0, uint32(len(request))), request...)); err != nil {
			return err
		}
	}
	return nil
}
