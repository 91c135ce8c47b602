package main

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
)

// allocateError turns the status an allocator refused a request with into an
// error of this program: a bad request is bad input, anything else is a failure.
func allocateError(err error) error {
	refusal := status.Convert(err)
	if refusal.Code() != codes.InvalidArgument {
		return cli.Failed(fmt.Errorf("%s: %s", refusal.Code(), refusal.Message()))
	}
	var lines []string
	for _, detail := range refusal.Details() {
		if request, ok := detail.(*errdetails.BadRequest); ok {
			for _, field := range request.GetFieldViolations() {
				line := "\n  " + field.GetDescription()
				if field.GetField() != "" {
					line = "\n  " + field.GetField() + ": " + field.GetDescription()
				}
				lines = append(lines, line)
			}
		}
	}
	if len(lines) == 0 {
		return errors.New(refusal.Message())
	}
	return errors.New("the request is invalid" + strings.Join(lines, ""))
}
