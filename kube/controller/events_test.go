package controller_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/world"
)

func TestPinnedJobsAreToldWhy(t *testing.T) {
	t.Parallel()
	jobs := append(busy(), worldtest.Job("bad", 0, map[string]string{"work": "soon", "weight": "x"}),
		worldtest.Job("unknown", 0, map[string]string{"nodes": "1"}))
	c := newCluster(t, 9, jobs...)
	c.passes(20)
	c.want(map[string]int{"long": 4, "short": 4, "bad": 0, "unknown": 1})
	posted := c.events()
	if strings.Count(posted, "Warning BadAnnotations") != 1 || strings.Count(posted, "Warning NoRemainingTime") != 1 ||
		!strings.Contains(posted, "elastalloc.dev/work") || !strings.Contains(posted, "elastalloc.dev/weight") {
		t.Errorf("events are %s", posted)
	}
	pinned := "elastalloc_controller_pinned"
	if n := testutil.CollectAndCount(c.registry, pinned); n != len(world.Reasons()) {
		t.Errorf("%d series of %s; want one for each reason", n, pinned)
	}
}

// TestLongEvents: an API server takes notes of up to 1024 bytes of UTF-8.
func TestLongEvents(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", "x", "xx"} {
		c := newCluster(t, 1, worldtest.Job("bad", 0, map[string]string{"work": before + strings.Repeat("日", 1000)}))
		c.passes(1)
		note, _ := strings.CutPrefix(c.events(), "Warning BadAnnotations ")
		if !utf8.ValidString(note) || len(note) > 1024 || len(note) < 1000 || !strings.HasSuffix(note, "...") {
			t.Errorf("event of %d bytes: %q", len(note), note)
		}
	}
}

// TestQueuedEvents checks that a job that waits gets one event with the reason.
func TestQueuedEvents(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, worldtest.Job("first", 0, map[string]string{"work": "10h", "nodes": "8"}),
		worldtest.Job("waits", 0, map[string]string{"work": "100h", "nodes": "8"}))
	c.step = time.Minute
	c.passes(15)
	if posted := c.events(); strings.Count(posted, "Normal Queued Job/default/") != 1 {
		t.Errorf("events are %s", posted)
	}
}
