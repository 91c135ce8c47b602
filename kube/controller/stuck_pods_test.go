package controller_test

import (
	"strings"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
)

// TestStuck gives a decision up whose pods do not leave, and makes another one.
func TestStuck(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	c.linger = true
	c.passes(40)
	c.want(map[string]int{"long": 4, "short": 0})
	if posted := c.events(); !strings.Contains(posted, "Warning Stuck gave up start with 4 nodes") {
		t.Errorf("events are %s", posted)
	}
	c.linger, c.step = false, 30*time.Second
	c.passes(20)
	c.want(map[string]int{"long": 4, "short": 4})
}

// TestPodsOutliveTheirJob checks that the nodes of a completed job are not allocated before its pods have
// terminated, however long that takes.
func TestPodsOutliveTheirJob(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	c.linger, c.pool.SettleTimeout = true, time.Second
	c.end("long")
	c.start()
	for began := c.now; c.now.Sub(began) < 10*time.Minute; {
		c.passes(1)
	}
	c.want(map[string]int{"short": 0})
	if n := c.count("stuck_total", ""); n != 0 {
		t.Errorf("%v decisions were given up; want none", n)
	}
	c.linger = false
	c.kubelet()
	for began := c.now; c.now.Sub(began) < time.Minute; {
		c.passes(1)
	}
	c.want(map[string]int{"short": 4})
}

// TestPodsThatStay checks that a job whose pods do not terminate is resized once, and not again until they have,
// whatever the number of decisions.
func TestPodsThatStay(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8,
		worldtest.Job("stays", 8, map[string]string{"work": "100000h", "nodes": "1,2,4,8"}),
		worldtest.Job("b", 0, map[string]string{"work": "1h", "nodes": "1-4"}),
		worldtest.Job("c", 0, map[string]string{"work": "1h", "nodes": "1-4"}),
	)
	c.pool.MinInterval, c.pool.Cadence = 0, 10*time.Second
	c.leaving = true
	c.start()
	first := 0
	for began := c.now; c.now.Sub(began) < 6*time.Minute; {
		c.passes(1)
		n, _ := c.job("stays")
		if n < 8 && first == 0 {
			first = n
		}
		if first > 0 && n != first {
			t.Fatalf("after %v it has %d nodes; want it to be left with %d", c.now.Sub(began), n, first)
		}
	}
	if posted := c.events(); strings.Count(posted, "Warning Stuck keeps its") != 1 {
		t.Errorf("events are %s", posted)
	}
	if n := c.count("stuck_total", ""); n < 1 || n > 3 {
		t.Errorf("stuck %v times; want once, and what was given up", n)
	}
	c.leaving = false
	c.kubelet()
	for began := c.now; c.now.Sub(began) < 5*time.Minute; {
		c.passes(1)
	}
	if b, _ := c.job("b"); b == 0 {
		t.Error("b does not start once the pods have gone")
	}
}
