package apiconv

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// forecast returns the forecast for a request in protojson.
func forecast(t *testing.T, text string) (*elastallocv1.ForecastResponse, error) {
	t.Helper()
	return inProcess(t).Forecast(t.Context(), parsed(t, text, new(elastallocv1.ForecastRequest)))
}

// TestForecast calls Forecast with messages of the API.
func TestForecast(t *testing.T) {
	t.Parallel()
	got, err := forecast(t, `{
		"snapshot": {"totalNodes": 2, "jobs": [
			{"id": "a", "remainingEta": "100s", "currentNodes": 2, "minNodes": 2, "etaNodes": 2},
			{"id": "b", "remainingEta": "400s", "minNodes": 2, "etaNodes": 2},
			{"id": "c", "remainingEta": "400s", "minNodes": 4}]},
		"everyEvent": true, "cadence": "60s", "until": "500s"}`)
	if err != nil {
		t.Fatal(err)
	}
	want := parsed(t, `{
		"jobs": [
			{"jobId": "a", "start": "0s", "startLow": "0s", "startHigh": "0s", "end": "100s", "endLow": "100s", "endHigh": "100s", "ended": true},
			{"jobId": "b", "start": "101s", "startLow": "101s", "startHigh": "101s"},
			{"jobId": "c"}],
		"meanTotal": "100s", "meanQueue": "50.5s", "decisions": "10",
		"complete": true, "ifNothingElse": true}`, new(elastallocv1.ForecastResponse))
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}

// TestForecastStalls checks that a response reports if no job makes progress any more.
func TestForecastStalls(t *testing.T) {
	t.Parallel()
	got, err := forecast(t, `{
		"snapshot": {"totalNodes": 2, "jobs": [{"id": "a", "remainingEta": "400s", "weight": 0}]},
		"options": {"admission": "ADMISSION_PREEMPTIVE"}, "everyEvent": true}`)
	if err != nil || !got.GetStalled() || got.GetComplete() {
		t.Errorf("response %v, %v; want one that stalled", got, err)
	}
}

// TestForecastBadFields checks that an error names the fields that the core cannot represent and the invalid
// fields that the core finds.
func TestForecastBadFields(t *testing.T) {
	t.Parallel()
	own := []string{"snapshot.total_nodes", "cadence", "until", "eta_error", "arrivals_per_hour"}
	for horizon, want := range map[string][]string{"{}": own, `{"step": "0s"}`: append([]string{"snapshot.horizon.step"}, own...)} {
		_, err := forecast(t, `{"snapshot": {"totalNodes": -2, "horizon": `+horizon+
			`}, "cadence": "0s", "until": "0s", "etaError": 2, "arrivalsPerHour": "Infinity"}`)
		if diff := cmp.Diff(want, solvertest.InvalidPaths(t, err)); diff != "" {
			t.Errorf("bad fields (-want +got):\n%s", diff)
		}
	}
}
