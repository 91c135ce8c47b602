package docs

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc/internal/testing/clitest"
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
	if !testtier.Docs.Selected() {
		t.Skip("slow; make docs runs it")
	}
	needTools(t, "bash", "nginx")
	binary, remove, err := clitest.Build(filepath.Join(root, "cmd", "elastalloc"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remove)
	server := servertest.Start(t, binary, nil, "--default-budget=1m", "--max-budget=1m")
	silent := silentServer(t)
	certificate := testcert.New(t, t.TempDir(), "proxy.example")
	config, command := proxyPage(t)
	large := largeRequest(t)

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
			err := allocateAt(t, address, certificate, c.request)
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

// allocateAt requests the decision of a file without retries.
func allocateAt(t *testing.T, address string, certificate testcert.Identity, file string) error {
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
	secure := credentials.NewTLS(&tls.Config{RootCAs: certificate.Pool, MinVersion: tls.VersionTLS12})
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(secure))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	_, err = elastallocv1.NewAllocatorServiceClient(connection).Allocate(t.Context(), request)
	return err
}

// proxyPage returns the configuration of nginx in proxies.md, and the command of a caller.
func proxyPage(t *testing.T) (config, command string) {
	t.Helper()
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			switch {
			case p.name != "docs/operators/proxies.md":
			case b.language == "nginx":
				config = b.text
			case b.language == "sh":
				command = b.text
			}
		}
	}
	if config == "" || command == "" {
		t.Fatalf("proxies.md has the configuration %q and the command %q", config, command)
	}
	return config, command
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

// startProxy starts nginx with a block "server" whose certificate and port it replaces, and returns the address of nginx.
func startProxy(t *testing.T, certificate testcert.Identity, block string) string {
	t.Helper()
	block = change(t, block, `/etc/elastalloc/tls\.crt`, certificate.CertFile)
	block = change(t, block, `/etc/elastalloc/tls\.key`, certificate.KeyFile)
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
	text := "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		text += fmt.Sprintf("%s_temp_path %s;\n", kind, kind)
	}
	text += change(t, block, `listen 50443`, "listen "+address) + "}\n"
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
