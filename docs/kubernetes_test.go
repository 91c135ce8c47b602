package docs

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/solver"
)

// TestRecommendedSizes checks that the sizes that the page about Kubernetes shows are decided for the jobs that it
// annotates. The commands of the page need a cluster, so TestCommands does not run them.
func TestRecommendedSizes(t *testing.T) {
	text, err := os.ReadFile("schedulers/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	annotated := make(map[string]map[string]string)
	for _, match := range regexp.MustCompile(`(?m)^ *kubectl annotate job (\w+) (.*)$`).FindAllStringSubmatch(string(text), -1) {
		annotated[match[1]] = make(map[string]string)
		for annotation := range strings.FieldsSeq(match[2]) {
			name, value, _ := strings.Cut(strings.TrimPrefix(annotation, "elastalloc.dev/"), "=")
			annotated[match[1]][name] = value
		}
	}
	pool, shown := &solver.Snapshot{TotalNodes: 16}, "" // as in the sandbox
	for _, row := range regexp.MustCompile(`(?m)^ *(\w+) +(\d+) +(true|false) +(\d+)$`).FindAllStringSubmatch(string(text), -1) {
		annotations := annotated[row[1]]
		job := solver.Job{ID: row[1], RestartTime: 2 * time.Minute}
		if job.RemainingETA, err = time.ParseDuration(annotations["work"]); err != nil {
			t.Fatal(err)
		}
		if restart, set := annotations["restart"]; set {
			if job.RestartTime, err = time.ParseDuration(restart); err != nil {
				t.Fatal(err)
			}
		}
		smallest, largest, isRange := strings.Cut(annotations["nodes"], "-")
		if !isRange {
			largest = smallest
		}
		job.MinNodes, _ = strconv.Atoi(smallest)
		job.MaxNodes, _ = strconv.Atoi(largest)
		if row[3] == "false" {
			job.CurrentNodes, _ = strconv.Atoi(row[2])
		}
		pool.Jobs = append(pool.Jobs, job)
		shown += row[1] + " " + row[4] + "\n"
	}
	if len(pool.Jobs) != 3 {
		t.Fatalf("the page shows %d jobs; want 3", len(pool.Jobs))
	}
	allocator, err := elastalloc.New(elastalloc.Options{DefaultBudget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	decision, err := allocator.Allocate(t.Context(), pool, solver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	decided := ""
	for _, a := range decision.Allocations {
		decided += fmt.Sprintf("%s %d\n", a.JobID, a.Nodes)
	}
	if decided != shown {
		t.Errorf("the page shows the sizes\n%sdecided are\n%s", shown, decided)
	}
}
