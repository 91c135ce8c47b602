package server

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// newAdmin returns the admin HTTP server. It serves the status page at /, /metrics, /healthz (the process is
// alive), /readyz (the server accepts calls) and, for clients on this machine, /debug/pprof/. It rejects
// requests for host names of other servers.
func (c *Config) newAdmin(status http.Handler, ready func() bool) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", status)
	mux.Handle("GET /metrics", promhttp.HandlerFor(c.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ready\n")
	})
	for name, profile := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.Handle("GET /debug/pprof/"+name, onlyLoopback(profile))
	}
	return &http.Server{
		Handler:           c.onlyOwnHosts(mux),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(c.Logger.Handler(), slog.LevelWarn),
	}
}

// onlyOwnHosts rejects requests for host names of other servers, against DNS rebinding: a web page can let a
// name of its own, which has a dot, resolve to the address of this server.
func (c *Config) onlyOwnHosts(handler http.Handler) http.Handler {
	own, _, _ := net.SplitHostPort(c.AdminListen)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
		if strings.Contains(host, ".") && net.ParseIP(host) == nil && host != own && !slices.Contains(c.AdminHosts, host) {
			http.Error(w, "host: is not a name of this server; must be an address, a name without a dot or one of --admin-hosts",
				http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// onlyLoopback rejects clients on other machines, because profiles expose memory and cost time. Operators
// can forward the port (kubectl port-forward, ssh -L).
func onlyLoopback(handler http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			http.Error(w, "profiles are served only to clients on this machine; forward the admin port", http.StatusForbidden)
			return
		}
		handler(w, r)
	})
}
