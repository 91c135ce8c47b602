package checks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// TestLoadedServer runs a server with the flags of the manifests, loads it, has a real
// Prometheus scrape it with the configuration and the rules of deploy, and checks that
// every query of the dashboard and of the rules returns data.
func TestLoadedServer(t *testing.T) {
	prometheus := program(t, "prometheus")
	container := decode(t, readFile(t, "deploy", "kubernetes", "elastalloc.yaml")).deployments[0].Spec.Template.Spec.Containers[0]
	path := buildServer(t)
	// One decision at a time, so that other calls get no slot. CBC is missing. The values of several flags --backends
	// are combined.
	address, adminAddress := startServer(t, path, append(container.Args,
		"--max-inflight=1", "--max-queue=0", "--backends=cbc", "--cbc="+filepath.Join(t.TempDir(), "missing"),
		"--metrics-groups=research,vision,language,ads", "--record="+t.TempDir())...)
	checkHealth(t, address, container.ReadinessProbe.GRPC.Service, container.LivenessProbe.GRPC.Service)
	load(t, path, address)

	api := startPrometheus(t, prometheus, adminAddress)
	eventually(t, "the server is scraped", func() error { return api.targetsUp(t.Context()) })
	for _, q := range append(dashboardQueries(t), ruleQueries(t)...) {
		if strings.Contains(q.expr, "elastalloc_certificate_") {
			continue // A server that speaks plain text has none.
		}
		eventually(t, q.where+" has data: "+q.expr, func() error { return api.hasData(t.Context(), q.expr) })
	}
	eventually(t, "every rule evaluates", func() error { return api.rulesHealthy(t.Context(), len(alerts(t))) })

	// CBC is missing, the server is available, and calls without a slot are decided by greedy or, if there is no room
	// for that either, rejected.
	eventually(t, "the alert of a missing backend fires", func() error { return api.hasData(t.Context(), firing("ElastallocBackendDown")) })
	eventually(t, "an alert of load fires", func() error {
		return api.hasData(t.Context(), firing("ElastallocGreedyForLoad|ElastallocShedding"))
	})
	for _, name := range []string{"ElastallocAbsent", "ElastallocInstanceDown", "ElastallocRestarting", "ElastallocRequestsFailing"} {
		// A busy machine may miss a scrape.
		eventually(t, name+" is quiet", func() error {
			if err := api.hasData(t.Context(), firing(name)); !errors.Is(err, errNoData) {
				return fmt.Errorf("it fires: %v", err)
			}
			return nil
		})
	}
}

// TestComposeFlags checks that the server takes the flags of the compose file.
func TestComposeFlags(t *testing.T) {
	for name, service := range composeProject(t).Services {
		if name == "elastalloc" {
			startServer(t, buildServer(t), service.Command...)
		}
	}
}

func firing(alert string) string {
	return fmt.Sprintf(`ALERTS{alertname=~%q,alertstate="firing"}`, alert)
}

// checkHealth sends the health checks of the probes of the manifests.
func checkHealth(t *testing.T, address string, services ...*string) {
	t.Helper()
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	for _, service := range services {
		request := new(grpc_health_v1.HealthCheckRequest)
		if service != nil {
			request.Service = *service
		}
		health, err := grpc_health_v1.NewHealthClient(connection).Check(t.Context(), request, grpc.WaitForReady(true))
		if err != nil || health.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("health of %q is %v, %v; want SERVING", request.GetService(), health, err)
		}
	}
}

// patience is the maximum time for which a test waits. Even on a busy machine, only a program that hangs takes that long.
const patience = 5 * time.Minute

// eventually checks a condition until it is met, and fails the test if it is not met within patience.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-timeout.C:
			t.Errorf("not within %v: %s: %v", patience, what, err)
			return
		}
	}
}

// startPrometheus starts Prometheus on the configuration of deploy, with the server in
// place of the compose file's, a pace of a second and alerts that do not wait.
func startPrometheus(t *testing.T, path, target string) api {
	t.Helper()
	folder := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace := func(content, pattern, replacement string) string {
		if !regexp.MustCompile(pattern).MatchString(content) {
			t.Fatalf("%s is not in\n%s", pattern, content)
		}
		return regexp.MustCompile(pattern).ReplaceAllString(content, replacement)
	}
	config := string(readFile(t, "deploy", "prometheus", "prometheus.yml"))
	config = replace(config, `elastalloc:9464`, target)
	config = replace(config, `_interval: \d+s`, "_interval: 1s")
	write("prometheus.yml", config)
	write(rulesFile, replace(string(readFile(t, "deploy", "helm", "elastalloc", "files", rulesFile)), `for: \d+m`, "for: 0s"))

	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		t.Fatal(err)
	}
	prometheus := exec.Command(path, "--config.file="+filepath.Join(folder, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address=127.0.0.1:0")
	prometheus.Stdout, prometheus.Stderr = log, log
	if err := prometheus.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = prometheus.Process.Signal(syscall.SIGTERM)
		err := prometheus.Wait()
		log.Close()
		if t.Failed() || err != nil {
			output, _ := os.ReadFile(log.Name())
			t.Logf("Prometheus exited with %v; its log is\n%s", err, output)
		}
	})
	var address string
	eventually(t, "Prometheus listens", func() error {
		output, err := os.ReadFile(log.Name())
		if err != nil {
			return err
		}
		found := regexp.MustCompile(`msg="Listening on".* address=(\S+)`).FindSubmatch(output)
		if found == nil {
			return errors.New("its log has no address")
		}
		address = string(found[1])
		return nil
	})
	return api{"http://" + address + "/api/v1/"}
}

// api is that of a Prometheus.
type api struct{ url string }

// get decodes the data of a response.
func (a api) get(ctx context.Context, path string, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return nil
}

var errNoData = errors.New("no data")

// hasData returns nil if a query returns a finite number.
func (a api) hasData(ctx context.Context, expr string) error {
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	if err := a.get(ctx, "query?query="+url.QueryEscape(expr), &data); err != nil {
		return err
	}
	for _, series := range data.Result {
		text, _ := series.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if err == nil && !math.IsNaN(value) && !math.IsInf(value, 0) {
			return nil
		}
	}
	return fmt.Errorf("%w: %v", errNoData, data.Result)
}

// targetsUp returns nil if everything is scraped without error.
func (a api) targetsUp(ctx context.Context) error {
	var data struct {
		ActiveTargets []struct{ Health, LastError string }
	}
	if err := a.get(ctx, "targets", &data); err != nil {
		return err
	}
	if len(data.ActiveTargets) != 1 || data.ActiveTargets[0].Health != "up" {
		return fmt.Errorf("the targets are %+v", data.ActiveTargets)
	}
	return nil
}

// rulesHealthy returns nil if every rule was evaluated without error or warning.
func (a api) rulesHealthy(ctx context.Context, alerts int) error {
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Type, Health, LastError string }
		}
	}
	if err := a.get(ctx, "rules", &data); err != nil {
		return err
	}
	var bad []string
	for _, group := range data.Groups {
		for _, rule := range group.Rules {
			if rule.Health != "ok" {
				bad = append(bad, rule.Name+" "+rule.Health+" "+rule.LastError)
			}
			if rule.Type == "alerting" {
				alerts--
			}
		}
	}
	if len(bad) > 0 || alerts != 0 {
		slices.Sort(bad)
		return fmt.Errorf("%d alerts missing, not evaluated: %s", alerts, strings.Join(bad, ", "))
	}
	return nil
}
