package external

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/subprocess"
)

// DefaultHiGHS is the program of HiGHS where none is named: that of this name on the PATH.
const DefaultHiGHS = "highs"

// HiGHS returns the backend that runs a program highs, a path or a name on the PATH;
// DefaultHiGHS if it is empty.
func HiGHS(program string) *subprocess.Backend {
	return subprocess.NewBackend(problem.BackendHiGHS, cmp.Or(program, DefaultHiGHS), highs{})
}

// highs is how to speak to HiGHS.
type highs struct{}

// Title returns the solver's name for a person.
func (highs) Title() string { return "HiGHS" }

// optionsFile is the name of the options file in the folder of a run.
const optionsFile = "options.txt"

// Arguments writes the options file and returns the command line.
func (highs) Arguments(task subprocess.Task) ([]string, error) {
	options := []string{
		// It stops once a plan is proven within this share of the plan. The absolute
		// gap, 1e-6 by default, would stop it as well.
		"mip_rel_gap = " + number(task.RelativeGap),
		"mip_abs_gap = 0",
		// A row may be broken by 1e-7 by default, and a job's progress with it; an
		// integer may be off by 1e-6.
		"primal_feasibility_tolerance = 1e-9",
		"mip_feasibility_tolerance = 1e-9",
		// One thread is what a decision is given; the same task, the same answer.
		"threads = 1",
		"parallel = off",
		"random_seed = 1",
		// Status and values, each with its name.
		"write_solution_to_file = true",
		"write_solution_style = 0",
		"solution_file = " + task.Solution,
		// Version and bound are read off the output.
		"log_to_console = true",
	}
	if task.TimeLimit > 0 {
		options = append(options, "time_limit = "+number(task.TimeLimit.Seconds())) // By the clock on the wall.
	}
	text := []byte(strings.Join(options, "\n") + "\n")
	if err := os.WriteFile(filepath.Join(task.Dir, optionsFile), text, 0o600); err != nil {
		return nil, err
	}
	arguments := []string{"--options_file=" + optionsFile}
	if task.Start != "" {
		arguments = append(arguments, "--read_solution_file="+task.Start)
	}
	return append(arguments, task.Model), nil
}

// VersionArguments returns the command line that prints the version alone.
func (highs) VersionArguments() []string { return []string{"--version"} }

// WriteStart writes a file for --read_solution_file, which looks like a solution
// file. Status and objective are there for its form; HiGHS works them out itself.
func (highs) WriteStart(w io.Writer, columns int, values iter.Seq2[string, float64]) error {
	buffered := bufio.NewWriter(w)
	fmt.Fprintf(buffered, "Model status\nUnknown\n\n# Primal solution values\nFeasible\nObjective 0\n# Columns %d\n", columns)
	for name, value := range values {
		fmt.Fprintln(buffered, name, number(value))
	}
	// HiGHS works out the values of the rows, and says so with a warning.
	fmt.Fprint(buffered, "# Rows 0\n\n# Dual solution values\nNone\n")
	return buffered.Flush()
}

// ParseVersion returns the version in the line that every output has:
//
//	HiGHS version 1.10.0 Githash n/a. Copyright (c) 2025 HiGHS under MIT licence terms
//	Running HiGHS 1.10.0 (git hash: n/a): Copyright (c) 2025 HiGHS under MIT licence terms
func (highs) ParseVersion(output string) string {
	for line := range strings.Lines(output) {
		for _, prefix := range []string{"HiGHS version ", "Running HiGHS "} {
			if rest, found := strings.CutPrefix(line, prefix); found {
				version, _, _ := strings.Cut(rest, " ")
				return strings.TrimSpace(version)
			}
		}
	}
	return ""
}

// ParseBound returns the dual bound in the report of a search.
func (highs) ParseBound(output string) float64 { return lastNumber(output, "Dual bound ") }

// ParseSolution parses a solution file of style 0:
//
//	Model status
//	Optimal
//
//	# Primal solution values
//	Feasible
//	Objective -39.979157810024
//	# Columns 300
//	x_1_1_1 0
//	...
//	# Rows 105
//
// Without a solution, "None" stands there instead of "Feasible" and nothing
// follows. What comes after the columns is not read, but the line of the rows must
// be there, so that a file that was cut off shows.
func (highs) ParseSolution(r io.Reader) (subprocess.Solution, error) {
	f := &file{lines: bufio.NewScanner(r)}
	f.lines.Buffer(nil, longestLine)
	solution := f.solution()
	if f.err != nil {
		return subprocess.Solution{}, f.err
	}
	return solution, nil
}

// file reads lines until one is not as it should be; that is its error.
type file struct {
	lines  *bufio.Scanner
	number int
	err    error
}

func (f *file) solution() subprocess.Solution {
	f.expect("Model status")
	s := subprocess.Solution{Status: f.line(), Objective: math.NaN()}
	f.expect("")
	f.expect("# Primal solution values")
	switch quality := f.line(); quality {
	case "Feasible":
		s.Verdict = verdict(s.Status, true)
	case "None":
		if s.Verdict = verdict(s.Status, false); s.Verdict == subprocess.Optimal {
			s.Objective = 0
		}
		return s
	case "Infeasible":
		// Infeasible values are those of a point that breaks rows: no plan.
		s.Verdict = verdict(s.Status, false)
		s.Status += ", solution infeasible"
		return s
	default:
		f.fail(`want "Feasible", "Infeasible" or "None", not %.100q`, quality)
	}
	_, s.Objective = f.field("Objective")
	if math.IsNaN(s.Objective) {
		f.fail("the objective is not a number")
	}
	_, columns := f.field("# Columns")
	s.Values = make(map[string]float64)
	for n := 0.0; n < columns && f.err == nil; n++ {
		name, value := f.field("")
		if _, twice := s.Values[name]; twice {
			f.fail("%s has two values", name)
		}
		s.Values[name] = value
	}
	f.field("# Rows")
	return s
}

// verdict returns what a status means with a solution or without.
func verdict(status string, solved bool) subprocess.Verdict {
	switch {
	case status == "Infeasible", status == "Primal infeasible or unbounded":
		return subprocess.Infeasible // With a solution it contradicts itself.
	case solved && status == "Optimal", !solved && status == "Empty": // The model has no columns.
		return subprocess.Optimal
	case solved:
		return subprocess.Feasible
	case status == "Time limit reached":
		return subprocess.TimeUp
	default:
		return subprocess.Failed
	}
}

// line returns the next line, without blanks around it.
func (f *file) line() string {
	if f.err != nil {
		return ""
	}
	f.number++
	if !f.lines.Scan() {
		f.err = fmt.Errorf("the file ends before line %d", f.number)
		if err := f.lines.Err(); err != nil {
			f.err = fmt.Errorf("line %d: %w", f.number, err)
		}
		return ""
	}
	return strings.TrimSpace(f.lines.Text())
}

// fail makes the last line read the one that is not as it should be.
func (f *file) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("line %d: %s", f.number, fmt.Sprintf(format, args...))
	}
}

func (f *file) expect(want string) {
	if got := f.line(); got != want {
		f.fail("want %.100q, not %.100q", want, got)
	}
}

// field reads a line of a keyword, or where that is "" of any name, and a number.
func (f *file) field(keyword string) (name string, value float64) {
	line := f.line()
	space := strings.LastIndexByte(line, ' ')
	value, err := strconv.ParseFloat(line[space+1:], 64)
	if name = line[:max(0, space)]; space < 0 || err != nil || keyword != "" && name != keyword {
		f.fail("want %s and a number, not %.100q", cmp.Or(keyword, "the name of a column"), line)
	}
	return name, value
}
