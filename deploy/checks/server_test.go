package checks

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// buildServer builds the program and returns its path.
func buildServer(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "elastalloc")
	build := command(t, "go", "build", "-o", path, "./cmd/elastalloc")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	return path
}

// startServer starts the program with the arguments on free ports of the loopback
// interface and returns the addresses of gRPC and of admin HTTP. It is drained, and
// has to exit with status 0, when the test ends.
func startServer(t *testing.T, path string, args ...string) (address, adminAddress string) {
	t.Helper()
	server := exec.Command(path, append(args, "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--drain-delay=0s")...)
	log, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(log)
	var seen []string
	for address == "" && lines.Scan() {
		var line struct {
			Message      string `json:"msg"`
			Address      string `json:"address"`
			AdminAddress string `json:"admin_address"`
		}
		seen = append(seen, lines.Text())
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "serving" {
			address, adminAddress = line.Address, line.AdminAddress
		}
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, log)
	}()
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		<-read
		if err := server.Wait(); err != nil {
			t.Errorf("the server exited with %v; its first lines: %q", err, seen)
		}
	})
	if address == "" {
		t.Fatalf("the server does not serve: %q", seen)
	}
	return address, adminAddress
}

// load requests decisions of every kind repeatedly until the test completes:
// proven, cut short, greedy, of a backend that is missing, bad requests, and more at a
// time than it takes.
func load(t *testing.T, path, address string) {
	t.Helper()
	hard := hardRequest(t)
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"snapshot":{"totalNodes":-1}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	example := atRoot(t, "examples", "snapshot.json")
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for _, args := range [][]string{
		{"allocate", "--file", example},
		{"allocate", "--file", example, "--backend", "greedy"},
		{"allocate", "--file", example, "--backend", "cbc"},
		{"fill-idle", "--file", example},
		{"allocate", "--file", atRoot(t, "examples", "teams.json")},
		{"allocate", "--file", hard, "--budget", "1ms"},
		{"allocate", "--file", hard},
		{"allocate", "--file", hard},
		{"allocate", "--file", bad},
	} {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					// Some are turned away or refused, as they should be.
					_ = exec.Command(path, append([]string{args[0], "--server", address}, args[1:]...)...).Run()
				}
			}
		})
	}
	t.Cleanup(func() {
		close(stop)
		callers.Wait()
	})
}

// hardRequest writes a request that takes a while to decide and returns its path.
func hardRequest(t *testing.T) string {
	t.Helper()
	random := rand.New(rand.NewPCG(7, 7))
	var jobs []map[string]any
	for i := range 200 {
		jobs = append(jobs, map[string]any{
			"id":           fmt.Sprintf("job-%d", i),
			"remainingEta": fmt.Sprintf("%ds", 200+random.IntN(90_000)),
			"currentNodes": []int{0, 1, 2, 4}[random.IntN(4)],
			"scaling":      map[string]any{"doublingEfficiency": 0.6 + 0.39*random.Float64()},
			"resizeDelay":  "15s",
		})
	}
	content, err := json.Marshal(map[string]any{"snapshot": map[string]any{"id": "hard", "totalNodes": 300, "jobs": jobs}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "hard.json")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
