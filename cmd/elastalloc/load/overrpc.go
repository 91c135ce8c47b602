package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/cmd/elastalloc/internal/process"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// ghzReport is what we need of ghz's report in JSON; times are in nanoseconds.
type ghzReport struct {
	Total               time.Duration
	LatencyDistribution []struct {
		Percentage int
		Latency    time.Duration
	}
	StatusCodeDistribution map[string]int
}

// overRPC has ghz ask a server with as many clients, each on a connection of its own.
func overRPC(
	ctx context.Context, ghz string, server *process.Server, request *elastallocv1.AllocateRequest, callers int, duration time.Duration,
) (figures, error) {
	if err := ask(ctx, server, request); err != nil {
		return figures{}, err
	}
	message, err := proto.Marshal(request)
	if err != nil {
		return figures{}, err
	}
	directory, err := os.MkdirTemp("", "load")
	if err != nil {
		return figures{}, err
	}
	defer os.RemoveAll(directory)
	file := filepath.Join(directory, "request.bin")
	if err := os.WriteFile(file, message, 0o600); err != nil {
		return figures{}, err
	}
	spent, err := metric(ctx, server, cpuSeconds)
	if err != nil {
		return figures{}, err
	}
	command := exec.CommandContext(ctx, ghz, "--insecure", "--call=elastalloc.v1.AllocatorService.Allocate",
		"--binary-file="+file, "--concurrency="+strconv.Itoa(callers), "--connections="+strconv.Itoa(callers),
		"--duration="+duration.String(), "--duration-stop=wait", "--timeout=10s", "--format=json", server.Addr)
	var output, errs bytes.Buffer
	command.Stdout, command.Stderr = &output, &errs
	if err := command.Run(); err != nil {
		return figures{}, fmt.Errorf("ghz: %w: %s", err, errs.String())
	}
	after, err := metric(ctx, server, cpuSeconds)
	if err != nil {
		return figures{}, err
	}
	var report ghzReport
	if err := json.Unmarshal(output.Bytes(), &report); err != nil {
		return figures{}, fmt.Errorf("ghz's report: %w", err)
	}
	f := figures{
		answered: report.StatusCodeDistribution["OK"], shed: report.StatusCodeDistribution["ResourceExhausted"],
		elapsed: report.Total, cpu: time.Duration((after - spent) * float64(time.Second)),
	}
	for _, latency := range report.LatencyDistribution {
		switch latency.Percentage {
		case 50:
			f.p50 = latency.Latency
		case 99:
			f.p99 = latency.Latency
		}
	}
	for code, count := range report.StatusCodeDistribution {
		if code != "OK" && code != "ResourceExhausted" {
			return figures{}, fmt.Errorf("%d calls ended with %s", count, code)
		}
	}
	return f, nil
}

// ask has a server decide once and checks that it proves what it decides.
func ask(ctx context.Context, server *process.Server, request *elastallocv1.AllocateRequest) error {
	conn, err := grpc.NewClient(server.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	response, err := elastallocv1.NewAllocatorServiceClient(conn).Allocate(ctx, request)
	if err != nil {
		return err
	}
	return checkAnswer(response)
}
