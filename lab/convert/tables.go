package convert

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

//nolint:gochecknoglobals // Constants.
var (
	heliosLayout = layout{
		columns: []column{
			{name: "job_id"}, {name: "submit_time"}, {name: "duration"}, {name: "gpu_num"},
			{name: "user", optional: true}, {name: "vc", optional: true}, {name: "start_time", optional: true},
		},
		separator: ",", headed: true,
	}
	itpLayout = layout{
		columns:   []column{{name: "job_id"}, {name: "num_gpu"}, {name: "submission_time"}, {name: "duration"}},
		separator: ",", headed: true,
	}
	paiJobLayout = layout{
		columns:   []column{{name: "job_name"}, {name: "inst_id"}, {name: "user"}, {name: "status"}, {name: "start_time"}, {name: "end_time"}},
		separator: ",",
	}
	paiTaskLayout = layout{
		columns: []column{
			{name: "job_name"}, {name: "task_name"}, {name: "inst_num"}, {name: "status"}, {name: "start_time"}, {name: "end_time"},
			{name: "plan_cpu"}, {name: "plan_mem"}, {name: "plan_gpu"}, {name: "gpu_type"},
		},
		separator: ",",
	}
)

// readCSV calls each with the lines of a table in CSV.
func (c *Converter) readCSV(l *layout, name string, r io.Reader, what string, each func(*row)) error {
	reader := csv.NewReader(r)
	reader.FieldsPerRecord = -1
	reader.ReuseRecord = true
	return c.readTable(l, name, what, func() ([]string, int, error) {
		record, err := reader.Read()
		if bad := new(csv.ParseError); errors.As(err, &bad) {
			return nil, bad.StartLine, bad.Err
		}
		if err != nil {
			return nil, 0, err
		}
		line, _ := reader.FieldPos(0)
		return record, line, nil
	}, each)
}

func (c *Converter) addHelios(r *row) {
	j := job{place: r.place}
	c.add(j, parseHelios(r, &j))
}

func parseHelios(r *row, j *job) (refused *refusal) {
	j.ID, j.User, j.Group = r.text("job_id"), r.text("user"), r.text("vc")
	if j.GPUs, refused = r.gpus("gpu_num"); refused != nil {
		return refused
	}
	if j.Duration, refused = r.seconds("duration"); refused != nil {
		return refused
	}
	if j.submit, refused = utc("submit_time", r.text("submit_time")); refused != nil || unknown(r.text("start_time")) {
		return refused
	}
	start, refused := utc("start_time", r.text("start_time"))
	if refused == nil && start.Before(j.submit) {
		refused = &refusal{
			"started before its submission", quoted("start_time", r.text("start_time")) + ", " + quoted("submit_time", r.text("submit_time")),
		}
	}
	j.start = &start
	return refused
}

// utc reads a time of a source whose zone is not known, as if there were no daylight saving time.
func utc(name, value string) (time.Time, *refusal) {
	if value == "" {
		return time.Time{}, empty(name)
	}
	times := parseTime(value, time.UTC)
	if times == nil {
		return time.Time{}, invalid(name, value, dateAndTime)
	}
	return times[0], nil
}

func (c *Converter) addITP(r *row) {
	j := job{place: r.place}
	c.add(j, parseITP(r, &j))
}

func parseITP(r *row, j *job) (refused *refusal) {
	j.ID = r.text("job_id")
	if j.GPUs, refused = r.gpus("num_gpu"); refused != nil {
		return refused
	}
	if j.Duration, refused = r.seconds("duration"); refused != nil {
		return refused
	}
	submit, refused := r.seconds("submission_time")
	j.submit = time.Unix(0, 0).Add(submit)
	return refused
}

// paiTables are the tables of PAI.
type paiTables struct {
	jobs []paiJob
	// ran is what the tasks of each job add up to, by the names of the jobs.
	ran map[string]*paiRun
}

type paiJob struct{ place, name, user, submit string }

type paiRun struct {
	gpus       float64
	first, end time.Duration
	backwards  string // the place of a task that ends before it starts
}

func (p *paiTables) addJob(r *row) {
	if p.ran == nil {
		p.ran = make(map[string]*paiRun)
	}
	name := r.text("job_name")
	p.jobs = append(p.jobs, paiJob{r.place, name, r.text("user"), r.text("start_time")})
	p.ran[name] = nil
}

// addPAITask adds a task to its job. GPUs are the sum over a job's tasks, most of them of less
// than one.
func (c *Converter) addPAITask(r *row) {
	if refused := c.pai.addTask(r); refused != nil {
		c.leaveOut("task", r.place, refused)
	}
}

func (p *paiTables) addTask(r *row) *refusal {
	name := r.text("job_name")
	ran, known := p.ran[name]
	switch {
	case !known:
		return &refusal{"no such job", quoted("job_name", name)}
	case r.text("inst_num") == "":
		return empty("inst_num")
	case r.text("plan_gpu") == "":
		return &refusal{reason: "requested no GPUs"}
	case r.text("start_time") == "" || r.text("end_time") == "":
		return &refusal{reason: "start_time or end_time empty"}
	}
	instances, refused := r.number("inst_num")
	if refused != nil {
		return refused
	}
	gpus, refused := r.number("plan_gpu")
	if refused != nil {
		return refused
	}
	start, refused := r.seconds("start_time")
	if refused != nil {
		return refused
	}
	end, refused := r.seconds("end_time")
	if refused != nil {
		return refused
	}
	if ran == nil {
		ran = &paiRun{first: math.MaxInt64}
		p.ran[name] = ran
	}
	const percent = 100
	ran.gpus += instances * gpus / percent
	ran.first, ran.end = min(ran.first, start), max(ran.end, end)
	if end < start {
		ran.backwards = r.place
	}
	return nil
}

// joinPAI adds the jobs, once all tasks are known.
func (c *Converter) joinPAI() {
	for _, listed := range c.pai.jobs {
		j := job{place: listed.place}
		j.ID, j.User = listed.name, listed.user
		c.add(j, parsePAI(listed.submit, c.pai.ran[listed.name], &j))
	}
}

func parsePAI(submit string, ran *paiRun, j *job) *refusal {
	switch {
	case submit == "":
		return empty("start_time")
	case ran == nil:
		return &refusal{reason: "no task ran on GPUs"}
	case ran.backwards != "":
		return &refusal{"ends before it starts", "the task in " + ran.backwards}
	case ran.gpus < 1:
		return &refusal{"ran on less than one GPU", fmt.Sprintf("on %.2g", ran.gpus)}
	case ran.gpus > math.MaxInt32:
		return &refusal{"not valid in a trace", fmt.Sprintf("GPUs are %g; must be at most %d", ran.gpus, math.MaxInt32)}
	}
	seconds, refused := (&row{at: map[string]int{"start_time": 0}, record: []string{submit}}).seconds("start_time")
	j.submit = time.Unix(0, 0).Add(seconds)
	j.GPUs = int(math.Ceil(ran.gpus))
	j.Duration = ran.end - ran.first
	return refused
}
