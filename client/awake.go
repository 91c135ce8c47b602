package client

import (
	"sync"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/roundrobin"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// awakeName is the name of the balancing policy in the service configuration.
const awakeName = "elastalloc_awake"

// silenceTime is how long a silent server is passed over before it is tried again. After
// twice as long keepalive has found out that its connection is dead.
const silenceTime = 10 * time.Second

func init() { balancer.Register(awakeBuilder{}) } //nolint:gochecknoinits // gRPC takes policies at no other time.

// awakeBuilder makes the policy round_robin pass over servers that have let an attempt
// time out without a byte: they hang, and nothing else tells so for many seconds. gRPC's
// own outlier detection comes with xDS only.
type awakeBuilder struct{}

// Name returns the name of the policy.
func (awakeBuilder) Name() string { return awakeName }

// Build returns a balancer of one client.
func (awakeBuilder) Build(cc balancer.ClientConn, options balancer.BuildOptions) balancer.Balancer {
	return balancer.Get(roundrobin.Name).Build(&awakeConn{ClientConn: cc, silent: new(silentServers)}, options)
}

// awakeConn wraps the pickers of round_robin.
type awakeConn struct {
	balancer.ClientConn
	silent *silentServers
}

// UpdateState hands a picker on.
func (c *awakeConn) UpdateState(state balancer.State) {
	if state.ConnectivityState == connectivity.Ready {
		state.Picker = awakePicker{state.Picker, c.silent}
	}
	c.ClientConn.UpdateState(state)
}

// awakePicker picks a server for an attempt, and learns how the attempt ends.
type awakePicker struct {
	next   balancer.Picker
	silent *silentServers
}

// Pick returns the next server that is not silent; where all are, the next.
func (p awakePicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	result, err := p.next.Pick(info)
	// Other calls pick at the same time, so that a turn around may miss one.
	for turns := 2 * p.silent.count(); turns > 0 && err == nil && p.silent.has(result.SubConn); turns-- {
		result, err = p.next.Pick(info)
	}
	if err != nil {
		return result, err
	}
	server, done := result.SubConn, result.Done
	result.Done = func(end balancer.DoneInfo) {
		switch {
		case end.BytesReceived:
			p.silent.until.Delete(server)
		case status.Code(end.Err) == codes.DeadlineExceeded:
			p.silent.add(server)
		}
		if done != nil {
			done(end)
		}
	}
	return result, nil
}

// silentServers are the servers to pass over.
type silentServers struct {
	until sync.Map // time.Time by balancer.SubConn
}

func (s *silentServers) add(server balancer.SubConn) {
	s.until.Range(func(other, _ any) bool {
		if !s.has(other) {
			s.until.Delete(other)
		}
		return true
	})
	s.until.Store(server, time.Now().Add(silenceTime))
}

func (s *silentServers) has(server any) bool {
	until, _ := s.until.Load(server)
	at, _ := until.(time.Time)
	return time.Now().Before(at)
}

func (s *silentServers) count() (n int) {
	s.until.Range(func(any, any) bool { n++; return true })
	return n
}
