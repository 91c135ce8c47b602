package nonlinear

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// Study compares the formulations on random snapshots.
type Study struct {
	Seed      uint64
	Snapshots int // of each row of the table
}

// Sizes of the snapshots of a study, limited by the run time of exhaustive search.
const (
	jobs        = 4
	steps       = 4
	largestSize = 8
)

// finding is one row of the table.
type finding struct {
	nodes, short   int
	differs, tied  int
	loss, worst    float64 // sum and largest
	snapshotsTaken int
}

// WriteTable runs the study and writes its table in Markdown, with one row for each pool size and number
// of short jobs.
func (s Study) WriteTable(w io.Writer) error {
	if _, err := fmt.Fprint(w,
		"| nodes per job | short jobs | first step differs | by a tie alone | mean loss where it differs | mean loss | largest loss |\n",
		"|--:|--:|--:|--:|--:|--:|--:|\n"); err != nil {
		return err
	}
	// From about one node per job to enough nodes for almost all jobs.
	for _, nodes := range []int{5, 6, 8, 12, 16, 24} {
		for short := range jobs + 1 {
			f := s.find(nodes, short)
			if _, err := fmt.Fprint(w, f.markdown()); err != nil {
				return err
			}
		}
	}
	return nil
}

// find compares the formulations for one row, which has its own random stream.
func (s Study) find(nodes, short int) finding {
	random := rand.New(rand.NewPCG(s.Seed, uint64(nodes*(jobs+1)+short)))
	f := finding{nodes: nodes, short: short}
	for range s.Snapshots {
		p := problem.NewProblem(randomSnapshot(random, nodes, short), solver.AdmissionFIFO)
		c, ok := Compare(p)
		if !ok {
			continue // Does not occur after admission.
		}
		f.snapshotsTaken++
		if c.Differs {
			f.differs++
			f.loss += c.Loss()
			f.worst = max(f.worst, c.Loss())
		}
		if c.Tied {
			f.tied++
		}
	}
	return f
}

// randomSnapshot returns a random snapshot. Jobs are queued or have one of their legal sizes. short jobs
// complete on one node before the last step. Other jobs take 2 to 10 horizons on one node.
func randomSnapshot(random *rand.Rand, nodes, short int) *solver.Snapshot {
	s := &solver.Snapshot{TotalNodes: nodes, Horizon: solver.Horizon{Step: solver.DefaultStep, Steps: steps}}
	horizon := s.Horizon.Step * time.Duration(s.Horizon.Steps)
	for i := range jobs {
		shortest, longest := 2*horizon, 10*horizon
		if i < short {
			shortest, longest = time.Second, horizon-s.Horizon.Step
		}
		job := solver.NewJob(strconv.Itoa(i+1), shortest+time.Duration(random.Int64N(int64(longest-shortest))))
		job.MaxNodes = largestSize
		sizes := job.LegalSizes()
		if n := random.IntN(len(sizes) + 1); n > 0 {
			job.CurrentNodes = sizes[n-1]
		}
		s.Jobs = append(s.Jobs, job)
	}
	random.Shuffle(jobs, func(a, b int) { s.Jobs[a], s.Jobs[b] = s.Jobs[b], s.Jobs[a] })
	return s
}

func (f finding) markdown() string {
	taken := float64(max(1, f.snapshotsTaken))
	return fmt.Sprintf("| %.4g | %d of %d | %.1f%% | %.1f%% | %.2f%% | %.3f%% | %.2f%% |\n",
		float64(f.nodes)/jobs, f.short, jobs,
		100*float64(f.differs)/taken, 100*float64(f.tied)/taken,
		100*f.loss/float64(max(1, f.differs)), 100*f.loss/taken, 100*f.worst)
}
