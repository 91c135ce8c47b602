// Package prometheustest runs a real Prometheus for tests.
package prometheustest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/syncbuffer"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

// listening is what Prometheus says once it listens, with the address.
var listening = regexp.MustCompile(`msg="Listening on".* address=(\S+)`)

// Start starts a Prometheus that scrapes what metrics returns, in its text format, as a
// job twice a second, evaluates rules as often, and looks back an hour for the last value of a
// series. It returns its address and what stops it, which the end of the test does at the latest.
// Where Prometheus is missing the test is skipped, and in CI it fails.
func Start(t *testing.T, job, rules string, metrics func() string) (address string, stop func()) {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		path, err = exec.LookPath("../../.tools/bin/prometheus")
	}
	ci := os.Getenv("CI") //nolint:forbidigo // Whether tests may be skipped is not an input of the program.
	switch {
	case err != nil && ci == "":
		t.Skip("prometheus is missing; `make prometheus` installs it")
	case err != nil:
		t.Fatal(err)
	}
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = fmt.Fprint(w, metrics())
	}))
	t.Cleanup(target.Close)
	folder := t.TempDir()
	configuration := filepath.Join(folder, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\nrule_files: [rules.yml]\n"+
		"scrape_configs: [{job_name: %q, static_configs: [{targets: [%q]}]}]", job, target.Listener.Addr())
	for path, content := range map[string]string{configuration: text, filepath.Join(folder, "rules.yml"): rules} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log syncbuffer.Buffer
	//nolint:noctx // stop ends it.
	server := exec.Command(path, "--config.file="+configuration, "--storage.tsdb.path="+filepath.Join(folder, "data"),
		"--web.listen-address=127.0.0.1:0", "--query.lookback-delta=1h")
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = server.Process.Kill()
			_ = server.Wait()
		}
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("Prometheus said\n%s", log.String())
		}
	})
	wait.Until(t, "Prometheus listens", func() bool {
		found := listening.FindStringSubmatch(log.String())
		if found != nil {
			address = "http://" + found[1]
		}
		return found != nil
	})
	return address, stop
}
