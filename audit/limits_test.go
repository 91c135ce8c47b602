package audit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestSizeLimitRules checks which size limits and pieces a request may have.
func TestSizeLimitRules(t *testing.T) {
	t.Parallel()
	var many []string
	for n := range maxSizeLimits + 1 {
		many = append(many, fmt.Sprintf(`{"size": %d, "nodes": 1}`, n+2))
	}
	const totalTime = `"options": {"objective": "OBJECTIVE_TOTAL_TIME"}, `
	const types = `"nodeTypes": [{"id": "x", "nodes": 2}, {"id": "y", "nodes": 2}], `
	limits := func(of ...string) string { return `"sizeLimits": [` + strings.Join(of, ", ") + `]` }
	for name, test := range map[string]struct{ text, invalid string }{
		"valid":                   {totalTime + `"snapshot": {` + limits(`{"size": 2}`, `{"size": 3, "nodes": 9}`) + `}`, ""},
		"as many as there may be": {totalTime + `"snapshot": {` + limits(many[1:]...) + `}`, ""},
		"one too many":            {totalTime + `"snapshot": {` + limits(many...) + `}`, "size_limits"},
		"size 1":                  {totalTime + `"snapshot": {` + limits(`{"size": 1, "nodes": 2}`) + `}`, "size_limits[0].size"},
		"no size":                 {totalTime + `"snapshot": {` + limits(`{"nodes": 2}`) + `}`, "size_limits[0].size"},
		"negative nodes":          {totalTime + `"snapshot": {` + limits(`{"size": 2, "nodes": -1}`) + `}`, "size_limits[0].nodes"},
		"twice": {
			totalTime + `"snapshot": {` + limits(`{"size": 2}`, `{"size": 2, "nodes": 1}`) + `}`, "size_limits[1].size",
		},
		"objective of progress": {
			`"options": {"objective": "OBJECTIVE_PROGRESS"}, "snapshot": {` + limits(`{"size": 2}`) + `}`, "size_limits",
		},
		"groups": {totalTime + `"snapshot": {"groups": [{"id": "g"}], ` + limits(`{"size": 2}`) + `}`, ""},
		"each type": {
			totalTime + `"snapshot": {` + types + limits(`{"size": 2, "nodeType": "x"}`, `{"size": 2, "nodeType": "y"}`) + `}`, "",
		},
		"twice on a type": {
			totalTime + `"snapshot": {` + types + limits(`{"size": 2, "nodeType": "y"}`, `{"size": 2, "nodeType": "y"}`) + `}`,
			"size_limits[1].size",
		},
		"no type of several": {totalTime + `"snapshot": {` + types + limits(`{"size": 2}`) + `}`, "size_limits[0].node_type"},
		"unknown type": {
			totalTime + `"snapshot": {` + types + limits(`{"size": 2, "nodeType": "z"}`) + `}`, "size_limits[0].node_type",
		},
		"a type without node types": {totalTime + `"snapshot": {` + limits(`{"size": 2, "nodeType": "x"}`) + `}`, "size_limits[0].node_type"},
		"no type of one":            {totalTime + `"snapshot": {"nodeTypes": [{"id": "x", "nodes": 2}], ` + limits(`{"size": 2}`) + `}`, ""},
		"a piece":                   {`"snapshot": {"jobs": [{"id": "a", "remainingEta": "1s", "pieceNodes": 1}]}`, ""},
		"a piece of 0":              {`"snapshot": {"jobs": [{"id": "a", "remainingEta": "1s", "pieceNodes": 0}]}`, ""},
		"a negative piece":          {`"snapshot": {"jobs": [{"id": "a", "remainingEta": "1s", "pieceNodes": -1}]}`, "jobs[0] is piece_nodes"},
		"a negative piece, job frozen": {
			`"options": {"badJobs": "BAD_JOBS_HOLD"}, "snapshot": {"jobs": [{"id": "a", "remainingEta": "1s", "pieceNodes": -1}]}`, "",
		},
	} {
		request := new(elastallocv1.AllocateRequest)
		if err := protojson.Unmarshal([]byte("{"+test.text+"}"), request); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, err := parseRequest(request)
		if (err == nil) != (test.invalid == "") || err != nil && !strings.HasPrefix(err.Error(), "snapshot."+test.invalid) {
			t.Errorf("%s: %v; want %q", name, err, test.invalid)
		}
	}
}

// TestAdmissionWithSizeLimits checks admission classes by hand: + is required, o is optional, - is excluded.
func TestAdmissionWithSizeLimits(t *testing.T) {
	t.Parallel()
	options := func(admission string) string {
		return `"options": {"admission": "ADMISSION_` + admission + `", "objective": "OBJECTIVE_TOTAL_TIME", "badJobs": "BAD_JOBS_HOLD"}, `
	}
	const running = `"currentNodes": 4, "trainingTime": "1s", "minNodes": 4`
	for name, test := range map[string]struct{ text, want string }{
		"the queue stops at a job that does not fit a limit": {options("FIFO") + `"snapshot": {"totalNodes": 16,
			"sizeLimits": [{"size": 4, "nodes": 7}], "jobs": [
			{"id": "a", "remainingEta": "9s", "minNodes": 4},
			{"id": "b", "remainingEta": "9s", "minNodes": 4}, {"id": "c", "remainingEta": "9s"}]}`, "+--"},
		"a job that never fits a limit is skipped": {options("FIFO") + `"snapshot": {"totalNodes": 16,
			"sizeLimits": [{"size": 4, "nodes": 3}], "jobs": [
			{"id": "a", "remainingEta": "9s", "minNodes": 4}, {"id": "b", "remainingEta": "9s"}]}`, "-+"},
		"small pieces do not count": {options("FIFO") + `"snapshot": {"totalNodes": 16, "sizeLimits": [{"size": 4, "nodes": 3}], "jobs": [
			{"id": "a", "remainingEta": "9s", "minNodes": 4, "pieceNodes": 2}, {"id": "b", "remainingEta": "9s"}]}`, "++"},
		"running jobs that fit a limit keep running": {options("FIFO") + `"snapshot": {"totalNodes": 16,
			"sizeLimits": [{"size": 4, "nodes": 7}], "jobs": [
			{"id": "q", "remainingEta": "9s"},
			{"id": "a", "remainingEta": "9s", ` + running + `}, {"id": "b", "remainingEta": "9s", ` + running + `},
			{"id": "c", "remainingEta": "9s", "currentNodes": 1}]}`, "-+-+"},
		"queued jobs are optional if running jobs fit the limits": {options("OPTIMIZED") + `"snapshot": {"totalNodes": 16,
			"sizeLimits": [{"size": 4, "nodes": 8}], "jobs": [
			{"id": "q", "remainingEta": "9s", "minNodes": 4},
			{"id": "a", "remainingEta": "9s", ` + running + `}, {"id": "b", "remainingEta": "9s", ` + running + `}]}`, "o++"},
		"queued jobs wait if a running job does not fit a limit": {options("OPTIMIZED") + `"snapshot": {"totalNodes": 16,
			"sizeLimits": [{"size": 4, "nodes": 7}], "jobs": [
			{"id": "q", "remainingEta": "9s"},
			{"id": "a", "remainingEta": "9s", ` + running + `}, {"id": "b", "remainingEta": "9s", ` + running + `}]}`, "-+-"},
		"new jobs start up to the first that does not fit a limit": {options("START_FIRST") + `"snapshot": {"totalNodes": 16,
			"sizeLimits": [{"size": 4, "nodes": 9}], "jobs": [
			{"id": "a", "remainingEta": "9s", "minNodes": 4}, {"id": "b", "remainingEta": "9s", "minNodes": 4},
			{"id": "c", "remainingEta": "9s", "minNodes": 4},
			{"id": "d", "remainingEta": "9s"}]}`, "++oo"},
		"a loading job keeps its smallest size if the limit has room": {options("START_FIRST") +
			`"snapshot": {"totalNodes": 16, "sizeLimits": [{"size": 4, "nodes": 7}], "jobs": [
			{"id": "a", "remainingEta": "9s", "currentNodes": 4, "minNodes": 4}, {"id": "b", "remainingEta": "9s", "currentNodes": 4, "minNodes": 4},
			{"id": "c", "remainingEta": "9s", "currentNodes": 1}]}`, "+o+"},
		"a new job does not displace a shorter job from a limit": {options("START_FIRST") + `"snapshot": {"totalNodes": 16,
			"sizeLimits": [{"size": 4, "nodes": 7}], "jobs": [
			{"id": "a", "remainingEta": "99s",
				` + running + `}, {"id": "b", "remainingEta": "999s", "minNodes": 4}, {"id": "c", "remainingEta": "9s", "minNodes": 4}]}`, "oo+"},
		"a frozen job occupies the limit": {options("FIFO") + `"snapshot": {"totalNodes": 16, "sizeLimits": [{"size": 4, "nodes": 7}], "jobs": [
			{"id": "a", "currentNodes": 4}, {"id": "b", "remainingEta": "9s", "minNodes": 4}, {"id": "c", "remainingEta": "9s"}]}`, "--+"},
		"a frozen job in small pieces does not": {options("FIFO") + `"snapshot": {"totalNodes": 16,
			"sizeLimits": [{"size": 4, "nodes": 7}], "jobs": [
			{"id": "a", "currentNodes": 4, "pieceNodes": 1},
			{"id": "b", "remainingEta": "9s", "minNodes": 4}, {"id": "c", "remainingEta": "9s"}]}`, "-++"},
		"a job starts on the type whose limit has room": {options("FIFO") + `"snapshot": {"nodeTypes": [{"id": "x", "nodes": 9},
			{"id": "y", "nodes": 8}],
			"sizeLimits": [{"size": 4, "nodes": 3, "nodeType": "x"}, {"size": 2, "nodes": 5, "nodeType": "y"}], "jobs": [
			{"id": "a", "remainingEta": "9s", "minNodes": 4},
			{"id": "b", "remainingEta": "9s", "minNodes": 4}, {"id": "c", "remainingEta": "9s"}]}`, "+--"},
	} {
		classes, err := parse(t, "{"+test.text+"}").admit()
		got := ""
		for _, class := range classes {
			got += map[admissionClass]string{excluded: "-", optional: "o", required: "+"}[class]
		}
		if got != test.want || err != nil {
			t.Errorf("%s: %s, %v; want %s", name, got, err, test.want)
		}
	}
}

// TestLimitRows checks which size limits have a row. The jobs can reach 8, 6 and 3 nodes, one of them in pieces
// of 2 nodes.
func TestLimitRows(t *testing.T) {
	t.Parallel()
	const jobs = `"jobs": [{"id": "a", "remainingEta": "9s", "allowedNodes": [1, 8]},
		{"id": "b", "remainingEta": "9s", "allowedNodes": [6], "pieceNodes": 2}, {"id": "c", "remainingEta": "9s", "allowedNodes": [3]}]`
	for name, test := range map[string]struct {
		limits   string
		capacity []int
		rows     []int
	}{
		"none":                {``, []int{9}, []int{}},
		"one":                 {`{"size": 3, "nodes": 8}`, []int{9, 8}, []int{1}},
		"out of reach":        {`{"size": 9, "nodes": 0}`, []int{9}, []int{-1}},
		"large enough":        {`{"size": 4, "nodes": 8}`, []int{9}, []int{-1}},
		"implied by the pool": {`{"size": 2, "nodes": 9}`, []int{9}, []int{0}},
		"implied by another":  {`{"size": 4, "nodes": 7}, {"size": 3, "nodes": 7}`, []int{9, 7}, []int{1, 1}},
		"in the order of size": {
			`{"size": 4, "nodes": 6}, {"size": 3, "nodes": 7}, {"size": 2, "nodes": 8}`, []int{9, 8, 7, 6}, []int{3, 2, 1},
		},
		"of the same jobs":         {`{"size": 4, "nodes": 6}, {"size": 5, "nodes": 7}, {"size": 6, "nodes": 5}`, []int{9, 5}, []int{1, 1, 1}},
		"of the same jobs, larger": {`{"size": 2, "nodes": 8}, {"size": 5, "nodes": 7}, {"size": 6, "nodes": 7}`, []int{9, 8, 7}, []int{1, 2, 2}},
	} {
		s := parse(t, `{"options": {"admission": "ADMISSION_PREEMPTIVE", "objective": "OBJECTIVE_TOTAL_TIME"},
			"snapshot": {"totalNodes": 9, "sizeLimits": [`+test.limits+`], `+jobs+`}}`)
		m, err := newModel(s, 10, nil, newBudget(t.Context(), Options{}))
		if err != nil || !slices.Equal(m.capacity, test.capacity) || !slices.Equal(m.limitRows, test.rows) {
			t.Errorf("%s: capacity %v, rows %v, %v; want %v and %v", name, m.capacity, m.limitRows, err, test.capacity, test.rows)
		}
	}
}

// randomUsage gives every member a random size of a random node type, or none. It returns the nodes that count in each size limit
// and in each row.
func (m *model) randomUsage(r *rand.Rand) (limits, rows []int) {
	limits, rows = make([]int, len(m.limits)), make([]int, len(m.capacity))
	for i := range m.members {
		j := m.members[i].job
		p := j.profiles[r.IntN(len(j.profiles))]
		k := append([]int{0}, p.sizes...)[r.IntN(len(p.sizes)+1)]
		for n := range m.limits {
			limits[n] += m.limits[n].usage(j, p.nodeType, k)
		}
		for t, nodes := range m.usageByRow(j, p.nodeType, k) {
			rows[t] += nodes
		}
	}
	return limits, rows
}

// within reports whether no number exceeds its limit. Numbers after the last limit have none.
func within(numbers, limits []int) bool {
	for n, limit := range limits {
		if numbers[n] > limit {
			return false
		}
	}
	return true
}

// TestLimitRowsSuffice checks on random models that plans which fit the rows satisfy all size limits.
func TestLimitRowsSuffice(t *testing.T) {
	t.Parallel()
	dropped, violated := 0, 0
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 8))
		m := randomModel(t, r)
		if len(m.limits) == 0 || len(m.members) == 0 {
			continue
		}
		if len(m.rowLimits) < len(m.limits) {
			dropped++
		}
		var available []int
		for n := range m.limits {
			available = append(available, m.limits[n].available)
		}
		for range 200 {
			used, rows := m.randomUsage(r)
			fits, satisfied := within(rows, m.capacity), within(rows, m.nodes) && within(used, available)
			if fits != satisfied {
				t.Fatalf("seed %d: nodes by row %v of %v, by limit %v of %v", seed, rows, m.capacity, used, m.limits)
			}
			if !satisfied {
				violated++
			}
		}
	}
	if t.Logf("%d with limits without a row, %d violations", dropped, violated); min(dropped, violated) < 50 {
		t.Error("too few")
	}
}

// TestAdmissionRules compares admission classes under size limits with a direct implementation of the rules: a
// set of jobs fits if their smallest sizes satisfy the capacity of the pool and all size limits.
func TestAdmissionRules(t *testing.T) {
	t.Parallel()
	counts := make(map[string]int)
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 9))
		s := &elastallocv1.Snapshot{TotalNodes: 4 + r.Int32N(20)}
		for size := int32(2); size < 8; size += 1 + r.Int32N(4) {
			s.SizeLimits = append(s.SizeLimits, &elastallocv1.SizeLimit{Size: size, Nodes: r.Int32N(s.TotalNodes)})
		}
		for n := range 2 + r.IntN(6) {
			j := &elastallocv1.Job{
				Id: fmt.Sprint(n), RemainingEta: durationpb.New(time.Duration(1+r.IntN(5)) * time.Hour), Weight: new(1 + float64(r.IntN(3))),
				AllowedNodes: []int32{1 + r.Int32N(6)}, RestartTime: durationpb.New(time.Duration(r.IntN(3)) * time.Hour),
			}
			if r.IntN(2) == 0 {
				j.PieceNodes = new(1 + r.Int32N(5))
			}
			if r.IntN(2) == 0 {
				j.CurrentNodes = 1 + r.Int32N(6)
			}
			if r.IntN(2) == 0 {
				j.TrainingTime = durationpb.New(time.Hour)
			}
			s.Jobs = append(s.Jobs, j)
		}
		options := &elastallocv1.AllocateOptions{
			Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME, Admission: 1 + elastallocv1.Admission(r.IntN(4)),
		}
		parsed, err := parseRequest(&elastallocv1.AllocateRequest{Snapshot: s, Options: options})
		if err != nil {
			t.Fatal(err)
		}
		classes, err := parsed.admit()
		got := ""
		for _, class := range classes {
			got += map[admissionClass]string{excluded: "-", optional: "o", required: "+"}[class]
		}
		if want := admitByRules(s, options.Admission); err != nil || got != want {
			t.Fatalf("seed %d: %s, %v; want %s\n%s", seed, got, err, want, protojson.Format(s))
		}
		if s.SizeLimits = nil; got != admitByRules(s, options.Admission) {
			counts[options.Admission.String()]++
		}
	}
	if t.Log("classes that size limits change:", counts); len(counts) < 3 {
		t.Error("too few")
	}
}

// admitByRules returns the admission classes of jobs with one size each.
func admitByRules(s *elastallocv1.Snapshot, admission elastallocv1.Admission) string {
	r := admissionRules{Snapshot: s, classes: []byte(strings.Repeat("-", len(s.GetJobs())))}
	switch admission {
	case elastallocv1.Admission_ADMISSION_PREEMPTIVE:
		return strings.Repeat("o", len(s.GetJobs()))
	case elastallocv1.Admission_ADMISSION_START_FIRST:
		r.requireLoading()
		r.requireNew()
	default:
		lost := r.requireRunning()
		r.admitQueued(lost, admission == elastallocv1.Admission_ADMISSION_OPTIMIZED)
	}
	return string(r.classes)
}

// admissionRules is the state of admitByRules.
type admissionRules struct {
	*elastallocv1.Snapshot
	classes  []byte
	required []*elastallocv1.Job
}

// require makes a job required.
func (r *admissionRules) require(n int) {
	r.classes[n], r.required = '+', append(r.required, r.GetJobs()[n])
}

// requireLoading requires the jobs that load, as far as they fit. All other jobs are optional.
func (r *admissionRules) requireLoading() {
	for n, j := range r.GetJobs() {
		loading := j.GetCurrentNodes() > 0 && j.TrainingTime == nil
		if r.classes[n] = 'o'; loading && r.fits(j, r.required...) {
			r.require(n)
		}
	}
}

// requireNew requires new jobs, up to the first that does not fit, if they fit in addition to the running jobs that have
// less work left.
func (r *admissionRules) requireNew() {
	for n, j := range r.GetJobs() {
		if j.GetCurrentNodes() > 0 || j.TrainingTime != nil || !r.fits(j) {
			continue
		}
		if !r.fits(j, r.required...) {
			return
		}
		restart := j.GetRestartTime().AsDuration().Hours() * float64(size(j)) * math.Pow(0.8, math.Log2(float64(size(j))))
		before := slices.Clone(r.required)
		for i, other := range r.GetJobs() {
			if other.GetCurrentNodes() > 0 && r.classes[i] == 'o' && r.fits(other) &&
				other.GetRemainingEta().AsDuration().Hours()/other.GetWeight() <= (j.GetRemainingEta().AsDuration().Hours()+restart)/j.GetWeight() {
				before = append(before, other)
			}
		}
		if r.fits(j, before...) {
			r.require(n)
		}
	}
}

// requireRunning requires the running jobs as far as they fit, and reports whether one does not.
func (r *admissionRules) requireRunning() (lost bool) {
	for n, j := range r.GetJobs() {
		switch {
		case j.GetCurrentNodes() == 0 || !r.fits(j):
		case r.fits(j, r.required...):
			r.require(n)
		default:
			lost = true
		}
	}
	return lost
}

// admitQueued admits queued jobs if no running job lost its nodes: all as optional, or up to the first that does not fit.
func (r *admissionRules) admitQueued(lost, optional bool) {
	for n, j := range r.GetJobs() {
		switch {
		case j.GetCurrentNodes() > 0 || lost:
		case optional:
			r.classes[n] = 'o'
		case !r.fits(j):
		case r.fits(j, r.required...):
			r.require(n)
		default:
			return
		}
	}
}

// fits reports whether a job fits in addition to others, as far as it counts itself.
func (r *admissionRules) fits(j *elastallocv1.Job, others ...*elastallocv1.Job) bool {
	left := r.GetTotalNodes() - size(j)
	for _, other := range others {
		left -= size(other)
	}
	for _, l := range r.GetSizeLimits() {
		ofLimit := l.GetNodes() - countedNodes(l, j)
		for _, other := range others {
			ofLimit -= countedNodes(l, other)
		}
		if countedNodes(l, j) > 0 {
			left = min(left, ofLimit)
		}
	}
	return left >= 0
}

// size returns the only size of a job.
func size(j *elastallocv1.Job) int32 { return j.GetAllowedNodes()[0] }

// countedNodes returns the nodes of a job that count toward a size limit, piece by piece.
func countedNodes(l *elastallocv1.SizeLimit, j *elastallocv1.Job) (nodes int32) {
	for left := size(j); left > 0; {
		piece := left
		if j.PieceNodes != nil {
			piece = min(left, j.GetPieceNodes())
		}
		if left -= piece; piece >= l.GetSize() {
			nodes += piece
		}
	}
	return nodes
}
