package audit_test

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/audit"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// readRequest reads a request from a file.
func readRequest(t *testing.T, file string) *elastallocv1.AllocateRequest {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	request := &elastallocv1.AllocateRequest{}
	text = bytes.ReplaceAll(text, []byte(`"rescale`), []byte(`"resize`))
	err = protojson.UnmarshalOptions{DiscardUnknown: strings.Contains(file, "shared")}.Unmarshal(text, request)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if strings.Contains(file, "shared") { // The files next to the checkout have the names and defaults of an earlier version.
		request.Options = cmp.Or(request.Options, new(elastallocv1.AllocateOptions))
		request.Options.Objective = cmp.Or(request.Options.Objective, elastallocv1.Objective_OBJECTIVE_PROGRESS)
		request.Options.Admission = cmp.Or(request.Options.Admission, elastallocv1.Admission_ADMISSION_FIFO)
	}
	return request
}

// decide returns the response of an allocator in this process, with its certificate.
func decide(t *testing.T, request *elastallocv1.AllocateRequest) *elastallocv1.AllocateResponse {
	t.Helper()
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if request.Options == nil {
		request.Options = &elastallocv1.AllocateOptions{}
	}
	request.Options.Certificate = true
	response, err := apiconv.InProcess{Allocator: allocator}.Allocate(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// verdicts counts verdicts by class.
type verdicts map[string]map[audit.Verdict]int

func (v verdicts) count(class string, verdict audit.Verdict) {
	if v[class] == nil {
		v[class] = make(map[audit.Verdict]int)
	}
	v[class][verdict]++
}

// TestFiles audits the responses to requests in files.
func TestFiles(t *testing.T) {
	counts := make(verdicts)
	for _, pattern := range []string{
		"../examples/*.json", "../../shared/instances/*_*.json", "../../shared/hard/*.json", "../../shared/proofs/*.json",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Logf("%s: no files", pattern)
			continue
		}
		for n := 0; n < len(files); n += testtier.Conformance.Examples(4, 1) {
			file := files[n]
			request := readRequest(t, file)
			response := decide(t, request)
			began := time.Now()
			got := audit.Check(t.Context(), request, response, audit.Options{})
			counts.count(pattern+" "+response.GetReport().GetReason().String(), got.Verdict)
			took, log := time.Since(began).Round(time.Millisecond), t.Logf
			if got.Verdict == audit.Refuted {
				log = t.Errorf
			}
			if got.Verdict != audit.Confirmed || testing.Verbose() {
				log("%s, gap %.2g, in %v: %v", filepath.Base(file), response.GetReport().GetRelativeGap(), took, got)
			}
		}
	}
	t.Log(counts)
}

// TestClasses audits the responses of the exact backend and of greedy to random requests, which must be
// confirmed, except a tenth of the class long and a sixth of the class sweeps. It also audits the same
// responses with worse plans, which must not be confirmed. It logs a table of verdicts.
func TestClasses(t *testing.T) {
	t.Parallel()
	counts := make(verdicts)
	for _, class := range classes() {
		often := iterations(3, 400)
		if class.name == long || class.name == sweeps { // An open check uses all its work.
			often = (often + 9) / 10
		}
		for seed := range uint64(often) {
			d := newGenerator(seed)
			request := class.generate(d)
			m := newModel(t, request)
			if m == nil {
				continue
			}
			name := class.name
			if d.chance(10) {
				request.Options.Backend, name = elastallocv1.Backend_BACKEND_GREEDY, name+", greedy"
			}
			response := decide(t, request)
			got := audit.Check(t.Context(), request, response, audit.Options{})
			optimal := response.GetReport().GetReason() == elastallocv1.Reason_REASON_OPTIMAL
			if !optimal {
				name += ", not optimal"
			}
			counts.count(name, got.Verdict)
			if got.Verdict == audit.Refuted || got.Verdict == audit.Open && class.name != long && class.name != sweeps {
				t.Errorf("%s, seed %d: %v\n%s", name, seed, got, protojson.Format(request))
			}
			if optimal {
				worsen(t, d, m, response, counts)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		of := counts[name]
		t.Logf("%-32s %v", name, of)
		share := 100
		switch name {
		case long:
			share = 10
		case sweeps:
			share = 5 // A fifth of the confirmed checks is a sixth of all.
		}
		if open := of[audit.Open]; open > max(1, of[audit.Confirmed]/share) && name != "worsened" && name != long+", not optimal" {
			t.Errorf("%s: %d are open", name, open)
		}
	}
}

// tiny is the smallest number to which a gap is relative.
const tiny = 1e-12

// worsen audits a response with worse plans and the same certificate.
func worsen(t *testing.T, d generator, m *model, response *elastallocv1.AllocateResponse, counts verdicts) {
	t.Helper()
	best := m.plan(response)
	optimum := m.Objective(best)
	for range 20 {
		worse := best.Clone()
		for range 1 + d.IntN(3) {
			if len(worse) > 0 {
				i := d.IntN(len(worse))
				worse[i][d.IntN(m.Steps)] = m.Jobs[i].Options[d.IntN(len(m.Jobs[i].Options))]
			}
		}
		if v := m.Objective(worse); m.Check(worse) != nil || v >= optimum-10*audit.Tolerance*max(tiny, math.Abs(optimum)) {
			continue
		}
		answer := m.respond(worse, m.Objective(worse), solver.ReasonOptimal, response.GetReport().GetNodePrices())
		answer.Report.Certificate = response.GetReport().GetCertificate()
		got := audit.Check(t.Context(), m.request, answer, audit.Options{Work: 1e7})
		counts.count("worsened", got.Verdict)
		if got.Verdict == audit.Confirmed {
			t.Errorf("%v is confirmed; a plan is worth %v\n%s", m.Objective(worse), optimum, protojson.Format(m.request))
		}
	}
}
