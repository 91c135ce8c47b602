package status

import (
	"encoding/xml"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
)

// TestPast compares the table of the pictures with all decisions, grouped by the minute of their completion.
// Decisions that are too old or in the future are excluded.
func TestPast(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 3, 1, 0, 0, time.UTC)
	backends := []Backend{{Name: solver.BackendExact}, {Name: solver.BackendGreedy}}
	rapid.Check(t, func(t *rapid.T) {
		var h history
		want := make(map[string]string)
		start := now.Add(-7 * time.Hour)
		counts := make(map[string][5]int)
		for range rapid.IntRange(0, 40).Draw(t, "decisions") {
			start = start.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "seconds")) * time.Second)
			event, state, changes := randomDecision(t, start)
			h.Observe(t.Context(), event)
			from := start.Add(event.Total).Truncate(each)
			if from.After(now) {
				delete(want, from.Add(-columns*each).Format("15:04")) // It replaces the oldest column.
				continue
			}
			if !from.After(now.Truncate(each).Add(-columns * each)) {
				continue
			}
			label := from.Format("15:04")
			sums := counts[label]
			for i := range sums {
				sums[i] += changes[i]
			}
			counts[label] = sums
			want[label] = fmt.Sprint(state, sums)
		}
		var v view
		h.recall(&v)
		drawn, rows := v.past.pictures(now, backends)
		got := make(map[string]string)
		for _, row := range rows {
			by := [2]int{row.By[solver.BackendExact], row.By[solver.BackendGreedy]}
			got[row.From.Format("15:04")] = fmt.Sprint([]int{row.InUse, row.Idle, row.Running, row.Waiting, row.Paused},
				[5]int{row.Started, row.Resized, row.Pauses, by[0], by[1]})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the table (-want +got):\n%s", diff)
		}
		for _, picture := range drawn {
			for decoder := xml.NewDecoder(strings.NewReader(string(picture.SVG))); ; {
				if _, err := decoder.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(picture.Title, err)
				}
			}
		}
	})
}

// randomDecision returns a random call, the state after it, and the numbers of its changes.
func randomDecision(t *rapid.T, start time.Time) (event *ingress.Event, state []int, changes [5]int) {
	snapshot := new(elastallocv1.Snapshot)
	decision := new(solver.Decision)
	state = make([]int, 5)
	for range rapid.IntRange(0, 4).Draw(t, "jobs") {
		kind := rapid.IntRange(0, 5).Draw(t, "kind")
		job := new(elastallocv1.Job)
		var a solver.Allocation
		switch kind {
		case 0:
			a = solver.Allocation{Nodes: 2, Current: 2, Change: solver.ChangeKeep}
		case 1:
			a = solver.Allocation{Nodes: 4, Change: solver.ChangeStart}
			changes[0]++
		case 2:
			a = solver.Allocation{Nodes: 1, Current: 2, Change: solver.ChangeScaleDown}
			changes[1]++
		case 3:
			a = solver.Allocation{Current: 8, Change: solver.ChangePreempt}
			changes[2]++
		case 4:
			a = solver.Allocation{Change: solver.ChangeWait}
			job.TrainingTime = durationpb.New(time.Minute) // It was paused before.
		case 5:
			a = solver.Allocation{Change: solver.ChangeWait}
		}
		state[0] += a.Nodes
		switch {
		case a.Nodes > 0:
			state[2]++
		case kind == 5:
			state[3]++
		default:
			state[4]++
		}
		snapshot.Jobs = append(snapshot.Jobs, job)
		decision.Allocations = append(decision.Allocations, a)
	}
	state[1] = 20 - state[0]
	event = &ingress.Event{
		Method: "Allocate", Began: start, Total: time.Second, Nodes: 20, Outcome: ingress.Outcome{Decision: decision},
		Request: &elastallocv1.AllocateRequest{Snapshot: snapshot},
	}
	switch rapid.IntRange(0, 2).Draw(t, "by") {
	case 0:
		decision.Report.Backend, event.Report = solver.BackendExact, &decision.Report
		changes[3]++
	case 1:
		decision.Report.Backend, event.Report = solver.BackendGreedy, &decision.Report
		changes[4]++
	}
	return event, state, changes
}

// TestPricesOfOneUnit checks that the picture has only prices of the newest objective, and that the state of a
// decision is continued for at most half an hour.
func TestPricesOfOneUnit(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 3, 1, 0, 0, time.UTC)
	var h history
	for minute, objective := range map[int]solver.Objective{200: solver.ObjectiveProgress, 60: solver.ObjectiveTotalTime} {
		report := &solver.Report{Backend: solver.BackendExact, NodePrices: []float64{2, 4}}
		h.Observe(t.Context(), &ingress.Event{
			Method: "Allocate", Began: now.Add(-time.Duration(minute) * time.Minute), Nodes: 8,
			Outcome: ingress.Outcome{Report: report, Decision: new(solver.Decision{Report: *report}), Objective: objective},
		})
	}
	var v view
	h.recall(&v)
	drawn, rows := v.past.pictures(now, []Backend{{Name: solver.BackendExact}})
	prices := drawn[len(drawn)-1]
	if len(rows) != 2 || rows[0].Price != 3 || rows[1].Price != 3 ||
		math.IsNaN(rows[1].Price) || !strings.Contains(prices.Note, "job-seconds saved") {
		t.Errorf("prices %v, %q", rows, prices.Note)
	}
	if got := strings.Count(string(prices.SVG), "V"); got != 1+maxCarried {
		t.Errorf("%d columns of prices; want %d", got, 1+maxCarried)
	}
	if got := strings.Count(string(drawn[0].SVG), "V"); got != 2*(1+maxCarried) {
		t.Errorf("%d columns of nodes; want %d", got, 2*(1+maxCarried))
	}
}

// TestTeams checks that the teams with the most nodes are shown, the others are combined, and that there is no
// picture without teams.
func TestTeams(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 3, 1, 0, 0, time.UTC)
	for teams, want := range map[int]string{
		0: "",
		2: "b 2, <a> 1|<a> b others|1 2", // <a> has the most nodes over all columns.
		7: "g 7, f 6, e 5, d 4, c 3|<a> g f e d others|7 6 5 4 6",
	} {
		var h history
		decide := func(minutes int, nodes ...int) {
			snapshot, decision := new(elastallocv1.Snapshot), new(solver.Decision)
			for i, n := range nodes {
				id := append([]string{"<a>"}, "b", "c", "d", "e", "f", "g")[i]
				snapshot.Groups = append(snapshot.Groups, &elastallocv1.Group{Id: id})
				snapshot.Jobs = append(snapshot.Jobs, &elastallocv1.Job{GroupId: id})
				decision.Allocations = append(decision.Allocations, solver.Allocation{Nodes: n})
			}
			h.Observe(t.Context(), &ingress.Event{
				Method: "FillIdle", Began: now.Add(-time.Duration(minutes) * time.Minute), Outcome: ingress.Outcome{Decision: decision},
				Request: &elastallocv1.FillIdleRequest{Snapshot: snapshot},
			})
		}
		if all := []int{1, 2, 3, 4, 5, 6, 7}[:teams]; teams > 0 {
			decide(60, 50)
			decide(0, all...)
		} else {
			decide(0)
		}
		var v view
		h.recall(&v)
		drawn, rows := v.past.pictures(now, nil)
		got := rows[0].Teams
		for _, picture := range drawn {
			if picture.Title == "Nodes by team" {
				got += "|" + strings.Join(picture.Legend, " ") + "|" + strings.Join(lastColumn(t, picture.SVG, rows[0].InUse), " ")
			}
		}
		if got != want {
			t.Errorf("of %d teams it shows %q; want %q", teams, got, want)
		}
	}
}

var area = regexp.MustCompile(`M([\d.]+) ([\d.]+)H[\d.]+V([\d.]+)`)

// lastColumn returns the values of the last column of a picture, whose sum is known.
func lastColumn(t *testing.T, svg template.HTML, sum int) (values []string) {
	t.Helper()
	last, total := 0.0, 0.0
	var heights []float64
	for _, match := range area.FindAllStringSubmatch(string(svg), -1) {
		var at [3]float64
		for i := range at {
			at[i], _ = strconv.ParseFloat(match[i+1], 64)
		}
		if at[0] > last {
			last, total, heights = at[0], 0, nil
		}
		if height := at[1] - at[2]; at[0] == last {
			total, heights = total+height, append(heights, height)
		}
	}
	for _, height := range heights {
		values = append(values, fmt.Sprintf("%.0f", float64(sum)*height/total))
	}
	return values
}

// TestForecastPicture checks that each job that starts has a bar, and that texts of callers are escaped.
func TestForecastPicture(t *testing.T) {
	t.Parallel()
	page := newPage(t, Backend{Name: solver.BackendExact, State: func() chain.BackendState { return chain.BackendState{Up: true} }})
	in := func(minutes int) *time.Duration { return new(time.Duration(minutes) * time.Minute) }
	request := &elastallocv1.AllocateRequest{Snapshot: new(elastallocv1.Snapshot)}
	decision := new(solver.Decision)
	for _, id := range []string{"<script>", "never", "late"} {
		request.Snapshot.Jobs = append(request.Snapshot.Jobs, &elastallocv1.Job{Id: id})
		decision.Allocations = append(decision.Allocations, solver.Allocation{JobID: id, Change: solver.ChangeWait})
	}
	page.Observe(t.Context(), &ingress.Event{
		Method: "Allocate", Outcome: ingress.Outcome{Decision: decision, Report: &decision.Report}, Request: request,
	})
	page.explain(func(Decided, []string) (Insight, bool) {
		return Insight{Forecast: []solver.JobForecast{{Start: in(0), End: in(90)},
			{}, {Start: in(90), End: in(180), EndLow: in(120), EndHigh: in(200)}}}, true
	})
	var v view
	page.recall(&v)
	svg := string(forecasts(v.Decided.jobs())[0])
	if strings.Contains(svg, "<script>") || strings.Count(svg, "<rect") != 3 || strings.Contains(svg, "never") {
		t.Errorf("the forecast is %s", svg)
	}
	if got := page.text(t, time.Now()); !strings.Contains(got, "late 0 0 wait 1h30m 3h00m") || !strings.Contains(got, "never 0 0 wait – –") {
		t.Errorf("the page does not show the times: %s", got)
	}
}
