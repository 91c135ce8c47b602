package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/client/placement"
	"github.com/elastalloc/elastalloc/internal/cli"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// maxMachines limits the machines of a file.
const maxMachines = 100_000

// machines are machines in a file that are alike.
type machines struct {
	// ID names a machine in errors. It is optional.
	ID string `json:"id"`
	// Block is shared by machines of a rack or an NVLink domain.
	Block string `json:"block"`
	// Units is the number of units of a machine. Free is how many of them jobs can use, by default all.
	Units int  `json:"units"`
	Free  *int `json:"free"`
	// Count is the number of machines, by default 1.
	Count *int `json:"count"`
}

// readMachines reads a file with a list of machines.
func readMachines(cmd *cobra.Command, name string) ([]placement.Node, error) {
	text, err := cli.ReadFile(cmd, name, io.ReadAll)
	if err != nil {
		return nil, err
	}
	var list []machines
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&list); err != nil {
		return nil, fmt.Errorf("parse %s: %w; must be a list of machines, such as [{\"units\": 8, \"count\": 4}]", name, err)
	}
	var nodes []placement.Node
	for n, m := range list {
		count, free := 1, m.Units
		if m.Count != nil {
			count = *m.Count
		}
		if m.Free != nil {
			free = *m.Free
		}
		if count < 1 || len(nodes)+count > maxMachines {
			return nil, fmt.Errorf("%s: machine %d: count is %d; must be at least 1, and at most %d for all machines", name, n+1, count, maxMachines)
		}
		for k := range count {
			node := placement.Node{ID: m.ID, Block: m.Block, Units: m.Units, Free: free}
			if m.ID == "" || count > 1 {
				node.ID = fmt.Sprintf("%s%d-%d", m.ID, n+1, k+1)
			}
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%s has no machine", name)
	}
	return nodes, nil
}

// putMachines sets the pool of a scenario to machines: their free units, and the size limits that they imply.
func putMachines(scenario *elastallocv1.Scenario, nodes []placement.Node, snapshot *elastallocv1.Snapshot) error {
	if len(snapshot.GetNodeTypes()) > 0 {
		return fmt.Errorf("--machines: the snapshot has node types; must have none")
	}
	total := 0
	for _, node := range nodes {
		total = min(total+max(0, node.Free), math.MaxInt32)
	}
	limits, err := placement.Limits(nodes, pieces(varied(inCore(snapshot), scenario).Jobs...))
	if err != nil {
		return fmt.Errorf("--machines: %w", err)
	}
	for _, limit := range snapshot.GetSizeLimits() {
		same := func(other *elastallocv1.SizeLimit) bool { return other.GetSize() == limit.GetSize() }
		if !slices.ContainsFunc(limits, same) { // The machines imply no limit.
			limits = append(limits, &elastallocv1.SizeLimit{Size: limit.GetSize(), Nodes: int32(total)})
		}
	}
	scenario.TotalNodes, scenario.PutSizeLimits = new(int32(total)), limits
	return nil
}

// pieces returns the sizes of the pieces of the legal allocations of jobs.
func pieces(jobs ...solver.Job) []int {
	var sizes []int
	for i := range jobs {
		for _, nodes := range jobs[i].LegalSizes() {
			largest, remainder := jobs[i].Pieces(nodes)
			if sizes = append(sizes, largest); remainder > 0 {
				sizes = append(sizes, remainder)
			}
		}
	}
	return sizes
}
