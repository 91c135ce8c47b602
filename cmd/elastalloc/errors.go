package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/internal/text"
	"github.com/elastalloc/elastalloc/solver"
)

// requestError turns an allocator's error, if any, into one of this program: a bad request is
// bad input, anything else is a failure. A request that is decided in this process has
// errors of the core, one at a server those of gRPC.
func (f *decideFlags) requestError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return cli.ErrInterrupted
	}
	var lines []string
	var invalid *solver.InvalidError
	if errors.As(err, &invalid) {
		for _, v := range invalid.Violations {
			lines = append(lines, "\n  "+v.Path+": "+v.Description)
		}
		return errors.New("the request is invalid" + strings.Join(lines, ""))
	}
	refusal, remote := status.FromError(err)
	if !remote {
		return cli.Failed(err)
	}
	message := text.Printable(refusal.Message())
	switch refusal.Code() {
	case codes.InvalidArgument:
	case codes.Unavailable:
		return cli.Failed(f.remote.unreachable(ctx, message))
	case codes.DeadlineExceeded:
		return cli.Failed(fmt.Errorf("%s gave no answer in time: %s", f.remote.address, message))
	default:
		return cli.Failed(fmt.Errorf("%s: %s", refusal.Code(), message))
	}
	for _, detail := range refusal.Details() {
		if request, ok := detail.(*errdetails.BadRequest); ok {
			for _, field := range request.GetFieldViolations() {
				line := field.GetDescription()
				if field.GetField() != "" {
					line = field.GetField() + ": " + line
				}
				lines = append(lines, "\n  "+text.Printable(line))
			}
		}
	}
	if len(lines) == 0 {
		return errors.New(message)
	}
	return errors.New("the request is invalid" + strings.Join(lines, ""))
}
