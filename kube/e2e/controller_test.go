//go:build linux

package e2e

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/rand/v2"
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

// controller is the configuration of a controller.
type controller struct {
	// pool is the name of the pool and of the value of the label "pool" on its nodes.
	pool string
	// kinds are the kinds of its jobs; "" means Job and JobSet.
	kinds string
	// account is the service account of a release. The mode of the controller is the mode of the release.
	account string
	// elect enables leader election between several controllers.
	elect bool
	// cadence, debounce, minInterval and settle are settings of the pool; "" means 5s, 500ms, 0s and 2m.
	cadence, debounce, minInterval, settle string
	// server is the address of the server that decides; "" means in process. prometheus is the address of a
	// Prometheus with the progress of the jobs.
	server, prometheus string
	// kueue reports that Kueue admits jobs.
	kueue bool
	// more contains further fields of the pool.
	more string
	// proxy is a proxy of the API server; nil means a direct connection.
	proxy *httptest.Server
}

var runs sync.Map // the number of controllers that were started, by pool

// start starts a controller. It is killed at the end of the test, and its log is printed if the test failed.
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
  - {name: %s, nodeSelector: {pool: %[4]s}, cadence: %s, debounce: %s, minInterval: %s,
    settleTimeout: %s, maxShrink: 100%%, nodeGracePeriod: 1s, restart: 0s%s}
`, cmp.Or(c.kinds, "Job, JobSet"), c.kueue, c.prometheus, c.pool, cmp.Or(c.cadence, "5s"), cmp.Or(c.debounce, "500ms"),
		cmp.Or(c.minInterval, "0s"), cmp.Or(c.settle, "2m"), query)), 0o600))
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

// killingProxy is a proxy of the API server that kills a controller when the response to its n-th write of a job
// arrives. The controller does not receive this response.
type killingProxy struct {
	proxy *httptest.Server

	mu     sync.Mutex
	left   int
	victim *cluster.Process
}

func newKillingProxy(t *testing.T, pool string, n int) *killingProxy {
	t.Helper()
	g := &killingProxy{left: n}
	g.proxy = newProxy(t, func(response *http.Response) {
		if response.Request.Method == http.MethodPatch && strings.Contains(response.Request.URL.Path, "/namespaces/"+pool+"/") &&
			!strings.Contains(response.Request.URL.Path, "/events/") {
			g.count()
		}
	})
	return g
}

// newProxy returns a proxy of the API server that calls a function for each response.
func newProxy(t *testing.T, modify func(*http.Response)) *httptest.Server {
	t.Helper()
	target, err := url.Parse(kube.URL)
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(kube.Config.CAData)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	proxy.FlushInterval = -1 // for watches
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
	proxy.ModifyResponse = func(response *http.Response) error {
		modify(response)
		return nil
	}
	server := httptest.NewUnstartedServer(proxy)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

// newLaggingProxy returns a proxy of the API server whose watches lag by up to 2 s, each by another time, as on a busy
// machine.
func newLaggingProxy(t *testing.T) *httptest.Server {
	t.Helper()
	return newProxy(t, func(response *http.Response) {
		if response.Request.URL.Query().Get("watch") != "" {
			response.Body = laggingBody{response.Body}
		}
	})
}

// laggingBody is a body that is read up to 1 s late. A read returns all that arrived during the one before.
type laggingBody struct{ io.ReadCloser }

func (b laggingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	time.Sleep(rand.N(time.Second))
	return n, err
}

// count counts a write. Other writes wait while the controller is being killed.
func (g *killingProxy) count() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left--; g.left == 0 {
		g.victim.Kill()
	}
}

// killed reports whether the controller was killed.
func (g *killingProxy) killed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.left <= 0
}

// start starts a controller behind the proxy.
func (g *killingProxy) start(t *testing.T, c controller) *cluster.Process {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	c.proxy = g.proxy
	g.victim = c.start(t)
	return g.victim
}

// sleep waits for a duration, or until ctx is canceled.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
