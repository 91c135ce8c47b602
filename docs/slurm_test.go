package docs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

// programForSlurm returns the folder of a new elastalloc. It skips the test in the quick tier, and without Slurm.
func programForSlurm(t *testing.T) string {
	t.Helper()
	if !testtier.Docs.Selected() {
		t.Skip("slow; make docs runs it")
	}
	needTools(t, "bash", "python3", "slurmctld", "slurmd", "scontrol")
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin, "./cmd/elastalloc")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return bin
}

// nodeEvent is a way in which Slurm loses a node.
type nodeEvent struct {
	event  string // The arguments of scontrol.
	state  string // What the complete state of the node then contains.
	reason string // What the example prints about the node; empty if the node is gone and its job is requeued.
	undo   string // The arguments of scontrol.
}

// affected is the job on the node that is lost. If the node counted as capacity, a decision would touch this job for the
// third one.
const affected = "2"

// TestSlurmNodeStates takes a node from a real Slurm with two running jobs and a third that waits, in every
// way that Slurm has, and checks that the example of slurm.md touches at most one job, and none whose nodes go on.
func TestSlurmNodeStates(t *testing.T) {
	bin := programForSlurm(t)
	jobs := map[string][3]string{
		"identical": {"sizes=1-8 restart=60 left=3600 on=1", "sizes=1-8 restart=60 left=3600 on=1", "sizes=1-8 restart=60 left=3600 on=1"},
		"different": {"sizes=2-4 restart=300 left=3600 on=2", "sizes=1-8 restart=60 left=7200 on=1", "sizes=1-4 restart=60 left=20000 on=1"},
		"rigid": {
			"sizes=4 restart=60 left=900 on=4 trained=600", "sizes=4 restart=60 left=900 on=4 trained=600", "sizes=4 restart=60 left=100 on=4",
		},
	}
	const resume = "update NodeName=NODE State=RESUME"
	events := map[string]nodeEvent{
		"drain": {"update NodeName=NODE State=DRAIN Reason=test", "+drain", "is draining", resume},
		"fail":  {"update NodeName=NODE State=FAIL Reason=test", "+fail", "is expected to fail", resume},
		"maint": {
			"create reservation ReservationName=maint StartTime=now Duration=60 Nodes=NODE Flags=MAINT,IGNORE_JOBS Users=root",
			"+maintenance", "is reserved for maintenance", "delete ReservationName=maint",
		},
		"down": {"update NodeName=NODE State=DOWN Reason=test", "down", "", resume},
	}
	for kind, comments := range jobs {
		for name, event := range events {
			t.Run(kind+" jobs, "+name, func(t *testing.T) {
				s := startSlurm(t, bin)
				s.submit(t, 0, comments[0])
				s.submit(t, 1, comments[1])
				s.decide(t)
				s.loseNode(t, event, comments[2])
			})
		}
	}
}

// loseNode loses a node of the affected job, checks five decisions, the last of which have a third job that waits, and
// returns the node to Slurm.
func (s slurm) loseNode(t *testing.T, event nodeEvent, third string) {
	t.Helper()
	before := s.jobs(t)
	for id, job := range before {
		if job.state != "RUNNING" {
			t.Fatalf("job %s is %+v", id, job)
		}
	}
	node := strings.Fields(s.run(t, "scontrol", "show", "hostnames", before[affected].nodes))[0]
	s.change(t, event.event, node, func(state string) bool { return strings.Contains(state, event.state) })
	gone := event.reason == ""
	if gone {
		wait.For(t, "Slurm requeues the job of the node", func() (bool, string) {
			job := s.jobs(t)[affected]
			return job.state == "PENDING", fmt.Sprint(job)
		})
	}
	touched := map[string]bool{}
	for call := range 5 {
		if call == 1 && !gone { // If the node is gone, its job is the one that waits.
			s.submit(t, 2, third)
		}
		keeps := fmt.Sprintf("%s keeps its nodes: %s %s", affected, node, event.reason)
		if printed := s.decide(t); !gone && !strings.Contains(printed, keeps) {
			t.Errorf("call %d prints %q; want %q", call, printed, keeps)
		}
		after := s.jobs(t)
		for _, id := range touchedJobs(t, before, after) {
			touched[id] = true
			if call == 0 && (!gone || id != affected) {
				t.Errorf("job %s is touched, and no other job waits", id)
			}
		}
		before = after
	}
	if touched[affected] != gone || len(touched) > 1 {
		t.Errorf("the jobs %v are touched", touched)
	}
	if gone {
		// Slurm does not wait for the job's processes on this node, and does not start the job where they still run.
		wait.For(t, "the processes of the job on "+node+" terminate", func() (bool, string) {
			log := s.log(t)
			return strings.Contains(log, "node_name = "+node+", JobId="+affected+"\n"), log
		})
	}
	s.change(t, event.undo, node, func(state string) bool { return state == "idle" || state == "allocated" })
	if printed := s.decide(t); strings.Contains(printed, "keeps its nodes") {
		t.Errorf("with all nodes back it prints %q", printed)
	}
}

// touchedJobs returns the running jobs that changed.
func touchedJobs(t *testing.T, before, after map[string]slurmJob) (touched []string) {
	t.Helper()
	for id, job := range before {
		if job.state == "RUNNING" && after[id] != job {
			t.Logf("job %s was %+v and is %+v", id, job, after[id])
			touched = append(touched, id)
		}
	}
	return touched
}

// TestSlurmComments submits jobs with comments that are not valid to a real Slurm, and checks that the example of slurm.md
// excludes each of them with its reason and starts the other job.
func TestSlurmComments(t *testing.T) {
	bin := programForSlurm(t)
	const rest = "sizes=1-8 restart=60 on=1"
	comments := []struct{ comment, reason string }{
		{rest + " left=90m", "left: is '90m'; must be a number from 0 to 9000000000, in digits"},
		{rest + " left=NaN", "left: is 'NaN'"},
		{"sizes=1-99999999999 restart=60 on=1 left=60", "sizes: is '99999999999'"},
		{rest + " left=60 x|y", "'x|y' is unknown"},
		{rest + " left=60 \xff=1", `'\udcff=1' is unknown`},
		{rest + " left=60\n9|RUNNING|8|node[1-8]|" + rest + " left=60", "'9|RUNNING|8|node[1-8]|sizes=1-8' is unknown"},
		{rest + " left=60 \x1b[2J", `'\x1b[2J' is unknown`},
		{"restart=60", "sizes: is not set; must be set"},
	}
	s := startSlurm(t, bin)
	for i, c := range comments {
		s.submit(t, i, c.comment)
	}
	s.submit(t, len(comments), rest+" left=5400")
	printed := s.run(t, filepath.Join(root, "examples", "slurm", "reconcile.py"))
	for i, c := range comments {
		if want := fmt.Sprintf("%d is excluded: its comment is not valid: %s", i+1, c.reason); !strings.Contains(printed, want) {
			t.Errorf("it prints %q; want %q", printed, want)
		}
	}
	if want := fmt.Sprintf("%d: 0 -> 8\n", len(comments)+1); !strings.Contains(printed, want) {
		t.Errorf("it prints %q; want %q", printed, want)
	}
}

// slurm is a Slurm of eight nodes.
type slurm struct {
	dir string
	env []string
}

// startSlurm starts a Slurm, which the end of the test stops. Its commands find elastalloc in the folder bin.
func startSlurm(t *testing.T, bin string) slurm {
	t.Helper()
	script, err := filepath.Abs(filepath.Join(root, "scripts", "slurm.sh"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "slurm")
	s := slurm{dir: dir, env: append(os.Environ(), "SLURM_CONF="+filepath.Join(dir, "slurm.conf"),
		"PATH="+bin+":"+os.Getenv("PATH"), "ELASTALLOC_BUDGET=10s", "ELASTALLOC_DEFAULT_BUDGET=10s")}
	start := exec.Command(script, "start", dir)
	start.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	t.Cleanup(func() {
		if start.Process != nil {
			_ = syscall.Kill(-start.Process.Pid, syscall.SIGKILL) // What stop has left.
		}
	})
	if output, err := start.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.run(t, "scontrol", "show", "jobs"), s.log(t))
		}
		s.run(t, script, "stop", dir)
	})
	return s
}

// run returns what a command prints, errors included.
func (s slurm) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	command := exec.Command(name, args...)
	command.Env = s.env
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", command, err, output.String())
	}
	return output.String()
}

// change changes the state of a node with scontrol and waits until Slurm reports it.
func (s slurm) change(t *testing.T, args, node string, changed func(state string) bool) {
	t.Helper()
	s.run(t, "scontrol", strings.Fields(strings.ReplaceAll(args, "NODE", node))...)
	wait.For(t, "the state of "+node+" changes", func() (bool, string) {
		state := strings.TrimSpace(s.run(t, "sinfo", "--noheader", "--nodes="+node, "--Format=StateComplete:256"))
		return changed(state), state
	})
}

// submit submits a job that runs until it is stopped; number orders the jobs by their time of submission. Unlike
// train.sh, the job does not change its comment, so that no decision depends on how long the test takes.
func (s slurm) submit(t *testing.T, number int, comment string) {
	t.Helper()
	s.run(t, "sbatch", "--partition=elastic", "--hold", "--requeue", "--nodes=1", "--ntasks-per-node=1", "--chdir="+s.dir,
		fmt.Sprintf("--comment=%s since=%d", comment, time.Now().Unix()-600+int64(number)),
		"--wrap", `trap exit TERM; srun --ntasks="$SLURM_JOB_NUM_NODES" sh -c '
			>"started-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}-$SLURMD_NODENAME"; exec sleep infinity' & wait`)
}

// decide runs the example once, waits until what it starts runs on all its nodes, and returns what it prints.
func (s slurm) decide(t *testing.T) string {
	t.Helper()
	printed := s.run(t, filepath.Join(root, "examples", "slurm", "reconcile.py"))
	for _, started := range regexp.MustCompile(`(?m)^([0-9]+): [0-9]+ -> ([1-9][0-9]*)$`).FindAllStringSubmatch(printed, -1) {
		id, nodes := started[1], started[2]
		wait.For(t, "job "+id+" runs", func() (bool, string) {
			jobs := s.jobs(t)
			files, err := filepath.Glob(filepath.Join(s.dir, "started-"+id+"-"+jobs[id].restarts+"-*"))
			if err != nil {
				t.Fatal(err)
			}
			return jobs[id].state == "RUNNING" && fmt.Sprint(len(files)) == nodes, fmt.Sprint(jobs, files)
		})
	}
	return printed
}

// log returns the log of slurmctld.
func (s slurm) log(t *testing.T) string {
	t.Helper()
	return s.run(t, "cat", filepath.Join(s.dir, "log", "slurmctld"))
}

// slurmJob is what may not change of a job that nothing touches.
type slurmJob struct{ state, nodes, restarts string }

// jobs returns all jobs, by their ids.
func (s slurm) jobs(t *testing.T) map[string]slurmJob {
	t.Helper()
	jobs := map[string]slurmJob{}
	for line := range strings.Lines(s.run(t, "scontrol", "--oneliner", "show", "jobs")) {
		field := func(name string) string {
			fields := strings.Fields(line)
			i := slices.IndexFunc(fields, func(field string) bool { return strings.HasPrefix(field, name+"=") })
			if i < 0 {
				t.Fatalf("no %s in %s", name, line)
			}
			return strings.TrimPrefix(fields[i], name+"=")
		}
		jobs[field("JobId")] = slurmJob{state: field("JobState"), nodes: field("NodeList"), restarts: field("Restarts")}
	}
	return jobs
}
