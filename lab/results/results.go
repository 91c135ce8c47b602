// Package results writes the results of simulations.
package results

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/internal/text"
	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/lab/statistics"
	"github.com/elastalloc/elastalloc/sim"
)

// The names of the files.
const (
	SummaryName = "summary.json"
	JobsName    = "jobs.csv"
)

// Summary is the content of summary.json.
type Summary struct {
	// Origin describes the command, the version and the machine.
	Origin      *Origin                 `json:"origin,omitempty"`
	Runs        []statistics.Summary    `json:"runs"`
	Comparisons []statistics.Comparison `json:"comparisons"`
	// Cut counts the jobs and GPUs of the trace that the workload omits.
	Cut sim.Cuts `json:"cut"`
	// Unit is the name of a node, "" for "node".
	Unit string `json:"unit,omitempty"`
	// Conditions are the conditions of the runs.
	Conditions *Conditions `json:"conditions,omitempty"`
	// Verdict is absent if there are no two policies to compare.
	Verdict *Verdict `json:"verdict,omitempty"`
}

// Summarize returns the measures of runs of one workload, and the comparisons with the baseline policy on
// the same pool. seed is the seed of the workload.
func Summarize(runs []*sim.Result, baseline string, seed uint64, cut sim.Cuts) Summary {
	summary := Summary{Runs: []statistics.Summary{}, Comparisons: []statistics.Comparison{}, Cut: cut}
	for _, run := range runs {
		measures := statistics.Summarize(run, seed)
		for _, reference := range runs {
			if reference.Nodes != run.Nodes {
				continue
			}
			if reference.Policy == catalog.MaxMin {
				measures.CompareWithMaxMin(run, reference)
			}
			if reference.Policy == catalog.Partitions {
				measures.CompareWithPartitions(reference)
			}
			if reference.Policy == baseline && run.Policy != baseline {
				summary.Comparisons = append(summary.Comparisons, statistics.Compare(run, reference))
			}
		}
		summary.Runs = append(summary.Runs, measures)
	}
	return summary
}

// ExtraJobs returns Comparison.ExtraJobsPer100 of a run, NaN if there is no comparison.
func (s *Summary) ExtraJobs(run *statistics.Summary) float64 {
	for i := range s.Comparisons {
		if c := &s.Comparisons[i]; c.Policy == run.Policy && c.Nodes == run.Nodes {
			return c.ExtraJobsPer100
		}
	}
	return math.NaN()
}

// Baseline returns the baseline policy, "" if there are no comparisons.
func (s *Summary) Baseline() string {
	if len(s.Comparisons) == 0 {
		return ""
	}
	return s.Comparisons[0].Baseline
}

// Policies returns the policies in the order of the runs.
func (s *Summary) Policies() []string {
	return distinct(s.Runs, func(run *statistics.Summary) string { return run.Policy })
}

// Pools returns the sizes of the pool in the order of the runs.
func (s *Summary) Pools() []int {
	return distinct(s.Runs, func(run *statistics.Summary) int { return run.Nodes })
}

// distinct returns the different values of runs, in their order.
func distinct[T comparable](runs []statistics.Summary, of func(*statistics.Summary) T) []T {
	var values []T
	for i := range runs {
		if value := of(&runs[i]); !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values
}

// Run returns the run of a policy on a pool, nil for none.
func (s *Summary) Run(policy string, nodes int) *statistics.Summary {
	for i := range s.Runs {
		if run := &s.Runs[i]; run.Policy == policy && run.Nodes == nodes {
			return run
		}
	}
	return nil
}

// Files returns the content of summary.json and jobs.csv, by their names.
func (s *Summary) Files(runs []*sim.Result) (map[string][]byte, error) {
	var seed uint64
	if len(s.Runs) > 0 {
		seed = s.Runs[0].Seed
	}
	summary, err := json.MarshalIndent(s, "", "  ")
	return map[string][]byte{SummaryName: append(summary, '\n'), JobsName: JobsCSV(runs, seed)}, err
}

// JobsCSV returns the content of jobs.csv: one line per run and job, in the order of runs and
// of submission; times are seconds from the first submission.
func JobsCSV(runs []*sim.Result, seed uint64) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	// Writing to memory does not fail.
	write := func(record ...string) { _ = w.Write(record) }
	header := []string{
		"trace", "policy", "nodes", "seed", "job_id",
		"submit_s", "start_s", "end_s", "queue_s", "total_s", "unserved_s", "slowdown", "weight", "resizes", "pauses", "group", "outcome",
	}
	typed := len(runs) > 0 && len(runs[0].NodeTypes) > 0
	if typed {
		header = append(header, "moves", "node_types")
	}
	write(header...)
	for _, run := range runs {
		for i := range run.Jobs {
			job := &run.Jobs[i]
			record := []string{
				text.Cell(run.Workload), run.Policy, strconv.Itoa(run.Nodes), strconv.FormatUint(seed, 10), text.Cell(job.ID),
				seconds(job.Submit), seconds(job.Start), seconds(job.End),
				seconds(job.QueueTime()), seconds(job.TotalTime()), seconds(job.Unserved),
				strconv.FormatFloat(job.Slowdown(), 'f', 3, 64), strconv.FormatFloat(job.Weight, 'g', -1, 64),
				strconv.Itoa(job.Resizes), strconv.Itoa(job.Pauses()), text.Cell(job.Group), string(job.Outcome),
			}
			if typed {
				record = append(record, strconv.Itoa(job.Moves), text.Cell(strings.Join(job.NodeTypes(), " ")))
			}
			write(record...)
		}
	}
	w.Flush()
	return b.Bytes()
}

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

// Origin describes how, when and where results were produced.
type Origin struct {
	Command string    `json:"command"`
	Version string    `json:"version"`
	Time    time.Time `json:"time"`
	// Go is the version of Go, and OS, Arch and Cores describe the machine.
	Go    string `json:"go"`
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Cores int    `json:"cores"`
}
