package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	grpcprometheus "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/recording"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server/internal/guard"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
	"github.com/elastalloc/elastalloc/server/internal/status"
)

// Server is a server with open listeners.
type Server struct {
	config                  Config
	listener, adminListener net.Listener
	grpc                    *grpc.Server
	admin                   *http.Server
	health                  *healthServer
	ingress                 *ingress.Ingress
	methods                 map[string]ingress.Method
	bugs                    *bugReports
	audits                  *auditor // nil if responses are not audited
	ready                   atomic.Bool
}

// Complete checks the configuration, builds the server and opens its listeners. The error names all invalid
// fields. If Complete fails, no listener is open.
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
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	s := &Server{config: c, health: newHealthServer(), methods: methods(c.Allocator.MaxJobs())}
	if err := s.build(); err != nil {
		return nil, err
	}
	s.setReady(false)
	var err error
	if s.listener, s.adminListener, err = c.listen(); err != nil {
		s.grpc.Stop() // It has started workers.
		return nil, err
	}
	return s, nil
}

// build builds the two servers and their shared parts.
func (s *Server) build() error {
	c := &s.config
	page, err := status.New(status.Config{
		Version: c.Version, Backends: c.Backends, Address: s.Addr, Ready: s.ready.Load,
		Load: func() ingress.Load { return s.ingress.Load() }, Explain: s.insight,
	})
	if err != nil {
		return err
	}
	if s.bugs, err = newBugReports(c.DefectDir, c.Logger, c.Registry); err != nil {
		return err
	}
	observers := []ingress.Observer{
		newMetrics(c.Registry, c.Version, c.Backends), newNamedMetrics(c.Registry, c.MetricsGroups, c.MetricsNodeTypes),
		page, spanObserver{}, logObserver{limitLines(c.Logger, 100, 500)}, s.bugs,
	}
	audits := counters(c.Registry, "elastalloc_audits_total",
		"Responses sampled by --audit-share, by verdict. Refuted is a bug of the program. Skipped: there was no idle slot.",
		"verdict", AuditConfirmed, AuditRefuted, AuditOpen, auditSkipped)
	if c.Audit != nil && c.AuditShare > 0 {
		s.audits = &auditor{
			check: c.Audit, share: c.AuditShare, budget: c.MaxBudget, bugs: s.bugs, logger: c.Logger, audits: audits,
			idleSlot: func(ctx context.Context, worker string, bytes int) (ingress.Slot, func(), bool) {
				return s.ingress.IdleSlot(ctx, worker, bytes)
			},
			estimate: func(size guard.Size) (int, error) { return s.methods["Allocate"].Memory.Bytes(size, int(c.MaxMemory)) },
			waiting:  make(chan pendingAudit, maxAudits),
		}
		observers = append(observers, s.audits)
	}
	if c.Recorder != nil {
		observers = append(observers, recordObserver{c.Recorder})
		if err := recording.Register(c.Registry, c.Recorder.Stats); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	s.ingress = ingress.New(ingress.Config{
		MaxInflight: c.MaxInflight, MaxQueue: c.MaxQueue, MaxSlotTime: c.MaxBudget,
		MaxMemory:    int(c.MaxMemory),
		MaxReceiving: c.maxReceiving, ReceiveTimeout: c.receiveTimeout, ReadTimeout: readTimeout,
		Observers: observers,
	})
	registerLoad(c.Registry, s.ingress.Load)
	security := insecure.NewCredentials()
	if c.TLSCert != "" {
		certificates, err := newCertificates(c)
		if err != nil {
			return err
		}
		promauto.With(c.Registry).NewGaugeFunc(prometheus.GaugeOpts{
			Name: "elastalloc_certificate_expiration_timestamp_seconds",
			Help: "Expiration time of the TLS certificate in use, in seconds since 1970.",
		}, func() float64 { return float64(certificates.expiry().Unix()) })
		security = certificates.credentials()
		if c.ClientCA != "" && len(c.ClientNames) == 0 {
			c.Logger.Info("any certificate of the client CA may call; set client names to restrict them")
		}
	}
	calls := grpcprometheus.NewServerMetrics(grpcprometheus.WithServerHandlingTimeHistogram(grpcprometheus.WithHistogramBuckets(latencies())))
	c.Registry.MustRegister(calls)
	options := slices.Concat(interceptors(calls, c.Logger), c.tracingOptions(), guard.Options(c.messageBytes()))
	s.grpc = grpc.NewServer(append(options,
		grpc.Creds(s.ingress.Receiver().Credentials(watchHandshakes(security, c.Registry, c.Logger))),
		// Workers keep their stacks. A new goroutine per call would have to grow its stack again.
		grpc.NumStreamWorkers(uint32(runtime.GOMAXPROCS(0))),
		// Connections are closed after some minutes, so that clients also connect to new servers.
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: 5 * time.Minute, MaxConnectionAgeGrace: 30 * time.Second,
			Time: time.Minute, Timeout: 20 * time.Second,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)...)
	service := &allocatorService{InProcess: apiconv.InProcess{Allocator: c.Allocator}, maxBudget: c.MaxBudget, audits: s.audits}
	s.grpc.RegisterService(s.ingress.Service(&elastallocv1.AllocatorService_ServiceDesc, s.methods), service)
	others := limitedServer{s.grpc, s.ingress.Receiver()}
	grpc_health_v1.RegisterHealthServer(others, s.health)
	if !c.NoReflection {
		reflection.RegisterV1(others)
	}
	calls.InitializeMetrics(s.grpc)
	s.admin = c.newAdmin(page, s.ready.Load)
	return nil
}

// limitedServer registers services of gRPC, with limits for their requests.
type limitedServer struct {
	*grpc.Server
	receiver *guard.Receiver
}

// RegisterService registers a service.
func (l limitedServer) RegisterService(service *grpc.ServiceDesc, implementation any) {
	l.Server.RegisterService(l.receiver.Limit(service), implementation)
}

// Addr returns the gRPC address in the form for clients: host:port or unix:///path.
func (s *Server) Addr() net.Addr {
	if address := s.listener.Addr(); address.Network() == "unix" {
		return unixTarget{address}
	}
	return s.listener.Addr()
}

// AdminAddr returns the address of admin HTTP.
func (s *Server) AdminAddr() net.Addr { return s.adminListener.Addr() }

// Run serves until ctx is done, then drains and returns nil. To drain, the server becomes not ready, waits for
// DrainDelay and rejects new calls. Calls in flight have DrainTimeout to complete before they are aborted. If a
// listener fails, Run drains and returns its error. Run must be called at most once.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	errs := make(chan error, 2)
	serve := func(name string, serve func(net.Listener) error, listener net.Listener) {
		defer cancel()
		err := serve(listener)
		if errors.Is(err, grpc.ErrServerStopped) || errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		if err != nil {
			err = fmt.Errorf("serve %s on %v: %w", name, listener.Addr(), err)
		}
		errs <- err
	}
	go serve("gRPC", s.grpc.Serve, s.listener)
	go serve("admin HTTP", s.admin.Serve, s.adminListener)
	s.setReady(true)
	s.config.Logger.Info("serving", "address", s.Addr().String(), "admin_address", s.AdminAddr().String())
	if s.config.Ready != nil {
		s.config.Ready(true)
	}

	var background sync.WaitGroup
	if s.audits != nil {
		background.Go(func() { s.audits.run(ctx) })
	}
	<-ctx.Done()
	s.drain()
	background.Wait()
	s.bugs.writing.Wait()
	return errors.Join(<-errs, <-errs)
}

// setReady sets the status of health and /readyz.
func (s *Server) setReady(ready bool) {
	serving := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if ready {
		serving = grpc_health_v1.HealthCheckResponse_SERVING
	}
	s.ready.Store(ready)
	s.health.SetServingStatus("", serving)
	s.health.SetServingStatus(elastallocv1.AllocatorService_ServiceDesc.ServiceName, serving)
}

// drain drains the server as described at Run. It stops admin HTTP last, so that probes and the metrics of the
// last calls are served.
func (s *Server) drain() {
	logger, timeout := s.config.Logger, s.config.DrainTimeout
	logger.Info("draining", "delay_seconds", s.config.DrainDelay.Seconds(), "timeout_seconds", timeout.Seconds())
	s.setReady(false)
	if s.config.Ready != nil {
		s.config.Ready(false)
	}
	time.Sleep(s.config.DrainDelay)
	s.ingress.Drain()
	s.health.drain()

	abort := time.AfterFunc(timeout, func() {
		logger.Warn("calls in flight did not complete in time and are aborted")
		s.grpc.Stop()
	})
	s.grpc.GracefulStop()
	if abort.Stop() {
		logger.Info("drained")
	}

	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := s.admin.Shutdown(ctx); err != nil {
		_ = s.admin.Close()
	}
}
