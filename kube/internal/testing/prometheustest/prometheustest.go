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

// listeningLine matches the log line with the address on which Prometheus listens.
var listeningLine = regexp.MustCompile(`msg="Listening on".* address=(\S+)`)

// Start starts a Prometheus server. Twice per second, it scrapes the result of metrics, in the text
// format, as the given job, and evaluates rules. Its lookback delta is one hour. Start returns the
// address of the server and a function that stops it; the end of the test stops it too. If Prometheus
// is missing, Start skips the test. If the environment variable CI is set, it fails the test.
func Start(t *testing.T, job, rules string, metrics func() string) (address string, stop func()) {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		path, err = exec.LookPath("../../.tools/bin/prometheus")
	}
	ci := os.Getenv("CI") //nolint:forbidigo // It only selects whether the test is skipped.
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
	dir := t.TempDir()
	configuration := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\nrule_files: [rules.yml]\n"+
		"scrape_configs: [{job_name: %q, static_configs: [{targets: [%q]}]}]", job, target.Listener.Addr())
	for path, content := range map[string]string{configuration: text, filepath.Join(dir, "rules.yml"): rules} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log syncbuffer.Buffer
	//nolint:noctx // The function stop kills it.
	server := exec.Command(path, "--config.file="+configuration, "--storage.tsdb.path="+filepath.Join(dir, "data"),
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
			t.Logf("log of Prometheus:\n%s", log.String())
		}
	})
	wait.Until(t, "Prometheus listens", func() bool {
		match := listeningLine.FindStringSubmatch(log.String())
		if match != nil {
			address = "http://" + match[1]
		}
		return match != nil
	})
	return address, stop
}
