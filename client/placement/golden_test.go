package placement_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/client/placement"
)

var (
	update = flag.Bool("update", false, "rewrite the golden file")
	cases  = flag.Int("cases", 1, "multiple of the number of cases in the golden file, for -update")
)

// goldenCase is a problem with what Limits, Place and Steps return. The Python package has the same results.
type goldenCase struct {
	Nodes []goldenNode `json:"nodes"`
	Sizes []int        `json:"sizes"`
	Jobs  []goldenJob  `json:"jobs"`

	Limits      [][2]int                  `json:"limits"`
	LimitsError string                    `json:"limits_error,omitempty"`
	Placed      map[string]map[string]int `json:"placed"`
	Moved       []string                  `json:"moved,omitempty"`
	PlaceError  string                    `json:"place_error,omitempty"`
	Steps       []goldenStep              `json:"steps,omitempty"` // Steps has the error of Place.
}

type goldenStep struct {
	Job   string           `json:"job"`
	Do    placement.Action `json:"do"`
	On    map[string]int   `json:"on"`
	After []string         `json:"after"`
}

type goldenNode struct {
	ID    string `json:"id"`
	Block string `json:"block"`
	Units int    `json:"units"`
	Free  int    `json:"free"`
	// Releasing is the number of units that are being released.
	Releasing int `json:"releasing,omitempty"`
}

type goldenJob struct {
	ID    string         `json:"id"`
	Units int            `json:"units"`
	Piece int            `json:"piece"`
	On    map[string]int `json:"on"`
}

func golden(c problem) *goldenCase {
	g := &goldenCase{Nodes: []goldenNode{}, Sizes: c.Sizes, Jobs: []goldenJob{}, Limits: [][2]int{}}
	for _, node := range c.Nodes {
		g.Nodes = append(g.Nodes, goldenNode(node))
	}
	for _, job := range c.Jobs {
		g.Jobs = append(g.Jobs, goldenJob(job))
	}
	limits, err := placement.Limits(c.Nodes, c.Sizes)
	for _, limit := range limits {
		g.Limits = append(g.Limits, [2]int{int(limit.GetSize()), int(limit.GetNodes())})
	}
	if err != nil {
		g.LimitsError = err.Error()
	}
	placed, err := placement.Place(c.Nodes, c.Sizes, c.Jobs)
	g.Placed, g.Moved = placed.On, placed.Moved
	if err != nil {
		g.PlaceError = err.Error()
	}
	steps, stepsErr := placement.Steps(c.Nodes, c.Sizes, c.Jobs)
	if fmt.Sprint(stepsErr) != fmt.Sprint(err) {
		g.PlaceError += fmt.Sprint("; Steps: ", stepsErr)
	}
	for _, step := range steps {
		g.Steps = append(g.Steps, goldenStep{step.Job, step.Do, step.On, append([]string{}, step.After...)})
	}
	return g
}

// The kinds of results of Place.
const (
	placed     = "placed without a move"
	moved      = "placed with moves"
	impossible = "impossible"
	notFound   = "not found"
)

// result returns the kind of the result of Place.
func (g *goldenCase) result() string {
	switch {
	case strings.HasPrefix(g.PlaceError, placement.ErrNotNested.Error()):
		return notFound
	case g.PlaceError != "":
		return impossible
	case g.Moved != nil:
		return moved
	default:
		return placed
	}
}

// TestGolden compares results with a golden file that the test of the Python package reads, too;
// go test -update rewrites it. With -cases 40, the file has 12,000 cases, to compare Go and Python once.
func TestGolden(t *testing.T) {
	const file = "testdata/cases.jsonl"
	if *update {
		var lines bytes.Buffer
		write := func(c problem) {
			if err := json.NewEncoder(&lines).Encode(golden(c)); err != nil {
				t.Fatal(err)
			}
		}
		for _, of := range []struct {
			kinds [][]int
			left  map[string]int
		}{
			{chains, map[string]int{placed: 60, moved: 120, impossible: 40}},
			{unnested, map[string]int{placed: 20, moved: 40, impossible: 10, notFound: 10}},
		} {
			for result := range of.left {
				of.left[result] *= *cases
			}
			for seed := 0; slices.Max(slices.Collect(maps.Values(of.left))) > 0; seed++ {
				c := seeded(of.kinds, seed)
				if result := golden(c).result(); of.left[result] > 0 {
					of.left[result]--
					write(c)
				}
			}
		}
		write(problem{
			Nodes: []placement.Node{{ID: "a", Units: -1}, {ID: "a", Units: 8, Free: 9}, {Units: 8, Free: -1}, {ID: "b", Units: 1 << 31}},
			Sizes: []int{1, 0},
		})
		write(problem{Nodes: machines(1, 8, 0), Sizes: []int{}, Jobs: []placement.Job{
			{ID: "a", Units: -1}, {ID: "a", Units: 1 << 31}, {Piece: -1}, {ID: "b", On: map[string]int{"n0": -1, "n1": 1 << 31}},
		}})
		if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	line, seen := 0, make(map[string]int)
	for of := range bytes.Lines(text) {
		want := new(goldenCase)
		if err := json.Unmarshal(of, want); err != nil {
			t.Fatal(err)
		}
		c := problem{Sizes: want.Sizes}
		for _, node := range want.Nodes {
			c.Nodes = append(c.Nodes, placement.Node(node))
		}
		for _, job := range want.Jobs {
			c.Jobs = append(c.Jobs, placement.Job(job))
		}
		line++
		if diff := gocmp.Diff(want, golden(c)); diff != "" {
			t.Errorf("line %d (-want +got):\n%s", line, diff)
		}
		seen[want.result()]++
	}
	if seen[placed] < 80 || seen[moved] < 160 || seen[impossible] < 50 || seen[notFound] < 10 {
		t.Errorf("the results of the %d cases are %v", line, seen)
	}
}
