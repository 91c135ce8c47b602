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

const (
	// awakeName is the name of the balancing policy in the service configuration.
	awakeName = "elastalloc_awake"

	// silenceTime is the time for which a silent server is skipped. Keepalive detects a dead
	// connection within twice that.
	silenceTime = 10 * time.Second

	// maxSkips is the number of picks of silent servers after which the next server is taken.
	maxSkips = 8
)

func init() { balancer.Register(awakeBuilder{}) } //nolint:gochecknoinits // gRPC takes policies at no other time.

// awakeBuilder builds balancers that are round_robin without the servers that let an attempt
// time out without sending a byte. Otherwise concurrent calls would send the second attempt to
// the server that hangs as well (TestHangingServer). The outlier detection of gRPC for Go
// is internal to its xDS packages, and counts refused requests as failures of the server.
type awakeBuilder struct{}

// Name returns the name of the policy.
func (awakeBuilder) Name() string { return awakeName }

// Build returns a balancer of one client.
func (awakeBuilder) Build(cc balancer.ClientConn, options balancer.BuildOptions) balancer.Balancer {
	return balancer.Get(roundrobin.Name).Build(&awakeConn{ClientConn: cc}, options)
}

// awakeConn wraps the pickers of round_robin.
type awakeConn struct {
	balancer.ClientConn
	silentUntil sync.Map // time.Time by balancer.SubConn, only of servers that are skipped now
}

// UpdateState passes a state on.
func (c *awakeConn) UpdateState(state balancer.State) {
	if state.ConnectivityState == connectivity.Ready {
		state.Picker = awakePicker{state.Picker, c}
	}
	c.ClientConn.UpdateState(state)
}

// awakePicker picks a server for an attempt, and records whether the server was silent.
type awakePicker struct {
	next balancer.Picker
	conn *awakeConn
}

// Pick returns the next server that is not silent or, if there is none, the next server.
func (p awakePicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	result, err := p.next.Pick(info)
	for skips := 0; skips < maxSkips && err == nil && p.conn.isSilent(result.SubConn); skips++ {
		result, err = p.next.Pick(info)
	}
	server, done := result.SubConn, result.Done
	result.Done = func(end balancer.DoneInfo) {
		if !end.BytesReceived && status.Code(end.Err) == codes.DeadlineExceeded {
			p.conn.skip(server)
		}
		if done != nil {
			done(end)
		}
	}
	return result, err
}

// skip skips a server for silenceTime. Then it forgets the server, which may not exist any more.
func (c *awakeConn) skip(server balancer.SubConn) {
	until := time.Now().Add(silenceTime)
	c.silentUntil.Store(server, until)
	time.AfterFunc(silenceTime, func() { c.silentUntil.CompareAndDelete(server, until) })
}

// isSilent reports whether a server is skipped now.
func (c *awakeConn) isSilent(server balancer.SubConn) bool {
	_, silent := c.silentUntil.Load(server)
	return silent
}
