// Package external makes policies of programs and services available to simulations.
package external

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/lab/catalog"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// Caller makes a decision.
type Caller func(context.Context, *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error)

// CommandPrefix precedes the program in the name of a policy.
const CommandPrefix = "command:"

// ServicePrefix precedes the address of a service in the name of a policy.
const ServicePrefix = "grpc:"

// Policy returns a policy that makes the decisions after every submission and completion, and every 5 minutes, by a
// Caller. open returns the Caller of a run, and a function that is called after the run.
func Policy(name, description string, open func() (Caller, func() error, error)) catalog.Policy {
	return catalog.Policy{
		Terms: sim.Terms{Name: name, EveryEvent: true}, Description: description, Pools: catalog.AllPools,
		Options: solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionStartFirst},
		Open: func() (sim.Allocator, func() error, error) {
			call, end, err := open()
			return allocator(call), end, err
		},
	}
}

// allocator makes the decisions of a run.
type allocator Caller

// Allocate returns the decision of the Caller. A job that is not in its response gets no nodes.
func (a allocator) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	request := apiconv.ToAllocateRequest(apiconv.Request{Snapshot: s, Options: o})
	at := make(map[string]int, len(s.Jobs))
	for i := range s.Jobs {
		at[s.Jobs[i].ID] = i
		if job := request.Snapshot.Jobs[i]; len(s.NodeTypes) == 0 {
			job.AllowedNodes = nil
			for _, size := range s.Jobs[i].LegalSizes() {
				job.AllowedNodes = append(job.AllowedNodes, int32(size))
			}
		}
	}
	start := time.Now()
	response, err := a(ctx, request)
	if err != nil {
		return solver.Decision{}, err
	}
	decision := solver.Decision{Allocations: make([]solver.Allocation, len(s.Jobs))}
	decision.Report.SolveTime = time.Since(start)
	decision.Report.Reason = solver.ReasonHeuristic
	for i := range s.Jobs {
		decision.Allocations[i] = solver.Allocation{JobID: s.Jobs[i].ID, Current: s.Jobs[i].CurrentNodes}
	}
	seen := make(map[string]bool)
	for _, given := range response.GetAllocations() {
		i, known := at[given.GetJobId()]
		switch {
		case !known:
			return solver.Decision{}, fmt.Errorf("the response has the job %q, which is not in the request", given.GetJobId())
		case seen[given.GetJobId()]:
			return solver.Decision{}, fmt.Errorf("the response has the job %q twice", given.GetJobId())
		case given.GetNodes() < 0:
			return solver.Decision{}, fmt.Errorf("the response gives job %q %d nodes; must be at least 0", given.GetJobId(), given.GetNodes())
		}
		seen[given.GetJobId()] = true
		decision.Allocations[i].Nodes, decision.Allocations[i].NodeType = int(given.GetNodes()), given.GetNodeType()
	}
	return decision, nil
}

// FillIdle is not used, because decisions follow every event.
func (allocator) FillIdle(context.Context, *solver.Snapshot) (solver.Decision, error) {
	return solver.Decision{}, errors.New("FillIdle of an external policy")
}

// Command returns a policy whose decisions are made by a program. The program and its arguments are separated by
// spaces. A run is one process, which reads an AllocateRequest in JSON per line and writes an AllocateResponse
// in JSON per line. Its standard error goes to stderr.
func Command(command string, stderr io.Writer) (catalog.Policy, error) {
	words := strings.Fields(command)
	if len(words) == 0 {
		return catalog.Policy{}, fmt.Errorf("%s has no program; must be %sPROGRAM", CommandPrefix, CommandPrefix)
	}
	path, err := exec.LookPath(words[0])
	if err != nil {
		return catalog.Policy{}, err
	}
	open := func() (Caller, func() error, error) {
		process := exec.Command(path, words[1:]...) //nolint:noctx // The user's program. The end of its input stops it.
		process.Stderr = stderr
		in, err := process.StdinPipe()
		if err != nil {
			return nil, nil, err
		}
		out, err := process.StdoutPipe()
		if err != nil {
			return nil, nil, err
		}
		if err := process.Start(); err != nil {
			return nil, nil, err
		}
		p := &program{in: in, out: bufio.NewReader(out), kill: process.Process.Kill}
		return p.call, func() error { return p.end(process.Wait) }, nil
	}
	return Policy(CommandPrefix+command, "the program "+command, open), nil
}

// program is a process that makes the decisions of a run.
type program struct {
	in     io.WriteCloser
	out    *bufio.Reader
	kill   func() error
	failed bool
}

// call writes a request and reads a response. If the context ends, it stops the process.
func (p *program) call(ctx context.Context, request *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	stop := context.AfterFunc(ctx, func() { _ = p.kill() })
	defer stop()
	p.failed = true // Until the response is valid.
	line, err := protojson.Marshal(request)
	if err != nil {
		return nil, err
	}
	// A program that has exited may have written a response, which explains more than the failed write.
	_, writeErr := p.in.Write(append(line, '\n'))
	text, err := p.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the program wrote no response: %w", cmp.Or(writeErr, err))
	}
	response := new(elastallocv1.AllocateResponse)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(text), response); err != nil {
		const shown = 200
		return nil, fmt.Errorf("the program wrote %.*q; must be an AllocateResponse in JSON: %w", shown, text, err)
	}
	p.failed = false
	return response, nil
}

// end stops the process.
func (p *program) end(wait func() error) error {
	if p.failed {
		_ = p.kill()
	}
	_ = p.in.Close()
	if err := wait(); err != nil && !p.failed {
		return fmt.Errorf("the program failed: %w", err)
	}
	return nil
}
