package main

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/internal/text"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// outputCSV is the output format for the rows of a list.
const outputCSV = "csv"

// list is the rows of a response, such as its jobs, as CSV and as a table shows them.
type list struct {
	// names are the names of the columns of CSV.
	names []string
	// rows are the values, in the order of the response. A value that is not known is "".
	rows [][]string
	// order is the positions of the rows to show, and more the number of other rows.
	order []int
	more  int
}

// newList returns a list of n rows, of which row returns the values.
func newList(names []string, n int, row func(i int) []string) *list {
	l := &list{names: names}
	for i := range n {
		l.rows, l.order = append(l.rows, row(i)), append(l.order, i)
	}
	return l
}

// arrange sorts the rows by a column, from the smallest value, or with "-" before its name from the largest one, and
// shows at most limit of them, or all if it is 0. Values that are not known are last.
func (l *list) arrange(by string, limit int) {
	by, descending := strings.CutPrefix(by, "-")
	if column := slices.Index(l.names, by); column >= 0 {
		numeric := !slices.ContainsFunc(l.rows, func(row []string) bool {
			_, err := strconv.ParseFloat(row[column], 64)
			return row[column] != "" && err != nil
		})
		slices.SortStableFunc(l.order, func(i, j int) int {
			a, b := l.rows[i][column], l.rows[j][column]
			if a == "" || b == "" {
				return cmp.Compare(len(b), 0) - cmp.Compare(len(a), 0) // The empty one is last.
			}
			order := strings.Compare(a, b)
			if numeric {
				x, _ := strconv.ParseFloat(a, 64)
				y, _ := strconv.ParseFloat(b, 64)
				order = cmp.Compare(x, y)
			}
			if descending {
				return -order
			}
			return order
		})
	}
	if limit > 0 && limit < len(l.order) {
		l.more = len(l.order) - limit
		l.order = l.order[:limit]
	}
}

// csv returns the rows to show as CSV, with a line of names. Values may have untrusted text; its control characters are
// replaced.
func (l *list) csv() (string, error) {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(l.names) // Flush returns the error.
	for _, i := range l.order {
		row := make([]string, len(l.rows[i]))
		for n, value := range l.rows[i] {
			row[n] = text.Printable(value)
		}
		_ = w.Write(row)
	}
	w.Flush()
	return b.String(), w.Error()
}

// note returns a line with the number of jobs that are not shown, or "" if all are.
func (l *list) note() string {
	if l.more == 0 {
		return ""
	}
	return fmt.Sprintf("and %s\n", format.Plural(l.more, "more job"))
}

// sortFlag is a flag whose value is the name of a column, optionally with "-" before it.
type sortFlag struct {
	value *string
	names []string
}

// String returns the value.
func (f sortFlag) String() string {
	if f.value == nil {
		return ""
	}
	return *f.value
}

// Set sets the column.
func (f sortFlag) Set(column string) error {
	name, descending := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(column, "-", "_")), "_")
	if !slices.Contains(f.names, name) {
		return fmt.Errorf("must be one of %s, with - before it for the largest first", strings.Join(f.names, ", "))
	}
	if *f.value = name; descending {
		*f.value = "-" + name
	}
	return nil
}

// Type returns what the help shows for a value.
func (sortFlag) Type() string { return "column" }

// addList adds the flags that arrange the list of a command.
func (f *decideFlags) addList(command *cobra.Command, names []string) {
	flags := command.Flags()
	flags.Var(sortFlag{&f.sort, names}, "sort",
		"sort the jobs by a column of -o csv, with - before it the largest first (default the order of the request)")
	flags.Var((*limitFlag)(&f.limit), "limit", "maximum number of jobs to list, 0 for all")
	// An error means that the flag is missing or has a completion function.
	_ = command.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

// limitFlag is a flag whose value is a number of rows.
type limitFlag int

// String returns the value.
func (f *limitFlag) String() string { return strconv.Itoa(int(*f)) }

// Set sets the number.
func (f *limitFlag) Set(number string) error {
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 {
		return errors.New("must be a number of jobs, at least 0")
	}
	*f = limitFlag(n)
	return nil
}

// Type returns what the help shows for a value.
func (*limitFlag) Type() string { return "int" }

// changeColumns are the columns of allocationValues.
func changeColumns() []string {
	return []string{
		"job_id", "group_id", "current_nodes", "nodes", "current_node_type", "node_type", "change", "wait_reason", "behind_job_id",
	}
}

// decisionColumns are the columns of the list of allocate.
func decisionColumns() []string {
	return append(changeColumns(), "current_completes_in_s", "completes_in_s")
}

// allocationValues returns the values of a job and its allocation.
func allocationValues(job *elastallocv1.Job, a *elastallocv1.Allocation) []string {
	wait := ""
	if a.GetWaitReason() != elastallocv1.WaitReason_WAIT_REASON_UNSPECIFIED {
		wait = cli.EnumName(a.GetWaitReason())
	}
	return []string{
		a.GetJobId(), job.GetGroupId(), number(job.GetCurrentNodes()), number(a.GetNodes()), job.GetCurrentNodeType(), a.GetNodeType(),
		cli.EnumName(a.GetChange()), wait, a.GetBehindJobId(),
	}
}

func number(n int32) string { return strconv.Itoa(int(n)) }

// seconds formats a duration in seconds.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
