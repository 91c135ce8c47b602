package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

const (
	// maxStreams is the most calls open at once over one connection; a client with more
	// waits or opens another.
	maxStreams = 256

	// handshakeTimeout is how long a new connection may take to say what it is. gRPC's
	// own 2 minutes are too long: it does not begin to drain before every connection
	// has done so, or has been given up.
	handshakeTimeout = 5 * time.Second

	// maxHeaderBytes is the most metadata that a call may bring. Up to gRPC's own 16 MB
	// would be kept for a call that has not even begun.
	maxHeaderBytes = 64 << 10
)

// Server serves Allocate, health and reflection over gRPC, and metrics, liveness
// and readiness over admin HTTP. Its listeners are open from the start.
type Server struct {
	config                  Config
	listener, adminListener net.Listener
	grpc                    *grpc.Server
	admin                   *http.Server
	health                  *health.Server
	admission               *admission
	arrivals                *arrivals
	ready                   atomic.Bool
	history                 *history
}

// Complete checks the configuration, builds the server and listens. Its error
// names everything that is wrong, and no listener is left open with it.
func (c Config) Complete() (*Server, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("bad server configuration: %w", err)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.TracerProvider != nil {
		c.Logger = slog.New(spanHandler{c.Logger.Handler()})
	}
	security, expiry, err := c.transportSecurity()
	if err != nil {
		return nil, err
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	metrics, err := NewMetrics(c.Registry, c.Version, c.Backends)
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	if expiry != nil {
		if err := metrics.addCertificate(c.Registry, expiry); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	s := &Server{
		config: c, health: health.NewServer(), history: new(history),
		admission: newAdmission(c.MaxInflight, c.MaxQueue), arrivals: &arrivals{limit: c.MaxReceiving},
	}
	if err := registerLoad(c.Registry, s.admission.load); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	options := append(interceptorOptions(metrics, c.Logger, s.admission), c.tracingOptions()...)
	s.grpc = grpc.NewServer(append(options,
		grpc.Creds(security),
		grpc.MaxRecvMsgSize(c.maxMessageBytes()),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		refuseCompression(),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.ForceServerCodecV2(newFrameCodec()),
		// Connections end now and then, so that clients spread over new servers.
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: 5 * time.Minute, MaxConnectionAgeGrace: 30 * time.Second,
			Time: time.Minute, Timeout: 20 * time.Second,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)...)
	requests := &reception{timeout: c.ReceiveTimeout, arrivals: s.arrivals, admission: s.admission}
	s.grpc.RegisterService(requests.service(), NewAllocator(AllocatorConfig{
		Allocator: c.Allocator, Metrics: metrics, Logger: c.Logger, history: s.history,
	}))
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	if !c.NoReflection {
		reflection.RegisterV1(s.grpc)
	}
	metrics.grpc.InitializeMetrics(s.grpc)
	s.setReady(false)

	page, err := newStatusPage(s)
	if err != nil {
		return nil, err
	}
	s.admin = newAdmin(c.Registry, page, s.ready.Load, c.Logger)
	if s.listener, s.adminListener, err = c.listen(); err != nil {
		return nil, err
	}
	return s, nil
}

// Addr returns the address that gRPC listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// AdminAddr returns the address that admin HTTP listens on.
func (s *Server) AdminAddr() net.Addr { return s.adminListener.Addr() }

// Run serves until ctx ends, then drains and returns nil: health and readiness
// say no, DrainDelay passes, new calls are refused, and those in flight have
// DrainTimeout to end before they are cut off. A listener that dies ends
// everything in the same way, and Run returns why. A server runs once.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 2)
	serve := func(name string, serve func(net.Listener) error, listener net.Listener) {
		defer cancel()
		err := serve(listener)
		if err == nil || errors.Is(err, grpc.ErrServerStopped) || errors.Is(err, http.ErrServerClosed) {
			ended <- nil
			return
		}
		ended <- fmt.Errorf("serving %s on %v: %w", name, listener.Addr(), err)
	}
	go serve("gRPC", s.grpc.Serve, s.listener)
	go serve("admin HTTP", s.admin.Serve, s.adminListener)
	s.setReady(true)
	s.config.Logger.Info("serving", "address", s.Addr().String(), "admin_address", s.AdminAddr().String())
	if s.config.Ready != nil {
		s.config.Ready(true)
	}

	<-ctx.Done()
	s.drain()
	return errors.Join(<-ended, <-ended)
}

// setReady makes health and /readyz say whether calls are welcome.
func (s *Server) setReady(ready bool) {
	status := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if ready {
		status = grpc_health_v1.HealthCheckResponse_SERVING
	}
	s.ready.Store(ready)
	s.health.SetServingStatus("", status)
	s.health.SetServingStatus(elastallocv1.AllocatorService_ServiceDesc.ServiceName, status)
}

// drain ends the server as Run says. Admin HTTP is the last to go: until then
// probes are answered and the metrics of the last calls can be scraped.
func (s *Server) drain() {
	logger, timeout := s.config.Logger, s.config.DrainTimeout
	logger.Info("draining", "delay_seconds", s.config.DrainDelay.Seconds(), "timeout_seconds", timeout.Seconds())
	s.setReady(false)
	if s.config.Ready != nil {
		s.config.Ready(false)
	}
	time.Sleep(s.config.DrainDelay)
	s.admission.draining.Store(true)

	drained := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(drained)
	}()
	select {
	case <-drained:
		logger.Info("drained")
	case <-time.After(timeout):
		logger.Warn("calls in flight did not end in time and are cut off")
		s.grpc.Stop()
		<-drained
	}

	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := s.admin.Shutdown(ctx); err != nil {
		_ = s.admin.Close()
	}
}
