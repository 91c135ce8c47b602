// Command shadow runs elastalloc beside a scheduler and acts on none of its answers: it
// tells the server at every moment what the cluster is like, and goes on as it always did.
// What a server with --record keeps of that, elastalloc-lab replay then sets beside what
// other policies would have made of the same jobs. See docs/shadow.md.
//
// The cluster is a toy, so that the example runs anywhere: jobs of a minute or so arrive and
// start in order on the nodes they ask for. In a scheduler of your own it is ask that counts.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/client"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

const (
	nodes = 16
	tick  = 250 * time.Millisecond
)

// job is a job of the toy cluster.
type job struct {
	id                 string
	asked, held        int
	submitted, started time.Time
	duration           time.Duration // on the nodes it asks for
}

func main() {
	server := flag.String("server", "localhost:50051", "the server")
	span := flag.Duration("for", 2*time.Minute, "how long to run")
	mean := flag.Duration("mean", 35*time.Second, "how long its jobs take on average")
	flag.Parse()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *server, *span, *mean, logger)
	stop()
	if err != nil {
		logger.Error("shadow", "error", err)
		os.Exit(1)
	}
}

// run runs the cluster for a time, or until ctx ends.
func run(ctx context.Context, server string, span, mean time.Duration, logger *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	c, err := client.New(server)
	if err != nil {
		return err
	}
	defer c.Close()
	random := rand.New(rand.NewPCG(1, 1))
	var jobs []*job
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var lastAsked time.Time
	for n := 0; ; {
		now := time.Now()
		changed := false
		if random.Float64()*float64(mean) < 6.5*float64(tick) { // one every mean / 6.5: nine tenths of the nodes
			n++
			jobs = append(jobs, &job{
				id: fmt.Sprintf("job-%03d", n), asked: 1 << random.IntN(3), submitted: now,
				duration: time.Duration((0.3 + 0.7*random.ExpFloat64()) * float64(mean)),
			})
			changed = true
		}
		jobs, changed = ownScheduler(jobs, now, changed)
		if changed || now.Sub(lastAsked) >= mean/7 {
			ask(ctx, c, jobs, now, mean, logger)
			lastAsked = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// ownScheduler is the scheduler that there was before: jobs start in order as soon as there
// are as many nodes as they ask for, and keep them.
func ownScheduler(jobs []*job, now time.Time, changed bool) ([]*job, bool) {
	var left []*job
	idle := nodes
	for _, j := range jobs {
		if j.held > 0 && now.Sub(j.started) >= j.duration {
			changed = true
			continue
		}
		left = append(left, j)
		idle -= j.held
	}
	for _, j := range left {
		if j.held > 0 {
			continue
		}
		if j.asked > idle {
			break
		}
		j.held, j.started, changed = j.asked, now, true
		idle -= j.asked
	}
	return left, changed
}

// ask tells the server what the cluster is like. The answer is logged and not acted on, and
// neither an error nor a slow server is any of the scheduler's business.
func ask(ctx context.Context, c *client.Client, jobs []*job, now time.Time, mean time.Duration, logger *slog.Logger) {
	snapshot := &elastallocv1.Snapshot{
		Id: now.UTC().Format(time.RFC3339), TotalNodes: nodes,
		Horizon: &elastallocv1.Horizon{Step: durationpb.New(mean / 7)},
	}
	for _, j := range jobs {
		told := &elastallocv1.Job{
			Id: j.id, CurrentNodes: int32(j.held),
			// What is left on the nodes it asks for, and those nodes: the server converts it.
			RemainingEta: durationpb.New(j.duration), EtaNodes: new(int32(j.asked)),
			WaitingTime: durationpb.New(now.Sub(j.submitted)),
			// What a change of its nodes would cost, if anybody made one.
			RestartTime: durationpb.New(mean / 20),
		}
		if j.held > 0 {
			told.RemainingEta = durationpb.New(max(time.Millisecond, j.duration-now.Sub(j.started)))
			told.TrainingTime = durationpb.New(now.Sub(j.started))
			told.WaitingTime = durationpb.New(j.started.Sub(j.submitted))
		}
		snapshot.Jobs = append(snapshot.Jobs, told)
	}
	response, err := c.Allocate(ctx, &elastallocv1.AllocateRequest{
		Snapshot: snapshot,
		Options:  &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME},
	})
	if err != nil {
		logger.Warn("no advice", "error", err)
		return
	}
	for _, a := range response.GetAllocations() {
		if a.GetChange() != elastallocv1.Change_CHANGE_KEEP && a.GetChange() != elastallocv1.Change_CHANGE_WAIT {
			logger.Info("would have", "job", a.GetJobId(), "nodes", a.GetNodes(), "change", a.GetChange())
		}
	}
}
