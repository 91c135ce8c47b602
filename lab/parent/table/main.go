// Command table writes the table of docs/explanation/simplified-model.md: how often, and by how
// much, the first step of the paper's simplified model differs from that of its
// non-linear parent.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/elastalloc/elastalloc/lab/parent"
)

func main() {
	var study parent.Study
	flag.Uint64Var(&study.Seed, "seed", 1, "seed of the random snapshots")
	flag.IntVar(&study.Snapshots, "snapshots", 500, "snapshots for each row")
	flag.Parse()
	if err := study.WriteTable(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}
