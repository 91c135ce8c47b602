package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestProfiles checks that profiles are served, and only to callers on the same machine.
func TestProfiles(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/goroutine?debug=1", "/debug/pprof/cmdline"} {
		if code, body := h.get(t, path); code != http.StatusOK || body == "" {
			t.Errorf("%s is %d with %d bytes", path, code, len(body))
		}
	}
	for address, want := range map[string]int{
		"127.0.0.1:5": http.StatusOK, "[::1]:5": http.StatusOK,
		"192.0.2.1:5": http.StatusForbidden, "[2001:db8::1]:5": http.StatusForbidden, "": http.StatusForbidden,
	} {
		request := httptest.NewRequest(http.MethodGet, "/debug/pprof/cmdline", http.NoBody)
		request.RemoteAddr, request.Host = address, "localhost"
		recorder := httptest.NewRecorder()
		h.admin.Handler.ServeHTTP(recorder, request)
		if recorder.Code != want {
			t.Errorf("a caller from %q gets %d; want %d", address, recorder.Code, want)
		}
	}
}

// TestAdminHosts checks that requests to the admin port with a foreign host name are rejected, so that a
// web page cannot read it with DNS rebinding.
func TestAdminHosts(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) { c.AdminHosts = []string{"allocator.example"} })
	for host, want := range map[string]int{
		"localhost:9464": http.StatusOK, "127.0.0.1:9464": http.StatusOK, "[::1]:9464": http.StatusOK, "10.1.2.3": http.StatusOK,
		"elastalloc:9464": http.StatusOK, "allocator.example:9464": http.StatusOK, "Allocator.Example.": http.StatusOK,
		"evil.example:9464": http.StatusForbidden, "localhost.evil.example": http.StatusForbidden,
		"127.0.0.1.evil.example:9464": http.StatusForbidden,
	} {
		for _, path := range []string{"/", "/metrics", "/healthz", "/debug/pprof/cmdline"} {
			request := httptest.NewRequest(http.MethodGet, path, http.NoBody)
			request.RemoteAddr, request.Host = "127.0.0.1:5", host
			recorder := httptest.NewRecorder()
			h.admin.Handler.ServeHTTP(recorder, request)
			if recorder.Code != want {
				t.Errorf("%s of %s is %d; want %d", path, host, recorder.Code, want)
			}
		}
	}
}
