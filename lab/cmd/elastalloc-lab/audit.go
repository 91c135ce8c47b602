package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/audit"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/internal/recording"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// maxAudits is the largest number of listed decisions for each verdict other than CONFIRMED.
const maxAudits = 20

func newAuditCommand(env cli.LookupEnv) *cobra.Command {
	var recordings []string
	var o audit.Options
	command := &cobra.Command{
		Use:   "audit --recording DIR",
		Short: "Check every recorded decision independently",
		Long: `Check the recorded responses of Allocate with the independent checker (see
elastalloc audit), and count the verdicts by objective and reason.

If a response with several steps was recorded without its plan, the decision is
made again. If it has the same allocations, its plan is used to check the
recorded objective. Otherwise, the verdict is OPEN.

The exit status is 1 if a decision is refuted, if a part of a recording cannot
be read, which includes a file that a server is still writing, if a decision is
recorded without its request or response, or if the recordings have no
decisions.`,
		Example: `  elastalloc-lab audit --recording recordings`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(recordings) == 0 {
				return errors.New("--recording is empty")
			}
			if o.Work < 1 {
				return fmt.Errorf("--work is %d; must be at least 1", o.Work)
			}
			allocator, err := cli.NewInProcess(nil, nil)
			if err != nil {
				return err
			}
			a := &audits{again: allocator, options: o, classes: make(map[string]map[audit.Verdict]int)}
			readErrors, err := readerOf(cmd, recordings)(func(e recording.Entry) error { return a.add(cmd.Context(), &e) })
			if err != nil {
				return recordingError(cmd, err)
			}
			out := cmd.OutOrStdout()
			if _, err := fmt.Fprint(out, a.table(cli.ScreenFor(out, env))); err != nil {
				return cli.Failed(err)
			}
			return cli.Failed(a.failure(readErrors))
		},
	}
	flags := command.Flags()
	flags.StringSliceVar(&recordings, "recording", nil, "folders of recordings")
	flags.IntVar(&o.Work, "work", audit.DefaultWork, "limit of elementary steps per decision, after which its verdict is OPEN")
	cli.MarkRequired(command, "recording")
	return command
}

type audits struct {
	again   apiconv.InProcess
	options audit.Options
	classes map[string]map[audit.Verdict]int
	// notable lists decisions that are not confirmed.
	notable []notable
	// incomplete counts decisions whose request or response is not recorded.
	incomplete int
}

type notable struct {
	time time.Time
	id   string
	audit.Report
}

// add checks a call, if it is a decision.
func (a *audits) add(ctx context.Context, e *recording.Entry) error {
	if e.Method != "Allocate" || e.Status != nil {
		return nil
	}
	request, requested := e.Request.(*elastallocv1.AllocateRequest)
	response, responded := e.Response.(*elastallocv1.AllocateResponse)
	if !requested || !responded { // For example because JSON cannot represent a duration in a frozen job.
		a.incomplete++
		return nil
	}
	report := audit.Check(ctx, request, response, a.options)
	if report.Verdict == audit.Open {
		if planned := a.planned(ctx, request, response); planned != nil {
			// The same allocations may have several plans, so a plan with another objective proves nothing.
			if again := audit.Check(ctx, request, planned, a.options); again.Verdict == audit.Confirmed {
				report = again
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	objective := cmp.Or(request.GetOptions().GetObjective(), apiconv.Number[elastallocv1.Objective](solver.DefaultObjective))
	class := cli.EnumName(objective) + ", " + cli.EnumName(response.GetReport().GetReason())
	if a.classes[class] == nil {
		a.classes[class] = make(map[audit.Verdict]int)
	}
	a.classes[class][report.Verdict]++
	if report.Verdict != audit.Confirmed {
		a.notable = append(a.notable, notable{e.Time, response.GetSnapshotId(), report})
	}
	return nil
}

// planned makes a recorded decision again and returns its response with plan and certificate, nil if the
// allocations differ.
func (a *audits) planned(
	ctx context.Context, request *elastallocv1.AllocateRequest, response *elastallocv1.AllocateResponse,
) *elastallocv1.AllocateResponse {
	request, planned := proto.CloneOf(request), proto.CloneOf(response)
	if request.Options == nil {
		request.Options = &elastallocv1.AllocateOptions{}
	}
	request.Options.Certificate = true
	again, err := a.again.Allocate(ctx, request)
	if err != nil || len(again.GetAllocations()) != len(planned.GetAllocations()) {
		return nil
	}
	for i, allocation := range again.GetAllocations() {
		if allocation.GetNodes() != planned.GetAllocations()[i].GetNodes() {
			return nil
		}
		planned.Allocations[i].PlannedNodes = allocation.GetPlannedNodes()
		planned.Allocations[i].PlannedProgress = allocation.GetPlannedProgress()
	}
	planned.Report.Certificate = again.GetReport().GetCertificate()
	return planned
}

// failure returns an error unless all recordings were read, at least one decision was checked, and no
// decision was refuted.
func (a *audits) failure(readErrors []recording.ReadError) error {
	var failures []string
	if refuted := a.count(audit.Refuted); refuted > 0 {
		failures = append(failures, format.Plural(refuted, "decision")+" refuted")
	}
	unread := make(map[string]bool) // by path
	for _, readError := range readErrors {
		if !errors.Is(readError.Err, recording.ErrClockSetBack) { // Such a file was read further.
			unread[readError.Path] = true
		}
	}
	if len(unread) > 0 {
		failures = append(failures, format.Plural(len(unread), "file")+" not read to the end")
	}
	if a.incomplete > 0 {
		failures = append(failures, format.Plural(a.incomplete, "decision")+" recorded without request or response")
	}
	if len(a.classes) == 0 {
		failures = append(failures, "no decision was checked")
	}
	if len(failures) == 0 {
		return nil
	}
	return errors.New(strings.Join(failures, "; "))
}

func (a *audits) count(v audit.Verdict) int {
	count := 0
	for _, class := range a.classes {
		count += class[v]
	}
	return count
}

func (a *audits) table(screen cli.Screen) string {
	verdicts := []audit.Verdict{audit.Confirmed, audit.Refuted, audit.Open}
	table := screen.NewTable().AlignRight(1, len(verdicts))
	header := []string{"DECISIONS"}
	for _, v := range verdicts {
		header = append(header, string(v))
	}
	table.AddRow(screen.Bold, header...)
	row := func(name string, of func(audit.Verdict) int) {
		cells := []string{name}
		for _, v := range verdicts {
			cells = append(cells, strconv.Itoa(of(v)))
		}
		table.AddRow(cli.Plain, cells...)
	}
	for _, name := range slices.Sorted(maps.Keys(a.classes)) {
		row(name, func(v audit.Verdict) int { return a.classes[name][v] })
	}
	row("all", a.count)
	text := table.String()
	for _, v := range verdicts[1:] {
		named := 0
		for _, n := range a.notable {
			if n.Verdict != v {
				continue
			}
			named++
			if named > maxAudits {
				text += fmt.Sprintf("and %d more %s\n", a.count(v)-maxAudits, v)
				break
			}
			text += screen.Wrap(fmt.Sprintf("%s, snapshot %q: %s: %s", n.time.UTC().Format(time.RFC3339), n.id, n.Verdict, n.Reason)) + "\n"
		}
	}
	return text
}
