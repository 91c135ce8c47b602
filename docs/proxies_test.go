package docs

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/internal/testing/clitest"
	"github.com/elastalloc/elastalloc/internal/testing/connectproxy"
	"github.com/elastalloc/elastalloc/internal/testing/servertest"
	"github.com/elastalloc/elastalloc/internal/testing/syncbuffer"
	"github.com/elastalloc/elastalloc/internal/testing/testcert"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestProxy starts nginx with the configuration of proxies.md before a real server, and checks that the command of the page
// and a request above nginx's default limit get a decision. Without the lines of the page, the symptoms are those of its table.
func TestProxy(t *testing.T) {
	binary := proxyTools(t)
	server := servertest.Start(t, binary, nil, "--default-budget=1m", "--max-budget=1m")
	silent := silentServer(t)
	certificate := testcert.New(t, t.TempDir(), "proxy.example")
	blocks, command := proxyPage(t)
	config, large := blocks[0], largeRequest(t)

	for _, c := range []struct {
		name, config, server, request string
		code                          codes.Code
		message                       string
	}{
		{"as on the page", config, server.Addr, "examples/busy.json", codes.OK, ""},
		{"large request", config, server.Addr, large, codes.OK, ""},
		{
			"large request, default limit", change(t, config, `client_max_body_size 0;`, ""), server.Addr, large,
			codes.Unknown, "413 (Request Entity Too Large)",
		},
		{
			"no response", change(t, config, `grpc_read_timeout 60s;`, "grpc_read_timeout 100ms;"), silent, "examples/busy.json",
			codes.Unavailable, "504 (Gateway Timeout)",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := startProxy(t, certificate, change(t, c.config, `127\.0\.0\.1:50051`, c.server))
			err := allocateAt(t, address, callerTLS(certificate, nil), c.request)
			if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.message) {
				t.Errorf("the status is %v; want %v with %q", err, c.code, c.message)
			}
			call := command
			for pattern, value := range map[string]string{
				"^elastalloc": binary, `proxy\.example:50443`: address, `ca\.crt`: certificate.CertFile, `examples/busy\.json`: c.request,
			} {
				call = change(t, call, pattern, value)
			}
			shell := exec.CommandContext(t.Context(), "bash", "-c", call)
			shell.Dir = root
			shell.Env = append(os.Environ(), "ELASTALLOC_BUDGET=1m") // On a busy machine, too.
			output, err := shell.CombinedOutput()
			if (err == nil) != (c.code == codes.OK) || strings.Contains(string(output), "decided by") != (c.code == codes.OK) {
				t.Errorf("%s: %v\n%s", call, err, output)
			}
		})
	}
}

// TestProxyCallers checks who is the caller behind nginx and which client certificates are accepted: those that nginx
// verifies if it terminates TLS, and those of --client-ca and --client-names if it passes TLS through.
func TestProxyCallers(t *testing.T) {
	binary := proxyTools(t)
	blocks, _ := proxyPage(t)
	certificate := testcert.New(t, t.TempDir(), "proxy.example")
	listed, other := testcert.New(t, t.TempDir(), "scheduler.example"), testcert.New(t, t.TempDir(), "other.example")
	plain := servertest.Start(t, binary, nil)
	secure := servertest.Start(t, binary, nil, "--tls-cert="+certificate.CertFile, "--tls-key="+certificate.KeyFile,
		"--client-ca="+testcert.Bundle(t, listed, other), "--client-names=scheduler.example")
	const proxyAddress = "127.0.0.9" // Of the connections to the server; callers have 127.0.0.1.
	terminate := change(t, blocks[0], `127\.0\.0\.1:50051; \}`, plain.Addr+"; grpc_bind "+proxyAddress+"; }")
	verify := change(t, blocks[1], `/etc/elastalloc/client-ca\.crt`, listed.CertFile)
	for _, c := range []struct {
		name, config string
		server       *servertest.Server
		identity     *testcert.Identity
		caller       string // Empty if the connection is refused.
	}{
		{"terminated, certificate", terminate, plain, &listed, proxyAddress},
		{"terminated, no certificate", terminate, plain, nil, proxyAddress},
		{"verified, certificate", change(t, terminate, `location`, verify+"location"), plain, &listed, proxyAddress},
		{"verified, other certificate", change(t, terminate, `location`, verify+"location"), plain, &other, ""},
		{"verified, no certificate", change(t, terminate, `location`, verify+"location"), plain, nil, ""},
		{"passed through, listed name", change(t, blocks[2], `127\.0\.0\.1:50051`, secure.Addr), secure, &listed, "scheduler.example"},
		{"passed through, other name", change(t, blocks[2], `127\.0\.0\.1:50051`, secure.Addr), secure, &other, ""},
		{"passed through, no certificate", change(t, blocks[2], `127\.0\.0\.1:50051`, secure.Addr), secure, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(c.server.Logs())
			err := allocateAt(t, startProxy(t, certificate, c.config), callerTLS(certificate, c.identity), "examples/busy.json")
			if (err == nil) != (c.caller != "") {
				t.Errorf("the error is %v; the caller must be %q", err, c.caller)
			}
			log := func() string { return c.server.Logs()[before:] }
			if c.caller == "" {
				if strings.Contains(log(), `"msg":"call"`) {
					t.Errorf("a call of a refused caller in the log:\n%s", log())
				}
				return
			}
			wait.For(t, "the caller is in the log", func() (bool, string) { return strings.Contains(log(), `"caller":"`+c.caller+`"`), log() })
		})
	}
}

// TestProxyConnections checks the rows of proxies.md about connections with the Go client: calls succeed while nginx
// ends health checks and connections.
func TestProxyConnections(t *testing.T) {
	binary := proxyTools(t)
	blocks, _ := proxyPage(t)
	certificate := testcert.New(t, t.TempDir(), "proxy.example")
	server := servertest.Start(t, binary, nil)
	terminate := change(t, blocks[0], `127\.0\.0\.1:50051`, server.Addr)
	for _, c := range []struct {
		name, config string
		calls        bool
	}{
		{"as on the page", terminate, true},
		{"a health check ends after 1 s", change(t, terminate, `grpc_read_timeout 60s`, "grpc_read_timeout 1s"), true},
		{"a connection ends after 5 requests", change(t, terminate, `client_max_body_size`, "keepalive_requests 5; client_max_body_size"), true},
		{"2 streams", change(t, terminate, `client_max_body_size`, "http2_max_concurrent_streams 2; client_max_body_size"), true},
		{"1 stream", change(t, terminate, `client_max_body_size`, "http2_max_concurrent_streams 1; client_max_body_size"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			caller := newCaller(t, startProxy(t, certificate, c.config), client.WithTLS(callerTLS(certificate, nil)))
			if !c.calls {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := caller.FillIdle(ctx, oneJob()); status.Code(err) != codes.DeadlineExceeded {
					t.Errorf("the error is %v; the health check must occupy the stream", err)
				}
				return
			}
			for end, calls := time.Now().Add(2500*time.Millisecond), 0; calls < 50 || time.Now().Before(end); calls++ {
				if _, err := caller.FillIdle(t.Context(), oneJob()); err != nil {
					t.Fatalf("call %d: %v", calls, err)
				}
			}
		})
	}
}

// TestProxyPings checks the rows of proxies.md about pings: pings of the Go client do not close a connection, and nginx
// responds to them itself.
func TestProxyPings(t *testing.T) {
	binary := proxyTools(t)
	blocks, _ := proxyPage(t)
	certificate := testcert.New(t, t.TempDir(), "proxy.example")
	server := servertest.Start(t, binary, nil)
	for name, config := range map[string]string{"no proxy": "", "passed through": change(t, blocks[2], `127\.0\.0\.1:50051`, server.Addr)} {
		t.Run("pings, "+name, func(t *testing.T) {
			t.Parallel()
			address := server.Addr
			if config != "" {
				address = startProxy(t, certificate, config)
			}
			relay := startRelay(t, address)
			caller := newCaller(t, relay.address)
			if _, err := caller.FillIdle(t.Context(), oneJob()); err != nil {
				t.Fatal(err)
			}
			// The server tolerates two early pings.
			wait.For(t, "five pings", func() (bool, string) { return relay.pings.Load() >= 5, fmt.Sprint(relay.pings.Load(), " pings") })
			if connections := relay.connections.Load(); connections != 1 {
				t.Errorf("the client connected %d times; pings must not close the connection", connections)
			}
		})
	}
	t.Run("pings to nginx", func(t *testing.T) {
		terminate := change(t, blocks[0], `127\.0\.0\.1:50051`, server.Addr)
		connection, err := tls.Dial("tcp", startProxy(t, certificate, terminate), &tls.Config{
			RootCAs: certificate.Pool, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		if acknowledged := countPings(t, connection); acknowledged != 20 {
			t.Errorf("nginx acknowledged %d of 20 pings", acknowledged)
		}
	})
	t.Run("pings to the server", func(t *testing.T) { // A proxy that passes this many on loses the connection.
		connection, err := net.Dial("tcp", server.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		if acknowledged := countPings(t, connection); acknowledged == 20 {
			t.Error("the server allows pings at any rate")
		}
	})
}

// TestOutgoingProxy checks which variables of the environment send the program through an HTTP proxy.
func TestOutgoingProxy(t *testing.T) {
	binary := proxyTools(t)
	server := servertest.Start(t, binary, nil, "--default-budget=1m", "--max-budget=1m")
	socket := filepath.Join(t.TempDir(), "s")
	servertest.Start(t, binary, nil, "--listen=unix:"+socket)
	proxy := connectproxy.Start(t, server.Addr)
	refusing := connectproxy.Start(t, "")
	const name = "server.example:50051" // Only the proxy can resolve it.
	for _, c := range []struct {
		name, target string
		environment  []string
		connects     []string // Targets of the CONNECT requests.
		message      string   // Of the error.
	}{
		{"HTTPS_PROXY", name, []string{"HTTPS_PROXY=" + proxy.URL}, []string{name}, ""},
		{"https_proxy", name, []string{"https_proxy=" + proxy.URL}, []string{name}, ""},
		{
			"other variables", name, []string{"HTTP_PROXY=" + proxy.URL, "http_proxy=" + proxy.URL, "grpc_proxy=" + proxy.URL},
			nil, "server.example cannot be resolved",
		},
		{"NO_PROXY", name, []string{"HTTPS_PROXY=" + proxy.URL, "NO_PROXY=server.example"}, nil, "server.example cannot be resolved"},
		{"no_proxy", name, []string{"HTTPS_PROXY=" + proxy.URL, "no_proxy=.example"}, nil, "server.example cannot be resolved"},
		{"loopback", server.Addr, []string{"HTTPS_PROXY=" + proxy.URL}, nil, ""},
		{"list", name + "," + name, []string{"HTTPS_PROXY=" + proxy.URL}, []string{name}, ""},
		{"list, NO_PROXY", name + "," + name, []string{"HTTPS_PROXY=" + proxy.URL, "NO_PROXY=server.example"}, nil, "lookup server.example"},
		{"Unix socket", "unix:" + socket, []string{"HTTPS_PROXY=" + proxy.URL}, nil, ""},
		{
			"no proxy there", name, []string{"HTTPS_PROXY=http://127.0.0.1:1"},
			nil, "no server responds at server.example:50051: dial tcp 127.0.0.1:1",
		},
		{"refused", name, []string{"HTTPS_PROXY=" + refusing.URL}, []string{name}, "403"},
	} {
		t.Run(c.name, func(t *testing.T) {
			proxy.Requests()
			refusing.Requests()
			command := exec.CommandContext(t.Context(), binary, "allocate", "--server", c.target, "-f", "examples/busy.json")
			command.Dir = root
			command.Env = append([]string{"ELASTALLOC_BUDGET=1m"}, c.environment...)
			output, err := command.CombinedOutput()
			if (err == nil) != (c.message == "") || !strings.Contains(string(output), c.message) {
				t.Errorf("%v; the error must have %q:\n%s", err, c.message, output)
			}
			connects := slices.Compact(append(proxy.Requests(), refusing.Requests()...)) // A refused request is repeated.
			if !slices.Equal(connects, c.connects) {
				t.Errorf("the proxy got requests for %q; must be %q", connects, c.connects)
			}
		})
	}
}

// proxyTools returns the program, and skips the test without nginx or outside make docs.
func proxyTools(t *testing.T) (binary string) {
	t.Helper()
	if !testtier.Docs.Selected() {
		t.Skip("slow; make docs runs it")
	}
	needTools(t, "bash", "nginx")
	binary, remove, err := clitest.Build(filepath.Join(root, "cmd", "elastalloc"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remove)
	return binary
}

// callerTLS returns the TLS of a caller that trusts a certificate and has an identity or, if it is nil, none.
func callerTLS(trusted testcert.Identity, identity *testcert.Identity) *tls.Config {
	config := &tls.Config{RootCAs: trusted.Pool, MinVersion: tls.VersionTLS12}
	if identity != nil {
		config.Certificates = []tls.Certificate{identity.Certificate}
	}
	return config
}

// newCaller returns a Go client of an address.
func newCaller(t *testing.T, address string, options ...client.Option) *client.Client {
	t.Helper()
	caller, err := client.New(address, append(options, client.WithTimeout(wait.Timeout))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caller.Close() })
	return caller
}

// oneJob returns a request that needs no search.
func oneJob() *elastallocv1.FillIdleRequest {
	jobs := []*elastallocv1.Job{{Id: "a", RemainingEta: durationpb.New(time.Hour)}}
	return &elastallocv1.FillIdleRequest{Snapshot: &elastallocv1.Snapshot{TotalNodes: 4, Jobs: jobs}}
}

// countPings sends 20 pings on a connection, and returns how many are acknowledged before the other side closes it.
func countPings(t *testing.T, connection net.Conn) (acknowledged int) {
	t.Helper()
	if _, err := io.WriteString(connection, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(connection, connection)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if framer.WritePing(false, [8]byte{}) != nil {
			break // Closed.
		}
	}
	for acknowledged < 20 {
		frame, err := framer.ReadFrame()
		if err != nil {
			break
		}
		if ping, ok := frame.(*http2.PingFrame); ok && ping.IsAck() {
			acknowledged++
		}
		if away, ok := frame.(*http2.GoAwayFrame); ok {
			t.Logf("GOAWAY: %v, %s", away.ErrCode, away.DebugData())
			break
		}
	}
	return acknowledged
}

// relay passes connections in plain text to a server, and counts them and the pings of the client.
type relay struct {
	address            string
	connections, pings atomic.Int64
}

// startRelay starts a relay to an address.
func startRelay(t *testing.T, to string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	r := &relay{address: listener.Addr().String()}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			r.connections.Add(1)
			go r.pass(connection, to)
		}
	}()
	return r
}

// pass passes one connection to the server until one side closes it.
func (r *relay) pass(connection net.Conn, to string) {
	defer connection.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		defer connection.Close()
		_, _ = io.Copy(connection, server)
	}()
	sent := io.TeeReader(connection, server)
	if _, err := io.ReadFull(sent, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	for framer := http2.NewFramer(nil, sent); ; {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		if ping, ok := frame.(*http2.PingFrame); ok && !ping.IsAck() {
			r.pings.Add(1)
		}
	}
}

// allocateAt requests the decision of a file without retries.
func allocateAt(t *testing.T, address string, secure *tls.Config, file string) error {
	t.Helper()
	if !filepath.IsAbs(file) {
		file = filepath.Join(root, file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	request := new(elastallocv1.AllocateRequest)
	if err := protojson.Unmarshal(text, request); err != nil {
		t.Fatal(err)
	}
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(secure)))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	_, err = elastallocv1.NewAllocatorServiceClient(connection).Allocate(t.Context(), request)
	return err
}

// proxyPage returns the parts of configurations of nginx in proxies.md, and the command of a caller.
func proxyPage(t *testing.T) (configs []string, command string) {
	t.Helper()
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			switch {
			case p.name != "docs/operators/proxies.md":
			case b.language == "nginx":
				configs = append(configs, b.text)
			case b.language == "sh":
				command = b.text
			}
		}
	}
	if len(configs) != 3 || command == "" {
		t.Fatalf("proxies.md has the configurations %q and the command %q", configs, command)
	}
	return configs, command
}

// change replaces the only match of a pattern.
func change(t *testing.T, text, pattern, replacement string) string {
	t.Helper()
	if found := regexp.MustCompile(pattern).FindAllString(text, -1); len(found) != 1 {
		t.Fatalf("%q is %d times in\n%s", pattern, len(found), text)
	}
	return regexp.MustCompile(pattern).ReplaceAllLiteralString(text, replacement)
}

// largeRequest writes a request of more than 1 MiB, the default limit of nginx, and returns its path.
func largeRequest(t *testing.T) string {
	t.Helper()
	var jobs []string
	for i := range 6000 {
		jobs = append(jobs, fmt.Sprintf(`{"id": "%0200d", "remainingEta": "3600s", "maxNodes": 1}`, i))
	}
	path := filepath.Join(t.TempDir(), "large.json")
	request := fmt.Sprintf(`{"snapshot": {"totalNodes": 10, "jobs": [%s]}}`, strings.Join(jobs, ","))
	if err := os.WriteFile(path, []byte(request), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// silentServer accepts connections and never responds. It returns its address.
func silentServer(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String() // The system completes connections that nothing accepts.
}

// startProxy starts nginx with a block "server", whose certificate it replaces, or "stream". It replaces the port, and
// returns the address of nginx.
func startProxy(t *testing.T, certificate testcert.Identity, block string) string {
	t.Helper()
	if !strings.HasPrefix(block, "stream") {
		block = change(t, block, `/etc/elastalloc/tls\.crt`, certificate.CertFile)
		block = change(t, block, `/etc/elastalloc/tls\.key`, certificate.KeyFile)
	}
	for range 10 { // Another process may take the port before nginx does.
		if address, ok := tryProxy(t, block); ok {
			return address
		}
	}
	t.Fatal("nginx found no free port")
	return ""
}

// tryProxy is startProxy for one port. It returns false if another process has the port.
func tryProxy(t *testing.T, block string) (address string, ok bool) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = free.Addr().String()
	free.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "nginx.conf")
	text := "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\nevents {}\n"
	block = change(t, block, `listen 50443`, "listen "+address)
	if strings.HasPrefix(block, "stream") {
		text = "load_module /usr/lib/nginx/modules/ngx_stream_module.so;\n" + text + block
	} else {
		text += "http {\naccess_log off;\n"
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			text += fmt.Sprintf("%s_temp_path %s;\n", kind, kind)
		}
		text += block + "}\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log := new(syncbuffer.Buffer)
	nginx := exec.CommandContext(t.Context(), "nginx", "-p", dir, "-e", "stderr", "-c", file)
	nginx.Stderr = log
	if err := nginx.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = nginx.Wait()
	}()
	t.Cleanup(func() {
		_ = nginx.Process.Kill()
		<-exited
		if t.Failed() {
			t.Logf("nginx logged\n%s", log.String())
		}
	})
	listens := false
	wait.For(t, "nginx listens or exits", func() (bool, string) {
		select {
		case <-exited:
			return true, ""
		default:
		}
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return false, err.Error()
		}
		connection.Close()
		listens = true
		return true, ""
	})
	if !listens && !strings.Contains(log.String(), "Address already in use") {
		t.Fatalf("nginx exited:\n%s", log.String())
	}
	return address, listens
}
