package process

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Page returns what the admin address of the server answers to a GET of a path. It is
// an error if that is not OK.
func (s *Server) Page(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.AdminAddr+path, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s: %s", path, response.Status, text)
	}
	return string(text), nil
}

// Metrics returns every series of /metrics by its name and labels, written as in
// `name{label="value", other="value"}` in the order of the labels' names.
func (s *Server) Metrics(ctx context.Context) (map[string]float64, error) {
	page, err := s.Page(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		return nil, fmt.Errorf("parse /metrics: %w", err)
	}
	samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, slices.Collect(maps.Values(families))...)
	if err != nil {
		return nil, fmt.Errorf("parse /metrics: %w", err)
	}
	series := make(map[string]float64, len(samples))
	for _, sample := range samples {
		series[sample.Metric.String()] = float64(sample.Value)
	}
	return series, nil
}
