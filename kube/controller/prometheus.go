package controller

import (
	"context"
	"fmt"
	"math"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/world"
)

// queryTimeout is how long a query may take.
const queryTimeout = 5 * time.Second

// Querier asks for the remaining times of a pool's jobs.
type Querier interface {
	Query(ctx context.Context, query string, now time.Time) (map[types.NamespacedName]world.Sample, error)
}

// Prometheus asks a Prometheus server.
type Prometheus struct{ api promv1.API }

// NewPrometheus returns a querier of the server at an address.
func NewPrometheus(address string) (*Prometheus, error) {
	client, err := promapi.NewClient(promapi.Config{Address: address})
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	return &Prometheus{api: promv1.NewAPI(client)}, nil
}

// Query returns the answers to an instant query, whose series have the labels namespace
// and job_name. Values that cannot be a remaining time are left out, and so are jobs with
// several series, of which none is known to be the right one.
func (p *Prometheus) Query(ctx context.Context, query string, now time.Time) (map[types.NamespacedName]world.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	value, _, _, err := p.api.Query(ctx, query, now)
	if err != nil {
		return nil, fmt.Errorf("query %q: %w", query, err)
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("query %q: answer is a %s; want a vector with the labels namespace and job_name", query, value.Type())
	}
	samples := make(map[types.NamespacedName]world.Sample)
	series := make(map[types.NamespacedName]int)
	for _, s := range vector {
		name := types.NamespacedName{Namespace: string(s.Metric["namespace"]), Name: string(s.Metric["job_name"])}
		if series[name]++; name.Name == "" || s.Value < 0 || math.IsNaN(float64(s.Value)) || math.IsInf(float64(s.Value), 0) {
			continue
		}
		samples[name] = world.Sample{Value: float64(s.Value), Time: s.Timestamp.Time()}
	}
	for name, n := range series {
		if n > 1 {
			delete(samples, name)
		}
	}
	return samples, nil
}
