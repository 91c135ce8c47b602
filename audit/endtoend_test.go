package audit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/audit"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// readRequest reads a request from a file.
func readRequest(t *testing.T, file string) *elastallocv1.AllocateRequest {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	request := &elastallocv1.AllocateRequest{}
	if err := protojson.Unmarshal(text, request); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return request
}

// decide returns the answer of an allocator in this process, with its certificate.
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

// TestFiles audits the answers to requests in files.
func TestFiles(t *testing.T) {
	for _, pattern := range []string{"../examples/*.json", "../../shared/instances/*.json", "../../shared/hard/*.json", "../../shared/proofs/*.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Logf("%s: no files", pattern)
			continue
		}
		verdicts := make(map[audit.Verdict]int)
		for _, file := range files {
			if strings.HasSuffix(file, "certified.json") {
				continue
			}
			request := readRequest(t, file)
			if request.Options == nil {
				request.Options = &elastallocv1.AllocateOptions{}
			}
			if request.Options.TimeBudget == nil {
				request.Options.TimeBudget = durationpb.New(2 * time.Second)
			}
			response := decide(t, request)
			began := time.Now()
			got := audit.Check(t.Context(), request, response, audit.Options{})
			r := response.GetReport()
			verdicts[got.Verdict]++
			if got.Verdict != audit.Confirmed || time.Since(began) > time.Second || !strings.Contains(file, "instances") {
				t.Logf("%s: %s %v gap %.3g objective %.12g: %s: %s", filepath.Base(file), time.Since(began).Round(time.Millisecond), r.GetReason(), r.GetRelativeGap(), r.GetObjective(), got.Verdict, got.Reason)
			}
			if got.Verdict == audit.Refuted {
				t.Errorf("%s is refuted: %s", file, got.Reason)
			}
		}
		t.Log(pattern, fmt.Sprint(verdicts))
	}
}
