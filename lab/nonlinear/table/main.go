// Command table writes the table from which docs/explanation/allocation-model.md quotes. It shows how often and by
// how much the first steps of the paper's two formulations differ.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/elastalloc/elastalloc/lab/nonlinear"
)

func main() {
	var study nonlinear.Study
	flag.Uint64Var(&study.Seed, "seed", 1, "seed of the random snapshots")
	flag.IntVar(&study.Snapshots, "snapshots", 500, "snapshots for each row")
	flag.Parse()
	if err := study.WriteTable(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}
