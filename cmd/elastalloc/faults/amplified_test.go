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

// amplified are the sieges by short requests, whose answers or work are many times as large.
// They are laid to a server of the size that the chart gives it. Attacks of the same kind that
// are no calls to a server have tests of their own:
//
//	a dangling link in the folder of --record           TestDanglingLinkIsDeleted
//	texts, field names, callers that drive a terminal   TestHostileTextsInErrors, TestHostileAnswers
//	cells of CSV files that are formulas                TestCell, TestJobsCSV, TestShadow (lab/replay)
//	a server that tells absurd durations                TestHostileAnswers
//	an answer of 132 MB that takes 11 GB in a client    TestHostileResponse
//	a frozen server and long budgets                    TestFrozenServerIsLeft, TestPythonClient
//	recordings of long lines, of ETAs of years          TestLongLines, TestShadow (lab/replay)
//	a client's certificate with a name of another kind  TestNamesOfClients
//	a page that asks the controller as another host     TestAdmin (kube/controller)
//	Forecasts without an end, or that keep all          TestForecastIsCutByWork, TestFuturesKeepNoSimulations
//	time under the lock (41 ms at 1,024 waiting calls)  BenchmarkSlotsLocked
func amplified() map[string]siege {
	all := map[string]siege{
		"ids of 300 kB, waited for":           {lay: sendAgain(4, allocateMethod, func() []byte { return mustMarshal(behind(9990, 300_000)) }), before: "one call killed the server"},
		"ids of 256 bytes, waited for":        {lay: sendAgain(4, allocateMethod, func() []byte { return mustMarshal(behind(9990, 256)) })},
		"idle fills, ids of 30 kB":            {lay: sendAgain(4, fillIdleMethod, func() []byte { return mustMarshal(behind(9990, 30_000)) }), before: "an answer had 300 MB"},
		"what-ifs, ids of 10 kB":              {lay: sendAgain(8, whatIfMethod, func() []byte { return mustMarshal(whatIfs(behind(250, 10_000))) }), before: "eight calls killed the server"},
		"what-ifs, ids of 256 bytes":          {lay: sendAgain(8, whatIfMethod, func() []byte { return mustMarshal(whatIfs(behind(250, 256))) })},
		"what-ifs, a snapshot's id of 8 MB":   {lay: sendAgain(8, whatIfMethod, func() []byte { return mustMarshal(whatIfs(named(strings.Repeat("x", 8<<20)))) }), before: "a call took 568 MB"},
		"what-ifs, 10,000 groups of 1 kB":     {lay: sendAgain(8, whatIfMethod, func() []byte { return mustMarshal(whatIfs(inGroups(10_000, 1000))) }), before: "a call took 781 MB"},
		"what-ifs, an id quoted in warnings":  {lay: sendAgain(8, whatIfMethod, func() []byte { return mustMarshal(whatIfs(quoted(1 << 20))) }), before: "a call took 769 MB"},
		"10,000 groups on the status page":    {lay: sendAgain(4, allocateMethod, func() []byte { return mustMarshal(inGroups(10_000, 256)) }), before: "917 MB were kept"},
		"600 idle fills of 400 jobs":          {lay: onAddresses(idleFills(200), loopback, loopback, loopback), before: "18 to 33 of 40 honest calls failed"},
		"2,560 idle fills of 400 jobs":        {lay: onAddresses(idleFills(256), slices.Repeat([]string{loopback}, 10)...), before: "36 and 38 of 40 honest calls failed"},
		"forecasts of 100 samples, at once":   {lay: sendAgain(2, forecastMethod, func() []byte { return mustMarshal(shortJobs(10_000)) }), before: "two calls killed the server"},
		"forecasts of 37 bytes":               {lay: sendAgain(4, forecastMethod, func() []byte { return mustMarshal(everySecond()) }), before: "a call took 381 MB, 27 of 75 honest calls were greedy's"},
		"forecasts by a solver that is gone":  {lay: sendAgain(4, forecastMethod, func() []byte { return mustMarshal(byMissing()) }), before: "INTERNAL, or complete without a decision"},
		"plans, recorded":                     {lay: sendAgain(6, allocateMethod, func() []byte { return mustMarshal(plans(9900)) }), recorded: true, before: "144 calls killed the server"},
		"sizes that add up to all numbers":    {lay: onAddresses(askUneven(0), addresses(8)...), before: "622 MiB were held"},
		"the same, of eight node types":       {lay: onAddresses(askUneven(8), addresses(8)...), before: "459 MiB were held"},
		"what-ifs of 40 callers":              {lay: onAddresses(askWhatIf, addresses(40)...), before: "36 of 40 honest calls were greedy's"},
		"forecasts of 40 callers":             {lay: onAddresses(askForecast, addresses(40)...), before: "30 of 40 honest calls were greedy's"},
		"explanations of 40 callers":          {lay: onAddresses(askExplain, addresses(40)...), before: "26 of 40 honest calls were greedy's"},
		"questions and audits of all answers": {lay: onAddresses(askQuestions, addresses(42)...), audited: true},
		"audits of uneven sizes":              {lay: onAddresses(askUneven(0), addresses(8)...), audited: true},
		"requests of all sizes, of 3 callers": {lay: onAddresses(askAtRandom, addresses(3)...)},
	}
	for name, siege := range all {
		siege.chart = true
		all[name] = siege
	}
	return all
}

// allSieges are those of both files.
func allSieges() map[string]siege {
	all := sieges()
	maps.Copy(all, amplified())
	return all
}

// behind returns a request whose first job has a long id and no room, and keeps all others
// waiting.
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
	return &elastallocv1.AllocateRequest{Snapshot: s}
}

func named(id string) *elastallocv1.AllocateRequest {
	request := drawnRequest(10, 16, 1)
	request.Snapshot.Id = id
	return request
}

// quoted returns a request whose only job never fits, so that a warning quotes its id.
func quoted(idBytes int) *elastallocv1.AllocateRequest {
	return &elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{TotalNodes: 1, Jobs: []*elastallocv1.Job{{
		Id: strings.Repeat("\x01", idBytes), RemainingEta: durationpb.New(time.Hour), MinNodes: new(int32(8)),
	}}}}
}

// inGroups returns a request of jobs that are each in a group of their own.
func inGroups(groups, idBytes int) *elastallocv1.AllocateRequest {
	request := &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{TotalNodes: 10},
		Options:  &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME, Backend: elastallocv1.Backend_BACKEND_GREEDY},
	}
	for n := range groups {
		id := fmt.Sprintf("%0*d", idBytes, n)
		request.Snapshot.Groups = append(request.Snapshot.Groups, &elastallocv1.Group{Id: id})
	}
	request.Snapshot.Jobs = []*elastallocv1.Job{{Id: "a", RemainingEta: durationpb.New(time.Hour), GroupId: request.GetSnapshot().GetGroups()[0].GetId()}}
	return request
}

// whatIfs asks for as many variations of a request as there may be.
func whatIfs(base *elastallocv1.AllocateRequest) *elastallocv1.WhatIfRequest {
	request := &elastallocv1.WhatIfRequest{Snapshot: base.GetSnapshot(), Options: base.GetOptions()}
	for n := range 64 {
		request.Scenarios = append(request.Scenarios, &elastallocv1.Scenario{TotalNodes: new(int32(1 + n%2))})
	}
	return request
}

// shortJobs asks for as many samples as there may be of jobs of a second each.
func shortJobs(jobs int) *elastallocv1.ForecastRequest {
	request := &elastallocv1.ForecastRequest{
		Snapshot: &elastallocv1.Snapshot{TotalNodes: 10_000}, EtaError: 0.5, Samples: 100,
		Options: &elastallocv1.AllocateOptions{Backend: elastallocv1.Backend_BACKEND_GREEDY},
	}
	for n := range jobs {
		request.Snapshot.Jobs = append(request.Snapshot.Jobs, &elastallocv1.Job{Id: fmt.Sprint(n), RemainingEta: durationpb.New(time.Second)})
	}
	return request
}

// everySecond asks for ten years, decided every second.
func everySecond() *elastallocv1.ForecastRequest {
	return &elastallocv1.ForecastRequest{
		Snapshot: &elastallocv1.Snapshot{TotalNodes: 1, Jobs: []*elastallocv1.Job{{Id: "a", RemainingEta: durationpb.New(3650 * 24 * time.Hour)}}},
		Cadence:  durationpb.New(time.Second), Until: durationpb.New(3650 * 24 * time.Hour),
	}
}

// byMissing asks a backend that a server lacks by default.
func byMissing() *elastallocv1.ForecastRequest {
	return &elastallocv1.ForecastRequest{
		Snapshot: drawnRequest(10, 16, 1).GetSnapshot(), EtaError: 0.2,
		Options: &elastallocv1.AllocateOptions{Backend: elastallocv1.Backend_BACKEND_CBC},
	}
}

// plans asks for the plan of as many jobs over as many steps as there may be.
func plans(jobs int) *elastallocv1.AllocateRequest {
	request := &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{TotalNodes: int32(jobs), Horizon: &elastallocv1.Horizon{Steps: new(int32(24))}},
		Options:  &elastallocv1.AllocateOptions{Backend: elastallocv1.Backend_BACKEND_GREEDY, IncludePlan: true},
	}
	for n := range jobs {
		request.Snapshot.Jobs = append(request.Snapshot.Jobs, &elastallocv1.Job{Id: fmt.Sprint(n), RemainingEta: durationpb.New(2 * time.Hour)})
	}
	return request
}

// addresses returns addresses of the loopback network that are not the honest caller's.
func addresses(count int) (all []string) {
	for n := range count {
		all = append(all, fmt.Sprintf("127.0.0.%d", 3+n))
	}
	return all
}

// onAddresses lets a caller act from each address, over a connection of its own.
func onAddresses(act func(ctx context.Context, b *besieger, c *grpc.ClientConn, caller int), from ...string) func(context.Context, *besieger) {
	return func(ctx context.Context, b *besieger) {
		for n, address := range from {
			act(ctx, b, b.client(address), n)
		}
	}
}

func idleFills(atOnce int) func(context.Context, *besieger, *grpc.ClientConn, int) {
	return func(ctx context.Context, b *besieger, c *grpc.ClientConn, caller int) {
		wire := mustMarshal(&elastallocv1.FillIdleRequest{Snapshot: drawnRequest(400, 600, uint64(caller)).GetSnapshot()})
		b.again(ctx, atOnce, func(ctx context.Context, _ int) { invoke(ctx, c, fillIdleMethod, wire) })
	}
}

// askUneven asks for decisions and their reasons whose searches have tables as large as may be: of
// jobs with 32 uneven sizes each, on a number of node types.
func askUneven(types int) func(context.Context, *besieger, *grpc.ClientConn, int) {
	return func(ctx context.Context, b *besieger, c *grpc.ClientConn, caller int) {
		r := rand.New(rand.NewPCG(uint64(caller), 2))
		const most = 300_000
		base := drawnRequest(40+40*caller, 70*most, uint64(caller))
		base.Options = &elastallocv1.AllocateOptions{TimeBudget: durationpb.New(time.Hour), Admission: elastallocv1.Admission_ADMISSION_OPTIMIZED, Certificate: true}
		if types > 0 {
			base.Snapshot.TotalNodes, base.Options.Objective = 0, elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
		}
		for n := range types {
			base.Snapshot.NodeTypes = append(base.Snapshot.NodeTypes, &elastallocv1.NodeType{Id: fmt.Sprint(n), Nodes: 48, Speed: proto.Float64(0.5 + r.Float64())})
		}
		for _, job := range base.GetSnapshot().GetJobs() {
			table, size, speed, step := &elastallocv1.SpeedTable{}, int32(0), 0.0, int32(most)
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

func askWhatIf(ctx context.Context, b *besieger, c *grpc.ClientConn, caller int) {
	wire := mustMarshal(whatIfs(drawnRequest(40, 70, uint64(caller))))
	b.again(ctx, 1, func(ctx context.Context, _ int) { invoke(ctx, c, whatIfMethod, wire) })
}

func askForecast(ctx context.Context, b *besieger, c *grpc.ClientConn, caller int) {
	wire := mustMarshal(&elastallocv1.ForecastRequest{Snapshot: drawnRequest(40, 70, uint64(caller)).GetSnapshot(), EtaError: 0.2, Samples: 100})
	b.again(ctx, 1, func(ctx context.Context, _ int) { invoke(ctx, c, forecastMethod, wire) })
}

func askExplain(ctx context.Context, b *besieger, c *grpc.ClientConn, caller int) {
	wire := mustMarshal(&elastallocv1.ExplainRequest{Snapshot: drawnRequest(40, 70, uint64(caller)).GetSnapshot()})
	b.again(ctx, 1, func(ctx context.Context, _ int) { invoke(ctx, c, explainMethod, wire) })
}

// askQuestions asks questions, of which every third caller's are of the same kind.
func askQuestions(ctx context.Context, b *besieger, c *grpc.ClientConn, caller int) {
	ask := []func(context.Context, *besieger, *grpc.ClientConn, int){askWhatIf, askForecast, askExplain}
	ask[caller%len(ask)](ctx, b, c, caller)
}

// askAtRandom sends requests of any size of all methods: legal ones, ones with broken bytes,
// and garbage, some of which it gives up.
func askAtRandom(ctx context.Context, b *besieger, c *grpc.ClientConn, caller int) {
	const atOnce = 8
	var draws []*rand.Rand
	for n := range atOnce {
		draws = append(draws, rand.New(rand.NewPCG(uint64(caller), uint64(n))))
	}
	b.again(ctx, atOnce, func(ctx context.Context, n int) {
		r := draws[n]
		method, message := drawAny(r)
		if r.IntN(4) == 0 {
			limited, cancel := context.WithTimeout(ctx, time.Duration(r.Int64N(int64(time.Second))))
			defer cancel()
			ctx = limited
		}
		invoke(ctx, c, method, message)
	})
}

// drawAny draws a method and a message for it, half of them small, some as large as may be.
func drawAny(r *rand.Rand) (method string, message []byte) {
	upTo := func(most float64) int { return int(math.Exp(r.Float64() * math.Log(most))) }
	jobs := upTo(10_000)
	base := drawnRequest(jobs, upTo(20_000), r.Uint64())
	if r.IntN(4) == 0 {
		base = oneOf(r, behind(jobs, upTo(300)), inGroups(jobs, 5+upTo(250)), plans(jobs))
	}
	options := drawOptions(r, time.Duration(upTo(float64(time.Hour))))
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
	case 0: // Some bytes are broken.
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
