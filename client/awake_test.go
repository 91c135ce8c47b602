package client

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fakeSubConn is a server.
type fakeSubConn struct{ balancer.SubConn }

// alternating is a picker that alternates between servers.
type alternating struct {
	servers []balancer.SubConn
	picks   int
}

// Pick returns the next server.
func (a *alternating) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	a.picks++
	return balancer.PickResult{SubConn: a.servers[a.picks%len(a.servers)]}, nil
}

// TestSilentServers checks that a silent server is skipped for silenceTime after its last silence, and that it is
// forgotten then, even if no attempt picks it again.
func TestSilentServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent, awake := &fakeSubConn{}, &fakeSubConn{}
		conn := new(awakeConn)
		picker := awakePicker{&alternating{servers: []balancer.SubConn{silent, awake}}, conn}
		check := func(want int) {
			t.Helper()
			seen := map[balancer.SubConn]bool{}
			for range 4 {
				result, err := picker.Pick(balancer.PickInfo{})
				if err != nil {
					t.Fatal(err)
				}
				seen[result.SubConn] = true
			}
			if len(seen) != want {
				t.Errorf("%d servers are picked; want %d", len(seen), want)
			}
		}
		pick := func() balancer.PickResult {
			for {
				if result, _ := picker.Pick(balancer.PickInfo{}); result.SubConn == silent {
					return result
				}
			}
		}
		check(2)
		first, second := pick(), pick()
		timedOut := balancer.DoneInfo{Err: status.Error(codes.DeadlineExceeded, "")}
		first.Done(timedOut)
		check(1)
		time.Sleep(silenceTime / 2)
		second.Done(timedOut)
		time.Sleep(silenceTime * 3 / 4) // after the end of the first silence
		check(1)
		time.Sleep(silenceTime)
		conn.silentUntil.Range(func(server, until any) bool {
			t.Errorf("%v is kept until %v", server, until)
			return true
		})
		check(2)
	})
}
