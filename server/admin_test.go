package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestProfiles checks that profiles are there, and only for callers on this machine.
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
		request.RemoteAddr = address
		recorder := httptest.NewRecorder()
		h.admin.Handler.ServeHTTP(recorder, request)
		if recorder.Code != want {
			t.Errorf("a caller from %q gets %d; want %d", address, recorder.Code, want)
		}
	}
}
