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

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/subprocess"
)

// DefaultHiGHS is the default program of HiGHS, which is searched on the PATH.
const DefaultHiGHS = "highs"

// HiGHS returns the backend that runs HiGHS. The program is a path or a name on the PATH; "" means
// DefaultHiGHS.
func HiGHS(program string) *subprocess.Backend {
	return subprocess.NewBackend(solver.BackendHiGHS, cmp.Or(program, DefaultHiGHS), highs{})
}

// highs is the dialect of HiGHS.
type highs struct{}

// DisplayName returns the name of the solver for people.
func (highs) DisplayName() string { return "HiGHS" }

// optionsFile is the name of the options file in the working directory of a run.
const optionsFile = "options.txt"

// Arguments writes the options file and returns the command line.
func (highs) Arguments(task subprocess.Task) ([]string, error) {
	options := []string{
		// HiGHS stops if a plan is proven within this share of the plan's objective. The absolute gap,
		// 1e-6 by default, would stop it too.
		"mip_rel_gap = " + formatNumber(task.RelativeGap),
		"mip_abs_gap = 0",
		// By default a row may be violated by 1e-7, and so may the progress of a job. An integer may be off
		// by 1e-6.
		"primal_feasibility_tolerance = 1e-9",
		"mip_feasibility_tolerance = 1e-9",
		// A decision has one thread, and results must be deterministic.
		"threads = 1",
		"parallel = off",
		"random_seed = 1",
		// The solution file has the status, and the values with their names.
		"write_solution_to_file = true",
		"write_solution_style = 0",
		"solution_file = " + task.Solution,
		// The output has the version and the bound.
		"log_to_console = true",
	}
	if task.TimeLimit > 0 {
		options = append(options, "time_limit = "+formatNumber(task.TimeLimit.Seconds())) // Wall-clock time.
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

// VersionArguments returns the command line that only prints the version.
func (highs) VersionArguments() []string { return []string{"--version"} }

// WriteStart writes a file for --read_solution_file. It has the format of a solution file. HiGHS requires a
// status and an objective, but computes both itself.
func (highs) WriteStart(w io.Writer, columns int, values iter.Seq2[string, float64]) error {
	buffered := bufio.NewWriter(w)
	fmt.Fprintf(buffered, "Model status\nUnknown\n\n# Primal solution values\nFeasible\nObjective 0\n# Columns %d\n", columns)
	for name, value := range values {
		fmt.Fprintln(buffered, name, formatNumber(value))
	}
	// HiGHS computes the values of the rows and prints a warning.
	fmt.Fprint(buffered, "# Rows 0\n\n# Dual solution values\nNone\n")
	return buffered.Flush()
}

// ParseVersion returns the version from one of these lines, which every output has:
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

// ParseBound returns the dual bound in the summary of a search.
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
// Without a solution, the file has "None" instead of "Feasible" and ends there. ParseSolution reads no
// further than the line with the number of rows, which must exist, so that truncated files are
// detected.
func (highs) ParseSolution(r io.Reader) (subprocess.Solution, error) {
	p := &solutionParser{lines: bufio.NewScanner(r)}
	p.lines.Buffer(nil, maxLineBytes)
	solution := p.solution()
	if p.err != nil {
		return subprocess.Solution{}, p.err
	}
	return solution, nil
}

// solutionParser parses the lines of a solution file until the first error.
type solutionParser struct {
	lines  *bufio.Scanner
	number int
	err    error
}

func (p *solutionParser) solution() subprocess.Solution {
	p.expect("Model status")
	s := subprocess.Solution{Status: p.line(), Objective: math.NaN()}
	p.expect("")
	p.expect("# Primal solution values")
	switch quality := p.line(); quality {
	case "Feasible":
		s.Verdict = parseVerdict(s.Status, true)
	case "None":
		if s.Verdict = parseVerdict(s.Status, false); s.Verdict == subprocess.Optimal {
			s.Objective = 0
		}
		return s
	case "Infeasible":
		// The values violate rows.
		s.Verdict = parseVerdict(s.Status, false)
		s.Status += ", solution infeasible"
		return s
	default:
		p.fail(`%.100q must be "Feasible", "Infeasible" or "None"`, quality)
	}
	_, s.Objective = p.field("Objective")
	if math.IsNaN(s.Objective) {
		p.fail("objective is NaN; must be a number")
	}
	_, columns := p.field("# Columns")
	s.Values = make(map[string]float64)
	for n := 0.0; n < columns && p.err == nil; n++ {
		name, value := p.field("")
		if _, duplicate := s.Values[name]; duplicate {
			p.fail("%s has two values", name)
		}
		s.Values[name] = value
	}
	p.field("# Rows")
	return s
}

// parseVerdict returns the meaning of a status with or without a solution.
func parseVerdict(status string, solved bool) subprocess.Verdict {
	switch {
	case status == "Infeasible", status == "Primal infeasible or unbounded":
		return subprocess.Infeasible // Even with a solution.
	case solved && status == "Optimal", !solved && status == "Empty": // The model has no columns.
		return subprocess.Optimal
	case solved:
		return subprocess.Feasible
	case status == "Time limit reached":
		return subprocess.TimedOut
	default:
		return subprocess.Failed
	}
}

// line returns the next line without surrounding spaces.
func (p *solutionParser) line() string {
	if p.err != nil {
		return ""
	}
	p.number++
	if !p.lines.Scan() {
		p.err = fmt.Errorf("unexpected end of file in line %d", p.number)
		if err := p.lines.Err(); err != nil {
			p.err = fmt.Errorf("line %d: %w", p.number, err)
		}
		return ""
	}
	return strings.TrimSpace(p.lines.Text())
}

// fail records an error in the current line. The first error remains.
func (p *solutionParser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("line %d: %s", p.number, fmt.Sprintf(format, args...))
	}
}

func (p *solutionParser) expect(want string) {
	if got := p.line(); got != want {
		p.fail("%.100q must be %.100q", got, want)
	}
}

// field parses a line that has a name and a number. The name must be the keyword unless that is "".
func (p *solutionParser) field(keyword string) (name string, value float64) {
	line := p.line()
	space := strings.LastIndexByte(line, ' ')
	value, err := strconv.ParseFloat(line[space+1:], 64)
	if name = line[:max(0, space)]; space < 0 || err != nil || keyword != "" && name != keyword {
		p.fail("%.100q must be %s and a number", line, cmp.Or(keyword, "the name of a column"))
	}
	return name, value
}
