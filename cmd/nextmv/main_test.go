package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/nextmv-io/sdk/golden"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// program is what golden.Setup builds.
const program = "./main.exe"

func TestMain(m *testing.M) {
	golden.Setup()
	status := m.Run()
	golden.Teardown()
	os.Exit(status)
}

// config returns how to run the app and compare its output. The budget is ample so
// that no time limit ends a search.
func config(extension string, attempts int, args ...string) golden.Config {
	transient := []golden.TransientField{
		{Key: ".version.sdk", Replacement: golden.StableVersion},
		{Key: ".statistics.run.duration", Replacement: golden.StableFloat},
		{Key: ".statistics.result.duration", Replacement: golden.StableFloat},
		{Key: ".solutions[0].report.solveTime", Replacement: golden.StableDuration},
	}
	for i := range attempts {
		key := fmt.Sprintf(".solutions[0].report.attempts[%d].duration", i)
		transient = append(transient, golden.TransientField{Key: key, Replacement: golden.StableDuration})
	}
	// The last attempt succeeded. The detail of its search is not stable.
	detail := fmt.Sprintf(".solutions[0].report.attempts[%d].detail", attempts-1)
	transient = append(transient, golden.TransientField{Key: detail, Replacement: golden.StableText})
	return golden.Config{
		Args:                append([]string{"-solve.budget=1m"}, args...),
		Envs:                [][2]string{{"ELASTALLOC_CBC", "/nonexistent/cbc"}},
		GoldenExtension:     extension,
		VerifyFunc:          verify,
		OutputProcessConfig: golden.OutputProcessConfig{TransientFields: transient},
		Thresholds:          golden.Thresholds{Float: 1e-9},
	}
}

// TestGolden compares the app's output with golden files; go test -update rewrites
// them.
func TestGolden(t *testing.T) {
	golden.FileTest(t, "testdata/queue.json", config(".golden", 1))
	golden.FileTest(t, "testdata/queue.json", config(".options.golden", 1,
		"-solve.backend=exact", "-solve.formulation=paper", "-solve.gap=1e-12", "-solve.admission=preemptive", "-solve.plan"))
	golden.FileTest(t, "testdata/queue.json", config(".fallback.golden", 2, "-solve.backend=cbc"))
}

// TestUsage compares the app's help, which names its options, with a golden file.
func TestUsage(t *testing.T) {
	golden.BashTest(t, "testdata", golden.BashConfig{DisplayStdout: true, DisplayStderr: true})
}

// verify checks that an output has one solution, with an allocation for each job of the
// request, and with correct statistics.
func verify(input, output []byte) error {
	request, response := new(elastallocv1.AllocateRequest), new(elastallocv1.AllocateResponse)
	var parsed struct {
		Solutions  []json.RawMessage `json:"solutions"`
		Statistics struct {
			Schema string `json:"schema"`
			Run    struct {
				Duration float64 `json:"duration"`
			} `json:"run"`
			Result struct {
				Duration float64          `json:"duration"`
				Value    float64          `json:"value"`
				Custom   resultStatistics `json:"custom"`
			} `json:"result"`
		} `json:"statistics"`
	}
	if err := errors.Join(protojson.Unmarshal(input, request), json.Unmarshal(output, &parsed)); err != nil {
		return err
	}
	if len(parsed.Solutions) != 1 {
		return fmt.Errorf("%d solutions; want one", len(parsed.Solutions))
	}
	if err := protojson.Unmarshal(parsed.Solutions[0], response); err != nil {
		return err
	}
	if got, want := len(response.GetAllocations()), len(request.GetSnapshot().GetJobs()); got != want {
		return fmt.Errorf("allocations for %d jobs; want %d", got, want)
	}
	report, statistics := response.GetReport(), parsed.Statistics
	if statistics.Schema != "v1" || statistics.Result.Value != report.GetObjective() ||
		float64(statistics.Result.Custom.Bound) != report.GetBound() ||
		statistics.Result.Duration != report.GetSolveTime().AsDuration().Seconds() ||
		statistics.Run.Duration < statistics.Result.Duration {
		return fmt.Errorf("the statistics %+v are not those of %v", statistics, report)
	}
	return nil
}

// TestSolvers checks the output with the real solvers.
func TestSolvers(t *testing.T) {
	for _, name := range []solver.BackendName{solver.BackendCBC, solver.BackendHiGHS} {
		t.Run(string(name), func(t *testing.T) {
			command := exec.CommandContext(t.Context(), program, "-runner.input.path=testdata/queue.json",
				"-solve.budget=1m", "-solve.formulation=paper", "-solve.backend="+string(name))
			command.Env = append(os.Environ(), "ELASTALLOC_"+strings.ToUpper(string(name))+"="+solvertest.Program(t, name))
			output, err := command.Output()
			if err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf(`"attempts":[{"backend":"BACKEND_%s","outcome":"OUTCOME_ANSWERED"`, strings.ToUpper(string(name)))
			if !bytes.Contains(output, []byte(want)) {
				t.Errorf("the output is %s; want it to have %s", output, want)
			}
		})
	}
}

// TestEnumNames checks that options accept every form of a name that requests may have.
func TestEnumNames(t *testing.T) {
	for _, name := range []string{"total-time", "TOTAL_TIME", "OBJECTIVE_TOTAL_TIME"} {
		var o options
		o.Solve.Objective = name
		request := new(elastallocv1.AllocateRequest)
		if err := o.apply(request); err != nil || request.GetOptions().GetObjective() != elastallocv1.Objective_OBJECTIVE_TOTAL_TIME {
			t.Errorf("%q sets %v, error %v; want OBJECTIVE_TOTAL_TIME", name, request.GetOptions().GetObjective(), err)
		}
	}
}

// TestErrors checks that errors name the invalid input or option, and that there is no
// output then.
func TestErrors(t *testing.T) {
	for name, test := range map[string]struct {
		input string
		args  []string
		want  []string
	}{
		"nothing":       {want: []string{"parse AllocateRequest: the input is empty"}},
		"unknown field": {input: `{"snapshots": {}}`, want: []string{`unknown field "snapshots"`}},
		"no time": {
			input: `{"snapshot": {"totalNodes": 1, "jobs": [{"id": "a", "remainingEta": "3 hours"}]}}`,
			want:  []string{`value "3 hours"; remainingEta must be a time with its unit, such as "10800s", "90m" or "3h"`},
		},
		"bad fields": {
			input: `{"snapshot": {"totalNodes": -1, "jobs": [{"id": "a"}]}, "options": {"relativeGap": -1}}`,
			want:  []string{"snapshot.total_nodes: ", "snapshot.jobs[0].remaining_eta: ", "options.relative_gap: "},
		},
		"bad options": {
			input: `{"snapshot": {}}`, args: []string{"-solve.backend=gurobi"},
			want: []string{`option solve.backend: is "gurobi"; must be one of exact, cbc, highs, greedy`},
		},
		"bad budget":     {input: `{"snapshot": {}}`, args: []string{"-solve.budget=-1s"}, want: []string{"options.time_budget: "}},
		"missing file":   {args: []string{"-runner.input.path=testdata/missing.json"}, want: []string{"testdata/missing.json"}},
		"unknown option": {args: []string{"-solve.bckend=exact"}, want: []string{"-solve.bckend"}},
		"bad duration":   {args: []string{"-solve.budget=soon"}, want: []string{"-solve.budget"}},
		"bad output":     {input: `{"snapshot": {}}`, args: []string{"-runner.output.solutions=both"}, want: []string{"solutions must be"}},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			command := exec.CommandContext(t.Context(), program, test.args...)
			command.Stdin, command.Stdout, command.Stderr = strings.NewReader(test.input), &stdout, &stderr
			var exit *exec.ExitError
			if err := command.Run(); !errors.As(err, &exit) {
				t.Errorf("the app exited with %v; want an exit status", err)
			}
			for _, want := range test.want {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("stderr is %q; want it to contain %q", &stderr, want)
				}
			}
			if stdout.Len() > 0 {
				t.Errorf("there is output in addition to an error: %s", &stdout)
			}
		})
	}
}

// TestUsageNamesAll checks that the usage of an option names every value of its enum.
func TestUsageNamesAll(t *testing.T) {
	fields := reflect.TypeFor[options]().Field(0).Type
	for name, values := range map[string][]string{
		"Backend": apiconv.Names[elastallocv1.Backend](), "Formulation": apiconv.Names[elastallocv1.Formulation](),
		"Objective": apiconv.Names[elastallocv1.Objective](), "Admission": apiconv.Names[elastallocv1.Admission](),
	} {
		field, _ := fields.FieldByName(name)
		last := len(values) - 1
		want := ": " + strings.TrimPrefix(strings.Join(values[:last], ", ")+" or "+values[last], ", ")
		if !strings.HasSuffix(field.Tag.Get("usage"), want) {
			t.Errorf("the usage of %s is %q; want it to end with %q", name, field.Tag.Get("usage"), want)
		}
	}
}
