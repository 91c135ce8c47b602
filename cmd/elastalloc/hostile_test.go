package main

import (
	"context"
	"math"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// hostile contains texts with control sequences for terminals, and other unusual texts.
var hostile = []string{"a", "", "\x1b[2J\x1b]0;title\a", "\u009b31m", "a\u202eb", "line\r\n\x00", "\xff", strings.Repeat("long ", 50)}

// controlCharacter returns the first control character of a text, other than a newline.
func controlCharacter(text string) (rune, bool) {
	for _, r := range text {
		if r != '\n' && r != unicode.ReplacementChar && !unicode.IsPrint(r) {
			return r, true
		}
	}
	return 0, false
}

// fillMessage fills a message with random values of its fields.
func fillMessage(t *rapid.T, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case !rapid.Bool().Draw(t, field.TextName()):
		case field.IsMap():
		case field.IsList():
			list := m.Mutable(field).List()
			for range rapid.IntRange(1, 3).Draw(t, "length") {
				if field.Message() != nil {
					fillMessage(t, list.AppendMutable().Message())
				} else {
					list.Append(randomValue(t, field))
				}
			}
		case field.Message() != nil:
			fillMessage(t, m.Mutable(field).Message())
		default:
			m.Set(field, randomValue(t, field))
		}
	}
}

// randomValue returns a random value of a field, often an extreme one.
func randomValue(t *rapid.T, field protoreflect.FieldDescriptor) protoreflect.Value {
	whole := rapid.SampledFrom([]int64{0, 1, -1, 3, 1e9, math.MaxInt64, math.MinInt64}).Draw(t, "whole")
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.SampledFrom(hostile).Draw(t, "text"))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.SampledFrom([]float64{0, 0.5, 1, -1, 1e308, math.Inf(1), math.Inf(-1), math.NaN()}).Draw(t,
			"number"))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(whole != 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(whole))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(whole))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(whole))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(whole)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(whole))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("\x1b"))
	default:
		t.Fatalf("no values of kind %v", field.Kind())
		return protoreflect.Value{}
	}
}

// randomize fills a message with random values and returns it.
func randomize[M proto.Message](t *rapid.T, m M) M {
	fillMessage(t, m.ProtoReflect())
	return m
}

// TestHostileResponses formats random responses of a server. The program does not crash, and the text has no control
// characters.
func TestHostileResponses(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		request := randomize(t, &elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{TotalNodes: 4}})
		snapshot := request.GetSnapshot()
		whatIf := randomize(t, &elastallocv1.WhatIfRequest{Snapshot: snapshot})
		snapshot.Groups = nil // Groups of requests have no cycle.
		jobs := func() (of []*elastallocv1.Allocation) {
			for range snapshot.GetJobs() {
				of = append(of, randomize(t, new(elastallocv1.Allocation)))
			}
			return of
		}
		screen := cli.Screen{Width: rapid.SampledFrom([]int{0, 1, 10, 80}).Draw(t, "width")}
		response := randomize(t, new(elastallocv1.WhatIfResponse))
		whatIf.Scenarios = whatIf.GetScenarios()[:min(len(whatIf.GetScenarios()), len(response.GetResults()))]
		response.Results = response.GetResults()[:len(whatIf.GetScenarios())]
		w := newWhatIfView(whatIf, response)
		for _, v := range w.views {
			v.explained = randomize(t, new(elastallocv1.ExplainResponse)).GetJobs()
		}
		explained, forecast := randomize(t, new(elastallocv1.ExplainResponse)), randomize(t, new(elastallocv1.ForecastResponse))
		asked, foreseen := explainList(request, explained), forecastList(forecast)
		shown := w.text(screen, 0) + explanationsText(request, explained, asked, rapid.Bool().Draw(t, "detailed"), screen) +
			forecastText(forecast, foreseen, screen)
		for _, show := range []func() (string, error){
			w.list().csv, asked.csv, foreseen.csv,
			func() (string, error) {
				d, err := newDecisionView(request, randomize(t, &elastallocv1.AllocateResponse{Allocations: jobs()}))
				if err != nil {
					return "", err
				}
				rows, err := d.list.csv()
				return rows + d.text(screen), err
			},
			func() (string, error) {
				response := randomize(t, &elastallocv1.FillIdleResponse{Allocations: jobs()})
				l, err := fillList(snapshot, response)
				if err != nil {
					return "", err
				}
				rows, err := l.csv()
				return rows + fillText(snapshot, response, l, screen), err
			},
			func() (string, error) {
				return drawForecast(snapshot.GetId(), format.Node, randomize(t, new(elastallocv1.ForecastResponse)), rapid.Bool().Draw(t, "page"))
			},
		} {
			text, err := show()
			shown += text
			if err != nil { // The response does not match the request.
				shown += err.Error()
			}
		}
		if r, found := controlCharacter(shown); found {
			t.Errorf("%U is in\n%s", r, shown)
		}
	})
}

// surplusResults returns more results than scenarios.
type surplusResults struct{ allocator }

func (surplusResults) WhatIf(context.Context, *elastallocv1.WhatIfRequest) (*elastallocv1.WhatIfResponse, error) {
	return &elastallocv1.WhatIfResponse{Results: make([]*elastallocv1.ScenarioResult, 3)}, nil
}

func TestSurplusResults(t *testing.T) {
	t.Parallel()
	f := whatIfFlags{nodes: []int{4}}
	command := new(cobra.Command)
	command.SetContext(t.Context())
	_, err := f.whatIf(command, new(elastallocv1.AllocateRequest), surplusResults{})
	if err == nil || err.Error() != "the response has 3 results; must have 1" {
		t.Errorf("the error is %v", err)
	}
}

// TestHostileTextsInErrors checks that errors of a server and names in a file are printed without control characters.
func TestHostileTextsInErrors(t *testing.T) {
	t.Parallel()
	const bad = "\x1b[2J\u009b31m\u202e"
	withField, err := status.New(codes.InvalidArgument, bad).WithDetails(&errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "id" + bad, Description: bad}},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := decideFlags{remote: remoteFlags{address: "localhost:1"}}
	for _, refusal := range []error{
		withField.Err(), status.Error(codes.InvalidArgument, bad), status.Error(codes.Unavailable, bad),
		status.Error(codes.DeadlineExceeded, bad), status.Error(codes.Internal, bad+"\nelastalloc: done"),
	} {
		text := f.requestError(t.Context(), refusal).Error()
		if r, found := controlCharacter(text); found || strings.Contains(text, "\nelastalloc") {
			t.Errorf("%U is in %q", r, text)
		}
	}
	for name, stdin := range map[string]string{
		"a field":  `{"snapshot": {"` + bad + `": 1}}`,
		"escaped":  `{"snapshot": {"\u001b[2J\u202e": 1}}`,
		"a value":  `{"snapshot": {"totalNodes": "` + bad + `"}}`,
		"a job id": `{"snapshot": {"totalNodes": 1, "jobs": [{"id": "\u001b[2J", "remainingEta": "1s"}, {"id": "\u001b[2J"}]}}`,
	} {
		_, stderr, status := runWith(t, nil, stdin, "allocate", "-f", "-")
		if r, found := controlCharacter(stderr); found || status != cli.ExitBadInput {
			t.Errorf("%s: exit status %d, %U is in %q", name, status, r, stderr)
		}
	}
}
