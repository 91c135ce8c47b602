//go:build unix

package faults

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// loopback is the default address of callers.
const loopback = "127.0.0.1"

const (
	allocateMethod = elastallocv1.AllocatorService_Allocate_FullMethodName
	fillIdleMethod = elastallocv1.AllocatorService_FillIdle_FullMethodName
	whatIfMethod   = elastallocv1.AllocatorService_WhatIf_FullMethodName
	forecastMethod = elastallocv1.AllocatorService_Forecast_FullMethodName
)

// overloads returns the attacks on memory and on slots.
func overloads() map[string]overload {
	large := func() []byte { return mustMarshal(randomRequest(10_000, 15_000, 1)) }
	return map[string]overload{
		"snapshots of empty jobs":    {run: sendAgain(8, allocateMethod, snapshotOf(16<<20, "\x22\x00"))},
		"64 MB of empty jobs":        {run: sendAgain(3, allocateMethod, snapshotOf(63<<20, "\x22\x00"))},
		"the maximum number of jobs": {run: sendAgain(8, allocateMethod, snapshotOf(200_000, "\x22\x00"))},
		"lists that are not packed": {
			run: sendAgain(8, allocateMethod,
				snapshotOf(8<<20, string(protowire.AppendBytes([]byte{0x22}, []byte(strings.Repeat("\x38\x01", 1000)))))),
		},
		"unknown fields": {run: sendAgain(8, allocateMethod, snapshotOf(16<<20, "\xf8\x3f\x01"))},
		"an id of 16 MB": {
			run: sendAgain(8, allocateMethod, snapshotOf(16<<20, string(protowire.AppendString([]byte{0x0a}, strings.Repeat("x", 16<<20-10))))),
		},
		"invalid fields only":      {run: sendAgain(8, allocateMethod, func() []byte { return mustMarshal(badThroughout(20_000)) })},
		"unread responses":         {run: readNoResponses},
		"all but the last byte":    {run: sendAllButLastByte},
		"messages in single bytes": {run: sendSingleBytes},
		"16 MB in single bytes":    {run: sendLargeInSingleBytes},
		"budgets of an hour":       {run: requestHours(loopback)},
		"budgets of an hour, of ten callers": {
			run: requestHours("127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.7",
				"127.0.0.8", "127.0.0.9", "127.0.0.10", "127.0.0.11", "127.0.0.12"), plainOnly: true,
		},
		"large snapshots":          {run: sendAgain(40, allocateMethod, large)},
		"large idle fills":         {run: sendAgain(40, fillIdleMethod, large)},
		"many small calls":         {run: sendAgain(200, allocateMethod, func() []byte { return mustMarshal(randomRequest(40, 70, 1)) })},
		"what-ifs of 64 scenarios": {run: sendAgain(20, whatIfMethod, func() []byte { return mustMarshal(manyScenarios(1000)) })},
		"forecasts of 100 samples": {run: sendAgain(20, forecastMethod, func() []byte { return mustMarshal(manySamples(1000)) })},
		"calls to gRPC's services": {run: useOtherServices},
		"rapid resets":             {run: onConnections(10, resetRapidly)},
		"canceled calls":           {run: cancelCalls(large)},
	}
}

func mustMarshal(m proto.Message) []byte {
	wire, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return wire
}

// snapshotOf returns a function that returns a request of a size, whose snapshot repeats a field.
func snapshotOf(bytes int, field string) func() []byte {
	return func() []byte {
		return protowire.AppendString([]byte{0x0a}, strings.Repeat(field, max(1, bytes/len(field))))
	}
}

// badThroughout returns a request with invalid fields only.
func badThroughout(jobs int) *elastallocv1.AllocateRequest {
	bad := &elastallocv1.Job{
		RemainingEta: durationpb.New(-1), MinNodes: new(int32(-1)), MaxNodes: new(int32(-2)), CurrentNodes: -1,
		TrainingTime: durationpb.New(-1), AllowedNodes: []int32{3, 2, 1, 0, -1}, Weight: proto.Float64(-1),
		ResizeDelay: durationpb.New(-1), RestartTime: durationpb.New(-1), WaitingTime: durationpb.New(-1), EtaNodes: new(int32(-1)),
	}
	request := &elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{TotalNodes: -1}}
	for range jobs {
		request.Snapshot.Jobs = append(request.Snapshot.Jobs, bad)
	}
	return request
}

// manyScenarios returns a request with the maximum number of scenarios.
func manyScenarios(jobs int) *elastallocv1.WhatIfRequest {
	base := randomRequest(jobs, jobs*3/2, 1)
	request := &elastallocv1.WhatIfRequest{
		Snapshot: base.GetSnapshot(),
		Options:  &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, TimeBudget: durationpb.New(time.Hour)},
	}
	for n := range 64 {
		request.Scenarios = append(request.Scenarios, &elastallocv1.Scenario{
			Name: fmt.Sprint(n), TotalNodes: new(int32(jobs + n)), PutJobs: randomRequest(jobs, jobs, uint64(n)).GetSnapshot().GetJobs(),
		})
	}
	return request
}

// manySamples returns a request for the maximum number of simulations, which use all slots.
func manySamples(jobs int) *elastallocv1.ForecastRequest {
	return &elastallocv1.ForecastRequest{
		Snapshot: randomRequest(jobs, jobs*3/2, 1).GetSnapshot(),
		Options:  &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, TimeBudget: durationpb.New(time.Hour)},
		EtaError: 0.5, Samples: 100, EveryEvent: true,
	}
}

// hardRequest returns a request that uses its time limit.
func hardRequest(seed uint64) *elastallocv1.AllocateRequest {
	r := rand.New(rand.NewPCG(seed, 1))
	request := randomRequest(200, 300, seed)
	request.Snapshot.Horizon = &elastallocv1.Horizon{Steps: new(int32(24))}
	for _, job := range request.GetSnapshot().GetJobs() {
		table, speed := &elastallocv1.SpeedTable{}, 1.0
		for size := range int32(32) {
			job.AllowedNodes = append(job.AllowedNodes, size+1)
			table.Speeds = append(table.Speeds, speed)
			speed += r.Float64()
		}
		job.MaxNodes = new(int32(32))
		job.Scaling = &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: table}}
	}
	request.Options = &elastallocv1.AllocateOptions{
		Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, TimeBudget: durationpb.New(time.Hour),
	}
	return request
}

// sendAgain sends a message repeatedly over two connections, with atOnce concurrent calls.
func sendAgain(atOnce int, method string, message func() []byte) func(context.Context, *attacker) {
	return func(ctx context.Context, b *attacker) {
		wire := message()
		connections := []*grpc.ClientConn{b.client(loopback), b.client(loopback)}
		b.again(ctx, atOnce, func(ctx context.Context, n int) { invoke(ctx, connections[n%len(connections)], method, wire) })
	}
}

// requestHours requests searches of an hour from several addresses.
func requestHours(addresses ...string) func(context.Context, *attacker) {
	return func(ctx context.Context, b *attacker) {
		hard := mustMarshal(hardRequest(1))
		for _, address := range addresses {
			connection := b.client(address)
			b.again(ctx, 64/len(addresses), func(ctx context.Context, _ int) { invoke(ctx, connection, allocateMethod, hard) })
		}
	}
}

// cancelCalls makes large calls and cancels them.
func cancelCalls(message func() []byte) func(context.Context, *attacker) {
	return func(ctx context.Context, b *attacker) {
		wire, connection := message(), b.client(loopback)
		b.again(ctx, 40, func(ctx context.Context, n int) {
			limited, cancel := context.WithTimeout(ctx, time.Duration(20+10*n)*time.Millisecond)
			defer cancel()
			invoke(limited, connection, allocateMethod, wire)
		})
	}
}

// useOtherServices calls health and reflection, which gRPC implements.
func useOtherServices(ctx context.Context, b *attacker) {
	for range 10 {
		connection := b.client(loopback)
		health := grpc_health_v1.NewHealthClient(connection)
		b.again(ctx, 100, func(ctx context.Context, _ int) {
			limited, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			if watch, err := health.Watch(limited, &grpc_health_v1.HealthCheckRequest{}); err == nil {
				for err == nil {
					_, err = watch.Recv()
				}
			}
		})
		message := make([]byte, 16<<20)
		b.again(ctx, 1, func(ctx context.Context, _ int) {
			invoke(ctx, connection, grpc_health_v1.Health_Check_FullMethodName, message)
			invoke(ctx, connection, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", message)
			invoke(ctx, connection, "/elastalloc.v1.AllocatorService/Nothing", message)
		})
	}
}

// onConnections runs do on a number of concurrent connections. Each is closed a second after do returns, and replaced.
func onConnections(count int, do func(context.Context, *hostileConnection) error) func(context.Context, *attacker) {
	return func(ctx context.Context, b *attacker) {
		b.again(ctx, count, func(ctx context.Context, _ int) {
			connection, err := b.dial(ctx, loopback)
			if err != nil {
				return
			}
			defer connection.Close()
			defer context.AfterFunc(ctx, func() { connection.Close() })()
			_ = do(ctx, newHostileConnection(connection))
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		})
	}
}

// readNoResponses makes calls with 4,000 jobs, whose responses of a megabyte do not fit in the window.
func readNoResponses(ctx context.Context, b *attacker) {
	request := &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{TotalNodes: 5000, Horizon: &elastallocv1.Horizon{Steps: new(int32(24))}},
		Options: &elastallocv1.AllocateOptions{
			Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, Backend: elastallocv1.Backend_BACKEND_GREEDY, IncludePlan: true,
		},
	}
	for n := range 4000 {
		request.Snapshot.Jobs = append(request.Snapshot.Jobs, &elastallocv1.Job{
			Id: fmt.Sprint(n), RemainingEta: &durationpb.Duration{Seconds: 9000},
		})
	}
	message := mustMarshal(request)
	message = append(lengthPrefix(0, uint32(len(message))), message...)
	onConnections(10, func(ctx context.Context, c *hostileConnection) error {
		if err := c.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
			return err
		}
		for stream := uint32(1); ctx.Err() == nil; stream += 2 {
			if err := c.call(stream); err != nil {
				return err
			}
			for rest := message; len(rest) > 0; {
				part := rest[:min(16<<10, len(rest))]
				rest = rest[len(part):]
				if err := c.WriteData(stream, len(rest) == 0, part); err != nil {
					return err
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
		return nil
	})(ctx, b)
}

// sendAllButLastByte sends 100 concurrent requests of 16 MB without their last byte.
func sendAllButLastByte(ctx context.Context, b *attacker) {
	const length = 16 << 20
	transport := &http2.Transport{AllowHTTP: true} //nolint:staticcheck // net/http dials itself; this respects windows on ours.
	b.again(ctx, 10, func(ctx context.Context, _ int) {
		connection, err := b.dial(ctx, loopback)
		if err != nil {
			return
		}
		defer connection.Close()
		defer context.AfterFunc(ctx, func() { connection.Close() })()
		client, err := transport.NewClientConn(connection) //nolint:staticcheck // As above.
		if err != nil {
			return
		}
		ended := make(chan struct{})
		for range 10 {
			go func() {
				defer func() { ended <- struct{}{} }()
				limited, cancel := context.WithTimeout(ctx, 15*time.Second)
				defer cancel()
				reader, writer := io.Pipe()
				go func() {
					_, err := writer.Write(lengthPrefix(0, length))
					for sent, part := 0, make([]byte, 64<<10); err == nil && sent < length-1; {
						var n int
						n, err = writer.Write(part[:min(len(part), length-1-sent)])
						sent += n
					}
					<-limited.Done()
					_ = writer.Close()
				}()
				request, err := http.NewRequestWithContext(limited, http.MethodPost, "http://"+b.address+allocateMethod, reader)
				if err != nil {
					panic(err)
				}
				request.Header.Set("Content-Type", "application/grpc")
				request.Header.Set("Te", "trailers")
				if response, err := client.RoundTrip(request); err == nil {
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
				_ = reader.Close()
			}()
		}
		for range 10 {
			<-ended
		}
	})
}

// sendSingleBytes sends messages in frames of one byte until the window is full.
func sendSingleBytes(ctx context.Context, b *attacker) {
	onConnections(10, func(ctx context.Context, c *hostileConnection) error {
		if err := c.greet(); err != nil {
			return err
		}
		for stream := uint32(1); stream < 200; stream += 2 {
			if err := c.call(stream); err != nil {
				return err
			}
			if err := c.WriteData(stream, false, lengthPrefix(0, 1<<20)); err != nil {
				return err
			}
			for range 60_000 {
				if err := c.WriteData(stream, false, []byte{0}); err != nil {
					return err
				}
			}
		}
		<-ctx.Done()
		return nil
	})(ctx, b)
}

// sendLargeInSingleBytes sends messages of 16 MB in frames of one byte. It waits for the window of each message.
func sendLargeInSingleBytes(ctx context.Context, b *attacker) {
	const length, atOnce = 16 << 20, 1000
	onConnections(4, func(ctx context.Context, c *hostileConnection) error {
		if err := c.greet(); err != nil {
			return err
		}
		for stream := uint32(1); ctx.Err() == nil; stream += 2 {
			var frames bytes.Buffer
			framer := http2.NewFramer(&frames, nil)
			for range atOnce {
				if err := framer.WriteData(stream, false, []byte{0}); err != nil {
					return err
				}
			}
			if err := c.call(stream); err != nil {
				return err
			}
			if err := c.WriteData(stream, false, lengthPrefix(0, length)); err != nil {
				return err
			}
			time.Sleep(100 * time.Millisecond)
			for range (length - 1) / atOnce {
				if _, err := c.Write(frames.Bytes()); err != nil {
					return err
				}
			}
		}
		return nil
	})(ctx, b)
}
