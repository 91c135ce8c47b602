package controller

import (
	"context"
	"fmt"
	"maps"
	"math"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/world"
)

// queryTimeout is the timeout of a query.
const queryTimeout = 5 * time.Second

// Querier queries the remaining times of a pool's jobs.
type Querier interface {
	Query(ctx context.Context, query string, now time.Time) (map[types.NamespacedName]world.Sample, error)
}

// Prometheus is a Querier that uses a Prometheus server.
type Prometheus struct{ api promv1.API }

// NewPrometheus returns a querier for the server at an address. It reads the files of credentials now, and again
// when they change.
func NewPrometheus(address string, http promconfig.HTTPClientConfig) (*Prometheus, error) {
	transport, err := promconfig.NewRoundTripperFromConfig(http, "elastalloc-controller")
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	client, err := promapi.NewClient(promapi.Config{Address: address, RoundTripper: transport})
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	return &Prometheus{api: promv1.NewAPI(client)}, nil
}

// Query returns the results of an instant query by job. The series must have the labels namespace and
// job_name. Values that are negative or not finite and jobs with several series are omitted. The time of a
// sample is the last scrape of its series if the query only selects series, and now if it computes values.
func (p *Prometheus) Query(ctx context.Context, query string, now time.Time) (map[types.NamespacedName]world.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	values, err := p.vector(ctx, query, now)
	if err != nil {
		return nil, err
	}
	// The result of an instant query has the time of the query, so timestamp() is needed to get the time of the
	// scrape. The line break ends a comment in the query.
	scrapes, err := p.vector(ctx, "timestamp("+query+"\n)", now)
	if err != nil {
		return nil, err
	}
	samples := make(map[types.NamespacedName]world.Sample)
	for name, value := range values {
		if at := scrapes[name]; value >= 0 && !math.IsInf(value, 0) && at > 0 {
			samples[name] = world.Sample{Value: value, Time: time.UnixMilli(int64(1000 * at))}
		}
	}
	return samples, nil
}

// vector returns the values of an instant vector by job. It omits jobs with several values.
func (p *Prometheus) vector(ctx context.Context, query string, now time.Time) (map[types.NamespacedName]float64, error) {
	result, _, _, err := p.api.Query(ctx, query, now)
	if err != nil {
		return nil, fmt.Errorf("query %q: %w", query, err)
	}
	vector, ok := result.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("query %q: result is a %s; must be a vector with the labels namespace and job_name", query, result.Type())
	}
	values := make(map[types.NamespacedName]float64, len(vector))
	series := make(map[types.NamespacedName]int, len(vector))
	for _, s := range vector {
		name := types.NamespacedName{Namespace: string(s.Metric["namespace"]), Name: string(s.Metric["job_name"])}
		if name.Namespace != "" && name.Name != "" {
			values[name] = float64(s.Value)
			series[name]++
		}
	}
	if len(vector) > 0 && len(values) == 0 {
		return nil, fmt.Errorf("query %q: series must have the labels namespace and job_name; the first has %v", query, vector[0].Metric)
	}
	maps.DeleteFunc(values, func(name types.NamespacedName, _ float64) bool { return series[name] > 1 })
	return values, nil
}
