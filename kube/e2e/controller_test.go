//go:build linux

package e2e

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
)

// controller says how to run a controller.
type controller struct {
	// pool is the name of the pool and of the value of the label "pool" on its nodes.
	pool string
	// kinds are those of its jobs, Job and JobSet where it is "".
	kinds string
	// account is that of a release; its mode is the release's.
	account string
	// elect says that there are others.
	elect bool
	// cadence, debounce, minInterval and settle are those of the pool: 5s, 500ms, 0s and 2m where they are "".
	cadence, debounce, minInterval, settle string
	// server is the address of the server that decides, "" for none, and prometheus that of
	// the Prometheus with the progress of the jobs.
	server, prometheus string
	// kueue says that Kueue admits jobs.
	kueue bool
	// more are further fields of the pool.
	more string
	// proxy is what it takes for the API server, nil for the API server.
	proxy *httptest.Server
}

var runs sync.Map // the number of controllers that were started, by pool

// start starts a controller. It is killed when the test ends, and its log shown where the
// test failed.
func (c controller) start(t *testing.T) *cluster.Process {
	t.Helper()
	directory := t.TempDir()
	config := filepath.Join(directory, "config.yaml")
	query := c.more
	if c.prometheus != "" {
		query += ", remainingQuery: training_progress_ratio, remainingIn: ratio"
	}
	must(t, os.WriteFile(config, []byte(fmt.Sprintf(`
kinds: [%s]
kueue: %t
prometheus: %q
pools:
  - {name: %s, nodeSelector: {pool: %[4]s}, cadence: %s, debounce: %s, minInterval: %s, settleTimeout: %s, maxShrink: 100%%, nodeGracePeriod: 1s, restart: 0s%s}
`, cmp.Or(c.kinds, "Job, JobSet"), c.kueue, c.prometheus, c.pool, cmp.Or(c.cadence, "5s"), cmp.Or(c.debounce, "500ms"), cmp.Or(c.minInterval, "0s"), cmp.Or(c.settle, "2m"), query)), 0o600))
	token, err := serviceAccountToken(t.Context(), c.account)
	must(t, err)
	kubeconfig := filepath.Join(directory, "kubeconfig")
	if c.proxy == nil {
		must(t, kube.WriteKubeconfig(kubeconfig, token))
	} else {
		authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.proxy.Certificate().Raw})
		must(t, kube.WriteKubeconfigOf(kubeconfig, token, c.proxy.URL, authority))
	}
	mode := "apply"
	if c.account == recommender {
		mode = "recommend"
	}
	count, _ := runs.LoadOrStore(t.Name(), new(int))
	*count.(*int)++
	name := fmt.Sprintf("controller-%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), *count.(*int))
	decides := "--in-process"
	if c.server != "" {
		decides = "--server=" + c.server
	}
	process, err := kube.Run(name, binary, "--config="+config, "--kubeconfig="+kubeconfig, "--mode="+mode, decides,
		"--admin-listen=127.0.0.1:0", "--leader-election-namespace="+namespace, fmt.Sprintf("--leader-elect=%t", c.elect))
	must(t, err)
	t.Cleanup(func() {
		process.Kill()
		if t.Failed() {
			t.Logf("%s:\n%s", name, process.Tail())
		}
	})
	return process
}

// guillotine is a proxy before the API server that kills a controller once the answer to
// its n-th write of a job is there, which it does not see.
type guillotine struct {
	proxy *httptest.Server

	mu     sync.Mutex
	left   int
	victim *cluster.Process
}

func newGuillotine(t *testing.T, pool string, n int) *guillotine {
	t.Helper()
	target, err := url.Parse(kube.URL)
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(kube.Config.CAData)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	proxy.FlushInterval = -1 // Watches.
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
	g := &guillotine{left: n}
	proxy.ModifyResponse = func(response *http.Response) error {
		if response.Request.Method == http.MethodPatch && strings.Contains(response.Request.URL.Path, "/namespaces/"+pool+"/") && !strings.Contains(response.Request.URL.Path, "/events/") {
			g.count()
		}
		return nil
	}
	g.proxy = httptest.NewUnstartedServer(proxy)
	g.proxy.EnableHTTP2 = true
	g.proxy.StartTLS()
	t.Cleanup(func() {
		g.proxy.CloseClientConnections()
		g.proxy.Close()
	})
	return g
}

// count counts a write. None comes through while the controller is being killed.
func (g *guillotine) count() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left--; g.left == 0 {
		g.victim.Kill()
	}
}

// fell reports whether it has killed.
func (g *guillotine) fell() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.left <= 0
}

// start starts a controller behind the proxy.
func (g *guillotine) start(t *testing.T, c controller) *cluster.Process {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	c.proxy = g.proxy
	g.victim = c.start(t)
	return g.victim
}

// sleep waits, unless the test ends before.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
