package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/internal/cli"
)

// TestBadUsage checks that errors of usage and input name the problem and the valid values, that the exit status
// distinguishes them, and that nothing is printed or written.
func TestBadUsage(t *testing.T) {
	dir := t.TempDir()
	old := t.TempDir()
	write(t, old, "notes.txt", "mine")
	trace := write(t, dir, "bad.csv", "job_id,submit_s,duration_s,gpus\na,0,1,1\nb,0,x,1\n")
	empty := write(t, dir, "empty.csv", "job_id,submit_s,duration_s,gpus\n")
	apps := write(t, dir, "apps.csv", "job_id,submit_s,duration_s,gpus,application,work_s,min_nodes\nx,0,,1,gpt,60,4\n")
	speeds := write(t, dir, "speeds.csv", "application,node_type,nodes,speed\nbert,a,1,1\n")
	otherType := write(t, dir, "other.csv", "id,quota,type_limits\na,1,c=1\n")
	twoTypes := write(t, dir, "two.csv", "application,node_type,nodes,speed\nbert,a,1,1\ngpt,b,1,1\n")
	changing := write(t, dir, "changing.csv", "application,node_type,nodes,speed,until\nbert,a,1,1,0.5\nbert,a,1,2,\n")
	small := write(t, dir, "small.csv", "application,node_type,nodes,speed\ngpt,a,1,1\ngpt,a,2,2\n")
	odd := write(t, dir, "odd.csv", "job_id,submit_s,duration_s,gpus,allowed_nodes\na,0,60,2,2 3\n")
	rigid := write(t, dir, "rigid.csv", "job_id,submit_s,duration_s,gpus,min_nodes,max_nodes\na,0,60,4,4,4\n")
	recording := writeRecording(t)
	const good, typed = "--trace=../../../cmd/elastalloc/testdata/trace.csv --nodes=4",
		"--trace=../../../cmd/elastalloc/testdata/trace.csv --node-types"
	for command, cases := range map[string]map[string]string{
		"": {
			"decide":      `unknown command "decide"`,
			"allocate -f": `unknown command "allocate" for "elastalloc-lab"`,
		},
		"bench": {
			"--port 1":      "unknown flag: --port",
			"":              `"file" not set`,
			"snapshot.json": `"file" not set`,
			"-f ../../../cmd/elastalloc/testdata/bad_fields.json --backends exact": "snapshot.total_nodes",
			"-f ../../../cmd/elastalloc/testdata/trace.csv --backends exact": "parse AllocateRequest " +
				"in ../../../cmd/elastalloc/testdata/trace.csv: ",
			"-f missing --backends exact":                                                  "missing: no such file",
			"-f ../../../cmd/elastalloc/faults --backends exact":                           "no snapshot",
			"-f ../../../cmd/elastalloc/testdata/queue.json --backends exact --max-jobs 3": "skipped: 1 snapshot with more than 3 jobs",
			"-f ../../../cmd/elastalloc/testdata/queue.json --objective speed":             "--objective",
			"-f ../../../cmd/elastalloc/testdata/queue.json --objective progress,progress": "--objective names \"progress\" twice",
			"-f testdata --limit 0s":                                                       "--limit is 0s",
			"-f testdata --max-jobs 0":                                                     "--max-jobs is 0",
			"-f testdata --backends exact,gurobi":                                          `--backends: unknown backend "gurobi"`,
			"-f testdata --formulation onehot": `--formulation is "onehot"; ` +
				`must be one of one-hot, paper`,
			"-f testdata --formulation paper,paper": "twice",
			"-f ../../../cmd/elastalloc/testdata/queue.json --objective total-time --formulation paper --backends highs": "--formulation is paper",
			"-f testdata -o yaml": "must be one of table, json",
		},
		"etas": {
			"":                    `required flag(s) "recording" not set`,
			"--recording=,":       "--recording",
			"--recording=missing": "missing",
			"--recording=" + recording + " --caller=nosuch": `no calls of "nosuch"`,
		},
		"paper": {
			"--seeds=0 --workers=0": "seeds is 0; must be 1 to 100\nworkers is 0",
			"--trace=missing.csv":   "no such file",
			"--trace=" + trace:      "bad.csv: trace line 3: duration_s",
			"--trace=../../../cmd/elastalloc/testdata/trace.csv --gpus-per-node=-1": "gpus-per-node is -1",
			"--unknown":    "unknown flag",
			"argument":     `unknown command "argument" for "elastalloc-lab paper"`,
			"--out=" + old: "is not empty; must be a new or empty folder",
		},
		"paper --seeds=1": {"": `"out" not set`},
		"replay": {
			"--recording " + t.TempDir():                         "no recordings",
			"--recording= --policy=":                             "--recording is empty\n  --policy is empty",
			"--recording " + recording + " --out replay_test.go": "--out: open ",
			"--recording none":                                   "--recording: open none",
			"":                                                   `"recording" not set`,
			"--policy=best --frequency=-1 --workers=0 --recording " + recording: "--workers is 0",
			"--policy=fifo,fifo --recording " + recording:                       `--policy names "fifo" twice`,
			"--caller nosuch --recording " + recording:                          `no calls of "nosuch"`,
			"--recording " + writeRecording(t, "a\x1b[2J", "b\u202e"):           `a\x1b[2J (calls: 7), b\u202e (calls: 6)`,
		},
		"trace": {
			"--trace=../../../examples/trace.csv --from=999h": "no job was submitted within the window",
			"--synthetic=strange":                             "must be one of baseline, heterogeneous",
			"--synthetic=baseline --for=-1h":                  "at least 0s",
			"--synthetic baseline --seed -1":                  `invalid argument "-1" for "--seed" flag: `,
			"":                                                "[trace synthetic] is required",
		},
		"trace convert": {
			"":                                "no FILE is given; must be at least one, - for standard input",
			"x.txt":                           `required flag(s) "from" not set`,
			"--from=sge x.txt":                `invalid argument "sge" for "--from" flag: must be one of slurm, philly, helios, pai, itp`,
			"--from=slurm missing.txt":        "missing.txt: no such file",
			"--from=slurm - -":                "FILE - is given twice",
			"--from=pai x.csv":                "1 FILE given; must be two, pai_job_table.csv and pai_task_table.csv",
			"--from=slurm --time-zone=Mars x": `--time-zone is "Mars"; must be the name of a time zone`,
			"--from=helios " +
				trace: "bad.csv:1: column submit_time is missing, column duration is missing, column gpu_num is missing; must have",
			"--from=slurm " + trace:  "bad.csv:1: has 1 field; must have 7: JobIDRaw|Submit|",
			"--from=philly " + trace: "bad.csv:1: must be a list of jobs in JSON",
		},
		"simulate": {
			"--total-time aging":                               `"--total-time" flag: aging must be formatted as key=value`,
			"--nodes=4 --trace=" + empty:                       "empty.csv: the trace has no jobs",
			good + " --out=" + old:                             "is not empty; must be a new or empty folder",
			"--nodes=4":                                        "[trace synthetic] is required",
			good + " --synthetic=baseline":                     "[synthetic trace] were all set",
			"--synthetic=baseline":                             "[nodes node-types] is required",
			"--synthetic=baseline --nodes=4 --gpus-per-node=4": "[gpus-per-node synthetic] were all set",
			"--synthetic=other --nodes=4": `invalid argument "other" ` +
				`for "--synthetic" flag: must be one of baseline, heterogeneous`,
			"--trace=missing.csv --nodes=4":                                    "no such file",
			"--nodes=4 --trace=" + trace:                                       `bad.csv: trace line 3: duration_s is "x"`,
			"--trace=../../../cmd/elastalloc/testdata/trace.csv --nodes=0,4,4": "--nodes is 0; must be 1 to 2147483647\n  --nodes names 4 twice",
			good + " --policy=best":                                            `unknown policy "best" (must be one of optimal, `,
			good + " --policy=fifo,fifo":                                       `--policy names "fifo" twice`,
			good + " --min-duration=-1s":                                       "--min-duration is -1s",
			good + " --min-duration=1000h":                                     "trace has no job of at least 1000h",
			good + " --min-duration=soon": `invalid argument "soon" ` +
				`for "--min-duration" flag: must be a duration, such as 90s`,
			good + " --gpus-per-node=0": "--gpus-per-node is 0; must be at least 1",
			good + " --frequency=0":     "--frequency is 0s",
			good + " --frequency=1.5s":  "--frequency is 1.5s; must be whole seconds",
			good + " --steps=25":        "--steps is 25; must be 1 to 24",
			good + " --scaling-delay=5m": "--scaling-delay is 5m0s; " +
				"must be whole seconds, at least 0s and less than the frequency",
			good + " --restart-time=1.5s":                    "--restart-time is 1.5s; must be whole seconds",
			good + " --restart-time=15s --scaling-delay=15s": "--restart-time is set together with a scaling delay; must be 0s then",
			good + " --vary=colors":                          `--vary: unknown variation "colors" (must be among weights, `,
			good + " --vary=weights,weights-rising":          `--vary: variation "weights-rising" is one too many`,
			good + " --vary=minimums,rigid-most":             `--vary: variation "rigid-most" is one too many`,
			good + " --policy=recorded":                      "has no start_s",
			good + " --eta-error=1":                          "--eta-error is 1; must be at least 0 and less than 1",
			good + " --eta-error=30":                         "--eta-error is 30; must be at least 0 and less than 1",
			good + " --eta-error=NaN":                        "--eta-error is NaN",
			good + " --eta-sigma=-1":                         "--eta-sigma is -1; must be 0 to 5",
			good + " --eta-sigma=NaN":                        "--eta-sigma is NaN",
			good + " --eta=guessed":                          "must be one of told, unknown",
			good + " --eta=unknown --eta-error=0.1":          "[eta eta-error]",
			good + " --bug-share=0.6 --kill-share=0.5":       "together at most 1",
			good + " --workers=0":                            "--workers is 0",
			good + " --max-growth=0.5":                       "--max-growth is 0.5; must be at least 1, or 0 for no limit",
			good + " --max-growth=-1":                        "--max-growth is -1; must be at least 1, or 0 for no limit",
			good + " --max-growth=NaN":                       "--max-growth is NaN; must be at least 1, or 0 for no limit",
			good + " --max-growth=+Inf":                      "--max-growth is +Inf; must be at least 1, or 0 for no limit",
			good + " --quotas=fair":                          `"--quotas" flag: must be one of demand, equal`,
			good + " --teams=-1 --team-limit=0.5":            "--teams is -1; must be at least 1\n  --team-limit is 0.5; must be 1 to 1e+06",
			good + " --team-limit=2":                         "--team-limit is set without teams",
			good + " --usage-half-life=0":                    "--usage-half-life is 0s; must be greater than 0s",
			good + " --teams=1000":                           "trace has 2 users; must be at least one for each of 1000 teams",
			good + " --total-time=speed=1,aging=soon,fairness=x": "--total-time: aging is \"soon\"; must be a duration, such as 90s, 5m or 300\n" +
				"  --total-time: fairness is \"x\"; must be a number\n" +
				"  --total-time: unknown parameter \"speed\" (must be among aging, eta_error, fairness, ",
			good + " --total-time=quota_price=-1":        "--total-time: quota_price is -1; must be 0 to 1e+06",
			good + " --policy=fifo --total-time=aging=0": "--total-time sets aging; must be used with a total-time policy",
			good + " --quotas=equal":                     "of trace has no group",
			good + " --groups=missing.csv":               "no such file",
			good + " --groups=" + trace:                  "bad.csv: groups line 1: column id is missing\n  line 1: column quota is missing",
			good + " --policy=static-partitions":         "the policy static-partitions needs teams",
			good + " --node-types=fast=2":                "[node-types nodes] were all set",
			good + " --policy=type-kept":                 "the policy type-kept needs node types",
			good + " --speeds=missing.csv":               "missing.csv: no such file",
			good + " --speeds=" +
				twoTypes: `--speeds has speeds on the node types "a" and "b"; must be of one type without --node-types`,
			good + " --speeds=" +
				changing: `--speeds has speeds of "bert" that change (until); must be constant without --node-types`,
			"--nodes=8 --trace=" + apps + " --speeds=" + small: `--speeds has the application "gpt" on 1 2 nodes; job "x" allows none of them`,
			good + " --machine-units=-1 --block-machines=-1 --damaged=2": "--machine-units is -1; must be at least 1\n" +
				"  --block-machines is -1; must be at least 1\n" +
				"  --damaged is 2; must be 0 to 1",
			good + " --damaged=NaN --machine-units=2": "--damaged is NaN; must be 0 to 1",
			good + " --damaged=1 --machine-units=1":   "--damaged is set with --machine-units 1; must be at least 2 units",
			good + " --block-machines=2 --damaged=0.1 --placement=move " +
				"--size-limits": "--block-machines is set without --machine-units; both must be set\n" +
				"  --damaged is set without --machine-units; both must be set\n  --placement is set without --machine-units; both must be set\n" +
				"  --size-limits is set without --machine-units; both must be set\n",
			good + " --placement=best":  "must be one of none, move, stay",
			good + " --machine-units=3": "--nodes is 4; must be a multiple of --machine-units, 3",
			good + " --machine-units=4 --damaged=1 --size-limits " +
				"--policy=optimal": "the policy optimal does not support size limits",
			good + " --machine-units=2 --placement=move " +
				"--policy=static-partitions --teams=1": "the policy static-partitions does not support machines",
			"--nodes=4 --gpus-per-node=1 --machine-units=4 --size-limits --policy=total-time --trace=" +
				odd: "--size-limits: sizes: 2 does not divide 3; each size must divide the next one",
			"--nodes=8 --gpus-per-node=1 --machine-units=4 --block-machines=1 --damaged=1 --placement=move --policy=total-time --trace=" +
				rigid: `job "a" of rigid has at least 4 nodes under the policy total-time: the machines have no place`,
			typed + "=a=2,b=3 --machine-units=2":       `--node-types has 3 nodes of "b"; must be a multiple of --machine-units, 2`,
			typed + "=a=2,b=3 --machine-units=a=2,c=3": `--machine-units is a=2,c=3; must have a number for the node type "b"`,
			typed + "=a=2 --machine-units=a=0":         "--machine-units is 0; must be at least 1",
			typed + "=a=2 --machine-units=a=1,a=2":     "must be a number, or TYPE=NUMBER,..., such as 8 or a100=8,t4=4",
			good + " --machine-units=a=2":              "--machine-units is a=2; must be a number with --nodes",
			typed + "=a=2 --policy=total-time --groups=" +
				otherType: `group "a" has a limit for "c"; must be one of the node types of the cluster`,
			typed + "=a=2 --policy=team-type-partitions":                "the policy team-type-partitions needs teams",
			typed + "=a=1 --policy=team-type-partitions --quotas=equal": "has no group",
			typed + "=fast=0,slow=2:x,,=3": "--node-types: \"fast=0\" names no nodes; must be ID=NODES[:SPEED], such as a100=16:4\n" +
				"  --node-types: \"slow=2:x\" has speed \"x\"; must be a number greater than 0 and at most 1e+09\n" +
				"  --node-types: \"\" names no nodes; must be ID=NODES[:SPEED], such as a100=16:4\n",
			typed + "=a=b --workers=0": "must be ID=NODES[:SPEED], such as a100=16:4\n" +
				"  --workers is 0; must be at least 1\n",
			typed + "=a=2,b=2 --node-types=a=4": "--node-types names two clusters of 4 nodes; must have different numbers",
			typed + "=a=2,a=2":                  `"a" twice`,
			typed + "=a=2 --policy=fifo":        "the policy fifo does not support node types (must be one of total-time, ",
			typed + "=a=2 --scaling-delay=15s": "--scaling-delay is set " +
				"together with node types; must be 0s (set a restart time instead)",
			typed + "=a=2 --teams=1 --policy=fifo": "the policy fifo does not support node types",
			typed + "=a=2 --speeds=missing.csv":    "no such file",
			typed + "=a=2 --speeds=" +
				trace: "bad.csv: speeds line 1: column application is missing\n  line 1: column node_type is missing",
			typed + "=a=2 --trace=" + apps + " --speeds=" + speeds: `apps: job "x" has the application "gpt", which has no speeds`,
			typed + "=b=2 --trace=" + apps:                         "has no size that fits a node type of the cluster",
		},
	} {
		for args, want := range cases {
			parent := t.TempDir()
			line := append(strings.Fields(command), strings.Fields(args)...)
			if writes := command == "paper" || command == "replay" || command == "simulate"; writes && !strings.Contains(args, "--out") {
				line = append(line, "--out", filepath.Join(parent, "results"))
			}
			stdout, stderr, status := runWith(t, nil, line...)
			if status != cli.ExitBadInput || !strings.Contains(stderr, want) || stdout != "" {
				t.Errorf("%q: exit status %d, stdout %q, stderr %q; want %q", line, status, stdout, stderr, want)
			}
			if left := filesIn(t, parent); len(left) != 0 {
				t.Errorf("%q does not remove %v", line, left)
			}
		}
	}
	if diff := cmp.Diff([]string{"notes.txt"}, filesIn(t, old)); diff != "" {
		t.Errorf("files that existed before (-want +got):\n%s", diff)
	}
}

// TestFailed checks that a failed command writes no files: if it is interrupted, or if a program is missing, which
// is an error instead of a fallback to another backend.
func TestFailed(t *testing.T) {
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	for args, test := range map[string]struct {
		ctx  context.Context
		want string
	}{
		"simulate --synthetic=baseline --nodes=70": {interrupted, "interrupted; nothing was written"},
		"paper --seeds=1":                          {interrupted, "interrupted; nothing was written"},
		"simulate --trace=../../../cmd/elastalloc/testdata/trace.csv --nodes=4 --policy=optimal-cbc --cbc=/nonexistent/cbc": {
			t.Context(), "backend cbc:",
		},
	} {
		parent := t.TempDir()
		var stdout, stderr bytes.Buffer
		status := run(test.ctx, append(strings.Fields(args), "--out", filepath.Join(parent, "results")),
			cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, func(string) (string, bool) { return "", false })
		if status != cli.ExitFailed || !strings.Contains(stderr.String(), test.want) {
			t.Errorf("%s: exit status %d, stderr %q; want %q", args, status, &stderr, test.want)
		}
		if left := filesIn(t, parent); len(left) != 0 {
			t.Errorf("%s does not remove %v", args, left)
		}
	}
}
