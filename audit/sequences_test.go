package audit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// parse parses a request in JSON.
func parse(t *testing.T, text string) *snapshot {
	t.Helper()
	request := new(elastallocv1.AllocateRequest)
	if err := protojson.Unmarshal([]byte(text), request); err != nil {
		t.Fatal(err)
	}
	s, err := parseRequest(request)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSequences compares the best plans of small snapshots with those of an exhaustive search by
// independent code, to six digits. In each snapshot, repeated changes would do no work or lose work.
func TestSequences(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text      string
		objective float64 // without share_price
		nodes     []int   // now
	}{
		"of three equal jobs the running job keeps the node": {`{"snapshot": {"totalNodes": 1, "jobs": [
			{"id": "s0", "remainingEta": "3600s", "trainingTime": "300s", "waitingTime": "4800s", "restartTime": "300s"},
			{"id": "s1", "remainingEta": "3600s", "trainingTime": "300s", "waitingTime": "4800s", "restartTime": "300s"},
			{"id": "s2", "remainingEta": "3600s", "currentNodes": 1, "trainingTime": "600s", "waitingTime": "4500s", "restartTime": "300s"}]},
			"options": {"admission": "ADMISSION_PREEMPTIVE", "objective": "OBJECTIVE_TOTAL_TIME"}}`, 3.082817, []int{0, 0, 1}},
		"a job loads": {`{"snapshot": {"totalNodes": 1, "jobs": [
			{"id": "loads", "remainingEta": "36000s", "currentNodes": 1, "restartTime": "300s"},
			{"id": "new", "remainingEta": "3600s", "waitingTime": "300s", "restartTime": "300s"}]},
			"options": {"admission": "ADMISSION_START_FIRST", "objective": "OBJECTIVE_TOTAL_TIME"}}`, 1.926255, []int{1, 0}},
		"an equal job displaces none": {`{"snapshot": {"totalNodes": 1, "jobs": [
			{"id": "old", "remainingEta": "3600s", "currentNodes": 1, "trainingTime": "600s", "restartTime": "300s"},
			{"id": "new", "remainingEta": "3600s", "restartTime": "300s"}]},
			"options": {"admission": "ADMISSION_START_FIRST", "objective": "OBJECTIVE_TOTAL_TIME"}}`, 2.484860, []int{1, 0}},
		"a shorter job displaces": {`{"snapshot": {"totalNodes": 1, "jobs": [
			{"id": "old", "remainingEta": "3600s", "currentNodes": 1, "trainingTime": "600s", "restartTime": "300s"},
			{"id": "new", "remainingEta": "1800s", "restartTime": "300s"}]},
			"options": {"admission": "ADMISSION_START_FIRST", "objective": "OBJECTIVE_TOTAL_TIME"}}`, 2.151259, []int{0, 1}},
		"a long restart is paid back over a long time": {`{"snapshot": {"totalNodes": 16, "jobs": [
			{"id": "a", "remainingEta": "360000s", "currentNodes": 1, "trainingTime": "3600s", "restartTime": "1000s"}]},
			"options": {"admission": "ADMISSION_START_FIRST", "objective": "OBJECTIVE_TOTAL_TIME"}}`, 1.422812, []int{16}},
		"a resume is not charged the restart": {`{"snapshot": {"totalNodes": 8, "jobs": [
			{"id": "a", "remainingEta": "36000s", "trainingTime": "600s", "waitingTime": "40000s", "restartTime": "500s"},
			{"id": "b", "remainingEta": "7200s", "currentNodes": 4, "trainingTime": "600s", "restartTime": "500s"}]},
			"options": {"admission": "ADMISSION_PREEMPTIVE", "objective": "OBJECTIVE_TOTAL_TIME"}}`, 4.087642, []int{4, 4}},
		"a smaller size is charged the speed before": {`{"snapshot": {"totalNodes": 8, "jobs": [
			{"id": "a", "remainingEta": "36000s", "currentNodes": 8, "trainingTime": "6000s", "restartTime": "120s"},
			{"id": "b", "remainingEta": "7200s", "restartTime": "120s"}]},
			"options": {"admission": "ADMISSION_START_FIRST", "objective": "OBJECTIVE_TOTAL_TIME"}}`, 2.545655, []int{4, 4}},
		"aging outruns no restart": {`{"snapshot": {"totalNodes": 8, "jobs": [
			{"id": "a", "remainingEta": "36000s", "trainingTime": "600s", "waitingTime": "40000s", "restartTime": "500s", "weight": 2},
			{"id": "b", "remainingEta": "7200s", "currentNodes": 4, "trainingTime": "600s", "restartTime": "500s"},
			{"id": "c", "remainingEta": "7200s", "restartTime": "120s"}]},
			"options": {"admission": "ADMISSION_PREEMPTIVE", "objective": "OBJECTIVE_TOTAL_TIME"}}`, 7.242447, []int{2, 4, 2}},
		"ETA errors count where changes cost something": {`{"snapshot": {"totalNodes": 4, "jobs": [
			{"id": "a", "remainingEta": "7200s", "restartTime": "60s", "etaError": 0.05},
			{"id": "b", "remainingEta": "7000s", "restartTime": "0s"},
			{"id": "c", "remainingEta": "6800s", "restartTime": "60s", "etaError": 0.4}]},
			"options": {"admission": "ADMISSION_PREEMPTIVE", "objective": "OBJECTIVE_TOTAL_TIME"}}`, 3.809704, []int{1, 2, 1}},
		// 4 nodes train at 2.56, for 200 s of the first step; what a step brings counts in all from it on.
		"a restart takes a third of a step": {`{"snapshot": {"totalNodes": 4, "jobs": [
			{"id": "a", "remainingEta": "36000s", "trainingTime": "600s", "waitingTime": "600s", "restartTime": "300s"}]},
			"options": {"admission": "ADMISSION_OPTIMIZED", "objective": "OBJECTIVE_PROGRESS"}}`, 2.56 * (5*200 + 10*300) / 36000, []int{4}},
		"a running job that fits runs on": {`{"snapshot": {"totalNodes": 6, "jobs": [
			{"id": "A", "minNodes": 3, "maxNodes": 3, "currentNodes": 3, "remainingEta": "36000s",
				"etaNodes": 3, "trainingTime": "600s", "restartTime": "300s"},
			{"id": "B", "minNodes": 4, "maxNodes": 4, "currentNodes": 4, "remainingEta": "36000s",
				"etaNodes": 4, "trainingTime": "600s", "restartTime": "300s"},
			{"id": "C", "minNodes": 1, "maxNodes": 1, "currentNodes": 1, "remainingEta": "120s", "trainingTime": "600s", "restartTime": "300s"},
			{"id": "queued", "remainingEta": "3600s", "maxNodes": 1}]},
			"options": {"objective": "OBJECTIVE_PROGRESS"}}`, 5 + 15*300./36000, []int{3, 0, 1, 0}},
	} {
		s := parse(t, test.text)
		if s.totalTime != nil {
			s.totalTime.sharePrice = 0
		}
		m, err := newModel(s, 10, nil, newBudget(t.Context(), Options{}))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		d := &decision{model: m, report: &elastallocv1.SolveReport{}}
		e := newBudget(t.Context(), Options{})
		if plan := d.findBetter(e, test.objective+1e-6); plan != nil {
			t.Errorf("%s: %v is returned as better", name, plan)
		}
		nodes := make([]int, len(m.jobs))
		for i, row := range d.findBetter(e, test.objective-1e-6) {
			nodes[m.members[i].index] = row[0]
		}
		if !slices.Equal(nodes, test.nodes) {
			t.Errorf("%s: the best plan is %v; want %v", name, nodes, test.nodes)
		}
	}
}

// TestAdmission checks the admission classes of jobs.
func TestAdmission(t *testing.T) {
	t.Parallel()
	const startFirst = `"options": {"admission": "ADMISSION_START_FIRST", "objective": "OBJECTIVE_TOTAL_TIME"}`
	for name, test := range map[string]struct{ text, want string }{
		"loading jobs keep their smallest sizes, but for one that there is no room for": {startFirst + `, "snapshot": {"totalNodes": 4, "jobs": [
			{"id": "a", "remainingEta": "9000s", "currentNodes": 3, "minNodes": 3, "maxNodes": 3},
			{"id": "b", "remainingEta": "9000s", "currentNodes": 2, "minNodes": 2},
			{"id": "c", "remainingEta": "9000s", "currentNodes": 4}, {"id": "d", "remainingEta": "1s"}]}`, "+o+o"},
		"a new job is skipped, the next is shorter": {startFirst + `, "snapshot": {"totalNodes": 1, "jobs": [
			{"id": "a", "remainingEta": "3600s", "trainingTime": "1s", "currentNodes": 1},
			{"id": "b", "remainingEta": "3600s"}, {"id": "c", "remainingEta": "3599s"}]}`, "oo+"},
		"a new job that does not fit is the last": {startFirst + `, "snapshot": {"totalNodes": 2, "jobs": [
			{"id": "a", "remainingEta": "3600s"}, {"id": "b", "remainingEta": "36s", "minNodes": 2}, {"id": "c", "remainingEta": "36s"}]}`, "+oo"},
		"weights without aging": {startFirst + `, "snapshot": {"totalNodes": 3, "jobs": [
			{"id": "a", "remainingEta": "7200s", "weight": 2, "trainingTime": "1s", "currentNodes": 1},
			{"id": "b", "remainingEta": "7200s", "weight": 0, "trainingTime": "1s", "currentNodes": 1},
			{"id": "c", "remainingEta": "3600s", "waitingTime": "99999s", "allowedNodes": [3]},
			{"id": "d", "remainingEta": "3500s", "waitingTime": "99999s", "allowedNodes": [3]},
			{"id": "e", "remainingEta": "1s", "weight": 0}]}`, "ooo+o"},
		"jobs of weight 0 displace none": {startFirst + `, "snapshot": {"totalNodes": 1, "jobs": [
			{"id": "a", "remainingEta": "7200s", "weight": 0, "trainingTime": "1s", "currentNodes": 1},
			{"id": "b", "remainingEta": "1s", "weight": 0}]}`, "oo"},
		"with its restart": {startFirst + `, "snapshot": {"totalNodes": 4, "jobs": [
			{"id": "a", "remainingEta": "3600s", "trainingTime": "1s", "currentNodes": 1},
			{"id": "b", "remainingEta": "1600s", "restartTime": "785s", "allowedNodes": [4]},
			{"id": "c", "remainingEta": "1600s", "restartTime": "780s", "allowedNodes": [4]}]}`, "oo+"},
		"jobs that do not fit a limit, and the pool": {startFirst + `,
			"snapshot": {"totalNodes": 4, "groups": [{"id": "g", "limit": 2}, {"id": "h"}], "jobs": [
			{"id": "a", "groupId": "g", "remainingEta": "1800s", "trainingTime": "1s", "currentNodes": 2, "minNodes": 2},
			{"id": "b", "groupId": "g", "remainingEta": "3600s", "minNodes": 2}, {"id": "c", "groupId": "g", "remainingEta": "3600s", "minNodes": 1},
			{"id": "d", "groupId": "h", "remainingEta": "3600s", "minNodes": 1}]}`, "o+oo"},
		"types that the new job trains on": {startFirst + `,
			"snapshot": {"nodeTypes": [{"id": "x", "nodes": 1}, {"id": "y", "nodes": 2}, {"id": "z", "nodes": 9}], "jobs": [
			{"id": "a", "remainingEta": "60s", "trainingTime": "1s", "currentNodes": 1, "currentNodeType": "x"},
			{"id": "b", "remainingEta": "60s", "trainingTime": "1s", "currentNodes": 9, "currentNodeType": "z", "minNodes": 9, "maxNodes": 9},
			{"id": "c", "remainingEta": "3600s", "minNodes": 2, "speeds": [{"nodeType": "x"}, {"nodeType": "y"}]},
			{"id": "d", "remainingEta": "3600s", "speeds": [{"nodeType": "x"}, {"nodeType": "y"}]},
			{"id": "e", "remainingEta": "3600s", "speeds": [{"nodeType": "z"}]}]}`, "oo+oo"},
		"room on another type": {startFirst + `, "snapshot": {"nodeTypes": [{"id": "x", "nodes": 1}, {"id": "y", "nodes": 2}], "jobs": [
			{"id": "a", "remainingEta": "60s", "trainingTime": "1s", "currentNodes": 2, "currentNodeType": "y", "minNodes": 2, "maxNodes": 2},
			{"id": "b", "remainingEta": "3600s"}]}`, "o+"},
		"remaining work on a mean node": {startFirst + `, "snapshot": {"nodeTypes": [{"id": "x", "nodes": 1}, {"id": "y", "nodes": 1}], "jobs": [
			{"id": "a", "remainingEta": "3600s", "trainingTime": "1s", "currentNodes": 1,
				"currentNodeType": "x", "speeds": [{"nodeType": "x", "factor": 3}, {"nodeType": "y", "factor": 1}]},
			{"id": "b", "remainingEta": "1900s", "speeds": [{"nodeType": "x", "factor": 1}]},
			{"id": "c", "remainingEta": "1700s", "speeds": [{"nodeType": "x", "factor": 1}]}]}`, "oo+"},
		"the smallest size of the type that the new job would start on": {startFirst + `,
			"snapshot": {"nodeTypes": [{"id": "x", "nodes": 4}, {"id": "y", "nodes": 6}], "jobs": [
			{"id": "a", "remainingEta": "600s", "trainingTime": "1s", "currentNodes": 4, "currentNodeType": "x", "minNodes": 4, "maxNodes": 4},
			{"id": "b", "remainingEta": "600s", "trainingTime": "1s", "currentNodes": 6, "currentNodeType": "y", "allowedNodes": [4, 6]},
			{"id": "c", "remainingEta": "3600s", "speeds": [{"nodeType": "x", "allowedNodes": [4]},
			{"nodeType": "y", "allowedNodes": [1]}]}]}`, "oo+"},
		"to the objective of progress, an ETA that has run out is what the work " +
			"done makes it": {`"options": {"admission": "ADMISSION_START_FIRST", "objective": "OBJECTIVE_PROGRESS"},
				"snapshot": {"totalNodes": 1, "jobs": [
			{"id": "a", "remainingEta": "60s", "workDone": "36000s", "trainingTime": "1s", "currentNodes": 1},
			{"id": "b", "remainingEta": "3600s"}]}`, "o+"},
		"a running job that does not fit, with a queue": {`"options": {"admission": "ADMISSION_FIFO",
			"objective": "OBJECTIVE_PROGRESS"}, "snapshot": {"totalNodes": 3, "jobs": [
			{"id": "q", "remainingEta": "1s"}, {"id": "a", "remainingEta": "1s", "currentNodes": 2, "minNodes": 2},
			{"id": "b", "remainingEta": "1s", "currentNodes": 2, "minNodes": 2},
			{"id": "c", "remainingEta": "1s", "currentNodes": 1}]}`, "-+-+"},
		"a running job that does not fit, with optional jobs": {`"options": {"admission": "ADMISSION_OPTIMIZED",
			"objective": "OBJECTIVE_PROGRESS"}, "snapshot": {"totalNodes": 3, "jobs": [
			{"id": "q", "remainingEta": "1s"}, {"id": "a", "remainingEta": "1s", "currentNodes": 2, "minNodes": 2},
			{"id": "b", "remainingEta": "1s", "currentNodes": 2, "minNodes": 2},
			{"id": "c", "remainingEta": "1s", "currentNodes": 1}]}`, "-+-+"},
		"a running job that never fits": {`"options": {"admission": "ADMISSION_OPTIMIZED",
			"objective": "OBJECTIVE_PROGRESS"}, "snapshot": {"totalNodes": 3, "jobs": [
			{"id": "q", "remainingEta": "1s"}, {"id": "a", "remainingEta": "1s", "currentNodes": 4, "minNodes": 4},
			{"id": "c", "remainingEta": "1s", "currentNodes": 1}]}`, "o-+"},
		"a running job that does not fit its group, FIFO": {`"options": {"admission": "ADMISSION_FIFO",
			"objective": "OBJECTIVE_TOTAL_TIME"}, "snapshot": {"totalNodes": 9,
			"groups": [{"id": "g", "limit": 3}, {"id": "h"}], "jobs": [
			{"id": "a", "groupId": "g", "remainingEta": "1s", "currentNodes": 2, "minNodes": 2},
			{"id": "b", "groupId": "g", "remainingEta": "1s", "currentNodes": 2, "minNodes": 2},
			{"id": "c", "groupId": "g", "remainingEta": "1s", "currentNodes": 1},
			{"id": "p", "groupId": "g", "remainingEta": "1s"}, {"id": "q", "groupId": "h", "remainingEta": "1s"}]}`, "+-+-+"},
		"a second running job that does not fit its group": {`"options": {"admission": "ADMISSION_FIFO",
			"objective": "OBJECTIVE_TOTAL_TIME"}, "snapshot": {"totalNodes": 9,
			"groups": [{"id": "d", "limit": 4}, {"id": "g", "parentId": "d", "limit": 3}, {"id": "h", "parentId": "d"}], "jobs": [
			{"id": "a", "groupId": "g", "remainingEta": "1s", "currentNodes": 3, "minNodes": 3, "maxNodes": 3},
			{"id": "b", "groupId": "g", "remainingEta": "1s", "currentNodes": 1},
			{"id": "c", "groupId": "g", "remainingEta": "1s", "currentNodes": 2, "minNodes": 2},
			{"id": "q", "groupId": "h", "remainingEta": "1s"}]}`, "+---"},
		"a running job that does not fit its group, OPTIMIZED": {`"options": {"admission": "ADMISSION_OPTIMIZED",
			"objective": "OBJECTIVE_TOTAL_TIME"}, "snapshot": {"totalNodes": 9,
			"groups": [{"id": "g", "limit": 3}, {"id": "h"}], "jobs": [
			{"id": "a", "groupId": "g", "remainingEta": "1s", "currentNodes": 2, "minNodes": 2},
			{"id": "b", "groupId": "g", "remainingEta": "1s", "currentNodes": 2, "minNodes": 2},
			{"id": "c", "groupId": "g", "remainingEta": "1s", "currentNodes": 1},
			{"id": "p", "groupId": "g", "remainingEta": "1s"}, {"id": "q", "groupId": "h", "remainingEta": "1s"}]}`, "+-+-o"},
		"a queued job that does not fit a limit per type blocks nobody": {`"options": {"admission": "ADMISSION_FIFO"},
			"snapshot": {"nodeTypes": [{"id": "x", "nodes": 9}, {"id": "y"}],
			"groups": [{"id": "g", "typeLimits": [{"nodeType": "x", "limit": 3}]}], "jobs": [
			{"id": "a", "groupId": "g", "remainingEta": "1s", "currentNodes": 2, "currentNodeType": "x", "minNodes": 2},
			{"id": "p", "groupId": "g", "remainingEta": "1s", "minNodes": 2}, {"id": "q", "groupId": "g", "remainingEta": "1s"}]}`, "+-+"},
		"a running job that does not fit a limit per type blocks nobody": {`"options": {"admission": "ADMISSION_OPTIMIZED"},
			"snapshot": {"nodeTypes": [{"id": "x", "nodes": 9}, {"id": "y"}],
			"groups": [{"id": "g", "typeLimits": [{"nodeType": "x", "limit": 3}]}], "jobs": [
			{"id": "a", "groupId": "g", "remainingEta": "1s", "currentNodes": 2, "currentNodeType": "x", "minNodes": 2},
			{"id": "b", "groupId": "g", "remainingEta": "1s", "currentNodes": 2, "currentNodeType": "x", "minNodes": 2},
			{"id": "q", "groupId": "g", "remainingEta": "1s"}]}`, "+-o"},
	} {
		if got := parse(t, "{"+test.text+"}").admissionClasses(t); got != test.want {
			t.Errorf("%s: %s; want %s", name, got, test.want)
		}
	}
}

// admissionClasses returns the classes of all jobs: + is required, o is optional, - is excluded.
func (s *snapshot) admissionClasses(t *testing.T) (signs string) {
	t.Helper()
	classes, err := s.admit()
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range classes {
		signs += map[admissionClass]string{excluded: "-", optional: "o", required: "+"}[of]
	}
	return signs
}

// TestRestartBudget checks the admission classes of jobs, as in TestAdmission, and the sizes of the admitted jobs,
// if some have used their restart budgets.
func TestRestartBudget(t *testing.T) {
	t.Parallel()
	const (
		preemptive = elastallocv1.Admission_ADMISSION_PREEMPTIVE
		startFirst = elastallocv1.Admission_ADMISSION_START_FIRST
		fifo       = elastallocv1.Admission_ADMISSION_FIFO
		optimized  = elastallocv1.Admission_ADMISSION_OPTIMIZED
		used       = `"remainingEta": "9000s", "trainingTime": "1s", "restartTime": "60s", "recentRestarts": ["0s", "0s", "719.999999999s"]`
		unused     = `"remainingEta": "9000s", "trainingTime": "1s", "restartTime": "60s", "recentRestarts": ["0s", "0s", "720s"]`
		types      = `"nodeTypes": [{"id": "x", "nodes": 4}, {"id": "y", "nodes": 8}]`
	)
	for name, test := range map[string]struct {
		admission elastallocv1.Admission
		text      string
		classes   string
		sizes     string
	}{
		"it does not grow or pause": {preemptive, `"totalNodes": 8, "jobs": [{"id": "a", "currentNodes": 4, ` + used + `}]`, "+", "[1 2 4]"},
		"it does not grow":          {fifo, `"totalNodes": 8, "jobs": [{"id": "a", "currentNodes": 4, ` + used + `}]`, "+", "[1 2 4]"},
		"12 restart times": {
			preemptive, `"totalNodes": 8, "jobs": [{"id": "a", "currentNodes": 4, ` + unused + `}]`, "o", "[0 1 2 4 8 16]",
		},
		"two restarts": {preemptive, `"totalNodes": 8, "jobs": [{"id": "a", "currentNodes": 4,
			"remainingEta": "9000s", "restartTime": "60s", "recentRestarts": ["0s", "0s"]}]`, "o", "[0 1 2 4 8 16]"},
		"no restart time": {preemptive, `"totalNodes": 8, "jobs": [{"id": "a", "currentNodes": 4,
			"remainingEta": "9000s", "recentRestarts": ["0s", "0s", "0s"]}]`, "o", "[0 1 2 4 8 16]"},
		"a queued job": {preemptive, `"totalNodes": 8, "jobs": [{"id": "a", ` + used + `}]`, "o", "[0 1 2 4 8 16]"},
		"a size that is not legal": {
			preemptive, `"totalNodes": 8, "jobs": [{"id": "a", "currentNodes": 3, ` + used + `}]`, "o", "[0 1 2 4 8 16]",
		},
		"a type without its smallest size": {preemptive,
			types + `, "jobs": [{"id": "a", "currentNodes": 8, "currentNodeType": "x", "allowedNodes": [8], ` +
				used + `}]`, "o", "[0 8]"},
		"it does not move": {
			optimized, types + `, "jobs": [{"id": "a", "currentNodes": 4, "currentNodeType": "x", ` + used + `}]`, "+", "[0 1 2 4]",
		},
		"it has to move": {fifo, types + `, "jobs": [{"id": "a", "currentNodes": 4, "currentNodeType": "x", "allowedNodes": [4], ` + unused + `},
			{"id": "b", "currentNodes": 4, "currentNodeType": "x", "allowedNodes": [4, 8], ` + used + `}]`, "++", "[0 4] [0 4 8]"},
		"smallest sizes that do not fit together": {startFirst,
			`"totalNodes": 5, "jobs": [{"id": "a", "currentNodes": 4, "minNodes": 2, ` + used + `},
			{"id": "b", "currentNodes": 4, "minNodes": 4, ` + used + `}, {"id": "new", "remainingEta": "1s"}]`, "oo+", "[0 2 4] [0 4] [1 2 4 8 16]"},
		"smallest sizes of a group that do not fit together": {startFirst, `"totalNodes": 9, "groups": [{"id": "top", "limit": 5},
			{"id": "g", "parentId": "top"}, {"id": "h", "parentId": "top"}],
				"jobs": [{"id": "a", "groupId": "g", "currentNodes": 4, "minNodes": 2, ` + used + `},
			{"id": "b", "groupId": "h", "currentNodes": 4, "minNodes": 4, ` + used + `}, {"id": "new", "groupId": "g", "remainingEta": "1s"}]`,
			"oo+", "[0 2 4] [0 4] [1 2 4 8 16]"},
		"smallest sizes that do not fit a size limit together": {preemptive, `"totalNodes": 9, "sizeLimits": [{"size": 4, "nodes": 4}], "jobs": [
			{"id": "a", "currentNodes": 4, "minNodes": 4,
				` + used + `}, {"id": "b", "currentNodes": 4, "minNodes": 4, ` + used + `}]`, "oo", "[0 4] [0 4]"},
		"smallest sizes that would move and do not fit together": {preemptive, types + `,
			"sizeLimits": [{"size": 4, "nodes": 3, "nodeType": "x"}], "jobs": [
			{"id": "a", "currentNodes": 4, "currentNodeType": "x", "minNodes": 4, ` + used + `},
			{"id": "b", "currentNodes": 8, "currentNodeType": "y", "minNodes": 8, ` + used + `}]`, "oo", "[0 4] [0 8]"},
		"before loading jobs and new jobs": {startFirst, `"totalNodes": 3, "jobs": [{"id": "new", "remainingEta": "1s"},
			{"id": "loads", "currentNodes": 2, "minNodes": 2, "remainingEta": "9000s", "restartTime": "60s"},
			{"id": "a", "currentNodes": 2, "minNodes": 2, ` + used + `}]`, "+o+", "[1 2 4 8 16] [0 2 4 8 16] [2]"},
		"it loads": {startFirst, `"totalNodes": 2, "jobs": [{"id": "a", "currentNodes": 1, "remainingEta": "1s", "restartTime": "60s",
			"recentRestarts": ["0s", "0s", "0s"]}, {"id": "new", "remainingEta": "1s"},
			{"id": "next", "remainingEta": "1s"}]`, "++o", "[1] [1 2 4 8 16] [0 1 2 4 8 16]"},
		"running jobs in order": {fifo, `"totalNodes": 3, "jobs": [{"id": "a", "currentNodes": 2, "minNodes": 2, ` + unused + `},
			{"id": "b", "currentNodes": 2, "minNodes": 2, ` + used + `}]`, "+-", "[2 4 8 16]"},
	} {
		s := parse(t, fmt.Sprintf(`{"options": {"objective": "OBJECTIVE_TOTAL_TIME", "admission": %d}, "snapshot": {%s}}`,
			test.admission, test.text))
		classes, sizes := s.admissionClasses(t), []string{}
		m, err := newModel(s, 10, nil, newBudget(t.Context(), Options{}))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range m.members {
			sizes = append(sizes, fmt.Sprint(m.members[i].sizes))
		}
		if got := strings.Join(sizes, " "); classes != test.classes || got != test.sizes {
			t.Errorf("%s: %s with the sizes %s; want %s with %s", name, classes, got, test.classes, test.sizes)
		}
	}
}

// TestNearTies checks that the check is Open if rounding decides whether a new job displaces another.
func TestNearTies(t *testing.T) {
	t.Parallel()
	for weight, want := range map[float64]admissionClass{
		1: optional, math.Nextafter(1, 2): excluded, math.Nextafter(1, 0): excluded, 1 + 1e-9: required,
	} {
		s := parse(t, fmt.Sprintf(`{"snapshot": {"totalNodes": 1, "jobs": [
			{"id": "a", "remainingEta": "3600s", "trainingTime": "1s", "currentNodes": 1}, {"id": "b", "remainingEta": "3600s", "weight": %v}]},
			"options": {"admission": "ADMISSION_START_FIRST", "objective": "OBJECTIVE_TOTAL_TIME"}}`, weight))
		if classes, err := s.admit(); (err != nil) != (want == excluded) || err == nil && classes[1] != want {
			t.Errorf("with a weight of %v, the classes are %v, %v", weight, classes, err)
		}
	}
}

// TestMinETAErrors checks that rounded ETA errors are at least 0.1 unless the restart time is set to 0.
func TestMinETAErrors(t *testing.T) {
	t.Parallel()
	request := &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{TotalNodes: 500},
		Options:  &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME},
	}
	for i := range 1001 {
		j := &elastallocv1.Job{Id: fmt.Sprint(i), RemainingEta: durationpb.New(time.Hour), EtaError: new(float64(i%40) * 0.01)}
		switch i % 3 {
		case 0:
			j.RestartTime = durationpb.New(time.Minute)
		case 1:
			j.RestartTime = durationpb.New(0)
		}
		request.Snapshot.Jobs = append(request.Snapshot.Jobs, j)
	}
	s, err := parseRequest(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.totalTime.prepare(s, newBudget(t.Context(), Options{})); err != nil {
		t.Fatal(err)
	}
	for i, of := range s.totalTime.terms {
		want := math.Round(4*request.GetSnapshot().GetJobs()[i].GetEtaError()) / 4
		if i%3 != 1 {
			want = max(want, 0.1)
		}
		if of.etaError != want {
			t.Fatalf("job %d has the error %v; want %v", i, of.etaError, want)
		}
	}
}
