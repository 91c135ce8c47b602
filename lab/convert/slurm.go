package convert

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The columns of sacct.
const (
	slurmID      = "JobIDRaw"
	slurmSubmit  = "Submit"
	slurmStart   = "Start"
	slurmElapsed = "ElapsedRaw"
	slurmTRES    = "AllocTRES"
	slurmUser    = "User"
	slurmAccount = "Account"
	slurmState   = "State"

	slurmEligible = "Eligible"
	slurmLimit    = "TimelimitRaw"
)

//nolint:gochecknoglobals // A constant.
var slurmLayout = layout{
	columns: []column{
		{name: slurmID, alias: "JobID"}, {name: slurmSubmit}, {name: slurmStart}, {name: slurmElapsed}, {name: slurmTRES},
		{name: slurmUser}, {name: slurmAccount}, {name: slurmState, optional: true},
		{name: slurmEligible, optional: true, headed: true}, {name: slurmLimit, optional: true, headed: true},
	},
	separator: "|",
}

// endedStates returns the final states of jobs that ran.
func endedStates() []string {
	return []string{
		"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
		"RECONFIG_FAIL", "TIMEOUT",
	}
}

// readSlurm reads what sacct prints with --parsable2 or --parsable, with a header or without.
func (c *Converter) readSlurm(name string, r io.Reader) error {
	lines := bufio.NewReader(r)
	at := 0
	return c.readTable(&slurmLayout, name, "job", func() ([]string, int, error) {
		for {
			line, err := lines.ReadString('\n')
			at++
			line = strings.TrimRight(line, "\r\n")
			if strings.TrimSpace(line) != "" {
				// A persistent error is returned by the next read.
				return strings.Split(line, slurmLayout.separator), at, nil
			}
			if err != nil {
				return nil, at, err
			}
		}
	}, c.addSlurm)
}

func (c *Converter) addSlurm(r *row) {
	if strings.Contains(r.text(slurmID), ".") {
		c.leaveOut("job step", r.place, &refusal{reason: "the resources are those of its job"})
		return
	}
	j := job{place: r.place}
	c.add(j, c.parseSlurm(r, &j))
}

func (c *Converter) parseSlurm(r *row, j *job) *refusal {
	j.ID, j.User, j.Group = r.text(slurmID), r.text(slurmUser), r.text(slurmAccount)
	if state, _, _ := strings.Cut(r.text(slurmState), " "); state != "" && !slices.Contains(endedStates(), state) {
		return &refusal{"not complete", quoted(slurmState, state) + "; must be one of " + strings.Join(endedStates(), ", ")}
	}
	starts, refused := c.slurmTimes(r, slurmStart)
	if refused != nil {
		return refused
	}
	if len(starts) == 0 {
		return &refusal{"never started", quoted(slurmStart, r.text(slurmStart))}
	}
	submits, refused := c.slurmTimes(r, slurmSubmit)
	if refused != nil {
		return refused
	}
	if len(submits) == 0 {
		return &refusal{"submission unknown", quoted(slurmSubmit, r.text(slurmSubmit))}
	}
	elapsed := r.text(slurmElapsed)
	seconds, err := strconv.ParseInt(elapsed, 10, 64)
	switch {
	case elapsed == "":
		return empty(slurmElapsed)
	case err != nil || seconds < 0 || seconds > int64(math.MaxInt64/time.Second):
		return invalid(slurmElapsed, elapsed, "a whole number of seconds, at least 0")
	case seconds == 0:
		return &refusal{"ran for 0 seconds", quoted(slurmElapsed, elapsed)}
	}
	j.Duration = time.Duration(seconds) * time.Second
	c.gres = c.gres || strings.Contains(r.text(slurmTRES), "gres/gpu")
	if j.GPUs, j.gpuType, refused = tresGPUs(r.text(slurmTRES)); refused != nil {
		return refused
	}
	j.submit = submits[0]
	j.rerun = slices.Contains(rerunStates(), strings.SplitN(r.text(slurmState), " ", 2)[0])
	if minutes, err := strconv.ParseUint(r.text(slurmLimit), 10, 24); err == nil && minutes > 0 { // Otherwise it has no limit.
		j.Limit = time.Duration(minutes) * time.Minute
	}
	if refused := c.resolveStart(r, j, submits, starts); refused != nil {
		return refused
	}
	return c.resolveEligible(r, j)
}

// rerunStates returns the states of runs after which Slurm may run a job again.
func rerunStates() []string { return []string{"BOOT_FAIL", "NODE_FAIL", "PREEMPTED"} }

// resolveEligible sets the time from which a job could run, if it is later than the submission. A job that could run
// only after its start was changed after it, so the time is ignored.
func (c *Converter) resolveEligible(r *row, j *job) *refusal {
	c.eligible = c.eligible || r.text(slurmEligible) != ""
	times, refused := c.slurmTimes(r, slurmEligible)
	if refused != nil {
		return refused
	}
	if i := slices.IndexFunc(times, func(t time.Time) bool { return t.After(j.submit) && !t.After(*j.start) }); i >= 0 {
		j.eligible = &times[i]
	}
	return nil
}

// resolveStart sets the start of a job: the first of the possible ones that is not before the
// submission.
func (c *Converter) resolveStart(r *row, j *job, submits, starts []time.Time) *refusal {
	i := slices.IndexFunc(starts, func(t time.Time) bool { return !t.Before(j.submit) })
	if i < 0 {
		return &refusal{"started before its submission", quoted(slurmStart, r.text(slurmStart)) + ", " + quoted(slurmSubmit, r.text(slurmSubmit))}
	}
	j.start = &starts[i]
	ambiguous := func(name string) {
		c.remark("time", "taken as the earlier of two", "the end of daylight saving time repeats the hour", j.place, quoted(name, r.text(name)))
	}
	if len(submits) > 1 && !submits[1].After(*j.start) {
		ambiguous(slurmSubmit)
	}
	if i+1 < len(starts) {
		ambiguous(slurmStart)
	}
	return nil
}

// slurmTimes returns the instants that a time of sacct may mean, none if it is unknown.
func (c *Converter) slurmTimes(r *row, name string) ([]time.Time, *refusal) {
	value := r.text(name)
	switch value {
	case "", "0", "Unknown", "None", "N/A", "NONE":
		return nil, nil
	}
	if seconds, err := strconv.ParseUint(value, 10, 40); err == nil { // SLURM_TIME_FORMAT=%s
		return []time.Time{time.Unix(int64(seconds), 0)}, nil
	}
	times := parseTime(value, c.zone)
	if times == nil {
		return nil, invalid(name, value, dateAndTime+", or Unix seconds")
	}
	return times, nil
}

// migProfile matches the type of a MIG slice, such as a100_1g.5gb.
var migProfile = regexp.MustCompile(`\d+g\.\d+gb`)

// tresGPUs returns the GPUs in a list of trackable resources. gres/gpu counts those of all types;
// without it, it counts those of the only type, which is returned too. Jobs on several types and on parts of GPUs are
// refused: a MIG slice counts as one there, and a shard as none.
func tresGPUs(tres string) (count int, gpuType string, refused *refusal) {
	all, typed, untyped, gpuTypes := 0, 0, false, make(map[string]bool)
	for entry := range strings.SplitSeq(tres, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(entry), "=")
		model, isTyped := strings.CutPrefix(name, "gres/gpu:")
		isShard := name == "gres/shard" || strings.HasPrefix(name, "gres/shard:")
		if value != "0" && (isShard || isTyped && migProfile.MatchString(model)) {
			return 0, "", &refusal{"ran on parts of GPUs", quoted(slurmTRES, tres) + "; must be whole GPUs, without MIG slices and shards"}
		}
		if name != "gres/gpu" && !isTyped {
			continue
		}
		gpus, err := strconv.ParseInt(value, 10, 32)
		if err == nil && (gpus < 0 || int(gpus) > math.MaxInt32-typed) {
			err = errors.New("out of range")
		}
		if err != nil {
			return 0, "", invalid(slurmTRES, tres, "a list with whole numbers of GPUs, such as gres/gpu:a100=4")
		}
		if name == "gres/gpu" {
			all, untyped = int(gpus), true
		} else {
			typed += int(gpus)
			gpuTypes[model] = gpus > 0 || gpuTypes[model]
		}
	}
	maps.DeleteFunc(gpuTypes, func(_ string, used bool) bool { return !used })
	if len(gpuTypes) > 1 {
		return 0, "", &refusal{"ran on several GPU types",
			quoted(slurmTRES, tres) + "; must be of one type, because GPUs of different types differ in speed"}
	}
	for name := range gpuTypes {
		gpuType = name
	}
	if !untyped {
		all = typed
	}
	if all == 0 {
		return 0, "", noGPUs(slurmTRES, tres)
	}
	return all, gpuType, nil
}
