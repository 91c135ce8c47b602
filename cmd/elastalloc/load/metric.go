package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/elastalloc/elastalloc/cmd/elastalloc/internal/process"
)

// Metrics of a server's process.
const (
	cpuSeconds    = "process_cpu_seconds_total"
	residentBytes = "process_resident_memory_bytes"
)

// metric returns the value of a counter or gauge without labels that a server shows.
func metric(ctx context.Context, server *process.Server, name string) (float64, error) {
	page, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+server.AdminAddr+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(page)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return 0, err
	}
	if series := families[name].GetMetric(); len(series) == 1 {
		return series[0].GetCounter().GetValue() + series[0].GetGauge().GetValue(), nil
	}
	return 0, fmt.Errorf("the server has no metric %s", name)
}
