// Package connectproxy runs an HTTP proxy in tests, as the variable HTTPS_PROXY names one.
package connectproxy

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Proxy is a running proxy. It allows only CONNECT.
type Proxy struct {
	// URL is the address of the proxy.
	URL string

	server string
	mutex  sync.Mutex
	// requests are the targets of the requests since the last call of Requests.
	requests []string
}

// Start starts a proxy that connects every target to the same server, and stops it when the test ends. If server is
// empty, the proxy refuses all targets with the status 403.
func Start(tb testing.TB, server string) *Proxy {
	tb.Helper()
	p := &Proxy{server: server}
	listening := httptest.NewServer(p)
	tb.Cleanup(listening.Close)
	p.URL = listening.URL
	return p
}

// Requests returns the targets of the requests since the last call.
func (p *Proxy) Requests() []string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	requests := p.requests
	p.requests = nil
	return requests
}

// ServeHTTP serves one connection.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mutex.Lock()
	p.requests = append(p.requests, r.Host)
	p.mutex.Unlock()
	hijacker, ok := w.(http.Hijacker)
	if r.Method != http.MethodConnect || p.server == "" || !ok {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer server.Close()
	connection, buffered, err := hijacker.Hijack()
	if err != nil {
		return
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	go func() {
		defer connection.Close()
		_, _ = io.Copy(connection, server)
	}()
	_, _ = io.Copy(server, buffered)
}
