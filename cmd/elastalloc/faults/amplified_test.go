//go:build unix

package faults

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

const explainMethod = elastallocv1.AllocatorService_Explain_FullMethodName

// amplified returns the overloads by short requests whose responses or work are much larger. The server has the
// resources of the chart. Other tests cover similar attacks that are not calls to a server:
//
//	a dangling link in the folder of --record           TestDanglingLinkIsDeleted
//	control characters in texts, field names, callers   TestHostileTextsInErrors, TestHostileResponses
//	cells of CSV files that are formulas                TestCell, TestJobsCSV, TestShadow (lab/replay)
//	a server that returns extreme durations             TestHostileResponses
//	a response of 132 MB that needs 11 GB in a client   TestHostileResponse
//	a hanging server and long budgets                   TestHangingServer, TestPythonClient
//	recordings of long lines, of ETAs of years          TestLongLines, TestShadow (lab/replay)
//	a client certificate with a name of another type    TestClientNames
//	a web page that calls the controller                TestAdmin (kube/controller)
//	forecasts without an end                            TestStalledForecast
//	time under the lock (41 ms at 1,024 waiting calls)  BenchmarkSlotsLocked
func amplified() map[string]overload {
	all := map[string]overload{
		"ids of 300 kB, quoted by waiting jobs": {
			run: sendAgain(4, allocateMethod, func() []byte { return mustMarshal(behind(9990, 300_000)) }), before: "one call killed the server",
		},
		"ids of 256 bytes, quoted by waiting jobs": {run: sendAgain(4, allocateMethod, func() []byte { return mustMarshal(behind(9990, 256)) })},
		"idle fills, ids of 30 kB": {
			run: sendAgain(4, fillIdleMethod, func() []byte { return mustMarshal(behind(9990, 30_000)) }), before: "a response had 300 MB",
		},
		"what-ifs, ids of 10 kB": {
			run:    sendAgain(8, whatIfMethod, func() []byte { return mustMarshal(whatIfs(behind(250, 10_000))) }),
			before: "eight calls killed the server",
		},
		"what-ifs, ids of 256 bytes": {
			run: sendAgain(8, whatIfMethod, func() []byte { return mustMarshal(whatIfs(behind(250, 256))) }),
		},
		"what-ifs, a snapshot id of 8 MB": {
			run:    sendAgain(8, whatIfMethod, func() []byte { return mustMarshal(whatIfs(named(strings.Repeat("x", 8<<20)))) }),
			before: "a call took 568 MB",
		},
		"what-ifs, 10,000 groups of 1 kB": {
			run: sendAgain(8, whatIfMethod, func() []byte { return mustMarshal(whatIfs(inGroups(10_000, 1000))) }), before: "a call took 781 MB",
		},
		"what-ifs, an id quoted in warnings": {
			run: sendAgain(8, whatIfMethod, func() []byte { return mustMarshal(whatIfs(quoted(1 << 20))) }), before: "a call took 769 MB",
		},
		"10,000 groups on the status page": {
			run: sendAgain(4, allocateMethod, func() []byte { return mustMarshal(inGroups(10_000, 256)) }), before: "917 MB were kept",
		},
		"600 idle fills of 400 jobs": {
			run: onAddresses(idleFills(200), loopback, loopback, loopback), before: "18 to 33 of 40 honest calls failed",
		},
		"2,560 idle fills of 400 jobs": {
			run: onAddresses(idleFills(256), slices.Repeat([]string{loopback}, 10)...), before: "36 and 38 of 40 honest calls failed",
		},
		"forecasts of 100 samples, at once": {
			run: sendAgain(2, forecastMethod, func() []byte { return mustMarshal(shortJobs(10_000)) }), before: "two calls killed the server",
		},
		"forecasts of 37 bytes": {
			run:    sendAgain(4, forecastMethod, func() []byte { return mustMarshal(everySecond()) }),
			before: "a call took 381 MB, greedy decided 27 of 75 honest calls",
		},
		"forecasts by a missing solver": {
			run: sendAgain(4, forecastMethod, func() []byte { return mustMarshal(byMissing()) }), before: "INTERNAL, or complete without a decision",
		},
		"plans, recorded": {
			run:      sendAgain(6, allocateMethod, func() []byte { return mustMarshal(plans(9900)) }),
			recorded: true, before: "144 calls killed the server",
		},
		"sizes with many different sums":  {run: onAddresses(requestUneven(0), addresses(8)...), before: "622 MiB were in use"},
		"the same, with eight node types": {run: onAddresses(requestUneven(8), addresses(8)...), before: "459 MiB were in use"},
		"what-ifs of 40 callers": {
			run: onAddresses(requestWhatIf, addresses(40)...), before: "greedy decided 36 of 40 honest calls",
		},
		"forecasts of 40 callers": {
			run: onAddresses(requestForecast, addresses(40)...), before: "greedy decided 30 of 40 honest calls",
		},
		"explanations of 40 callers": {
			run: onAddresses(requestExplain, addresses(40)...), before: "greedy decided 26 of 40 honest calls",
		},
		"analyses and audits of all responses": {run: onAddresses(requestAnalyses, addresses(42)...), audited: true},
		"audits of uneven sizes":               {run: onAddresses(requestUneven(0), addresses(8)...), audited: true},
		"requests of all sizes, of 3 callers":  {run: onAddresses(sendRandom, addresses(3)...)},
	}
	for name, overload := range all {
		overload.chart = true
		all[name] = overload
	}
	return all
}

// allOverloads returns the overloads of both files.
func allOverloads() map[string]overload {
	all := overloads()
	maps.Copy(all, amplified())
	return all
}

// behind returns a request whose first job has a long id and blocks all other jobs.
func behind(jobs, idBytes int) *elastallocv1.AllocateRequest {
	s := &elastallocv1.Snapshot{TotalNodes: 1, Jobs: []*elastallocv1.Job{{
		Id: strings.Repeat("x", idBytes), RemainingEta: durationpb.New(time.Hour), MinNodes: new(int32(1)), AllowedNodes: []int32{1},
		CurrentNodes: 1,
	}, {
		Id: strings.Repeat("y", idBytes), RemainingEta: durationpb.New(time.Hour), MinNodes: new(int32(1)),
	}}}
	for n := range jobs {
		s.Jobs = append(s.Jobs, &elastallocv1.Job{Id: fmt.Sprint(n), RemainingEta: durationpb.New(time.Hour)})
	}
	return &elastallocv1.AllocateRequest{
		Snapshot: s, Options: &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS},
	}
}

func named(id string) *elastallocv1.AllocateRequest {
	request := randomRequest(10, 16, 1)
	request.Snapshot.Id = id
	return request
}

// quoted returns a request whose only job never fits, so that a warning quotes its id.
func quoted(idBytes int) *elastallocv1.AllocateRequest {
	return &elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{TotalNodes: 1, Jobs: []*elastallocv1.Job{{
		Id: strings.Repeat("\x01", idBytes), RemainingEta: durationpb.New(time.Hour), MinNodes: new(int32(8)),
	}}}}
}

// inGroups returns a request with a group per job.
func inGroups(groups, idBytes int) *elastallocv1.AllocateRequest {
	request := &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{TotalNodes: 10},
		Options: &elastallocv1.AllocateOptions{
			Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME, Backend: elastallocv1.Backend_BACKEND_GREEDY,
		},
	}
	for n := range groups {
		id := fmt.Sprintf("%0*d", idBytes, n)
		request.Snapshot.Groups = append(request.Snapshot.Groups, &elastallocv1.Group{Id: id})
	}
	request.Snapshot.Jobs = []*elastallocv1.Job{
		{Id: "a", RemainingEta: durationpb.New(time.Hour), GroupId: request.GetSnapshot().GetGroups()[0].GetId()},
	}
	return request
}

// whatIfs returns a request for the maximum number of scenarios.
func whatIfs(base *elastallocv1.AllocateRequest) *elastallocv1.WhatIfRequest {
	request := &elastallocv1.WhatIfRequest{Snapshot: base.GetSnapshot(), Options: base.GetOptions()}
	for n := range 64 {
		request.Scenarios = append(request.Scenarios, &elastallocv1.Scenario{TotalNodes: new(int32(1 + n%2))})
	}
	return request
}

// shortJobs returns a request for the maximum number of samples, with jobs of one second.
func shortJobs(jobs int) *elastallocv1.ForecastRequest {
	request := &elastallocv1.ForecastRequest{
		Snapshot: &elastallocv1.Snapshot{TotalNodes: 10_000}, EtaError: 0.5, Samples: 100,
		Options: &elastallocv1.AllocateOptions{
			Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, Backend: elastallocv1.Backend_BACKEND_GREEDY,
		},
	}
	for n := range jobs {
		request.Snapshot.Jobs = append(request.Snapshot.Jobs, &elastallocv1.Job{Id: fmt.Sprint(n), RemainingEta: durationpb.New(time.Second)})
	}
	return request
}

// everySecond returns a request for a forecast of ten years with a decision every second.
func everySecond() *elastallocv1.ForecastRequest {
	return &elastallocv1.ForecastRequest{
		Snapshot: &elastallocv1.Snapshot{
			TotalNodes: 1, Jobs: []*elastallocv1.Job{{Id: "a", RemainingEta: durationpb.New(3650 * 24 * time.Hour)}},
		},
		Cadence: durationpb.New(time.Second), Until: durationpb.New(3650 * 24 * time.Hour),
	}
}

// byMissing returns a request for a backend that a server does not have by default.
func byMissing() *elastallocv1.ForecastRequest {
	return &elastallocv1.ForecastRequest{
		Snapshot: randomRequest(10, 16, 1).GetSnapshot(), EtaError: 0.2,
		Options: &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, Backend: elastallocv1.Backend_BACKEND_CBC},
	}
}

// plans returns a request for plans of jobs over the maximum number of steps.
func plans(jobs int) *elastallocv1.AllocateRequest {
	request := &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{TotalNodes: int32(jobs), Horizon: &elastallocv1.Horizon{Steps: new(int32(24))}},
		Options: &elastallocv1.AllocateOptions{
			Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, Backend: elastallocv1.Backend_BACKEND_GREEDY, IncludePlan: true,
		},
	}
	for n := range jobs {
		request.Snapshot.Jobs = append(request.Snapshot.Jobs, &elastallocv1.Job{Id: fmt.Sprint(n), RemainingEta: durationpb.New(2 * time.Hour)})
	}
	return request
}

// addresses returns addresses of the loopback network other than the address of the honest caller.
func addresses(count int) (all []string) {
	for n := range count {
		all = append(all, fmt.Sprintf("127.0.0.%d", 3+n))
	}
	return all
}

// onAddresses runs act for each address with its own connection.
func onAddresses(
	act func(ctx context.Context, b *attacker, c *grpc.ClientConn, caller int), from ...string,
) func(context.Context, *attacker) {
	return func(ctx context.Context, b *attacker) {
		for n, address := range from {
			act(ctx, b, b.client(address), n)
		}
	}
}

func idleFills(atOnce int) func(context.Context, *attacker, *grpc.ClientConn, int) {
	return func(ctx context.Context, b *attacker, c *grpc.ClientConn, caller int) {
		wire := mustMarshal(&elastallocv1.FillIdleRequest{Snapshot: randomRequest(400, 600, uint64(caller)).GetSnapshot()})
		b.again(ctx, atOnce, func(ctx context.Context, _ int) { invoke(ctx, c, fillIdleMethod, wire) })
	}
}

// requestUneven requests decisions and explanations whose searches have large tables: jobs with 32 uneven sizes
// each, on a number of node types.
func requestUneven(types int) func(context.Context, *attacker, *grpc.ClientConn, int) {
	return func(ctx context.Context, b *attacker, c *grpc.ClientConn, caller int) {
		r := rand.New(rand.NewPCG(uint64(caller), 2))
		const limit = 300_000
		base := randomRequest(40+40*caller, 70*limit, uint64(caller))
		base.Options = &elastallocv1.AllocateOptions{
			Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, TimeBudget: durationpb.New(time.Hour),
			Admission: elastallocv1.Admission_ADMISSION_OPTIMIZED, Certificate: true,
		}
		if types > 0 {
			base.Snapshot.TotalNodes, base.Options.Objective = 0, elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
		}
		for n := range types {
			base.Snapshot.NodeTypes = append(base.Snapshot.NodeTypes, &elastallocv1.NodeType{
				Id: fmt.Sprint(n), Nodes: 48, Speed: proto.Float64(0.5 + r.Float64()),
			})
		}
		for _, job := range base.GetSnapshot().GetJobs() {
			table, size, speed, step := &elastallocv1.SpeedTable{}, int32(0), 0.0, int32(limit)
			if types > 0 {
				job.CurrentNodes, step = 0, 2
			}
			for range 32 {
				size, speed = size+1+r.Int32N(step), speed+r.Float64()
				job.AllowedNodes, table.Speeds = append(job.AllowedNodes, size), append(table.Speeds, speed)
			}
			job.MaxNodes, job.Scaling = new(size), &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: table}}
			for _, kind := range base.GetSnapshot().GetNodeTypes() {
				job.Speeds = append(job.Speeds, &elastallocv1.TypeSpeed{NodeType: kind.GetId(), Factor: proto.Float64(0.5 + r.Float64())})
			}
		}
		decide := mustMarshal(base)
		explain := mustMarshal(&elastallocv1.ExplainRequest{Snapshot: base.GetSnapshot(), Options: base.GetOptions()})
		b.again(ctx, 2, func(ctx context.Context, _ int) { invoke(ctx, c, allocateMethod, decide) })
		b.again(ctx, 1, func(ctx context.Context, _ int) { invoke(ctx, c, explainMethod, explain) })
	}
}

func requestWhatIf(ctx context.Context, b *attacker, c *grpc.ClientConn, caller int) {
	wire := mustMarshal(whatIfs(randomRequest(40, 70, uint64(caller))))
	b.again(ctx, 1, func(ctx context.Context, _ int) { invoke(ctx, c, whatIfMethod, wire) })
}

func requestForecast(ctx context.Context, b *attacker, c *grpc.ClientConn, caller int) {
	wire := mustMarshal(&elastallocv1.ForecastRequest{
		Snapshot: randomRequest(40, 70, uint64(caller)).GetSnapshot(), EtaError: 0.2, Samples: 100,
	})
	b.again(ctx, 1, func(ctx context.Context, _ int) { invoke(ctx, c, forecastMethod, wire) })
}

func requestExplain(ctx context.Context, b *attacker, c *grpc.ClientConn, caller int) {
	wire := mustMarshal(&elastallocv1.ExplainRequest{Snapshot: randomRequest(40, 70, uint64(caller)).GetSnapshot()})
	b.again(ctx, 1, func(ctx context.Context, _ int) { invoke(ctx, c, explainMethod, wire) })
}

// requestAnalyses calls one of three analysis methods, depending on the number of the caller.
func requestAnalyses(ctx context.Context, b *attacker, c *grpc.ClientConn, caller int) {
	ask := []func(context.Context, *attacker, *grpc.ClientConn, int){requestWhatIf, requestForecast, requestExplain}
	ask[caller%len(ask)](ctx, b, c, caller)
}

// sendRandom sends requests of random sizes for all methods: legal requests, requests with damaged bytes, and
// garbage. It cancels some of the calls.
func sendRandom(ctx context.Context, b *attacker, c *grpc.ClientConn, caller int) {
	const atOnce = 8
	var draws []*rand.Rand
	for n := range atOnce {
		draws = append(draws, rand.New(rand.NewPCG(uint64(caller), uint64(n))))
	}
	b.again(ctx, atOnce, func(ctx context.Context, n int) {
		r := draws[n]
		method, message := randomMessage(r)
		if r.IntN(4) == 0 {
			limited, cancel := context.WithTimeout(ctx, time.Duration(r.Int64N(int64(time.Second))))
			defer cancel()
			ctx = limited
		}
		invoke(ctx, c, method, message)
	})
}

// randomMessage returns a random method and a message for it. Half of the messages are small, and some have the
// maximum size.
func randomMessage(r *rand.Rand) (method string, message []byte) {
	upTo := func(limit float64) int { return int(math.Exp(r.Float64() * math.Log(limit))) }
	jobs := upTo(10_000)
	base := randomRequest(jobs, upTo(20_000), r.Uint64())
	if r.IntN(4) == 0 {
		base = oneOf(r, behind(jobs, upTo(300)), inGroups(jobs, 5+upTo(250)), plans(jobs))
	}
	options := randomOptions(r, time.Duration(upTo(float64(time.Hour))))
	var m proto.Message
	switch method = oneOf(r, allocateMethod, fillIdleMethod, whatIfMethod, explainMethod, forecastMethod); method {
	case allocateMethod:
		m = &elastallocv1.AllocateRequest{Snapshot: base.GetSnapshot(), Options: options}
	case fillIdleMethod:
		m = &elastallocv1.FillIdleRequest{Snapshot: base.GetSnapshot()}
	case whatIfMethod:
		m = whatIfs(base)
	case explainMethod:
		m = &elastallocv1.ExplainRequest{Snapshot: base.GetSnapshot(), Options: options}
	case forecastMethod:
		m = &elastallocv1.ForecastRequest{
			Snapshot: base.GetSnapshot(), Options: options, EtaError: r.Float64() / 2, Samples: int32(upTo(100)),
			EveryEvent: r.IntN(2) == 0, Seed: r.Uint64(),
		}
	}
	message = mustMarshal(m)
	switch r.IntN(8) {
	case 0: // Some bytes are damaged.
		for range upTo(20) {
			message[r.IntN(len(message))] ^= byte(1 << r.IntN(8))
		}
	case 1:
		message = snapshotOf(upTo(64<<20), oneOf(r, "\x22\x00", "\xf8\x3f\x01", "\x22\x02\x38\x01", "\x0a\x01x"))()
	case 2:
		message = make([]byte, upTo(16<<20))
		for i := range message {
			message[i] = byte(r.Uint32())
		}
	}
	return method, message
}
