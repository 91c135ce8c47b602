package main

import (
	"context"
	"fmt"

	"github.com/elastalloc/elastalloc/cmd/elastalloc/internal/process"
)

// Metrics of a server's process.
const (
	cpuSeconds    = "process_cpu_seconds_total"
	residentBytes = "process_resident_memory_bytes"
)

// metric returns the value of a series that a server shows.
func metric(ctx context.Context, server *process.Server, name string) (float64, error) {
	shown, err := server.Metrics(ctx)
	if err != nil {
		return 0, err
	}
	value, found := shown[name]
	if !found {
		return 0, fmt.Errorf("the server has no metric %s", name)
	}
	return value, nil
}
