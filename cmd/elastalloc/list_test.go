package main

import (
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"os"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/testing/clitest"
)

// longID returns the id of a job, which differs from the ids of other jobs only at its end.
func longID(i int) string {
	return fmt.Sprintf("research/vision-and-language/pretraining/%s/run-%04d", strings.Repeat("sweep-", 8), i)
}

// writeMany writes a request with jobs that have long ids, every third of which is queued.
func writeMany(t *testing.T, jobs int) (file string) {
	t.Helper()
	var of []string
	random := rand.New(rand.NewPCG(1, 2))
	for i := range jobs {
		job := fmt.Sprintf(`{"id": %q, "remainingEta": "%ds"`, longID(i), 600+random.IntN(100_000))
		if i%3 > 0 {
			job += `, "currentNodes": 1`
		}
		of = append(of, job+"}")
	}
	file = filepath.Join(t.TempDir(), "request.json")
	text := fmt.Sprintf(`{"snapshot": {"totalNodes": %d, "jobs": [%s]}, "options": {"backend": "BACKEND_GREEDY"}}`,
		2*jobs, strings.Join(of, ",\n"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestWidths checks that the output of commands fits on terminals of 40 to 240 columns, and that in a pipe a line has
// the whole id of each of 1,000 jobs.
func TestWidths(t *testing.T) {
	t.Parallel()
	const jobs = 1000
	many, few := writeMany(t, jobs), "../../examples/busy.json"
	for _, command := range []string{
		"allocate", "allocate --plan", "fill-idle", "explain", "forecast --until=1h", "whatif --nodes=90,120 --remove=REMOVED",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			args := func(file, id string) []string {
				return append(strings.Fields(strings.ReplaceAll(command, "REMOVED", id)), "--file", file)
			}
			for _, columns := range []int{40, 61, 80, 132, 240} {
				stdout, stderr, status := clitest.RunOnTerminal(t, run, columns, nil, "", args(few, "gpt-neox-20b-pretrain")...)
				if status != cli.ExitDone || strings.Count(stdout, "\n") < 10 {
					t.Fatalf("%d columns: exit status %d, %s\n%s", columns, status, stderr, stdout)
				}
				clitest.CheckWidth(t, fmt.Sprint(command, " on ", columns), stdout, columns)
			}
			if strings.HasPrefix(command, "explain") || strings.HasPrefix(command, "forecast") || strings.HasPrefix(command, "whatif") {
				return // 1,000 jobs take these commands too long.
			}
			stdout := succeed(t, "", args(many, longID(0))...)
			for i := range jobs {
				if found := strings.Count("\n"+stdout, "\n"+longID(i)+" "); found != 1 {
					t.Fatalf("in a pipe, %d lines have the job %s; want 1", found, longID(i))
				}
			}
			stdout, _, _ = clitest.RunOnTerminal(t, run, 80, nil, "", args(many, longID(0))...)
			clitest.CheckWidth(t, command+" of many jobs", stdout, 80)
			rows := strings.Split(stdout, "\n")[1 : jobs+1]
			slices.Sort(rows)
			if n := len(slices.Compact(rows)); n != jobs {
				t.Errorf("on 80 columns, %d rows of %d differ", n, jobs)
			}
		})
	}
}

// TestColumnsVariable checks that COLUMNS is the width of a terminal, and has no effect in a pipe.
func TestColumnsVariable(t *testing.T) {
	t.Parallel()
	env := map[string]string{"COLUMNS": "60"}
	stdout, _, _ := clitest.RunOnTerminal(t, run, 200, env, "", "allocate", "-f", "../../examples/two-kinds.json")
	clitest.CheckWidth(t, "allocate", stdout, 60)
	piped, _, _ := runWith(t, env, "", "allocate", "-f", "../../examples/two-kinds.json")
	if !strings.Contains(piped, "whisper-small-finetune-nl ") || strings.Contains(piped, "…") {
		t.Errorf("in a pipe, ids are shortened:\n%s", piped)
	}
}

// readCSV returns the rows of CSV by the names of their columns.
func readCSV(t *testing.T, text string) (rows []map[string]string) {
	t.Helper()
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(lines) == 0 {
		t.Fatalf("%v in\n%s", err, text)
	}
	for _, line := range lines[1:] {
		row := make(map[string]string)
		for n, name := range lines[0] {
			row[name] = line[n]
		}
		rows = append(rows, row)
	}
	return rows
}

// column returns the values of a column.
func column(rows []map[string]string, name string) (values []string) {
	for _, row := range rows {
		values = append(values, row[name])
	}
	return values
}

// checkSorted checks that --sort prints the rows of all jobs, in order.
func checkSorted(t *testing.T, by string, ids []string, rows []map[string]string) {
	t.Helper()
	got := column(rows, "job_id")
	slices.Sort(got)
	if diff := cmp.Diff(ids, got); diff != "" {
		t.Errorf("--sort %s changes the jobs:\n%s", by, diff)
	}
	name, descending := strings.CutPrefix(by, "-")
	values := column(rows, name)
	for i := 1; i < len(values); i++ {
		if !inOrder(values[i-1], values[i], descending) {
			t.Errorf("--sort %s: %q is before %q", by, values[i-1], values[i])
		}
	}
}

// TestCSV checks that -o csv has a row per job, in the order of --sort, and at most --limit rows.
func TestCSV(t *testing.T) {
	t.Parallel()
	const busy = "../../examples/busy.json"
	for command, names := range map[string][]string{
		"allocate": decisionColumns(), "fill-idle": changeColumns(), "explain": explainColumns(), "forecast": forecastColumns(),
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			if !strings.HasPrefix(command, "allocate") { // Other commands take longer.
				names = []string{names[0], names[len(names)-1]}
			}
			all := readCSV(t, succeed(t, "", command, "-f", busy, "-o", "csv"))
			if len(all) != 30 {
				t.Fatalf("%d rows; want 30", len(all))
			}
			ids := column(all, "job_id")
			slices.Sort(ids)
			for _, name := range names {
				for _, by := range []string{name, "-" + name} {
					checkSorted(t, by, ids, readCSV(t, succeed(t, "", command, "-f", busy, "-o", "csv", "--sort", by)))
				}
			}
			got := readCSV(t, succeed(t, "", command, "-f", busy, "-o", "csv", "--sort=job_id", "--limit=3"))
			if !slices.Equal(column(got, "job_id"), ids[:3]) {
				t.Errorf("--limit=3: jobs %q; want %q", column(got, "job_id"), ids[:3])
			}
			table := succeed(t, "", command, "-f", busy, "--sort=job-id", "--limit=3")
			clitest.CheckContains(t, command, table, "\n"+ids[2]+" ", "\nand 27 more jobs\n")
			if strings.Contains(table, "\n"+ids[3]+" ") {
				t.Errorf("--limit=3 lists a fourth job:\n%s", table)
			}
		})
	}
}

// inOrder reports whether a value may precede another one. Values that are not known are last.
func inOrder(a, b string, descending bool) bool {
	if a == "" || b == "" {
		return b == ""
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	if errX != nil || errY != nil {
		return a == b || (a < b) != descending
	}
	return x == y || (x < y) != descending
}

// TestArrangeFlags checks the errors of the flags that arrange a list.
func TestArrangeFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"allocate --sort=size":  "must be one of job_id, group_id, current_nodes, nodes,",
		"forecast --sort=nodes": "must be one of job_id, start_s,",
		"explain --limit=-1":    "must be a number of jobs, at least 0",
		"explain --limit=many":  "must be a number of jobs, at least 0",
		"whatif --sort=job_id":  "unknown flag: --sort",
	} {
		_, stderr, status := runWith(t, nil, "", append(strings.Fields(args), "-f", "../../examples/busy.json")...)
		if status != cli.ExitBadInput || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit status %d, %s; want %q", args, status, stderr, want)
		}
	}
}
