package controller_test

import (
	"testing"
	"time"
)

// TestIdenticalJobs: of two identical jobs none takes the nodes of the other one again and again. If a
// change were free, whichever has waited longer would be preferred at each decision.
func TestIdenticalJobs(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8)
	c.pool.MinInterval, c.pool.Cadence = 0, time.Minute
	c.start()
	for _, name := range []string{"first", "second"} {
		c.submit(name, map[string]string{"work": "100h", "nodes": "1-8", "doubling-efficiency": "0.9"})
		c.step = 5 * time.Second
		c.passes(6)
	}
	c.step = time.Minute
	c.passUntil(10 * time.Minute)
	before := c.count("changes_total", "")
	c.passUntil(time.Hour)
	if n := c.count("changes_total", "") - before; n > 0 {
		t.Errorf("they are changed %v times within an hour", n)
	}
}
