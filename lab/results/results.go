package results

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strconv"
	"time"

	"github.com/elastalloc/elastalloc/sim"
)

// The names of the files.
const (
	SummaryName = "summary.json"
	JobsName    = "jobs.csv"
)

// Summary is the content of summary.json.
type Summary struct {
	Runs        []sim.Summary    `json:"runs"`
	Comparisons []sim.Comparison `json:"comparisons"`
}

// Summarize returns the measures of runs on one workload that was made with a
// seed, and the comparison of every run with that of the baseline policy on the
// same pool.
func Summarize(runs []*sim.Result, baseline string, seed uint64) Summary {
	summary := Summary{Runs: []sim.Summary{}, Comparisons: []sim.Comparison{}}
	for _, run := range runs {
		summary.Runs = append(summary.Runs, sim.Summarize(run, seed))
		for _, reference := range runs {
			if reference.Policy == baseline && reference.Nodes == run.Nodes && run.Policy != baseline {
				summary.Comparisons = append(summary.Comparisons, sim.Compare(run, reference))
			}
		}
	}
	return summary
}

// JSON returns the text of summary.json.
func (s Summary) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(s, "", "  ")
	return append(text, '\n'), err
}

// JobsCSV returns the text of jobs.csv: a line per run and job, times in seconds
// from the first submission, in the order of runs and of submission.
func JobsCSV(runs []*sim.Result, seed uint64) []byte {
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	// Writing to memory does not fail.
	write := func(record ...string) { _ = w.Write(record) }
	write("trace", "policy", "nodes", "seed", "job_id",
		"submit_s", "start_s", "end_s", "queue_s", "total_s", "rescales", "outcome")
	for _, run := range runs {
		for i := range run.Jobs {
			job := &run.Jobs[i]
			write(run.Workload, run.Policy, strconv.Itoa(run.Nodes), strconv.FormatUint(seed, 10), job.ID,
				seconds(job.Submit), seconds(job.Start), seconds(job.End),
				seconds(job.QueueTime()), seconds(job.TotalTime()),
				strconv.Itoa(job.Rescales), string(job.Outcome))
		}
	}
	w.Flush()
	return text.Bytes()
}

// seconds writes whole seconds.
func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }
